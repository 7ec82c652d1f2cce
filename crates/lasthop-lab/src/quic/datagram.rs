//! UDP datagrams over IPv4 as the links see them.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use etherparse::{IpNumber, Ipv4HeaderSlice, UdpHeaderSlice};
use lasthop_proto::packet::Ecn;
use lasthop_wire::Route;

/// What a datagram says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Between whom it is.
    pub route: Route,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Where its payload is.
    pub payload: Range<usize>,
}

/// Reads a packet that begins with its IP header; `None` where it is no whole UDP datagram over IPv4.
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
