//! Timestamps that the mobile host takes.
//!
//! What the sender resends below a packet kept here is newer than that packet. Once the mobile host has it, the packet's own
//! timestamp makes it a replay (PAWS, RFC 7323 §5.3), however often it is resent.

use crate::packet::{Body, Packet};
use crate::seq::Seq;

/// The highest timestamp on what the sender resent and was forwarded.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::pep) struct Newest(Option<Seq>);

impl Newest {
    /// The sender resent this packet, and it is forwarded.
    pub fn note<P>(&mut self, packet: &Packet<P>) {
        if let Some(timestamps) = packet.tcp().and_then(|tcp| tcp.options.timestamps) {
            let val = Seq(timestamps.val);
            self.0 = Some(self.0.map_or(val, |newest| newest.max(val)));
        }
    }

    /// A copy of a packet kept, as it may follow what was forwarded.
    pub fn copy_of<P: Clone>(self, kept: &Packet<P>) -> Packet<P> {
        let mut packet = kept.clone();
        if let (Some(newest), Body::Tcp(segment)) = (self.0, &mut packet.body)
            && let Some(timestamps) = &mut segment.options.timestamps
        {
            timestamps.val = newest.max(Seq(timestamps.val)).0;
        }
        packet
    }
}
