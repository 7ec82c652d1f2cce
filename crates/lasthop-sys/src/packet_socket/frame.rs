//! Ethernet frames in the form of packet sockets of devices with offloads.

use std::borrow::Cow;
use std::num::NonZeroU16;

use lasthop_wire::Checksum;

/// Lengths of an Ethernet header and of a VLAN tag in it, in bytes.
pub const ETHERNET: usize = 14;
const TAG: usize = 4;
/// EtherType of 802.1Q.
const VLAN: u16 = 0x8100;
/// Constants from linux/if_packet.h.
const STATUS_VLAN: u32 = 1 << 4;
const STATUS_VLAN_PROTOCOL: u32 = 1 << 6;
/// Flags `VIRTIO_NET_HDR_F_NEEDS_CSUM` and `VIRTIO_NET_HDR_F_DATA_VALID`.
const NEEDS_CHECKSUM: u8 = 1;
const VERIFIED: u8 = 2;

/// Offload metadata of a frame, with the layout of `struct virtio_net_hdr` in native byte order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Offload {
    flags: u8,
    /// Type of super-segment; 0 for none.
    kind: u8,
    header_len: u16,
    segment_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl Offload {
    /// Returns the payload bytes of each segment, if the frame is a super-segment.
    pub fn segment_size(&self) -> Option<NonZeroU16> {
        NonZeroU16::new(self.segment_size).filter(|_| self.kind != 0)
    }

    /// Returns the state of the packet's checksum field. Receive offload verifies segments before merging them; the
    /// checksum is then pending, or that of the first segment.
    pub fn checksum(&self) -> Checksum {
        let verified_parts = self.kind != 0 && self.flags & VERIFIED != 0;
        if self.flags & NEEDS_CHECKSUM != 0 || verified_parts { Checksum::Pending } else { Checksum::Complete }
    }

    /// Returns metadata of a super-segment of TCP over IPv4, for tests of programs that split it.
    pub fn of_super_segment(segment_size: u16) -> Self {
        const TCP_V4: u8 = 1;
        Self { flags: NEEDS_CHECKSUM, kind: TCP_V4, segment_size, ..Self::default() }
    }

    /// Returns metadata of a frame whose checksum covers the bytes from `start` on, and belongs at `offset` from there.
    pub fn of_checksum(start: u16, offset: u16) -> Self {
        Self { flags: NEEDS_CHECKSUM, checksum_start: start, checksum_offset: offset, ..Self::default() }
    }

    /// Returns whether the frame is one packet with its checksum.
    pub fn is_complete(&self) -> bool {
        self.kind == 0 && self.flags & NEEDS_CHECKSUM == 0
    }

    /// Computes the checksum of a frame that lacks it. The field contains the sum of the pseudo header (RFC 1071).
    /// Metadata that does not fit the frame has no effect.
    pub fn complete(&self, frame: &mut [u8]) {
        let (start, offset) = (usize::from(self.checksum_start), usize::from(self.checksum_offset));
        let Some(covered) = frame.get_mut(start..).filter(|_| self.flags & NEEDS_CHECKSUM != 0) else { return };
        if covered.len() < offset + 2 {
            return;
        }
        let (words, rest) = covered.as_chunks::<2>();
        let last = rest.first().map_or(0, |byte| u32::from(*byte) << 8);
        let mut sum = words.iter().fold(last, |sum, word| sum + u32::from(u16::from_be_bytes(*word)));
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        // Zero means none in UDP (RFC 768), and is equivalent to its complement.
        let checksum = match !(sum as u16) {
            0 => u16::MAX,
            checksum => checksum,
        };
        covered[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Returns the metadata for a frame with the link header `link` in place of one of [`ETHERNET`] bytes, whose
    /// headers end at `header_len`: the kernel keeps the headers contiguous, and the rest in pages.
    #[must_use]
    pub fn behind(self, link: LinkHeader, header_len: usize) -> Self {
        let more = (link.bytes().len() - ETHERNET) as u16;
        let needs_checksum = self.flags & NEEDS_CHECKSUM != 0;
        Self {
            flags: self.flags & NEEDS_CHECKSUM,
            header_len: u16::try_from(header_len).unwrap_or(0),
            checksum_start: if needs_checksum { self.checksum_start.saturating_add(more) } else { 0 },
            checksum_offset: if needs_checksum { self.checksum_offset } else { 0 },
            ..self
        }
    }

    /// Returns the bytes that the kernel reads and writes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the structure has no padding (two bytes and four aligned 16-bit numbers), so that all its bytes are
        // initialised, and the slice lives no longer than the structure.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// VLAN tag: its protocol and its control information.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tag([u8; TAG]);

impl Tag {
    /// Reads the tag that the kernel removed.
    pub(super) fn read(said: &libc::tpacket_auxdata) -> Option<Self> {
        let protocol = if said.tp_status & STATUS_VLAN_PROTOCOL != 0 { said.tp_vlan_tpid } else { VLAN };
        let ([a, b], [c, d]) = (protocol.to_be_bytes(), said.tp_vlan_tci.to_be_bytes());
        (said.tp_status & STATUS_VLAN != 0).then_some(Self([a, b, c, d]))
    }
}

/// Ethernet header, including its VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkHeader {
    bytes: [u8; ETHERNET + TAG],
    len: u8,
}

impl LinkHeader {
    /// Returns the header of a frame from which the kernel removed `tag`; `None` if the frame is too short.
    pub fn new(frame: &[u8], tag: Option<Tag>) -> Option<Self> {
        let header = frame.get(..ETHERNET)?;
        let mut bytes = [0; ETHERNET + TAG];
        let Some(Tag(tag)) = tag else {
            bytes[..ETHERNET].copy_from_slice(header);
            return Some(Self { bytes, len: ETHERNET as u8 });
        };
        bytes[..12].copy_from_slice(&header[..12]);
        bytes[12..16].copy_from_slice(&tag);
        bytes[16..].copy_from_slice(&header[12..]);
        Some(Self { bytes, len: (ETHERNET + TAG) as u8 })
    }

    /// Returns the header's bytes on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Frame to send.
#[derive(Clone, Debug)]
pub struct Outgoing<'b> {
    /// Offload metadata.
    pub offload: Offload,
    /// Link header.
    pub link: LinkHeader,
    /// Data after the link header.
    pub packet: Cow<'b, [u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back_to_its_place() {
        let frame: Vec<u8> = (0..20).collect();
        assert_eq!(LinkHeader::new(&frame[..13], None), None);
        assert_eq!(LinkHeader::new(&frame, None).unwrap().bytes(), &frame[..14]);
        // SAFETY: all zeros is a valid value of a structure of numbers.
        let mut said: libc::tpacket_auxdata = unsafe { std::mem::zeroed() };
        assert_eq!(Tag::read(&said), None);
        (said.tp_status, said.tp_vlan_tci) = (STATUS_VLAN, 0x2005);
        let tagged = LinkHeader::new(&frame, Tag::read(&said)).unwrap();
        assert_eq!(tagged.bytes(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x81, 0, 0x20, 5, 12, 13]);
        (said.tp_status, said.tp_vlan_tpid) = (STATUS_VLAN | STATUS_VLAN_PROTOCOL, 0x88a8);
        assert_eq!(Tag::read(&said), Some(Tag([0x88, 0xa8, 0x20, 5])));
    }

    #[test]
    fn a_checksum_moves_with_the_headers() {
        let offload = Offload {
            flags: NEEDS_CHECKSUM | 2,
            kind: 1,
            header_len: 300,
            segment_size: 1448,
            checksum_start: 34,
            checksum_offset: 16,
        };
        assert_eq!(offload.bytes().len(), 10);
        let frame = [0; 14];
        let plain = offload.behind(LinkHeader::new(&frame, None).unwrap(), 66);
        assert_eq!((plain.flags, plain.header_len, plain.checksum_start), (NEEDS_CHECKSUM, 66, 34));
        let tagged = offload.behind(LinkHeader::new(&frame, Some(Tag([0x81, 0, 0, 5]))).unwrap(), 70);
        assert_eq!((tagged.header_len, tagged.checksum_start, tagged.checksum_offset), (70, 38, 16));
        assert_eq!(tagged.segment_size(), NonZeroU16::new(1448));
        // A verified checksum is kept.
        assert_eq!((offload.checksum(), tagged.checksum()), (Checksum::Pending, Checksum::Pending));
        let told = |flags, kind| Offload { flags, kind, ..offload }.checksum();
        assert_eq!([told(0, 0), told(2, 0), told(0, 1)], [Checksum::Complete; 3]);
        assert_eq!([told(1, 0), told(2, 1)], [Checksum::Pending; 2]);
        let whole = Offload { flags: 2, kind: 0, ..offload }.behind(LinkHeader::new(&frame, None).unwrap(), 66);
        assert_eq!((whole.flags, whole.checksum_start, whole.segment_size()), (0, 0, None));
    }
}
