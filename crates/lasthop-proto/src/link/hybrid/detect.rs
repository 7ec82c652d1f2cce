//! Loss detection of the sender: by later transmissions that were acknowledged, by time, and by silence (after RFC 9002
//! §6 and RFC 8985).

use super::mean::Quantile;
use crate::time::{Duration, Instant};

/// Number of later acknowledged transmissions after which a transmission is declared lost.
pub(super) const THRESHOLD: u64 = 3;

/// Round trip assumed before the first sample.
const FIRST_GUESS: Duration = Duration::from_millis(100);

/// Minimum time before any transmission is declared lost.
const GRANULE: Duration = Duration::from_millis(1);

/// Length of the periods over which minima of the round trip are taken; one to two of them count.
const EPOCH: Duration = Duration::from_secs(10);

/// Length of the periods over which maxima of the time to the report of reordered transmissions are taken, and their
/// limit.
const REPORT_EPOCH: Duration = Duration::from_secs(2);
const LATEST_REPORT: Duration = Duration::from_secs(1);

/// Maximum silence before a probe, regardless of the number of doublings.
const LONGEST: Duration = Duration::from_secs(1);

/// Round-trip estimates of the hop, and the timeouts derived from them.
#[derive(Clone, Debug)]
pub(super) struct Detector {
    smoothed: Option<Duration>,
    variation: Duration,
    latest: Duration,
    /// Minimum since the last query.
    least: Option<Duration>,
    /// Minima of this period and the previous one.
    minima: [Duration; 2],
    epoch: Instant,
    /// Allowance for reordering, in quarters of the shortest round trip.
    tolerance: u32,
    /// Maxima, in this period and the previous one, of the time to the report of transmissions that arrived behind
    /// [`THRESHOLD`] later ones, while frames are reordered.
    latest_report: [Duration; 2],
    report_epoch: Instant,
    /// Maxima of the excess of such times over the round trip at that time, in the same periods.
    excess: [Duration; 2],
    /// Time within which nearly all transmissions are reported, while frames are reordered.
    usual_report: Quantile,
    /// End of the allowance.
    tolerant_until: Instant,
    /// Scheduling slack allowed for both ends' drivers.
    lag: Duration,
}

impl Detector {
    pub fn new() -> Self {
        Self {
            smoothed: None,
            variation: FIRST_GUESS / 2,
            latest: Duration::ZERO,
            least: None,
            minima: [Duration::MAX; 2],
            epoch: Instant::ZERO,
            tolerance: 0,
            latest_report: [Duration::ZERO; 2],
            report_epoch: Instant::ZERO,
            excess: [Duration::ZERO; 2],
            usual_report: Quantile::default(),
            tolerant_until: Instant::ZERO,
            lag: Duration::ZERO,
        }
    }

    /// Discards all round-trip estimates.
    pub fn begin_anew(&mut self) {
        *self = Self { lag: self.lag, ..Self::new() };
    }

    /// Sets the additional time before a transmission is declared lost by time.
    pub fn tolerate(&mut self, lag: Duration) {
        self.lag = lag;
    }

