use std::net::SocketAddr;

use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::queue::View;
use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_sim::link::{DuplexDirection, ManagedDirection};
use lasthop_sim::measure::PathReport;
use lasthop_sim::network::Network;

use super::*;

fn scenario(wireless: &str) -> Scenario {
    Scenario::parse("test.toml", &TEXT.replace("{wireless}", wireless)).unwrap()
}

const TEXT: &str = r#"
[tcp]
preset = "bsd-lite"
[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "10 Mbps"
delay = "1 ms"
[links.wireless]
between = ["base", "mobile"]
rate = "2 Mbps"
delay = "1 ms"
{wireless}
[flows.bulk]
from = "source"
to = "mobile"
size = "1 MiB"
"#;

/// Ends of the wireless link at the base station and at the mobile host.
const BASE: Point = 2;
const MOBILE: Point = 3;

struct Rig {
    scenario: Scenario,
    network: Network,
}

impl Rig {
    fn new(wireless: &str) -> Self {
        let scenario = scenario(wireless);
        let network = scenario.network(&SCHEMES[0]).unwrap();
        Self { scenario, network }
    }

    fn plan(&self) -> Plan<'_> {
        Plan::new(&self.network, &SCHEMES[0], self.scenario.lab()).unwrap()
    }

    fn air(&self, seed: u64) -> Air {
        let capture = Capture::new((0..4).map(|point| self.plan().point_name(point)).collect());
        Air::new(&self.plan(), Root(seed), Some(capture))
    }

    /// Returns the frame of a data segment of the flow, or with `len` 0 of an acknowledgment of all data before `seq`.
    fn frame(&self, seq: u32, len: usize) -> Vec<u8> {
        let [source, destination] = self.plan().flow_sockets(FlowId(0), &self.network.flows[0]).map(SocketAddr::V4);
        let route = Route { source, destination };
        let segment = Segment { seq: Seq(seq), flags: Flags::ACK, window: 100, ..Segment::default() };
        let (route, segment) = match len {
            0 => (route.reversed(), Segment { seq: Seq(1), ack: Seq(seq), ..segment }),
            _ => (route, segment),
        };
        let packet = lasthop_wire::build(route, &segment, &vec![7; len]).unwrap();
        [&[0; 12], &IPV4[..], &packet].concat()
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Returns all arrivals until `until`: point, time, length.
fn arrivals(air: &mut Air, until: Instant) -> Vec<(Point, Instant, usize)> {
    let mut all = Vec::new();
    air.advance(until, |arrival| {
        all.push((arrival.point, arrival.due, arrival.bytes.len()));
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn a_frame_takes_what_its_packet_takes() {
    let rig = Rig::new("");
    let mut air = rig.air(1);
    air.send(at(10), BASE, &rig.frame(1, 1400));
    air.send(at(10), MOBILE, &rig.frame(1, 0));
    // 1440 and 40 bytes at 2 Mbps, and 1 ms: Ethernet headers do not count.
    let expected =
        [(BASE, at(11) + Duration::from_micros(160), 54), (MOBILE, at(11) + Duration::from_micros(5760), 1454)];
    assert_eq!(arrivals(&mut air, at(100)), expected);
    assert_eq!(air.poll_deadline(), None);
}

/// Two links that meet at the base station share a channel: one frame at a time.
#[test]
fn links_share_a_channel() {
    let shared = "medium = \"shared\"";
    let text =
        TEXT.replace("rate = \"10 Mbps\"", &format!("rate = \"10 Mbps\"\n{shared}")).replace("{wireless}", shared);
    let scenario = Scenario::parse("test.toml", &text).unwrap();
    let network = scenario.network(&SCHEMES[0]).unwrap();
    let rig = Rig { scenario, network };
    let mut air = rig.air(1);
    air.send(at(10), 0, &rig.frame(1, 1400));
    air.send(at(10), MOBILE, &rig.frame(1, 0));
    // 1440 bytes at 10 Mbps, then 40 bytes at 2 Mbps, each with 1 ms.
    let first = at(11) + Duration::from_micros(1152);
    let expected = [(1, first, 1454), (BASE, first + Duration::from_micros(160), 54)];
    assert_eq!(arrivals(&mut air, at(100)), expected);
}

#[test]
fn the_channel_does_what_the_simulators_does() {
    for errors in [
        r#"errors = { model = "exponential", mean_bytes = "8 KiB" }"#,
        r#"errors = { model = "list", drop = [{ data = 3 }, { data = 3, transmission = 2 }, { data = 7 }, { ack = 2 }] }"#,
        r#"errors = { model = "two-state-packet", good_to_bad = 0.1, bad_to_good = 0.3 }"#,
    ] {
        let rig = Rig::new(errors);
        let mut air = rig.air(5);
        let mut channel = Errors::new(&rig.network.links[1], Direction::Down, Root(5));
        let mut direction =
            DuplexDirection::new(&rig.network.links[1].directions[0], Duration::from_millis(1)).unwrap();
        let mut pool = PacketPool::default();
        let mut expected = Vec::new();
        // Segments 1 to 200, then the first ten again.
        for number in (0..200).chain(0..10) {
            let frame = rig.frame(1 + number * 1000, 1000);
            let now = at(10 * (expected.len() as u64 + 1));
            air.send(now, BASE, &frame);
            *pool.place() = air.read(&frame[ETHERNET..]);
            let frame = pool.commit(1);
            assert!(matches!(direction.enqueue(now, frame), Accepted::Next(_)));
            let sent = direction.arrive(now).0.unwrap();
            expected.push(channel.judge(&sent, pool.get_mut(frame.handle())) == Crossing::Arrives);
            let came = arrivals(&mut air, now + Duration::from_millis(9));
            assert_eq!(came.len(), usize::from(expected[expected.len() - 1]), "{errors} frame {}", expected.len());
        }
        let lost = expected.iter().filter(|arrives| !**arrives).count() as u64;
        assert!(lost >= 3, "{errors}: {lost}");
        let carried = air.finish();
        assert_eq!(carried.links[1][0].channel_drops, lost);
        assert_eq!(carried.links[1][0].frames, 210);
        let dropped = carried.capture.unwrap();
        let dropped = dropped.passages().filter(|(passage, _)| passage.dropped == Some(DropReason::Channel)).count();
        assert_eq!(dropped as u64, lost);
    }
}

#[test]
fn a_script_loses_delays_and_marks() {
    let rig = Rig::new(
        r#"errors_down = { model = "script", lose = [{ byte = 2000 }], late = [{ byte = 0, by = "5 ms" },
            { byte = 3000, by = "30 ms", behind = "wait" }], mark = [{ byte = 1000 }, { byte = 5000 }] }"#,
    );
    let mut air = rig.air(5);
    for number in 0..6 {
        let mut frame = rig.frame(1 + number * 1000, 1000);
        // Only the second is ECN-capable.
        frame[ETHERNET + 1] = if number == 1 { 2 } else { 0 };
        air.send(at(10 * u64::from(number)), BASE, &frame);
    }
    let mut came = Vec::new();
    air.advance(at(1000), |arrival| {
        let view = lasthop_wire::parse(&arrival.bytes[ETHERNET..]).unwrap();
        came.push(((view.segment.seq.0 - 1) / 1000, arrival.due, view.ecn));
        Ok(())
    })
    .unwrap();
    let due = |millis| at(millis) + Duration::from_micros(4160) + Duration::from_millis(1);
    let expected = [
        (0, due(5), Ecn::NotEct),
        (1, due(10), Ecn::Ce),
        (3, due(60), Ecn::NotEct),
        (4, due(60), Ecn::NotEct),
        (5, due(60), Ecn::NotEct),
    ];
    assert_eq!(came, expected);
    assert_eq!(air.poll_deadline(), None);
    assert_eq!(air.finish().links[1][0].channel_drops, 1);
}

#[test]
fn stations_take_turns_on_a_half_duplex_link() {
    let rig = Rig::new("medium = \"half-duplex\"\nframe_overhead = \"1 ms\"");
    let mut air = rig.air(1);
    for number in 0..5 {
        air.send(at(10), BASE, &rig.frame(1 + 1000 * number, 1000));
        air.send(at(10), MOBILE, &rig.frame(1 + 1000 * number, 0));
    }
    let came = arrivals(&mut air, at(1000));
    assert_eq!(came.iter().map(|(point, ..)| *point).collect::<Vec<_>>(), [MOBILE, BASE].repeat(5));
    // 1040 and 40 bytes at 2 Mbps with 1 ms each: 5.16 and 1.16 ms.
    let gaps: Vec<_> = came.windows(2).map(|pair| pair[1].1.since(pair[0].1).as_nanos() / 1000).collect();
    assert_eq!(gaps, [1160, 5160, 1160, 5160, 1160, 5160, 1160, 5160, 1160]);
}

/// A TTI carries 34,398 bits: four frames and a part of the fifth.
#[test]
fn frames_cross_a_cell() {
    let keys = "medium = \"cell\"\ncell = { snr = 15 }\n[cells.cell]\nblock_loss = 0\ngrant = \"off\"\ndrx = \"off\"";
    let text = TEXT.replace("rate = \"2 Mbps\"\n", "").replace("{wireless}", keys);
    let scenario = Scenario::parse("test.toml", &text).unwrap();
    let rig = Rig { network: scenario.network(&SCHEMES[0]).unwrap(), scenario };
    let mut air = rig.air(1);
    for number in 0..5 {
        air.send(at(10), BASE, &rig.frame(1 + 1000 * number, 1000));
        air.send(at(10), MOBILE, &rig.frame(1 + 1000 * number, 0));
    }
    let came = arrivals(&mut air, at(1000));
    let at_end = |end: Point| came.iter().filter(|(point, ..)| *point == end).map(|(_, at, _)| *at).collect::<Vec<_>>();
    assert_eq!(at_end(MOBILE), [12, 12, 12, 12, 13].map(at));
    assert_eq!(at_end(BASE), [12; 5].map(at));
}

#[test]
fn a_full_queue_and_what_is_no_packet() {
    let rig = Rig::new("queue = \"2 packets\"");
    let mut air = rig.air(1);
    for number in 0..5 {
        air.send(at(10), BASE, &rig.frame(1 + 1000 * number, 1000));
    }
    let arp = [&[0xff; 12], &[0x08, 0x06][..], &[0; 28]].concat();
    for other in [&arp[..], &[], &[0; 13], &[0; 60]] {
        air.send(at(10), BASE, other);
    }
    // IPv4 but not TCP: carried, with the length in its header.
    let ping =
        [&[0; 12], &IPV4[..], &[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], &[0; 26]].concat();
    air.send(at(500), BASE, &ping);
    assert_eq!(arrivals(&mut air, at(1000)).len(), 4);
    let report = air.finish().links[1][0];
    assert_eq!((report.frames, report.queue_drops, report.bytes), (6, 2, 3 * 1040 + 20));
}

#[test]
fn local_retransmissions_are_told_from_the_sources() {
    let rig = Rig::new("");
    let mut air = rig.air(1);
    let (source, mut now) = (0, 10);
    let mut pass = |air: &mut Air, point: Point, seq: u32| {
        now += 20;
        air.send(at(now), point, &rig.frame(seq, 1000));
        arrivals(air, at(now + 19));
    };
    for seq in [1, 1001, 2001] {
        pass(&mut air, source, seq);
        pass(&mut air, BASE, seq);
    }
    // The base station retransmits the second, then the source does.
    pass(&mut air, BASE, 1001);
    pass(&mut air, source, 1001);
    pass(&mut air, BASE, 1001);
    let sender = air.finish().flows[0].sender;
    assert_eq!((sender.source_retransmissions, sender.local_retransmissions), (1, 1));
}

/// The base station's marker sits between its router and the wireless link: a segment that it forwarded, and that is
/// acknowledged by duplicates, was lost there. Marked frames are still valid TCP packets.
#[test]
fn acknowledgments_of_what_the_hop_lost_are_marked() {
    let text =
        "eln_source = \"base-station\"\n".to_owned() + TEXT + "[base_station]\nrouter = \"base\"\nlink = \"wireless\"";
    let wireless = "errors_down = { model = \"list\", drop = [{ data = 2 }] }";
    let scenario = Scenario::parse("test.toml", &text.replace("{wireless}", wireless)).unwrap();
    let scheme = Scheme::by_name("E2E-ELN").unwrap();
    let rig = Rig { network: scenario.network(scheme).unwrap(), scenario };
    let plan = Plan::new(&rig.network, scheme, rig.scenario.lab()).unwrap();
    let mut air = Air::new(&plan, Root(1), None);
    let mut now = 10;
    let mut marks = Vec::new();
    // The fourth segment never reached the base station: it was lost to congestion before.
    for (data, ack) in [(1, 1001), (1001, 1001), (2001, 1001), (4001, 1001), (1001, 3001), (5001, 3001)] {
        for (point, frame) in [(BASE, rig.frame(data, 1000)), (MOBILE, rig.frame(ack, 0))] {
            now += 20;
            air.send(at(now), point, &frame);
            air.advance(at(now + 19), |arrival| {
                let view = lasthop_wire::parse(&arrival.bytes[ETHERNET..]).unwrap();
                let checksums =
                    lasthop_wire::checksums(&arrival.bytes[ETHERNET..], &view, lasthop_wire::Checksum::Complete);
                assert_eq!(checksums, lasthop_wire::Checksums::Hold);
                if arrival.point == BASE {
                    marks.push((view.segment.ack.0, view.segment.options.eln));
                }
                Ok(())
            })
            .unwrap();
        }
    }
    assert_eq!(marks, [(1001, false), (1001, true), (1001, true), (1001, true), (3001, false), (3001, false)]);
}

/// The lab's links have the simulator's queues: they mark and drop the same frames, and marked packets remain valid.
#[test]
fn a_managed_queue_marks_and_drops() {
    let rig = Rig::new("queue = { kind = \"codel\", target = \"5 ms\", interval = \"50 ms\", ecn = \"on\" }");
    for capable in [true, false] {
        let mut air = rig.air(1);
        let mut twin = ManagedDirection::new(&rig.network.links[1], Direction::Down, Root(1));
        let mut pool = PacketPool::default();
        for number in 0..150 {
            let mut frame = rig.frame(1 + number * 1000, 1000);
            if capable {
                // ECT(0), with the matching checksum.
                let view = lasthop_wire::parse(&frame[ETHERNET..]).unwrap();
                let payload = frame[ETHERNET + view.header_len..].to_vec();
                let packet = lasthop_wire::build_with_ecn(view.route, Ecn::Ect0, &view.segment, &payload).unwrap();
                frame.splice(ETHERNET.., packet);
            }
            air.send(at(10), BASE, &frame);
            *pool.place() = air.read(&frame[ETHERNET..]);
            let frame = pool.commit(1);
            twin.enqueue(at(10), frame, View::default);
        }
        let (mut expected, mut came) = (Vec::new(), Vec::new());
        while let Some(due) = twin.poll_deadline() {
            expected.extend(twin.advance(due).map(|sent| (due, sent.frame.is_marked())));
        }
        air.advance(at(10_000), |arrival| {
            let packet = &arrival.bytes[ETHERNET..];
            let view = lasthop_wire::parse(packet).unwrap();
            let whole = lasthop_wire::checksums(packet, &view, lasthop_wire::Checksum::Complete);
            assert_eq!(whole, lasthop_wire::Checksums::Hold);
            came.push((arrival.due, view.ecn == Ecn::Ce));
            Ok(())
        })
        .unwrap();
        assert_eq!(came, expected);
        let dropped = 150 - came.len() as u64;
        assert!(if capable { dropped == 0 && came.iter().any(|(_, marked)| *marked) } else { dropped > 5 });
        let carried = air.finish();
        let report = carried.links[1][0];
        assert_eq!((report.frames, report.queue_drops, report.payload), (150, dropped, 1000 * came.len() as u64));
        let capture = carried.capture.unwrap();
        let told = capture.passages().filter(|(passage, _)| passage.dropped == Some(DropReason::Aqm)).count();
        assert_eq!(told as u64, dropped);
    }
}

/// A link protocol at both ends of the link retransmits losses of the channel, and delivers in order with unchanged
/// bytes. Its header of 4 bytes takes transmission time; its control frames are not delivered.
#[test]
fn a_link_protocol_brings_what_the_channel_takes() {
    let errors = "errors_down = { model = \"list\", drop = [{ data = 2 }] }";
    let element = "[elements.link]\nkind = \"arq\"\nrouter = \"base\"\nlink = \"wireless\"\n";
    let scenario = Scenario::parse("test.toml", &(TEXT.replace("{wireless}", errors) + element)).unwrap();
    let rig = Rig { network: scenario.network(&SCHEMES[0]).unwrap(), scenario };
    let mut air = rig.air(1);
    let sent: Vec<_> = (0..4).map(|number| rig.frame(1 + 1000 * number, 1000)).collect();
    sent.iter().for_each(|frame| air.send(at(10), BASE, frame));
    let (mut came, mut first) = (Vec::new(), None);
    air.advance(at(5000), |arrival| {
        assert_eq!(arrival.point, MOBILE);
        first.get_or_insert(arrival.due);
        came.push(arrival.bytes.to_vec());
        Ok(())
    })
    .unwrap();
    assert_eq!(came, sent);
    // 1040 and 4 bytes at 2 Mbps, and 1 ms.
    assert_eq!(first, Some(at(11) + Duration::from_micros(4176)));
    let carried = air.finish();
    let (sender, down) = (carried.flows[0].sender, carried.links[1][0]);
    assert_eq!((sender.source_retransmissions, sender.local_retransmissions, down.channel_drops), (0, 1, 1));
    assert_eq!((down.frames, down.bytes), (5, 5 * 1044));
    // Both transmissions of the lost frame and the other three, each at both ends; no control frames.
    let passages = carried.capture.unwrap().passages().count();
    assert_eq!(passages, 5 + 4);
}

/// The lab's link applies the other impairments with the simulator's code: the same frames are dropped and duplicated,
/// and they arrive at the same times.
#[test]
fn impairments_are_those_of_the_simulator() {
    let report = follow_the_simulator(
        "policer = { rate = \"1 Mbps\", burst = \"20 kB\" }\nslots = \"3 ms\"\nduplicates = \"10 %\"\n\
         aggregation = { frames = 8, access = \"300 us\", backoff = \"100 us\", frame_loss = \"20 %\", retries = 1 }\n\
         rate_variation = { model = \"ramp\", points = [{ at = \"0 s\", rate = \"4 Mbps\" }, { at = \"1 s\", rate = \"1 Mbps\" }] }\n\
         delay_variation = { model = \"normal\", mean = \"5 ms\", deviation = \"5 ms\", order = \"free\" }",
    );
    assert!(report.duplicates > 10 && report.policer_drops > 50 && report.channel_drops > 3, "{report:?}");
}

/// So does it with a recorded link, whose rate, delay and loss begin at the same random place of the trace.
#[test]
fn traces_are_those_of_the_simulator() {
    let report = follow_the_simulator(
        "duplicates = \"10 %\"\ntrace = { file = \"../../examples/link-trace.csv\", offset = \"random\" }",
    );
    assert!(report.duplicates > 10 && report.channel_drops > 0, "{report:?}");
}

/// Sends 400 frames over an emulated link with `keys` and over a simulated one, compares their arrivals, duplicates and
/// drops, and returns the emulated link's counts.
fn follow_the_simulator(keys: &str) -> PathReport {
    let rig = Rig::new(keys);
    let mut air = rig.air(5);
    let link = &rig.network.links[1];
    let mut twin = ManagedDirection::new(link, Direction::Down, Root(5));
    let mut channel = Errors::new(link, Direction::Down, Root(5));
    let mut pool = PacketPool::default();
    let (mut came, mut expected, mut twice, mut dropped) = (Vec::new(), Vec::new(), 0, 0_u64);
    let mut follow = |twin: &mut ManagedDirection, pool: &mut PacketPool, until: Instant| {
        while let Some(due) = twin.poll_deadline().filter(|due| *due <= until) {
            let Some(sent) = twin.advance(due) else { continue };
            match channel.judge(&sent, pool.get_mut(sent.frame.handle())) {
                Crossing::Late(by) => expected.push(due + by),
                Crossing::Twice(by) => {
                    expected.extend([due + by; 2]);
                    twice += 1;
                }
                Crossing::Arrives | Crossing::Marked => expected.push(due),
                Crossing::Lost => dropped += 1,
            }
        }
        dropped += std::iter::from_fn(|| twin.take_dropped()).count() as u64;
    };
    for number in 0..400 {
        let bytes = rig.frame(1 + number * 1000, 1000);
        let now = at(10 + 3 * u64::from(number));
        came.extend(arrivals(&mut air, now).into_iter().map(|(_, due, _)| due));
        air.send(now, BASE, &bytes);
        follow(&mut twin, &mut pool, now);
        *pool.place() = air.read(&bytes[ETHERNET..]);
        let frame = pool.commit(1);
        twin.enqueue(now, frame, View::default);
    }
    came.extend(arrivals(&mut air, at(100_000)).into_iter().map(|(_, due, _)| due));
    follow(&mut twin, &mut pool, at(100_000));
    expected.sort();
    assert_eq!(came, expected);
    let report = air.finish().links[1][0];
    assert_eq!((report.duplicates, report.policer_drops + report.channel_drops), (twice, dropped));
    report
}
