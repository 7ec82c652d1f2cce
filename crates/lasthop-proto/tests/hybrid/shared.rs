//! Paths with estimated rates that share a bottleneck, or do not: `docs/models/multipath.md`.

use std::collections::VecDeque;

use lasthop_proto::link::hybrid::{PathId, PathUse, RateRule, Repair};
use lasthop_proto::node::Port;
use lasthop_proto::packet::Packet;
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::{Duration, Instant};

use super::bottleneck::*;
use super::link::*;

/// A TCP sender with Reno's window, in packets of 1500 bytes.
#[derive(Clone, Debug)]
struct Reno {
    window: f64,
    /// Round trip without a queue.
    trip: Duration,
    /// Time at which the fate of each packet in flight is known, and whether it was lost.
    flight: VecDeque<(Instant, bool)>,
    /// End of the round trip after the last reduction.
    recovery: Instant,
}

impl Reno {
    fn new(trip: u64) -> Self {
        Self { window: 10.0, trip: millis(trip), flight: VecDeque::new(), recovery: Instant::ZERO }
    }
}

/// A queue with a rate, and its traffic besides the hop's.
#[derive(Clone, Debug)]
struct Bottleneck {
    rate: u64,
    /// Time at which the queue is empty, and its capacity.
    free: Instant,
    capacity: Duration,
    reno: Option<Reno>,
    /// Rate of constant traffic, in bits per second, and the time of its next packet.
    constant: u64,
    next: Instant,
}

impl Bottleneck {
    fn new(rate: u64) -> Self {
        let (free, next) = (Instant::ZERO, Instant::ZERO);
        Self { rate, free, capacity: millis(80), reno: None, constant: 0, next }
    }

    /// Returns the time at which a packet leaves that arrives at `now`; `None` if it is dropped.
    fn push(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.free.since(now) > self.capacity {
            return None;
        }
        self.free = self.free.max(now) + Duration::from_nanos(bytes * 8_000_000_000 / self.rate);
        Some(self.free)
    }

    /// Handles the other traffic until `now`.
    fn advance(&mut self, now: Instant) {
        while self.constant > 0 && self.next <= now {
            self.push(self.next, 1500);
            self.next += Duration::from_nanos(12_000 * 1_000_000_000 / self.constant);
        }
        let Some(mut reno) = self.reno.take() else { return };
        let mut at = reno.flight.front().map_or(now, |(at, _)| *at);
        while at <= now {
            if let Some((_, is_lost)) = reno.flight.pop_front() {
                if !is_lost {
                    reno.window += 1.0 / reno.window;
                } else if at >= reno.recovery {
                    reno.window = (reno.window / 2.0).max(2.0);
                    reno.recovery = at + reno.trip + self.free.since(at);
                }
            }
            while reno.flight.len() < reno.window as usize {
                let left = self.push(at, 1500);
                reno.flight.push_back((left.unwrap_or(self.free.max(at)) + reno.trip, left.is_none()));
            }
            let Some((next, _)) = reno.flight.front() else { break };
            at = *next;
        }
        self.reno = Some(reno);
    }
}

/// Two bottlenecks with a delay of 30 ms each way, and the one of each path by time. The way back has no queue.
struct Lines {
    bottlenecks: [Bottleneck; 2],
    route: fn(Instant, usize) -> usize,
    /// Maximum jitter of each path; frames keep their order.
    jitter: [Duration; 2],
    /// Number of lost frames per 1000, in both directions.
    loss: u64,
    last: [Instant; 2],
    random: Stream,
}

impl Lines {
    fn new(rates: [u64; 2], route: fn(Instant, usize) -> usize, seed: u64) -> Self {
        let mut random = Root(seed).stream("lines");
        let mut bottlenecks = rates.map(Bottleneck::new);
        for bottleneck in &mut bottlenecks {
            bottleneck.capacity = millis(60 + random.below(40));
        }
        Self { bottlenecks, route, jitter: [Duration::ZERO; 2], loss: 0, last: [Instant::ZERO; 2], random }
    }

    fn pass(&mut self, now: Instant, end: usize, port: Port, packet: &Packet) -> Vec<Duration> {
        if self.random.below(1000) < self.loss {
            return vec![];
        }
        if end == 1 {
            return vec![millis(30)];
        }
        let path = usize::from(port.0 - Port::WIRELESS.0);
        let bottleneck = &mut self.bottlenecks[(self.route)(now, path)];
        bottleneck.advance(now);
        let Some(left) = bottleneck.push(now, packet.wire_len().into()) else { return vec![] };
        let jitter = Duration::from_nanos(self.random.below(self.jitter[path].as_nanos() + 1));
        let arrived = (left + millis(30) + jitter).max(self.last[path]);
        self.last[path] = arrived;
        vec![arrived.since(now)]
    }

    fn link(mut self, paths: usize) -> Link<'static> {
        let more = vec![RateRule::Auto; paths - 1];
        Link::over(auto(Repair::Adaptive), &more, move |now, end, port, packet| self.pass(now, end, port, packet))
    }
}

const SHARED: fn(Instant, usize) -> usize = |_, _| 0;
const OWN: fn(Instant, usize) -> usize = |_, path| path;

/// Returns the number of paths that stand by.
fn standing_by(link: &Link<'_>) -> usize {
    [0, 1].iter().filter(|path| link.ends[0].hop().path_use(PathId(**path)) == PathUse::Standby).count()
}

