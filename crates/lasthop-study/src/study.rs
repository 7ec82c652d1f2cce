//! The published studies by name, and what reproducing one takes.

use std::collections::BTreeMap;

use lasthop_proto::scheme::Scheme;
use lasthop_report::study::Study;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, Summary, columns, find};
use crate::replicate::{Progress, Task, run_each};
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

/// What reproducing a study takes: cells to run, wherever that is done.
#[derive(Clone, Debug)]
pub struct Plan {
    study: &'static str,
    options: Options,
    cells: Vec<Cell>,
    measures: Vec<(String, &'static str)>,
}

impl Plan {
    /// The cells of a study, or of the part selected.
    ///
    /// # Errors
    ///
    /// When there is no such study, or it has no such table or figure.
    pub fn new(study: &str, options: &Options) -> Result<Self, StudyError> {
        let (study, cells) = match study {
            balakrishnan1997::NAME => (balakrishnan1997::NAME, balakrishnan1997::cells(&options.selection)?),
            xylomenos_kokkinakis::NAME => {
                (xylomenos_kokkinakis::NAME, xylomenos_kokkinakis::cells(&options.selection)?)
            }
            _ => return Err(StudyError::NoSuchStudy { given: study.to_owned() }),
        };
        let mut plan = Self { study, options: options.clone(), cells, measures: Vec::new() };
        // Cells differ in what they have: only web sessions have pages.
        for task in plan.tasks()? {
            for column in columns(&task.network) {
                if !plan.measures.contains(&column) {
                    plan.measures.push(column);
                }
            }
        }
        Ok(plan)
    }

    /// The cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Names and units of what is measured in each run.
    pub fn measures(&self) -> &[(String, &'static str)] {
        &self.measures
    }

    /// Runs in all.
    pub fn total_runs(&self) -> u64 {
        self.cells.len() as u64 * u64::from(self.options.runs)
    }

    fn tasks(&self) -> Result<Vec<Task>, lasthop_scenario::Error> {
        let Options { seed, runs, .. } = self.options;
        self.cells.iter().map(|cell| Task::new(&cell.scenario, cell.scheme, seed, runs)).collect()
    }

    /// Runs all cells here. Of each, what its runs measured.
    ///
    /// # Errors
    ///
    /// When `progress` stops it.
    pub fn run(&self, progress: &dyn Progress) -> Result<Vec<Samples>, StudyError> {
        let tasks = self.tasks()?;
        let mut samples = vec![Samples::new(self.measures.clone()); tasks.len()];
        run_each(&tasks, self.options.jobs, progress, |at, report| {
            samples[at].push(&tasks[at].network, &report);
            Ok::<(), StudyError>(())
        })?;
        if progress.stopped() { Err(StudyError::Stopped) } else { Ok(samples) }
    }

    /// The study with its tables, claims and figures, from what the runs of each cell measured. Claims that need cells
    /// outside the selection are left out.
    ///
    /// # Errors
    ///
    /// When a scenario that is followed for a figure does not hold.
    pub fn finish(&self, samples: &[Samples]) -> Result<Study, StudyError> {
        let mut results = Results::default();
        for (Cell { name, .. }, samples) in self.cells.iter().zip(samples) {
            let throughput = samples.columns().iter().position(|(name, _)| name == "throughput");
            let throughput = throughput.map(|at| samples.column(at).flatten().collect());
            results.runs.insert(name.clone(), throughput.unwrap_or_default());
            results.cells.insert(name.clone(), samples.summaries());
        }
        match self.study {
            balakrishnan1997::NAME => balakrishnan1997::assemble(&self.options, &results),
            _ => xylomenos_kokkinakis::assemble(&self.options, &results),
        }
    }
}

/// Runs a study, or the part selected, and returns it with its tables, claims and figures.
///
/// # Errors
///
/// When there is no such study, or it has no such table or figure, and when `progress` stops it.
pub fn reproduce(study: &str, options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    let plan = Plan::new(study, options)?;
    plan.finish(&plan.run(progress)?)
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
