//! Traffic on the emulated links over time: rates, delays and queues, per step and in total.

use lasthop_proto::time::{Duration, Instant};

use super::plan::Point;

/// Initial duration of a step.
const STEP: Duration = Duration::from_millis(100);
/// Maximum number of steps. Beyond it, pairs of steps are merged into one of twice the duration.
const MOST_STEPS: usize = 12_000;
/// Number of checks of a queue per step.
const LOOKS: u64 = 10;

/// A step of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Step {
    /// Frames and bytes handed to the link.
    pub offered: Amount,
    /// Frames and bytes that arrived.
    pub delivered: Amount,
    /// Frames dropped by the queue, its management or a policer.
    pub dropped: u64,
    /// Frames destroyed by the channel.
    pub lost: u64,
    /// Sum of the delays from the link's near end to its far end, of all frames that arrived.
    pub delay: Duration,
    /// Maximum of these delays.
    pub longest: Duration,
    /// Sum of the times for which these frames waited until their transmission began.
    pub waited: Duration,
    /// Maximum number of queued frames at the checks.
    pub queue: u64,
}

/// Number of frames, and their bytes as IP packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Amount {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.frames += 1;
        self.bytes += bytes;
    }
}

impl Step {
    /// Returns the mean delay of the frames that arrived; `None` without any.
    pub fn mean_delay(&self) -> Option<Duration> {
        (self.delivered.frames > 0).then(|| self.delay / self.delivered.frames)
    }

    /// Returns the mean time that these frames waited in the queue; `None` without any.
    pub fn mean_wait(&self) -> Option<Duration> {
        (self.delivered.frames > 0).then(|| self.waited / self.delivered.frames)
    }

    fn join(&mut self, other: &Self) {
        for (own, more) in [(&mut self.offered, other.offered), (&mut self.delivered, other.delivered)] {
            own.frames += more.frames;
            own.bytes += more.bytes;
        }
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.delay = self.delay + other.delay;
        self.waited = self.waited + other.waited;
        self.longest = self.longest.max(other.longest);
        self.queue = self.queue.max(other.queue);
    }
}

/// Number of buckets per power of two in [`Delays`], a resolution of 1.6 %.
const PARTS: u32 = 64;

/// Distribution of delays, in buckets whose width grows with the delay.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Delays {
    counts: Vec<u64>,
    total: u64,
}

impl Delays {
    fn bucket(delay: Duration) -> usize {
        let nanos = delay.as_nanos();
        if nanos < u64::from(PARTS) {
            return nanos as usize;
        }
        let power = nanos.ilog2() - PARTS.ilog2();
        (power * PARTS + (nanos >> power) as u32) as usize
    }

    /// Returns the middle of a bucket.
    fn value(bucket: usize) -> Duration {
        let bucket = bucket as u64;
        let parts = u64::from(PARTS);
        if bucket < 2 * parts {
            return Duration::from_nanos(bucket);
        }
        let power = bucket / parts - 1;
        let low = (bucket % parts + parts) << power;
        Duration::from_nanos(low + (1 << power) / 2)
    }

    fn add(&mut self, delay: Duration) {
        let bucket = Self::bucket(delay);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// Returns the delay that `percent` of all samples do not exceed, with an error of at most 1.6 %; `None` without
    /// samples.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map(Self::value)
    }
}

/// One direction of a link.
#[derive(Clone, Default, Debug)]
pub struct Way {
    /// Steps from the start of the run.
    pub steps: Vec<Step>,
    /// Delays of all frames that arrived.
    pub delays: Delays,
    /// Time when the first frame was handed to the link.
    pub first: Option<Instant>,
    /// Time when the last frame arrived.
    pub last: Option<Instant>,
    /// Time of the last check of its queue.
    looked: Option<Instant>,
}

impl Way {
    /// Returns the total of all steps.
    pub fn total(&self) -> Step {
        let mut total = Step::default();
        self.steps.iter().for_each(|step| total.join(step));
        total
    }

    /// Returns the bits per second that arrived, from the first frame handed to the link to the last arrival.
    pub fn throughput(&self) -> f64 {
        let span = self.first.zip(self.last).map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
        if span > 0.0 { self.total().delivered.bytes as f64 * 8.0 / span } else { 0.0 }
    }
}

/// Monitor of all links.
#[derive(Clone, Debug)]
pub struct Monitor {
    step: Duration,
    /// Directions, by the point at which frames enter the link.
    ways: Vec<Way>,
}

impl Monitor {
    /// Creates a monitor for `points` points.
    pub fn new(points: usize) -> Self {
        Self { step: STEP, ways: vec![Way::default(); points] }
    }

    /// Returns the duration of a step.
    pub const fn step(&self) -> Duration {
        self.step
    }

    /// Returns the direction whose near end is `point`.
    pub fn way(&self, point: Point) -> &Way {
        &self.ways[point]
    }

