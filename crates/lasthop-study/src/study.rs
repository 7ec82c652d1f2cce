//! Common parts of published studies: cells to run, and their results.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use lasthop_proto::scheme::Scheme;
use lasthop_report::study as report;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, Summary};
use crate::stats::Estimate;

/// Error of reproducing a study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
    /// A run holds too many frames.
    #[error(transparent)]
    Overflow(#[from] lasthop_sim::Overflow),
    /// The study has no such table or figure.
    #[error("{study} has no {what} {given}; it has {known}")]
    Unknown {
        /// Name of the study.
        study: &'static str,
        /// `table` or `figure`.
        what: &'static str,
        /// The requested part.
        given: String,
        /// Parts of the study.
        known: String,
    },
    /// The study refers to a cell or scheme that it does not have.
    #[error("{study} has no {what} {given:?}")]
    Inconsistent {
        /// Name of the study.
        study: &'static str,
        /// `cell` or `scheme`.
        what: &'static str,
        /// The requested name.
        given: String,
    },
    /// The study does not exist.
    #[error("no study {given}; expected one of {known}")]
    NoSuchStudy {
        /// The requested name.
        given: String,
        /// Names of the studies.
        known: String,
    },
    /// The user stopped the study.
    #[error("stopped before all runs were done")]
    Stopped,
}

/// Selected part of a study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// The whole study.
    All,
    /// One table, by number.
    Table(String),
    /// One figure, by number.
    Figure(String),
}

impl Selection {
    /// Returns the selection's form in a title and in a command.
    pub(crate) fn words(&self) -> (String, String) {
        match self {
            Self::All => (String::new(), String::new()),
            Self::Table(table) => (format!(", table {table}"), format!(" --table {table}")),
            Self::Figure(figure) => (format!(", figure {figure}"), format!(" --figure {figure}")),
        }
    }
}

/// Options of a reproduction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Table or figure to reproduce.
    pub selection: Selection,
    /// Number of runs per cell.
    pub runs: u32,
    /// Root seed.
    pub seed: u64,
    /// Number of threads; 0 for one per core.
    pub jobs: usize,
}

/// Program and version, as shown on pages.
const COMPUTED_BY: &str = concat!("lasthop ", env!("CARGO_PKG_VERSION"));

/// A published study: cells to run, and published values to compare with.
pub trait Study: Sync {
    /// Returns the name that selects the study.
    fn name(&self) -> &'static str;

    /// Returns the study's title.
    fn title(&self) -> &'static str;

    /// Returns the number of seconds after which the steady throughput of each flow is measured, if it is a metric of
    /// the study's cells.
    fn steady_from(&self) -> Option<u64> {
        None
    }

    /// Returns whether durations of transfers and overheads of links are metrics of the study's cells.
    fn has_durations(&self) -> bool {
        false
    }

    /// Returns the names of the cells that the lab runs as well.
    fn lab_cells(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the publication with its published values.
    fn citation(&self) -> &'static str;

    /// Returns the digital object identifier of that publication, if known.
    fn doi(&self) -> Option<&'static str> {
        None
    }

    /// Returns the introduction of the topic and method: paragraphs.
    fn introduction(&self) -> &'static [&'static str];

    /// Returns the display names of the cells of `selection`, by cell: parts, the most important one first.
    ///
    /// # Errors
    ///
    /// Returns an error if the study has no such table or figure.
    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError>;

    /// Returns the cells to run for `selection`.
    ///
    /// # Errors
    ///
    /// Returns an error if the study has no such table or figure, or if a scenario is invalid.
    fn cells(&self, selection: &Selection) -> Result<Vec<Cell>, StudyError>;

    /// Returns the names of all cells.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario is invalid.
    fn cell_names(&self) -> Result<Vec<String>, StudyError> {
        Ok(self.cells(&Selection::All)?.into_iter().map(|cell| cell.name).collect())
    }

    /// Returns the contents of the study, or of the selected part, from its results.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario for a figure is invalid.
    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError>;

    /// Assembles the study, or the selected part, from its results.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario for a figure is invalid.
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

/// Contents of a study.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Tables of published and measured values.
    pub tables: Vec<report::Table>,
    /// Conclusions whose cells were run.
    pub claims: Vec<report::Claim>,
    /// Further information for readers.
    pub notes: Vec<String>,
    /// Figures.
    pub figures: Vec<report::NamedFigure>,
}

/// A cell of a study: a scenario under a scheme, with a number of runs.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name, such as `LL-SMART/LAN/32`.
    pub name: String,
    /// Scenario.
    pub scenario: Scenario,
    /// Scheme.
    pub scheme: &'static Scheme,
}

