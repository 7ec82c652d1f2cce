//! What one end sends, and how far the other has acknowledged and allows it.

use super::Take;
use crate::packet::{Flags, Segment, Timestamps};
use crate::seq::Seq;

/// Farther than this nothing belongs to the same window (RFC 7323 §2.3).
const FAR: u32 = 1 << 30;

/// What a sender may send beyond a window that is closed, in bytes: a probe (RFC 9293 §3.8.6.1), and its FIN.
const PROBE: u32 = 2;

/// As far as two packets from opposite ends of one connection may lie apart when nothing else is known of it, in bytes; and the
/// most that may be under way where the window scale did not come by.
const UNSEEN: u32 = 4 << 20;

/// The shift of the windows that an end advertises (RFC 7323 §2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// As its SYN said.
    Known(u8),
    /// Its SYN did not come by; what it has acknowledged takes at least this.
    AtLeast(u8),
}

impl Scale {
    /// The largest there is (RFC 7323 §2.3).
    pub const MOST: u8 = 14;

    fn bytes(self, window: u16) -> u32 {
        match self {
            Self::Known(shift) => u32::from(window) << shift,
            Self::AtLeast(shift) => (u32::from(window) << shift).min(UNSEEN),
        }
    }
}

/// A segment as it was seen.
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

    /// Whether both may be of one connection, from its two ends.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let near = |a: Seq, b: Seq| a.since(b).max(b.since(a)) <= UNSEEN;
        near(self.ack, other.end) && near(other.ack, self.segment.seq)
    }

    /// Whether the same end may have sent both, one after the other: it goes on with the next byte, or repeats itself.
    pub fn follows(&self, last: &Self) -> bool {
        self.segment.seq == last.end || self.segment.seq == last.segment.seq
    }

    /// Whether the same end has sent this later than `last`, and more: bytes that follow on those, or an acknowledgment that goes further. Neither its acknowledgments nor its
    /// timestamps move back (RFC 7323 §5.3).
    pub fn goes_on_from(&self, last: &Self) -> bool {
        let is_later = match (last.timestamps(), self.timestamps()) {
            (Some(before), Some(now)) => Seq(now.val).ge(Seq(before.val)),
            (None, None) => true,
            _ => false,
        };
        let has_more = self.segment.seq == last.end && self.has_data() && last.has_data();
        is_later && self.ack.ge(last.ack) && (has_more || (self.follows(last) && self.ack != last.ack))
    }

    /// Whether it carries bytes of the stream, or its end.
    pub fn has_data(&self) -> bool {
        self.end != self.segment.seq
    }

    fn timestamps(&self) -> Option<Timestamps> {
        self.segment.options.timestamps
    }
}

/// Whether a number is one of `from..=to`: of two numbers 2^31 apart neither is the later one.
fn is_within(number: Seq, from: Seq, to: Seq) -> bool {
    number.0.wrapping_sub(from.0) <= to.0.wrapping_sub(from.0)
}

/// The later of two timestamps, of which either may be unknown.
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
    /// The same by what carries data alone: a keepalive has the number before (RFC 9293 §3.8.4).
    pub carried: Seq,
    /// Where its stream ends, if a FIN was sent behind all that had been.
    fin: Option<Seq>,
    /// RCV.NXT of the other end, as it last acknowledged.
    pub acked: Option<Seq>,
    /// No number before this has any meaning: the stream begins here, or it is a window behind.
    first: Seq,
    /// The right edge of the window that the other end advertised; it does not move left here.
    edge: Seq,
    /// The largest window that it advertised, in bytes.
    window: u32,
    /// The window field of the highest acknowledgment.
    pub field: u16,
    /// The other end may have taken data up to here that nobody has seen inside its window: its scale is not known, or they lay across the edge.
    claim: Option<Seq>,
    /// Where data ended that were farther ahead than any before, and the shift of the window scale that would have allowed them.
    trial: Option<(Seq, u8)>,
    /// The end of a probe of a closed window that passed.
    probe: Option<Seq>,
    /// The highest TSval.
    newest: Option<u32>,
    /// The highest TSecr that the other end sent: its TS.Recent.
    pub echoed: Option<u32>,
}

impl Half {
    /// Nothing was sent.
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

    /// All up to `next` was sent, `segment` last; the other end expects `first` or more.
    pub fn new(first: Seq, next: Seq, segment: &Segment) -> Self {
        let newest = segment.options.timestamps.map(|timestamps| timestamps.val);
        Self { next, carried: next, first, edge: first, newest, ..Self::NONE }
    }

    /// The least that the other end expects.
    pub fn base(&self) -> Seq {
        self.acked.unwrap_or(self.first)
    }

    /// Whether nothing goes on behind its FIN. A stranger's FIN in the middle of the stream ends nothing: the end itself sends on.
    pub fn has_ended(&self) -> bool {
        self.fin == Some(self.next)
    }

    /// The other end takes `window` bytes from `from` on.
    pub fn allow(&mut self, from: Seq, window: u32) {
        self.window = self.window.max(window);
        self.edge = self.edge.max(from + window);
    }

