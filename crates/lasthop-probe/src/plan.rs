//! What is sent when, once the rate is roughly known.

use lasthop_proto::time::Duration;

use crate::estimate::{Overload, Purpose};
use crate::order::{LADDER, LONGEST_TRAIN, Mix, Order, SMALLEST, Stream, Task, Train};

/// Of the capacity, behind the first two seconds, no more is used on average.
pub(crate) const SHARE: f64 = 0.19;
/// Of the capacity, the stream takes so much.
const STREAM: f64 = 0.105;
/// Packets a second of the stream at the most: more say little more, and cost both ends work.
const MOST_PER_SECOND: f64 = 600.0;
/// Trains that measure the rate: at the most so many, and so long.
const TRAINS: usize = 14;
const TRAIN: u16 = 16;
/// Of what the stream leaves, these trains take so much at the most.
const TRAINS_SHARE: f64 = 0.4;
/// Times at which a queue may be filled.
const OVERLOADS: usize = 7;
/// When loads are sent, in parts of the time, how much later (by a half of it) the other direction's is, and of what trains may take how much each takes: between trains of
/// both directions at once and overloads.
const LOADS: [(f64, f64, f64); 2] = [(0.036, 0.128, 0.10), (0.93, 0.05, 0.25)];
/// Packets of a load at the most.
const LONGEST_LOAD: f64 = 4096.0;
const LEAST_LOAD: f64 = 48.0;
/// Of the rate, a load has so much: it fills no queue.
const PACED: f64 = 0.85;
/// Packets of the load that checks what the first trains say, and how long it may take at the rate that these say.
const CHECKED: [f64; 2] = [16.0, 128.0];
const CHECK_LASTS: f64 = 0.05;
/// Seconds that its fastest part lasts, at the least.
const LAST_CHECK: f64 = 0.012;
/// Bytes a second of pings and the like, and of what is told for each packet of the stream.
const PINGS: f64 = 1_300.0;
const TOLD: f64 = 8.0;
/// Packets of the first overload.
const FIRST: u16 = 32;
/// Below this rate small packets fill the queue.
const SLOW: f64 = 4e6;

/// A direction as it is known when the plan is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Path {
    /// Bits a second.
    pub rate: f64,
    /// Bits a second that may be sent at the most.
    pub limit: f64,
    /// Bytes of the largest packet, IP header included.
    pub mtu: u16,
}

impl Path {
    /// Whether no train may go so fast that it fills a queue.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit < 1.2 * self.rate
    }
}

/// A time, from the plan's beginning, at which something is ordered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Step {
    pub at: Duration,
    pub purpose: Purpose,
}

/// What one direction does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    path: Path,
    /// The stream, from the beginning.
    pub stream: Stream,
    /// In order of time.
    pub steps: Vec<Step>,
    /// Bytes that trains may take in all, and yet.
    budget: f64,
    left: f64,
}

impl Plan {
    /// A plan for `span`; one direction fills its queue while the other does not, `later` by a half of the time between.
    pub(crate) fn new(path: Path, span: Duration, seed: u64, later: f64) -> Self {
        let seconds = span.as_secs_f64();
        let rate = path.rate.min(path.limit);
        let largest = path.mtu.clamp(SMALLEST, 1400);
        // Small packets where there are few; other sizes as well where there is room.
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

    /// The trains of a load, one behind the other, at a little less than `rate`; `number` of them went before.
    pub(crate) fn load(&mut self, rate: f64, number: usize) -> Vec<Train> {
        let Some((_, _, share)) = LOADS.get(number) else { return Vec::new() };
        // As many packets as tell something, where few bytes may be sent.
        let [size, _] = Self::sizes(self.path);
        let rate = (PACED * rate).min(self.path.limit);
        // Few packets would say nothing of buckets.
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

    /// The load that checks a `rate` that short trains say, before there is a plan: link layers that send several packets as one frame deliver trains faster
    /// than what lasts. Where the rate is high it is approached in steps.
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
        // Long enough to tell a rate from a burst, and no faster than what is checked.
        let last = (CHECK_LASTS * rate / bits).clamp(least, most).max(LAST_CHECK * rate / bits);
        trains.push(train(last.min(f64::from(LONGEST_TRAIN)), gap.max(bits / rate)));
        trains
    }

    /// Goes on at a lower rate, for `span` yet, after `sent` bytes in `spent`: of both together no more is used than of a plan for that rate.
    pub(crate) fn slow_down(&mut self, rate: f64, span: Duration, sent: f64, spent: Duration) -> Stream {
        let path = Path { rate, ..self.path };
        let slower = Self::new(path, span, self.stream.seed.wrapping_add(1), 0.0);
        let owed = sent - SHARE * rate / 8.0 * spent.as_secs_f64();
        (self.path, self.stream) = (path, slower.stream);
        (self.budget, self.left) = (self.budget.min(slower.budget), self.left.min(slower.left - owed.max(0.0)));
        self.stream
    }

    /// Sizes of the packets that fill the queue: the usual one, and another that tells packets from bytes.
    pub(crate) fn sizes(path: Path) -> [u16; 2] {
        let usual = if path.rate < SLOW { path.mtu.min(500) } else { path.mtu };
        [usual, (usual / 3).max(SMALLEST)]
    }

    fn train(&self, count: u16, size: u16) -> Train {
        let gap = if self.path.limit >= 1e9 { 0.0 } else { 8.0 * f64::from(size) / self.path.limit };
        Train { count: count.clamp(1, LONGEST_TRAIN), size, gap: Duration::from_secs_f64(gap) }
    }

    /// Bytes that trains may take in all.
    pub(crate) fn budget(&self) -> f64 {
        self.budget
    }

    /// Takes what `train` costs from what is left; `None` where that is not enough.
    pub(crate) fn pay(&mut self, train: Train) -> Option<Train> {
        let bytes = f64::from(train.count) * f64::from(train.size);
        if bytes > self.left {
            return None;
        }
        self.left -= bytes;
        Some(train)
    }

    /// The train that measures the rate.
    pub(crate) fn capacity(&mut self) -> Option<Train> {
        let train = self.train(TRAIN, self.path.mtu);
        self.pay(train).or_else(|| self.pay(Train { count: TRAIN / 2, ..train }))
    }

    /// The next overload, after those that said `found` with packets of both [`Plan::sizes`], and how many there were of each.
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

    /// How long nothing else is sent before and after a task: what it put into the queue leaves meanwhile.
    pub(crate) fn rest(path: Path, task: Task) -> [Duration; 2] {
        let bytes = match task {
            Task::Train(train) => f64::from(train.count) * f64::from(train.size),
            Task::Ladder(_) => LADDER.into_iter().map(f64::from).sum(),
            Task::Stream(_) => 0.0,
        };
        let after = 0.05 + 8.0 * bytes / path.rate.max(1e4);
        [Duration::from_millis(60), Duration::from_secs_f64(after.min(10.0))]
    }
}

/// An order of a task with the next number.
pub(crate) fn order(id: u16, task: Task, rest: [Duration; 2]) -> Order {
    Order { id, task, rest }
}
