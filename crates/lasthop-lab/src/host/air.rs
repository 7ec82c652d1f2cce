//! A lossy link between a host and its device: frames are lost and damaged by the simulator's channels.

use lasthop_proto::channel::{Channel, ErrorSpec, Fate};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::random::Root;
use lasthop_proto::time::Instant;
use lasthop_wire::parse;

/// Channel of one direction.
pub(super) struct Air {
    channel: Channel,
}

impl Air {
    /// Creates the direction `name`.
    pub fn new(errors: &ErrorSpec, seed: u64, name: &str) -> Self {
        Self { channel: Channel::new(errors, Root(seed).stream(&format!("host/air/{name}"))) }
    }

    /// Returns whether the packet is delivered; its payload may be damaged. Packets other than TCP always are.
    pub fn carry(&mut self, now: Instant, bytes: &mut [u8]) -> bool {
        if self.channel.is_clean() {
            return true;
        }
        let Some(view) = parse(bytes) else { return true };
        let packet = Packet::<()> {
            header_len: view.header_len as u16,
            len: view.payload_len as u32,
            body: Body::Tcp(view.segment),
            ..Packet::default()
        };
        match self.channel.judge(&packet, now, now) {
            // Packets are not delayed or marked here: the lab's links do that.
            Fate::Delivered | Fate::Late(_) | Fate::Marked => true,
            Fate::Lost => false,
            Fate::Damaged => {
                // The checksum becomes wrong: kernels drop the packet, and a host that supports ELN can detect it.
                if let Some(first) = bytes.get_mut(view.header_len) {
                    *first ^= 0xff;
                }
                true
            }
        }
    }
}
