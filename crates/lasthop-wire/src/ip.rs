//! Checked views of IPv4 and IPv6 headers, and of the extension headers after them.
//!
//! A view exists only if the fixed part of its header is complete, so that no accessor can fail on it. Lengths in a
//! header are untrusted: accessors whose name begins with `claimed` return them as they are, the others check them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lasthop_proto::packet::Ecn;

/// Numbers of IP protocols (IANA).
pub mod protocol {
    /// Hop-by-hop options of IPv6.
    pub const HOP_BY_HOP: u8 = 0;
    /// Internet Control Message Protocol.
    pub const ICMP: u8 = 1;
    /// IPv4 in IP.
    pub const IPV4: u8 = 4;
    /// Transmission Control Protocol.
    pub const TCP: u8 = 6;
    /// User Datagram Protocol.
    pub const UDP: u8 = 17;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// Routing header of IPv6.
    pub const ROUTING: u8 = 43;
    /// Fragmentation header of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// Generic Routing Encapsulation.
    pub const GRE: u8 = 47;
    /// Authentication Header.
    pub const AH: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMP_V6: u8 = 58;
    /// Destination options of IPv6.
    pub const DESTINATION: u8 = 60;
    /// Ethernet in IP.
    pub const ETHERIP: u8 = 97;
    /// Mobility header of IPv6.
    pub const MOBILITY: u8 = 135;
    /// MPLS in IP.
    pub const MPLS: u8 = 137;
    /// Host Identity Protocol.
    pub const HIP: u8 = 139;
    /// Multihoming header of IPv6.
    pub const SHIM6: u8 = 140;
}

/// Length of an IPv4 header without options, in bytes.
pub const V4_LEN: usize = 20;
/// Length of an IPv6 header without extension headers, in bytes.
pub const V6_LEN: usize = 40;

/// Version of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// Returns the IP version in the first byte of a packet; `None` if it is unknown, or if the packet is empty.
    #[inline]
    pub const fn of(packet: &[u8]) -> Option<Self> {
        let [first, ..] = packet else { return None };
        match *first >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// Returns the ECN field of a packet of which only the first two bytes must be present. In packets of any version
/// except 6, the field is taken from its position in IPv4.
#[inline]
pub fn ecn(packet: &[u8]) -> Ecn {
    match packet {
        // The traffic class spans two bytes, four bits after the version.
        [_, class, ..] if Version::of(packet) == Some(Version::V6) => Ecn::from_bits(class >> 4),
        [_, service, ..] => Ecn::from_bits(*service),
        _ => Ecn::NotEct,
    }
}

/// Packet whose IP header is complete except for options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip<'p> {
    /// IPv4.
    V4(Ipv4<'p>),
    /// IPv6.
    V6(Ipv6<'p>),
}

/// Packet with a complete IPv4 header, except for options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4<'p> {
    fixed: &'p [u8; V4_LEN],
    bytes: &'p [u8],
}

/// Packet with a complete IPv6 header, except for extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6<'p> {
    fixed: &'p [u8; V6_LEN],
    bytes: &'p [u8],
}

impl<'p> Ip<'p> {
    /// Returns the view of a packet that begins with its IP header. `None` if it has another version, or less than the
    /// fixed part of the header.
    #[inline]
    pub fn new_checked(bytes: &'p [u8]) -> Option<Self> {
        match Version::of(bytes)? {
            Version::V4 => Some(Self::V4(Ipv4 { fixed: bytes.first_chunk()?, bytes })),
            Version::V6 => Some(Self::V6(Ipv6 { fixed: bytes.first_chunk()?, bytes })),
        }
    }

