//! Usage of the window: an unused window must not grow (RFC 7661; Linux `tcp_cwnd_validate`).

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Usage of the window by the last flights.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// True if the window was full.
    limited: bool,
    /// Maximum number of outstanding segments.
    most_out: u32,
    /// Sequence number until the acknowledgment of which these values are valid.
    until: Seq,
    /// Maximum number of outstanding segments since `stamp`.
    used: u32,
    /// Time at which the window was last in use.
    stamp: Instant,
}

/// State at the end of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Segments that are not acknowledged.
    pub out: u32,
    /// Congestion window.
    pub window: u32,
    /// True if the window is below the threshold.
    pub slow_start: bool,
    /// True if the window permitted no more.
    pub full: bool,
    /// `snd_una` and `snd_nxt`.
    pub span: (Seq, Seq),
}

impl Usage {
    /// Returns whether the window may grow: it was full in the last flight or, in slow start, half of the window was
    /// outstanding.
    pub fn is_limited(&self, window: u32, slow_start: bool) -> bool {
        self.limited || slow_start && window < self.most_out.saturating_mul(2)
    }

    /// Records a burst. If the window was not fully used for `rto`, returns the part of it that was used (RFC 2861).
    pub fn on_burst(&mut self, now: Instant, burst: &Burst, rto: Duration) -> Option<u32> {
        let (una, nxt) = burst.span;
        if una.ge(self.until) || burst.full || !self.limited && burst.out > self.most_out {
            (self.limited, self.most_out, self.until) = (burst.full, burst.out, nxt);
        }
        if self.is_limited(burst.window, burst.slow_start) {
            (self.used, self.stamp) = (0, now);
            return None;
        }
        self.used = self.used.max(burst.out);
        if now.since(self.stamp) < rto {
            return None;
        }
        self.stamp = now;
        Some(core::mem::take(&mut self.used))
    }

    /// Records that the window was set to a new value.
    pub fn restart(&mut self, now: Instant) {
        (self.used, self.stamp) = (0, now);
    }
}
