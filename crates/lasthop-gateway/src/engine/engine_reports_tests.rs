//! Statistics of the engine, selection of connections, and eviction.

use std::ops::RangeInclusive;

use lasthop_proto::packet::{Options, Segment};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Route, build};

use super::tests::*;
use super::*;
use crate::engine::rules::{Ends, Mode, Net, Predicate};
use lasthop_proto::pep::snoop::{HopControl, SnoopConfig};

#[test]
fn observing_changes_nothing_and_tells_what_snoop_would_do() {
    for mode in [Mode::Observe, Mode::Bypass] {
        let mut bench = Bench::opened(mode, V4);
        (0..5).for_each(|n| bench.data(n));
        bench.passes(Port::WIRELESS, ack_of(seq(1), &[]), b"");
        for n in 2..5 {
            bench.passes(Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(n + 1))]), b"");
        }
        // The sender repairs the loss.
        bench.data(1);
        bench.passes(Port::WIRELESS, ack_of(seq(5), &[]), b"");
        let counters = bench.counters();
        let seen = (counters.wireless_losses, counters.repairs.hole, counters.dup_acks_suppressed);
        assert_eq!(seen, if mode == Mode::Observe { (1, 1, 3) } else { (0, 0, 0) });
        assert_eq!((counters.source_retransmissions, counters.wired_losses), (1, 0));
        assert_eq!(bench.engine.counters().held_bytes, 0);
        assert_eq!(bench.wait(5_000), []);
    }
}

#[test]
fn losses_before_the_gateway_are_told_from_disorder() {
    let mut bench = Bench::opened(Mode::Observe, V4);
    (0..4).for_each(|n| bench.data(n));
    bench.passes(Port::WIRELESS, ack_of(seq(4), &[]), b"");
    // 4 follows 6 within a quarter of the wired round-trip time of 1 ms: reordered. 5 follows 50 ms later: lost.
    bench.data(6);
    bench.engine.handle_packet(
        bench.now,
        Port::WIRED,
        &bench.bytes(Port::WIRED, data(4), &payload(4, 1)),
        Offloaded::NOTHING,
        &mut vec![],
    );
    let counters = bench.counters();
    assert_eq!((counters.wired_reordered, counters.wired_losses), (1, 0));
    bench.wait(50);
    bench.data(5);
    let counters = bench.counters();
    assert_eq!((counters.wired_reordered, counters.wired_losses, counters.source_retransmissions), (1, 1, 0));
    // Two segments of one super-segment, lost before the gateway.
    bench.data(9);
    bench.wait(50);
    bench.passes(Port::WIRED, data(7), &payload(7, 2));
    let counters = bench.counters();
    assert_eq!((counters.wired_losses, counters.wireless_losses), (3, 0));
}

#[test]
fn round_trips_of_both_sides() {
    let mut bench = Bench::new(Mode::Observe, V6);
    // Packets are 1 ms apart: the SYN-ACK comes from the wired side, the ACK from the wireless side.
    bench.open();
    let counters = bench.counters();
    assert_eq!((counters.rtt_wired.count, counters.rtt_wireless.count), (1, 1));
    assert_eq!(counters.rtt_wired.mean(), Some(Duration::from_millis(1)));
    bench.data(0);
    bench.data(1);
    bench.wait(9);
    // The first one was timed: 10 ms and the interval to the next packet.
    bench.passes(Port::WIRELESS, ack_of(seq(1), &[]), b"");
    let counters = bench.counters();
    assert_eq!((counters.rtt_wireless.count, counters.rtt_wireless.sum), (2, 12_000_000));
    // That acknowledgment passed with its timestamp while data was in flight; 20 ms later data echoes it.
    bench.wait(19);
    let mut echo = data(2);
    echo.options.timestamps.as_mut().unwrap().ecr = 100;
    bench.passes(Port::WIRED, echo, &payload(2, 1));
    let counters = bench.counters();
    assert_eq!((counters.rtt_wired.count, counters.rtt_wired.sum), (2, 21_000_000));
    // Retransmitted data is not timed.
    bench.data(2);
    bench.passes(Port::WIRELESS, ack_of(seq(3), &[]), b"");
    assert_eq!(bench.counters().rtt_wireless.count, 2);
}

