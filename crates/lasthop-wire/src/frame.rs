//! Innermost IP packet of a captured frame, after link headers, tags and tunnels.
//!
//! [`peel`] supports the link types of tcpdump.org that carry IP, and the encapsulations that carry IP in IP. Frames
//! are untrusted: each step is checked, and the number of steps is bounded.

mod link;
mod tunnel;
mod wireless;

use std::fmt;

use crate::captured::CapturedIp;
use crate::ip::{Fragment, Version, protocol};

/// Maximum number of headers of one frame to parse.
const MOST_STEPS: usize = 24;

/// IP packet without the headers before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'f> {
    /// Captured bytes, starting at the IP header.
    pub bytes: &'f [u8],
    /// Length on the wire, according to the capture; may include padding of short frames.
    pub len: u32,
    /// Index of the interface, if a capture of all interfaces contains it; otherwise 0.
    pub device: u32,
    /// Headers before the packet, to distinguish two captures of one packet.
    pub front: Front,
    /// True if the frame contains another packet after this one (A-MSDU).
    pub more: bool,
}

/// Headers before an IP packet, as digests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Front {
    /// Link addresses of the innermost link header.
    pub addresses: u64,
    /// VLAN tags and MPLS labels.
    pub tags: u64,
    /// Tunnels around the packet, each with its ends.
    pub tunnels: u64,
    /// True if the link retransmitted the frame (IEEE 802.11).
    pub is_retry: bool,
}

/// Reason why no TCP or UDP packet was found in a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unread {
    /// The link type is not supported.
    LinkType(u32),
    /// The encapsulation is not supported.
    Encapsulation(&'static str),
    /// Content other than an IP packet.
    Other(&'static str),
    /// Content other than an IP packet, with its EtherType.
    EtherType(u16),
    /// IP packet of another protocol.
    Protocol(u8),
    /// Fragment of an IP packet.
    Fragment,
    /// Packet truncated before the ports, or damaged.
    CutOff,
    /// More headers than the maximum.
    TooDeep,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(number) => match link::name(*number) {
                Some(name) => write!(f, "link type {number} ({name})"),
                None => write!(f, "link type {number}"),
            },
            Self::Encapsulation(name) | Self::Other(name) => f.write_str(name),
            Self::EtherType(number) => match link::ether_type(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "EtherType {number:#06x}"),
            },
            Self::Protocol(number) => match tunnel::protocol_name(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "IP protocol {number}"),
            },
            Self::Fragment => f.write_str("fragments"),
            Self::CutOff => f.write_str("cut off before the ports, or damaged"),
            Self::TooDeep => f.write_str("more headers than are followed"),
        }
    }
}

/// Names of the supported link types.
pub const READ_LINKS: &str = link::KNOWN;

/// Returns whether a link type is supported.
pub fn reads_link(link: u32) -> bool {
    link::first(link).is_some()
}

/// Returns packet number `part` (from 0) of a frame that was captured on a link of type `link` and had `len` bytes on
/// the wire: its innermost IP packet with TCP or UDP, or a fragment of one.
///
/// # Errors
///
/// Returns an error if the frame has none, or uses an unsupported encapsulation.
pub fn peel(link: u32, data: &[u8], len: u32, part: usize) -> Result<Packet<'_>, Unread> {
    let mut layer = link::first(link).ok_or(Unread::LinkType(link))?;
    let rest = Rest { data, len };
    let mut walk = Walk { rest, device: 0, front: Front::default(), part, more: false, is_padded: false };
    for _ in 0..MOST_STEPS {
        layer = match layer {
            Layer::Link(number) => walk.link(number)?,
            Layer::Ethernet => walk.ethernet()?,
            Layer::EtherType(number) => walk.behind_ether_type(number)?,
            Layer::Llc => walk.llc()?,
            Layer::Ppp => walk.ppp()?,
            Layer::Mpls => walk.mpls()?,
            Layer::Wireless => walk.wireless()?,
            Layer::Ip => match walk.ip()? {
                Some(next) => next,
                None => return Ok(walk.found()),
            },
        };
    }
    Err(Unread::TooDeep)
}

/// Next header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// Header of a link type.
    Link(u32),
    Ethernet,
    /// Payload of that EtherType.
    EtherType(u16),
    Llc,
    Ppp,
    Mpls,
    Wireless,
    Ip,
}

/// Frame from a certain byte.
#[derive(Clone, Copy, Debug)]
struct Rest<'f> {
    data: &'f [u8],
    len: u32,
}

impl Rest<'_> {
    fn byte(&self, at: usize) -> Result<u8, Unread> {
        self.data.get(at).copied().ok_or(Unread::CutOff)
    }

    fn short(&self, at: usize) -> Result<u16, Unread> {
        Ok(u16::from_be_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }

    fn word(&self, at: usize) -> Result<u32, Unread> {
        Ok(u32::from(self.short(at)?) << 16 | u32::from(self.short(at + 2)?))
    }
}

/// Frame whose headers are being parsed.
struct Walk<'f> {
    rest: Rest<'f>,
    device: u32,
    front: Front,
    part: usize,
    more: bool,
    /// True if the 802.11 header is padded to four bytes.
    is_padded: bool,
}

impl<'f> Walk<'f> {
    fn skip(&mut self, bytes: usize) -> Result<(), Unread> {
        self.rest.data = self.rest.data.get(bytes..).ok_or(Unread::CutOff)?;
        self.rest.len = self.rest.len.saturating_sub(bytes as u32);
        Ok(())
    }

    /// Limits the packet to the next `len` bytes of the frame.
    fn limit(&mut self, len: usize) {
        self.rest.data = &self.rest.data[..self.rest.data.len().min(len)];
        self.rest.len = self.rest.len.min(len as u32);
    }

    /// Parses the next IP packet; `None` if it is the innermost one.
    fn ip(&mut self) -> Result<Option<Layer>, Unread> {
        let Rest { data, len } = self.rest;
        self.rest.byte(0)?;
        if Version::of(data).is_none() {
            return Err(Unread::Other("no IP packet after a header that announces one"));
        }
        let ip = CapturedIp::read(data, len).ok_or(Unread::CutOff)?;
        if ip.fragment != Fragment::Whole {
            return match ip.protocol {
                protocol::TCP | protocol::UDP => Ok(None),
                _ => Err(Unread::Fragment),
            };
        }
        let inner = Rest { data: ip.payload, len: ip.payload_len };
        let next = match ip.protocol {
            protocol::TCP => return Ok(None),
            // A datagram with a tunnel's port may contain something else; it then counts as a datagram.
            protocol::UDP => {
                let Some((layer, rest)) = tunnel::in_datagram(inner) else { return Ok(None) };
                self.rest = rest;
                layer?
            }
            number => {
                self.rest = inner;
                self.in_ip(number)?
            }
        };
        let ends = digest(digest(0, &address(ip.source)), &address(ip.destination));
        self.front.tunnels = digest(self.front.tunnels, &ends.to_le_bytes());
        Ok(Some(next))
    }

    const fn found(&self) -> Packet<'f> {
        let Rest { data: bytes, len } = self.rest;
        Packet { bytes, len, device: self.device, front: self.front, more: self.more }
    }
}

fn address(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(address) => address.octets(),
    }
}

/// Extends a digest by bytes (FNV-1a). It need not resist attackers: equal digests of different headers can only
/// confuse copies of a packet.
fn digest(before: u64, bytes: &[u8]) -> u64 {
    let begin = if before == 0 { 0xcbf2_9ce4_8422_2325 } else { before };
    bytes.iter().fold(begin, |digest, &byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
