//! One direction of a connection: what one end sends, and how far the other has acknowledged and allowed it.

use super::Take;
use crate::packet::{Flags, Segment, Timestamps};
use crate::seq::Seq;

/// Maximum distance of numbers within the same window (RFC 7323 §2.3).
const FAR: u32 = 1 << 30;

/// Bytes that a sender may send beyond a closed window: a probe (RFC 9293 §3.8.6.1), and its FIN.
const PROBE: u32 = 2;

/// Maximum distance, in bytes, between two packets from opposite ends of a connection about which nothing else is
/// known, and maximum data in flight if the window scale is unknown.
const UNSEEN: u32 = 4 << 20;

/// Shift of the windows that an end advertises (RFC 7323 §2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// As in its SYN.
    Known(u8),
    /// Its SYN was not seen; the data that it has acknowledged requires at least this.
    AtLeast(u8),
}

impl Scale {
    /// Maximum shift (RFC 7323 §2.3).
    pub const MOST: u8 = 14;

    fn bytes(self, window: u16) -> u32 {
        match self {
            Self::Known(shift) => u32::from(window) << shift,
            Self::AtLeast(shift) => (u32::from(window) << shift).min(UNSEEN),
        }
    }
}

/// A segment that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sight {
    pub segment: Segment,
    /// One past its last byte, its FIN included.
    pub end: Seq,
    pub ack: Seq,
}

impl Sight {
    pub fn of(segment: &Segment, len: u32) -> Self {
        let fin = u32::from(segment.flags.has(Flags::FIN));
        Self { segment: *segment, end: segment.seq + len.saturating_add(fin), ack: segment.ack }
    }

    /// Returns whether both may be of one connection, from its two ends.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let near = |a: Seq, b: Seq| a.since(b).max(b.since(a)) <= UNSEEN;
        near(self.ack, other.end) && near(other.ack, self.segment.seq)
    }

    /// Returns whether the same end may have sent both in sequence: this one continues with the next byte, or repeats
    /// `last`.
    pub fn follows(&self, last: &Self) -> bool {
        self.segment.seq == last.end || self.segment.seq == last.segment.seq
    }

    /// Returns whether the same end may have sent this after `last`, with news: the bytes that follow, or a higher
    /// acknowledgment. Neither acknowledgments nor timestamps of an end move back (RFC 7323 §5.3).
    pub fn goes_on_from(&self, last: &Self) -> bool {
        let is_later = match (last.timestamps(), self.timestamps()) {
            (Some(before), Some(now)) => Seq(now.val).ge(Seq(before.val)),
            (None, None) => true,
            _ => false,
        };
        let has_more = self.segment.seq == last.end && self.has_data() && last.has_data();
        is_later && self.ack.ge(last.ack) && (has_more || (self.follows(last) && self.ack != last.ack))
    }

    /// Returns whether it carries bytes of the stream, or its end.
    pub fn has_data(&self) -> bool {
        self.end != self.segment.seq
    }

    fn timestamps(&self) -> Option<Timestamps> {
        self.segment.options.timestamps
    }
}

/// Returns whether a number lies in `from..=to`. Of two numbers 2^31 apart neither is the later one.
fn is_within(number: Seq, from: Seq, to: Seq) -> bool {
    number.0.wrapping_sub(from.0) <= to.0.wrapping_sub(from.0)
}

/// Returns the later of two timestamps, either of which may be unknown.
pub(in crate::pep) fn latest(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Seq(a).max(Seq(b)).0),
        (a, b) => a.or(b),
    }
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    /// SND.NXT, as far as seen.
    pub next: Seq,
    /// SND.NXT judged by segments with data alone: a keepalive has the number before (RFC 9293 §3.8.4).
    pub carried: Seq,
    /// End of the stream, if a FIN was sent after all data seen so far.
    fin: Option<Seq>,
    /// RCV.NXT of the other end, as last acknowledged.
    pub acked: Option<Seq>,
    /// Lowest valid number: the start of the stream, or one window behind.
    first: Seq,
    /// Right edge of the window that the other end advertised; it does not move left here.
    edge: Seq,
    /// Largest window that it advertised, in bytes.
    window: u32,
    /// Window field of the highest acknowledgment.
    pub field: u16,
    /// End of data outside the known window that the other end may have accepted: the scale is unknown, or the data
    /// crossed the edge.
    claim: Option<Seq>,
    /// Sequence number at the end of data that was further ahead than all previous data, and the window scale that
    /// would have allowed it.
    trial: Option<(Seq, u8)>,
    /// Sequence number at the end of an observed zero-window probe.
    probe: Option<Seq>,
    /// Highest TSval.
    newest: Option<u32>,
    /// Highest TSecr that the other end sent: its TS.Recent.
    pub echoed: Option<u32>,
}

