//! UDP datagrams over IPv4 as the links see them.

use std::net::SocketAddr;
use std::ops::Range;

use lasthop_proto::packet::Ecn;
use lasthop_wire::{Fragment, Ip, Route, Udp, protocol};

/// Parsed headers of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source and destination.
    pub route: Route,
    /// ECN field.
    pub ecn: Ecn,
    /// Position of the datagram's payload.
    pub payload: Range<usize>,
}

/// Parses a packet that begins with its IP header; `None` if it is not a whole UDP datagram over IPv4.
pub fn read(bytes: &[u8]) -> Option<Datagram> {
    let ip = Ip::new_checked(bytes).filter(|ip| matches!(ip, Ip::V4(_)))?;
    if ip.protocol() != protocol::UDP || ip.fragment() != Fragment::Whole {
        return None;
    }
    let start = ip.header_len()?;
    let udp = Udp::new_checked(bytes.get(start..ip.claimed_len())?)?;
    let payload = start + Udp::HEADER_LEN..start + usize::from(udp.claimed_len());
    bytes.get(payload.clone())?;
    Some(Datagram {
        route: Route {
            source: SocketAddr::new(ip.source(), udp.source_port()),
            destination: SocketAddr::new(ip.destination(), udp.destination_port()),
        },
        ecn: ip.ecn(),
        payload,
    })
}
