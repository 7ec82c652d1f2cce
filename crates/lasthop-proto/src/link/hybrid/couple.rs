//! Detection of paths that share a bottleneck (after the idea of RFC 8382), and their coupling: of a group of such paths
//! only one carries packets, so that together they take the share of one flow (the goal of RFC 6356).
//!
//! The one-way delays of two paths are compared over the same periods of the receiver's clock. Queues of independent
//! bottlenecks differ in length, and change independently; at a shared bottleneck both paths see the same queue. Reports
//! of both paths may return on the same one, so that round trips would show the queue of the way back in both.
//!
//! A queue that both paths have caused themselves, since both raised their rates a short time ago, is not compared: two
//! equal lines would show the same one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use super::numbers::PathId;
use crate::time::{Duration, Instant};

/// Length of a period in microseconds.
const PERIOD: i64 = 50_000;

/// Number of periods of a path that are stored.
const PERIODS: usize = 64;

/// Standing delay, in microseconds, above which a period is compared.
const VISIBLE: i64 = 5_000;

/// Maximum difference of equal queues: in microseconds, or as a divisor of the longer one.
const EQUAL: i64 = 2_000;
const EQUAL_SHARE: i64 = 8;

/// Minimum time between compared periods, number of them, and the time for which they count.
const APART: i64 = 4 * PERIOD;
const ENOUGH: usize = 20;
const MEMORY: Duration = Duration::from_secs(30);

/// Percentage of the periods with equal queues from which on two paths share a bottleneck, minimum ratio of the variation
/// of either queue to that of their difference, and minimum variation: mean deviation in microseconds.
const SHARED: usize = 70;
const ALIKE: i64 = 4;
const VARIES: i64 = 1_000;

/// Length of the spans over which minima of the delays are taken; one to two of them count.
const EPOCH: Duration = Duration::from_secs(15);

/// Time after which a group is dissolved unless its members' queues were equal, and its maximum after repetitions.
const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST_PATIENCE: Duration = Duration::from_secs(480);

/// Arrival of a transmission at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub sent: Instant,
    /// One-way delay plus the offset of the clocks, in microseconds. Wraps.
    pub delay: u32,
    /// Estimated rate of the path, in bits per second.
    pub rate: u64,
    /// Indicates that the path has raised its rate a short time ago.
    pub raised: bool,
}

/// Delay of a path in a period.
#[derive(Clone, Copy, Debug)]
struct Period {
    number: i64,
    /// Minimum one-way delay, plus an offset that is the same for all paths, in microseconds.
    least: i64,
    /// Indicates that the path had raised its rate.
    raised: bool,
}

/// Delays of a path.
#[derive(Clone, Default, Debug)]
struct Series {
    /// Periods in which a transmission arrived, the latest last.
    periods: VecDeque<Period>,
    /// Rate of the path, in bits per second, and its rate when it became a member of a group.
    rate: u64,
    rate_at_joining: u64,
}

impl Series {
    fn add(&mut self, number: i64, delay: i64, raised: bool) {
        match self.periods.back_mut() {
            Some(last) if last.number > number => {}
            Some(last) if last.number == number => {
                last.least = last.least.min(delay);
                last.raised |= raised;
            }
            Some(_) | None => {
                if self.periods.len() == PERIODS {
                    self.periods.pop_front();
                }
                self.periods.push_back(Period { number, least: delay, raised });
            }
        }
    }

    /// Returns the number of the latest period, which may still change.
    fn latest(&self) -> Option<i64> {
        self.periods.back().map(|period| period.number)
    }
}

/// Queues of two paths in the same period, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    queues: [i64; 2],
}

impl Sample {
    fn are_equal(&self) -> bool {
        let [one, other] = self.queues;
        (one - other).abs() <= EQUAL.max(one.max(other) / EQUAL_SHARE)
    }
}

/// Two paths.
#[derive(Clone, Debug)]
struct Pair {
    /// Number of the first period that was not compared yet.
    next: i64,
    /// Time of the last sample, as a period's begin in microseconds.
    last: i64,
    /// Minima of both delays in this epoch and the previous one, in periods of both paths.
    minima: [[i64; 2]; 2],
    epoch: Instant,
    samples: VecDeque<Sample>,
    /// Time of the last confirmation, while the paths are a group.
    shared: Option<Instant>,
    /// Time for which a group lasts without confirmation.
    patience: Duration,
}

