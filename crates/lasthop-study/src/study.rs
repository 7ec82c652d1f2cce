//! What published studies have in common: cells to run, and what was measured in them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use lasthop_proto::scheme::Scheme;
use lasthop_report::study as report;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, Summary};
use crate::stats::Estimate;

/// Why a study could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A scenario did not hold.
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
    /// A run holds too many frames.
    #[error(transparent)]
    Overflow(#[from] lasthop_sim::Overflow),
    /// The study has no such table or figure.
    #[error("{study} has no {what} {given}; it has {known}")]
    Unknown {
        /// The study.
        study: &'static str,
        /// `table` or `figure`.
        what: &'static str,
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// What makes up the study asks for a cell, or a scheme, that it does not have.
    #[error("{study} has no {what} {given:?}")]
    Inconsistent {
        /// The study.
        study: &'static str,
        /// `cell` or `scheme`.
        what: &'static str,
        /// What was asked for.
        given: String,
    },
    /// There is no such study.
    #[error("no study {given}; there are {known}")]
    NoSuchStudy {
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// The user stopped it.
    #[error("stopped before all runs were done")]
    Stopped,
}

/// Which part of the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// Everything.
    All,
    /// One table, by number.
    Table(String),
    /// One figure, by number.
    Figure(String),
}

impl Selection {
    /// How a title and a command name it.
    pub(crate) fn words(&self) -> (String, String) {
        match self {
            Self::All => (String::new(), String::new()),
            Self::Table(table) => (format!(", table {table}"), format!(" --table {table}")),
            Self::Figure(figure) => (format!(", figure {figure}"), format!(" --figure {figure}")),
        }
    }
}

/// How to reproduce.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this table or figure.
    pub selection: Selection,
    /// Runs a cell.
    pub runs: u32,
    /// Root seed.
    pub seed: u64,
    /// Threads; 0 for one per core.
    pub jobs: usize,
}

/// The program and its version, as pages name it.
const COMPUTED_BY: &str = concat!("lasthop ", env!("CARGO_PKG_VERSION"));

/// A published study: what has to be run for it, and what that is compared with.
pub trait Study: Sync {
    /// The name that selects it.
    fn name(&self) -> &'static str;

    /// What it is called.
    fn title(&self) -> &'static str;

    /// The publication that its published numbers come from.
    fn citation(&self) -> &'static str;

    /// Digital object identifier of that publication, if it has one that is known.
    fn doi(&self) -> Option<&'static str> {
        None
    }

    /// What was studied, and how: a paragraph each.
    fn introduction(&self) -> &'static [&'static str];

    /// The names of the cells of `selection` for people, by their own: parts, the most important one first.
    ///
    /// # Errors
    ///
    /// When the study has no such table or figure.
    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError>;

    /// What has to be run for `selection`.
    ///
    /// # Errors
    ///
    /// When the study has no such table or figure, or a scenario does not hold.
    fn cells(&self, selection: &Selection) -> Result<Vec<Cell>, StudyError>;

    /// What stands in the study, or in the part selected, from what was measured.
    ///
    /// # Errors
    ///
    /// When a scenario that is followed for a figure does not hold.
    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError>;

    /// The study, or the part selected, from what was measured.
    ///
    /// # Errors
    ///
    /// When a scenario that is followed for a figure does not hold.
    fn assemble(&self, options: &Options, results: &Results) -> Result<report::Study, StudyError> {
        let Contents { tables, claims, notes, figures } = self.contents(options, results)?;
        let (part, flags) = options.selection.words();
        Ok(report::Study {
            id: self.name().to_owned(),
            title: format!("{}{part}", self.title()),
            citation: self.citation().to_owned(),
            doi: self.doi().map(str::to_owned),
            introduction: self.introduction().iter().map(|&paragraph| paragraph.to_owned()).collect(),
            computed_by: COMPUTED_BY.to_owned(),
            seed: options.seed,
            names: self.names(&options.selection)?,
            command: format!(
                "lasthop reproduce {}{flags} --runs {} --seed {}",
                self.name(),
                options.runs,
                options.seed
            ),
            tables,
            claims,
            notes,
            figures,
        })
    }
}

/// What stands in a study.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Its tables, published numbers beside measured ones.
    pub tables: Vec<report::Table>,
    /// What it concludes, where its cells were run.
    pub claims: Vec<report::Claim>,
    /// What a reader has to know besides.
    pub notes: Vec<String>,
    /// Its figures.
    pub figures: Vec<report::NamedFigure>,
}

/// A cell of a study: a scenario under a scheme, to be run a number of times.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name, as `LL-SMART/LAN/32`.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
    /// The scheme.
    pub scheme: &'static Scheme,
}

