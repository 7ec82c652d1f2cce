//! Tests the ELN marker: every packet passes, in order, and only the marks of acknowledgments change.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::pep::eln::{ElnKnowledge, ElnMarker, ElnMarkerConfig};
use lasthop_proto::time::Instant;
use libfuzzer_sys::fuzz_target;

/// Returns the packet without the fields that marking may change.
fn unmarked(mut packet: Packet) -> Packet {
    packet.header_len = 0;
    if let Body::Tcp(segment) = &mut packet.body {
        segment.options.eln = false;
        segment.options.sack = Default::default();
    }
    packet
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = ElnMarkerConfig {
        knowledge: ElnKnowledge::Own,
        connections: u.int_in_range(0..=4)?,
        gaps: u.int_in_range(0..=6)?,
    };
    let mut marker: ElnMarker<()> = ElnMarker::new(config);
    let mut now = Instant::ZERO;
    steps(u, 300, |u| {
        now = now + pause(u)?;
        let (port, packet) = passing(u)?;
        marker.handle_packet(now, port, packet);
        let across = if port == Port::WIRED { Port::WIRELESS } else { Port::WIRED };
        let mut sent = Vec::new();
        drain(&mut marker, now, |output| {
            if let Output::Transmit(to, _, out) = output {
                assert_eq!(to, across);
                sent.push(out);
            }
        });
        assert_eq!(sent.len(), 1);
        if sent[0] != packet {
            assert_eq!(unmarked(sent[0]), unmarked(packet));
            assert_eq!(packet.len, 0, "only pure acknowledgments are marked");
            let options = sent[0].tcp().map(|tcp| tcp.options);
            let before = packet.tcp().map_or(0, |tcp| tcp.options.wire_len());
            assert!(
                options.is_some_and(|o| o.eln && (o.wire_len() <= 40 || o.wire_len() <= before + 4)),
                "{options:?}"
            );
        }
        assert!(marker.connections() <= config.connections);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
