//! What is needed to take a reduction back: RFC 4015 (timestamps), RFC 3708 (duplicate SACKs).

use crate::seq::Seq;
use crate::time::Instant;

/// The episode that may be undone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Undo {
    /// `snd_una` when it began; none where there is nothing to undo.
    marker: Option<Seq>,
    /// Retransmissions that no duplicate SACK has reported as needless; none before the first one.
    open: Option<u32>,
    /// When the first retransmission left.
    first_resent: Option<Instant>,
    /// Whether the reduction can be taken back: an echoed mark is certain.
    certain: bool,
}

impl Undo {
    /// An episode begins while `resent` retransmissions are under way.
    pub fn begin(&mut self, una: Seq, resent: u32) {
        self.marker = Some(una);
        self.open = (resent > 0).then_some(resent);
    }

    /// The reduction stands.
    pub fn forbid(&mut self) {
        self.certain = true;
    }

    /// A reduction begins that may be taken back.
    pub fn allow(&mut self) {
        self.certain = false;
    }

    /// Whether what was reduced can be restored.
    pub const fn restores(&self) -> bool {
        !self.certain
    }

    /// Nothing can be undone any more.
    pub fn forget(&mut self) {
        self.marker = None;
    }

    /// Whether there is an episode.
    pub const fn is_open(&self) -> bool {
        self.marker.is_some()
    }

    /// No retransmission is out any more: the next one is the first of its episode.
    pub fn restart_clock(&mut self) {
        self.first_resent = None;
    }

    /// A retransmission leaves.
    pub fn on_resent(&mut self, now: Instant) {
        self.open = Some(self.open.unwrap_or(0) + 1);
        self.first_resent.get_or_insert(now);
    }

    /// The peer says that `segments` retransmissions up to `end` were needless.
    pub fn on_duplicate(&mut self, end: Seq, segments: u32) {
        if let (Some(marker), Some(open)) = (self.marker, &mut self.open)
            && end.gt(marker)
        {
            *open = open.saturating_sub(segments);
        }
    }

    /// Whether every retransmission was needless.
    pub fn all_were_needless(&self) -> bool {
        self.is_open() && self.open == Some(0)
    }

    /// Whether what was acknowledged had left before the first retransmission: the peer echoes a timestamp older than that.
    /// Clocks count milliseconds, so within one tick nothing can be told (Linux `tcp_packet_delayed`).
    pub fn original_arrived(&self, echoed: Option<Instant>) -> bool {
        let tick = |at: Instant| at.as_nanos() / 1_000_000;
        match self.first_resent {
            Some(first) => echoed.is_some_and(|echoed| tick(echoed) < tick(first)),
            None => true,
        }
    }
}
