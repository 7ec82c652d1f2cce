//! `lasthop reproduce`

use std::fs::{self, File};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_identity::Fingerprint;
use lasthop_report::study::Study;
use lasthop_report::text_table::{text_claims, text_summaries, text_table};
use lasthop_study::measures::Samples;
use lasthop_study::replicate::{Task, run_each};
use lasthop_study::reproduce::{Plan, STUDIES};
use lasthop_study::study::{Options, Selection};
use serde_json::json;

use crate::cli::ReproduceArgs;
use crate::error::Error;
use crate::output::{count, print_json, write_file};
use crate::progress::{Runs, note};
use crate::terminal::{fold, width};

pub fn execute(args: &ReproduceArgs) -> Result<(), Error> {
    match &args.study {
        Some(name) => reproduce(name, args),
        None => list(args),
    }
}

/// Prints the studies with their numbers of cells.
fn list(args: &ReproduceArgs) -> Result<(), Error> {
    let mut rows = Vec::new();
    for study in STUDIES {
        let cells = study.cells(&Selection::All)?.len();
        rows.push((study.name(), cells, study.title()));
    }
    if args.json.json {
        let studies = rows.iter().map(|(name, cells, title)| json!({ "study": name, "cells": cells, "title": title }));
        return print_json(&json!({ "studies": studies.collect::<Vec<_>>() }));
    }
    let mut out = stdout().lock();
    writeln!(out, "{:22} {:>5}  title", "study", "cells")?;
    for (name, cells, title) in rows {
        writeln!(out, "{name:22} {cells:>5}  {title}")?;
    }
    Ok(())
}

fn reproduce(name: &str, args: &ReproduceArgs) -> Result<(), Error> {
    let selection = match (&args.table, &args.figure) {
        (Some(table), _) => Selection::Table(table.clone()),
        (None, Some(figure)) => Selection::Figure(figure.clone()),
        (None, None) => Selection::All,
    };
    let options = Options { selection, runs: args.runs, seed: args.seed, jobs: args.jobs };
    // Fail now, rather than after all runs.
    let figures = args.out.join("figures");
    std::fs::create_dir_all(&figures).map_err(Error::file(&figures))?;
    let plan = Plan::new(name, &options)?;
    let journal = Journal::open(&args.out.join("cells.partial"), args, &plan)?;
    let study = plan.finish(&compute(args, &plan, &journal)?)?;
    write(args, &study)?;
    journal.remove()?;
    if args.json.json { print_study_json(&study) } else { print_study(args, &study) }
}

/// Returns the samples of each cell: from the journal, or from runs, which are added to it as they finish.
fn compute(args: &ReproduceArgs, plan: &Plan, journal: &Journal) -> Result<Vec<Samples>, Error> {
    let mut all: Vec<Samples> = journal.done.iter().map(|values| samples(plan, values.clone())).collect();
    let (done, total) = (all.len(), plan.cells().len());
    if done > 0 {
        note(&format!("resuming: {done} of {} are in {}", count(total, "cell"), journal.path.display()));
    }
    let tasks = plan.cells()[done..].iter();
    let tasks = tasks.map(|cell| Task::new(&cell.scenario, cell.scheme, args.seed, args.runs));
    let tasks: Vec<Task> = tasks.collect::<Result<_, _>>()?;
    let progress = Runs::new(plan.study(), tasks.len() as u64 * u64::from(args.runs));
    let mut cell = samples(plan, Vec::new());
    let mut file = journal.file()?;
    run_each(&tasks, args.jobs, &progress, |at, report| -> Result<(), Error> {
        cell.push(&tasks[at].network, &report);
        if cell.runs() == args.runs as usize {
            let whole = std::mem::replace(&mut cell, samples(plan, Vec::new()));
            let values: Vec<String> = whole.values().iter().map(|value| format!("{value:?}")).collect();
            writeln!(file, "{}", values.join(" ")).map_err(Error::file(&journal.path))?;
            all.push(whole);
        }
        Ok(())
    })?;
    progress.finish();
    let done = all.len();
    if done < total { Err(Error::StudyStopped { done, total, path: journal.path.clone() }) } else { Ok(all) }
}