/// Offers twice `bits` per second for `seconds`, and returns the goodput in that time, in bits per second.
fn used(link: &mut Link<'_>, bits: u64, seconds: u64) -> u64 {
    let from = link.now;
    offer(link, 0, 2, 2 * bits, from + millis(1000 * seconds));
    goodput(link, 1, from)
}

/// Beside a TCP sender or constant traffic at the same bottleneck, two paths take what one takes.
#[test]
fn a_group_takes_one_share() {
    for (with_reno, constant) in [(true, 0), (true, 2_000_000), (false, 4_000_000)] {
        for seed in 1..=3 {
            let share = |paths: usize| {
                let mut lines = Lines::new([10_000_000; 2], SHARED, seed);
                lines.jitter = [millis(seed - 1), millis(2 * seed - 2)];
                lines.bottlenecks[0].reno = with_reno.then(|| Reno::new(50 + 10 * seed));
                lines.bottlenecks[0].constant = constant;
                let mut link = lines.link(paths);
                used(&mut link, 10_000_000, 20);
                (used(&mut link, 10_000_000, 60), if paths == 2 { standing_by(&link) } else { 1 })
            };
            let [(one, _), (two, standing)] = [1, 2].map(share);
            assert!(two * 100 <= one * 115, "{with_reno}, {constant}, seed {seed}: {one}, {two}");
            assert!(!with_reno || standing == 1, "{with_reno}, {constant}, seed {seed}");
        }
    }
}

/// Equal lines reach the sum of their rates and never form a group, with full and with changing demand, and with jitter.
#[test]
fn equal_lines_are_no_group() {
    for seed in 1..=20 {
        let jitter = [0, 4, 15][seed as usize % 3];
        let mut lines = Lines::new([3_000_000; 2], OWN, seed);
        lines.jitter = [millis(jitter); 2];
        let mut link = lines.link(2);
        for second in 0..300 {
            // Little demand in every second half of a minute.
            let bits = if second / 30 % 2 == 0 { 12_000_000 } else { 4_000_000 };
            let until = link.now + millis(if second % 3 == 0 && bits < 12_000_000 { 500 } else { 1000 });
            offer(&mut link, 0, 2, bits, until);
            link.run_until(ms(1000 * (second + 1)));
            assert_eq!(standing_by(&link), 0, "seed {seed}, jitter {jitter}, {second} s");
        }
        let sum = used(&mut link, 6_000_000, 20);
        let least = if jitter > 4 { 4_000_000 } else { 5_100_000 };
        assert!(sum >= least, "seed {seed}, jitter {jitter}: {sum}");
    }
}

/// Each line has a TCP sender of its own: the queues are about as long, but change independently.
#[test]
fn lines_with_other_traffic_are_no_group() {
    for seed in 1..=5 {
        let mut lines = Lines::new([4_000_000; 2], OWN, seed);
        for (index, bottleneck) in lines.bottlenecks.iter_mut().enumerate() {
            bottleneck.capacity = millis(80);
            bottleneck.reno = Some(Reno::new(40 + 15 * index as u64));
        }
        let mut link = lines.link(2);
        for second in 1..=200 {
            offer(&mut link, 0, 2, 16_000_000, ms(1000 * second));
            assert_eq!(standing_by(&link), 0, "seed {seed}, {second} s");
        }
    }
}

/// The second path uses the first one's bottleneck, which a TCP sender uses as well, until 40 s and from 120 s on.
#[test]
fn a_path_leaves_a_group_and_joins_it_again() {
    let route: fn(Instant, usize) -> usize =
        |now, path| if (ms(40_000)..ms(120_000)).contains(&now) { path } else { 0 };
    for seed in 1..=3 {
        let mut lines = Lines::new([10_000_000; 2], route, seed);
        lines.bottlenecks[0].reno = Some(Reno::new(60));
        let mut link = lines.link(2);
        let mut standing = |seconds: u64| {
            let used = used(&mut link, 10_000_000, seconds);
            (standing_by(&link), used)
        };
        assert_eq!(standing(35).0, 1);
        standing(50);
        let (apart, used) = standing(33);
        assert_eq!(apart, 0);
        assert!(used > 11_000_000, "{used}");
        standing(20);
        assert_eq!(standing(20).0, 1);
    }
}

/// Acknowledgments return while data arrives at 40 Mbps, whose feedback takes more than the rate that is assumed at the
/// start. Of two lines that lose 1 %, each delivers copies for the other one: no acknowledgment waits for long.
#[test]
fn feedback_does_not_use_up_a_path() {
    for seed in 1..=3 {
        let mut lines = Lines::new([20_000_000; 2], OWN, seed);
        lines.loss = 10;
        let mut link = lines.link(2);
        let mut number = 0;
        while link.now < ms(20_000) {
            link.offer(0, segment(0, number));
            if number % 2 == 0 {
                link.offer(1, acknowledgment(number));
            }
            number += 1;
            let next = link.now + Duration::from_micros(280);
            link.run_until(next);
        }
        let times: Vec<Instant> = link.taken[0].iter().map(|(at, _)| *at).collect();
        let gap = times.windows(2).map(|pair| pair[1].since(pair[0])).max();
        assert!(gap.is_some_and(|gap| gap < millis(200)), "seed {seed}: {gap:?}");
        assert!(times.last().is_some_and(|last| *last > ms(19_900)), "seed {seed}");
    }
}
