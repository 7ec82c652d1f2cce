//! Independent delay of each frame, as added by a busy shared medium or a scheduler.

use crate::random::Stream;
use crate::time::Duration;

/// Distribution of the delays of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Uniform from zero up to this.
    Uniform(Duration),
    /// Normal; values below zero count as zero.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// Exponential with this mean.
    Exponential(Duration),
}

/// Maximum delay of a frame. It exceeds the duration of any run, and a sum of several in nanoseconds does not overflow.
const LONGEST: f64 = 1e18;

#[derive(Clone, Debug)]
pub(super) struct Jitter {
    spread: Spread,
    stream: Stream,
}

impl Jitter {
    pub(super) fn new(spread: Spread, stream: Stream) -> Self {
        Self { spread, stream }
    }

    pub(super) fn next(&mut self) -> Duration {
        let nanos = match self.spread {
            Spread::Uniform(most) => {
                return Duration::from_nanos(self.stream.below(most.as_nanos().saturating_add(1)));
            }
            Spread::Normal { mean, deviation } => {
                mean.as_nanos() as f64 + self.stream.normal() * deviation.as_nanos() as f64
            }
            Spread::Exponential(mean) => self.stream.exponential(mean.as_nanos() as f64),
        };
        // Negative values become zero; fractions are rounded down.
        Duration::from_nanos(nanos.clamp(0.0, LONGEST) as u64)
    }
}
