//! Frames that arrive later than their link's delay.

use std::collections::BTreeMap;

use lasthop_proto::time::Instant;

/// Delayed items, in the order of arrival; at equal times, in the order in which they were held.
#[derive(Debug)]
pub struct Held<T> {
    waiting: BTreeMap<(Instant, u64), T>,
    /// Number of items held so far.
    count: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), count: 0 }
    }
}

impl<T> Held<T> {
    /// Holds `what` until `until`.
    pub fn hold(&mut self, until: Instant, what: T) {
        self.waiting.insert((until, self.count), what);
        self.count += 1;
    }

    /// Returns the time of the first arrival.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((until, _), _)| *until)
    }

    /// Removes and returns the first item that arrives by `now`.
    pub fn release(&mut self, now: Instant) -> Option<T> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
