//! Metadata of a packet: work that offloads left undone, and the result of checksum verification.

use std::num::NonZeroU16;

use lasthop_wire::{Checksum, Checksums, View, checksums};

/// Work that offloads left undone in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offloaded {
    /// Payload bytes of each segment in the packet, if the driver knows (`gso_size` of a virtio header).
    pub size: Option<NonZeroU16>,
    /// State of the TCP checksum field. Pending: the kernel created the packet, or verified its segments when it merged
    /// them.
    pub checksum: Checksum,
}

impl Offloaded {
    /// No offload: a single packet as on the wire.
    pub const NOTHING: Self = Self { size: None, checksum: Checksum::Complete };

    /// Returns whether a packet, parsed as `view`, arrived undamaged.
    pub fn condition(self, packet: &[u8], view: &View) -> Condition {
        match checksums(packet, view, self.checksum) {
            Checksums::Hold => Condition::Whole,
            Checksums::TcpWrong | Checksums::IpWrong => Condition::Damaged,
        }
    }
}

/// Integrity of a packet as it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Condition {
    /// No checksum is wrong.
    #[default]
    Whole,
    /// A checksum is wrong.
    Damaged,
}
