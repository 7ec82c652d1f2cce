//! The kernel's monotonic clock as the mechanisms' time.

use std::time;

use lasthop_proto::time::Instant;

/// A clock that starts at 0 when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: time::Instant::now() }
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// How long it is until `at`: zero when it has passed.
    pub fn until(&self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.now()).as_nanos())
    }
}