impl Half {
    /// Returns the state before anything was sent.
    pub const NONE: Self = Self {
        next: Seq(0),
        carried: Seq(0),
        fin: None,
        acked: None,
        first: Seq(0),
        edge: Seq(0),
        window: 0,
        field: 0,
        claim: None,
        trial: None,
        probe: None,
        newest: None,
        echoed: None,
    };

    /// Returns the state after all data up to `next` was sent, `segment` last, while the other end expects `first` or
    /// more.
    pub fn new(first: Seq, next: Seq, segment: &Segment) -> Self {
        let newest = segment.options.timestamps.map(|timestamps| timestamps.val);
        Self { next, carried: next, first, edge: first, newest, ..Self::NONE }
    }

    /// Returns the lowest number that the other end can expect.
    pub fn base(&self) -> Seq {
        self.acked.unwrap_or(self.first)
    }

    /// Returns whether nothing follows its FIN. A spoofed FIN in the middle of the stream ends nothing: the end itself
    /// continues to send.
    pub fn has_ended(&self) -> bool {
        self.fin == Some(self.next)
    }

    /// Records that the other end accepts `window` bytes starting at `from`.
    pub fn allow(&mut self, from: Seq, window: u32) {
        self.window = self.window.max(window);
        self.edge = self.edge.max(from + window);
    }

    /// Returns whether the other end may acknowledge `ack`: no more than was sent, and no less than a window behind
    /// (RFC 5961 §5.2).
    pub fn could_be_acknowledged(&self, ack: Seq) -> bool {
        let is_sent = |end: Seq| is_within(ack, self.first, end);
        is_sent(self.next) || self.claim.is_some_and(is_sent) || self.probe.is_some_and(is_sent)
    }

    /// Applies RFC 7323 §5.3, R1. Returns whether a segment is older than the other end's TS.Recent, or lacks a
    /// timestamp although both ends send them.
    pub fn is_replay(&self, sight: &Sight, peer: &Self) -> bool {
        match (sight.timestamps(), self.echoed) {
            (Some(timestamps), Some(recent)) => Seq(timestamps.val).lt(Seq(recent)),
            (None, _) => self.newest.is_some() && peer.newest.is_some(),
            (Some(_), None) => false,
        }
    }

    /// Judges a segment by its position (RFC 9293 §3.10.7.4). A segment that extends beyond the window is refused, even
    /// if the other end would accept a part of it.
    pub fn place(&self, sight: &Sight) -> Take {
        let (base, seq, end) = (self.base(), sight.segment.seq, sight.end);
        let edge = self.edge.max(base);
        if end.since(seq) > FAR || !is_within(seq, self.first, edge) || !is_within(end, self.first, edge) {
            return Take::Refused;
        }
        match seq == end {
            // An empty segment at the very edge is from a sender that has filled the window.
            true if seq.lt(base) || (seq == edge && seq != self.next && seq != base) => Take::Refused,
            false if end.le(base) => Take::Old,
            _ => Take::Believed,
        }
    }

    /// Records a segment that the other end accepts.
    pub fn sent(&mut self, sight: &Sight) {
        self.next = self.next.max(sight.end);
        if sight.has_data() {
            self.carried = self.carried.max(sight.end);
        }
        if sight.segment.flags.has(Flags::FIN) && sight.end == self.next {
            self.fin = Some(sight.end);
        }
        if let Some(Timestamps { val, .. }) = sight.timestamps() {
            self.newest = latest(self.newest, Some(val));
        }
    }

