//! H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance over
//! Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997.
//!
//! [`plan`] lists what has to be run, [`reproduce`](crate::reproduce::reproduce) runs it and puts it beside the published numbers.

mod cells;
mod claims;
mod figures;
mod fitted;

pub use self::cells::{Cell, Experiment, plan};
use self::cells::{tables, testbed_scenario};
use crate::replicate::Task;
use crate::study::{self, Contents, Options, Results, Selection, StudyError};

/// The name that selects the study.
pub const NAME: &str = "balakrishnan1997";

/// The study.
pub struct Balakrishnan1997;

impl study::Study for Balakrishnan1997 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "TCP over wireless links, 1997"
    }

    fn citation(&self) -> &'static str {
        "H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance \
         over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997."
    }

    fn cells(&self, selection: &Selection) -> Result<Vec<study::Cell>, StudyError> {
        study::cells(plan(selection)?, Cell::name, Cell::scenario)
    }

    fn contents(&self, options: &Options, results: &Results) -> Result<Contents, StudyError> {
        Ok(Contents {
            tables: tables(&plan(&options.selection)?, results),
            claims: claims::check(results),
            notes: vec![fitted::note()],
            figures: figures::draw(&options.selection, results, options.seed)?,
        })
    }
}

/// The network of one of the study's testbeds under a scheme, for single traced runs.
fn network(scheme: &str, testbed: &str, buffer_kb: u32) -> Result<lasthop_sim::network::Network, StudyError> {
    let scenario = testbed_scenario(testbed, buffer_kb)?;
    let scheme = study::scheme(NAME, scheme)?;
    Ok(Task::new(&scenario, scheme, 0, 0)?.network)
}
