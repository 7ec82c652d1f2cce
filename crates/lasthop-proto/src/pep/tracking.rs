//! State of a connection's ends as an observer on the path can infer it: what each could have sent, and what the other
//! would accept.
//!
//! An observer sees packets that neither end sent: spoofed packets, copies of old ones, packets of an earlier
//! connection. An end refuses most of them by their numbers (RFC 9293 §3.10.7.4, RFC 5961, RFC 7323 §5). An observer
//! that believes packets that an end refuses gets out of step with the ends. Each packet is therefore judged here
//! before anything is learned from it.

mod crossing;
mod half;
mod midst;

use alloc::vec::Vec;

use crate::packet::{Flags, Segment, Side};
use crate::seq::Seq;
use crate::time::{Duration, Instant};
use crossing::Crossing;
pub(super) use half::latest;
use half::{Half, Scale, Sight};
use midst::Midst;

/// Maximum number of SYNs remembered at once. Bounds memory; a flood of spoofed SYNs must not displace the real one
/// before its answer.
const MOST_SYNS: usize = 8;

/// Number of consecutive packets of each end that the other would refuse after which the tracked state itself may be
/// wrong. An off-path attacker spoofs the packets of one end only: the other end's are accepted meanwhile.
const DOUBT: u8 = 4;

/// Verdict on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// The other end accepts it.
    Believed,
    /// Data that the other end has acknowledged, from within one window. The other end answers it with an
    /// acknowledgment.
    Old,
    /// The other end refuses it, or that is not known yet. Nothing may be learned from it.
    Refused,
    /// Completes the opening of a connection: state of an earlier one between the same ports is void.
    Opened,
    /// Resets the connection (RFC 5961 §3.2).
    Reset,
}

/// A SYN that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Syn {
    from: Side,
    /// One past its last byte.
    end: Seq,
    segment: Segment,
    /// Time at which it was seen; `None` if it was seen more than once.
    came: Option<Instant>,
}

/// Tracked state of one connection.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// Data of each side, by [`Side::index`].
    halves: [Half; 2],
    stage: Stage,
    /// Shift of the windows that each side advertises.
    scales: [Scale; 2],
    stamps: Stamps,
    /// SYNs seen, except those of this connection itself.
    syns: Vec<Syn>,
    /// Initial sequence numbers of this connection, if its SYNs were seen.
    isn: [Option<Seq>; 2],
    /// Times that the SYNs took to the other end.
    crossings: [Crossing; 2],
    /// Smaller of both maximum segment sizes, if the SYNs carried any.
    mss: Option<u16>,
    /// Recently refused packets of each side, if the connection is tracked.
    doubts: [Doubt; 2],
    /// Packets of each side, if the connection is not tracked yet.
    midst: [Midst; 2],
}

/// Refused packets of one side.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// Number of consecutive refused packets.
    refused: u8,
    /// Last refused packet.
    last: Option<Sight>,
    /// True if the last continues the one before. An attacker's packet among the end's own does not, nor does a packet
    /// that an attacker repeats.
    goes_on: bool,
    /// Highest end of any refused packet.
    end: Seq,
    /// True if the data that the last one acknowledges had been sent by then.
    answers: bool,
}

impl Doubt {
    const NONE: Self = Self { refused: 0, last: None, goes_on: false, end: Seq(0), answers: false };

    /// Adds a packet seen when the data that the other side had sent ended at `sent`.
    fn add(&mut self, sight: Sight, sent: Seq) {
        self.answers = sight.ack.le(sent);
        self.refused = self.refused.saturating_add(1);
        self.goes_on = self.last.is_some_and(|last| sight.goes_on_from(&last));
        self.end = if self.last.is_some() { self.end.max(sight.end) } else { sight.end };
        self.last = Some(sight);
    }

