//! Acknowledgments as a sender sees them.

use crate::packet::{EcnCounters, SackBlocks};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::Instant;

/// Fields of a segment that acknowledge data.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Next byte that the peer expects.
    pub ack: Seq,
    /// SACK blocks; empty unless SACK was negotiated.
    pub sack: &'a SackBlocks,
    /// SMART number.
    pub smart: Option<Seq>,
    /// On if the next expected segment was lost to corruption.
    pub eln: Switch,
    /// On if the peer echoes a mark (RFC 3168); off unless ECN was negotiated.
    pub ece: Switch,
}

/// Counts of marked packets and of bytes in a segment (RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// The count, modulo 8.
    pub count: u8,
    /// True if the segment's timestamp is newer than any before.
    pub is_fresh: bool,
    /// Numbers of bytes.
    pub option: Option<EcnCounters>,
}

/// Fields of a segment that concern the sender besides [`Ack`].
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The acknowledgment.
    pub ack: Ack<'a>,
    /// The peer's window after scaling, in bytes.
    pub window: u32,
    /// Sequence space that the segment occupies.
    pub seq_len: u32,
    /// First sequence number of the segment.
    pub seq: Seq,
    /// Transmission time of the acknowledged segment, by the peer's timestamp echo.
    pub echoed: Option<Instant>,
    /// The peer's count of marks, under accurate ECN.
    pub marks: Option<Marks>,
}

/// Result of processing the peer's acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckVerdict {
    /// The segment was processed.
    Taken,
    /// The segment acknowledges data that was never sent, or is older than any window of the peer (RFC 9293 §3.10.7.4,
    /// RFC 5961 §5: acknowledge and drop). No genuine peer sends it.
    Implausible,
}