fn samples(plan: &Plan, values: Vec<f64>) -> Samples {
    Samples::from_values(plan.measures().to_vec(), values)
}

/// File that receives cells as they finish: a line that identifies the study, then one line per cell.
struct Journal {
    path: PathBuf,
    head: String,
    /// Values of the cells in the journal.
    done: Vec<Vec<f64>>,
}

impl Journal {
    /// Reads the journal. Ignores one of another study, other options or other sources of lasthop.
    fn open(path: &Path, args: &ReproduceArgs, plan: &Plan) -> Result<Self, Error> {
        let mut all = Fingerprint::new().number(args.seed).number(args.runs.into());
        for (name, unit) in plan.measures() {
            all = all.text(name).text(unit);
        }
        for cell in plan.cells() {
            all = all.text(&cell.name).text(cell.scheme.name).text(cell.scenario.to_toml());
        }
        let head = format!(
            "# lasthop reproduce {}, seed {}, runs {}: {:016x}",
            plan.study(),
            args.seed,
            args.runs,
            all.finish()
        );
        let text = if path.exists() { fs::read_to_string(path).map_err(Error::file(path))? } else { String::new() };
        let mut lines = text.split_inclusive('\n');
        let ours = lines.next().is_some_and(|line| line.trim_end() == head);
        let wanted = plan.measures().len() * args.runs as usize;
        let cell = |line: &str| {
            // The last line is incomplete if the process was killed.
            let values = line.strip_suffix('\n')?.split(' ').map(|value| value.parse().ok());
            values.collect::<Option<Vec<f64>>>().filter(|values| values.len() == wanted)
        };
        let done = if ours { lines.map_while(cell).take(plan.cells().len()).collect() } else { Vec::new() };
        Ok(Self { path: path.to_owned(), head, done })
    }

    /// Opens the file for writing, with its valid contents.
    fn file(&self) -> Result<File, Error> {
        let write = || {
            let mut file = File::create(&self.path)?;
            writeln!(file, "{}", self.head)?;
            for values in &self.done {
                let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                writeln!(file, "{}", values.join(" "))?;
            }
            Ok(file)
        };
        write().map_err(Error::file(&self.path))
    }

    fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file(&self.path))
    }
}

fn write(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    for (name, bytes) in study.files()? {
        write_file(&args.out.join(name), |file| file.write_all(&bytes))?;
    }
    Ok(())
}

fn print_study(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    let mut out = stdout().lock();
    let fold = |text: &str| fold(text, width());
    writeln!(out, "{}\n", fold(&study.citation))?;
    for table in &study.tables {
        writeln!(out, "{}", fold(&text_table(table, width())))?;
    }
    writeln!(out, "{}", fold(&text_summaries(&study.summaries())))?;
    writeln!(out, "{}", fold(&text_claims(&study.claims)))?;
    for note in &study.notes {
        writeln!(out, "{}\n", fold(note))?;
    }
    let written = format!("Written: {0}/index.html, {0}/cells.csv, {0}/figures/", args.out.display());
    Ok(writeln!(out, "{}", fold(&written))?)
}

fn print_study_json(study: &Study) -> Result<(), Error> {
    let tables = study.tables.iter().map(|table| {
        let rows = table.rows.iter().map(|row| {
            json!({
                "cell": row.cell, "metric": row.metric, "unit": row.unit, "published": row.published,
                "measured": row.measured, "ci95": row.ci95, "runs": row.runs,
            })
        });
        json!({ "table": table.id, "title": table.title, "rows": rows.collect::<Vec<_>>() })
    });
    let claims = study.claims.iter().map(|claim| {
        let holds = claim.holds == lasthop_report::study::Holds::Yes;
        json!({ "claim": claim.id, "text": claim.text, "holds": holds, "evidence": claim.evidence() })
    });
    print_json(&json!({
        "study": study.id,
        "command": study.command,
        "tables": tables.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "notes": study.notes,
    }))
}