impl Pair {
    fn new() -> Self {
        Self {
            next: i64::MIN,
            last: i64::MIN / 2,
            minima: [[i64::MAX; 2]; 2],
            epoch: Instant::ZERO,
            samples: VecDeque::new(),
            shared: None,
            patience: PATIENCE,
        }
    }

    /// Compares the periods that are complete.
    fn advance(&mut self, now: Instant, one: &Series, other: &Series) {
        let (Some(first), Some(second)) = (one.latest(), other.latest()) else { return };
        let end = first.min(second);
        let new = |series: &Series| series.periods.partition_point(|period| period.number < self.next);
        let (mut ones, mut others) =
            (one.periods.range(new(one)..).peekable(), other.periods.range(new(other)..).peekable());
        while let (Some(a), Some(b)) = (ones.peek(), others.peek()) {
            if a.number.max(b.number) >= end {
                break;
            }
            match a.number.cmp(&b.number) {
                Ordering::Less => drop(ones.next()),
                Ordering::Greater => drop(others.next()),
                Ordering::Equal => {
                    let (number, delays, raised) = (a.number, [a.least, b.least], a.raised && b.raised);
                    ones.next();
                    others.next();
                    self.compare(now, number * PERIOD, delays, raised);
                }
            }
        }
        self.next = end;
    }

    /// Compares the delays of both paths in the period that begins at `begin`. `raised` indicates that both have raised
    /// their rates.
    fn compare(&mut self, now: Instant, begin: i64, delays: [i64; 2], raised: bool) {
        if now.since(self.epoch) >= EPOCH {
            (self.minima, self.epoch) = ([[i64::MAX; 2], self.minima[0]], now);
        }
        let mut queues = [0; 2];
        for index in 0..2 {
            let least = self.minima[0][index].min(delays[index]);
            self.minima[0][index] = least;
            queues[index] = delays[index] - self.minima[1][index].min(least);
        }
        if raised || queues[0].max(queues[1]) <= VISIBLE || begin < self.last + APART {
            return;
        }
        self.last = begin;
        if self.samples.len() == ENOUGH {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at: now, queues });
        if self.agree() && (self.shared.is_some() || self.vary_alike()) {
            self.shared = Some(now);
        }
    }

    /// Returns whether most of the compared queues were equal.
    fn agree(&self) -> bool {
        let equal = self.samples.iter().filter(|sample| sample.are_equal()).count();
        self.samples.len() == ENOUGH && equal * 100 >= ENOUGH * SHARED
    }

    /// Returns whether the difference of the queues varies much less than either of them. Queues that vary independently
    /// may be about equal for some time, but their difference then varies more than each.
    fn vary_alike(&self) -> bool {
        let spread = |of: fn(&Sample) -> i64| {
            let mean = self.samples.iter().map(of).sum::<i64>() / self.samples.len().max(1) as i64;
            self.samples.iter().map(|sample| (of(sample) - mean).abs()).sum::<i64>()
        };
        let [one, other, apart] = [
            spread(|sample| sample.queues[0]),
            spread(|sample| sample.queues[1]),
            spread(|sample| sample.queues[0] - sample.queues[1]),
        ];
        let both = one.min(other);
        both >= VARIES * ENOUGH as i64 && apart * ALIKE <= both
    }

    /// Forgets what is old, and dissolves a group that was not confirmed for some time. It lasts longer each time, unless
    /// the queues were different: where nobody else fills the queue, nothing confirms a group, and nothing is lost by it.
    fn expire(&mut self, now: Instant) {
        while self.samples.front().is_some_and(|sample| now.since(sample.at) > MEMORY) {
            self.samples.pop_front();
        }
        if self.shared.is_some_and(|at| now.since(at) > self.patience) {
            let differ = self.samples.iter().filter(|sample| !sample.are_equal()).count() * 2 > self.samples.len();
            self.patience = if differ { PATIENCE } else { self.patience.saturating_mul(2).min(LONGEST_PATIENCE) };
            self.shared = None;
            self.samples.clear();
        }
    }
}