    /// Returns whether existing state is to be rebuilt from the last refused packet.
    ///
    /// The refused packets must continue each other, and the last one must acknowledge only data that the other side has
    /// sent (RFC 9293 §3.10.7.4). The first condition does not suffice: all pure acknowledgments of an end bear the same
    /// sequence number, so a spoofed packet with that number continues them.
    fn is_enough(&self) -> bool {
        self.refused >= DOUBT && self.goes_on && self.answers
    }
}

/// Stage of tracking of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Not both ends have shown that they take part.
    Unknown,
    Open,
}

/// Evaluation of timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stamps {
    /// Evaluated if packets carry them.
    Heeded,
    /// A SYN had none: both ends ignore timestamps that arrive nevertheless (RFC 7323 §3.2).
    Ignored,
}

impl Default for Tracking {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracking {
    /// Returns the state of an unknown connection.
    pub const fn new() -> Self {
        Self {
            halves: [Half::NONE; 2],
            stage: Stage::Unknown,
            scales: [Scale::AtLeast(0); 2],
            stamps: Stamps::Heeded,
            syns: Vec::new(),
            isn: [None; 2],
            crossings: [Crossing::Unknown; 2],
            mss: None,
            doubts: [Doubt::NONE; 2],
            midst: [Midst::NONE; 2],
        }
    }

    /// Returns whether both ends have shown that they take part.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Returns SND.NXT of a side as far as seen: one past the highest sequence number that it sent.
    pub fn next(&self, side: Side) -> Seq {
        self.halves[side.index()].next
    }

    /// Returns whether a side has sent its FIN, and nothing after it.
    pub fn has_ended(&self, side: Side) -> bool {
        self.halves[side.index()].has_ended()
    }

    /// Returns the highest acknowledgment of a side's data, or `None` before the first.
    pub fn acked(&self, side: Side) -> Option<Seq> {
        self.halves[side.index()].acked
    }

    /// Records that no more than the data up to `ack` of a side has arrived, although more was acknowledged.
    pub fn go_back(&mut self, side: Side, ack: Seq) {
        self.halves[side.index()].go_back(ack);
    }

    /// Returns the smaller of the maximum segment sizes of both SYNs, if they were seen and carried any.
    pub fn mss(&self) -> Option<u16> {
        self.mss
    }

    /// Returns the window field of the last acknowledgment of a side's data.
    pub fn window(&self, side: Side) -> u16 {
        self.halves[side.index()].field
    }

    /// Returns the time from a side's SYN at this point to the answer to it, if both were seen and the SYN once.
    pub fn crossing(&self, side: Side) -> Option<Duration> {
        self.crossings[side.index()].took()
    }

    /// Returns the shift of the windows that a side advertises (RFC 7323 §2.2), if its SYN was seen.
    pub fn shift(&self, side: Side) -> Option<u8> {
        match self.scales[side.index()] {
            Scale::Known(shift) => Some(shift),
            Scale::AtLeast(_) => None,
        }
    }

    /// Returns TS.Recent of the end that a side sends to, as last echoed, and no later than the side itself sent (RFC
    /// 7323 §4.3). A segment with this TSval is not rejected as a replay there, and does not cause another to be.
    pub fn recent(&self, side: Side) -> Option<u32> {
        self.halves[side.index()].echoed
    }

    /// Returns whether a refused segment without payload is a reordered acknowledgment. RFC 7323 §5.3 has the other end
    /// refuse it because of its timestamp. Linux evaluates the SACK blocks of such duplicates (`tcp_disordered_ack`),
    /// and accepts segments a tick too old (`TCP_PAWS_WINDOW`).
    pub fn is_overtaken(&self, from: Side, segment: &Segment) -> bool {
        let (own, peer) = (&self.halves[from.index()], &self.halves[from.peer().index()]);
        let special = Flags::SYN.with(Flags::FIN).with(Flags::RST);
        let stamps = segment.options.timestamps.map(|timestamps| timestamps.val).zip(own.echoed);
        let is_older = |(val, recent)| Seq(val).lt(Seq(recent));
        let is_known = peer.acked.is_some_and(|acked| segment.ack.le(acked)) && peer.could_be_acknowledged(segment.ack);
        segment.seq == own.next
            && is_known
            && !segment.flags.meets(special)
            && self.stamps == Stamps::Heeded
            && stamps.is_some_and(is_older)
    }

