//! Inspection of an IP packet's headers: length, flow, and sensitivity to reordering.

use std::hash::BuildHasher;
use std::net::IpAddr;

use lasthop_proto::link::hybrid::Traffic;

use super::frame::LENGTH;

/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// IPv6 extension headers that precede others: hop-by-hop, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;
/// Maximum number of extension headers to skip.
const MOST_EXTENSIONS: usize = 8;
/// UDP ports of protocols that are sensitive to reordering: QUIC, IKE and ESP, OpenVPN, L2TP, WireGuard.
const ORDERED_PORTS: [u16; 6] = [443, 500, 4500, 1194, 1701, 51820];

/// Parsed headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// Source and destination address.
    pub addresses: (IpAddr, IpAddr),
    /// Protocol after IP.
    pub protocol: u8,
    /// Offset of that protocol's header.
    pub body: usize,
    /// True for a fragment other than the first.
    pub later_fragment: bool,
}

/// Returns the length in the header of the IP packet, or frame ([`super::frame`]), that starts with these bytes.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let short = |at: usize| Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    match bytes.first()? >> 4 {
        0..=3 => Some(LENGTH + short(0)?),
        4 => short(2).filter(|length| *length >= 20),
        6 => Some(short(4)? + 40),
        _ => None,
    }
}

/// Parses a packet; `None` if it is incomplete.
pub fn look(bytes: &[u8]) -> Option<View> {
    let addresses = lasthop_tunnel::addresses(bytes)?;
    if length(bytes)? != bytes.len() {
        return None;
    }
    if addresses.0.is_ipv4() {
        let body = usize::from(bytes[0] & 0xf) * 4;
        let later_fragment = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1fff != 0;
        return (20..=bytes.len()).contains(&body).then_some(View {
            addresses,
            protocol: bytes[9],
            body,
            later_fragment,
        });
    }
    let (mut protocol, mut body, mut later_fragment) = (bytes[6], 40, false);
    for _ in 0..MOST_EXTENSIONS {
        let Some(header) = bytes.get(body..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        if EXTENSIONS.contains(&protocol) {
            body += 8 + usize::from(header[1]) * 8;
        } else if protocol == FRAGMENT {
            later_fragment |= u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0;
            body += 8;
        } else {
            break;
        }
        protocol = header[0];
    }
    (body <= bytes.len()).then_some(View { addresses, protocol, body, later_fragment })
}

impl View {
    /// Returns the data after the IP headers.
    pub fn body<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        packet.get(self.body..).unwrap_or_default()
    }

    /// Returns the bytes of the ports, if there are any.
    fn ports(&self, packet: &[u8]) -> Option<[u8; 4]> {
        let has_ports = matches!(self.protocol, TCP | UDP) && !self.later_fragment;
        self.body(packet).first_chunk().copied().filter(|_| has_ports)
    }

    /// Returns the source and destination port; zeros if there are none.
    pub fn end_ports(&self, packet: &[u8]) -> [u16; 2] {
        let [a, b, c, d] = self.ports(packet).unwrap_or_default();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    }

    /// Returns a number that identifies the flow; `keys` are secret.
    pub fn flow(&self, packet: &[u8], keys: &impl BuildHasher) -> u32 {
        keys.hash_one((self.addresses, self.protocol, self.ports(packet))) as u32
    }

    /// Returns the class of traffic: sensitivity to reordering and to delay.
    pub fn traffic(&self, packet: &[u8]) -> Traffic {
        match self.protocol {
            TCP if self.later_fragment => Traffic::Stream,
            TCP => tcp(self.body(packet)),
            UDP => udp(self.ports(packet), self.body(packet)),
            ICMP | ICMP_V6 => Traffic::Datagram,
            // ESP, GRE, SCTP, IP in IP and others: not known to be sensitive to delay.
            _ => Traffic::Stream,
        }
    }
}

fn tcp(segment: &[u8]) -> Traffic {
    /// Flags FIN, SYN and RST.
    const EVENTS: u8 = 0x07;
    if segment.len() < 20 || segment[13] & EVENTS != 0 {
        return Traffic::Stream;
    }
    let data = segment.len() > usize::from(segment[12] >> 4) * 4;
    if data { Traffic::Stream } else { Traffic::Acknowledgment }
}

