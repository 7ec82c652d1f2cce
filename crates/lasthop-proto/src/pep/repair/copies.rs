//! Acknowledgments caused by spurious copies.
//!
//! If acknowledgments are lost, packets that have arrived are declared lost and resent. When all data is acknowledged,
//! each such copy still causes a duplicate acknowledgment, and three of them indicate a loss to a sender with data on
//! the wire. Its SMART number or D-SACK block (RFC 2883) distinguishes it from others.

use crate::packet::Segment;
use crate::seq::Seq;

/// Retransmissions by the base station and by the sender.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Copies {
    /// Highest packet that the base station resent.
    highest: Option<Seq>,
    /// End of all data that the sender resent. Duplicates caused by its copies are for the sender.
    senders: Option<Seq>,
}

impl Copies {
    /// Records that the packet at `seq` is resent.
    pub fn by_base_station(&mut self, seq: Seq) {
        self.highest = Some(self.highest.map_or(seq, |highest| highest.max(seq)));
    }

    /// Records that the sender resent data that ends at `end`.
    pub fn by_sender(&mut self, end: Seq) {
        self.senders = Some(self.senders.map_or(end, |senders| senders.max(end)));
    }

    /// Returns whether an acknowledgment without news was caused by a local copy of data that it acknowledges.
    pub fn explain(self, segment: &Segment) -> bool {
        let (Some(highest), ack) = (self.highest, segment.ack) else { return false };
        let block = segment.options.sack.as_slice().first().filter(|block| block.right.le(ack)).map(|block| block.left);
        let Some(named) = segment.options.smart.or(block) else { return false };
        named.lt(ack) && named.le(highest) && self.senders.is_none_or(|senders| named.ge(senders))
    }
}
