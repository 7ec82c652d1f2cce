//! Delay spikes: a radio that is out of reach, or otherwise occupied, for a while, and loses nothing.

use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Parameters of delay spikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpikesSpec {
    /// Mean time from the end of one spike to the beginning of the next, exponentially distributed.
    pub every: Duration,
    /// Duration of a spike.
    pub length: Duration,
}

/// Minimum time between spikes, in nanoseconds, which bounds their number in a run.
const LEAST_GAP: f64 = 1000.0;

#[derive(Clone, Debug)]
pub(super) struct Spikes {
    spec: SpikesSpec,
    /// Start of the next spike, or of the current one.
    begins: Instant,
    stream: Stream,
}

impl Spikes {
    pub(super) fn new(spec: SpikesSpec, stream: Stream) -> Self {
        let mut spikes = Self { spec, begins: Instant::ZERO, stream };
        let gap = spikes.gap();
        spikes.begins += gap;
        spikes
    }

    fn gap(&mut self) -> Duration {
        let nanos = self.stream.exponential(self.spec.every.as_nanos() as f64).max(LEAST_GAP);
        Duration::from_nanos(nanos as u64)
    }

    pub(super) fn at(&mut self, sent: Instant) -> Duration {
        loop {
            if sent < self.begins {
                return Duration::ZERO;
            }
            let ends = self.begins + self.spec.length;
            if sent < ends {
                return ends.since(sent);
            }
            let gap = self.gap();
            self.begins = ends + gap;
        }
    }
}
