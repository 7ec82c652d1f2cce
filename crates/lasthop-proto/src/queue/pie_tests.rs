//! PIE against the pseudocode of RFC 8033 in floating point, and against numbers derived by hand.

extern crate std;

use std::vec::Vec;

use super::super::tests::{Item, draws, item, ms};
use super::*;

/// RFC 8033 §4 and §5 in floating point, with delays by timestamps. Linux's choices that the RFC leaves open or that
/// differ: the burst allowance shrinks as packets are dequeued, the probability of an idle queue decays by 1/64, and a
/// delay above 250 ms adds 2 %.
struct Oracle {
    probability: f64,
    accumulated: f64,
    delay: f64,
    delay_before: f64,
    burst: f64,
    dequeued: Option<f64>,
    backlog: f64,
    draws: Stream,
}

impl Oracle {
    const TARGET: f64 = 0.015;

    fn new() -> Self {
        let draws = draws();
        Self {
            probability: 0.0,
            accumulated: 0.0,
            delay: 0.0,
            delay_before: 0.0,
            burst: 0.15,
            dequeued: None,
            backlog: 0.0,
            draws,
        }
    }

    fn update(&mut self) {
        let steps = [0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1];
        let divisors = [2048.0, 512.0, 128.0, 32.0, 8.0, 2.0];
        let divisor = steps.iter().zip(divisors).find(|(step, _)| self.probability < **step).map_or(1.0, |(_, by)| by);
        let mut p = 0.125 / divisor * (self.delay - Self::TARGET) + 1.25 / divisor * (self.delay - self.delay_before);
        if self.probability >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        if self.delay > 0.25 {
            p += 0.02;
        }
        self.probability = (self.probability + p).clamp(0.0, 1.0);
        if self.delay == 0.0 && self.delay_before == 0.0 && self.backlog == 0.0 {
            self.probability *= 63.0 / 64.0;
        }
        let quiet = self.delay.max(self.delay_before) < Self::TARGET / 2.0 && self.probability == 0.0;
        if quiet {
            (self.burst, self.dequeued, self.accumulated) = (0.15, None, 0.0);
        }
        self.delay_before = self.delay;
    }

