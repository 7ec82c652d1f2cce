//! The base station's ELN marker on real packets: the simulator's node at a router's end of an emulated link.

use lasthop_proto::node::{Node, Port};
use lasthop_proto::packet::{Integrity, Packet};
use lasthop_proto::pep::eln::{ElnMarker, ElnMarkerConfig};
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksums, checksums, mark_eln, parse};

/// Ethernet addresses and type in front of the packet.
const ETHERNET: usize = 14;

/// A marker between a router and a link.
pub struct Marker(ElnMarker<()>);

impl Default for Marker {
    /// As the simulator has it.
    fn default() -> Self {
        Self(ElnMarker::new(ElnMarkerConfig::default()))
    }
}

impl Marker {
    /// Passes a packet, which came from `port`, and its frame. The frame as it goes on when the packet, an acknowledgment, gets
    /// a mark here; otherwise it goes on as it came.
    pub fn pass(&mut self, now: Instant, port: Port, packet: &mut Packet, frame: &[u8]) -> Option<Vec<u8>> {
        let bytes = frame.get(ETHERNET..)?;
        let view = parse(bytes)?;
        // A link before this one may have damaged it: nothing of it is to be believed.
        let integrity = match checksums(bytes, &view) {
            Checksums::Hold => packet.integrity,
            Checksums::TcpWrong | Checksums::IpWrong => Integrity::PayloadDamaged,
        };
        self.0.handle_packet(now, port, Packet { integrity, ..*packet });
        let mut passed = Packet::default();
        self.0.poll_transmit(now, &mut passed)?;
        while self.0.poll_event().is_some() {}
        let is_marked = |packet: &Packet| packet.tcp().is_some_and(|segment| segment.options.eln);
        if !is_marked(&passed) || is_marked(packet) {
            return None;
        }
        let marked = mark_eln(bytes, &view)?;
        *packet = passed;
        Some([&frame[..ETHERNET], &marked].concat())
    }
}
