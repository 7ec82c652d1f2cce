//! Pacing of segments (Linux's internal pacing, `tcp_update_skb_after_send`).

use crate::seq::Seq;
use crate::tcp::congestion::control::Pacing;
use crate::time::{Duration, Instant};

/// Number of initial segments of a connection that are not paced.
const FREE: u32 = 10;

/// A segment about to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First sequence number of the piece.
    pub seq: Seq,
    /// Time at which the piece left last, if it is retransmitted.
    pub left_at: Option<Instant>,
}

impl Piece {
    /// Placeholder before the first segment.
    pub const NONE: Self = Self { seq: Seq(0), left_at: None };
}

/// Spaces bursts. A burst that leaves late, because a timer fired late, catches up by at most half of the interval to
/// the next one.
///
/// A burst is one packet in Linux, split by the device (TSO): new data without a gap, or such a packet that is
/// retransmitted (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`). Segments after it wait.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Time before which no burst begins.
    release: Instant,
    /// Number of the connection's segments that still leave unpaced.
    free: u32,
    /// Number of segments that the current burst still takes.
    left: u32,
    /// Delay of the burst that is not caught up yet.
    credit: Duration,
    /// Start of the current burst.
    began: Instant,
    /// Segment that would continue the burst.
    next: Piece,
}

impl Default for Pacer {
    fn default() -> Self {
        let next = Piece::NONE;
        Self { release: Instant::ZERO, free: FREE, left: 0, credit: Duration::ZERO, began: Instant::ZERO, next }
    }
}

impl Pacer {
    /// Returns the earliest time at which `piece` may leave; `None` if it may leave now.
    pub fn blocked_until(&self, now: Instant, piece: Piece) -> Option<Instant> {
        (self.release > now && !self.goes_on(now, piece)).then_some(self.release)
    }

    /// Returns whether `piece` belongs to the current burst.
    pub fn goes_on(&self, now: Instant, piece: Piece) -> bool {
        self.left > 0 && self.began == now && self.next == piece
    }

    /// Returns the time from now until a segment may leave.
    pub fn delay(&self, now: Instant) -> Duration {
        self.release.since(now)
    }

    /// Records that `piece` leaves, with `bytes` of payload.
    pub fn on_sent(&mut self, now: Instant, piece: Piece, bytes: u32, pacing: Pacing) {
        if !self.goes_on(now, piece) {
            self.credit = now.since(self.release);
            self.release = self.release.max(now);
            (self.left, self.began) = (pacing.quantum.max(1), now);
        }
        self.left -= 1;
        self.next = Piece { seq: piece.seq + bytes, ..piece };
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

    /// 1000 bytes per millisecond.
    const PACING: Pacing = Pacing { rate: 1_000_000, quantum: 1 };

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Returns segment `number`, 1000 bytes of new data.
    fn new(number: u32) -> Piece {
        Piece { seq: Seq(number * 1000), left_at: None }
    }

    /// Returns segment `number`, retransmitted after it left at `micros`.
    fn again(number: u32, micros: u64) -> Piece {
        Piece { left_at: Some(at(micros)), ..new(number) }
    }

    /// Returns a pacer after segments 0 to 9 have left.
    fn paced() -> Pacer {
        let mut pacer = Pacer::default();
        for number in 0..FREE {
            assert_eq!(pacer.blocked_until(at(0), new(number)), None, "the first ten leave at once");
            pacer.on_sent(at(0), new(number), 1000, PACING);
        }
        pacer
    }

    #[test]
    fn segments_keep_their_distance() {
        let mut pacer = paced();
        pacer.on_sent(at(0), new(10), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(999), new(11)), Some(at(1000)));
        assert_eq!(pacer.blocked_until(at(1000), new(11)), None);
    }

    #[test]
    fn lateness_is_made_up_for_by_half_a_distance_at_most() {
        let mut pacer = paced();
        pacer.on_sent(at(0), new(10), 1000, PACING);
        pacer.on_sent(at(1200), new(11), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(1200), new(12)), Some(at(2000)));
        pacer.on_sent(at(5000), new(12), 1000, PACING);
        assert_eq!(pacer.blocked_until(at(5000), new(13)), Some(at(5500)));
    }

    #[test]
    fn a_rate_of_nothing_holds_nothing_back() {
        let mut pacer = paced();
        pacer.on_sent(at(0), new(10), 1000, Pacing { rate: 0, ..PACING });
        assert_eq!(pacer.blocked_until(at(0), new(11)), None);
    }

    #[test]
    fn a_burst_leaves_at_once_and_is_paid_for() {
        let mut pacer = paced();
        let pacing = Pacing { quantum: 3, ..PACING };
        for number in 10..13 {
            pacer.on_sent(at(100), new(number), 1000, pacing);
            assert_eq!(pacer.blocked_until(at(100), new(number + 1)).is_none(), number < 12);
        }
        // 100 us late, so 2.9 ms instead of 3.
        assert_eq!(pacer.blocked_until(at(100), new(13)), Some(at(3000)));
    }

    #[test]
    fn a_burst_ends_where_new_data_follows_what_is_sent_again() {
        let mut pacer = paced();
        let pacing = Pacing { quantum: 9, ..PACING };
        for number in [3, 4] {
            assert_eq!(pacer.blocked_until(at(100), again(number, 0)), None);
            pacer.on_sent(at(100), again(number, 0), 1000, pacing);
        }
        let later = Some(at(2000));
        assert_eq!(pacer.blocked_until(at(100), again(5, 0)), None, "of the same packet");
        assert_eq!(pacer.blocked_until(at(100), again(5, 50)), later, "of another packet");
        assert_eq!(pacer.blocked_until(at(100), again(6, 0)), later, "behind a gap");
        assert_eq!(pacer.blocked_until(at(100), new(5)), later, "new");
    }
}
