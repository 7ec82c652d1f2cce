//! Delays in both queues against those of the RFC's pseudocode: with sources that react, and with recorded arrivals.

use alloc::collections::BTreeMap;

use super::rfc9332::{Fate, Oracle};
use super::*;
use crate::random::Root;

const BYTES: u32 = 1500;

/// A queue under comparison.
trait Dual {
    fn push(&mut self, now: u64, scalable: bool, source: u32);
    /// Returns the packets that leave, the last of which is sent: their source, delay in µs, queue and fate.
    fn pop(&mut self, now: u64) -> Vec<(u32, u64, bool, Fate)>;
}

impl Dual for Oracle {
    fn push(&mut self, now: u64, scalable: bool, source: u32) {
        self.enqueue(now as f64 / 1e6, scalable, source, scalable);
    }

    fn pop(&mut self, now: u64) -> Vec<(u32, u64, bool, Fate)> {
        let out = self.dequeue(now as f64 / 1e6, BYTES as usize);
        out.into_iter()
            .map(|(name, delay, scalable, fate)| (name, (delay * 1e6).round() as u64, scalable, fate))
            .collect()
    }
}

impl Dual for DualPi2<Item> {
    fn push(&mut self, now: u64, scalable: bool, source: u32) {
        let ecn = if scalable { Ecn::Ect1 } else { Ecn::NotEct };
        // The arrival's time is the packet's number.
        let item = Item { capable: scalable, ..item(source, now as u32, BYTES) };
        self.push(us(now), item, ecn, &mut Vec::new());
    }

    fn pop(&mut self, now: u64) -> Vec<(u32, u64, bool, Fate)> {
        let mut dropped = Vec::new();
        let sent = self.pop(us(now), &mut dropped, &mut Queued::mark);
        let leaves = |item: &Item, fate| (item.flow, now - u64::from(item.number), item.capable, fate);
        let mut out: Vec<_> = dropped.iter().map(|item| leaves(item, Fate::Dropped)).collect();
        out.extend(sent.iter().map(|item| leaves(item, Fate::Sent { marked: item.marked })));
        out
    }
}

/// A source with a window in packets: per round trip, a scalable one reduces it by half the average share of marks, a
/// classic one halves it after a loss.
struct Source {
    scalable: bool,
    window: f64,
    in_flight: u32,
    alpha: f64,
    /// Packets and marks of this round trip, its end, and the end of the last reduction.
    counts: [f64; 2],
    round_ends: u64,
    deaf_until: u64,
}

impl Source {
    fn on_ack(&mut self, now: u64, round_trip: u64, fate: Fate) {
        self.in_flight -= 1;
        self.counts[0] += 1.0;
        let strikes = fate != Fate::Sent { marked: false };
        self.counts[1] += f64::from(u8::from(strikes));
        if now >= self.round_ends {
            self.alpha += (self.counts[1] / self.counts[0] - self.alpha) / 16.0;
            self.counts = [0.0; 2];
            self.round_ends = now + round_trip;
        }
        if !strikes {
            self.window += 1.0 / self.window;
        } else if now >= self.deaf_until {
            let share = if self.scalable { self.alpha / 2.0 } else { 0.5 };
            self.window = (self.window * (1.0 - share)).max(2.0);
            self.deaf_until = now + round_trip;
        }
    }
}

/// Arrivals: time in µs, queue, source.
type Arrivals = Vec<(u64, bool, u32)>;
/// Delays in µs of the classic and of the scalable queue.
type Delays = [Vec<u64>; 2];

