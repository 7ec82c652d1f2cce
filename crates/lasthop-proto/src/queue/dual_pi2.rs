//! Dual-queue coupled AQM with a squared PI controller (RFC 9332 appendix A): packets of scalable congestion controls
//! (ECT(1) or CE) wait in a queue of their own, which is marked from a short delay on. Both queues share the capacity
//! by coupled probabilities: the marks of the scalable queue are proportional to the controller's probability, the
//! drops and marks of the classic queue to its square.
//!
//! Arithmetic and order of decisions are those of Linux 6.18 (`sch_dualpi2`), which differs from the RFC's pseudocode
//! in three points: it draws random numbers instead of accumulating probabilities, marks the scalable queue by a step
//! instead of a ramp, and the delay that it controls is that of the queue with the older head.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Backlog, Catch, MTU, QueueLimit, Queued, Stamped};
use crate::packet::Ecn;
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Probability 1: 32 bits.
const CERTAIN: u32 = u32::MAX;

/// Right shift from the unit of the configured gains (1/256 Hz) to that of the controller (`ALPHA_BETA_SCALING`).
const GAIN_SHIFT: u32 = 2;
/// Unit of delays in the controller: 64 ns (`ALPHA_BETA_GRANULARITY`).
const DELAY_SHIFT: u32 = 6;

/// Reaction to marking probabilities above 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overload {
    /// Drops packets of both queues with the classic probability, which preserves the delay.
    Drop,
    /// Marks every packet that can be marked, until the limit is reached, which preserves losslessness.
    Overflow,
}

/// DualPI2's parameters, with Linux's values as defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DualPi2Config {
    /// Limit of both queues together beyond which arriving packets are dropped.
    pub limit: QueueLimit,
    /// Delay of the classic queue that the controller aims at.
    pub target: Duration,
    /// Interval between updates of the probability; not zero.
    pub update: Duration,
    /// Gain for the distance from the target (integral), in 1/256 Hz.
    pub alpha: u32,
    /// Gain for the change of the delay (proportional), in 1/256 Hz.
    pub beta: u32,
    /// Ratio of the scalable queue's probability to the controller's (`k`).
    pub coupling: u32,
    /// Delay in the scalable queue beyond which every packet is marked.
    pub step: Duration,
    /// Number of packets that must be in the scalable queue when a packet arrives for the step to apply to it. Linux has
    /// 0; the queue of the L4S team before it had 2.
    pub step_queue: u32,
    /// Percentage of the capacity that the scheduler grants the classic queue while both have packets.
    pub classic_share: u32,
    /// Reaction to overload.
    pub overload: Overload,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            limit: QueueLimit::Packets(10_000),
            target: Duration::from_millis(15),
            update: Duration::from_millis(16),
            alpha: 41,
            beta: 819,
            coupling: 2,
            step: Duration::from_millis(1),
            step_queue: 0,
            classic_share: 10,
            overload: Overload::Drop,
        }
    }
}

/// The queue of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Classic,
    Scalable,
}

/// Decision about a dequeued packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Pass,
    /// Marks the packet; one that cannot be marked is dropped.
    Mark,
    Drop,
}

/// The controller: a probability that depends on the delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Control {
    probability: u32,
    /// Delay at the last update, in nanoseconds.
    delay: u64,
}

impl Control {
    /// Updates the probability for a delay in nanoseconds.
    fn update(&mut self, config: &DualPi2Config, [alpha, beta]: [u32; 2], delay: u64) {
        let part = |gain: u32, from: u64| i128::from(gain) * (i128::from(delay) - i128::from(from));
        let change = part(alpha, config.target.as_nanos()) + part(beta, self.delay);
        // Rounded towards zero.
        let change = change / (1 << DELAY_SHIFT);
        self.delay = delay;
        self.probability = (i128::from(self.probability) + change).clamp(0, i128::from(highest(config))) as u32;
    }
}

/// The two queues, their controller and scheduler.
#[derive(Clone, Debug)]
pub struct DualPi2<T> {
    config: DualPi2Config,
    gains: [u32; 2],
    classic: VecDeque<Stamped<T>>,
    scalable: VecDeque<Stamped<T>>,
    /// Applicability of the step to each packet of the scalable queue.
    steps: VecDeque<bool>,
    /// Backlog of both queues.
    backlog: Backlog,
    control: Control,
    /// Weighted bytes by which the scalable queue was preferred. The classic queue is next while this is positive.
    credit: i64,
    next_update: Instant,
    draws: Stream,
}

impl<T: Queued> DualPi2<T> {
    /// Returns empty queues. Their random numbers come from `draws`.
    pub fn new(config: DualPi2Config, draws: Stream) -> Self {
        let config = DualPi2Config {
            update: config.update.max(Duration::from_nanos(1)),
            classic_share: config.classic_share.min(100),
            ..config
        };
        let scaled = |gain: u32| (((u64::from(gain) * u64::from(CERTAIN)) >> GAIN_SHIFT) / 1_000_000_000) as u32;
        Self {
            config,
            gains: [scaled(config.alpha), scaled(config.beta)],
            classic: VecDeque::new(),
            scalable: VecDeque::new(),
            steps: VecDeque::new(),
            backlog: Backlog::default(),
            control: Control { probability: 0, delay: 0 },
            credit: initial_credit(&config),
            next_update: Instant::ZERO + config.update,
            draws,
        }
    }

