//! When the next frame may leave: pacing at a rate.

use crate::time::{Duration, Instant};

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
pub(super) struct Pacer {
    rate: u64,
    /// Bytes that left.
    total: u64,
    next: Instant,
    /// By so much the driver may be late.
    lag: Duration,
    /// Since the last frame.
    press: Press,
}

impl Pacer {
    /// Sends at so many bits per second.
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), total: 0, next: Instant::ZERO, lag: Duration::ZERO, press: Press::Nothing }
    }

    /// What leaves from now on takes its time at another rate.
    pub fn change(&mut self, rate: u64) {
        self.rate = rate.max(1);
    }

    /// Bytes that left.
    pub fn total(&self) -> u64 {
        self.total
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
        self.total += u64::from(bytes);
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
            let mut pacer = Pacer::new(8_000_000);
            pacer.tolerate(Duration::from_millis(lag));
            pacer.on_sent(Instant::ZERO, 1000);
            let now = Instant::from_nanos(5_000_000);
            let mut sent = 0;
            while pacer.next() <= now {
                pacer.on_sent(now, 1000);
                sent += 1;
            }
            assert_eq!(sent, frames);
        }
    }

    /// Where frames wait, it makes up for all of it, but no more than 8 ms; a driver that may not be late, for nothing.
    #[test]
    fn a_very_late_driver_makes_up_for_what_waited() {
        for (lag, late, frames) in [(3, 6, 6), (3, 40, 9), (0, 6, 1)] {
            let mut pacer = Pacer::new(8_000_000);
            pacer.tolerate(Duration::from_millis(lag));
            pacer.on_sent(Instant::ZERO, 1000);
            pacer.on_pause(Press::Frames);
            let now = Instant::from_nanos(late * 1_000_000);
            let mut sent = 0;
            while pacer.next() <= now {
                pacer.on_sent(now, 1000);
                sent += 1;
            }
            assert_eq!(sent, frames, "{late} ms late");
        }
    }
}
