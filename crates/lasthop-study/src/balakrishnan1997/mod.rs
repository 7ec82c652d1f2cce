//! H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance over
//! Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997.
//!
//! [`plan`] lists what has to be run, [`reproduce`](crate::reproduce::reproduce) runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;

use lasthop_proto::scheme::Scheme;
use lasthop_report::study::Study;

pub use self::cells::{Cell, Experiment, plan};
use self::cells::{tables, testbed_scenario};
use crate::replicate::Task;
use crate::study::{self, Options, Results, Selection, StudyError};

/// The name that selects the study.
pub const NAME: &str = "balakrishnan1997";

/// What has to be run for `selection`: each cell with its scenario and scheme.
pub fn cells(selection: &Selection) -> Result<Vec<study::Cell>, StudyError> {
    study::cells(plan(selection)?, Cell::name, Cell::scenario)
}

/// The study, or the part selected, from what was measured.
pub(crate) fn assemble(options: &Options, results: &Results) -> Result<Study, StudyError> {
    let cells = plan(&options.selection)?;
    let (part, flags) = options.selection.words();
    Ok(Study {
        id: NAME.to_owned(),
        title: format!("TCP over wireless links, 1997{part}"),
        citation:
            "H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving \
                   TCP Performance over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997."
                .to_owned(),
        command: format!("lasthop reproduce {NAME}{flags} --runs {} --seed {}", options.runs, options.seed),
        tables: tables(&cells, results),
        claims: claims::check(results),
        figures: figures::draw(&options.selection, results, options.seed)?,
    })
}

/// The network of one of the study's testbeds under a scheme, for single traced runs.
fn network(scheme: &str, testbed: &str, buffer_kb: u32) -> Result<lasthop_sim::network::Network, StudyError> {
    let scenario = testbed_scenario(testbed, buffer_kb)?;
    let scheme = Scheme::by_name(scheme).unwrap_or(scenario.scheme());
    Ok(Task::new(&scenario, scheme, 0, 0)?.network)
}
