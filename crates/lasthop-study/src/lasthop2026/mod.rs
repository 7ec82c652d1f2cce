//! The question of 1997 asked again: which cure helps on a lossy last hop, with the schemes, links and applications that
//! exist now?
//!
//! The study has no published values. Its claims were written before its first run; those that fail or stay open remain
//! as they were. A cell is a use of a link with a line: `uses`, `links`, `lines`; `metrics` are computed run by
//! run, `tables` show them, and `claims` compare them.

mod claims;
mod lines;
mod links;
mod metrics;
mod tables;
mod uses;

#[cfg(test)]
mod tests;

use self::uses::Use;
use crate::topics::Topics;

/// Name that selects the study.
pub const NAME: &str = "lasthop2026";

/// The study.
pub static TODAY: Topics = Topics {
    name: NAME,
    title: "Which cure helps on a last hop, in 2026",
    citation: "A study of this project, after H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: A Comparison of Mechanisms \
               for Improving TCP Performance over Wireless Links (IEEE/ACM Transactions on Networking 5(6), 1997). It has no \
               published values; docs/lasthop2026.md describes it.",
    doi: None,
    introduction: &[
        "The study of 1997 compared cures for TCP over one lossy radio by the throughput of a download. Since then, senders, radios \
         and applications have changed. This study asks the question again: 14 lines (five end to end, two with a managed queue, two \
         with one more device, five with a device at each end of the hop) over eight links that people have, for a download, web \
         pages, a call beside a download, and live video beside web pages.",
        "Each link is that of a ready-made scenario, or a file with its sources; each use is one definition over all links; all lines \
         have default settings. Nothing is tuned to a cell. Claims were written before the first run, and are judged by 95 % \
         intervals of differences between runs with the same losses: a claim fails if one of its comparisons fails, and is open if \
         an interval contains the bound.",
    ],
    topics: &[&Use::Bulk, &Use::Page, &Use::Call, &Use::Video],
};
