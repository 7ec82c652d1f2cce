//! Control of the peer's acknowledgments by a sender (RFC 5690 §4.4, §4.5; RFC 4341 §6.1.2): it detects lost or marked
//! acknowledgments, and sends the peer the ratio R, the number of segments per acknowledgment.

use alloc::boxed::Box;
use core::num::NonZeroU8;

use super::Sender;
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// Minimum and initial ratio. RFC 5690 §4.5 allows 1 if the window is at most three segments, and makes this optional.
const LEAST: u8 = 2;

/// Number of acknowledgments that must follow a gap before the missing ones are declared lost instead of reordered (RFC
/// 5690 §5.4, like duplicates for data).
const PATIENCE: u8 = 3;

/// Effect of an acknowledgment on the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Acknowledges this number of bytes more than those before.
    New(u64),
    /// Acknowledges less than an earlier acknowledgment: the network reordered it.
    Late,
    /// Reports out-of-order data.
    Disorder,
    /// Gives no information on the order: a window update, or an answer.
    Other,
}

/// State of the stream: positions as counted by [`Stream`](crate::tcp::stream::Stream).
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Position up to which everything is acknowledged.
    acknowledged: u64,
    /// Position up to which everything was sent.
    sent: u64,
}

/// The window, which limits the ratio.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Maximum outstanding data, in segments: the congestion window or, if that is less, the peer's.
    segments: u64,
    /// Bytes of a full segment.
    mss: u64,
}

impl Window {
    /// Returns half the window, rounded up, but at least 2 (RFC 5690 §4.5, with K = 2) and at most 255, the limit of
    /// the option.
    fn most(self) -> u8 {
        u8::try_from(self.segments.div_ceil(2)).unwrap_or(u8::MAX).max(LEAST)
    }
}

/// The ratio, and the state from which it derives.
#[derive(Clone, Debug)]
pub(super) struct AckRatio {
    /// R.
    ratio: u8,
    /// Maximum ratio that the peer may still use.
    in_use: u8,
    /// Position whose acknowledgment shows that the peer knows the ratio. Until then, acknowledgments refer to the
    /// window for which it was changed.
    changed_at: u64,
    /// Position until whose acknowledgment data may be out of order at the peer, so that acknowledgments jump without a
    /// loss (RFC 5690 §4.4.1).
    disorder_until: u64,
    /// Number of acknowledgments after which those missing in a gap count as lost.
    suspicion: Option<u8>,
    /// Number of segments to be acknowledged, without a loss or a mark, until R decreases by one.
    quiet: u64,
}

impl AckRatio {
    pub const fn new() -> Self {
        Self { ratio: LEAST, in_use: LEAST, changed_at: 0, disorder_until: 0, suspicion: None, quiet: u64::MAX }
    }

    /// Returns whether the peer knows the ratio. It therefore changes at most once per round trip.
    const fn is_known(&self, acknowledged: u64) -> bool {
        acknowledged > self.changed_at
    }

    fn change(&mut self, ratio: u8, stream: Progress) {
        let known = self.is_known(stream.acknowledged);
        self.in_use = ratio.max(if known { self.ratio } else { self.in_use });
        (self.ratio, self.changed_at, self.suspicion) = (ratio, stream.sent, None);
    }

    /// Restarts the count until R decreases by one: W / (R² - R) windows of W segments without a loss or a mark (RFC
    /// 5690 §4.5), counted in segments.
    fn restart_quiet(&mut self, window: Window) {
        let ratio = u64::from(self.ratio);
        self.quiet = window.segments * window.segments / (ratio * ratio - ratio);
    }

    /// Limits the ratio after the window may have shrunk.
    fn bound(&mut self, stream: Progress, window: Window) {
        if self.ratio > window.most() {
            self.change(window.most(), stream);
            self.restart_quiet(window);
        }
    }

    /// Doubles R, once per window, because an acknowledgment was lost or marked.
    fn on_congestion(&mut self, stream: Progress, window: Window) {
        self.suspicion = None;
        let doubled = self.ratio.saturating_mul(2).min(window.most());
        if doubled != self.ratio && self.is_known(stream.acknowledged) {
            self.change(doubled, stream);
        }
        self.restart_quiet(window);
    }

    /// Processes an acknowledgment. Before it, everything up to `before` was acknowledged.
    fn on_ack(&mut self, kind: Kind, mark: Switch, before: u64, stream: Progress, window: Window) {
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

    /// Processes an acknowledgment of more of the stream, with all data in order.
    fn on_new(&mut self, bytes: u64, stream: Progress, window: Window) {
        match &mut self.suspicion {
            Some(0 | 1) => return self.on_congestion(stream, window),
            Some(left) => *left -= 1,
            // RFC 5690 §4.4: more than the ratio at once, so one in between is missing.
            None if bytes > u64::from(self.in_use) * window.mss => self.suspicion = Some(PATIENCE),
            None => {}
        }
        self.quiet = self.quiet.saturating_sub(bytes.div_ceil(window.mss));
        if self.quiet == 0 && self.ratio > LEAST && self.suspicion.is_none() && self.is_known(stream.acknowledged) {
            self.change(self.ratio - 1, stream);
            self.restart_quiet(window);
        }
    }

    /// Records a retransmission.
    pub fn on_sent_again(&mut self, sent: u64) {
        (self.disorder_until, self.suspicion) = (sent, None);
    }
}

/// A processed acknowledgment, with details that the sender has not seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Position of the first byte that was unacknowledged before.
    pub before: u64,
    /// Acknowledgment number.
    pub ack: Seq,
    /// On if this is a pure acknowledgment.
    pub pure: Switch,
    /// On if the acknowledgment reports out-of-order data.
    pub selective: Switch,
    /// On if a queue has marked the acknowledgment.
    pub mark: Switch,
}

impl Sender {
    /// Enables acknowledgment congestion control after negotiation.
    pub fn control_acks(&mut self) {
        self.ack_ratio = Some(Box::new(AckRatio::new()));
    }

    /// Evaluates a processed acknowledgment.
    #[inline]
    pub fn weigh_ack(&mut self, seen: &Seen) {
        if self.ack_ratio.is_some() {
            self.weigh(seen);
        }
    }

    #[inline(never)]
    fn weigh(&mut self, seen: &Seen) {
        let (stream, window) = self.standing();
        // The FIN does not count as a segment.
        let data = |pos: u64| pos.min(1 + self.stream.queued());
        let kind = if seen.ack.lt(self.stream.snd_una()) {
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
        // An acknowledgment of the SYN does not acknowledge data.
        if let Some(ratio) = self.ack_ratio.as_mut().filter(|_| seen.before > 0) {
            ratio.on_ack(kind, mark, seen.before, stream, window);
        }
    }

    /// Returns the ratio that a data segment has to carry, until the peer has received one with it.
    pub fn ratio_to_tell(&mut self) -> Option<NonZeroU8> {
        let (stream, window) = self.standing();
        let ratio = self.ack_ratio.as_mut()?;
        ratio.bound(stream, window);
        if ratio.is_known(stream.acknowledged) { None } else { NonZeroU8::new(ratio.ratio) }
    }

    fn standing(&self) -> (Progress, Window) {
        let s = &self.stream;
        let mss = s.mss().max(1);
        let window = self.window().0.min(s.flow_window());
        let stream = Progress { acknowledged: s.una_pos(), sent: s.pos(s.snd_max()) };
        (stream, Window { segments: u64::from(window / mss), mss: u64::from(mss) })
    }
}

#[cfg(test)]
#[path = "ack_ratio_tests.rs"]
mod tests;
