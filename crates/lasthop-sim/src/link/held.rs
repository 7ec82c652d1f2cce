//! Frames that arrive later than their link alone would have it.

use std::collections::BTreeMap;

use lasthop_proto::time::Instant;

/// What is late, in the order of when it arrives; what arrives at one time does so in the order in which it was held.
#[derive(Debug)]
pub struct Held<T> {
    waiting: BTreeMap<(Instant, u64), T>,
    /// How many were held so far.
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

    /// When the first arrives.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((until, _), _)| *until)
    }

    /// The first of those that arrive by `now`.
    pub fn release(&mut self, now: Instant) -> Option<T> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