#[test]
fn a_share_is_left_untreated_and_both_are_measured() {
    let mut config = EngineConfig::new(vec![Rule { ab: 0.3, ..Rule::all("r", Mode::Snoop) }]);
    config.measured_bytes = 3 * u64::from(MSS);
    let mut engine = Engine::new(config, 11);
    let (mut out, mut treated) = (Vec::new(), 0);
    for n in 0..2_000u16 {
        let route = Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 1, 2, 3], 1000 + n).into() };
        let mut give = |at: u64, port: Port, segment: Segment, payload: &[u8]| {
            let way = if port == Port::WIRED { route } else { route.reversed() };
            let packet = build(way, &segment, payload).unwrap();
            engine.handle_packet(Instant::from_nanos(at * 1_000_000), port, &packet, Offloaded::NOTHING, &mut out)
        };
        let at = u64::from(n) * 1_000;
        let options = Options { window_scale: Some(7), timestamps: times(1), ..Options::default() };
        let syn = |seq, ack, flags| Segment { seq: Seq(seq), ack: Seq(ack), window: 64_000, flags, options };
        give(at, Port::WIRELESS, syn(0, 0, Flags::SYN), b"");
        give(at, Port::WIRED, syn(1000, 1, Flags::SYN.with(Flags::ACK)), b"");
        give(at, Port::WIRELESS, ack_of(seq(0), &[]), b"");
        for n in 0..4 {
            give(at + 1, Port::WIRED, data(n), &payload(n, 1));
        }
        give(at + 2, Port::WIRELESS, ack_of(seq(1), &[]), b"");
        // Segment 1 is missing: only treated connections repair it.
        let verdict = give(at + 3, Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(4))]), b"");
        treated += u32::from(verdict == Verdict::Drop);
        assert!(matches!(verdict, Verdict::Drop | Verdict::Accept));
        give(at + 101, Port::WIRELESS, ack_of(seq(4), &[]), b"");
    }
    // Four standard deviations: 4 * sqrt(2000 * 0.3 * 0.7).
    assert!((f64::from(treated) - 1_400.0).abs() < 82.0, "{treated}");
    assert_eq!(engine.counters().rules[0].repairs.total(), u64::from(treated));
    let arms = &engine.arms()[0];
    assert_eq!((arms.treated.flows, arms.treated.flows + arms.untreated.flows), (u64::from(treated), 2_000));
    // 4 segments in 100 ms.
    let expected = 4.0 * f64::from(MSS) / 0.1;
    assert!(arms.untreated.values.iter().all(|goodput| (goodput / expected - 1.0).abs() < 1e-6));
    let gain = arms.gain().unwrap();
    assert!((gain.ratio - 1.0).abs() < 1e-6 && gain.low <= gain.high);
}

#[test]
fn goodput_leaves_out_the_pauses_of_the_application() {
    let mut bench = Bench::opened(Mode::Bypass, V4);
    for round in 0..100 {
        bench.data(round);
        bench.wait(9);
        bench.ack(seq(round + 1), &[]);
        // A pause of 30 s follows every tenth answer.
        bench.wait(if round % 10 == 9 { 30_000 } else { 9 });
    }
    let arms = &bench.engine.arms()[0];
    let expected = 100.0 * f64::from(MSS) / (100.0 * 0.010 + 90.0 * 0.010);
    let [goodput] = arms.treated.values[..] else { panic!("{arms:?}") };
    assert!((goodput / expected - 1.0).abs() < 0.02, "{goodput} {expected}");
}

