//! Decisions of a recording's players as text.

use std::fmt;

use lasthop_proto::node::Port;
use lasthop_proto::packet::Segment;

/// Formats packets as `, send wireless SEQ, ...`
pub(super) fn list(f: &mut fmt::Formatter<'_>, sent: impl ExactSizeIterator<Item = (Port, String)>) -> fmt::Result {
    /// Number of packets shown.
    const SHOWN: usize = 3;
    let beyond = sent.len().saturating_sub(SHOWN);
    for (port, packet) in sent.take(SHOWN) {
        let port = if port == Port::WIRED { "wired" } else { "wireless" };
        write!(f, ", send {port} {packet}")?;
    }
    if beyond > 0 { write!(f, ", and {beyond} more") } else { Ok(()) }
}

/// Formats a segment for a message.
pub(super) fn segment(segment: &Segment, len: u32) -> String {
    let Segment { seq, ack, window, options, .. } = segment;
    let blocks = if options.sack.is_empty() { "" } else { " with SACK" };
    format!("seq {} len {len} ack {} window {window}{blocks}", seq.0, ack.0)
}