fn udp(ports: Option<[u8; 4]>, datagram: &[u8]) -> Traffic {
    let Some([a, b, c, d]) = ports else { return Traffic::Datagram };
    let known = [[a, b], [c, d]].iter().any(|port| ORDERED_PORTS.contains(&u16::from_be_bytes(*port)));
    // WireGuard on any port: its transport data.
    let wireguard = datagram.len() >= 40 && datagram[8..12] == [4, 0, 0, 0];
    // QUIC on any port during a handshake: a long header of version 1 or 2.
    let quic = datagram.get(8).is_some_and(|first| first & 0xc0 == 0xc0)
        && matches!(datagram.get(9..13), Some([0, 0, 0, 1] | [0x6b, 0x33, 0x43, 0xcf]));
    if known || wireguard || quic { Traffic::Stream } else { Traffic::Datagram }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    pub fn v4(protocol: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend_from_slice(body);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn v6(next: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend_from_slice(&[0xfd; 32]);
        packet.extend_from_slice(body);
        packet[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
        packet
    }

    fn traffic(packet: &[u8]) -> Traffic {
        look(packet).unwrap().traffic(packet)
    }

    #[test]
    fn what_suffers_from_disorder_is_known() {
        let segment = |flags: u8, data: usize| [&[0; 12][..], &[0x50, flags], &vec![0; 6 + data]].concat();
        for build in [v4, v6] {
            assert_eq!(traffic(&build(TCP, &segment(0x10, 0))), Traffic::Acknowledgment);
            assert_eq!(traffic(&build(TCP, &segment(0x10, 1))), Traffic::Stream);
            assert_eq!(traffic(&build(TCP, &segment(0x02, 0))), Traffic::Stream);
            assert_eq!(traffic(&build(TCP, &[0; 8])), Traffic::Stream);
            let datagram =
                |port: u16, first: &[u8]| [&[1, 2], &port.to_be_bytes()[..], &[0; 4], first, &[9; 40]].concat();
            assert_eq!(traffic(&build(UDP, &datagram(443, &[]))), Traffic::Stream);
            assert_eq!(traffic(&build(UDP, &datagram(5004, &[]))), Traffic::Datagram);
            assert_eq!(traffic(&build(UDP, &datagram(5004, &[4, 0, 0, 0]))), Traffic::Stream);
            assert_eq!(traffic(&build(UDP, &datagram(5004, &[0xc3, 0, 0, 0, 1]))), Traffic::Stream);
            assert_eq!(traffic(&build(ICMP, &[8])), Traffic::Datagram);
            assert_eq!(traffic(&build(50, &[])), Traffic::Stream);
        }
        // After an extension header of 16 bytes, and in a fragment.
        assert_eq!(traffic(&v6(60, &[&[TCP, 1][..], &[0; 14], &segment(0x10, 0)].concat())), Traffic::Acknowledgment);
        let fragment = v6(FRAGMENT, &[&[TCP, 0, 0, 8, 0, 0, 0, 0][..], &segment(0x10, 0)].concat());
        assert_eq!((traffic(&fragment), look(&fragment).unwrap().later_fragment), (Traffic::Stream, true));
    }

    #[test]
    fn a_flow_is_its_addresses_protocol_and_ports() {
        let keys = RandomState::new();
        let flow = |packet: &[u8]| look(packet).unwrap().flow(packet, &keys);
        let one = v4(UDP, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(flow(&one), flow(&v4(UDP, &[1, 2, 3, 4, 7, 8, 9])));
        assert_ne!(flow(&one), flow(&v4(UDP, &[1, 2, 3, 5, 5, 6])));
        assert_ne!(flow(&one), flow(&v4(TCP, &[1, 2, 3, 4, 5, 6])));
    }

    #[test]
    fn what_is_no_whole_packet_is_none() {
        let whole = v4(UDP, &[0; 8]);
        assert!(look(&whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(look(&whole[..end]), None);
        }
        assert_eq!(look(&[&whole[..], &[0]].concat()), None, "padded");
        let mut long = whole.clone();
        long[0] = 0x4f;
        assert_eq!(look(&long), None);
        assert_eq!(look(&v6(0, &[0, 200, 0, 0, 0, 0, 0, 0])), None, "an extension beyond the end");
    }
}