    /// Takes a round-trip sample, of which `waited` was spent at the other end.
    pub fn sample(&mut self, now: Instant, whole: Duration, waited: Duration) {
        if now.since(self.epoch) >= EPOCH {
            (self.minima, self.epoch) = ([Duration::MAX, self.minima[0]], now);
        }
        self.minima[0] = self.minima[0].min(whole);
        let without = whole.saturating_sub(waited);
        // A reported delay longer than the round trip itself is ignored (RFC 9002 §5.3).
        let sample = if without > GRANULE / 10 { without } else { whole };
        self.minima[0] = self.minima[0].min(sample);
        self.latest = sample;
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(sample), sample / 2),
            Some(smoothed) => {
                let off = sample.saturating_sub(smoothed).max(smoothed.saturating_sub(sample));
                self.variation = (self.variation.saturating_mul(3) + off) / 4;
                self.smoothed = Some((smoothed.saturating_mul(7) + sample) / 8);
            }
        }
    }

    /// Returns the hop's round trip.
    pub fn round_trip(&self) -> Duration {
        self.smoothed.unwrap_or(FIRST_GUESS)
    }

    /// Returns the shortest round trip of the last 10 to 20 s.
    pub fn shortest(&self) -> Duration {
        match self.minima[0].min(self.minima[1]) {
            Duration::MAX => self.round_trip(),
            shortest => shortest,
        }
    }

    /// Returns the shortest round trip since the last call, if there was a sample.
    pub fn take_least(&mut self) -> Option<Duration> {
        self.least.take()
    }

    /// Returns the scheduling slack of the drivers.
    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// Returns by how much a round trip may exceed the shortest one without a queue, while frames are reordered.
    pub fn jitter(&self) -> Duration {
        self.latest_report().saturating_sub(self.shortest())
    }

    /// Returns by how much reordered transmissions were late compared with others at that time: unlike [`Self::jitter`],
    /// this does not grow with a queue.
    pub fn lateness(&self) -> Duration {
        if self.tolerance > 0 { self.excess[0].max(self.excess[1]) } else { Duration::ZERO }
    }

    /// Records that a transmission declared lost has arrived, as reported `took` after it was sent.
    pub fn on_spurious(&mut self, now: Instant, took: Duration) {
        self.tolerance = (self.tolerance + 1).min(8);
        self.tolerant_until = now + self.round_trip() * 16;
        self.usual_report.add(took);
        self.on_reordered(now, took);
    }

    /// Records the arrival of a transmission, as reported `took` after it was sent, when transmissions up to `behind`
    /// later had been reported.
    pub fn on_arrival(&mut self, now: Instant, took: Duration, behind: u64) {
        if self.tolerance > 0 {
            self.usual_report.add(took);
        }
        if self.tolerance > 0 && behind >= THRESHOLD {
            self.tolerant_until = now + self.round_trip() * 16;
            self.on_reordered(now, took);
        }
    }

    fn on_reordered(&mut self, now: Instant, took: Duration) {
        if now.since(self.report_epoch) >= REPORT_EPOCH {
            (self.latest_report, self.report_epoch) = ([Duration::ZERO, self.latest_report[0]], now);
            self.excess = [Duration::ZERO, self.excess[0]];
        }
        self.latest_report[0] = self.latest_report[0].max(took.min(LATEST_REPORT));
        self.excess[0] = self.excess[0].max(took.min(LATEST_REPORT).saturating_sub(self.round_trip()));
    }

    /// Returns the maximum time to the report of a reordered transmission; 0 while frames are not reordered.
    fn latest_report(&self) -> Duration {
        if self.tolerance > 0 { self.latest_report[0].max(self.latest_report[1]) } else { Duration::ZERO }
    }

    /// Returns the time from a transmission to the retransmission that replaces it, without the slack of drivers: the
    /// round trip, or more while frames are reordered.
    pub fn repair_trip(&self) -> Duration {
        self.round_trip().max(self.latest_report())
    }

    /// Returns the time for which a flow stalls while a hole is repaired, without queueing: the shortest round trip, or the
    /// maximum time to a report while frames are reordered.
    pub fn stall(&self) -> Duration {
        self.shortest().max(self.latest_report())
    }

    /// Ends the allowance for reordering when its time has passed.
    pub fn relax(&mut self, now: Instant) {
        if self.tolerance > 0 && now >= self.tolerant_until {
            (self.tolerance, self.latest_report, self.usual_report) = (0, [Duration::ZERO; 2], Quantile::default());
            self.excess = [Duration::ZERO; 2];
        }
    }

    /// Returns the number of later acknowledged transmissions after which one is declared lost; `None` while frames are
    /// reordered.
    pub fn threshold(&self) -> Option<u64> {
        (self.tolerance == 0).then_some(THRESHOLD)
    }

    /// Returns the time after which a transmission is declared lost if a later one has been acknowledged.
    pub fn patience(&self) -> Duration {
        let trip = self.round_trip().max(self.latest);
        let disorder = (self.shortest() / 4).saturating_mul(self.tolerance.into());
        let usual = if self.tolerance > 0 { self.usual_report.value() } else { Duration::ZERO };
        (trip.saturating_mul(9) / 8 + disorder).max(usual).max(GRANULE) + self.lag
    }

    /// Returns the time without feedback, which may be delayed by `delay`, after which the hop is probed for the `nth`
    /// time in a row.
    pub fn silence(&self, delay: Duration, nth: u32) -> Duration {
        let trip = self.round_trip() + self.variation.saturating_mul(4).max(GRANULE * 2);
        let base = trip.max(self.latest_report().saturating_mul(9) / 8) + delay + self.lag;
        base.saturating_mul(1 << nth.min(10)).min(LONGEST.max(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// RFC 9002 §5.3 by hand: 40 ms, then 48: 7/8 · 40 + 1/8 · 48 = 41, 3/4 · 20 + 1/4 · 8 = 17.
    #[test]
    fn round_trips_are_smoothed() {
        let mut detector = Detector::new();
        assert_eq!((detector.round_trip(), detector.patience()), (ms(100), Duration::from_micros(112_500)));
        detector.sample(Instant::ZERO, ms(42), ms(2));
        detector.sample(Instant::ZERO, ms(48), ms(0));
        assert_eq!((detector.round_trip(), detector.shortest(), detector.variation), (ms(41), ms(40), ms(17)));
        assert_eq!(detector.patience(), ms(54));
        assert_eq!(detector.silence(ms(5), 0), ms(41 + 68 + 5));
        assert_eq!(detector.silence(ms(5), 1), ms(228));
        assert_eq!(detector.silence(ms(5), 30), LONGEST);
    }

    #[test]
    fn late_drivers_are_waited_for_on_every_path() {
        let mut detector = Detector::new();
        detector.tolerate(ms(3));
        detector.sample(Instant::ZERO, ms(8), ms(0));
        assert_eq!((detector.patience(), detector.silence(ms(0), 0)), (ms(12), ms(8 + 16 + 3)));
        detector.begin_anew();
        assert_eq!((detector.round_trip(), detector.patience()), (ms(100), Duration::from_micros(115_500)));
    }

    #[test]
    fn a_wait_longer_than_the_trip_is_not_believed() {
        let mut detector = Detector::new();
        detector.sample(Instant::ZERO, ms(40), Duration::MAX);
        assert_eq!(detector.round_trip(), ms(40));
    }

    #[test]
    fn spurious_losses_widen_and_pass() {
        let mut detector = Detector::new();
        detector.sample(Instant::ZERO, ms(40), ms(0));
        assert_eq!((detector.threshold(), detector.patience()), (Some(3), ms(45)));
        detector.on_spurious(Instant::ZERO, ms(46));
        assert_eq!((detector.threshold(), detector.patience(), detector.repair_trip()), (None, ms(55), ms(46)));
        // A later arrival behind three others widens the allowance.
        detector.on_arrival(Instant::ZERO, ms(80), 3);
        assert_eq!(detector.repair_trip(), ms(80));
        detector.relax(Instant::ZERO + ms(639));
        assert_eq!(detector.threshold(), None);
        detector.relax(Instant::ZERO + ms(640));
        assert_eq!((detector.threshold(), detector.patience(), detector.repair_trip()), (Some(3), ms(45), ms(40)));
    }
}
