//! Timestamps that the mobile host accepts.
//!
//! The sender's retransmission of data below a cached packet is newer than that packet and overtakes it. Once the
//! mobile host has received it, the packet's own timestamp makes every copy of it a replay (PAWS, RFC 7323 §5.3).
//! Packets that leave after the retransmission therefore take its timestamp, with which a copy is no replay. It was
//! inside the mobile host's window, and the mobile host echoes the timestamps that it accepts.

use super::Repair;
use crate::packet::{Body, Packet, Payload, Segment};
use crate::pep::tracking::latest;
use crate::seq::Seq;

impl<P: Payload> Repair<P> {
    /// Records that a retransmission by the sender goes onto the hop, ahead of locally sent packets.
    pub(super) fn note_timestamp(&mut self, segment: &Segment) {
        let stamp = segment.options.timestamps.map(|timestamps| timestamps.val);
        self.newest_timestamp = latest(self.newest_timestamp, stamp);
    }

    /// Returns the minimum timestamp with which the mobile host accepts a packet.
    pub(super) fn recent(&mut self) -> Option<u32> {
        let echoed = self.tracking.recent(self.side);
        self.newest_timestamp =
            self.newest_timestamp.filter(|&ahead| echoed.is_none_or(|echoed| Seq(echoed).lt(Seq(ahead))));
        latest(echoed, self.newest_timestamp)
    }
}

/// Returns a copy of a cached packet for a mobile host whose TS.Recent is at least `recent`.
pub(in crate::pep) fn copy_of<P: Clone>(kept: &Packet<P>, recent: Option<u32>) -> Packet<P> {
    let mut packet = kept.clone();
    if let (Some(recent), Body::Tcp(segment)) = (recent, &mut packet.body)
        && let Some(timestamps) = &mut segment.options.timestamps
    {
        timestamps.val = Seq(recent).max(Seq(timestamps.val)).0;
    }
    packet
}
