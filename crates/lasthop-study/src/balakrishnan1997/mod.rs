//! H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance over
//! Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997.
//!
//! [`plan`] lists what has to be run, [`reproduce`] runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use std::collections::BTreeMap;

use lasthop_proto::scheme::Scheme;
use lasthop_report::study::Study;

pub use self::cells::{Cell, Experiment, Selection, plan};
use self::cells::{tables, testbed_scenario};
use crate::measures::{Summary, find, summarise};
use crate::replicate::{Progress, Task, run_all};
use crate::stats::Estimate;

/// The name that selects the study.
pub const NAME: &str = "balakrishnan1997";

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
    /// The user stopped it.
    #[error("stopped before all runs were done")]
    Stopped,
}

/// What was measured in each cell.
#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: BTreeMap<String, Vec<Summary>>,
}

impl Results {
    /// A measure of a cell, such as `throughput` of `E2E/LAN/32`.
    fn get(&self, cell: &str, measure: &str) -> Option<&Estimate> {
        find(self.cells.get(cell)?, measure)
    }

    fn throughput(&self, cell: &str) -> Option<&Estimate> {
        self.get(cell, "throughput")
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
pub fn total_runs(options: &Options) -> Result<u64, StudyError> {
    Ok(plan(&options.selection)?.len() as u64 * u64::from(options.runs))
}

/// Runs the study, or the part selected, and returns it with its tables, claims and figures. Claims that need cells outside
/// the selection are left out.
pub fn reproduce(options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let mut tasks = Vec::new();
    for cell in &cells {
        tasks.push(cell.task(options.seed, options.runs)?);
    }
    let reports = run_all(&tasks, options.jobs, progress);
    if progress.stopped() {
        return Err(StudyError::Stopped);
    }
    let mut results = Results::default();
    for ((cell, task), reports) in cells.iter().zip(&tasks).zip(&reports) {
        results.cells.insert(cell.name(), summarise(&task.network, reports));
    }
    let (part, flags) = match &options.selection {
        Selection::All => (String::new(), String::new()),
        Selection::Table(table) => (format!(", table {table}"), format!(" --table {table}")),
        Selection::Figure(figure) => (format!(", figure {figure}"), format!(" --figure {figure}")),
    };
    Ok(Study {
        id: NAME.to_owned(),
        title: format!("TCP over wireless links, 1997{part}"),
        citation:
            "H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving \
                   TCP Performance over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997."
                .to_owned(),
        command: format!("lasthop reproduce {NAME}{flags} --runs {} --seed {}", options.runs, options.seed),
        tables: tables(&cells, &results),
        claims: claims::check(&results),
        figures: figures::draw(&options.selection, &results, options.seed)?,
    })
}

/// The network of one of the study's testbeds under a scheme, for single traced runs.
fn network(scheme: &str, testbed: &str, buffer_kb: u32) -> Result<lasthop_sim::network::Network, StudyError> {
    let scenario = testbed_scenario(testbed, buffer_kb)?;
    let scheme = Scheme::by_name(scheme).unwrap_or(scenario.scheme());
    Ok(Task::new(&scenario, scheme, 0, 0)?.network)
}
