//! Simulated time as quinn takes it.
//!
//! quinn asks for `std::time::Instant`, which has no other beginning than the moment at which one asks for it. Only differences
//! between instants matter to quinn, so that moment shows nowhere.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "quinn's type of time; see above")]

use lasthop_proto::time::{Duration, Instant};

/// Converts between the driver's time and quinn's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the driver calls zero.
    zero: std::time::Instant,
}

impl Clock {
    /// A clock whose zero lies an hour ahead, so that quinn can look back from it on every platform.
    pub fn new() -> Self {
        let now = std::time::Instant::now();
        Self { zero: now.checked_add(std::time::Duration::from_secs(3600)).unwrap_or(now) }
    }

    /// The driver's time as quinn's.
    pub fn outer(&self, at: Instant) -> std::time::Instant {
        self.zero + std::time::Duration::from_nanos(at.as_nanos())
    }

    /// quinn's time as the driver's; a time that the driver cannot express is the last that it can.
    pub fn inner(&self, at: std::time::Instant) -> Instant {
        let nanos = at.saturating_duration_since(self.zero).as_nanos();
        Instant::ZERO + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
