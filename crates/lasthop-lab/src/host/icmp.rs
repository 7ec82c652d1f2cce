//! ICMP messages that report a smaller path MTU (RFC 1191, RFC 8201).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use lasthop_proto::seq::Seq;
use lasthop_wire::Route;

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
    match bytes.first()? >> 4 {
        4 => parse_v4(bytes),
        6 => parse_v6(bytes),
        _ => None,
    }
}

/// Parses destination unreachable, fragmentation needed and DF set: type 3, code 4.
fn parse_v4(bytes: &[u8]) -> Option<TooBig> {
    let header_len = usize::from(bytes[0] & 0xf) * 4;
    let message = bytes.get(header_len..usize::from(short(bytes, 2)?))?;
    let fragment = short(bytes, 6)? & 0x3fff != 0;
    if header_len < 20 || fragment || bytes[9] != 1 || message.get(..2)? != [3, 4] || !checksum_holds(&[], message) {
        return None;
    }
    let packet = message.get(8..)?;
    let transport = packet.get(usize::from(packet.first()? & 0xf) * 4..)?;
    if packet[0] >> 4 != 4 || *packet.get(9)? != 6 {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(bytes).into())
    };
    too_big([address(12)?, address(16)?], transport, short(message, 6)?.max(LEAST_MTU[0]))
}

/// Parses packet too big: type 2.
fn parse_v6(bytes: &[u8]) -> Option<TooBig> {
    let message = bytes.get(40..)?.get(..usize::from(short(bytes, 4)?))?;
    let next_header = 58;
    let pseudo = [&bytes[8..40], &(message.len() as u32).to_be_bytes(), &[0, 0, 0, next_header]].concat();
    if bytes[6] != next_header || message.get(..2)? != [2, 0] || !checksum_holds(&pseudo, message) {
        return None;
    }
    let packet = message.get(8..)?;
    if packet.first()? >> 4 != 6 || *packet.get(6)? != 6 {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(bytes).into())
    };
    let mtu = u32::from_be_bytes(message.get(4..8)?.try_into().ok()?);
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX).max(LEAST_MTU[1]);
    too_big([address(8)?, address(24)?], packet.get(40..)?, mtu)
}

/// Returns whether the checksum of a message is correct (RFC 1071); `pseudo` is the pseudo-header.
fn checksum_holds(pseudo: &[u8], message: &[u8]) -> bool {
    Sum16BitWords::new().add_slice(pseudo).add_slice(message).ones_complement() == 0
}

fn too_big([source, destination]: [IpAddr; 2], transport: &[u8], mtu: u16) -> Option<TooBig> {
    let end = |address: IpAddr, at: usize| Some(SocketAddr::new(address, short(transport, at)?));
    let route = Route { source: end(source, 0)?, destination: end(destination, 2)? };
    let seq = Seq(u32::from_be_bytes(transport.get(4..8)?.try_into().ok()?));
    Some(TooBig { route, seq, mtu })
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
