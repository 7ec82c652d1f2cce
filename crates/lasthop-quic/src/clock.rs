//! Simulated time for quinn.
//!
//! quinn uses `std::time::Instant`, which has no other origin than the time of a call. Only differences between
//! instants matter to quinn, so that origin has no effect.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "quinn's type of time; see above")]

use lasthop_proto::time::{Duration, Instant};

/// Converts between the driver's time and quinn's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// quinn's time at the driver's zero.
    zero: std::time::Instant,
}

impl Clock {
    /// Returns a clock whose zero lies an hour ahead, so that quinn can subtract from it on every platform.
    pub fn new() -> Self {
        let now = std::time::Instant::now();
        Self { zero: now.checked_add(std::time::Duration::from_secs(3600)).unwrap_or(now) }
    }

    /// Returns the driver's time as quinn's.
    pub fn outer(&self, at: Instant) -> std::time::Instant {
        self.zero + std::time::Duration::from_nanos(at.as_nanos())
    }

    /// Returns quinn's time as the driver's; a time beyond the driver's range becomes its maximum.
    pub fn inner(&self, at: std::time::Instant) -> Instant {
        let nanos = at.saturating_duration_since(self.zero).as_nanos();
        Instant::ZERO + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
