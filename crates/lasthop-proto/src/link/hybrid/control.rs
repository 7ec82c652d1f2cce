//! When the next frame may leave: pacing at a rate that is given, or found.

use crate::time::{Duration, Instant};

/// How fast frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateRule {
    /// So many bits per second, the hop's headers included.
    Fixed(u64),
}

/// The pacer.
#[derive(Clone, Debug)]
pub(super) struct Control {
    rate: u64,
    next: Instant,
}

impl Control {
    pub fn new(rule: RateRule) -> Self {
        let RateRule::Fixed(rate) = rule;
        Self { rate: rate.max(1), next: Instant::ZERO }
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// How long `bytes` take.
    pub fn time_for(&self, bytes: u32) -> Duration {
        Duration::from_nanos((u64::from(bytes) * 8_000_000_000).div_ceil(self.rate))
    }

    /// When the next frame may leave.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// A frame of `bytes` leaves.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        self.next = self.next.max(now) + self.time_for(bytes);
    }
}