#[test]
fn the_first_rule_that_matches_counts_and_is_kept() {
    let ends = |net: &str, prefix, ports: &[RangeInclusive<u16>]| Ends {
        nets: vec![Net { address: net.parse().unwrap(), prefix }],
        ports: ports.to_vec(),
    };
    let only_ssh = Predicate { wired: ends("10.0.0.0", 8, &[22..=22]), ..Predicate::default() };
    let clients = Predicate { wireless: ends("192.168.0.0", 16, &[]), ..Predicate::default() };
    let rules = vec![
        Rule { predicate: only_ssh, ..Rule::all("ssh", Mode::Bypass) },
        Rule { predicate: clients, ..Rule::all("clients", Mode::Snoop) },
    ];
    let config = EngineConfig::new(rules.clone());
    let mut bench = Bench::with(config.clone(), V4);
    bench.open();
    (0..3).for_each(|n| bench.data(n));
    bench.ack(seq(1), &[]);
    let packets = |bench: &mut Bench| {
        let counters = bench.engine.counters();
        (counters.rules.iter().map(|rule| rule.packets[0]).collect::<Vec<_>>(), counters.unmatched)
    };
    assert_eq!(packets(&mut bench), (vec![0, 4], 0));
    // Another order and another parameter: the connection and its cache remain.
    let mut turned = EngineConfig::new(rules.iter().rev().cloned().collect());
    turned.rules[0].snoop.timer_min = Duration::from_millis(80);
    bench.engine.reconfigure(bench.now, turned, &mut bench.out);
    assert_eq!(bench.ack(seq(1), &[(seq(2), seq(3))]).1.len(), 1);
    assert_eq!(packets(&mut bench), (vec![4, 0], 0));
    // Its rule is removed: the connection moves to another rule, and then to none.
    bench.engine.reconfigure(bench.now, EngineConfig::new(vec![Rule::all("all", Mode::Observe)]), &mut bench.out);
    bench.data(3);
    assert_eq!((packets(&mut bench), bench.engine.counters().held_bytes), ((vec![1], 0), 0));
    bench.engine.reconfigure(bench.now, EngineConfig::new(vec![]), &mut bench.out);
    bench.data(4);
    assert_eq!((packets(&mut bench), bench.engine.counters().flows), ((vec![], 1), 0));
    assert_eq!((bench.engine.poll_deadline(), bench.wait(10_000)), (None, vec![]));
}

#[test]
fn what_is_held_back_goes_when_its_rule_does() {
    let mut rule = Rule::all("r", Mode::Snoop);
    rule.snoop.hop = Some(HopControl { held: 512 << 10, ..HopControl::DEFAULT });
    let held = |bench: &mut Bench| {
        (0..10).for_each(|n| bench.data(n));
        for n in 10..14 {
            assert_eq!(bench.give(Port::WIRED, data(n), &payload(n, 1)), (Verdict::Drop, vec![]), "{n}");
        }
    };
    let free = Rule { snoop: SnoopConfig { hop: None, ..rule.snoop.clone() }, ..rule.clone() };
    let none = EngineConfig { flows: 0, ..EngineConfig::new(vec![rule.clone()]) };
    for next in [EngineConfig::new(vec![]), EngineConfig::new(vec![free]), none] {
        let mut bench = Bench::with(EngineConfig::new(vec![rule.clone()]), V4);
        bench.open();
        held(&mut bench);
        bench.engine.reconfigure(bench.now, next, &mut bench.out);
        let sent: Vec<_> = std::mem::take(&mut bench.out).into_iter().map(|injection| injection.packet).collect();
        let expected: Vec<_> = (10..14).map(|n| bench.bytes(Port::WIRED, data(n), &payload(n, 1))).collect();
        assert_eq!(sent, expected);
        bench.data(14);
    }
    // A reset ends the connection: data held behind it is useless.
    let mut bench = Bench::with(EngineConfig::new(vec![rule]), V4);
    bench.open();
    held(&mut bench);
    bench.passes(Port::WIRED, Segment { flags: Flags::RST, ..data(14) }, b"");
    assert_eq!((bench.wait(5_000), bench.engine.counters().held_bytes), (vec![], 0));
}