    /// Returns the packet.
    #[inline]
    pub fn bytes(&self) -> &'p [u8] {
        match self {
            Self::V4(ip) => ip.bytes,
            Self::V6(ip) => ip.bytes,
        }
    }

    /// Returns the source address.
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.source().into(),
            Self::V6(ip) => ip.source().into(),
        }
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.destination().into(),
            Self::V6(ip) => ip.destination().into(),
        }
    }

    /// Returns the ECN field.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self {
            Self::V4(ip) => ip.ecn(),
            Self::V6(ip) => ip.ecn(),
        }
    }

    /// Returns the time to live, or the hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.time_to_live(),
            Self::V6(ip) => ip.hop_limit(),
        }
    }

    /// Returns the protocol after the header; for IPv6, it may be that of an extension header.
    #[inline]
    pub fn protocol(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.protocol(),
            Self::V6(ip) => ip.next_header(),
        }
    }

    /// Returns the fragmentation according to the header, which for IPv6 has none: an [`Extension`] has it.
    #[inline]
    pub fn fragment(&self) -> Fragment {
        match self {
            Self::V4(ip) => ip.fragment(),
            Self::V6(_) => Fragment::Whole,
        }
    }

    /// Returns the length of the header according to its own field, in bytes: below 20 in a malformed IPv4 packet. For
    /// IPv6 40.
    #[inline]
    pub fn claimed_header_len(&self) -> usize {
        match self {
            Self::V4(ip) => ip.claimed_header_len(),
            Self::V6(_) => V6_LEN,
        }
    }

    /// Returns the length of the header, including IPv4's options, in bytes; `None` if its own field is below the
    /// minimum, or exceeds the packet.
    #[inline]
    pub fn header_len(&self) -> Option<usize> {
        match self {
            Self::V4(ip) => ip.header_len(),
            Self::V6(_) => Some(V6_LEN),
        }
    }

    /// Returns the length of the packet according to its header, in bytes. With a length field of zero, it is 0 for
    /// IPv4, and 40 for IPv6.
    #[inline]
    pub fn claimed_len(&self) -> usize {
        match self {
            Self::V4(ip) => ip.claimed_len().into(),
            Self::V6(ip) => V6_LEN + usize::from(ip.claimed_payload_len()),
        }
    }

    /// Returns whether the length field is zero: that of a super-segment that an interface has yet to segment, or of a
    /// jumbogram.
    #[inline]
    pub fn is_unmeasured(&self) -> bool {
        match self {
            Self::V4(ip) => ip.claimed_len() == 0,
            Self::V6(ip) => ip.claimed_payload_len() == 0,
        }
    }
}

/// Returns the 16-bit number at `at` of a header.
macro_rules! short {
    ($fixed:expr, $at:literal) => {
        u16::from_be_bytes([$fixed[$at], $fixed[$at + 1]])
    };
}
pub(crate) use short;

impl<'p> Ipv4<'p> {
    /// Returns the source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        let [.., a, b, c, d, _, _, _, _] = *self.fixed;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = *self.fixed;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Returns the ECN field.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.fixed[1])
    }

    /// Returns the time to live.
    #[inline]
    pub fn time_to_live(&self) -> u8 {
        self.fixed[8]
    }

    /// Returns the protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Returns the identification.
    #[inline]
    pub fn identification(&self) -> u16 {
        short!(self.fixed, 4)
    }

    /// Returns whether routers must not fragment the packet.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fixed[6] & 0x40 != 0
    }

    /// Returns the position among fragments.
    #[inline]
    pub fn fragment(&self) -> Fragment {
        let field = short!(self.fixed, 6);
        Fragment::new(self.identification().into(), u32::from(field & 0x1fff) * 8, field & 0x2000 != 0)
    }

    /// Returns the length of the header according to its own field, in bytes: below 20 in a malformed packet.
    #[inline]
    pub fn claimed_header_len(&self) -> usize {
        usize::from(self.fixed[0] & 15) * 4
    }

    /// Returns the length of the header, in bytes; `None` if its own field is below 20, or exceeds the packet.
    #[inline]
    pub fn header_len(&self) -> Option<usize> {
        Some(self.claimed_header_len()).filter(|len| (V4_LEN..=self.bytes.len()).contains(len))
    }

    /// Returns the length of the packet according to its header, in bytes.
    #[inline]
    pub fn claimed_len(&self) -> u16 {
        short!(self.fixed, 2)
    }

    /// Returns the packet.
    #[inline]
    pub fn bytes(&self) -> &'p [u8] {
        self.bytes
    }
}

