//! UDP datagrams over IPv4 or IPv6.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;

use crate::ip::{Fragment, Ip, protocol};
use crate::parse::Route;
use crate::transport::Udp;

/// Headers of a UDP datagram, with the position of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source and destination.
    pub route: Route,
    /// Length of the IP header, in bytes.
    pub ip_len: usize,
    /// Length of the payload, in bytes.
    pub payload_len: usize,
}

impl Datagram {
    /// Returns the length of the IP and UDP headers, in bytes: the payload begins here.
    pub const fn header_len(&self) -> usize {
        self.ip_len + Udp::HEADER_LEN
    }

    /// Returns the length of the whole packet, in bytes; further bytes in the buffer are padding.
    pub const fn total_len(&self) -> usize {
        self.header_len() + self.payload_len
    }

    /// Returns the payload of the packet.
    pub fn payload<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        packet.get(self.header_len()..self.total_len()).unwrap_or_default()
    }
}

/// Builds a UDP datagram with its checksums; `None` if the addresses are of different IP versions, or the payload is too
/// long.
pub fn build_datagram(route: Route, payload: &[u8]) -> Option<Vec<u8>> {
    /// Hop limit of a new packet.
    const HOPS: u8 = 64;
    let builder = match (route.source.ip(), route.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), HOPS)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), HOPS)
        }
        _ => return None,
    };
    let builder = builder.udp(route.source.port(), route.destination.port());
    let mut packet = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut packet, payload).ok()?;
    Some(packet)
}

/// Parses a packet that begins with its IP header. `None` for all but complete, unfragmented UDP datagrams without IPv6
/// extension headers whose lengths agree with each other and with `bytes` (which may be longer). The checksum is not
/// verified.
pub fn parse_datagram(bytes: &[u8]) -> Option<Datagram> {
    let ip = Ip::new_checked(bytes)?;
    if ip.protocol() != protocol::UDP || ip.fragment() != Fragment::Whole {
        return None;
    }
    let ip_len = ip.header_len()?;
    let udp = Udp::new_checked(bytes.get(ip_len..ip.claimed_len())?)?;
    if usize::from(udp.claimed_len()) != Udp::HEADER_LEN + udp.payload().len() {
        return None;
    }
    let route = Route {
        source: SocketAddr::new(ip.source(), udp.source_port()),
        destination: SocketAddr::new(ip.destination(), udp.destination_port()),
    };
    Some(Datagram { route, ip_len, payload_len: udp.payload().len() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seal_datagram;

    const V4: [&str; 2] = ["1.1.1.1:443", "2.2.2.2:5000"];
    const V6: [&str; 2] = ["[fd01::1]:443", "[fd02::2]:5000"];

    /// Returns a datagram with 5 bytes of payload, and its checksum.
    fn made(is_v6: bool) -> Vec<u8> {
        let [source, destination] = if is_v6 { V6 } else { V4 };
        let route = Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        build_datagram(route, b"hello").unwrap()
    }

    #[test]
    fn a_datagram_has_its_addresses_and_payload_in_both_versions() {
        for (is_v6, ip_len, route) in [(false, 20, V4), (true, 40, V6)] {
            let mut packet = made(is_v6);
            packet.extend([0; 3]);
            let datagram = parse_datagram(&packet).unwrap();
            assert_eq!((datagram.ip_len, datagram.payload(&packet)), (ip_len, &b"hello"[..]));
            assert_eq!(datagram.route.source, route[0].parse().unwrap());
            assert_eq!(datagram.total_len() + 3, packet.len());
            packet[ip_len + 5] -= 1;
            assert_eq!(parse_datagram(&packet), None, "the length of UDP differs from that of IP");
        }
    }

    #[test]
    fn a_sealed_datagram_has_the_checksum_that_another_program_computes() {
        for is_v6 in [false, true] {
            let sealed = made(is_v6);
            let mut pending = sealed.clone();
            let datagram = parse_datagram(&pending).unwrap();
            pending[datagram.ip_len + 6..datagram.ip_len + 8].fill(0x55);
            if !is_v6 {
                pending[10..12].fill(0x55);
            }
            seal_datagram(&mut pending, &datagram);
            assert_eq!(pending, sealed);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), first in 0_usize..2) {
            if let Some(byte) = bytes.first_mut() {
                *byte = [0x45, 0x60][first];
            }
            if let Some(datagram) = parse_datagram(&bytes) {
                prop_assert!(datagram.total_len() <= bytes.len());
                prop_assert_eq!(datagram.payload(&bytes).len(), datagram.payload_len);
                seal_datagram(&mut bytes, &datagram);
            }
        }
    }
}
