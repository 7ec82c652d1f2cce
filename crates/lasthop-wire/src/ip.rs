//! IPv4 and IPv6 headers of packets that a capture may have truncated.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lasthop_proto::packet::Ecn;

/// Numbers of IP protocols (IANA).
pub(crate) mod protocol {
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const AH: u8 = 51;
    pub(crate) const ETHERIP: u8 = 97;
    pub(crate) const MPLS: u8 = 137;
}

const IPV6_LEN: usize = 40;
/// Maximum number of extension headers to parse.
const MOST_EXTENSIONS: usize = 10;

/// IP packet, as far as it was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ip<'p> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// ECN field.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Identification of IPv4.
    pub identification: Option<u16>,
    /// IP protocol of the payload, after extension headers.
    pub protocol: u8,
    /// Position in a fragmented packet.
    pub fragment: Fragment,
    /// Length of the packet on the wire, headers included, in bytes.
    pub total_len: u32,
    /// Length of the payload on the wire, after extension headers, in bytes.
    pub payload_len: u32,
    /// Captured part of the payload.
    pub payload: &'p [u8],
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

impl<'p> Ip<'p> {
    /// Parses a packet that begins with its IP header and had `len` bytes on the wire. `None` if it is not an IP
    /// packet, or if its headers are truncated.
    ///
    /// A length field of zero belongs to a super-segment that an interface had yet to segment (or to a jumbogram):
    /// `len` applies then.
    pub fn read(bytes: &'p [u8], len: u32) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read_v4(bytes, len),
            6 => Self::read_v6(bytes, len),
            _ => None,
        }
    }

    fn read_v4(bytes: &'p [u8], len: u32) -> Option<Self> {
        let header_len = usize::from(bytes[0] & 15) * 4;
        let header = bytes.get(..header_len).filter(|header| header.len() >= 20)?;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
        let total_len = if short(2) == 0 { len } else { u32::from(short(2)) };
        let (offset, more) = (u32::from(short(6) & 0x1fff) * 8, short(6) & 0x2000 != 0);
        let mut ip = Self {
            source: address(12),
            destination: address(16),
            ecn: Ecn::from_bits(header[1]),
            hop_limit: header[8],
            identification: Some(short(4)),
            protocol: header[9],
            fragment: fragment(u32::from(short(4)), offset, more),
            total_len,
            payload_len: total_len.checked_sub(header_len as u32)?,
            payload: &bytes[header_len..bytes.len().min(total_len as usize).max(header_len)],
        };
        if ip.protocol == protocol::AH && ip.fragment == Fragment::Whole {
            ip.extension(4, 8)?;
        }
        Some(ip)
    }

    fn read_v6(bytes: &'p [u8], len: u32) -> Option<Self> {
        let header = bytes.get(..IPV6_LEN)?;
        let address = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        };
        let said = u32::from(u16::from_be_bytes([header[4], header[5]]));
        let total_len = if said == 0 { len } else { said + IPV6_LEN as u32 };
        let mut ip = Self {
            source: address(8)?,
            destination: address(24)?,
            // The traffic class spans two bytes, four bits after the version.
            ecn: Ecn::from_bits(header[1] >> 4),
            hop_limit: header[7],
            identification: None,
            protocol: header[6],
            fragment: Fragment::Whole,
            total_len,
            payload_len: total_len.checked_sub(IPV6_LEN as u32)?,
            payload: &bytes[IPV6_LEN..bytes.len().min(total_len as usize).max(IPV6_LEN)],
        };
        for _ in 0..MOST_EXTENSIONS {
            match ip.protocol {
                // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
                0 | 43 | 60 | 135 | 139 | 140 => ip.extension(8, 8)?,
                protocol::AH => ip.extension(4, 8)?,
                44 => {
                    let field = u16::from_be_bytes([*ip.payload.get(2)?, *ip.payload.get(3)?]);
                    let id = u32::from_be_bytes(ip.payload.get(4..8)?.try_into().ok()?);
                    ip.fragment = fragment(id, u32::from(field & !7), field & 1 != 0);
                    ip.protocol = ip.payload[0];
                    ip.skip(8)?;
                    // After the first fragment the rest is payload, whatever its content.
                    if matches!(ip.fragment, Fragment::Part { offset: 1.., .. }) {
                        return Some(ip);
                    }
                }
                _ => return Some(ip),
            }
        }
        None
    }

    /// Skips an extension header whose second byte counts units of `unit` bytes beyond the first `least` bytes.
    fn extension(&mut self, unit: usize, least: usize) -> Option<()> {
        let (protocol, units) = (*self.payload.first()?, usize::from(*self.payload.get(1)?));
        self.protocol = protocol;
        self.skip(units * unit + least)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.payload = self.payload.get(bytes..)?;
        self.payload_len = self.payload_len.checked_sub(bytes as u32)?;
        Some(())
    }
}

fn fragment(id: u32, offset: u32, more: bool) -> Fragment {
    if offset == 0 && !more { Fragment::Whole } else { Fragment::Part { id, offset, more } }
}