impl<'p> Ipv6<'p> {
    /// Returns the source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        self.fixed[8..].as_chunks::<16>().0[0].into()
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        self.fixed[8..].as_chunks::<16>().0[1].into()
    }

    /// Returns the ECN field.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        // The traffic class spans two bytes, four bits after the version.
        Ecn::from_bits(self.fixed[1] >> 4)
    }

    /// Returns the hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// Returns the protocol after the header, which may be that of an extension header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.fixed[6]
    }

    /// Returns the length of the packet without this header, according to the header, in bytes.
    #[inline]
    pub fn claimed_payload_len(&self) -> u16 {
        short!(self.fixed, 4)
    }

    /// Returns the packet.
    #[inline]
    pub fn bytes(&self) -> &'p [u8] {
        self.bytes
    }
}

/// Position of a packet among the fragments of a larger one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fragment {
    /// Not fragmented; includes an IPv6 atomic fragment (RFC 6946).
    Whole,
    /// A fragment.
    Part {
        /// Identification, shared by all fragments of one packet.
        id: u32,
        /// Offset of the payload, in bytes.
        offset: u32,
        /// True if more fragments follow this one.
        more: bool,
    },
}

impl Fragment {
    #[inline]
    fn new(id: u32, offset: u32, more: bool) -> Self {
        if offset == 0 && !more { Self::Whole } else { Self::Part { id, offset, more } }
    }

    /// Returns whether this is a fragment other than the first. The payload of such a fragment does not begin with a
    /// header.
    #[inline]
    pub const fn is_later(self) -> bool {
        matches!(self, Self::Part { offset: 1.., .. })
    }
}

/// IPv6 extension header (RFC 8200 §4), or Authentication Header of either version (RFC 4302), with its first eight
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension<'p> {
    kind: u8,
    fixed: &'p [u8; 8],
}

impl<'p> Extension<'p> {
    /// Returns whether a protocol number is that of such a header.
    #[inline]
    pub const fn is_one(kind: u8) -> bool {
        matches!(
            kind,
            protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::FRAGMENT
                | protocol::AH
                | protocol::DESTINATION
                | protocol::MOBILITY
                | protocol::HIP
                | protocol::SHIM6
        )
    }

    /// Returns the view of the header at the front of `bytes`, which the header before it announces as protocol `kind`.
    /// `None` if that is another protocol, or if there are less than eight bytes.
    #[inline]
    pub fn new_checked(kind: u8, bytes: &'p [u8]) -> Option<Self> {
        Some(Self { kind, fixed: bytes.first_chunk()? }).filter(|_| Self::is_one(kind))
    }

