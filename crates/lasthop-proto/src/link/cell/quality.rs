//! Channel quality of one user in one direction.

use super::spec::{Quality, Thresholds};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Steps of the shadowing in its coherence time.
const STEPS: u64 = 16;

/// Channel with autoregressive shadowing. It depends on time only, not on traffic.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    quality: Quality,
    thresholds: Thresholds,
    stream: Stream,
    /// Interval of the steps.
    interval: Duration,
    /// Correlation from step to step, and the weight of the innovation.
    correlation: f64,
    innovation: f64,
    /// Shadowing in standard deviations, and the number of its step.
    level: f64,
    step: u64,
    cqi: Option<usize>,
}

impl Channel {
    /// Starts a channel in its stationary distribution. Steps are not shorter than a TTI.
    pub(super) fn new(quality: Quality, thresholds: Thresholds, tti: Duration, mut stream: Stream) -> Self {
        let interval = (quality.coherence / STEPS).max(tti);
        let coherence = quality.coherence.as_nanos().max(1) as f64;
        let correlation = libm::exp(-(interval.as_nanos() as f64) / coherence);
        let innovation = libm::sqrt(1.0 - correlation * correlation);
        let level = if quality.sigma > 0.0 { stream.normal() } else { 0.0 };
        let mut channel =
            Self { quality, thresholds, stream, interval, correlation, innovation, level, step: 0, cqi: None };
        channel.measure();
        channel
    }

    /// Returns the CQI at a time, which must not be earlier than in the last call. `None`: out of range.
    pub(super) fn cqi(&mut self, at: Instant) -> Option<usize> {
        if self.quality.sigma > 0.0 {
            let step = at.since(Instant::ZERO).in_ticks(self.interval);
            if self.step < step {
                while self.step < step {
                    self.level = self.correlation * self.level + self.innovation * self.stream.normal();
                    self.step += 1;
                }
                self.measure();
            }
        }
        self.cqi
    }

    fn measure(&mut self) {
        self.cqi = self.thresholds.cqi(self.quality.mean + self.quality.sigma * self.level);
    }
}

#[cfg(test)]
#[path = "quality_tests.rs"]
mod tests;
