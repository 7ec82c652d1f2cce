//! How a sender controls the peer's acknowledgments (RFC 5690 §4.4, §4.5; RFC 4341 §6.1.2): it sees which of them were lost or marked,
//! and tells the peer the ratio R, one acknowledgment for so many segments.

use alloc::boxed::Box;
use core::num::NonZeroU8;

use super::Sender;
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// The least ratio, and the first. RFC 5690 §4.5 allows 1 where the window is at most three segments, and to do without it.
const LEAST: u8 = 2;

/// So many acknowledgments after one that left others out, these are lost and not late (RFC 5690 §5.4, as with duplicates for data).
const PATIENCE: u8 = 3;

/// What an acknowledgment did to the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It acknowledges so many bytes more than those before.
    New(u64),
    /// It acknowledges less than one before: it was late.
    Late,
    /// It tells that something came out of order.
    Disorder,
    /// It tells nothing of the order: it moves the window, or answers.
    Other,
}

/// Where the stream stands: positions as `SendState` counts them.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// All before this is acknowledged.
    acknowledged: u64,
    /// All before this was sent.
    sent: u64,
}

/// The window, by which the ratio is bounded.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// What may be outstanding, in segments: the congestion window or, where that is less, the peer's.
    segments: u64,
    /// Bytes of a full segment.
    mss: u64,
}

impl Window {
    /// Half the window, rounded up; 2 is always allowed (RFC 5690 §4.5, with K = 2). An option has room for 255.
    fn most(self) -> u8 {
        u8::try_from(self.segments.div_ceil(2)).unwrap_or(u8::MAX).max(LEAST)
    }
}

/// The ratio, and what it follows from.
#[derive(Clone, Debug)]
pub(super) struct AckRatio {
    /// R.
    ratio: u8,
    /// The largest ratio that the peer may still keep to.
    in_use: u8,
    /// Until something beyond this position is acknowledged, the peer may not know of the ratio, and acknowledgments tell of the
    /// window that it was changed for.
    changed_at: u64,
    /// Until this is acknowledged something may be out of order at the peer, so that acknowledgments leap though none is lost (RFC
    /// 5690 §4.4.1).
    disorder_until: u64,
    /// After so many acknowledgments more, those that one left out are lost.
    suspicion: Option<u8>,
    /// Segments to be acknowledged, without a loss or a mark, until R falls by one.
    quiet: u64,
}

impl AckRatio {
    pub const fn new() -> Self {
        Self { ratio: LEAST, in_use: LEAST, changed_at: 0, disorder_until: 0, suspicion: None, quiet: u64::MAX }
    }

    /// Whether the peer knows of the ratio. It changes at most once for each round trip, then.
    const fn is_known(&self, acknowledged: u64) -> bool {
        acknowledged > self.changed_at
    }

    fn change(&mut self, ratio: u8, stream: Stream) {
        let known = self.is_known(stream.acknowledged);
        self.in_use = ratio.max(if known { self.ratio } else { self.in_use });
        (self.ratio, self.changed_at, self.suspicion) = (ratio, stream.sent, None);
    }

    /// R falls by one for W / (R² - R) windows of W segments without a loss or a mark (RFC 5690 §4.5), counted in segments.
    fn restart_quiet(&mut self, window: Window) {
        let ratio = u64::from(self.ratio);
        self.quiet = window.segments * window.segments / (ratio * ratio - ratio);
    }

    /// The window may have become smaller.
    fn bound(&mut self, stream: Stream, window: Window) {
        if self.ratio > window.most() {
            self.change(window.most(), stream);
            self.restart_quiet(window);
        }
    }

    /// An acknowledgment was lost or marked: R doubles, once for each window.
    fn on_congestion(&mut self, stream: Stream, window: Window) {
        self.suspicion = None;
        let doubled = self.ratio.saturating_mul(2).min(window.most());
        if doubled != self.ratio && self.is_known(stream.acknowledged) {
            self.change(doubled, stream);
        }
        self.restart_quiet(window);
    }

