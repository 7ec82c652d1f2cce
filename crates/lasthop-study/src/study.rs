//! The published studies by name, and what reproducing one takes.

use std::collections::BTreeMap;

use lasthop_report::study::Study;

use crate::measures::{Summary, find, summarise, throughput};
use crate::replicate::{Progress, Task, run_all};
use crate::stats::Estimate;
use crate::{balakrishnan1997, xylomenos_kokkinakis};

/// The names that select studies.
pub const STUDIES: [&str; 2] = [balakrishnan1997::NAME, xylomenos_kokkinakis::NAME];

/// Why a study could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A scenario did not hold.
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
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
    /// There is no such study.
    #[error("no study {given}; there are {}", STUDIES.join(", "))]
    NoSuchStudy {
        /// What was asked for.
        given: String,
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

/// Runs in all, for a progress bar.
///
/// # Errors
///
/// When there is no such study, or it has no such table or figure.
pub fn total_runs(study: &str, options: &Options) -> Result<u64, StudyError> {
    let cells = match study {
        balakrishnan1997::NAME => balakrishnan1997::plan(&options.selection)?.len(),
        xylomenos_kokkinakis::NAME => xylomenos_kokkinakis::plan(&options.selection)?.len(),
        _ => return Err(StudyError::NoSuchStudy { given: study.to_owned() }),
    };
    Ok(cells as u64 * u64::from(options.runs))
}

/// Runs a study, or the part selected, and returns it with its tables, claims and figures. Claims that need cells outside
/// the selection are left out.
///
/// # Errors
///
/// As [`total_runs`], and when `progress` stops it.
pub fn reproduce(study: &str, options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    match study {
        balakrishnan1997::NAME => balakrishnan1997::reproduce(options, progress),
        xylomenos_kokkinakis::NAME => xylomenos_kokkinakis::reproduce(options, progress),
        _ => Err(StudyError::NoSuchStudy { given: study.to_owned() }),
    }
}

/// Runs the tasks of cells and sums each cell up under its name.
pub(crate) fn run_cells(
    cells: Vec<(String, Task)>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Results, StudyError> {
    let (names, tasks): (Vec<String>, Vec<Task>) = cells.into_iter().unzip();
    let reports = run_all(&tasks, options.jobs, progress);
    if progress.stopped() {
        return Err(StudyError::Stopped);
    }
    let mut results = Results::default();
    for (name, (task, reports)) in names.into_iter().zip(tasks.iter().zip(&reports)) {
        let each = reports.iter().map(|report| throughput(&task.network, report)).collect();
        results.runs.insert(name.clone(), each);
        results.cells.insert(name, summarise(&task.network, reports));
    }
    Ok(results)
}

/// What was measured in each cell.
#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: BTreeMap<String, Vec<Summary>>,
    /// Throughput of each run of a cell, in Mbps.
    runs: BTreeMap<String, Vec<f64>>,
}

impl Results {
    /// A measure of a cell, such as `throughput` of `E2E/LAN/32`.
    pub(crate) fn get(&self, cell: &str, measure: &str) -> Option<&Estimate> {
        find(self.cells.get(cell)?, measure)
    }

    /// The ratio of two cells' throughputs, run by run: runs of the same number meet the same errors and the same traffic.
    pub(crate) fn paired_ratio(&self, a: &str, b: &str) -> Option<Estimate> {
        let ratios = self.runs.get(a)?.iter().zip(self.runs.get(b)?).map(|(a, b)| a / b);
        Estimate::of(&ratios.collect::<Vec<_>>())
    }

    pub(crate) fn throughput(&self, cell: &str) -> Option<&Estimate> {
        self.get(cell, "throughput")
    }
}
