//! Link that delivers at certain times only: frames that have crossed by then arrive together, as with a scheduler that
//! serves a station once per frame, or a receiver that sleeps in between.

use crate::time::{Duration, Instant};

/// Times at which a link delivers: at `first` and then every `interval`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotsSpec {
    /// Interval between deliveries.
    pub interval: Duration,
    /// Time of the first delivery, since the beginning of the run.
    pub first: Duration,
}

impl SlotsSpec {
    /// Returns the first delivery time at or after `at`.
    pub fn next(self, at: Instant) -> Instant {
        let (at, first) = (at.as_nanos(), self.first.as_nanos());
        let interval = self.interval.as_nanos().max(1);
        let slots = at.saturating_sub(first).div_ceil(interval);
        Instant::from_nanos(slots.saturating_mul(interval).saturating_add(first))
    }
}