    /// Judges a segment with `len` bytes of payload whose source is `from`, and learns from it as far as the verdict
    /// allows.
    pub fn take(&mut self, now: Instant, from: Side, segment: &Segment, len: u32) -> Take {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            self.take_reset(from, segment)
        } else if flags.has(Flags::SYN) {
            self.take_syn(now, from, segment, len)
        } else if flags.has(Flags::ACK) {
            self.take_plain(now, from, segment, len)
        } else {
            Take::Refused
        }
    }

    /// Accepts a reset only at exactly the number that the other end expects (RFC 5961 §3.2). An end resets at its own
    /// SND.NXT (RFC 9293 §3.10.5), which the other end expects once all data has arrived. At the number last
    /// acknowledged, with data in flight, it is unknown here whether the other end still expects it: a reset there may
    /// be spoofed, and an end that has received more refuses it. If it was genuine, the vanished end answers any
    /// further packet with a reset at its own next number.
    fn take_reset(&mut self, from: Side, segment: &Segment) -> Take {
        let expected = match self.stage {
            Stage::Open => segment.seq == self.halves[from.index()].carried,
            // The answer to a SYN (RFC 9293 §3.10.7.3).
            Stage::Unknown => {
                segment.flags.has(Flags::ACK) && self.syns.iter().any(|syn| syn.from != from && syn.end == segment.ack)
            }
        };
        if !expected {
            return Take::Refused;
        }
        *self = Self::new();
        Take::Reset
    }

    /// Remembers a SYN, which alone changes nothing (RFC 5961 §4.2). An answered SYN opens a connection; if one exists
    /// already, only with the acknowledgment of the answer.
    fn take_syn(&mut self, now: Instant, from: Side, segment: &Segment, len: u32) -> Take {
        if self.isn[from.index()] == Some(segment.seq) {
            // A retransmission.
            self.crossings[from.index()].again();
            return Take::Refused;
        }
        let mut syn = Syn { from, end: segment.seq + 1 + len, segment: *segment, came: Some(now) };
        let mut is_known = false;
        for old in self.syns.iter_mut().filter(|old| (old.from, old.segment.seq) == (from, segment.seq)) {
            (old.came, syn.came) = (None, None);
            is_known |= old.end == syn.end;
        }
        if !is_known {
            if self.syns.len() >= MOST_SYNS {
                self.syns.remove(0);
            }
            self.syns.push(syn);
        }
        if self.is_open() || !segment.flags.has(Flags::ACK) {
            return Take::Refused;
        }
        match self.opening(&syn) {
            Some(opening) => {
                self.open(opening, syn);
                Take::Opened
            }
            None => Take::Refused,
        }
    }

    /// Returns the SYN that `answer` acknowledges.
    fn opening(&self, answer: &Syn) -> Option<Syn> {
        let ack = answer.segment.ack;
        let fits = |syn: &&Syn| {
            // Data on the SYN may not have been accepted (RFC 7413).
            syn.from != answer.from
                && !syn.segment.flags.has(Flags::ACK)
                && (syn.end == ack || syn.segment.seq + 1 == ack)
        };
        self.syns.iter().rev().find(fits).copied()
    }

