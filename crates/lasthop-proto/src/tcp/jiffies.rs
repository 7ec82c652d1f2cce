//! Linux's clock for timers: ticks, and a wheel that rounds up where it is coarse.

use crate::tcp::config::{Clock, Switch, TcpConfig};
use crate::time::{Duration, Instant};

/// A clock that ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jiffies {
    /// Distance of ticks.
    pub jiffy: Duration,
    /// Whether the wheel's outer levels are coarser.
    pub wheel: Switch,
    /// The age of the tick counter at the start of the run.
    pub phase: Duration,
}

impl Jiffies {
    /// The clock of a host, if it has such a one.
    pub fn of(config: &TcpConfig, phase: Duration) -> Option<Self> {
        match config.clock {
            Clock::Jiffies { jiffy, wheel } => Some(Self { jiffy, wheel, phase }),
            Clock::Fine | Clock::Ticks { .. } => None,
        }
    }

    /// The number of the last tick by `now`.
    pub fn at(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_add(self.phase.as_nanos()) / self.jiffy.as_nanos().max(1)
    }

    /// A span in ticks, rounded up.
    pub fn ticks(&self, span: Duration) -> u64 {
        span.as_nanos().div_ceil(self.jiffy.as_nanos().max(1))
    }

    /// When a timer fires that is set at `now` to expire at the tick of number `expires`. The wheel has levels of 64 slots; each
    /// counts in eight times the ticks of the one below, and a slot fires when it has passed as a whole (`calc_index`).
    pub fn fires(&self, now: Instant, expires: u64) -> Instant {
        let ticks = expires.saturating_sub(self.at(now));
        let level = if self.wheel.is_on() { (0..8).find(|level| ticks < 63 << (3 * level)).unwrap_or(8) } else { 0 };
        let fires = ((expires >> (3 * level)) + 1) << (3 * level);
        let nanos = fires.saturating_mul(self.jiffy.as_nanos().max(1)).saturating_sub(self.phase.as_nanos());
        Instant::from_nanos(nanos)
    }

    /// When a timer fires that is set at `now` to expire `span` later: at a tick, the span in ticks rounded up.
    pub fn deadline(&self, now: Instant, span: Duration) -> Instant {
        self.fires(now, self.at(now) + self.ticks(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HZ = 250: a tick each 4 ms. Below 252 ms timers fire at the tick after they expire; from there on at one of every
    /// eighth tick, from 2,016 ms at one of every 64th.
    #[test]
    fn timers_fire_at_ticks_that_the_wheel_rounds_up() {
        let deadline = |now: u64, millis: u64, wheel: Switch| {
            let jiffies = Jiffies { jiffy: Duration::from_millis(4), wheel, phase: Duration::ZERO };
            let now = Instant::from_nanos(now * 1_000_000);
            jiffies.deadline(now, Duration::from_millis(millis)).as_nanos() / 1_000_000
        };
        assert_eq!(deadline(0, 10, Switch::On), 16);
        assert_eq!(deadline(3, 12, Switch::On), 16);
        assert_eq!(deadline(0, 248, Switch::On), 252);
        assert_eq!(deadline(0, 252, Switch::On), 256);
        assert_eq!(deadline(0, 260, Switch::On), 288);
        assert_eq!(deadline(0, 260, Switch::Off), 264);
        assert_eq!(deadline(27, 260, Switch::On), 288);
        assert_eq!(deadline(28, 260, Switch::On), 320);
        assert_eq!(deadline(0, 2016, Switch::On), 2048);
        assert_eq!(deadline(100, 2016, Switch::On), 2304);
    }
}
