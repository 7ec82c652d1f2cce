//! Topics that the 1997 study discusses without measurements: one table, one figure and the claims of each topic.
//!
//! A topic is a file here and a line in `TOPICS`.

mod asymmetry;
mod congestion;
mod handoffs;
mod hops;
mod small_windows;
mod srp;
mod varying_delay;

use crate::topics::{Topic, Topics};

/// Name that selects the study.
pub const NAME: &str = "discussion1997";

/// All topics, in the order of the page.
static TOPICS: [&dyn Topic; 7] = [
    &handoffs::Handoffs,
    &hops::Hops,
    &asymmetry::Asymmetry,
    &varying_delay::VaryingDelay,
    &congestion::Congestion,
    &srp::Srp,
    &small_windows::SmallWindows,
];

/// The study.
pub static DISCUSSION: Topics = Topics {
    name: NAME,
    title: "Topics that the 1997 study leaves to others",
    citation: "After section V and VI of H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms for \
         Improving TCP Performance over Wireless Links. IEEE/ACM Transactions on Networking 5(6), December 1997. That study \
         printed no numbers for these topics; numbers of others are cited at the tables.",
    doi: Some("10.1109/90.650137"),
    introduction: &[
        "The 1997 study ends with what it could not measure: moving hosts, several wireless hops, slow return paths, varying \
             delay, congestion in addition to losses, other schemes, and small windows. lasthop simulates these. Each topic has a \
             table, a figure and claims.",
        "The scenarios are ready-made ones with some keys changed; the table of a topic lists what was varied. Endpoints are those \
             of 1997 (4.4BSD-Lite) or, where a row says Linux, those of Linux 6.18. Each claim is judged by the 95 % interval of a \
             difference between runs with the same losses.",
    ],
    topics: &TOPICS,
};
