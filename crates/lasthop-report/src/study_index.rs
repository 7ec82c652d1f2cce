//! One page over several studies, with a link to the page of each.

use std::collections::BTreeSet;

use minijinja::value::Serde;
use serde::Serialize;

use crate::error::ReportError;
use crate::html::{STYLE, environment, rule, summaries};
use crate::study::{ClaimCounts, Study};

const TEMPLATE: &str = include_str!("../templates/studies.html.j2");

#[derive(Serialize)]
struct IndexView<'a> {
    style: &'static str,
    computed_by: &'a str,
    seed: u64,
    total: String,
    rule: String,
    command: &'a str,
    studies: Vec<StudyView<'a>>,
}

#[derive(Serialize)]
struct StudyView<'a> {
    id: &'a str,
    title: &'a str,
    citation: &'a str,
    cells: usize,
    runs: u32,
    claims: ClaimCounts,
    deviations: Vec<String>,
}

/// Number of cells with published numbers of the same system in several studies, and their mean absolute deviation in
/// percent. Numbers that are percentages themselves are not included.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Accuracy {
    /// Number of cells.
    pub cells: usize,
    /// Mean absolute deviation in percent.
    pub mean: f64,
}

impl Accuracy {
    /// Returns the accuracy over all tables of `studies`. A number that several tables show counts once.
    pub fn of<'a>(studies: impl IntoIterator<Item = &'a Study>) -> Self {
        let mut off = Vec::new();
        for study in studies {
            let mut known = BTreeSet::new();
            for row in study.tables.iter().flat_map(|table| &table.rows) {
                let relative = row.deviation().filter(|_| !matches!(row.unit.as_str(), "percent" | "%"));
                let Some(deviation) = relative else { continue };
                if known.insert((&row.cell, &row.metric)) {
                    off.push(deviation.percent().abs());
                }
            }
        }
        let mean = off.iter().sum::<f64>() / off.len().max(1) as f64;
        Self { cells: off.len(), mean }
    }
}

/// Renders the page over `studies`, whose own pages are in folders with their names. `command` repeats them all.
///
/// # Errors
///
/// Returns an error if the page cannot be filled in.
pub fn studies_html(studies: &[Study], command: &str) -> Result<String, ReportError> {
    let Accuracy { cells, mean } = Accuracy::of(studies);
    let view = IndexView {
        style: STYLE.trim_end(),
        computed_by: studies.first().map_or("", |study| &study.computed_by),
        seed: studies.first().map_or(0, |study| study.seed),
        total: format!("mean absolute deviation {mean:.1} % over {cells} published cells, misses included"),
        rule: rule(),
        command,
        studies: studies.iter().map(StudyView::of).collect(),
    };
    let mut environment = environment()?;
    environment.add_template("studies.html", TEMPLATE)?;
    Ok(environment.get_template("studies.html")?.render(Serde(&view))?)
}

impl<'a> StudyView<'a> {
    fn of(study: &'a Study) -> Self {
        let rows = || study.tables.iter().flat_map(|table| &table.rows);
        Self {
            id: &study.id,
            title: &study.title,
            citation: &study.citation,
            cells: rows().map(|row| &row.cell).collect::<BTreeSet<_>>().len(),
            runs: rows().map(|row| row.runs).max().unwrap_or(0),
            claims: ClaimCounts::of(&study.claims),
            deviations: summaries(study),
        }
    }
}
