//! Path from the capture to the receiver and back to the capture, or from the sender to the capture: its delay and the
//! rate of its bottleneck.

/// A packet that is known to have arrived. Times are nanoseconds of the capture's clock, or of the sender's timestamps
/// for packets from upstream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sample {
    /// Time at which the packet was sent.
    pub sent: i64,
    /// Time at which the packet's arrival was seen.
    pub arrived: i64,
    /// Bytes sent on this path up to its end.
    pub volume: u64,
    /// Sequence number after the packet's end.
    pub end: u64,
}

impl Sample {
    /// Returns the nanoseconds between.
    pub const fn delay(self) -> i64 {
        self.arrived.saturating_sub(self.sent)
    }
}

/// Minimum length of a stretch of packets over which a rate is measured: in bytes (some twenty packets) and in
/// nanoseconds, to average over scheduling delays; or in bytes alone.
const LONG_STRETCH: u64 = 30_000;
const LONG: i64 = 25_000_000;
const LONGEST_STRETCH: u64 = 1_000_000;
/// Minimum length of a stretch that ended early.
const SHORT_STRETCH: u64 = 5_000;
/// Number of stretches after which the rate is accepted.
const FEW: u64 = 3;

/// Durations for which receivers delay the acknowledgment of a single packet, in nanoseconds: Windows can be configured
/// to 10 ms, Linux waits 40 ms (`TCP_DELACK_MIN`), and the maximum is 500 ms (RFC 1122 §4.2.3.2).
const SHORTEST_TIMER: i64 = 10_000_000;
const LONGEST_TIMER: i64 = 500_000_000;

/// Measurements of a path.
#[derive(Clone, Debug, Default)]
pub struct Path {
    last: Option<Sample>,
    base: Option<i64>,
    /// Maximum delay that both neighbours of a sample reached too.
    highest: Option<i64>,
    before: [Option<i64>; 2],
    smoothed: f64,
    sum: f64,
    samples: u64,
    stretch: (u64, i64),
    /// Previous pair, if both samples found the link busy. An acknowledgment sent by a timer is delayed, and only the
    /// first or the last one of a stretch can be; both are left out.
    pending: Option<(u64, i64)>,
    opened: bool,
    rates: Option<Box<Rates>>,
    /// Rate in bits per second, updated at intervals of some stretches.
    rate: Option<f64>,
    /// Sum and number of deviations of arrivals from those expected at the rate.
    deviation: (f64, u64),
}

impl Path {
    /// Returns the newest sample.
    pub const fn last(&self) -> Option<Sample> {
        self.last
    }

    /// Returns the minimum delay, in nanoseconds.
    pub const fn base(&self) -> Option<i64> {
        self.base
    }

    /// Returns the maximum excess over the minimum delay that lasted for three samples, in nanoseconds.
    pub fn full(&self) -> i64 {
        self.highest.zip(self.base).map_or(0, |(highest, base)| highest.saturating_sub(base))
    }

    /// Returns the moving mean of the delay, in nanoseconds.
    pub const fn smoothed(&self) -> f64 {
        self.smoothed
    }

    /// Returns the mean delay, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }

    /// Returns the number of samples.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the rate of the bottleneck in bits of IP packets per second, if queues were long enough to show it.
    pub fn rate(&self) -> Option<f64> {
        self.rates.as_ref().filter(|rates| rates.stretches >= FEW).and_then(|rates| rates.median())
    }

    /// Returns the mean deviation of arrivals from those expected at the rate, in nanoseconds.
    pub fn jitter(&self) -> f64 {
        if self.deviation.1 == 0 { 0.0 } else { self.deviation.0 / self.deviation.1 as f64 }
    }

    /// Returns the excess of the sample's delay over the minimum.
    pub fn queue(&self, sample: Sample) -> i64 {
        self.base.map_or(0, |base| sample.delay().saturating_sub(base).max(0))
    }

    /// Handles a jump of the clock: earlier samples cannot be compared with later ones.
    pub fn break_off(&mut self) {
        self.last = None;
        self.before = [None; 2];
        self.end_stretch();
    }

