//! What the players of a recording have in common: the engine and the simulator's element.

use std::fmt::{self, Display};

use lasthop_proto::node::Port;
use lasthop_proto::packet::Segment;

use super::Step;

/// What decides on a recorded call once more. `D` is a decision as far as it can tell.
pub(super) trait Player {
    type Decision: Display + PartialEq;

    /// What it would have to decide.
    fn recorded(&self, step: &Step) -> Self::Decision;

    /// What it decides; an error says why it cannot.
    fn play(&mut self, step: &Step) -> Result<Self::Decision, &'static str>;
}

/// `, send wireless SEQ, ...`
pub(super) fn list(f: &mut fmt::Formatter<'_>, sent: impl ExactSizeIterator<Item = (Port, String)>) -> fmt::Result {
    /// More make no message clearer.
    const SHOWN: usize = 3;
    let beyond = sent.len().saturating_sub(SHOWN);
    for (port, packet) in sent.take(SHOWN) {
        let port = if port == Port::WIRED { "wired" } else { "wireless" };
        write!(f, ", send {port} {packet}")?;
    }
    if beyond > 0 { write!(f, ", and {beyond} more") } else { Ok(()) }
}

/// A segment in a message.
pub(super) fn segment(segment: &Segment, len: u32) -> String {
    let Segment { seq, ack, window, options, .. } = segment;
    let blocks = if options.sack.is_empty() { "" } else { " with SACK" };
    format!("seq {} len {len} ack {} window {window}{blocks}", seq.0, ack.0)
}
