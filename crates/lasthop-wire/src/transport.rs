//! Checked views of TCP and UDP headers.

use lasthop_proto::packet::Flags;
use lasthop_proto::seq::Seq;

use crate::ip::short;

/// Length of a TCP header without options, in bytes.
pub(crate) const TCP_LEN: usize = 20;
/// Length of a UDP header, in bytes.
pub(crate) const UDP_LEN: usize = 8;

/// Returns the source and destination port of TCP or UDP.
#[inline]
pub(crate) fn ports(bytes: &[u8]) -> Option<[u16; 2]> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}

/// First eight bytes of a TCP header, which an ICMP error at least quotes (RFC 792).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFront<'p> {
    fixed: &'p [u8; 8],
}

impl<'p> TcpFront<'p> {
    /// Returns the view; `None` if there are less than eight bytes.
    #[inline]
    pub fn new_checked(bytes: &'p [u8]) -> Option<Self> {
        Some(Self { fixed: bytes.first_chunk()? })
    }

    /// Returns the source port.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        short!(self.fixed, 0)
    }

    /// Returns the destination port.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        short!(self.fixed, 2)
    }

    /// Returns the sequence number.
    #[inline]
    pub const fn seq(&self) -> Seq {
        let [_, _, _, _, a, b, c, d] = *self.fixed;
        Seq(u32::from_be_bytes([a, b, c, d]))
    }
}

/// TCP segment whose header is complete except for options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp<'p> {
    fixed: &'p [u8; TCP_LEN],
    bytes: &'p [u8],
}

impl<'p> Tcp<'p> {
    /// Returns the view of a segment; `None` if it has less than the fixed part of the header.
    #[inline]
    pub fn new_checked(bytes: &'p [u8]) -> Option<Self> {
        Some(Self { fixed: bytes.first_chunk()?, bytes })
    }

    /// Returns the source port.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        short!(self.fixed, 0)
    }

    /// Returns the destination port.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        short!(self.fixed, 2)
    }

    /// Returns the sequence number.
    #[inline]
    pub const fn seq(&self) -> Seq {
        let [_, _, _, _, a, b, c, d, ..] = *self.fixed;
        Seq(u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns the acknowledgment number.
    #[inline]
    pub const fn ack(&self) -> Seq {
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = *self.fixed;
        Seq(u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns the flags.
    #[inline]
    pub const fn flags(&self) -> Flags {
        Flags(short!(self.fixed, 12) & Flags::ALL.0)
    }

    /// Returns the window field.
    #[inline]
    pub const fn window(&self) -> u16 {
        short!(self.fixed, 14)
    }

    /// Returns the length of the header according to its own field, in bytes: below 20 in a malformed segment, possibly
    /// beyond the segment.
    #[inline]
    pub fn claimed_header_len(&self) -> usize {
        usize::from(self.fixed[12] >> 4) * 4
    }

    /// Returns the length of the header, including options, in bytes; `None` if its own field is below 20, or exceeds
    /// the segment.
    #[inline]
    pub fn header_len(&self) -> Option<usize> {
        Some(self.claimed_header_len()).filter(|len| (TCP_LEN..=self.bytes.len()).contains(len))
    }

    /// Returns the options, up to the end of the captured bytes, including padding.
    #[inline]
    pub fn options(&self) -> &'p [u8] {
        self.bytes.get(TCP_LEN..self.claimed_header_len().min(self.bytes.len())).unwrap_or_default()
    }
}

/// UDP datagram whose header is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp<'p> {
    fixed: &'p [u8; UDP_LEN],
    payload: &'p [u8],
}

impl<'p> Udp<'p> {
    /// Length of the header, in bytes.
    pub const HEADER_LEN: usize = UDP_LEN;

    /// Returns the view of a datagram; `None` if it has less than its header.
    #[inline]
    pub fn new_checked(bytes: &'p [u8]) -> Option<Self> {
        let (fixed, payload) = bytes.split_first_chunk()?;
        Some(Self { fixed, payload })
    }

    /// Returns the source port.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        short!(self.fixed, 0)
    }

    /// Returns the destination port.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        short!(self.fixed, 2)
    }

    /// Returns the length of the datagram according to its header, in bytes: below 8 in a malformed one, possibly
    /// beyond the packet.
    #[inline]
    pub const fn claimed_len(&self) -> u16 {
        short!(self.fixed, 4)
    }

    /// Returns everything after the header.
    #[inline]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Options, Segment};

    use super::*;
    use crate::tcp_header;

    #[test]
    fn a_segment_has_what_was_built() {
        let options = Options { mss: Some(1460), ..Options::default() };
        let flags = Flags::SYN.with(Flags::ACK).with(Flags::AE);
        let segment = Segment { seq: Seq(0x0102_0304), ack: Seq(0x0506_0708), window: 0x090a, flags, options };
        let bytes = tcp_header([80, 0x1234], &segment).unwrap().to_bytes();
        let tcp = Tcp::new_checked(&bytes).unwrap();
        assert_eq!((tcp.source_port(), tcp.destination_port()), (80, 0x1234));
        assert_eq!(
            (tcp.seq(), tcp.ack(), tcp.window(), tcp.flags()),
            (segment.seq, segment.ack, segment.window, flags)
        );
        assert_eq!((tcp.header_len(), tcp.options()), (Some(24), &[2, 4, 5, 180][..]));
        let front = TcpFront::new_checked(&bytes[..8]).unwrap();
        assert_eq!((front.source_port(), front.destination_port(), front.seq()), (80, 0x1234, segment.seq));
        assert_eq!((Tcp::new_checked(&bytes[..19]), TcpFront::new_checked(&bytes[..7])), (None, None));
        let cut = Tcp::new_checked(&bytes[..22]).unwrap();
        assert_eq!((cut.header_len(), cut.claimed_header_len(), cut.options()), (None, 24, &[2, 4][..]));
        let mut short = bytes.to_vec();
        short[12] = 0x40;
        let short = Tcp::new_checked(&short).unwrap();
        assert_eq!((short.header_len(), short.claimed_header_len(), short.options()), (None, 16, &[][..]));
    }

    #[test]
    fn a_datagram_has_its_ports_and_its_length() {
        let bytes = [0x12, 0x34, 0, 53, 0, 9, 0, 0, 7];
        let udp = Udp::new_checked(&bytes).unwrap();
        assert_eq!((udp.source_port(), udp.destination_port(), udp.claimed_len()), (0x1234, 53, 9));
        assert_eq!((udp.payload(), Udp::new_checked(&bytes[..7])), (&[7][..], None));
    }
}
