//! Packets in the form that the mechanisms process: those of the scenario's flows, and for queues those of other
//! programs.

use lasthop_proto::packet::{Body, Cause, FlowId, HeaderForm, Packet};
use lasthop_proto::queue::View;
use lasthop_wire::{Ip, ecn};

use super::Air;
use crate::quic::datagram;

/// TCP, UDP, and other protocols with ports in the same place.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

impl Air {
    /// Parses an IPv4 packet into the mechanisms' form. If it belongs to no flow, only its length and ECN field are
    /// set.
    pub(super) fn read(&self, bytes: &[u8]) -> Packet {
        let unwrapped = self.unwrapped(bytes);
        let bytes = unwrapped.as_deref().unwrap_or(bytes);
        let view = lasthop_wire::parse(bytes);
        let Some((view, (flow, from))) = view.and_then(|view| Some((view, *self.flows.get(&view.route)?))) else {
            if let Some(packet) = self.read_udp(bytes) {
                return packet;
            }
            let total = Ip::new_checked(bytes).map_or(usize::MAX, |ip| ip.claimed_len());
            let len = total.min(bytes.len()) as u32;
            let (body, ecn) = (Body::Datagram { number: 0 }, ecn(bytes));
            return Packet { flow: FlowId::NONE, header_len: 0, len, ecn, body, ..Packet::default() };
        };
        Packet {
            flow,
            from,
            header_len: view.header_len as u16,
            len: view.payload_len as u32,
            ecn: view.ecn,
            body: Body::Tcp(view.segment),
            ..Packet::default()
        }
    }

    /// Parses a datagram of a flow. The ends of QUIC flows have registered its encrypted contents.
    fn read_udp(&self, bytes: &[u8]) -> Option<Packet> {
        let view = datagram::read(bytes)?;
        let (flow, from) = *self.flows.get(&view.route)?;
        if let Some(format) = self.formats.get(flow.0 as usize).copied().flatten() {
            let header_len = (view.payload.start + format.header_len()).min(view.payload.end);
            return Some(Packet {
                flow,
                from,
                cause: Cause::Datagram,
                header_len: header_len as u16,
                len: (view.payload.end - header_len) as u32,
                ecn: view.ecn,
                body: format.body(&bytes[view.payload.clone()]),
                ..Packet::default()
            });
        }
        let tally = self.quic.tally(flow.0 as usize)?;
        let letter = tally.letter(from, &bytes[view.payload.clone()]).unwrap_or_default();
        Some(Packet {
            flow,
            from,
            cause: if letter.resent { Cause::SackHole } else { Cause::New },
            header_len: view.payload.start as u16,
            len: view.payload.len() as u32,
            ecn: view.ecn,
            body: Body::Quic {
                number: letter.number,
                data: letter.data,
                form: HeaderForm::of(&bytes[view.payload.clone()]),
            },
            ..Packet::default()
        })
    }
}

/// Returns the properties of a packet that queues evaluate: hosts and DSCP from the bytes of an IPv4 packet.
pub(super) fn view(packet: &Packet, bytes: &[u8]) -> View {
    match Ip::new_checked(bytes) {
        Some(Ip::V4(ip)) => {
            let hosts = [ip.source(), ip.destination()].map(u32::from);
            View::of(packet, bytes.get(1).map_or(0, |service| service >> 2), hosts)
        }
        _ => View { ecn: packet.ecn, ..View::default() },
    }
}

/// Returns an identity of the flow and direction of an IPv4 packet, from addresses, protocol and ports. It exceeds all
/// numbers of the scenario's own flows. `None` if it is not an IPv4 packet.
pub(super) fn line(packet: &[u8]) -> Option<u32> {
    let Ip::V4(ip) = Ip::new_checked(packet)? else { return None };
    let has_ports = WITH_PORTS.contains(&ip.protocol()) && !ip.fragment().is_later();
    let ports = packet.get(ip.claimed_header_len()..).and_then(|rest| rest.get(..4)).filter(|_| has_ports);
    let (ends, protocol) = ([ip.source().octets(), ip.destination().octets()], [ip.protocol()]);
    let bytes = ends.as_flattened().iter().chain(&protocol).chain(ports.unwrap_or_default());
    // FNV-1a.
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The highest number is reserved for packets without a flow.
    Some((hash | 1 << 31).min(u32::MAX - 1))
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::Ecn;

    use super::*;

    fn packet(protocol: u8, ports: [u8; 4], fragment: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 2, 0, 40, 0, 0, 0, fragment, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(ports);
        packet
    }

    #[test]
    fn flows_are_told_apart_by_addresses_protocol_and_ports() {
        let tcp = line(&packet(6, [1, 2, 3, 4], 0)).unwrap();
        assert_eq!(line(&packet(6, [1, 2, 3, 4], 0)), Some(tcp));
        assert_ne!(line(&packet(6, [1, 2, 3, 5], 0)), Some(tcp));
        assert_ne!(line(&packet(17, [1, 2, 3, 4], 0)), Some(tcp));
        // Later fragments and pings have no ports.
        assert_eq!(line(&packet(17, [1, 2, 3, 4], 7)), line(&packet(17, [9; 4], 7)));
        assert_eq!(line(&packet(1, [8, 0, 1, 1], 0)), line(&packet(1, [8, 0, 9, 9], 0)));
        assert!(tcp >= 1 << 31);
        assert_eq!((line(&[]), line(&[0x60; 40])), (None, None));
        // Truncation anywhere is safe.
        let whole = packet(6, [1, 2, 3, 4], 0);
        (0..whole.len()).for_each(|len| assert!(line(&whole[..len]).is_none() || len >= 20));
    }

    #[test]
    fn marks_are_read() {
        assert_eq!((ecn(&packet(6, [0; 4], 0)), ecn(&[])), (Ecn::Ect0, Ecn::NotEct));
    }
}
