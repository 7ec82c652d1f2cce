//! Losses of whole super-segments: the process decides once for all packets of one, like an emulator in front of the
//! device that splits them (Linux netem).

use alloc::collections::BTreeMap;

use super::{Channel, Fate};
use crate::packet::{FlowId, Packet, Side};
use crate::time::Instant;

/// A process that decides once per super-segment.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    channel: Channel,
    /// Number and fate of each sender's last super-segment. Queues may interleave those of different senders.
    last: BTreeMap<(FlowId, Side), (u8, Fate)>,
}

impl Whole {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, last: BTreeMap::new() }
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Judges a frame. Packets of no super-segment have fates of their own.
    pub(super) fn judge<P>(&mut self, packet: &Packet<P>, start: Instant, end: Instant) -> Fate {
        let (sender, number) = ((packet.flow, packet.from), packet.super_segment);
        match self.last.get(&sender) {
            Some((last, fate)) if *last == number && number != 0 => *fate,
            _ => {
                let fate = self.channel.judge(packet, start, end);
                if number != 0 {
                    self.last.insert(sender, (number, fate));
                }
                fate
            }
        }
    }
}