/// Returns the scheme of that name.
pub(crate) fn scheme(study: &'static str, name: &str) -> Result<&'static Scheme, StudyError> {
    Scheme::by_name(name).ok_or_else(|| StudyError::Inconsistent { study, what: "scheme", given: name.to_owned() })
}

/// Returns the cells of a plan. `name` and `scenario` return their names, scenarios and schemes.
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

/// Results of each cell.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// All cells of the study, whether they were run or not.
    known: BTreeSet<String>,
    /// First requested cell that the study does not have.
    unknown: RefCell<Option<String>>,
    cells: BTreeMap<String, Vec<Summary>>,
    /// Runs of each cell.
    runs: BTreeMap<String, Samples>,
    /// Results of the cells that were run in the lab.
    lab: Option<Box<Results>>,
}

impl Results {
    /// Creates empty results of a study with these cells.
    pub(crate) fn of(known: impl IntoIterator<Item = String>) -> Self {
        Self { known: known.into_iter().collect(), ..Self::default() }
    }

    /// Returns the first requested cell that the study does not have. It reveals an error in a claim or table, in
    /// contrast to cells that were not selected.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.unknown.borrow().clone()
    }

    fn expect(&self, cell: &str) {
        if !self.known.contains(cell) {
            self.unknown.borrow_mut().get_or_insert_with(|| cell.to_owned());
        }
    }

    /// Adds the results of a cell's runs.
    pub(crate) fn insert(&mut self, cell: &str, samples: &Samples) {
        self.runs.insert(cell.to_owned(), samples.clone());
        self.cells.insert(cell.to_owned(), samples.summaries());
    }

    /// Adds the results of the cells that were run in the lab.
    pub(crate) fn set_lab(&mut self, lab: Self) {
        self.lab = Some(Box::new(lab));
    }

    /// Returns the results of the lab, if cells were run there.
    pub(crate) fn lab(&self) -> Option<&Self> {
        self.lab.as_deref()
    }

    /// Returns a metric of a cell with its unit, such as `throughput` of `E2E/LAN/32`.
    pub(crate) fn summary(&self, cell: &str, measure: &str) -> Option<&Summary> {
        self.expect(cell);
        self.cells.get(cell)?.iter().find(|summary| summary.name == measure)
    }

    /// Returns the estimate of a metric of a cell.
    pub(crate) fn get(&self, cell: &str, measure: &str) -> Option<&Estimate> {
        self.summary(cell, measure).map(|summary| &summary.estimate)
    }

    /// Returns the estimate of a quantity derived from the throughputs of several cells, run by run: runs of the same
    /// number meet the same errors and traffic, so their common variation cancels in a difference or a ratio.
    pub(crate) fn by_run<const N: usize>(
        &self,
        cells: [&str; N],
        quantity: impl Fn([f64; N]) -> f64,
    ) -> Option<Estimate> {
        self.measure_by_run("throughput", cells, quantity)
    }

    /// Returns the estimate of a quantity derived from another metric of several cells, run by run.
    pub(crate) fn measure_by_run<const N: usize>(
        &self,
        measure: &str,
        cells: [&str; N],
        quantity: impl Fn([f64; N]) -> f64,
    ) -> Option<Estimate> {
        Estimate::of(&self.values_by_run(measure, cells, quantity)?)
    }

    /// Returns the quantity of [`measure_by_run`](Self::measure_by_run) in each run.
    pub(crate) fn values_by_run<const N: usize>(
        &self,
        measure: &str,
        cells: [&str; N],
        quantity: impl Fn([f64; N]) -> f64,
    ) -> Option<Vec<f64>> {
        cells.iter().for_each(|cell| self.expect(cell));
        let mut columns = [const { Vec::new() }; N];
        for (column, cell) in columns.iter_mut().zip(cells) {
            let samples = self.runs.get(cell)?;
            let at = samples.columns().iter().position(|(name, _)| name == measure)?;
            *column = samples.column(at).flatten().collect::<Vec<f64>>();
        }
        let runs = columns.iter().map(Vec::len).min()?;
        Some((0..runs).map(|run| quantity(columns.each_ref().map(|column| column[run]))).collect())
    }

    /// Returns the estimate of the ratio of two cells' throughputs, run by run.
    pub(crate) fn paired_ratio(&self, a: &str, b: &str) -> Option<Estimate> {
        self.by_run([a, b], |[a, b]| a / b)
    }

    /// Returns a quantity derived from several metrics of a cell, in each run. `quantity` gets `None` for a metric that
    /// the run lacks, and returns `None` if the run lacks the quantity.
    pub(crate) fn values_of<const N: usize>(
        &self,
        cell: &str,
        measures: [&str; N],
        quantity: impl Fn([Option<f64>; N]) -> Option<f64>,
    ) -> Option<Vec<Option<f64>>> {
        self.expect(cell);
        let samples = self.runs.get(cell)?;
        let columns = measures.map(|measure| {
            let at = samples.columns().iter().position(|(name, _)| name == measure);
            at.map(|at| samples.column(at).collect::<Vec<_>>()).unwrap_or_default()
        });
        let value = |run: usize| quantity(columns.each_ref().map(|column| column.get(run).copied().flatten()));
        Some((0..samples.runs()).map(value).collect())
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
