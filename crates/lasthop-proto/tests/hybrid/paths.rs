//! Hops over two paths.

use lasthop_proto::link::hybrid::{Multipath, PathId, RateRule, Repair};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Cause, Packet};
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::link::*;

/// A path: its one-way delay, the share of frames that it loses in percent, and the time of a cut, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay: u64,
    jitter: u64,
    loss: u64,
    cut: [u64; 2],
}

impl Path {
    const fn new(delay: u64) -> Self {
        Self { delay, jitter: 0, loss: 0, cut: [u64::MAX; 2] }
    }
}

fn link(paths: [Path; 2], seed: u64) -> Link<'static> {
    link_with(Multipath::Bond, paths, seed)
}

fn link_with(multipath: Multipath, paths: [Path; 2], seed: u64) -> Link<'static> {
    let mut random = Root(seed).stream("paths");
    Link::with(config(Repair::Adaptive), multipath, &[RateRule::Fixed(RATE)], move |now, _, port, _| {
        let path = paths[usize::from(port.0 - Port::WIRELESS.0)];
        let at = now.as_nanos() / 1_000_000;
        let is_cut = (path.cut[0]..path.cut[1]).contains(&at);
        if is_cut || random.below(100) < path.loss {
            return vec![];
        }
        vec![millis(path.delay + random.below(path.jitter))]
    })
}

/// Offers full-size packets of flow 0 to end 0 until `until`, one each `pause`, and returns their number.
fn offer(link: &mut Link<'_>, pause: Duration, until: Instant) -> u32 {
    let mut count = 0;
    while link.now < until {
        link.offer(0, segment(0, count));
        count += 1;
        let next = link.now + pause;
        link.run_until(next);
    }
    count
}

fn in_order(count: u32) -> Vec<u32> {
    (0..count).collect()
}

/// A packet each 0.6 ms: a path carries one each 1.03 ms.
#[test]
fn two_paths_carry_more_than_one_and_keep_the_order() {
    for delays in [[10, 10], [10, 40], [5, 150]] {
        let mut link = link(delays.map(Path::new), 1);
        let count = offer(&mut link, Duration::from_micros(600), ms(4000));
        link.run_until(ms(6000));
        let taken = link.numbers(1, 0);
        assert!(taken.is_sorted() && taken.len() >= count as usize * 98 / 100, "{delays:?}: {}", taken.len());
        let last = link.taken[1].last().map(|(at, _)| *at).unwrap_or_default();
        assert!(last < ms(4500), "{delays:?}: {last}");
    }
}

/// On two paths with a round trip of 400 ms, which lose 2 %, coded frames over packets of both restore most losses: a
/// retransmission would be late. There are none without losses, or on short paths.
#[test]
fn coded_frames_restore_losses_on_long_paths() {
    let counters = |delays: [u64; 2], loss| {
        let mut link = link(delays.map(|delay| Path { loss, ..Path::new(delay) }), 3);
        let count = offer(&mut link, Duration::from_micros(600), ms(8000));
        link.run_until(ms(10_000));
        // Before, the ends do not know the round trip yet.
        let known: Vec<u32> = link.numbers(1, 0).into_iter().skip_while(|number| *number < 3000).collect();
        assert!(known.is_sorted() && known.len() >= count as usize - 3100, "{delays:?}: {}", known.len());
        (link.ends[0].hop().counters(), link.ends[1].hop().counters())
    };
    for delays in [[200, 200], [200, 260]] {
        let (sender, receiver) = counters(delays, 2);
        assert!(receiver.restored > 5 * sender.resent, "{delays:?}: {sender:?}, {receiver:?}");
    }
    for (delays, loss) in [([200, 200], 0), ([15, 15], 2)] {
        assert_eq!(counters(delays, loss).1.restored, 0, "{delays:?}");
    }
}

/// A packet each 20 ms always arrives first on the path with 5 ms. The other one carries a probe each second.
#[test]
fn light_traffic_uses_the_fast_path_only() {
    let mut on_slow = 0;
    let config = config(Repair::Adaptive);
    let mut link = Link::over(config, &[RateRule::Fixed(RATE)], |_, end, port, packet| {
        on_slow += u32::from(end == 0 && port != Port::WIRELESS && packet.len > 0);
        vec![millis(if port == Port::WIRELESS { 5 } else { 100 })]
    });
    let count = offer(&mut link, millis(20), ms(5000));
    link.run_until(ms(6000));
    assert_eq!(link.numbers(1, 0), in_order(count));
    let slow = link.taken[1].iter().filter(|(at, packet)| at.since(sent(packet)) > millis(6)).count();
    assert_eq!(slow, 0);
    drop(link);
    assert_eq!(on_slow, 0);
}

