//! Acknowledgments that come back for needless copies.
//!
//! Where acknowledgments get lost, packets that have arrived pass for lost, and are resent. When all is acknowledged, each such
//! copy still brings a duplicate acknowledgment, and to a sender with data on the wire three of them are a loss. Its SMART
//! number or D-SACK block (RFC 2883) tells it from others.

use crate::packet::Segment;
use crate::seq::Seq;

/// What was sent more than once, and by whom.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Copies {
    /// The highest packet that the base station resent.
    highest: Option<Seq>,
    /// All that the sender resent lies below this: what comes back for its copies is for the sender.
    senders: Option<Seq>,
}

impl Copies {
    /// The packet at `seq` is resent.
    pub fn by_base_station(&mut self, seq: Seq) {
        self.highest = Some(self.highest.map_or(seq, |highest| highest.max(seq)));
    }

    /// The sender resent data that ends at `end`.
    pub fn by_sender(&mut self, end: Seq) {
        self.senders = Some(self.senders.map_or(end, |senders| senders.max(end)));
    }

    /// Whether an acknowledgment that acknowledges nothing new was caused by a copy from here of data that it acknowledges.
    pub fn explain(self, segment: &Segment) -> bool {
        let (Some(highest), ack) = (self.highest, segment.ack) else { return false };
        let block = segment.options.sack.as_slice().first().filter(|block| block.right.le(ack)).map(|block| block.left);
        let Some(named) = segment.options.smart.or(block) else { return false };
        named.lt(ack) && named.le(highest) && self.senders.is_none_or(|senders| named.ge(senders))
    }
}
