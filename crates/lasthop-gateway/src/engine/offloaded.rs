//! What a packet is told with: what offloads left undone in it, and whether it arrived whole.

use std::num::NonZeroU16;

use lasthop_wire::{Checksum, Checksums, View, checksums};

/// What offloads left undone in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offloaded {
    /// Bytes of payload of each segment in it, where the driver knows (`gso_size` of a virtio header).
    pub size: Option<NonZeroU16>,
    /// Whether its TCP checksum is one. Pending: the kernel made the packet, or verified its parts when it put them together.
    pub checksum: Checksum,
}

impl Offloaded {
    /// Nothing: one packet as on a wire.
    pub const NOTHING: Self = Self { size: None, checksum: Checksum::Complete };

    /// Whether a packet, read as `view`, arrived as it was sent.
    pub fn condition(self, packet: &[u8], view: &View) -> Condition {
        match checksums(packet, view, self.checksum) {
            Checksums::Hold => Condition::Whole,
            Checksums::TcpWrong | Checksums::IpWrong => Condition::Damaged,
        }
    }
}

/// Whether a packet arrived as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Condition {
    /// As far as its checksums tell.
    #[default]
    Whole,
    /// A checksum is wrong.
    Damaged,
}
