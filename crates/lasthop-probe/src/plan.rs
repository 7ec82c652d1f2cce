//! The schedule of a measurement, once the rate is roughly known.

use lasthop_proto::time::Duration;

use crate::estimate::{Overload, Purpose};
use crate::order::{LADDER, LONGEST_TRAIN, Mix, Order, SMALLEST, Stream, Task, Train};

/// Maximum mean share of the capacity that is used after the first two seconds.
pub(crate) const SHARE: f64 = 0.19;
/// Share of the capacity that the stream uses.
const STREAM: f64 = 0.105;
/// Maximum number of stream packets per second: more add little information, and cost both ends work.
const MOST_PER_SECOND: f64 = 600.0;
/// Maximum number of trains that measure the rate, and of packets in each.
const TRAINS: usize = 14;
const TRAIN: u16 = 16;
/// Maximum share of the remaining budget for these trains.
const TRAINS_SHARE: f64 = 0.4;
/// Number of times at which a queue may be filled.
const OVERLOADS: usize = 7;
/// Times of loads as shares of the duration, how much later those of the other direction are (half of this), and the
/// share of the train budget for each: between simultaneous trains and overloads.
const LOADS: [(f64, f64, f64); 2] = [(0.036, 0.128, 0.10), (0.93, 0.05, 0.25)];
/// Maximum and minimum number of packets in a load.
const LONGEST_LOAD: f64 = 4096.0;
const LEAST_LOAD: f64 = 48.0;
/// Pace of a load relative to the rate, so that it fills no queue.
const PACED: f64 = 0.85;
/// Minimum and maximum number of packets in the load that checks the first trains' rate, and its duration at that rate
/// in seconds.
const CHECKED: [f64; 2] = [16.0, 128.0];
const CHECK_LASTS: f64 = 0.05;
/// Minimum duration of its fastest part, in seconds.
const LAST_CHECK: f64 = 0.012;
/// Bytes per second for pings and the like, and bytes of reports per packet of the stream.
const PINGS: f64 = 1_300.0;
const TOLD: f64 = 8.0;
/// Number of packets in the first overload.
const FIRST: u16 = 32;
/// Rate in bits per second below which small packets fill the queue.
const SLOW: f64 = 4e6;

/// Properties of a direction that are known when the plan is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Path {
    /// Rate in bits per second.
    pub rate: f64,
    /// Maximum sending rate in bits per second.
    pub limit: f64,
    /// Maximum packet size in bytes, IP header included.
    pub mtu: u16,
}

impl Path {
    /// Returns whether the limit forbids trains that are fast enough to fill a queue.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit < 1.2 * self.rate
    }
}

/// Time, from the plan's beginning, at which something is ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Step {
    pub at: Duration,
    pub purpose: Purpose,
}

/// Plan of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    path: Path,
    /// Stream, from the beginning.
    pub stream: Stream,
    /// Steps in order of time.
    pub steps: Vec<Step>,
    /// Byte budget for trains, and the part of it that is left.
    budget: f64,
    left: f64,
}

impl Plan {
    /// Makes a plan for `span`. A direction fills its queue while the other does not: `later`, 0 or 0.5, shifts its
    /// steps by this share of their interval.
    pub(crate) fn new(path: Path, span: Duration, seed: u64, later: f64) -> Self {
        let seconds = span.as_secs_f64();
        let rate = path.rate.min(path.limit);
        let largest = path.mtu.clamp(SMALLEST, 1400);
        // Slow paths get small packets only; fast ones have capacity for other sizes as well.
        let wanted = |mix: Mix| {
            let [packets, bytes] = mix.means(largest);
            (STREAM * rate / 8.0 / bytes).min(MOST_PER_SECOND / packets)
        };
        let full = MOST_PER_SECOND / Mix::Even.means(largest)[0];
        let mix = if wanted(Mix::Even) >= 0.999 * full { Mix::Even } else { Mix::Small };
        let trains_per_second = wanted(mix).max(0.2);
        let [packets, bytes] = mix.means(largest);
        let stream = Stream {
            seed,
            pause: Duration::from_secs_f64((1.0 / trains_per_second - 8.0 * bytes / rate).max(1e-3)),
            rate: (rate as u64).max(1000),
            mix,
            largest,
            lasts: span,
        };
        let streamed = trains_per_second * (bytes + TOLD * packets);
        let left = (SHARE * rate / 8.0 - streamed - PINGS) * seconds;
        let mut plan = Self { path, stream, steps: Vec::new(), budget: left, left };
        let train = f64::from(TRAIN) * f64::from(path.mtu);
        let trains = ((TRAINS_SHARE * left / train).max(2.0) as usize).min(TRAINS);
        let at = |share: f64| Duration::from_secs_f64(share * seconds);
        let mut step = |share: f64, purpose| plan.steps.push(Step { at: at(share), purpose });
        (0..trains).for_each(|number| step((number as f64 + 0.3 + 0.4 * later) / trains as f64, Purpose::Capacity));
        (0..OVERLOADS).for_each(|number| step(0.06 + 0.13 * (number as f64 + later), Purpose::Overload));
        [0.3, 0.6].into_iter().for_each(|share| step(share, Purpose::Ladder));
        LOADS.into_iter().for_each(|(share, other, _)| step(share + other * later, Purpose::Load));
        plan.steps.sort_by_key(|step| step.at);
        plan
    }

