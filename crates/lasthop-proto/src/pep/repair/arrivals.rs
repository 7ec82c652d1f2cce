//! Times of what arrived on a connection, and whether the hop delivers.

use super::Heard;
use super::states::Delivery;
use crate::time::Instant;

/// Last arrivals from both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// Time at which the cumulative acknowledgment last advanced, or data above it was shown to have arrived.
    pub progress: Instant,
    /// Time at which a local copy last returned as a duplicate: nothing new has arrived, but the hop is up.
    copy_returned: Instant,
    /// Time at which the sender last sent anything.
    pub last_data: Instant,
    pub delivery: Delivery,
    /// Information from the mobile host's other connections at the last arrival on this one or its last timeout.
    pub others: Option<Heard>,
}

impl Arrivals {
    pub const fn new(now: Instant) -> Self {
        Self { progress: now, copy_returned: now, last_data: now, delivery: Delivery::Delivering, others: None }
    }

    /// Returns the time at which the mobile host last showed that the hop is up.
    pub fn last(&self) -> Instant {
        self.progress.max(self.copy_returned)
    }

    /// Records that data has arrived at the mobile host.
    pub fn progress(&mut self, now: Instant) {
        (self.progress, self.delivery) = (now, Delivery::Delivering);
    }

    /// Records that a local copy has returned as a duplicate.
    pub fn on_returned_copy(&mut self, now: Instant) {
        (self.copy_returned, self.delivery) = (now, Delivery::Delivering);
    }

    /// Records that all data in flight is declared lost. An arrival at the same instant is no silence.
    pub fn time_out(&mut self, now: Instant) {
        self.delivery = if now > self.last() { Delivery::TimedOut } else { Delivery::Delivering };
    }

    /// Returns whether all data in flight has been declared lost since the last arrival.
    pub fn has_timed_out(&self) -> bool {
        self.delivery == Delivery::TimedOut
    }
}
