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

/// What a driver that comes very late may make up for: no more waits in the hop's queue afterwards.
const CATCH_UP: Duration = Duration::from_millis(8);

/// Whether frames wait for nothing but the pace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Press {
    /// The driver is to come when the next may leave: if it comes later, the hop was idle for its sake.
    Frames,
    /// The hop is idle for want of frames.
    Nothing,
}

/// The pacer.
#[derive(Clone, Debug)]
pub(super) struct Control {
    rate: u64,
    next: Instant,
    /// By so much the driver may be late.
    lag: Duration,
    /// Since the last frame.
    press: Press,
}

impl Control {
    pub fn new(rule: RateRule) -> Self {
        Self { rate: rule.bits_per_second().max(1), next: Instant::ZERO, lag: Duration::ZERO, press: Press::Nothing }
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
        let credit = match self.press {
            Press::Frames if self.lag > Duration::ZERO => CATCH_UP.max(self.lag),
            Press::Frames | Press::Nothing => self.lag,
        };
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(credit.as_nanos()));
        self.next = self.next.max(earliest) + self.time_for(bytes);
    }

    /// What waits, now that no more frames leave.
    pub fn on_pause(&mut self, press: Press) {
        self.press = press;
    }

    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// Lets a driver that is late by up to `lag` send what it has not sent meanwhile; [`CATCH_UP`] where frames waited for it.
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

    /// Where frames wait, it makes up for all of it, but no more than 8 ms; a driver that may not be late, for nothing.
    #[test]
    fn a_very_late_driver_makes_up_for_what_waited() {
        for (lag, late, frames) in [(3, 6, 6), (3, 40, 9), (0, 6, 1)] {
            let mut control = Control::new(RateRule::Fixed(8_000_000));
            control.tolerate(Duration::from_millis(lag));
            control.on_sent(Instant::ZERO, 1000);
            control.on_pause(Press::Frames);
            let now = Instant::from_nanos(late * 1_000_000);
            let mut sent = 0;
            while control.next() <= now {
                control.on_sent(now, 1000);
                sent += 1;
            }
            assert_eq!(sent, frames, "{late} ms late");
        }
    }
}