    /// Adds the next sample; `whole` tells whether all packets between it and the one before arrived.
    pub fn take(&mut self, sample: Sample, whole: Neighbours) {
        let delay = sample.delay();
        self.base = Some(self.base.map_or(delay, |base| base.min(delay)));
        self.smoothed =
            if self.samples == 0 { delay as f64 } else { self.smoothed + (delay as f64 - self.smoothed) / 8.0 };
        self.sum += delay as f64;
        self.samples += 1;
        // After a stall many packets arrive at once, faster than the link is: there was no queue.
        if !self.is_paced(sample) {
            self.before = [None; 2];
        } else if let [Some(first), Some(second)] = self.before {
            let least = first.min(second).min(delay);
            self.highest = Some(self.highest.map_or(least, |highest| highest.max(least)));
        }
        self.before = [self.before[1], Some(delay)];
        if let (Some(last), Neighbours::Arrived) = (self.last, whole) {
            self.spread(last, sample);
        } else {
            self.end_stretch();
        }
        self.last = Some(sample);
    }

    /// Returns the sample without the time for which the receiver delayed the acknowledgment of a single packet (RFC
    /// 1122 §4.2.3.2). A sample counts as delayed if it arrived later, by the time of such a timer, than a packet that
    /// found no queue, or that left right after the last one.
    pub fn without_receivers_timer(&self, sample: Sample) -> Sample {
        let (Some(rate), Some(last), Some(base)) = (self.rate, self.last, self.base) else { return sample };
        let bytes = sample.volume.saturating_sub(last.volume);
        let behind = last.arrived.saturating_add((bytes as f64 * 8e9 / rate) as i64);
        let arrived = behind.max(sample.sent.saturating_add(base));
        let late = sample.arrived.saturating_sub(arrived);
        let is_timers = (SHORTEST_TIMER..=LONGEST_TIMER).contains(&late) && late as f64 > 4.0 * self.jitter();
        if is_timers { Sample { arrived, ..sample } } else { sample }
    }

    /// Returns whether the spacing between the last sample and this one suffices for the link to send the packets
    /// between.
    fn is_paced(&self, sample: Sample) -> bool {
        let (Some(rate), Some(last)) = (self.rate, self.last) else { return false };
        let bytes = sample.volume.saturating_sub(last.volume);
        // A delayed acknowledgment shows the arrival of the later of two packets.
        sample.arrived.saturating_sub(last.arrived) as f64 >= bytes as f64 * 8e9 / rate / 2.0
    }

    /// Updates the rate from two neighbours: if the second reached the queue before the first had left it, they left it
    /// back to back.
    fn spread(&mut self, first: Sample, second: Sample) {
        let apart = second.sent.saturating_sub(first.sent);
        let gap = second.arrived.saturating_sub(first.arrived);
        let bytes = second.volume.saturating_sub(first.volume);
        let is_busy = apart >= 0 && gap >= 0 && bytes > 0 && self.queue(first) > apart && self.queue(second) > 0;
        if !is_busy {
            self.end_stretch();
            return;
        }
        if let Some(rate) = self.rate {
            let deviation = (gap as f64 - bytes as f64 * 8e9 / rate).abs();
            // A stall of the machine is not jitter.
            let most = if self.deviation.1 < 20 { f64::INFINITY } else { 4.0 * self.jitter() + 1.0 };
            self.deviation.0 += deviation.min(most);
            self.deviation.1 += 1;
        }
        if !std::mem::replace(&mut self.opened, true) {
            return;
        }
        if let Some((bytes, gap)) = self.pending.replace((bytes, gap)) {
            self.stretch.0 += bytes;
            self.stretch.1 = self.stretch.1.saturating_add(gap);
        }
        if self.stretch.0 >= LONGEST_STRETCH || self.stretch.0 >= LONG_STRETCH && self.stretch.1 >= LONG {
            self.measure();
        }
    }

    fn end_stretch(&mut self) {
        self.opened = false;
        self.pending = None;
        self.measure();
    }

    fn measure(&mut self) {
        let (bytes, nanos) = std::mem::take(&mut self.stretch);
        if bytes < SHORT_STRETCH || nanos <= 0 {
            return;
        }
        let rates = self.rates.get_or_insert_default();
        rates.add(bytes as f64 * 8e9 / nanos as f64, bytes);
        // The median of many values changes little.
        if rates.stretches <= 16 || rates.stretches.is_multiple_of(16) {
            self.rate = rates.median().filter(|_| rates.stretches >= FEW);
        }
    }
}

/// Fate of all packets between two samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbours {
    /// All packets arrived.
    Arrived,
    /// Some packets did not arrive.
    Missing,
}

