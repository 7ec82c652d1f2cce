//! Tests the far end of a hop between radios, and the marker that it signals, with arbitrary packets: each packet
//! passes once, in order, and memory is bounded.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, passing, pause, steps, wait};
use lasthop_proto::link::radio::{End, Header, Radio, RadioConfig};
use lasthop_proto::node::{Node, Output, Port, Why};
use lasthop_proto::packet::SackBlock;
use lasthop_proto::packet::headers::{LinkHeader, LinkHeaders};
use lasthop_proto::pep::eln::{ElnKnowledge, ElnMarker, ElnMarkerConfig};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn headers(u: &mut Unstructured<'_>) -> Result<LinkHeaders> {
    let mut link = LinkHeaders::NONE;
    match u.int_in_range(0..=9u8)? {
        0 => {}
        1 => Header::Queue(u.arbitrary()?).put(&mut link),
        2 => Header::Missing(SackBlock { left: Seq(u.arbitrary()?), right: Seq(u.arbitrary()?) }).put(&mut link),
        3 => Header::Data(u.arbitrary()?).put(&mut link),
        _ => Header::Data(u.int_in_range(0..=300)?).put(&mut link),
    }
    Ok(link)
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let end = *u.choose(&[End::Near, End::Far])?;
    let (exchange, threshold) = (pause(u)?.max(Duration::from_millis(10)), u.arbitrary()?);
    let mut radio = Radio::new(RadioConfig { end, exchange, threshold, header: 4, message: 20, connections: 3 });
    let config = ElnMarkerConfig { knowledge: ElnKnowledge::Told, connections: 3, gaps: 4 };
    let mut marker = ElnMarker::<()>::new(config);
    let mut now = Instant::ZERO;
    steps(u, 300, |u| {
        let mut given = Vec::new();
        let see = |output| {
            if let Output::Transmit(port, why, packet) = output {
                given.push((port, why, packet));
            }
        };
        if u.ratio(1, 6)? {
            now += pause(u)?.min(Duration::from_secs(60));
            radio.see_queue(usize::from(u.arbitrary::<u16>()?));
            wait(&mut radio, now, see);
            assert!(given.iter().all(|(port, why, _)| *port == Port::WIRELESS && *why == Why::Control));
            return Ok(());
        }
        let (port, mut packet) = passing(u)?;
        if port == Port::WIRELESS {
            packet.link = headers(u)?;
        }
        radio.handle_packet(now, port, packet);
        drain(&mut radio, now, see);
        let passed = given.iter().filter(|(_, why, _)| *why == Why::Given).count();
        assert!(passed <= 1 && given.len() <= 2 && radio.connections() <= 3);
        // Packets that return over the hop reach the marker last.
        for (port, _, packet) in given {
            marker.handle_packet(now, port, packet);
            drain(&mut marker, now, |_: Output<()>| ());
        }
        assert!(marker.connections() <= 3);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