/// The scheme of that name.
pub(crate) fn scheme(study: &'static str, name: &str) -> Result<&'static Scheme, StudyError> {
    Scheme::by_name(name).ok_or_else(|| StudyError::Inconsistent { study, what: "scheme", given: name.to_owned() })
}

/// The cells of a plan, each with its scenario and scheme, which it knows how to make.
pub(crate) fn cells<C>(
    plan: Vec<C>,
    name: impl Fn(&C) -> String,
    scenario: impl Fn(&C) -> Result<(Scenario, &'static Scheme), StudyError>,
) -> Result<Vec<Cell>, StudyError> {
    let cell = |cell: &C| {
        let (scenario, scheme) = scenario(cell)?;
        Ok(Cell { name: name(cell), scenario, scheme })
    };
    plan.iter().map(cell).collect()
}

/// What was measured in each cell.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Every cell of the study, whether it was run or not.
    known: BTreeSet<String>,
    /// The first cell asked for that the study does not have.
    unknown: RefCell<Option<String>>,
    cells: BTreeMap<String, Vec<Summary>>,
    /// The runs of a cell.
    runs: BTreeMap<String, Samples>,
}

impl Results {
    /// Nothing yet, of a study with these cells.
    pub(crate) fn of(known: impl IntoIterator<Item = String>) -> Self {
        Self { known: known.into_iter().collect(), ..Self::default() }
    }

    /// The first cell asked for that the study does not have: a claim or a table is wrong, and must not pass for one whose
    /// cells were not selected.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.unknown.borrow().clone()
    }

    fn expect(&self, cell: &str) {
        if !self.known.contains(cell) {
            self.unknown.borrow_mut().get_or_insert_with(|| cell.to_owned());
        }
    }

    /// Adds what the runs of a cell measured.
    pub(crate) fn insert(&mut self, cell: &str, samples: &Samples) {
        self.runs.insert(cell.to_owned(), samples.clone());
        self.cells.insert(cell.to_owned(), samples.summaries());
    }

    /// A measure of a cell with its unit, such as `throughput` of `E2E/LAN/32`.
    pub(crate) fn summary(&self, cell: &str, measure: &str) -> Option<&Summary> {
        self.expect(cell);
        self.cells.get(cell)?.iter().find(|summary| summary.name == measure)
    }

    /// The same without its unit.
    pub(crate) fn get(&self, cell: &str, measure: &str) -> Option<&Estimate> {
        self.summary(cell, measure).map(|summary| &summary.estimate)
    }

    /// A quantity made of the throughputs of several cells, run by run: runs of the same number meet the same errors and the
    /// same traffic, so that what they have in common drops out of a difference or a ratio.
    pub(crate) fn by_run<const N: usize>(
        &self,
        cells: [&str; N],
        quantity: impl Fn([f64; N]) -> f64,
    ) -> Option<Estimate> {
        self.measure_by_run("throughput", cells, quantity)
    }

    /// The same of another measure.
    pub(crate) fn measure_by_run<const N: usize>(
        &self,
        measure: &str,
        cells: [&str; N],
        quantity: impl Fn([f64; N]) -> f64,
    ) -> Option<Estimate> {
        cells.iter().for_each(|cell| self.expect(cell));
        let mut columns = [const { Vec::new() }; N];
        for (column, cell) in columns.iter_mut().zip(cells) {
            let samples = self.runs.get(cell)?;
            let at = samples.columns().iter().position(|(name, _)| name == measure)?;
            *column = samples.column(at).flatten().collect::<Vec<f64>>();
        }
        let runs = columns.iter().map(Vec::len).min()?;
        let values = (0..runs).map(|run| quantity(columns.each_ref().map(|column| column[run])));
        Estimate::of(&values.collect::<Vec<f64>>())
    }

    /// The ratio of two cells' throughputs, run by run.
    pub(crate) fn paired_ratio(&self, a: &str, b: &str) -> Option<Estimate> {
        self.by_run([a, b], |[a, b]| a / b)
    }

    pub(crate) fn throughput(&self, cell: &str) -> Option<&Estimate> {
        self.get(cell, "throughput")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_cell_is_not_one_that_was_left_out() {
        let results = Results::of(["E2E/LAN/8".to_owned(), "E2E/LAN/32".to_owned()]);
        assert!(results.throughput("E2E/LAN/8").is_none());
        assert_eq!(results.unknown(), None, "not selected");
        assert!(results.by_run(["E2E/LAN/32", "E2E/LAN/33"], |[a, b]| a - b).is_none());
        assert_eq!(results.unknown().as_deref(), Some("E2E/LAN/33"));
        let results = Results::of(["E2E/LAN/8".to_owned()]);
        assert!(results.get("E2E/lan/8", "wired_goodput").is_none());
        assert_eq!(results.unknown().as_deref(), Some("E2E/lan/8"));
    }

    #[test]
    fn unknown_schemes_are_errors() {
        let error = scheme("balakrishnan1997", "E2E-NEWRNO").unwrap_err().to_string();
        assert_eq!(error, "balakrishnan1997 has no scheme \"E2E-NEWRNO\"");
    }
}
