//! Proportional integral controller enhanced (RFC 8033): arriving packets are dropped, or marked, with a probability
//! that a controller adjusts to keep the queue's delay near a target.
//!
//! Arithmetic and order of decisions are those of Linux (`sch_pie`) with timestamps instead of a rate estimate. The
//! probability is limited to 1, as in the RFC.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Backlog, Catch, MTU, QueueLimit, Queued, Stamped};
use crate::random::Stream;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Probability 1: 56 bits.
const CERTAIN: u64 = u64::MAX >> 8;

/// Linux's clock of packet schedulers: 64 ns.
const TICK_SHIFT: u32 = 6;
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> TICK_SHIFT;

/// Time after a quiet period for which nothing is dropped (`MAX_BURST`).
const BURST: u64 = 150_000_000 >> TICK_SHIFT;
/// Delay beyond which the probability grows faster.
const LONG_DELAY: u64 = 250_000_000 >> TICK_SHIFT;

/// PIE's parameters (RFC 8033 §4), with Linux's values as defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieConfig {
    /// Limit beyond which arriving packets are dropped.
    pub limit: QueueLimit,
    /// Delay that the controller aims at (`QDELAY_REF`).
    pub target: Duration,
    /// Interval between updates of the probability (`T_UPDATE`); not zero.
    pub update: Duration,
    /// Gain for the distance from the target, in sixteenths of 1/s.
    pub alpha: u32,
    /// Gain for the change of the delay, in sixteenths of 1/s.
    pub beta: u32,
    /// Marks ECN-capable packets instead of dropping them while the probability is at most 10 % (RFC 8033 §5.1).
    pub ecn: Switch,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            limit: QueueLimit::Packets(1000),
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            alpha: 2,
            beta: 20,
            ecn: Switch::Off,
        }
    }
}

/// Variables of the controller. Times are in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Control {
    probability: u64,
    /// Sum of the probabilities since the last random drop (RFC 8033 §5.4).
    accumulated: u64,
    /// Delay of the packet dequeued last.
    delay: u64,
    /// Delay at the last update.
    delay_before: u64,
    /// Rest of the time for which nothing is dropped.
    burst: u64,
    /// Time of the last dequeued packet since the last quiet period.
    dequeued: Option<u64>,
}

impl Control {
    const fn new() -> Self {
        Self { probability: 0, accumulated: 0, delay: 0, delay_before: 0, burst: BURST, dequeued: None }
    }

    /// Returns whether an arriving packet is to be dropped or marked, while `backlog` bytes wait.
    fn strikes(&mut self, target: u64, backlog: u64, draws: &mut Stream) -> bool {
        let calm = self.delay < target / 2 && self.probability < CERTAIN / 5;
        if self.burst > 0 || calm || backlog < 2 * u64::from(MTU) {
            return false;
        }
        if self.probability == 0 {
            self.accumulated = 0;
        } else {
            self.accumulated = self.accumulated.saturating_add(self.probability);
        }
        if self.accumulated < CERTAIN / 100 * 85 {
            return false;
        }
        if self.accumulated >= CERTAIN / 2 * 17 {
            return true;
        }
        let strikes = draws.below(1 << 56) < self.probability;
        if strikes {
            self.accumulated = 0;
        }
        strikes
    }

    /// Records that a packet is dequeued that has waited since `since`, behind which `backlog` bytes wait.
    fn on_dequeued(&mut self, now: u64, since: u64, backlog: u64) {
        self.delay = if backlog == 0 { 0 } else { now - since };
        let elapsed = self.dequeued.map_or(0, |before| now - before);
        self.dequeued = Some(now);
        self.burst = self.burst.saturating_sub(elapsed);
    }