    /// An acknowledgment came. Before it all up to `before` was acknowledged.
    fn on_ack(&mut self, kind: Kind, mark: Switch, before: u64, stream: Stream, window: Window) {
        self.bound(stream, window);
        if self.is_known(before) {
            self.in_use = self.ratio;
        }
        match kind {
            Kind::Late => self.suspicion = None,
            Kind::Disorder => {
                self.disorder_until = stream.sent;
                self.suspicion = None;
            }
            Kind::New(bytes) if before >= self.disorder_until && !mark.is_on() => self.on_new(bytes, stream, window),
            Kind::New(_) | Kind::Other => {}
        }
        if mark.is_on() {
            self.on_congestion(stream, window);
        }
    }

    /// More of the stream is acknowledged, and all came in order.
    fn on_new(&mut self, bytes: u64, stream: Stream, window: Window) {
        match &mut self.suspicion {
            Some(0 | 1) => return self.on_congestion(stream, window),
            Some(left) => *left -= 1,
            // RFC 5690 §4.4: more than the ratio at once, so that one between is missing.
            None if bytes > u64::from(self.in_use) * window.mss => self.suspicion = Some(PATIENCE),
            None => {}
        }
        self.quiet = self.quiet.saturating_sub(bytes.div_ceil(window.mss));
        if self.quiet == 0 && self.ratio > LEAST && self.suspicion.is_none() && self.is_known(stream.acknowledged) {
            self.change(self.ratio - 1, stream);
            self.restart_quiet(window);
        }
    }

    /// Something is sent again.
    pub fn on_sent_again(&mut self, sent: u64) {
        (self.disorder_until, self.suspicion) = (sent, None);
    }
}

/// An acknowledgment that was taken in, as far as the sender has not seen it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Position of the first byte that was unacknowledged before.
    pub before: u64,
    /// What it acknowledges.
    pub ack: Seq,
    /// Whether it is an acknowledgment and nothing else.
    pub pure: Switch,
    /// Whether it tells of data out of order.
    pub selective: Switch,
    /// Whether a queue has marked it.
    pub mark: Switch,
}

impl Sender {
    /// Both ends have agreed on acknowledgment congestion control.
    pub fn control_acks(&mut self) {
        self.ack_ratio = Some(Box::new(AckRatio::new()));
    }

    /// Looks at an acknowledgment that was taken in.
    #[inline]
    pub fn weigh_ack(&mut self, seen: &Seen) {
        if self.ack_ratio.is_some() {
            self.weigh(seen);
        }
    }

    #[inline(never)]
    fn weigh(&mut self, seen: &Seen) {
        let (stream, window) = self.standing();
        // The FIN is no segment more.
        let data = |pos: u64| pos.min(1 + self.state.queued);
        let kind = if seen.ack.lt(self.state.snd_una) {
            Kind::Late
        } else if seen.selective.is_on() {
            Kind::Disorder
        } else if stream.acknowledged > seen.before {
            Kind::New(data(stream.acknowledged) - data(seen.before))
        } else if seen.pure.is_on() && stream.sent > stream.acknowledged {
            Kind::Disorder
        } else {
            Kind::Other
        };
        let mark = if seen.pure.is_on() { seen.mark } else { Switch::Off };
        // The SYN's is no acknowledgment of data.
        if let Some(ratio) = self.ack_ratio.as_mut().filter(|_| seen.before > 0) {
            ratio.on_ack(kind, mark, seen.before, stream, window);
        }
    }

    /// The ratio for a segment with data to tell, until the peer has one that told it.
    pub fn ratio_to_tell(&mut self) -> Option<NonZeroU8> {
        let (stream, window) = self.standing();
        let ratio = self.ack_ratio.as_mut()?;
        ratio.bound(stream, window);
        if ratio.is_known(stream.acknowledged) { None } else { NonZeroU8::new(ratio.ratio) }
    }

    fn standing(&self) -> (Stream, Window) {
        let s = &self.state;
        let mss = s.mss.max(1);
        let window = self.window().0.min(s.flow_window());
        let stream = Stream { acknowledged: s.una_pos, sent: s.pos(s.snd_max) };
        (stream, Window { segments: u64::from(window / mss), mss: u64::from(mss) })
    }
}

#[cfg(test)]
#[path = "ack_ratio_tests.rs"]
mod tests;