/// Rate of the first bin in bits per second.
const LEAST_RATE: f64 = 1e4;
/// Relative width of a bin.
const WIDTH: f64 = 0.01;
/// Number of bins, up to some 30 Gbps.
const BINS: usize = 1500;

/// Histogram of bytes by rate.
#[derive(Clone, Debug)]
struct Rates {
    bytes: Vec<u64>,
    total: u64,
    stretches: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { bytes: vec![0; BINS], total: 0, stretches: 0 }
    }
}

impl Rates {
    fn add(&mut self, rate: f64, bytes: u64) {
        let bin = ((rate / LEAST_RATE).max(1.0).ln() / WIDTH) as usize;
        self.bytes[bin.min(BINS - 1)] += bytes;
        self.total += bytes;
        self.stretches += 1;
    }

    /// Returns the middle of the bin that contains the middle byte.
    fn median(&self) -> Option<f64> {
        let mut below = 0;
        let bin = self.bytes.iter().position(|bytes| {
            below += bytes;
            below * 2 >= self.total && self.total > 0
        })?;
        Some(LEAST_RATE * ((bin as f64 + 0.5) * WIDTH).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: i64 = 1_000_000;

    /// A link of 12 Mbps, 1 ms per 1,500 bytes, with a round trip of 10 ms, which packets reach in groups of 20 every
    /// 25 ms.
    fn busy(jitter: i64) -> Path {
        let mut path = Path::default();
        let (mut free, mut volume) = (0, 0);
        for group in 0..50 {
            for number in 0..20 {
                let sent = group * 25 * MILLI;
                free = free.max(sent) + MILLI;
                volume += 1500;
                let late = if number % 2 == 0 { jitter } else { 0 };
                let sample = Sample { sent, arrived: free + 10 * MILLI + late, volume, end: volume };
                path.take(sample, Neighbours::Arrived);
            }
        }
        path
    }

    #[test]
    fn rate_and_delays_of_a_link_that_is_busy_in_turns() {
        for jitter in [0, 200_000] {
            let path = busy(jitter);
            let rate = path.rate().unwrap();
            assert!((rate / 12e6 - 1.0).abs() < 0.02, "{rate}");
            assert!((path.base().unwrap() - 11 * MILLI).abs() <= jitter);
            assert!((path.full() - 17 * MILLI).abs() <= MILLI, "{}", path.full());
            assert!((path.jitter() - jitter as f64).abs() < 60_000.0, "{}", path.jitter());
        }
    }

    #[test]
    fn a_link_that_nobody_waits_for_shows_no_rate() {
        let mut path = Path::default();
        for number in 0..1000 {
            let sent = number * 3 * MILLI;
            let volume = 1500 * (number as u64 + 1);
            path.take(Sample { sent, arrived: sent + 11 * MILLI, volume, end: volume }, Neighbours::Arrived);
        }
        assert_eq!((path.rate(), path.full()), (None, 0));
    }

    /// The receiver delays the acknowledgment of the second of two packets for 40 ms: both left the link back to back.
    /// The delay that the queue explains remains.
    #[test]
    fn a_receivers_timer_is_no_delay() {
        let mut path = busy(0);
        let sent = 50 * 25 * MILLI;
        let volume = path.last().unwrap().volume;
        let first = Sample { sent, arrived: sent + 11 * MILLI, volume: volume + 1500, end: volume + 1500 };
        path.take(first, Neighbours::Arrived);
        let second =
            |late| Sample { sent, arrived: sent + 12 * MILLI + late, volume: volume + 3000, end: volume + 3000 };
        let apart = |late| path.without_receivers_timer(second(late)).arrived - first.arrived;
        assert!((apart(40 * MILLI) - MILLI).abs() < MILLI / 20, "{}", apart(40 * MILLI));
        assert_eq!(apart(5 * MILLI), 6 * MILLI, "too soon for a timer");
        assert_eq!(apart(900 * MILLI), 901 * MILLI, "too late for one");
        let queued = Sample { volume: volume + 31 * 1500, ..second(29 * MILLI) };
        assert_eq!(path.without_receivers_timer(queued), queued, "thirty packets lay before it");
        let alone = Sample { sent: sent + 30 * MILLI, ..second(69 * MILLI) };
        assert_eq!(path.without_receivers_timer(alone).delay(), path.base().unwrap(), "it found no queue");
    }
}
