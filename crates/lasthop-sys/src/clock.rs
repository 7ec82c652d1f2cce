//! The kernel's clocks as the mechanisms' time.

use std::time;

use lasthop_proto::time::Instant;

/// Clock that starts at 0 when it is created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: time::Instant,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self { start: time::Instant::now() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time until `at`; zero if it has passed.
    pub fn until(&self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.now()).as_nanos())
    }
}

/// The kernel's clock that includes suspend (`CLOCK_BOOTTIME`), used for the age of keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    /// Returns the time since the machine started.
    pub fn now(self) -> Instant {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let nanos = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Returns the time until `at`; zero if it has passed.
    pub fn until(self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.now()).as_nanos())
    }
}
