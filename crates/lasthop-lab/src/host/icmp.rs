//! ICMP messages that report a smaller path MTU (RFC 1191, RFC 8201).

use std::net::SocketAddr;

use etherparse::checksum::Sum16BitWords;
use lasthop_proto::seq::Seq;
use lasthop_wire::{Fragment, Ip, Ipv4, Ipv6, Route, TcpFront, protocol};

/// Minimum path MTU that is accepted, in bytes: Linux's for IPv4 (`net.ipv4.route.min_pmtu`), and the minimum of IPv6.
const LEAST_MTU: [u16; 2] = [552, 1280];

/// Report that a packet was too big for a link on its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooBig {
    /// Route of the packet.
    pub route: Route,
    /// First sequence number of the packet.
    pub seq: Seq,
    /// Maximum bytes per packet on the link.
    pub mtu: u16,
}

/// Parses a packet that begins with its IP header. `None` for other packets, and for malformed ones.
pub(super) fn parse(bytes: &[u8]) -> Option<TooBig> {
    match Ip::new_checked(bytes)? {
        Ip::V4(ip) => parse_v4(&ip),
        Ip::V6(ip) => parse_v6(&ip),
    }
}

/// Parses destination unreachable, fragmentation needed and DF set: type 3, code 4.
fn parse_v4(ip: &Ipv4<'_>) -> Option<TooBig> {
    if ip.protocol() != protocol::ICMP || ip.fragment() != Fragment::Whole {
        return None;
    }
    let message = ip.bytes().get(ip.header_len()?..usize::from(ip.claimed_len()))?;
    let (&[3, 4, _, _, _, _, high, low], quoted) = message.split_first_chunk::<8>()? else { return None };
    let quoted = Ip::new_checked(quoted).filter(|_| checksum_holds(&[], message))?;
    too_big(&quoted, u16::from_be_bytes([high, low]).max(LEAST_MTU[0])).filter(|_| matches!(quoted, Ip::V4(_)))
}

/// Parses packet too big: type 2.
fn parse_v6(ip: &Ipv6<'_>) -> Option<TooBig> {
    if ip.next_header() != protocol::ICMP_V6 {
        return None;
    }
    let message = ip.bytes().get(40..)?.get(..usize::from(ip.claimed_payload_len()))?;
    let (&[2, 0, _, _, mtu @ ..], quoted) = message.split_first_chunk::<8>()? else { return None };
    let ends = [ip.source().octets(), ip.destination().octets()].concat();
    let pseudo = [&ends[..], &(message.len() as u32).to_be_bytes(), &[0, 0, 0, protocol::ICMP_V6]].concat();
    let quoted = Ip::new_checked(quoted).filter(|_| checksum_holds(&pseudo, message))?;
    let mtu = u16::try_from(u32::from_be_bytes(mtu)).unwrap_or(u16::MAX).max(LEAST_MTU[1]);
    too_big(&quoted, mtu).filter(|_| matches!(quoted, Ip::V6(_)))
}

/// Returns whether the checksum of a message is correct (RFC 1071); `pseudo` is the pseudo-header.
fn checksum_holds(pseudo: &[u8], message: &[u8]) -> bool {
    Sum16BitWords::new().add_slice(pseudo).add_slice(message).ones_complement() == 0
}

/// Returns the report about the quoted packet; `None` if it is not TCP, or if the first bytes of its header are missing.
fn too_big(quoted: &Ip<'_>, mtu: u16) -> Option<TooBig> {
    let transport = quoted.bytes().get(quoted.claimed_header_len()..).filter(|_| quoted.protocol() == protocol::TCP);
    let tcp = TcpFront::new_checked(transport?)?;
    let route = Route {
        source: SocketAddr::new(quoted.source(), tcp.source_port()),
        destination: SocketAddr::new(quoted.destination(), tcp.destination_port()),
    };
    Some(TooBig { route, seq: tcp.seq(), mtu })
}