/// Lets sources send over a link of 40 Mbps (a packet per 300 µs) with 20 ms of propagation for 60 s.
fn run(queue: &mut impl Dual, kinds: &[bool]) -> (Arrivals, Delays) {
    let propagation = 20_000;
    let new = |scalable: &bool| Source {
        scalable: *scalable,
        window: 10.0,
        in_flight: 0,
        alpha: 1.0,
        counts: [0.0; 2],
        round_ends: 0,
        deaf_until: 0,
    };
    let mut sources: Vec<Source> = kinds.iter().map(new).collect();
    let (mut arrivals, mut delays): (Arrivals, Delays) = Default::default();
    // Acknowledgments by time and order.
    let mut acks: BTreeMap<(u64, u64), (u32, u64, Fate)> = BTreeMap::new();
    let (mut order, mut backlog) = (0, 0);
    // Packets are paced: each source sends at most two per slot.
    for now in (0..60_000_000).step_by(300) {
        while let Some(entry) = acks.first_entry()
            && entry.key().0 <= now
        {
            let (source, round_trip, fate) = entry.remove();
            sources[source as usize].on_ack(now, round_trip, fate);
        }
        for (number, source) in sources.iter_mut().enumerate() {
            for _ in 0..2 {
                if f64::from(source.in_flight) + 1.0 <= source.window {
                    source.in_flight += 1;
                    arrivals.push((now, source.scalable, number as u32));
                    queue.push(now, source.scalable, number as u32);
                    backlog += 1;
                }
            }
        }
        if backlog > 0 {
            for (source, delay, scalable, fate) in queue.pop(now) {
                backlog -= 1;
                acks.insert((now + propagation, order), (source, propagation + delay, fate));
                order += 1;
                // After the start.
                if now > 10_000_000 && fate != Fate::Dropped {
                    delays[usize::from(scalable)].push(delay);
                }
            }
        }
    }
    (arrivals, delays)
}

/// Sends recorded arrivals through a queue.
fn replay(queue: &mut impl Dual, arrivals: &Arrivals) -> Delays {
    let (mut delays, mut backlog, mut next): (Delays, u32, usize) = Default::default();
    for now in (0..60_000_000).step_by(300) {
        while let Some((at, scalable, source)) = arrivals.get(next)
            && *at <= now
        {
            queue.push(*at, *scalable, *source);
            (backlog, next) = (backlog + 1, next + 1);
        }
        if backlog > 0 {
            for (_, delay, scalable, fate) in queue.pop(now) {
                backlog -= 1;
                if now > 10_000_000 && fate != Fate::Dropped {
                    delays[usize::from(scalable)].push(delay);
                }
            }
        }
    }
    delays
}

/// Returns the 99th percentile in µs.
fn p99(delays: &mut [u64]) -> f64 {
    delays.sort_unstable();
    delays[delays.len() * 99 / 100] as f64
}

fn assert_near(case: &str, ours: &mut Delays, theirs: &mut Delays) {
    for (queue, (ours, theirs)) in ["classic", "scalable"].into_iter().zip(ours.iter_mut().zip(theirs)) {
        if ours.is_empty() && theirs.is_empty() {
            continue;
        }
        let (ours, theirs) = (p99(ours), p99(theirs));
        super::std::println!("{case}, {queue}: p99 {ours} µs, pseudocode {theirs} µs");
        // A slot of the link is 300 µs, of which a delay is a multiple.
        let near = (ours / theirs - 1.0).abs() <= 0.1 || (ours - theirs).abs() <= 300.0 && theirs < 3000.0;
        assert!(near, "{case}, {queue}: p99 {ours} µs, pseudocode {theirs} µs");
    }
}

/// Mixtures of scalable and classic sources.
const MIXTURES: [(&str, &[bool]); 4] = [
    ("one each", &[true, false]),
    ("two each", &[true, true, false, false]),
    ("scalable alone", &[true, true]),
    ("classic alone", &[false, false, false]),
];

/// Random decisions, as in Linux, spread delays more widely than accumulated ones, so the pseudocode draws as well.
#[test]
fn delays_with_sources_that_react_are_those_of_the_pseudocode() {
    for (case, kinds) in MIXTURES {
        let (mut ours, mut theirs): (Delays, Delays) = Default::default();
        for seed in 0..8 {
            let draws = |name| Root(seed).stream(name);
            let (_, delays) = run(&mut DualPi2::new(DualPi2Config::default(), draws("ours")), kinds);
            ours.iter_mut().zip(delays).for_each(|(all, more)| all.extend(more));
            let mut oracle = Oracle::default();
            oracle.draws = Some(draws("theirs"));
            let (_, delays) = run(&mut oracle, kinds);
            theirs.iter_mut().zip(delays).for_each(|(all, more)| all.extend(more));
        }
        assert_near(case, &mut ours, &mut theirs);
    }
}

#[test]
fn delays_of_recorded_arrivals_are_those_of_the_pseudocode() {
    for (case, kinds) in MIXTURES {
        let (arrivals, mut theirs) = run(&mut Oracle::default(), kinds);
        let mut ours = replay(&mut DualPi2::new(DualPi2Config::default(), draws()), &arrivals);
        assert_near(case, &mut ours, &mut theirs);
    }
}
