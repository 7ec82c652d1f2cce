//! IPv4 and IPv6 headers of packets that a capture may have truncated.

use std::net::IpAddr;

use lasthop_proto::packet::Ecn;

use crate::ip::{Extension, Fragment, Ip, protocol};

/// Maximum number of extension headers to parse.
const MOST_EXTENSIONS: usize = 10;

/// Captured part of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedIp<'p> {
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

impl<'p> CapturedIp<'p> {
    /// Parses a packet that begins with its IP header and had `len` bytes on the wire. `None` if it is not an IP
    /// packet, or if its headers are truncated.
    ///
    /// A length field of zero belongs to a super-segment that an interface had yet to segment (or to a jumbogram):
    /// `len` applies then.
    #[inline]
    pub fn read(bytes: &'p [u8], len: u32) -> Option<Self> {
        let ip = Ip::new_checked(bytes)?;
        let header_len = ip.header_len()?;
        let total_len = if ip.is_unmeasured() { len } else { ip.claimed_len() as u32 };
        let mut rest = Rest {
            protocol: ip.protocol(),
            fragment: ip.fragment(),
            payload_len: total_len.checked_sub(header_len as u32)?,
            payload: bytes.get(header_len..bytes.len().min(total_len as usize))?,
        };
        let identification = match ip {
            Ip::V4(ip) => {
                rest.skip_authentication()?;
                Some(ip.identification())
            }
            Ip::V6(_) => {
                rest.skip_extensions()?;
                None
            }
        };
        let Rest { protocol, fragment, payload_len, payload } = rest;
        Some(Self {
            source: ip.source(),
            destination: ip.destination(),
            ecn: ip.ecn(),
            hop_limit: ip.hop_limit(),
            identification,
            protocol,
            fragment,
            total_len,
            payload_len,
            payload,
        })
    }
}

/// Bytes after the header.
struct Rest<'p> {
    protocol: u8,
    fragment: Fragment,
    payload_len: u32,
    payload: &'p [u8],
}

impl Rest<'_> {
    /// Skips the Authentication Header of an IPv4 packet, if it has one.
    #[inline]
    fn skip_authentication(&mut self) -> Option<()> {
        let has_one = self.protocol == protocol::AH && self.fragment == Fragment::Whole;
        if has_one { self.skip() } else { Some(()) }
    }

    /// Skips the extension headers of an IPv6 packet; `None` if there are too many. After the first fragment the rest
    /// is payload, regardless of its content.
    #[inline]
    fn skip_extensions(&mut self) -> Option<()> {
        for _ in 0..MOST_EXTENSIONS {
            if !Extension::is_one(self.protocol) || self.fragment.is_later() {
                return Some(());
            }
            self.skip()?;
        }
        self.fragment.is_later().then_some(())
    }

    /// Skips the extension header with which the payload begins.
    fn skip(&mut self) -> Option<()> {
        let extension = Extension::new_checked(self.protocol, self.payload)?;
        let len = extension.claimed_len();
        self.protocol = extension.next_header();
        self.fragment = extension.fragment().unwrap_or(self.fragment);
        self.payload = self.payload.get(len..)?;
        self.payload_len = self.payload_len.checked_sub(len as u32)?;
        Some(())
    }
}
