//! Timestamps that the mobile host takes.
//!
//! What the sender resends below a packet kept here is newer than that packet, and goes ahead of it. Once the mobile host has it, the packet's
//! own timestamp makes it a replay (PAWS, RFC 7323 §5.3), however often it is sent. So whatever leaves here behind it has its timestamp: a
//! copy with that is no replay. It was inside the mobile host's window, and what the mobile host has taken it echoes.

use super::Repair;
use crate::packet::{Body, Packet, Payload, Segment};
use crate::pep::tracking::latest;
use crate::seq::Seq;

impl<P: Payload> Repair<P> {
    /// What the sender has resent goes onto the hop, ahead of what is sent from here.
    pub(super) fn goes_ahead(&mut self, segment: &Segment) {
        let stamp = segment.options.timestamps.map(|timestamps| timestamps.val);
        self.ahead = latest(self.ahead, stamp);
    }

    /// The least timestamp with which the mobile host takes a packet.
    pub(super) fn recent(&mut self) -> Option<u32> {
        let echoed = self.tracking.recent(self.side);
        self.ahead = self.ahead.filter(|&ahead| echoed.is_none_or(|echoed| Seq(echoed).lt(Seq(ahead))));
        latest(echoed, self.ahead)
    }
}

/// A copy of a packet kept, for a mobile host whose TS.Recent is at least `recent`.
pub(in crate::pep) fn copy_of<P: Clone>(kept: &Packet<P>, recent: Option<u32>) -> Packet<P> {
    let mut packet = kept.clone();
    if let (Some(recent), Body::Tcp(segment)) = (recent, &mut packet.body)
        && let Some(timestamps) = &mut segment.options.timestamps
    {
        timestamps.val = Seq(recent).max(Seq(timestamps.val)).0;
    }
    packet
}