/// Shared bottlenecks of a hop's paths.
#[derive(Clone, Default, Debug)]
pub(super) struct Couples {
    /// First sample of the one-way delay, in microseconds: the offset of the clocks, about.
    origin: Option<u32>,
    series: Vec<Series>,
    /// Pairs of paths: (0, 1), (0, 2), (1, 2), (0, 3) and so on.
    pairs: Vec<Pair>,
}

/// Returns the place of a pair of two different paths.
fn place(one: usize, other: usize) -> usize {
    let (low, high) = (one.min(other), one.max(other));
    high * (high - 1) / 2 + low
}

impl Couples {
    /// Records an arrival on a path.
    pub fn on_arrival(&mut self, now: Instant, path: PathId, arrival: Arrival) {
        let origin = *self.origin.get_or_insert(arrival.delay);
        let delay = i64::from(arrival.delay.wrapping_sub(origin) as i32);
        let index = path.index();
        if self.series.len() <= index {
            self.series.resize_with(index + 1, Series::default);
            self.pairs.resize_with(place(0, index + 1), Pair::new);
        }
        let number = ((arrival.sent.as_nanos() / 1_000) as i64 + delay) / PERIOD;
        let series = &mut self.series[index];
        series.rate = arrival.rate;
        let is_new = series.latest().is_none_or(|latest| latest < number);
        series.add(number, delay, arrival.raised);
        if !is_new {
            return;
        }
        for other in (0..self.series.len()).filter(|other| *other != index) {
            let pair = &mut self.pairs[place(index, other)];
            let was_shared = pair.shared.is_some();
            pair.advance(now, &self.series[index.min(other)], &self.series[index.max(other)]);
            pair.expire(now);
            if pair.shared.is_some() && !was_shared {
                for member in [index, other] {
                    self.series[member].rate_at_joining = self.series[member].rate;
                }
            }
        }
    }

    /// Forgets the delays of a path whose route has changed.
    pub fn forget(&mut self, path: PathId) {
        if let Some(series) = self.series.get_mut(path.index()) {
            series.periods.clear();
        }
        for other in (0..self.series.len()).filter(|other| *other != path.index()) {
            if let Some(pair) = self.pairs.get_mut(place(path.index(), other)) {
                *pair = Pair::new();
            }
        }
    }

    /// Returns whether two paths share a bottleneck.
    fn are_shared(&self, one: usize, other: usize) -> bool {
        one != other && self.pairs.get(place(one, other)).is_some_and(|pair| pair.shared.is_some())
    }

    /// Returns whether a path leaves the packets to another one with the same bottleneck: of those that work, the one that
    /// was the fastest when they became a group.
    pub fn stands_by(&self, path: PathId, works: &impl Fn(PathId) -> bool) -> bool {
        self.pairs.iter().any(|pair| pair.shared.is_some()) && self.is_behind(path.index(), works)
    }