/// Returns the time at which [`offer`] offered the packet, one each 20 ms.
fn sent(packet: &Packet) -> Instant {
    Instant::ZERO + millis(20) * u64::from(number(packet))
}

/// A call of a packet each 20 ms, when the faster path is cut for 30 s: nothing is lost, and the longest gap is a round
/// trip of the slower path and 100 ms.
#[test]
fn a_call_survives_the_cut_of_a_path() {
    let paths = [Path { cut: [2000, 32_000], ..Path::new(15) }, Path::new(40)];
    let mut link = link(paths, 1);
    for number in 0..500 {
        link.offer(0, datagram(3, number));
        let next = link.now + millis(20);
        link.run_until(next);
    }
    link.run_until(ms(12_000));
    let mut numbers = link.numbers(1, 3);
    numbers.sort_unstable();
    assert!(numbers == in_order(500), "{}", numbers.len());
    let late =
        link.taken[1].iter().map(|(at, packet)| at.since(Instant::ZERO + millis(20) * u64::from(number(packet)))).max();
    assert!(late.is_some_and(|late| late <= millis(40 + 80 + 100)), "{late:?}");
}

/// Both paths lose 5 % of a call's packets: each packet has a copy on the other path, and repair.
#[test]
fn a_call_over_two_lossy_paths_loses_nothing() {
    let mut link = link([Path { loss: 5, ..Path::new(15) }, Path { loss: 5, ..Path::new(20) }], 7);
    for number in 0..5000 {
        link.offer(0, datagram(3, number));
        let next = link.now + millis(20);
        link.run_until(next);
    }
    link.run_until(ms(102_000));
    let numbers = link.numbers(1, 3);
    let missing: Vec<u32> = (0..5000).filter(|number| !numbers.contains(number)).collect();
    assert!(missing.len() <= 1, "{missing:?}");
}

/// Both paths lose 20 % of a bulk flow's packets: 4 % of them are lost twice, and each delays three to four packets by a
/// round trip. Without copies that is five times as many.
#[test]
fn redundant_packets_seldom_wait_for_repair() {
    let late = |multipath: Multipath| {
        let lossy = |delay| Path { loss: 20, ..Path::new(delay) };
        let mut link = link_with(multipath, [lossy(15), lossy(20)], 3);
        let count = offer(&mut link, millis(20), ms(40_000));
        link.run_until(ms(42_000));
        assert!(link.taken[1].len() as f64 >= 0.99 * f64::from(count), "{multipath:?}: {}", link.taken[1].len());
        let late = link.taken[1].iter().filter(|(at, packet)| at.since(sent(packet)) > millis(25)).count();
        late as f64 / f64::from(count)
    };
    let [redundant, bonded] = [Multipath::Redundant, Multipath::Bond].map(late);
    assert!(redundant < 0.16 && bonded > 0.4, "{redundant}, {bonded}");
}

/// Of two paths the second one stands by, however fast it is. It takes over within a round trip and 100 ms after a cut,
/// and the first one is used again when it works.
#[test]
fn a_path_stands_by() {
    let cut = [4000, 10_000];
    let mut carried = [[0_u32; 3]; 2];
    let paths = [Path { cut, ..Path::new(30) }, Path::new(5)];
    let mut random = Root(1).stream("paths");
    let (config, rates) = (config(Repair::Adaptive), [RateRule::Fixed(RATE)]);
    let mut link = Link::with(config, Multipath::Failover, &rates, |now, end, port, packet| {
        let index = usize::from(port.0 - Port::WIRELESS.0);
        let at = now.as_nanos() / 1_000_000;
        let periods = [0..cut[0] + 200, cut[0] + 200..cut[1], cut[1] + 2500..u64::MAX];
        if let Some(period) = periods.iter().position(|period| period.contains(&at)) {
            carried[index][period] += u32::from(end == 0 && packet.len > 0);
        }
        let is_cut = (paths[index].cut[0]..paths[index].cut[1]).contains(&at);
        if is_cut { vec![] } else { vec![millis(paths[index].delay + random.below(2))] }
    });
    let count = offer(&mut link, millis(20), ms(20_000));
    link.run_until(ms(21_000));
    assert_eq!(link.numbers(1, 0), in_order(count));
    let late = link.taken[1].iter().map(|(at, packet)| at.since(sent(packet))).max();
    assert!(late.is_some_and(|late| late <= millis(30 + 60 + 100)), "{late:?}");
    drop(link);
    let [first, second] = carried;
    // The switch itself repeats a few packets.
    assert!(first[0] >= 200 && second[0] <= 20, "{carried:?}");
    assert!(first[1] <= 20 && second[1] >= 280, "{carried:?}");
    assert!(first[2] >= 350 && second[2] <= 20, "{carried:?}");
}

