//! State required to undo a reduction: RFC 4015 (timestamps), RFC 3708 (duplicate SACKs).

use crate::seq::Seq;
use crate::time::Instant;

/// The episode that may be undone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Undo {
    /// `snd_una` when the episode began; `None` if there is nothing to undo.
    marker: Option<Seq>,
    /// Retransmissions that no duplicate SACK has reported as spurious; `None` before the first one.
    open: Option<u32>,
    /// Time of the first retransmission.
    first_resent: Option<Instant>,
    /// True if the reduction is final, as after an echoed mark, which is certain.
    certain: bool,
}

impl Undo {
    /// Starts an episode while `resent` retransmissions are in flight.
    pub fn begin(&mut self, una: Seq, resent: u32) {
        self.marker = Some(una);
        self.open = (resent > 0).then_some(resent);
    }

    /// Makes the reduction final.
    pub fn forbid(&mut self) {
        self.certain = true;
    }

    /// Starts a reduction that may be undone.
    pub fn allow(&mut self) {
        self.certain = false;
    }

    /// Returns whether the reduction can be undone.
    pub const fn restores(&self) -> bool {
        !self.certain
    }

    /// Discards the episode: nothing can be undone any more.
    pub fn forget(&mut self) {
        self.marker = None;
    }

    /// Returns whether there is an episode.
    pub const fn is_open(&self) -> bool {
        self.marker.is_some()
    }

    /// Records that no retransmission is in flight any more: the next one is the first of its episode.
    pub fn restart_clock(&mut self) {
        self.first_resent = None;
    }

    /// Records a retransmission.
    pub fn on_resent(&mut self, now: Instant) {
        self.open = Some(self.open.unwrap_or(0) + 1);
        self.first_resent.get_or_insert(now);
    }

    /// Records a report that `segments` retransmissions up to `end` were spurious.
    pub fn on_duplicate(&mut self, end: Seq, segments: u32) {
        if let (Some(marker), Some(open)) = (self.marker, &mut self.open)
            && end.gt(marker)
        {
            *open = open.saturating_sub(segments);
        }
    }

    /// Returns whether every retransmission was spurious.
    pub fn all_were_needless(&self) -> bool {
        self.is_open() && self.open == Some(0)
    }

    /// Returns whether the acknowledged segment left before the first retransmission: the peer echoes a timestamp older
    /// than that. Clocks count milliseconds, so within one tick the order is unknown (Linux `tcp_packet_delayed`).
    pub fn original_arrived(&self, echoed: Option<Instant>) -> bool {
        let tick = |at: Instant| at.as_nanos() / 1_000_000;
        match self.first_resent {
            Some(first) => echoed.is_some_and(|echoed| tick(echoed) < tick(first)),
            None => true,
        }
    }
}