    /// Performs the updates that are due by `now`. The queues have not changed since the last event.
    fn catch_up(&mut self, now: Instant) {
        let heads = [self.classic.front(), self.scalable.front()];
        let oldest = heads.into_iter().flatten().map(|first| first.since).min();
        let mut catch = Catch::new(&mut self.next_update, self.config.update, now);
        while let Some(at) = catch.next() {
            let before = self.control;
            let delay = oldest.map_or(0, |since| at.since(since).as_nanos());
            self.control.update(&self.config, self.gains, delay);
            // From here on, the delay stays zero, or grows while the probability cannot.
            let idle = oldest.is_none() && self.control == before;
            let grows = delay > self.config.target.as_nanos() && delay >= before.delay;
            let saturated = grows && self.control.probability == highest(&self.config);
            if (idle || saturated)
                && let Some(at) = catch.skip()
            {
                self.control.delay = oldest.map_or(0, |since| at.since(since).as_nanos());
            }
        }
    }

    /// Enqueues a packet with the given ECN field, or adds it to `dropped`.
    pub fn push(&mut self, now: Instant, item: T, ecn: Ecn, dropped: &mut Vec<T>) {
        self.catch_up(now);
        if !self.config.limit.has_room(self.backlog, item.bytes()) {
            return dropped.push(item);
        }
        self.backlog.add(item.bytes());
        let waits = Stamped { item, since: now };
        match ecn {
            Ecn::Ect1 | Ecn::Ce => {
                self.steps.push_back(self.scalable.len() >= self.config.step_queue as usize);
                self.scalable.push_back(waits);
            }
            Ecn::NotEct | Ecn::Ect0 => self.classic.push_back(waits),
        }
    }

    /// Dequeues the next packet, as [`super::ManagedQueue::pop_telling`].
    pub fn pop(&mut self, now: Instant, dropped: &mut Vec<T>, tell: &mut impl FnMut(&mut T) -> bool) -> Option<T> {
        self.catch_up(now);
        while let Some((class, mut waits, change)) = self.take() {
            let steps = class == Class::Scalable && self.steps.pop_front() == Some(true);
            let verdict = self.judge(class);
            let waited = now.since(waits.since);
            let mark = verdict == Verdict::Mark || steps && waited > self.config.step;
            if verdict == Verdict::Drop || mark && !tell(&mut waits.item) {
                dropped.push(waits.item);
                continue;
            }
            self.credit += change;
            return Some(waits.item);
        }
        self.credit = initial_credit(&self.config);
        None
    }

    /// Removes the packet whose turn it is. Returns the change of the credit if the packet is sent: none unless both
    /// queues have packets.
    fn take(&mut self) -> Option<(Class, Stamped<T>, i64)> {
        let shared = !self.classic.is_empty() && !self.scalable.is_empty();
        let scalable = !self.scalable.is_empty() && (self.classic.is_empty() || self.credit <= 0);
        let (class, waits) = if scalable {
            (Class::Scalable, self.scalable.pop_front()?)
        } else {
            (Class::Classic, self.classic.pop_front()?)
        };
        let bytes = waits.item.bytes();
        self.backlog.remove(bytes);
        let share = i64::from(self.config.classic_share);
        let weight = match class {
            _ if !shared => 0,
            Class::Scalable => share,
            Class::Classic => share - 100,
        };
        Some((class, waits, weight * i64::from(bytes)))
    }

    /// Decides on a packet that was removed, by the controller's probability. A short queue is left alone.
    fn judge(&mut self, class: Class) -> Verdict {
        let probability = self.control.probability;
        if self.backlog.bytes < 2 * u64::from(MTU) || probability == 0 {
            return Verdict::Pass;
        }
        let coupled = u64::from(probability) * u64::from(self.config.coupling);
        let overload = coupled > u64::from(CERTAIN);
        match class {
            Class::Classic if !self.strikes_twice(probability) => Verdict::Pass,
            Class::Classic if overload => Verdict::Drop,
            Class::Classic => Verdict::Mark,
            Class::Scalable if overload => {
                let drops = self.config.overload == Overload::Drop && self.strikes_twice(probability);
                if drops { Verdict::Drop } else { Verdict::Mark }
            }
            Class::Scalable if self.strikes(coupled as u32) => Verdict::Mark,
            Class::Scalable => Verdict::Pass,
        }
    }

    fn strikes(&mut self, probability: u32) -> bool {
        self.draws.below(1 << 32) <= u64::from(probability)
    }

    /// Returns true with the square of the probability.
    fn strikes_twice(&mut self, probability: u32) -> bool {
        self.strikes(probability) && self.strikes(probability)
    }

    /// Returns the backlog of both queues.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// Returns the maximum probability: without drops, the one that marks every scalable packet.
fn highest(config: &DualPi2Config) -> u32 {
    match config.overload {
        Overload::Drop => CERTAIN,
        Overload::Overflow => CERTAIN / config.coupling.max(1),
    }
}

/// Returns the credit of idle queues, by which the queue with the larger share is first.
fn initial_credit(config: &DualPi2Config) -> i64 {
    i64::from(MTU) * (2 * i64::from(config.classic_share) - 100)
}

#[cfg(test)]
#[path = "dual_pi2_tests.rs"]
mod tests;