#[test]
fn prefixes() {
    let net = |address: &str, prefix| Net { address: address.parse().unwrap(), prefix };
    for (net, address, inside) in [
        (net("10.1.2.3", 8), "10.9.9.9", true),
        (net("10.1.2.3", 32), "10.1.2.3", true),
        (net("10.1.2.3", 32), "10.1.2.2", false),
        (net("10.1.2.3", 200), "10.1.2.3", true),
        (net("0.0.0.0", 0), "255.1.1.1", true),
        (net("0.0.0.0", 0), "::1", false),
        (net("::", 0), "2001:db8::1", true),
        (net("2001:db8::", 32), "2001:db8:ffff::", true),
        (net("2001:db8::", 32), "2001:db9::", false),
    ] {
        assert_eq!(net.contains(address.parse().unwrap()), inside, "{net:?} {address}");
    }
}

#[test]
fn silent_connections_are_forgotten_a_few_at_a_time() {
    let mut bench = Bench::with(
        EngineConfig { idle: Duration::from_secs(20), ..EngineConfig::new(vec![Rule::all("r", Mode::Snoop)]) },
        V4,
    );
    for n in 0..200u16 {
        bench.route.destination.set_port(1000 + n);
        bench.open();
        bench.data(0);
        bench.ack(seq(1), &[]);
    }
    assert_eq!(bench.engine.counters().flows, 200);
    bench.wait(15_000);
    bench.data(1);
    let before = bench.engine.counters();
    assert_eq!((before.flows, before.rules[0].flows_active), (200, 200));
    bench.now += Duration::from_secs(6);
    let mut out = Vec::new();
    bench.engine.handle_timeout(bench.now, &mut out);
    assert_eq!(bench.engine.counters().flows, 200 - SWEPT as u64);
    bench.wait(100);
    assert_eq!(bench.engine.counters().flows, 1);
    bench.wait(30_000);
    let after = bench.engine.counters();
    assert_eq!((after.flows, after.held_bytes, after.rules[0].cached_bytes), (0, 0, 0));
    assert_eq!(bench.engine.poll_deadline(), None);
}

#[test]
fn a_flood_of_openings_leaves_good_connections_alone() {
    let config = EngineConfig { flows: 64, ..EngineConfig::new(vec![Rule::all("r", Mode::Snoop)]) };
    let mut bench = Bench::with(config, V4);
    bench.open();
    (0..3).for_each(|n| bench.data(n));
    bench.ack(seq(1), &[]);
    let good = bench.route;
    for n in 0..10_000u32 {
        bench.route.destination = ([172, 16, (n >> 8) as u8, n as u8], 4_000).into();
        // From either side, answered or not, and data without a connection.
        let syn = Segment { seq: Seq(n), flags: Flags::SYN, ..Segment::default() };
        let mut at_once = |port, segment, payload: &[u8]| {
            let packet = bench.bytes(port, segment, payload);
            assert_eq!(
                bench.engine.handle_packet(bench.now, port, &packet, Offloaded::NOTHING, &mut bench.out),
                Verdict::Accept
            );
        };
        match n % 3 {
            0 => at_once(Port::WIRED, syn, b""),
            1 => {
                at_once(Port::WIRED, syn, b"");
                let flags = Flags::SYN.with(Flags::ACK);
                at_once(Port::WIRELESS, Segment { flags, ack: Seq(n + 1), ..syn }, b"");
            }
            _ => at_once(Port::WIRED, data(n), &payload(0, 1)),
        }
        assert!(bench.engine.flows.len() <= 64);
    }
    let counters = bench.engine.counters();
    assert!(counters.rules[0].flows_evicted > 9_900 && counters.held_bytes < 5_000);
    bench.route = good;
    assert_eq!(only(&bench.ack(seq(1), &[(seq(2), seq(3))]).1).2, payload(1, 1));
}