    fn at(&mut self, point: Point, now: Instant) -> &mut Step {
        while now.as_nanos() / self.step.as_nanos() >= MOST_STEPS as u64 {
            self.step = self.step * 2;
            for way in &mut self.ways {
                way.steps = way
                    .steps
                    .chunks(2)
                    .map(|pair| {
                        let mut both = pair[0];
                        pair[1..].iter().for_each(|other| both.join(other));
                        both
                    })
                    .collect();
            }
        }
        let index = (now.as_nanos() / self.step.as_nanos()) as usize;
        let steps = &mut self.ways[point].steps;
        if index >= steps.len() {
            steps.resize(index + 1, Step::default());
        }
        &mut steps[index]
    }

    /// Records that a frame was handed to the link. `waiting` returns the number of queued frames and is called at
    /// intervals.
    pub(crate) fn enter(&mut self, point: Point, now: Instant, bytes: u64, waiting: impl FnOnce() -> usize) {
        self.at(point, now).offered.add(bytes);
        let way = &mut self.ways[point];
        way.first.get_or_insert(now);
        if way.looked.is_none_or(|looked| now >= looked + self.step / LOOKS) {
            way.looked = Some(now);
            let waiting = waiting() as u64;
            let step = self.at(point, now);
            step.queue = step.queue.max(waiting);
        }
    }

    /// Records the arrival of a frame that entered at `entered` and whose transmission began at `started`.
    pub(crate) fn arrive(&mut self, point: Point, now: Instant, bytes: u64, entered: Instant, started: Instant) {
        let delay = now.since(entered);
        let step = self.at(point, now);
        step.delivered.add(bytes);
        step.delay = step.delay + delay;
        step.waited = step.waited + started.since(entered);
        step.longest = step.longest.max(delay);
        let way = &mut self.ways[point];
        way.delays.add(delay);
        way.last = Some(now);
    }

    /// Records that a frame was dropped before transmission.
    pub(crate) fn dropped(&mut self, point: Point, now: Instant) {
        self.at(point, now).dropped += 1;
    }

    /// Records that a frame was destroyed on the link.
    pub(crate) fn lost(&mut self, point: Point, now: Instant) {
        self.at(point, now).lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn steps_have_what_happened_in_them() {
        let mut monitor = Monitor::new(2);
        for (sent, waiting) in [(10, 3), (50, 9), (52, 99), (150, 5)] {
            monitor.enter(1, at(sent), 1500, || waiting);
        }
        monitor.arrive(1, at(90), 1500, at(10), at(30));
        monitor.arrive(1, at(250), 1500, at(50), at(60));
        monitor.dropped(1, at(52));
        monitor.lost(1, at(260));
        let way = monitor.way(1);
        let ms = Duration::from_millis;
        let expected = [
            Step {
                offered: Amount { frames: 3, bytes: 4500 },
                delivered: Amount { frames: 1, bytes: 1500 },
                dropped: 1,
                delay: ms(80),
                longest: ms(80),
                waited: ms(20),
                // The queue is not checked again after 2 ms.
                queue: 9,
                ..Step::default()
            },
            Step { offered: Amount { frames: 1, bytes: 1500 }, queue: 5, ..Step::default() },
            Step {
                delivered: Amount { frames: 1, bytes: 1500 },
                lost: 1,
                delay: ms(200),
                longest: ms(200),
                waited: ms(10),
                ..Step::default()
            },
        ];
        assert_eq!(way.steps, expected);
        assert_eq!((way.total().mean_delay(), way.total().mean_wait()), (Some(ms(140)), Some(ms(15))));
        // 3000 bytes from 10 to 250 ms.
        assert!((way.throughput() - 100_000.0).abs() < 1.0);
        assert!(monitor.way(0).steps.is_empty() && monitor.way(0).throughput() == 0.0);
    }

    /// Memory stays bounded in runs of any length, and no count is lost.
    #[test]
    fn a_long_run_has_longer_steps() {
        let mut monitor = Monitor::new(1);
        for hour in 0..100u64 {
            monitor.enter(0, at(3_600_000 * hour + 7), 100, || 1);
        }
        assert!(monitor.way(0).steps.len() <= MOST_STEPS && monitor.step() > STEP);
        assert_eq!(monitor.way(0).total().offered, Amount { frames: 100, bytes: 10_000 });
    }

    proptest! {
        /// A percentile is one of the delays, within 1.6 %.
        #[test]
        fn percentiles_are_those_of_the_sorted_delays(
            nanos in proptest::collection::vec(0u64..10_000_000_000, 1..60),
            percent in 1u64..=100,
        ) {
            let mut delays = Delays::default();
            nanos.iter().for_each(|nanos| delays.add(Duration::from_nanos(*nanos)));
            let mut sorted = nanos;
            sorted.sort_unstable();
            let exact = sorted[((sorted.len() as u64 * percent).div_ceil(100) as usize).max(1) - 1] as f64;
            let found = delays.percentile(percent).unwrap().as_nanos() as f64;
            prop_assert!((found - exact).abs() <= 0.016 * exact + 1.0, "{found} {exact}");
        }
    }
}