    /// Records an accepted acknowledgment by the other end, and returns the scale as known then.
    pub fn acknowledge(&mut self, segment: &Segment, scale: Scale) -> Scale {
        let ack = segment.ack;
        let scale = self.learn(ack, scale);
        // RFC 9293 §3.10.7.4: an end ignores the window of an older acknowledgment, so that a spoofed one cannot
        // enlarge it.
        let grants = ack.ge(self.base());
        (self.next, self.carried) = (self.next.max(ack), self.carried.max(ack));
        self.acked = Some(self.acked.map_or(ack, |acked| acked.max(ack)));
        self.probe = self.probe.filter(|end| ack.lt(*end));
        self.claim = self.claim.filter(|end| ack.lt(*end));
        if self.base().since(self.first) > self.window {
            self.first = self.base() - self.window;
        }
        if grants {
            self.field = segment.window;
            self.allow(ack, scale.bytes(segment.window));
        }
        // An end echoes nothing that was not sent, nor a value half the number space away.
        if let (Some(Timestamps { ecr, .. }), Some(newest)) = (segment.options.timestamps, self.newest)
            && !Seq(ecr).gt(Seq(newest))
        {
            self.echoed = latest(self.echoed, Some(ecr));
        }
        scale
    }

    /// Records that no more than the data up to `ack` has arrived, although more was acknowledged.
    pub fn go_back(&mut self, ack: Seq) {
        self.acked = Some(ack);
        self.first = self.first.min(ack);
    }

    /// Returns the scale that an acknowledgment proves. The data that it covers was inside the window of the previous
    /// acknowledgment. In addition, if nothing below the data on trial was sent after that data passed, the sender
    /// itself sent it, and all data below it before: it was inside the window of that time. Spoofed data, in contrast,
    /// is ahead of the stream.
    fn learn(&mut self, ack: Seq, scale: Scale) -> Scale {
        let (Scale::AtLeast(least), Some(acked)) = (scale, self.acked) else { return scale };
        let proven = self.trial.filter(|(end, _)| ack.ge(*end)).map_or(least, |(_, shift)| shift.max(least));
        self.trial = self.trial.filter(|(end, _)| ack.lt(*end));
        // A probe is accepted beyond the edge.
        let beyond = self.field > 0 && ack.gt(self.edge + PROBE);
        let shift = if beyond { self.shift_for(ack.since(acked), proven) } else { Some(proven) };
        Scale::AtLeast(shift.unwrap_or(proven))
    }

    /// Returns the smallest shift, `least` or more, with which the last window field admits `ahead` bytes.
    fn shift_for(&self, ahead: u32, least: u8) -> Option<u8> {
        (least..=Scale::MOST).find(|&shift| Scale::AtLeast(shift).bytes(self.field) >= ahead)
    }

    /// Cancels the trial if data below it is sent, accepted or not: the data on trial was then out of order.
    pub fn try_order(&mut self, sight: &Sight) {
        self.trial = self.trial.filter(|(end, _)| sight.segment.seq.ge(*end));
    }

    /// Records data beyond the right edge that may be accepted nevertheless. A probe lies exactly at the edge of a
    /// closed window, with all data before it acknowledged. If the scale is unknown, the edge may lie elsewhere.
    pub fn claim(&mut self, sight: &Sight, scale: Scale) {
        let beyond = sight.end.since(self.edge);
        if sight.segment.seq == self.edge && self.base() == self.edge && beyond > 0 && beyond <= PROBE {
            self.probe = Some(sight.end);
        }
        let claimed = self.claim.map_or(sight.end, |end| end.max(sight.end));
        let Scale::AtLeast(least) = scale else {
            // The other end accepts the part inside its window, and acknowledges that.
            if sight.segment.seq.ge(self.base()) && sight.segment.seq.lt(self.edge) && beyond > 0 && beyond <= FAR {
                self.claim = Some(claimed);
            }
            return;
        };
        let ahead = sight.end.since(self.base());
        if ahead > 0 && ahead <= UNSEEN {
            self.claim = Some(claimed);
            if self.trial.is_none() {
                self.trial = self.shift_for(ahead, least).map(|shift| (sight.end, shift));
            }
        }
    }

    /// Keeps the latest timestamps of this state and the one before.
    pub fn keep_stamps(&mut self, before: &Self) {
        self.newest = latest(self.newest, before.newest);
        self.echoed = latest(self.echoed, before.echoed);
    }

    /// Returns whether a segment may be of the same stream.
    pub fn is_near(&self, sight: &Sight) -> bool {
        let (next, seq) = (self.next, sight.segment.seq);
        next.since(seq).max(seq.since(next)) <= UNSEEN
    }
}
