//! H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for Improving TCP Performance
//! over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997.
//!
//! [`plan`] lists the cells to run; [`reproduce`](crate::reproduce::reproduce) runs them and compares with the
//! published numbers.

mod cells;
mod claims;
mod figures;
mod fitted;

use std::collections::BTreeMap;

pub use self::cells::{Cell, Experiment, plan};
use self::cells::{tables, testbed_scenario};
use crate::replicate::Task;
use crate::study::{self, Contents, Options, Results, Selection, StudyError};

/// Name that selects the study.
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

    fn doi(&self) -> Option<&'static str> {
        Some("10.1109/90.650137")
    }

    fn introduction(&self) -> &'static [&'static str] {
        &[
            "The study compares twelve ways to keep TCP fast over a wireless link that loses packets: changes to the endpoints \
             (end to end, E2E), repair by the base station on the wireless link (link layer, LL), of which the TCP-aware ones are \
             the snoop protocol, and a connection that the base station splits in two (SPLIT).",
            "The authors measured transfers of 8 MB from a source over a base station to a mobile host on a WaveLAN radio of \
             2 Mbps with one error per 64 KB on average, a source in the same LAN or 16 Internet hops away (WAN), and socket \
             buffers of 8 or 32 KB. lasthop simulates the same testbeds, with endpoints of 1997 (4.4BSD-Lite), and sets its \
             throughputs and goodputs beside the published ones. A goodput is the share of the data sent over a link, in percent, \
             that was not retransmitted. Each claim of the study is judged by the 95 % interval of a difference between runs with \
             the same losses.",
        ]
    }

    fn names(&self, selection: &Selection) -> Result<BTreeMap<String, Vec<String>>, StudyError> {
        Ok(plan(selection)?.iter().map(|cell| (cell.name(), cell.words())).collect())
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

/// Returns the network of one of the study's testbeds under a scheme, for single traced runs.
fn network(scheme: &str, testbed: &str, buffer_kb: u32) -> Result<lasthop_sim::network::Network, StudyError> {
    let scenario = testbed_scenario(testbed, buffer_kb)?;
    let scheme = study::scheme(NAME, scheme)?;
    Ok(Task::new(&scenario, scheme, 0, 0)?.network)
}
