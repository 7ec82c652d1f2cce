//! What published studies have in common: cells to run, and what was measured in them.

use std::collections::BTreeMap;

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, Summary, find};
use crate::stats::Estimate;

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

/// What was measured in each cell.
#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: BTreeMap<String, Vec<Summary>>,
    /// Throughput of each run of a cell, in Mbps.
    runs: BTreeMap<String, Vec<f64>>,
}

impl Results {
    /// Adds what the runs of a cell measured.
    pub(crate) fn insert(&mut self, cell: &str, samples: &Samples) {
        let throughput = samples.columns().iter().position(|(name, _)| name == "throughput");
        let throughput = throughput.map(|at| samples.column(at).flatten().collect());
        self.runs.insert(cell.to_owned(), throughput.unwrap_or_default());
        self.cells.insert(cell.to_owned(), samples.summaries());
    }

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
