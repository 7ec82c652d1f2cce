//! When the next segment may leave (Linux's internal pacing, `tcp_update_skb_after_send`).

use super::congestion::control::Pacing;
use crate::time::{Duration, Instant};

/// Segments of a connection that are not paced.
const FREE: u32 = 10;

/// Keeps the distance between bursts. A burst that leaves late, because a timer did, makes up for at most half of the
/// distance to the next one.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// No burst begins before this.
    release: Instant,
    /// Segments of the connection that still leave unpaced.
    free: u32,
    /// Segments that the burst under way still takes.
    left: u32,
    /// By how much it left late, as far as it is not made up for.
    credit: Duration,
    /// When it began.
    began: Instant,
}

impl Default for Pacer {
    fn default() -> Self {
        Self { release: Instant::ZERO, free: FREE, left: 0, credit: Duration::ZERO, began: Instant::ZERO }
    }
}

impl Pacer {
    /// Until when nothing may leave; `None` where something may leave now.
    pub fn blocked_until(&self, now: Instant) -> Option<Instant> {
        let in_burst = self.left > 0 && self.began == now;
        (self.release > now && !in_burst).then_some(self.release)
    }

    /// How long from now until something may leave.
    pub fn delay(&self, now: Instant) -> Duration {
        self.release.since(now)
    }

    /// `bytes` of payload leave.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, pacing: Pacing) {
        if self.left == 0 || self.began != now {
            self.credit = now.since(self.release);
            self.release = self.release.max(now);
            (self.left, self.began) = (pacing.quantum.max(1), now);
        }
        self.left -= 1;
        if self.free > 0 {
            self.free -= 1;
            return;
        }
        // Linux `tcp_update_skb_after_send`.
        if pacing.rate == 0 {
            return;
        }
        let nanos = u64::from(bytes).saturating_mul(1_000_000_000) / pacing.rate;
        let made_up = self.credit.as_nanos().min(nanos / 2);
        self.credit = Duration::from_nanos(self.credit.as_nanos() - made_up);
        self.release += Duration::from_nanos(nanos - made_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes each millisecond.
    const PACING: Pacing = Pacing { rate: 1_000_000, quantum: 1 };

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn paced() -> Pacer {
        let mut pacer = Pacer::default();
        for _ in 0..FREE {
            assert_eq!(pacer.blocked_until(at(0)), None, "the first ten leave at once");
            pacer.on_sent(at(0), 1000, PACING);
        }
        pacer
    }

    #[test]
    fn segments_keep_their_distance() {
        let mut pacer = paced();
        pacer.on_sent(at(0), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(999)), Some(at(1000)));
        assert_eq!(pacer.blocked_until(at(1000)), None);
    }

    #[test]
    fn lateness_is_made_up_for_by_half_a_distance_at_most() {
        let mut pacer = paced();
        pacer.on_sent(at(0), 1000, PACING);
        pacer.on_sent(at(1200), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(1200)), Some(at(2000)));
        pacer.on_sent(at(5000), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(5000)), Some(at(5500)));
    }

    #[test]
    fn a_rate_of_nothing_holds_nothing_back() {
        let mut pacer = paced();
        pacer.on_sent(at(0), 1000, Pacing { rate: 0, ..PACING });
        assert_eq!(pacer.blocked_until(at(0)), None);
    }

    #[test]
    fn a_burst_leaves_at_once_and_is_paid_for() {
        let mut pacer = paced();
        let pacing = Pacing { quantum: 3, ..PACING };
        for left in (0..3).rev() {
            pacer.on_sent(at(100), 1000, pacing);
            assert_eq!(pacer.blocked_until(at(100)).is_none(), left > 0);
        }
        // 100 us late, so 2.9 ms and not 3.
        assert_eq!(pacer.blocked_until(at(100)), Some(at(3000)));
    }
}
