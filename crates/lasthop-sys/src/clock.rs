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

/// The kernel's clock that goes on while the machine sleeps (`CLOCK_BOOTTIME`): how old keys are, is told by it.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    /// What time it is: since the machine was started.
    pub fn now(self) -> Instant {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let nanos = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// How long it is until `at`: zero when it has passed.
    pub fn until(self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.now()).as_nanos())
    }
}
