//! Segmentation and merging for a TUN device with offloads: one read or write of the device carries a super-segment, that
//! is many packets of a flow with common headers, behind a virtio-net header (virtio 1.2, §5.1.6).

mod merge;
mod split;

use lasthop_proto::packet::Flags;
use lasthop_wire::{V6_LEN, Version};

pub use self::merge::Merger;
pub use self::split::{Malformed, split};

/// Length of the virtio-net header, in bytes.
pub const PREFIX: usize = 10;
/// Maximum length of a super-segment, in bytes: that of an IP packet.
pub const LONGEST: usize = 65_535;

/// Flag in the header: a checksum has yet to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// Types of a super-segment: none, TCP over IPv4 and over IPv6, UDP. A bit says that TCP has CWR in its first segment.
const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_ANY: u8 = 5;
const WITH_CWR: u8 = 0x80;

/// Virtio-net header. Its numbers are in the machine's byte order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Header {
    flags: u8,
    /// Type of the super-segment.
    kind: u8,
    /// Length of the packet's headers, in bytes.
    headers: u16,
    /// Length of the payload of a segment, in bytes.
    size: u16,
    /// Position of the first byte that the checksum covers, and of the checksum from there.
    start: u16,
    offset: u16,
}

impl Header {
    fn decode(bytes: &[u8; PREFIX]) -> Self {
        let [flags, kind, a, b, c, d, e, f, g, h] = *bytes;
        let [headers, size, start, offset] = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes);
        Self { flags, kind, headers, size, start, offset }
    }

    fn encode(self) -> [u8; PREFIX] {
        let [[a, b], [c, d], [e, f], [g, h]] = [self.headers, self.size, self.start, self.offset].map(u16::to_ne_bytes);
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }
}

/// Position of the TCP flags, and the flags that merging and segmentation change.
const FLAGS: usize = 13;
const FIN: u8 = Flags::FIN.low_byte();
const PSH: u8 = Flags::PSH.low_byte();
const ACK: u8 = Flags::ACK.low_byte();
const CWR: u8 = Flags::CWR.low_byte();

/// Sets the length fields of an IP packet and, for UDP, of its datagram. IPv4's checksum has to be computed again.
fn set_lengths(packet: &mut [u8], ip_len: usize, is_udp: bool) {
    let length = packet.len();
    if Version::of(packet) == Some(Version::V4) {
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&((length - V6_LEN) as u16).to_be_bytes());
    }
    if is_udp {
        packet[ip_len + 4..ip_len + 6].copy_from_slice(&((length - ip_len) as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