/// A fast path is cut for good while a slow one carries packets, most of which are outstanding for longer than the fast
/// path would need to repair them. Probes of the fast path give none of them up.
#[test]
fn a_dead_fast_path_does_not_disturb_a_slow_one() {
    let paths = [Path::new(280), Path { cut: [3000, u64::MAX], ..Path::new(10) }];
    let mut link = link(paths, 1);
    let count = offer(&mut link, millis(4), ms(12_000));
    link.run_until(ms(16_000));
    assert_eq!(link.ends[0].hop().counters().given_up, 0);
    let mut numbers = link.numbers(1, 0);
    numbers.sort_unstable();
    assert!(numbers == in_order(count), "{} of {count}", numbers.len());
}

/// After a cut the path is used again.
#[test]
fn a_path_returns() {
    let paths = [Path { cut: [1000, 3000], ..Path::new(10) }, Path::new(10)];
    let mut link = link(paths, 1);
    // As much as both paths carry, so that both are needed.
    let count = offer(&mut link, Duration::from_micros(600), ms(900));
    link.run_until(ms(3500));
    assert_eq!(link.numbers(1, 0), in_order(count));
    let hop = link.ends[0].hop();
    assert!(hop.has_path(PathId(1)) && !hop.has_path(PathId(2)));
    let before = link.taken[1].len();
    let start = link.now;
    let mut more = 0;
    while link.now < start + millis(2000) {
        link.offer(0, segment(0, count + more));
        more += 1;
        let next = link.now + Duration::from_micros(600);
        link.run_until(next);
    }
    let end = link.now + millis(300);
    link.run_until(end);
    assert_eq!(link.taken[1].len() - before, more as usize, "both paths carry them");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each packet arrives at most once over any two paths, in order while none is passed on early; and all of them if
    /// none is given up.
    #[test]
    fn packets_arrive_once_and_in_order(
        delays in prop::array::uniform2(1u64..120), jitter in prop::array::uniform2(0u64..40),
        losses in prop::array::uniform2(0u64..15), cut in 0u64..4000, length in 0u64..1500, pause in 500u64..3000,
        seed in any::<u64>(),
    ) {
        let path = |index: usize| Path { delay: delays[index], jitter: jitter[index], loss: losses[index], cut: [u64::MAX; 2] };
        let paths = [Path { cut: [cut, cut + length], ..path(0) }, path(1)];
        let mut link = link(paths, seed);
        let count = offer(&mut link, Duration::from_micros(pause), ms(3000));
        link.run_until(ms(12_000));
        let numbers = once_and_in_order(&link)?;
        let counters = link.ends[0].hop().counters();
        if counters.given_up == 0 && counters.dropped == 0 {
            prop_assert_eq!(numbers.len(), count as usize);
        }
    }

    /// Reports with arbitrary contents on one path neither stop the other one nor exceed any bound.
    #[test]
    fn a_liar_on_one_path_does_not_stop_the_other(seed in any::<u64>()) {
        let mut random = Root(seed).stream("reports");
        let mut draw = || random.below(u64::MAX);
        let mut link = Link::over(config(Repair::Adaptive), &[RateRule::Fixed(RATE)], |_, _, port, _| {
            vec![millis(if port == Port::WIRELESS { 10 } else { 20 })]
        });
        let mut count = 0;
        while link.now < ms(1500) {
            link.offer(0, segment(0, count));
            count += 1;
            let next = link.now + Duration::from_micros(1500);
            link.run_until(next);
            // A forged report of the second path, in a frame of that path.
            let forged = link.sent[1].iter().rev().find(|(_, packet, _)| matches!(packet.body, Body::Report(_))).map(|(_, packet, _)| *packet);
            if let Some(mut packet) = forged
                && let Body::Report(report) = &mut packet.body
            {
                (report.path, report.largest) = (1, draw() as u32 % 64);
                (report.arrived, report.back) = (draw() as u32, draw() as u16);
                (report.delivered, report.marked) = (draw() as u32, draw() as u32);
                (report.beyond, report.floor) = ([0; 4], 0);
                packet.cause = Cause::LinkControl;
                link.handle(0, Port(2), packet);
            }
        }
        link.run_until(ms(4000));
        let arrived = link.numbers(1, 0).len();
        prop_assert!(arrived * 100 >= count as usize * 95, "{arrived} of {count}");
    }
}
