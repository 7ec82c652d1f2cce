//! Inspection of an IP packet's headers: flow, and sensitivity to reordering.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use lasthop_proto::link::hybrid::Traffic;
use lasthop_proto::packet::Flags;
use lasthop_wire::protocol::{DESTINATION, FRAGMENT, HOP_BY_HOP, ICMP, ICMP_V6, ROUTING, TCP, UDP};
use lasthop_wire::{Extension, Fragment, Ip, Tcp};

/// IPv6 extension headers that are skipped.
const SKIPPED: [u8; 4] = [HOP_BY_HOP, ROUTING, DESTINATION, FRAGMENT];
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

/// Addresses, protocol, and ports if there are any.
type Flow = ((IpAddr, IpAddr), u8, Option<[u8; 4]>);

/// Numbers that identify flows, with secret keys. The number of the latest flow is kept, since packets of a flow arrive in
/// runs: those of a super-segment.
#[derive(Default)]
pub struct Flows {
    keys: RandomState,
    latest: Option<(Flow, u32)>,
}

impl Flows {
    /// Returns the number of a packet's flow; `view` is the result of [`look`] for it.
    pub fn number(&mut self, view: &View, packet: &[u8]) -> u32 {
        let flow = view.flow(packet);
        match self.latest {
            Some((latest, number)) if latest == flow => number,
            _ => {
                let number = self.keys.hash_one(flow) as u32;
                self.latest = Some((flow, number));
                number
            }
        }
    }

    /// Returns the number of the flow of a frame without IP that begins with this header.
    pub fn number_without_ip(&self, header: &[u8]) -> u32 {
        self.keys.hash_one(header) as u32
    }
}

/// Parses a packet; `None` if it is incomplete.
pub fn look(bytes: &[u8]) -> Option<View> {
    let ip = Ip::new_checked(bytes).filter(|ip| ip.claimed_len() == bytes.len())?;
    let mut view = View {
        addresses: (ip.source(), ip.destination()),
        protocol: ip.protocol(),
        body: ip.header_len()?,
        later_fragment: ip.fragment().is_later(),
    };
    if let Ip::V6(_) = ip {
        view.skip_extensions(bytes);
    }
    (view.body <= bytes.len()).then_some(view)
}

impl View {
    /// Skips the extension headers of an IPv6 packet, which may exceed it.
    fn skip_extensions(&mut self, packet: &[u8]) {
        for _ in 0..MOST_EXTENSIONS {
            let extension = packet.get(self.body..).and_then(|rest| Extension::new_checked(self.protocol, rest));
            let Some(extension) = extension.filter(|_| SKIPPED.contains(&self.protocol)) else { break };
            self.later_fragment |= extension.fragment().is_some_and(Fragment::is_later);
            self.body += extension.claimed_len();
            self.protocol = extension.next_header();
        }
    }

    /// Returns the data after the IP headers.
    pub fn body<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        packet.get(self.body..).unwrap_or_default()
    }

    /// Returns the bytes of the ports, if there are any.
    fn port_bytes(&self, packet: &[u8]) -> Option<[u8; 4]> {
        let has_ports = matches!(self.protocol, TCP | UDP) && !self.later_fragment;
        self.body(packet).first_chunk().copied().filter(|_| has_ports)
    }

    /// Returns the source and destination port, if there are any.
    pub fn ports(&self, packet: &[u8]) -> Option<[u16; 2]> {
        let [a, b, c, d] = self.port_bytes(packet)?;
        Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
    }

    /// Returns the identity of the flow.
    fn flow(&self, packet: &[u8]) -> Flow {
        (self.addresses, self.protocol, self.port_bytes(packet))
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
    const EVENTS: Flags = Flags::FIN.with(Flags::SYN).with(Flags::RST);
    let is_ack = |tcp: Tcp<'_>| !tcp.flags().meets(EVENTS) && segment.len() <= tcp.claimed_header_len();
    if Tcp::new_checked(segment).is_some_and(is_ack) { Traffic::Acknowledgment } else { Traffic::Stream }
}

fn udp(ports: Option<[u16; 2]>, datagram: &[u8]) -> Traffic {
    let Some(ports) = ports else { return Traffic::Datagram };
    let known = ports.iter().any(|port| ORDERED_PORTS.contains(port));
    // WireGuard on any port: its transport data.
    let wireguard = datagram.len() >= 40 && datagram[8..12] == [4, 0, 0, 0];
    // QUIC on any port during a handshake: a long header of version 1 or 2.
    let quic = datagram.get(8).is_some_and(|first| first & 0xc0 == 0xc0)
        && matches!(datagram.get(9..13), Some([0, 0, 0, 1] | [0x6b, 0x33, 0x43, 0xcf]));
    if known || wireguard || quic { Traffic::Stream } else { Traffic::Datagram }
}

#[cfg(test)]
mod tests {
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
        let mut flows = Flows::default();
        let mut flow = |packet: &[u8]| flows.number(&look(packet).unwrap(), packet);
        let one = v4(UDP, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(flow(&one), flow(&v4(UDP, &[1, 2, 3, 4, 7, 8, 9])));
        assert_ne!(flow(&one), flow(&v4(UDP, &[1, 2, 3, 5, 5, 6])));
        assert_ne!(flow(&one), flow(&v4(TCP, &[1, 2, 3, 4, 5, 6])));
        assert_eq!(flow(&one), flow(&one));
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
