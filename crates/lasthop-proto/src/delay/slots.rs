//! A link that delivers at certain times only: what is across by then arrives together, as with a scheduler that serves a station
//! once in a frame, or a receiver that sleeps in between.

use crate::time::{Duration, Instant};

/// When a link delivers: at `first` and then every `interval`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotsSpec {
    /// From one to the next.
    pub interval: Duration,
    /// When the first is, since the beginning of the run.
    pub first: Duration,
}

impl SlotsSpec {
    /// The first time from `at` on at which the link delivers.
    pub fn next(self, at: Instant) -> Instant {
        let (at, first) = (at.as_nanos(), self.first.as_nanos());
        let interval = self.interval.as_nanos().max(1);
        let slots = at.saturating_sub(first).div_ceil(interval);
        Instant::from_nanos(slots.saturating_mul(interval).saturating_add(first))
    }
}