    /// Whether the other end may acknowledge up to here: no more than was sent, no less than within a window (RFC 5961 §5.2).
    pub fn could_be_acknowledged(&self, ack: Seq) -> bool {
        let sent = [Some(self.next), self.claim, self.probe];
        sent.into_iter().flatten().any(|end| is_within(ack, self.first, end))
    }

    /// RFC 7323 §5.3, R1: older than what the other end has taken, or without a timestamp where both ends have them.
    pub fn is_replay(&self, sight: &Sight, peer: &Self) -> bool {
        match (sight.timestamps(), self.echoed) {
            (Some(timestamps), Some(recent)) => Seq(timestamps.val).lt(Seq(recent)),
            (None, _) => self.newest.is_some() && peer.newest.is_some(),
            (Some(_), None) => false,
        }
    }

    /// Where a segment lies (RFC 9293 §3.10.7.4). What reaches beyond the window is refused, also where the other end would take a
    /// part of it.
    pub fn place(&self, sight: &Sight) -> Take {
        let (base, seq, end) = (self.base(), sight.segment.seq, sight.end);
        let edge = self.edge.max(base);
        if end.since(seq) > FAR || !is_within(seq, self.first, edge) || !is_within(end, self.first, edge) {
            return Take::Refused;
        }
        match seq == end {
            // At the very edge is who has filled the window.
            true if seq.lt(base) || (seq == edge && seq != self.next && seq != base) => Take::Refused,
            false if end.le(base) => Take::Old,
            _ => Take::Believed,
        }
    }

    /// A segment that the other end accepts was sent.
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

    /// The other end acknowledges, with a segment that is believed. What is known of its scale then.
    pub fn acknowledge(&mut self, segment: &Segment, scale: Scale) -> Scale {
        let ack = segment.ack;
        let scale = self.learn(ack, scale);
        // RFC 9293 §3.10.7.4: of an older one the end takes no window, so that nobody grants more by making one up.
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
        // It echoes nothing that was not sent, nor what is half a circle from it.
        if let (Some(Timestamps { ecr, .. }), Some(newest)) = (segment.options.timestamps, self.newest)
            && !Seq(ecr).gt(Seq(newest))
        {
            self.echoed = latest(self.echoed, Some(ecr));
        }
        scale
    }

    /// No more than up to `ack` has arrived, whatever was acknowledged.
    pub fn go_back(&mut self, ack: Seq) {
        self.acked = Some(ack);
        self.first = self.first.min(ack);
    }

    /// The scale that an acknowledgment proves. What it acknowledges was inside the window that the one before it allowed. And if
    /// nothing was sent from below the data on trial since these passed, then it was the sender who sent these, and all below them
    /// before: inside the window of that time. A stranger's data the stream has yet to reach.
    fn learn(&mut self, ack: Seq, scale: Scale) -> Scale {
        let (Scale::AtLeast(least), Some(acked)) = (scale, self.acked) else { return scale };
        let proven = self.trial.filter(|(end, _)| ack.ge(*end)).map_or(least, |(_, shift)| shift.max(least));
        self.trial = self.trial.filter(|(end, _)| ack.lt(*end));
        // A probe is taken beyond the edge.
        let beyond = self.field > 0 && ack.gt(self.edge + PROBE);
        let shift = if beyond { self.shift_for(ack.since(acked), proven) } else { Some(proven) };
        Scale::AtLeast(shift.unwrap_or(proven))
    }

    /// The smallest shift, `least` or more, with which the window last seen takes so many bytes.
    fn shift_for(&self, ahead: u32, least: u8) -> Option<u8> {
        (least..=Scale::MOST).find(|&shift| Scale::AtLeast(shift).bytes(self.field) >= ahead)
    }

    /// Data came by, believed or not: what is on trial was sent before them.
    pub fn try_order(&mut self, sight: &Sight) {
        self.trial = self.trial.filter(|(end, _)| sight.segment.seq.ge(*end));
    }

    /// Data beyond the edge of the window, which may be taken all the same. A probe is at exactly the edge of a window that is closed:
    /// all before it is acknowledged. Of a window whose scale nobody saw the edge may lie elsewhere.
    pub fn claim(&mut self, sight: &Sight, scale: Scale) {
        let beyond = sight.end.since(self.edge);
        if sight.segment.seq == self.edge && self.base() == self.edge && beyond > 0 && beyond <= PROBE {
            self.probe = Some(sight.end);
        }
        let claimed = self.claim.map_or(sight.end, |end| end.max(sight.end));
        let Scale::AtLeast(least) = scale else {
            // It takes the part that lies within its window when it comes there, and acknowledges that.
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

    /// What was known of the timestamps before still is.
    pub fn keep_stamps(&mut self, before: &Self) {
        self.newest = latest(self.newest, before.newest);
        self.echoed = latest(self.echoed, before.echoed);
    }

    /// Whether a segment may be of the same stream.
    pub fn is_near(&self, sight: &Sight) -> bool {
        let (next, seq) = (self.next, sight.segment.seq);
        next.since(seq).max(seq.since(next)) <= UNSEEN
    }
}
