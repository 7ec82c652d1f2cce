//! When the next frame may leave: pacing at a rate that is given, or found.

use crate::time::{Duration, Instant};

/// How fast frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateRule {
    /// So many bits per second, the hop's headers included.
    Fixed(u64),
}

impl RateRule {
    pub(super) const fn bits_per_second(self) -> u64 {
        let Self::Fixed(rate) = self;
        rate
    }
}

/// The pacer.
#[derive(Clone, Debug)]
pub(super) struct Control {
    rate: u64,
    next: Instant,
    /// By so much the driver may be late.
    lag: Duration,
}

impl Control {
    pub fn new(rule: RateRule) -> Self {
        Self { rate: rule.bits_per_second().max(1), next: Instant::ZERO, lag: Duration::ZERO }
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
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(self.lag.as_nanos()));
        self.next = self.next.max(earliest) + self.time_for(bytes);
    }

    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// Lets a driver that is late by up to `lag` send what it has not sent meanwhile.
    pub fn tolerate(&mut self, lag: Duration) {
        self.lag = lag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes a millisecond. A driver that comes 5 ms late sends what was to be sent in the last 2 ms, if it may.
    #[test]
    fn a_late_driver_makes_up_for_what_it_may() {
        for (lag, frames) in [(0, 1), (2, 3)] {
            let mut control = Control::new(RateRule::Fixed(8_000_000));
            control.tolerate(Duration::from_millis(lag));
            control.on_sent(Instant::ZERO, 1000);
            let now = Instant::from_nanos(5_000_000);
            let mut sent = 0;
            while control.next() <= now {
                control.on_sent(now, 1000);
                sent += 1;
            }
            assert_eq!(sent, frames);
        }
    }
}
