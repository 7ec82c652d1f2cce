//! Output of `lasthop reproduce`: files, text and JSON.

use std::collections::BTreeSet;
use std::io::{Write, stdout};
use std::path::Path;

use lasthop_report::study::{ClaimCounts, Study};
use lasthop_report::study_index::Accuracy;
use lasthop_report::text_table::{text_claims, text_lab_summaries, text_summaries, text_table};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::terminal::{fold, width};

/// Writes a study's files into `folder`.
pub fn write(folder: &Path, study: &Study) -> Result<(), Error> {
    for (name, bytes) in study.files()? {
        write_file(&folder.join(name), |file| file.write_all(&bytes))?;
    }
    Ok(())
}

pub fn print_study(folder: &Path, study: &Study) -> Result<(), Error> {
    let mut out = stdout().lock();
    let fold = |text: &str| fold(text, width());
    writeln!(out, "{}\n", fold(&study.citation))?;
    for table in &study.tables {
        writeln!(out, "{}", fold(&text_table(table, width())))?;
    }
    let lab = text_lab_summaries(&study.lab_summaries());
    writeln!(out, "{}", fold(&(text_summaries(&study.summaries()) + &lab)))?;
    writeln!(out, "{}", fold(&text_claims(&study.claims)))?;
    for note in &study.notes {
        writeln!(out, "{}\n", fold(note))?;
    }
    let written = format!("Written: {0}/index.html, {0}/cells.csv, {0}/figures/", folder.display());
    Ok(writeln!(out, "{}", fold(&written))?)
}

pub fn print_study_json(study: &Study) -> Result<(), Error> {
    let tables = study.tables.iter().map(|table| {
        let rows = table.rows.iter().map(|row| {
            let mut value = json!({
                "cell": row.cell, "metric": row.metric, "unit": row.unit, "published": row.published,
                "measured": row.measured, "ci95": row.ci95, "runs": row.runs,
            });
            if let Some(lab) = row.lab {
                value["lab"] = json!({ "value": lab.value, "ci95": lab.ci95, "runs": lab.runs });
            }
            value
        });
        json!({ "table": table.id, "title": table.title, "rows": rows.collect::<Vec<_>>() })
    });
    let claims = study.claims.iter().map(|claim| {
        json!({ "claim": claim.id, "text": claim.text, "holds": claim.verdict(), "evidence": claim.evidence() })
    });
    print_json(&json!({
        "study": study.id,
        "command": study.command,
        "tables": tables.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "notes": study.notes,
    }))
}

/// Size and outcome of a study, on one line.
struct Line<'a> {
    study: &'a Study,
    cells: usize,
    claims: ClaimCounts,
    accuracy: Accuracy,
}

impl<'a> Line<'a> {
    fn of(study: &'a Study) -> Self {
        let rows = study.tables.iter().flat_map(|table| &table.rows);
        Self {
            study,
            cells: rows.map(|row| &row.cell).collect::<BTreeSet<_>>().len(),
            claims: ClaimCounts::of(&study.claims),
            accuracy: Accuracy::of([study]),
        }
    }

    fn json(&self) -> Value {
        let Accuracy { cells, mean } = self.accuracy;
        let ClaimCounts { held, open, missed } = self.claims;
        json!({
            "study": self.study.id, "cells": self.cells, "claims": self.study.claims.len(), "claims_held": held,
            "claims_missed": missed, "claims_undecided": open,
            "published": cells, "deviation": (cells > 0).then_some(mean),
        })
    }
}

/// Prints a line for each study and for all of them.
pub fn print_studies(folder: &Path, studies: &[Study]) -> Result<(), Error> {
    let mut out = stdout().lock();
    // Headings of the claims: those that hold, those that do not, and those that the runs do not decide.
    writeln!(
        out,
        "{:22} {:>5} {:>5} {:>6} {:>9} {:>9}  deviation",
        "study", "cells", "hold", "do not", "undecided", "published"
    )?;
    let line = |Accuracy { cells, mean }: Accuracy| {
        let mean = if cells > 0 { format!("{mean:.1} %") } else { "–".to_owned() };
        format!("{cells:>9}  {mean:>9}")
    };
    for one in studies.iter().map(Line::of) {
        let ClaimCounts { held, open, missed } = one.claims;
        let accuracy = line(one.accuracy);
        writeln!(out, "{:22} {:>5} {held:>5} {missed:>6} {open:>9} {accuracy}", one.study.id, one.cells)?;
    }
    writeln!(out, "{:22} {:>5} {:>5} {:>6} {:>9} {}", "all", "", "", "", "", line(Accuracy::of(studies)))?;
    let undecided =
        "Columns 3 to 5 count claims. One is undecided if its 95 % interval contains the bound; --runs decides it.";
    writeln!(out, "\n{}", fold(undecided, width()))?;
    let written = format!("Written: {0}/index.html, and each study in {0}/STUDY/", folder.display());
    Ok(writeln!(out, "{}", fold(&written, width()))?)
}

pub fn print_studies_json(studies: &[Study]) -> Result<(), Error> {
    let Accuracy { cells, mean } = Accuracy::of(studies);
    let lines: Vec<Value> = studies.iter().map(|study| Line::of(study).json()).collect();
    print_json(&json!({ "studies": lines, "published": cells, "deviation": mean }))
}
