//! Timestamps that the mobile host takes.
//!
//! What the sender resends below a packet kept here is newer than that packet. Once the mobile host has it, the packet's own
//! timestamp makes it a replay (PAWS, RFC 7323 §5.3), however often it is resent. What the mobile host has taken it echoes: a
//! copy with that timestamp is no replay, and never raises what the mobile host takes next.

use crate::packet::{Body, Packet};
use crate::seq::Seq;

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