    fn is_behind(&self, index: usize, works: &impl Fn(PathId) -> bool) -> bool {
        let rank = |index: usize| self.series.get(index).map(|series| (series.rate_at_joining, Reverse(index)));
        (0..self.series.len()).any(|other| {
            let is_ahead = self.are_shared(index, other) && rank(other) > rank(index);
            is_ahead && works(PathId(other as u8)) && !self.is_behind(other, works)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two paths whose delays differ by 40 ms without a queue, and their queues in milliseconds by time.
    struct Lines {
        couples: Couples,
        now: u64,
    }

    impl Lines {
        fn new() -> Self {
            Self { couples: Couples::default(), now: 0 }
        }

        /// Samples both paths each 10 ms for `seconds` seconds, and returns whether each path stands by then. The clock of
        /// the other end differs, and its microseconds wrap after a second.
        fn run(&mut self, seconds: u64, queues: fn(u64) -> [u64; 2], raised: [bool; 2]) -> [bool; 2] {
            let end = self.now + seconds * 1_000;
            while self.now < end {
                let sent = Instant::ZERO + Duration::from_millis(self.now);
                for path in 0..2 {
                    // Both bottlenecks follow the difference of the delays: what leaves on the second path reaches its
                    // queue 40 ms later.
                    let queue = queues(self.now + 40 * path as u64)[path];
                    let took = 20_000 + 40_000 * path as u64 + 1_000 * queue;
                    let delay = (u32::MAX - 50_000).wrapping_add(took as u32);
                    let (rate, raised) = (5_000_000 - path as u64, raised[path]);
                    let arrival = Arrival { sent, delay, rate, raised };
                    self.couples.on_arrival(sent + Duration::from_micros(2 * took), PathId(path as u8), arrival);
                }
                self.now += 10;
            }
            self.standing(|_| true)
        }

        fn standing(&self, works: impl Fn(PathId) -> bool) -> [bool; 2] {
            [0, 1].map(|path| self.couples.stands_by(PathId(path), &works))
        }
    }

    /// Returns the queue of a TCP sender: it grows from 20 to 60 ms in 1.7 s.
    const fn saw(at: u64) -> u64 {
        20 + at % 1_700 * 40 / 1_700
    }

    /// 20 samples, one each 200 ms, are enough; a period is compared when the next one has begun on both paths. The faster
    /// path carries packets while it works.
    #[test]
    fn one_of_two_paths_with_the_same_queue_stands_by() {
        let mut lines = Lines::new();
        let shared: fn(u64) -> [u64; 2] = |at| if at < 1_000 { [0; 2] } else { [saw(at); 2] };
        assert_eq!(lines.run(4, shared, [false; 2]), [false, false]);
        assert_eq!(lines.run(2, shared, [false; 2]), [false, true]);
        assert_eq!(lines.standing(|path| path == PathId(1)), [false, false]);
    }

    /// Queues of the same length at other times, constant ones, one that is an eighth longer with noise, and none.
    #[test]
    fn different_queues_are_no_group() {
        let cases: [fn(u64) -> [u64; 2]; 5] = [
            |at| [saw(at), saw(at + 800)],
            |at| if at < 1_000 { [0; 2] } else { [30, 31] },
            |at| [10 + at / 200 * 7 % 5, 10 + at / 200 * 11 % 7],
            |at| [saw(at), 0],
            |at| [at % 5, at % 5],
        ];
        for (index, queues) in cases.into_iter().enumerate() {
            let mut lines = Lines::new();
            for _ in 0..60 {
                assert_eq!(lines.run(1, queues, [false; 2]), [false; 2], "case {index}, {} ms", lines.now);
            }
        }
    }

    /// Queues that both paths may have caused themselves are not compared; those that one path has caused are.
    #[test]
    fn own_queues_on_both_paths_are_not_compared() {
        let same: fn(u64) -> [u64; 2] = |at| [saw(at); 2];
        assert_eq!(Lines::new().run(30, same, [true; 2]), [false; 2]);
        assert_eq!(Lines::new().run(30, same, [true, false]), [false, true]);
    }

    /// The second path's queue is empty from some time on: the group ends 30 s after the last time at which 70 % of the
    /// samples agreed, which is six samples later.
    #[test]
    fn a_group_ends_when_queues_differ() {
        let mut lines = Lines::new();
        assert_eq!(lines.run(10, |at| [saw(at); 2], [false; 2]), [false, true]);
        let apart: fn(u64) -> [u64; 2] = |at| [saw(at), 0];
        assert_eq!(lines.run(30, apart, [false; 2]), [false, true]);
        assert_eq!(lines.run(3, apart, [false; 2]), [false; 2]);
    }

    /// Without a queue, the first group ends after 30 s, and the second one after 60 s.
    #[test]
    fn a_group_without_samples_lasts_longer_each_time() {
        let mut lines = Lines::new();
        for lasts in [30, 60] {
            assert_eq!(lines.run(10, |at| [saw(at); 2], [false; 2]), [false, true]);
            assert_eq!(lines.run(lasts - 1, |_| [0; 2], [false; 2]), [false, true]);
            assert_eq!(lines.run(2, |_| [0; 2], [false; 2]), [false; 2]);
        }
    }

    /// A path with a new route is compared anew.
    #[test]
    fn a_moved_path_leaves_its_group() {
        let mut lines = Lines::new();
        assert_eq!(lines.run(10, |at| [saw(at); 2], [false; 2]), [false, true]);
        lines.couples.forget(PathId(1));
        assert_eq!(lines.standing(|_| true), [false; 2]);
    }
}