    fn drop_early(&mut self) -> bool {
        if self.burst > 0.0
            || self.delay < Self::TARGET / 2.0 && self.probability < 0.2
            || self.backlog < 2.0 * f64::from(MTU)
        {
            return false;
        }
        self.accumulated = if self.probability == 0.0 { 0.0 } else { self.accumulated + self.probability };
        if self.accumulated < 0.85 {
            return false;
        }
        if self.accumulated >= 8.5 {
            return true;
        }
        let drops = self.draws.uniform() < self.probability;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    fn on_dequeued(&mut self, now: f64, since: f64) {
        self.delay = if self.backlog == 0.0 { 0.0 } else { now - since };
        self.burst = (self.burst - self.dequeued.map_or(0.0, |before| now - before)).max(0.0);
        self.dequeued = Some(now);
    }
}

/// Numbers of the packets dropped, and the probability every 15 ms, when packets of 1500 bytes arrive as `load` says
/// (packets in each ms) and one leaves each 2.048 ms.
fn run(load: impl Fn(u64) -> u32) -> (Vec<u32>, Vec<f64>, Vec<u32>, Vec<f64>) {
    let mut queue = Pie::new(PieConfig::default(), draws());
    let mut oracle = Oracle::new();
    let mut line = VecDeque::new();
    let (mut number, mut gone, mut expected) = (0, Vec::new(), Vec::new());
    let (mut probabilities, mut wanted) = (Vec::new(), Vec::new());
    // 64 µs per step: a multiple of the tick.
    let unit = 64_000;
    let (mut arrival, mut leaves, mut next_update) = (1, 32, 15_000_000);
    for step in 1..300_000u64 {
        let now = Instant::from_nanos(step * unit);
        let seconds = now.as_secs_f64();
        while next_update <= now.as_nanos() {
            oracle.update();
            next_update += 15_000_000;
            wanted.push(oracle.probability);
            queue.catch_up(now);
            probabilities.push(queue.control.probability as f64 / CERTAIN as f64);
        }
        if step == leaves {
            leaves += 32;
            queue.pop(now);
            if let Some(since) = line.pop_front() {
                oracle.backlog -= 1500.0;
                oracle.on_dequeued(seconds, since);
            }
        }
        if step == arrival {
            arrival += 16;
            for _ in 0..load(now.as_nanos() / 1_000_000) {
                let mut dropped = Vec::new();
                queue.push(now, item(0, number, 1500), &mut dropped);
                gone.extend(dropped.iter().map(|item: &Item| item.number));
                if oracle.drop_early() {
                    oracle.accumulated = 0.0;
                    expected.push(number);
                } else {
                    oracle.backlog += 1500.0;
                    line.push_back(seconds);
                }
                number += 1;
            }
        }
    }
    (gone, probabilities, expected, wanted)
}

/// A load of 1 to 3 packets per 2 that leave: overload, recovery and idle times.
#[test]
fn decisions_are_those_of_the_pseudocode() {
    let (gone, probabilities, expected, wanted) = run(|at| match at / 500 % 6 {
        0 => 1,
        1 => u32::from(at % 3 > 0),
        2 => 1 + u32::from(at % 5 == 0),
        3 => 0,
        4 => u32::from(at % 2 > 0),
        _ => 2,
    });
    assert!(gone.len() > 200 && gone.len() < 10_000, "{}", gone.len());
    for (at, (is, should)) in probabilities.iter().zip(&wanted).enumerate() {
        assert!((is - should).abs() < 1e-7, "update {at}: {is} for {should}");
    }
    assert!(wanted.iter().copied().fold(0.0, f64::max) > 0.3);
    assert_eq!(gone, expected);
}

/// Two updates with a delay of 30 ms: at a probability below a millionth the gains are 0.125/2048 and 1.25/2048 per
/// second, then 0.125/128 and 1.25/128 (below 10⁻⁴). 1.25/2048·0.030 + 0.125/2048·0.015 = 1.9226·10⁻⁵, and
/// 0.125/128·0.015 = 1.4648·10⁻⁵ more.
#[test]
fn the_gains_grow_with_the_probability() {
    let mut control = Control { delay: ticks(ms(30)), ..Control::new() };
    let mut update = || {
        control.update(&PieConfig::default(), ticks(ms(15)), 10_000);
        control.probability as f64 / CERTAIN as f64
    };
    let (first, second) = (update(), update());
    assert!((first - 1.9226e-5).abs() < 1e-9, "{first}");
    assert!((second - 3.3875e-5).abs() < 1e-9, "{second}");
}

/// Nothing is dropped before packets have been dequeued for 150 ms, then much at a probability of 1.
#[test]
fn a_burst_is_tolerated() {
    let mut queue = Pie::new(PieConfig { limit: QueueLimit::Packets(10_000), ..PieConfig::default() }, draws());
    let mut dropped = Vec::new();
    let mut first = None;
    for at in 0..400 {
        (0..20).for_each(|number| queue.push(ms(at), item(0, number, 1500), &mut dropped));
        queue.control.probability = CERTAIN / 2;
        queue.pop(ms(at));
        if !dropped.is_empty() {
            first = first.or(Some(at));
        }
    }
    // The first dequeued packet starts the count, at 0 ms; the packets after that of 150 ms arrive at 151 ms.
    assert_eq!(first, Some(151));
}

/// RFC 8033 §5.1: packets are marked up to 10 %, and dropped above.
#[test]
fn marks_end_at_ten_percent() {
    let config = PieConfig { ecn: Switch::On, limit: QueueLimit::Packets(100_000), ..PieConfig::default() };
    let fates = |probability: u64| {
        let mut queue = Pie::new(config, draws());
        let mut dropped = Vec::new();
        queue.control.burst = 0;
        queue.control.delay = ticks(ms(20));
        queue.control.probability = probability;
        (0..2000).for_each(|number| queue.push(ms(1), Item { capable: true, ..item(0, number, 1500) }, &mut dropped));
        let marked = queue.line.iter().filter(|waits| waits.item.marked).count();
        (marked, dropped.len())
    };
    // At least 0.85 of accumulated probability lies between two of them (§5.4): at 10 %, nine packets, and then on
    // average as many as the probability says.
    let (marked, dropped) = fates(CERTAIN / 10);
    assert!((80..=140).contains(&marked) && dropped == 0, "{marked} {dropped}");
    let (marked, dropped) = fates(CERTAIN / 10 + 1);
    assert!(marked == 0 && (80..=140).contains(&dropped), "{marked} {dropped}");
}

/// Updates that are performed late have the same results.
#[test]
fn late_updates_change_nothing() {
    // The delay of the packet dequeued last, and whether another one still waits.
    for (delay, waits, certain) in [(20, true, true), (20, false, true), (10, true, false), (0, false, false)] {
        let mut queues = [0, 1].map(|_| Pie::new(PieConfig::default(), draws()));
        for queue in &mut queues {
            if waits {
                queue.push(ms(0), item(0, 0, 1500), &mut Vec::new());
            }
            queue.control.delay = ticks(ms(delay));
            queue.control.probability = CERTAIN / 100;
        }
        (0..200_000).for_each(|at| queues[0].catch_up(ms(at)));
        queues[1].catch_up(ms(199_999));
        let [often, once] = queues;
        assert_eq!((often.control, often.next_update), (once.control, once.next_update));
        assert_eq!(often.control.probability, if certain { CERTAIN } else { 0 });
    }
}