    fn open(&mut self, opening: Syn, answer: Syn) {
        let scale = |own: &Segment, other: &Segment| match (own.options.window_scale, other.options.window_scale) {
            (Some(shift), Some(_)) => Scale::Known(shift.min(Scale::MOST)),
            _ => Scale::Known(0),
        };
        let (there, back) = (&opening.segment, &answer.segment);
        self.scales[opening.from.index()] = scale(there, back);
        self.scales[answer.from.index()] = scale(back, there);
        let mut first = Half::new(there.seq + 1, opening.end, there);
        first.acknowledge(back, Scale::Known(0));
        let mut second = Half::new(answer.end, answer.end, back);
        second.allow(answer.end, u32::from(there.window));
        self.halves[opening.from.index()] = first;
        self.halves[answer.from.index()] = second;
        let stamped = [there, back].iter().all(|syn| syn.options.timestamps.is_some());
        self.stamps = if stamped { Stamps::Heeded } else { Stamps::Ignored };
        self.begin();
        let sizes = [there.options.mss, back.options.mss].into_iter().flatten();
        self.mss = sizes.min();
        self.isn[opening.from.index()] = Some(there.seq);
        self.isn[answer.from.index()] = Some(back.seq);
        self.crossings[opening.from.index()] = Crossing::between(opening.came, answer.came);
        self.crossings[answer.from.index()] = Crossing::begun(answer.came);
    }

    /// Starts tracking a connection whose numbers are set.
    fn begin(&mut self) {
        self.stage = Stage::Open;
        self.syns = Vec::new();
        self.crossings = [Crossing::Unknown; 2];
        self.doubts = [Doubt::NONE; 2];
        self.midst = [Midst::NONE; 2];
    }

    fn take_plain(&mut self, now: Instant, from: Side, segment: &Segment, len: u32) -> Take {
        let mut sight = Sight::of(segment, len);
        if self.stamps == Stamps::Ignored {
            sight.segment.options.timestamps = None;
        }
        let taken = if self.is_open() { self.judge(from, &sight) } else { Take::Refused };
        match taken {
            Take::Believed => {
                for doubt in self.doubts.iter_mut().filter(|doubt| doubt.last.is_some()) {
                    *doubt = Doubt::NONE;
                }
                self.answer(now, from, segment.ack);
                Take::Believed
            }
            Take::Refused => self.doubt(now, from, sight),
            other => other,
        }
    }

    /// Returns whether the other end accepts a segment; if so, learns from it.
    fn judge(&mut self, from: Side, sight: &Sight) -> Take {
        let (scale, peer_scale) = (self.scales[from.index()], self.scales[from.peer().index()]);
        let [mine, theirs] = &mut self.halves;
        let (own, peer) = if from == Side::Initiator { (mine, theirs) } else { (theirs, mine) };
        if sight.has_data() {
            own.try_order(sight);
        }
        if !peer.could_be_acknowledged(sight.ack) || own.is_replay(sight, peer) {
            return Take::Refused;
        }
        let taken = own.place(sight);
        match taken {
            Take::Believed => {
                own.sent(sight);
                self.scales[from.index()] = peer.acknowledge(&sight.segment, scale);
            }
            Take::Refused => own.claim(sight, peer_scale),
            _ => {}
        }
        taken
    }

    /// Records that a side acknowledges up to `ack`.
    fn answer(&mut self, now: Instant, from: Side, ack: Seq) {
        let peer = from.peer().index();
        self.crossings[peer].answer(now, self.isn[peer].is_some_and(|isn| isn + 1 == ack));
    }

    /// Handles a refused packet. Another connection may have begun between these ends, or one whose opening was not
    /// seen, or too much of this one has taken another path.
    fn doubt(&mut self, now: Instant, from: Side, sight: Sight) -> Take {
        if let Some((opening, answer)) = self.handshake(from, &sight) {
            self.open(opening, answer);
            let _ = self.judge(from, &sight);
            self.answer(now, from, sight.ack);
            return Take::Opened;
        }
        if !self.is_open() {
            return self.begin_in_midst(from, sight);
        }
        if self.is_certainly_late(from, &sight) {
            return Take::Refused;
        }
        let sent = self.sent(from.peer());
        self.doubts[from.index()].add(sight, sent);
        let Some(other) = self.doubts[from.peer().index()].last else { return Take::Refused };
        if !self.doubts.iter().all(Doubt::is_enough) || !sight.agrees_with(&other) {
            return Take::Refused;
        }
        self.pick_up(from, sight, other);
        Take::Opened
    }