    /// Returns the protocol number of this header.
    #[inline]
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the protocol after this header.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        self.fixed[0]
    }

    /// Returns the header's length according to its own field, in bytes: at least 8, possibly beyond the packet.
    #[inline]
    pub fn claimed_len(&self) -> usize {
        let units = usize::from(self.fixed[1]);
        match self.kind {
            protocol::FRAGMENT => 8,
            protocol::AH => 8 + 4 * units,
            _ => 8 + 8 * units,
        }
    }

    /// Returns the position among fragments, if this is a fragmentation header.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        if self.kind != protocol::FRAGMENT {
            return None;
        }
        let [_, _, high, low, id @ ..] = *self.fixed;
        let field = u16::from_be_bytes([high, low]);
        Some(Fragment::new(u32::from_be_bytes(id), u32::from(field & !7), field & 1 != 0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_from_whole_headers() {
        let addresses = |packet: &[u8]| Ip::new_checked(packet).map(|ip| (ip.source(), ip.destination()));
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        assert_eq!(addresses(&packet), Some((one, two)));
        assert_eq!(addresses(&packet[..19]), None);
        packet[0] = 0x60;
        (packet[8], packet[23], packet[24]) = (0xfe, 7, 0xff);
        let [one, two] = ["fe00:0:a00:1:a00:2:0:7", "ff00::"].map(|text| text.parse().unwrap());
        assert_eq!(addresses(&packet), Some((one, two)));
        assert_eq!(addresses(&packet[..39]), None);
        packet[0] = 0x50;
        assert_eq!(addresses(&packet), None);
        assert_eq!(addresses(&[]), None);
        // The ECN field needs two bytes alone.
        assert_eq!([&[][..], &[0x45], &[0x45, 1], &[0x60, 0x30]].map(ecn).map(Ecn::bits), [0, 0, 1, 3]);
    }

    #[test]
    fn lengths_below_the_minimum_or_beyond_the_packet_are_refused() {
        let mut packet = [0; 24];
        for (words, checked) in [(4, None), (5, Some(20)), (6, Some(24)), (7, None)] {
            packet[0] = 0x40 | words;
            let ip = Ip::new_checked(&packet).unwrap();
            assert_eq!((ip.header_len(), ip.claimed_header_len()), (checked, usize::from(words) * 4));
        }
    }

    #[test]
    fn a_view_has_what_was_built() {
        use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader};
        let mut header = Ipv4Header::new(8, 63, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        (header.identification, header.ecn) = (0x0102, crate::ip_ecn(Ecn::Ect1));
        for (offset, more, dont) in [(0, false, true), (0, true, false), (0x1fff, false, false)] {
            (header.more_fragments, header.dont_fragment) = (more, dont);
            header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            let bytes = header.to_bytes();
            let Some(Ip::V4(ip)) = Ip::new_checked(&bytes) else { panic!("{bytes:?}") };
            assert_eq!((ip.protocol(), ip.time_to_live(), ip.ecn()), (protocol::UDP, 63, Ecn::Ect1));
            assert_eq!((ip.identification(), ip.claimed_len(), ip.dont_fragment()), (0x0102, 28, dont));
            let part = Fragment::Part { id: 0x0102, offset: u32::from(offset) * 8, more };
            assert_eq!(ip.fragment(), if dont { Fragment::Whole } else { part });
            assert_eq!(ip.fragment().is_later(), offset > 0);
            let six = Ipv6FragmentHeader::new(IpNumber::TCP, IpFragOffset::try_new(offset).unwrap(), more, 0x0102);
            let bytes = six.to_bytes();
            let extension = Extension::new_checked(protocol::FRAGMENT, &bytes).unwrap();
            assert_eq!((extension.fragment(), extension.next_header()), (Some(ip.fragment()), protocol::TCP));
        }
    }

    #[test]
    fn an_extension_has_the_length_of_its_kind() {
        let bytes = [protocol::TCP, 2, 0, 8, 0, 0, 0, 7];
        let len = |kind| Extension::new_checked(kind, &bytes).map(|extension| extension.claimed_len());
        assert_eq!([protocol::FRAGMENT, protocol::AH, 0, 140].map(len), [Some(8), Some(16), Some(24), Some(24)]);
        assert_eq!([protocol::TCP, 59, 50].map(len), [None; 3]);
        assert_eq!(Extension::new_checked(0, &bytes[..7]), None);
        assert_eq!(Extension::new_checked(0, &bytes).unwrap().fragment(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_view_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60), first in prop_oneof![0x40u8..0x50, Just(0x60), any::<u8>()]) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let least = match first >> 4 { 4 => 20, 6 => 40, _ => usize::MAX };
            let ip = Ip::new_checked(&bytes);
            prop_assert_eq!(ip.is_some(), bytes.len() >= least);
            if let Some(ip) = ip {
                prop_assert_eq!(ip.ecn(), ecn(&bytes));
                prop_assert!(ip.header_len().is_none_or(|len| (least..=bytes.len()).contains(&len)));
                let _ = (ip.source(), ip.destination(), ip.fragment(), ip.claimed_len(), ip.hop_limit());
            }
        }
    }
}