    /// Updates the probability.
    fn update(&mut self, config: &PieConfig, target: u64, backlog: u64) {
        let (delay, before) = (self.delay, self.delay_before);
        let may_decay = delay != 0 || backlog == 0;
        let scaled = |gain: u32| u64::from(gain) * (CERTAIN / TICKS_PER_SECOND) / 16;
        let shift = self.gain_shift();
        let (alpha, beta) = (scaled(config.alpha) >> shift, scaled(config.beta) >> shift);
        let part = |gain: u64, from: u64, to: u64| i128::from(gain) * (i128::from(to) - i128::from(from));
        let mut change = part(alpha, target, delay) + part(beta, before, delay);
        if change > i128::from(CERTAIN / 50) && self.probability >= CERTAIN / 10 {
            change = i128::from(CERTAIN / 100 * 2);
        }
        if delay > LONG_DELAY {
            change += i128::from(CERTAIN / 50);
        }
        self.probability = (i128::from(self.probability) + change).clamp(0, i128::from(CERTAIN)) as u64;
        if delay == 0 && before == 0 && may_decay {
            self.probability -= self.probability / 64;
        }
        self.delay_before = delay;
        if delay < target / 2 && before < target / 2 && self.probability == 0 {
            // A quiet period: bursts are tolerated again.
            (self.burst, self.dequeued, self.accumulated) = (BURST, None, 0);
        }
    }

    /// Returns the shift by which gains are reduced at a small probability (RFC 8033 §5.2): by 2 below 10 %, and by 4
    /// for each further factor of 10 down to a millionth.
    const fn gain_shift(&self) -> u32 {
        if self.probability >= CERTAIN / 10 {
            return 0;
        }
        let (mut shift, mut power) = (1, 100);
        while self.probability < CERTAIN / power && power <= 1_000_000 {
            shift += 2;
            power *= 10;
        }
        shift
    }
}

/// A single line under PIE.
#[derive(Clone, Debug)]
pub struct Pie<T> {
    config: PieConfig,
    target: u64,
    control: Control,
    line: VecDeque<Stamped<T>>,
    backlog: Backlog,
    next_update: Instant,
    draws: Stream,
}

const fn ticks(at: Instant) -> u64 {
    at.as_nanos() >> TICK_SHIFT
}

impl<T: Queued> Pie<T> {
    /// Returns an empty queue. Its random numbers come from `draws`.
    pub fn new(config: PieConfig, draws: Stream) -> Self {
        let config = PieConfig { update: config.update.max(Duration::from_nanos(1)), ..config };
        Self {
            config,
            target: config.target.as_nanos() >> TICK_SHIFT,
            control: Control::new(),
            line: VecDeque::new(),
            backlog: Backlog::default(),
            next_update: Instant::ZERO + config.update,
            draws,
        }
    }

    /// Performs the updates that are due by `now`. The queue has not changed since the last event.
    fn catch_up(&mut self, now: Instant) {
        let mut catch = Catch::new(&mut self.next_update, self.config.update, now);
        while catch.next().is_some() {
            let before = self.control;
            self.control.update(&self.config, self.target, self.backlog.bytes);
            if self.control == before {
                catch.skip();
            }
        }
    }

    /// Enqueues a packet, or adds it to `dropped`.
    pub fn push(&mut self, now: Instant, mut item: T, dropped: &mut Vec<T>) {
        self.catch_up(now);
        if !self.config.limit.has_room(self.backlog, item.bytes()) {
            self.control.accumulated = 0;
            return dropped.push(item);
        }
        if self.control.strikes(self.target, self.backlog.bytes, &mut self.draws) {
            let marks = self.config.ecn.is_on() && self.control.probability <= CERTAIN / 10;
            if !(marks && item.mark()) {
                self.control.accumulated = 0;
                return dropped.push(item);
            }
        }
        self.backlog.add(item.bytes());
        self.line.push_back(Stamped { item, since: now });
    }

    /// Dequeues the next packet.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        self.catch_up(now);
        let Stamped { item, since } = self.line.pop_front()?;
        self.backlog.remove(item.bytes());
        self.control.on_dequeued(ticks(now), ticks(since), self.backlog.bytes);
        Some(item)
    }

    /// Returns the backlog.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
#[path = "pie_tests.rs"]
mod tests;