    /// Starts tracking a connection whose opening was not seen. Each side must have sent two packets that fit together,
    /// regardless of spoofed packets before or in between. A packet without data counts only as an answer to such a
    /// packet of the other side, so that a spoofed packet remembered here does not let it count sooner.
    fn begin_in_midst(&mut self, from: Side, sight: Sight) -> Take {
        let [mine, theirs] = &mut self.midst;
        let (own, peer) = if from == Side::Initiator { (mine, theirs) } else { (theirs, mine) };
        let answered = peer.answered_by(&sight);
        if (!sight.has_data() && answered.is_none()) || !own.add(sight) {
            return Take::Refused;
        }
        let Some(other) = answered else { return Take::Refused };
        self.pick_up(from, sight, other);
        Take::Opened
    }

    /// Returns the end of a side's data, accepted or not.
    fn sent(&self, side: Side) -> Seq {
        let (half, doubt) = (&self.halves[side.index()], &self.doubts[side.index()]);
        match doubt.last {
            Some(last) if half.is_near(&last) => doubt.end.max(half.next),
            Some(_) => doubt.end,
            None => half.next,
        }
    }

    /// Returns whether both SYNs of this connection were seen.
    fn has_seen_opening(&self) -> bool {
        self.isn.iter().all(Option::is_some)
    }

    /// Returns whether the other end refuses a segment for its timestamp, regardless of gaps in the observation:
    /// TS.Recent never moves back (RFC 7323 §4.3), and its known value is correct if the opening was seen. Such a
    /// segment gives no reason for doubt.
    fn is_certainly_late(&self, from: Side, sight: &Sight) -> bool {
        let (own, peer) = (&self.halves[from.index()], &self.halves[from.peer().index()]);
        self.has_seen_opening() && own.is_replay(sight, peer)
    }

    /// Starts tracking a connection with one packet of each side: the current one, and one of the other side.
    fn pick_up(&mut self, from: Side, sight: Sight, other: Sight) {
        let sights = if from == Side::Initiator { [sight, other] } else { [other, sight] };
        let goes_on = self.is_open() && self.halves.iter().zip(&sights).all(|(half, sight)| half.is_near(sight));
        let before = self.halves;
        if !goes_on {
            self.scales = [Scale::AtLeast(0); 2];
            self.stamps = Stamps::Heeded;
            (self.isn, self.mss) = ([None; 2], None);
        }
        let scales = self.scales;
        let half = |own: usize, other: usize| {
            let (own, answer) = (&sights[own], &sights[other]);
            let mut half = Half::new(answer.ack, answer.ack, &own.segment);
            half.acknowledge(&answer.segment, scales[other]);
            half
        };
        self.halves = [half(0, 1), half(1, 0)];
        if self.has_seen_opening() {
            self.halves.iter_mut().zip(&before).for_each(|(half, before)| half.keep_stamps(before));
        }
        self.begin();
        // Both are judged like any other packet, since one of them may be spoofed.
        let _ = self.judge(from.peer(), &other);
        let _ = self.judge(from, &sight);
    }

    /// Returns the SYN and its answer whose handshake a segment completes.
    fn handshake(&self, from: Side, sight: &Sight) -> Option<(Syn, Syn)> {
        let answers = self.syns.iter().filter(|syn| syn.from != from && syn.segment.flags.has(Flags::ACK));
        answers
            .filter(|answer| answer.end == sight.ack && answer.segment.ack == sight.segment.seq)
            .find_map(|answer| Some((self.opening(answer)?, *answer)))
    }
}

#[cfg(test)]
#[path = "tracking_tests.rs"]
mod tests;
