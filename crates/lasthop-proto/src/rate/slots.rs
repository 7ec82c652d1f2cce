//! Rates of a satellite terminal that is assigned anew at regular times, as Starlink's is every 15 s.
//!
//! Each slot has a rate of its own, around which the rate varies slowly. Nothing is sent for a moment after each
//! boundary; then the rate rises to the slot's. Values by default: measurements of nine slots of a public Starlink
//! trace (LeoCC's example, SIGCOMM 2025), which are no distribution over places and times.

use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateSlotsSpec {
    /// Mean rate without the boundaries, in bits per second.
    pub mean: u64,
    /// Interval between boundaries.
    pub period: Duration,
    /// Time of the first boundary.
    pub first: Duration,
    /// Standard deviation of the logarithm of the slots' rates.
    pub spread: f64,
    /// Standard deviation of the logarithm of the rate within a slot.
    pub inner: f64,
    /// Minimum and maximum time without transmission after a boundary; uniform.
    pub outage: [Duration; 2],
    /// Time after it in which the rate grows linearly to the slot's.
    pub recovery: Duration,
    /// Probability that a frame is lost that is on its way at a boundary.
    pub edge_loss: f64,
}

/// Interval at which the rate changes within a slot.
const STEP: Duration = Duration::from_millis(100);
/// Minimum period: otherwise boundaries would never end.
const LEAST_PERIOD: Duration = Duration::from_millis(1);
/// Interval of steps while the rate grows after a boundary.
const RISE: Duration = Duration::from_millis(10);
/// Correlation of the logarithm of the rate from step to step. The measured autocorrelation is 0.79 at 0.1 s and 0.56
/// at 1 s.
const CORRELATION: f64 = 0.9;

impl RateSlotsSpec {
    /// Returns the same slots with a mean rate times `up / down`, rounded down.
    #[must_use]
    pub fn scaled(&self, up: u64, down: u64) -> Self {
        Self { mean: super::scaled_rate(self.mean, up, down), ..*self }
    }

    /// Returns the mean rate with the boundaries, in bits per second.
    pub fn mean(&self) -> f64 {
        let [least, most] = self.outage.map(Duration::as_secs_f64);
        let lost = f64::midpoint(least, most) + self.recovery.as_secs_f64() / 2.0;
        self.mean as f64 * (1.0 - lost / self.period.as_secs_f64())
    }
}

/// Losses at the boundaries of slots, in one direction of a link.
#[derive(Clone, Debug)]
pub struct EdgeLoss {
    first: Duration,
    period: Duration,
    share: f64,
    stream: Stream,
}

impl EdgeLoss {
    /// Creates the losses at the boundaries of `spec`, drawn from `stream`. Returns `None` if there are none.
    pub fn new(spec: &RateSlotsSpec, stream: impl FnOnce() -> Stream) -> Option<Self> {
        let RateSlotsSpec { first, period, edge_loss: share, .. } = *spec;
        // As for the rates: a period takes time.
        let period = period.max(LEAST_PERIOD);
        (share > 0.0).then(|| Self { first, period, share, stream: stream() })
    }

    /// Returns whether a frame is lost whose transmission begins at `start` and that arrives at `arrival`. Only a frame
    /// that meets a boundary after its start takes a random number.
    pub fn takes(&mut self, start: Instant, arrival: Instant) -> bool {
        let since = arrival.since(Instant::ZERO).as_nanos().checked_sub(self.first.as_nanos());
        let Some(since) = since else { return false };
        let period = self.period.as_nanos();
        let last = Instant::ZERO + self.first + Duration::from_nanos(since - since % period);
        last > start && self.stream.chance(self.share)
    }
}

/// Slots in a run.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    spec: RateSlotsSpec,
    stream: Stream,
    /// Start of the next segment.
    at: Instant,
    /// Next boundary.
    boundary: Instant,
    /// End of the outage after the last boundary.
    outage: Instant,
    /// Rate of the current slot, in bits per second.
    slot: f64,
    /// Logarithm of the rate in relation to the slot's, and the time until which it is valid.
    inner: f64,
    until: Instant,
}

impl Slots {
    pub(super) fn new(spec: &RateSlotsSpec, stream: Stream) -> Self {
        let spec = RateSlotsSpec { period: spec.period.max(LEAST_PERIOD), ..*spec };
        let boundary = Instant::ZERO + spec.first;
        let mut slots = Self {
            spec,
            stream,
            at: Instant::ZERO,
            boundary,
            outage: Instant::ZERO,
            slot: 0.0,
            inner: 0.0,
            until: Instant::ZERO,
        };
        slots.slot = slots.rate_of_slot();
        slots.inner = slots.spec.inner * slots.stream.normal();
        slots.until = Instant::ZERO + STEP;
        slots
    }

    /// Draws the rate of a slot, with the mean of all.
    fn rate_of_slot(&mut self) -> f64 {
        let spread = self.spec.spread;
        self.spec.mean as f64 * libm::exp(spread * self.stream.normal() - spread * spread / 2.0)
    }

    pub(super) fn next(&mut self) -> (u64, Duration) {
        if self.at >= self.boundary {
            let [least, most] = self.spec.outage;
            let more = most.saturating_sub(least).as_nanos();
            let outage = least + Duration::from_nanos(self.stream.below(more.saturating_add(1)));
            self.outage = self.boundary + outage;
            self.boundary += self.spec.period;
            self.slot = self.rate_of_slot();
        }
        if self.at >= self.until {
            let (inner, noise) = (self.spec.inner, self.stream.normal());
            self.inner = CORRELATION * self.inner + libm::sqrt(1.0 - CORRELATION * CORRELATION) * inner * noise;
            self.until = self.at + STEP;
        }
        let begin = self.at;
        let mut end = self.until.min(self.boundary);
        let rise = self.outage + self.spec.recovery;
        let share = if begin < self.outage {
            end = end.min(self.outage);
            0.0
        } else if begin < rise {
            end = end.min(begin + RISE).min(rise);
            // Mean of the step.
            let middle = f64::midpoint(begin.since(self.outage).as_secs_f64(), end.since(self.outage).as_secs_f64());
            middle / self.spec.recovery.as_secs_f64()
        } else {
            1.0
        };
        self.at = end;
        let variation = libm::exp(self.inner - self.spec.inner * self.spec.inner / 2.0);
        ((self.slot * variation * share) as u64, end.since(begin))
    }
}