    /// Returns the trains of a load, back to back, at a little less than `rate`; `number` is the number of earlier
    /// loads.
    pub(crate) fn load(&mut self, rate: f64, number: usize) -> Vec<Train> {
        let Some((_, _, share)) = LOADS.get(number) else { return Vec::new() };
        // The smaller packets give enough samples within a small budget.
        let [size, _] = Self::sizes(self.path);
        let rate = (PACED * rate).min(self.path.limit);
        // Token buckets show only in loads of many packets.
        let wanted = (share * self.budget).max(LEAST_LOAD * f64::from(size));
        let room = wanted.min(0.9 * self.left) / f64::from(size);
        let mut packets = room.min(LONGEST_LOAD) as u16;
        let gap = Duration::from_secs_f64(8.0 * f64::from(size) / rate);
        let mut trains = Vec::new();
        while packets > 0 {
            let train = Train { count: packets.min(LONGEST_TRAIN), size, gap };
            packets -= train.count;
            trains.extend(self.pay(train));
        }
        trains
    }

    /// Returns the load that checks `rate`, that of short trains, before there is a plan: link layers that aggregate
    /// frames deliver short trains faster than the sustained rate. A high rate is approached in steps.
    pub(crate) fn check(rate: f64, limit: f64, size: u16) -> Vec<Train> {
        let [least, most] = CHECKED;
        let bits = 8.0 * f64::from(size);
        let gap = if limit >= 1e9 { 0.0 } else { bits / limit };
        let train = |count: f64, gap: f64| Train { count: count as u16, size, gap: Duration::from_secs_f64(gap) };
        let mut pace = most * bits / CHECK_LASTS;
        let mut trains = Vec::new();
        while pace < 0.7 * rate.min(limit) && trains.len() < 4 {
            trains.push(train(most, bits / pace));
            pace *= 4.0;
        }
        // Long enough to distinguish a rate from a burst, and no faster than the rate that is checked.
        let last = (CHECK_LASTS * rate / bits).clamp(least, most).max(LAST_CHECK * rate / bits);
        trains.push(train(last.min(f64::from(LONGEST_TRAIN)), gap.max(bits / rate)));
        trains
    }

    /// Continues at a lower rate for the remaining `span`, after `sent` bytes in `spent`. In total no more is used than
    /// in a plan for that rate.
    pub(crate) fn slow_down(&mut self, rate: f64, span: Duration, sent: f64, spent: Duration) -> Stream {
        let path = Path { rate, ..self.path };
        let slower = Self::new(path, span, self.stream.seed.wrapping_add(1), 0.0);
        let owed = sent - SHARE * rate / 8.0 * spent.as_secs_f64();
        (self.path, self.stream) = (path, slower.stream);
        (self.budget, self.left) = (self.budget.min(slower.budget), self.left.min(slower.left - owed.max(0.0)));
        self.stream
    }

    /// Returns the sizes of the packets that fill the queue: the usual size, and another to distinguish limits in
    /// packets from limits in bytes.
    pub(crate) fn sizes(path: Path) -> [u16; 2] {
        let usual = if path.rate < SLOW { path.mtu.min(500) } else { path.mtu };
        [usual, (usual / 3).max(SMALLEST)]
    }

    fn train(&self, count: u16, size: u16) -> Train {
        let gap = if self.path.limit >= 1e9 { 0.0 } else { 8.0 * f64::from(size) / self.path.limit };
        Train { count: count.clamp(1, LONGEST_TRAIN), size, gap: Duration::from_secs_f64(gap) }
    }

    /// Returns the total byte budget for trains.
    pub(crate) fn budget(&self) -> f64 {
        self.budget
    }

    /// Deducts the cost of `train` from the budget; `None` if too little is left.
    pub(crate) fn pay(&mut self, train: Train) -> Option<Train> {
        let bytes = f64::from(train.count) * f64::from(train.size);
        if bytes > self.left {
            return None;
        }
        self.left -= bytes;
        Some(train)
    }

    /// Returns a train that measures the rate; `None` if the budget is exhausted.
    pub(crate) fn capacity(&mut self) -> Option<Train> {
        let train = self.train(TRAIN, self.path.mtu);
        self.pay(train).or_else(|| self.pay(Train { count: TRAIN / 2, ..train }))
    }

    /// Returns the next overload. `found` has the results for both [`Plan::sizes`] so far, and `sent` the number of
    /// overloads with each.
    pub(crate) fn overload(&mut self, found: [Option<Overload>; 2], sent: [usize; 2]) -> Option<Task> {
        if self.path.is_limited() {
            return None;
        }
        let [usual, other] = Self::sizes(self.path);
        let train = match found[0] {
            Some(Overload::Filled(queue)) => {
                let count = queue.packets as u16 + queue.packets as u16 / 3 + 24;
                match sent {
                    [_, 0] => self.train(count, other),
                    [..4, _] => self.train(count, usual),
                    _ => return None,
                }
            }
            _ => self.train(FIRST.checked_shl(sent[0] as u32).filter(|count| *count > 0)?, usual),
        };
        self.pay(train).map(Task::Train)
    }

    /// Returns the silence before and after a task, during which the queue empties.
    pub(crate) fn rest(path: Path, task: Task) -> [Duration; 2] {
        let bytes = match task {
            Task::Train(train) => f64::from(train.count) * f64::from(train.size),
            Task::Ladder(_) => LADDER.into_iter().map(f64::from).sum(),
            Task::Stream(_) | Task::Trains(_) => 0.0,
        };
        let after = 0.05 + 8.0 * bytes / path.rate.max(1e4);
        [Duration::from_millis(60), Duration::from_secs_f64(after.min(10.0))]
    }
}

/// Creates an order with the number `id`.
pub(crate) fn order(id: u16, task: Task, rest: [Duration; 2]) -> Order {
    Order { id, task, rest }
}
