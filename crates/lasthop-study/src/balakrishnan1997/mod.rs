//! H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance over
//! Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997.
//!
//! [`plan`] lists what has to be run, [`reproduce`] runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use lasthop_proto::scheme::Scheme;
use lasthop_report::study::Study;

pub use self::cells::{Cell, Experiment, plan};
use self::cells::{tables, testbed_scenario};
use crate::replicate::{Progress, Task};
use crate::study::{Options, StudyError, run_cells};

/// The name that selects the study.
pub const NAME: &str = "balakrishnan1997";

/// Runs the study, or the part selected, and returns it with its tables, claims and figures. Claims that need cells outside
/// the selection are left out.
pub fn reproduce(options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let mut tasks = Vec::new();
    for cell in &cells {
        tasks.push((cell.name(), cell.task(options.seed, options.runs)?));
    }
    let results = run_cells(tasks, options, progress)?;
    let (part, flags) = options.selection.words();
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
