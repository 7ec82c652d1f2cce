//! Rate estimation, distinction of congestion from corruption, and the circuit breaker:
//! `docs/models/two-ended-link.md`.

use lasthop_proto::link::hybrid::node::TwoEnded;
use lasthop_proto::link::hybrid::{Header, HopConfig, PathId, RateRule, Repair, State};
use lasthop_proto::node::Port;
use lasthop_proto::packet::headers::LinkHeaders;
use lasthop_proto::packet::{Body, Cause, Ecn, LinkReport, Packet};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::bottleneck::*;
use super::link::*;

/// Returns whether `found` is within `percent` percent of `truth`.
fn near(found: u64, truth: u64, percent: u64) -> bool {
    found.abs_diff(truth) * 100 <= truth * percent
}

/// The rate is found 5 s after the first packets, and the hop's capacity is used, on fast, short and long hops, with
/// and without losses, single and in runs, in both directions, after a pause, and for several flows. On a hop of 300
/// kbps, where a round has few frames, it is less exact.
#[test]
fn the_rate_is_found() {
    let rates: [fn(Instant) -> u64; 4] = [|_| 300_000, |_| 2_000_000, TEN, |_| 80_000_000];
    let losses = [(0, 1), (23, 1), (100, 1), (100, 4)];
    let mut wrong = Vec::new();
    for (index, (rate, delay)) in rates.into_iter().flat_map(|rate| [5, 30].map(|delay| (rate, delay))).enumerate() {
        let (truth, end, flows) = (rate(Instant::ZERO), index % 2, 1 + 4 * (index as u32 % 2));
        let (losses, percent) = if truth < 1_000_000 { (&losses[..1], 25) } else { (&losses[..], 15) };
        for &(loss, run) in losses {
            let hop = Hop { rate, delay: millis(delay), queue: (truth / 120_000).max(10), loss, run };
            let mut link = Link::new(auto(Repair::Adaptive), hop.channel());
            let begin = ms(1_000 * index as u64);
            link.run_until(begin);
            offer(&mut link, end, flows, 2 * truth, begin + millis(5_000));
            let found = link.ends[end].hop().rate(PathId::FIRST);
            offer(&mut link, end, flows, 2 * truth, begin + millis(10_000));
            let used = goodput(&link, 1 - end, begin + millis(5_000)) * 1000 / (1000 - loss);
            if !near(found, truth, percent) || !near(used, truth, 15) {
                wrong.push(format!("{truth} bps, {delay} ms, loss {loss} in {run}: found {found}, used {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The queue in front of the hop stays short: 19 of 20 packets are delivered at most 10 ms later than on an empty hop.
#[test]
fn the_queue_stays_short() {
    let mut link = Link::new(auto(Repair::Repeat), Hop::A.channel());
    offer(&mut link, 0, 1, 20_000_000, ms(10_000));
    let (from, mut late, mut all) = (ms(3_000), 0, 0);
    let sent: std::collections::BTreeMap<u32, Instant> = link.sent[0]
        .iter()
        .filter(|(at, packet, _)| *at >= from && matches!(packet.body, Body::Tcp(_)))
        .map(|(at, packet, _)| (number(packet), *at))
        .collect();
    for (at, packet) in &link.taken[1] {
        let Some(sent) = sent.get(&number(packet)) else { continue };
        all += 1;
        late += usize::from(at.since(*sent) > millis(30 + 2 + 10));
    }
    assert!(all > 5_000 && late * 20 < all, "{late} of {all}");
}

/// 10, 4 and again 10 Mbps: the rate is found again within 3 s, without losses and at 2.3 %.
#[test]
fn a_step_is_followed() {
    let rate: fn(Instant) -> u64 =
        |now| if (10_000..20_000).contains(&(now.as_nanos() / 1_000_000)) { 4_000_000 } else { 10_000_000 };
    for (loss, run) in [(0, 1), (23, 1)] {
        for flows in [1, 5] {
            let mut link = Link::new(auto(Repair::Adaptive), Hop { rate, loss, run, ..Hop::A }.channel());
            for (until, truth) in [(9_900, 10), (13_000, 4), (19_900, 4), (23_000, 10), (29_000, 10)] {
                offer(&mut link, 0, flows, 20_000_000, ms(until));
                let found = link.ends[0].hop().rate(PathId::FIRST);
                assert!(near(found, truth * 1_000_000, 15), "{loss} in {run}, {flows} flows, {until} ms: {found}");
            }
        }
    }
}

/// At a given rate slightly above the hop's, the queue in front of the hop drains, and the sending rate equals the
/// hop's.
#[test]
fn a_given_rate_that_is_a_little_too_high_fills_no_queue() {
    for percent in [101, 103] {
        let given = HopConfig { rate: RateRule::Fixed(100_000 * percent), ..config(Repair::Adaptive) };
        let mut link = Link::new(given, Hop { delay: millis(5), ..Hop::A }.channel());
        let mut trips = Vec::new();
        for second in 1..=20 {
            offer(&mut link, 0, 1, 12_000_000, ms(1_000 * second));
            trips.push(link.ends[0].hop().round_trip(PathId::FIRST));
        }
        trips.sort();
        assert!(trips[10] < millis(10 + 6), "{percent} %: {trips:?}");
        let used = goodput(&link, 1, ms(1_000));
        assert!(used > 9_800_000, "{percent} %: {used}");
    }
}

/// Twice the hop's capacity, with a rate that was set too high: no code, no packet more than twice, no more than the
/// rate.
#[test]
fn congestion_is_not_hidden_at_a_given_rate() {
    let given = HopConfig { rate: RateRule::Fixed(20_000_000), ..config(Repair::Adaptive) };
    let mut link = Link::new(given, Hop::A.channel());
    let mut number = 0;
    while link.now < ms(10_000) {
        link.offer(0, segment(0, number));
        if number % 10 == 0 {
            link.offer(0, datagram(9, number));
        }
        number += 1;
        let next = link.now + Duration::from_micros(600);
        link.run_until(next);
    }
    // Until the queue shows, a round trip and a half.
    let later: Vec<_> = link.sent[0].iter().filter(|(at, ..)| *at >= ms(500)).collect();
    let code = |packet: &Packet| {
        packet.cause == Cause::LinkRepair || matches!(Header::of(packet), Some(Header::Repair { .. }))
    };
    assert!(later.iter().all(|(_, packet, _)| !code(packet)));
    let mut times = std::collections::BTreeMap::new();
    for (_, packet, _) in &later {
        if let Some(Header::Symbol { symbol, .. }) = Header::of(packet) {
            *times.entry(symbol).or_insert(0) += 1;
        }
    }
    let often: Vec<_> = times.iter().filter(|(_, times)| **times > 2).map(|(symbol, _)| symbol).take(3).collect();
    let of = |symbol: u32| {
        link.lines(0).into_iter().filter(|line| line.contains(&format!("symbol {symbol} "))).collect::<Vec<_>>()
    };
    assert!(often.is_empty(), "{:?}", often.iter().map(|symbol| of(**symbol)).collect::<Vec<_>>());
    let bytes: u64 = later.iter().map(|(_, packet, _)| u64::from(packet.wire_len())).sum();
    assert!(bytes * 8 <= 20_000_000 * 95 / 10 + 20_000, "{bytes}");
    let hop = link.ends[0].hop();
    assert_eq!(
        (hop.state(link.now, PathId::FIRST), hop.loss(PathId::FIRST), hop.rate(PathId::FIRST)),
        (State::Congested, 0, 20_000_000)
    );
}

/// With an estimated rate, no more is sent than the hop carries, and only data.
#[test]
fn overload_is_dropped_at_the_entrance() {
    let mut link = Link::new(auto(Repair::Adaptive), Hop::A.channel());
    offer(&mut link, 0, 3, 20_000_000, ms(20_000));
    let later: Vec<_> = link.sent[0].iter().filter(|(at, ..)| *at >= ms(2_000)).collect();
    let bytes: u64 = later.iter().map(|(_, packet, _)| u64::from(packet.wire_len())).sum();
    assert!(bytes * 8 <= 10_000_000 * 18, "{bytes}");
    assert!(later.iter().all(|(_, packet, lost)| !lost && packet.cause != Cause::LinkRepair));
    assert!(link.ends[0].hop().counters().dropped > 1_000);
}

/// 40 % for ten seconds: the breaker opens, packets are sent once, and no code; 10 s after the last loss it is closed
/// again.
#[test]
fn the_breaker_acts_and_lets_go() {
    for rule in [RateRule::Fixed(10_000_000), RateRule::Auto] {
        let mut bad = Hop { loss: 400, ..Hop::A }.channel();
        let mut good = Hop::A.channel();
        let channel = move |now: Instant, end: usize, packet: &Packet| {
            if now < ms(30_000) { bad(now, end, packet) } else { good(now, end, packet) }
        };
        let mut link = Link::new(HopConfig { rate: rule, ..config(Repair::Adaptive) }, channel);
        offer(&mut link, 0, 2, 5_000_000, ms(8_000));
        assert_ne!(link.ends[0].hop().state(link.now, PathId::FIRST), State::Broken);
        offer(&mut link, 0, 2, 5_000_000, ms(14_000));
        assert_eq!(link.ends[0].hop().state(link.now, PathId::FIRST), State::Broken, "{rule:?}");
        let before = link.ends[0].hop().counters();
        offer(&mut link, 0, 2, 5_000_000, ms(29_000));
        let after = link.ends[0].hop().counters();
        assert!(after.given_up > before.given_up + 1_000);
        assert!(after.resent + after.redundant <= before.resent + before.redundant + 10, "{before:?} {after:?}");
        offer(&mut link, 0, 2, 5_000_000, ms(45_000));
        assert_eq!(link.ends[0].hop().state(link.now, PathId::FIRST), State::Silent, "{rule:?}");
    }
}

/// A packet that arrives marked indicates congestion, unless it was marked before the hop.
#[test]
fn marks_are_congestion() {
    for before in [Ecn::Ect0, Ecn::Ce] {
        let mut end = TwoEnded::new(auto(Repair::Adaptive));
        let (mut sent, mut states) = (0_u32, vec![]);
        for step in 0..400_u32 {
            let now = Instant::ZERO + millis(100) * u64::from(step);
            let packet = Packet { ecn: if step == 200 { before } else { Ecn::Ect0 }, ..segment(0, step) };
            let mut outputs = feed(&mut end, now, Port::WIRED, packet);
            outputs.extend(wake(&mut end, now));
            // Reported 10 ms later; the packet of step 200 arrived marked.
            let marked = u32::from(step >= 200);
            sent += outputs.iter().filter(|(port, _)| *port == Port::WIRELESS).count() as u32;
            let report = LinkReport {
                largest: sent.saturating_sub(1),
                received: [u32::MAX; 4],
                floor: step + 1,
                delivered: 1442 * (step + 1),
                marked,
                ..LinkReport::default()
            };
            let link: LinkHeaders = Header::Feedback { packet: step }.into();
            let packet = Packet { link, body: Body::Report(report), ..Packet::default() };
            sent += feed(&mut end, now + millis(10), Port::WIRELESS, packet).len() as u32;
            if end.hop().state(now + millis(10), PathId::FIRST) == State::Congested {
                states.push(step);
            }
        }
        assert!(states.iter().all(|step| (200..203).contains(step)), "{states:?}");
        assert_eq!(states.is_empty(), before == Ecn::Ce, "{states:?}");
    }
}

/// A peer that immediately reports everything as arrived does not receive more than there is.
#[test]
fn a_peer_that_lies_gains_nothing() {
    let mut end = TwoEnded::new(auto(Repair::Repeat));
    let (mut sent, mut bytes) = (0_u32, 0_u64);
    for step in 0..20_000_u32 {
        let now = Instant::ZERO + Duration::from_micros(1_500) * u64::from(step);
        let mut outputs = feed(&mut end, now, Port::WIRED, segment(0, step));
        outputs.extend(wake(&mut end, now));
        for (_, packet) in outputs {
            if let Some(Header::Symbol { packet: number, .. }) = Header::of(&packet) {
                sent = number + 1;
                bytes += u64::from(packet.wire_len());
            }
        }
        if sent > 0 {
            let report = LinkReport {
                largest: sent - 1,
                delay: if step % 2 == 0 { 0 } else { u32::MAX },
                received: [u32::MAX; 4],
                floor: 0,
                ..LinkReport::default()
            };
            let link: LinkHeaders = Header::Feedback { packet: step }.into();
            feed(&mut end, now, Port::WIRELESS, Packet { link, body: Body::Report(report), ..Packet::default() });
        }
        // 1500 bytes every 1.5 ms are 8 Mbps: no higher capacity can have been observed.
        assert!((8_000..=8_800_000).contains(&end.hop().rate(PathId::FIRST)), "{}", end.hop().rate(PathId::FIRST));
    }
    assert!(bytes <= 20_000 * 1500);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any feedback, the rate stays within its bounds, and all offered packets leave in the end.
    #[test]
    fn the_rate_keeps_its_bounds(reports in prop::collection::vec((any::<[u32; 9]>(), 0u64..300), 1..400)) {
        let mut end = TwoEnded::new(auto(Repair::Adaptive));
        let (mut now, mut next) = (Instant::ZERO, 0_u32);
        for ([largest, delay, floor, a, b, delivered, useful, marked, kind], pause) in reports {
            now += millis(pause);
            let mut outputs = wake(&mut end, now);
            outputs.extend(feed(&mut end, now, Port::WIRED, segment(kind % 3, next)));
            next += outputs.len() as u32;
            let largest = if kind % 4 == 0 { largest } else { next.saturating_sub(1 + largest % 8) };
            let (received, beyond) = ([a, b, a, b], [b, a, b, a]);
            let floor = if kind % 3 == 0 { floor } else { 0 };
            let report = LinkReport { largest, delay, received, floor, beyond, delivered, useful, marked, arrived: 0, back: 0, path: 0 };
            let link: LinkHeaders = Header::Feedback { packet: next }.into();
            feed(&mut end, now, Port::WIRELESS, Packet { link, body: Body::Report(report), ..Packet::default() });
            prop_assert!((8_000..=100_000_000_000).contains(&end.hop().rate(PathId::FIRST)));
            check(&end);
        }
        for _ in 0..100_000 {
            let Some(at) = lasthop_proto::node::Node::poll_deadline(&end) else { break };
            now = now.max(at);
            wake(&mut end, now);
        }
        prop_assert_eq!(lasthop_proto::node::Node::poll_deadline(&end), None);
    }
}
