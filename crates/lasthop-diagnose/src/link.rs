//! What stands in front of the IP header.

use crate::capture::{Frame, Way};

/// A packet without its link header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network<'f> {
    /// From the IP header on, as far as it was kept.
    pub packet: &'f [u8],
    /// Bytes of it on the wire, as the capture says; padding of short frames may count.
    pub len: u32,
    /// Number of the interface, where a capture of all of them says it; otherwise 0.
    pub device: u32,
    /// Which way it went.
    pub way: Way,
}

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW: [u32; 4] = [12, 14, 101, 228];
const RAW_IPV6: u32 = 229;
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
const LINUX_SLL2: u32 = 276;
/// Most tags of one frame.
const MOST_TAGS: u32 = 5;

/// Link types that can be read, by name.
pub const KNOWN: &str = "Ethernet, Linux cooked (v1 and v2), raw IP, BSD loopback";

/// Whether packets of this link type can be read.
pub fn is_known(link: u32) -> bool {
    matches!(link, NULL | ETHERNET | RAW_IPV6 | LOOP | LINUX_SLL | LINUX_SLL2) || RAW.contains(&link)
}

/// The IP packet in `frame`, captured on a link of type `link`. `None` when there is none, or its link type is not known.
pub fn network<'f>(link: u32, frame: &Frame<'f>) -> Option<Network<'f>> {
    let data = frame.data;
    let short = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let (begin, device, way) = match link {
        ETHERNET => (behind_tags(data, 12)?, 0, frame.way),
        LINUX_SLL => (behind_tags(data, 14)?, 0, way_of(short(0)?)),
        LINUX_SLL2 => {
            let device = u32::from_be_bytes([*data.get(4)?, *data.get(5)?, *data.get(6)?, *data.get(7)?]);
            let begin = if is_ip(short(0)?) { 20 } else { behind_tag(data, short(0)?, 20)? };
            (begin, device, way_of(u16::from(*data.get(10)?)))
        }
        NULL | LOOP => (4, 0, frame.way),
        _ if is_known(link) => (0, 0, frame.way),
        _ => return None,
    };
    let packet =
        data.get(begin..).filter(|packet| matches!(packet.first(), Some(byte) if matches!(byte >> 4, 4 | 6)))?;
    Some(Network { packet, len: frame.len.saturating_sub(begin as u32), device, way })
}

/// Cooked captures count kinds of packets: to this host, to all, to some, to others, from this host.
fn way_of(kind: u16) -> Way {
    if kind == 4 { Way::Out } else { Way::In }
}

const fn is_ip(protocol: u16) -> bool {
    matches!(protocol, 0x0800 | 0x86dd)
}

/// Where the IP header begins when the protocol's number stands at `at`, behind VLAN tags and a PPPoE session.
fn behind_tags(data: &[u8], at: usize) -> Option<usize> {
    let protocol = u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]);
    if is_ip(protocol) { Some(at + 2) } else { behind_tag(data, protocol, at + 2) }
}

/// As [`behind_tags`], with the tag of that protocol at `begin`.
fn behind_tag(data: &[u8], mut protocol: u16, mut begin: usize) -> Option<usize> {
    for _ in 0..MOST_TAGS {
        match protocol {
            _ if is_ip(protocol) => return Some(begin),
            // 802.1Q, 802.1ad and what came before it: two bytes, then the next protocol.
            0x8100 | 0x88a8 | 0x9100 => {
                protocol = u16::from_be_bytes([*data.get(begin + 2)?, *data.get(begin + 3)?]);
                begin += 4;
            }
            // PPPoE: six bytes, then PPP's number for IPv4 or IPv6.
            0x8864 => match data.get(begin + 6..begin + 8)? {
                [0x00, 0x21 | 0x57] => return Some(begin + 8),
                _ => return None,
            },
            _ => return None,
        }
    }
    None
}
