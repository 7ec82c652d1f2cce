//! UDP datagrams over IPv4 as the links see them.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use etherparse::{IpNumber, Ipv4HeaderSlice, UdpHeaderSlice};
use lasthop_proto::packet::Ecn;
use lasthop_wire::Route;

/// Parsed headers of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source and destination.
    pub route: Route,
    /// ECN field.
    pub ecn: Ecn,
    /// Position of its payload.
    pub payload: Range<usize>,
}

/// Parses a packet that begins with its IP header; `None` if it is not a whole UDP datagram over IPv4.
pub fn read(bytes: &[u8]) -> Option<Datagram> {
    let ip = Ipv4HeaderSlice::from_slice(bytes).ok()?;
    if ip.protocol() != IpNumber::UDP || ip.is_fragmenting_payload() {
        return None;
    }
    let start = ip.slice().len();
    let udp = UdpHeaderSlice::from_slice(bytes.get(start..usize::from(ip.total_len()))?).ok()?;
    let payload = start + udp.slice().len()..start + usize::from(udp.length());
    bytes.get(payload.clone())?;
    Some(Datagram {
        route: Route {
            source: SocketAddr::new(IpAddr::V4(ip.source_addr()), udp.source_port()),
            destination: SocketAddr::new(IpAddr::V4(ip.destination_addr()), udp.destination_port()),
        },
        ecn: Ecn::from_bits(bytes[1]),
        payload,
    })
}
