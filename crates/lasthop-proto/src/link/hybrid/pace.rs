//! Pacing of frames at a rate.

use crate::time::{Duration, Instant};

/// Maximum time on which a driver with a large scheduling delay may catch up. More data would then queue in front of
/// the hop.
const CATCH_UP: Duration = Duration::from_millis(8);

/// Indicates whether frames wait only for the pacing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Press {
    /// Frames are waiting: if the driver calls after the next one may leave, the driver left the hop idle.
    Frames,
    /// The hop is idle for lack of frames.
    Nothing,
}

/// Pacer of frames.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    rate: u64,
    /// Number of bytes sent.
    total: u64,
    next: Instant,
    /// Scheduling slack allowed for the driver.
    lag: Duration,
    /// State since the last frame.
    press: Press,
}

impl Pacer {
    /// Returns a pacer at `rate` bits per second.
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), total: 0, next: Instant::ZERO, lag: Duration::ZERO, press: Press::Nothing }
    }

    /// Changes the rate of subsequent frames.
    pub fn change(&mut self, rate: u64) {
        self.rate = rate.max(1);
    }

    /// Returns the number of bytes sent.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the transmission time of `bytes` bytes.
    pub fn time_for(&self, bytes: u32) -> Duration {
        time_at(self.rate, bytes)
    }

    /// Returns the time at which the next frame may leave.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Records that a frame of `bytes` bytes leaves.
    pub fn on_sent(&mut self, now: Instant, bytes: u32) {
        self.on_sent_at(now, bytes, self.rate);
    }

    /// Records that a frame of `bytes` bytes leaves, which counts as if the rate were `rate` bits per second.
    pub fn on_sent_at(&mut self, now: Instant, bytes: u32, rate: u64) {
        let credit = match self.press {
            Press::Frames if self.lag > Duration::ZERO => CATCH_UP.max(self.lag),
            Press::Frames | Press::Nothing => self.lag,
        };
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(credit.as_nanos()));
        self.next = self.next.max(earliest) + time_at(rate, bytes);
        self.total += u64::from(bytes);
    }

    /// Records whether frames are waiting, at a time when none may leave.
    pub fn on_pause(&mut self, press: Press) {
        self.press = press;
    }

    pub fn lag(&self) -> Duration {
        self.lag
    }

    /// Lets a driver with a scheduling delay of up to `lag` catch up on missed transmissions, or up to [`CATCH_UP`] if
    /// frames waited for it.
    pub fn tolerate(&mut self, lag: Duration) {
        self.lag = lag;
    }
}

/// Returns the transmission time of `bytes` bytes at `rate` bits per second.
pub(super) fn time_at(rate: u64, bytes: u32) -> Duration {
    Duration::from_nanos((u64::from(bytes) * 8_000_000_000).div_ceil(rate.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes per millisecond. A driver that is 5 ms late sends the data of the last 2 ms, if allowed.
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

    /// If frames wait, it catches up on all of them, up to 8 ms; a driver without slack catches up on nothing.
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
