//! What each end of a connection could have sent, and what the other would accept, as far as a bystander can tell.
//!
//! Somebody on the path sees packets that one end never sent: forged ones, copies of old ones, ones of an earlier connection.
//! An end refuses most of them by their numbers (RFC 9293 §3.10.7.4, RFC 5961, RFC 7323 §5). A bystander that believes what an end
//! refuses has another picture of the connection than the ends. So each packet is judged here, before anything is learned from it.

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

/// Openings remembered at once: a flood of forged ones must not hide the real one from the answer to it.
const MOST_SYNS: usize = 8;

/// Packets of either end in a row that the other would refuse, after which the picture itself may be wrong. A stranger makes up
/// those of one end only: the other's are accepted all the while.
const DOUBT: u8 = 4;

/// What to think of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// The other end accepts it.
    Believed,
    /// Data that the other end has acknowledged, from within one window: it answers it with an acknowledgment.
    Old,
    /// The other end refuses it, or nobody can tell yet. Nothing may be learned from it.
    Refused,
    /// With it a connection has begun: what was known of an earlier one between the same ports is void.
    Opened,
    /// It ends the connection (RFC 5961 §3.2).
    Reset,
}

/// A SYN that came by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Syn {
    from: Side,
    /// One past its last byte.
    end: Seq,
    segment: Segment,
    /// When it did; nothing where it did more than once.
    came: Option<Instant>,
}

/// The picture of one connection.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// What each side sends, by [`Side::index`].
    halves: [Half; 2],
    stage: Stage,
    /// The shift of the windows that each side advertises.
    scales: [Scale; 2],
    stamps: Stamps,
    /// Openings that came by, but for the SYNs of this connection itself.
    syns: Vec<Syn>,
    /// The initial sequence numbers of this connection, where its SYNs came by.
    isn: [Option<Seq>; 2],
    /// What is known of how long they took to the other end.
    crossings: [Crossing; 2],
    /// The smaller of both maximum segment sizes, where the SYNs told any.
    mss: Option<u16>,
    /// What was not believed of each side lately, where there is a picture.
    doubts: [Doubt; 2],
    /// What each side sent, where there is none yet.
    midst: [Midst; 2],
}

/// Packets of one side that were not believed.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// How many in a row.
    refused: u8,
    /// The last of them.
    last: Option<Sight>,
    /// Whether it goes on from the one before, as a stranger's among the end's own does not, nor one that a stranger repeats.
    goes_on: bool,
    /// Where the one that reaches furthest ends.
    end: Seq,
    /// Whether what the last one acknowledges had been sent by then.
    answers: bool,
}

impl Doubt {
    const NONE: Self = Self { refused: 0, last: None, goes_on: false, end: Seq(0), answers: false };

    /// Another came, when the other side had sent what ends at `sent`.
    fn add(&mut self, sight: Sight, sent: Seq) {
        self.answers = sight.ack.le(sent);
        self.refused = self.refused.saturating_add(1);
        self.goes_on = self.last.is_some_and(|last| sight.goes_on_from(&last));
        self.end = if self.last.is_some() { self.end.max(sight.end) } else { sight.end };
        self.last = Some(sight);
    }

    /// Whether a picture that there is already is to be made anew with the last of them.
    ///
    /// RFC 9293 §3.10.7.4: an end takes no acknowledgment of what it has not sent. A stranger's may bear the number of the end's own, as all
    /// its pure acknowledgments do, and so go on from them.
    fn is_enough(&self) -> bool {
        self.refused >= DOUBT && self.goes_on && self.answers
    }
}

/// Whether anything is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Not both ends have shown that they take part.
    Unknown,
    Open,
}

/// Whether segments' timestamps mean anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stamps {
    /// As the packets show.
    Heeded,
    /// A SYN had none: both ends pass over those that come nevertheless (RFC 7323 §3.2).
    Ignored,
}

impl Default for Tracking {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracking {
    /// Nothing is known.
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

    /// Whether both ends have shown that they take part.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// SND.NXT of a side as far as seen: one past the highest sequence number that it sent.
    pub fn next(&self, side: Side) -> Seq {
        self.halves[side.index()].next
    }

    /// Whether a side has sent its FIN, and nothing behind it.
    pub fn has_ended(&self, side: Side) -> bool {
        self.halves[side.index()].has_ended()
    }

    /// The highest acknowledgment of what a side sent, once there is one.
    pub fn acked(&self, side: Side) -> Option<Seq> {
        self.halves[side.index()].acked
    }

    /// No more than up to `ack` of what a side sent has arrived, whatever was acknowledged.
    pub fn go_back(&mut self, side: Side, ack: Seq) {
        self.halves[side.index()].go_back(ack);
    }

    /// The smaller of the maximum segment sizes that both SYNs told, if they came by and told any.
    pub fn mss(&self) -> Option<u16> {
        self.mss
    }

    /// The window field of the last acknowledgment of what a side sent.
    pub fn window(&self, side: Side) -> u16 {
        self.halves[side.index()].field
    }

    /// How long a side's SYN took from here to the other end, and the answer back, where both came by and the SYN once.
    pub fn crossing(&self, side: Side) -> Option<Duration> {
        self.crossings[side.index()].took()
    }

    /// The shift of the windows that a side advertises (RFC 7323 §2.2), if its SYN told it.
    pub fn shift(&self, side: Side) -> Option<u8> {
        match self.scales[side.index()] {
            Scale::Known(shift) => Some(shift),
            Scale::AtLeast(_) => None,
        }
    }

    /// TS.Recent of the end that a side sends to, as it last echoed it, and no more than the side itself sent (RFC 7323 §4.3): a
    /// segment with this TSval is no replay there, nor does it make anything else one.
    pub fn recent(&self, side: Side) -> Option<u32> {
        self.halves[side.index()].echoed
    }

    /// Whether a segment without payload that was refused is an acknowledgment that a later packet has overtaken. RFC 7323 §5.3 has the other end refuse it, for
    /// its timestamp; Linux heeds the selective acknowledgments of duplicates (`tcp_disordered_ack`), and of what is a tick too old (`TCP_PAWS_WINDOW`).
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

    /// Judges a segment with `len` bytes of payload that one side is said to have sent, and learns from it what may be learned.
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

    /// RFC 5961 §3.2: only at exactly the number that the other end expects. Who resets does so at its own SND.NXT (RFC 9293
    /// §3.10.5), and the other end expects that once all that was sent has arrived. At the number last acknowledged, with data
    /// under way, nobody here can tell whether the other end still expects it: a reset there may be a stranger's, which an end that
    /// is further refuses. If it was a true one, the end that is no more answers whatever is sent to it with a reset at
    /// its own next number.
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

    /// A SYN alone changes nothing (RFC 5961 §4.2). Answered it opens a connection, and where there is one already, only with
    /// the acknowledgment of the answer.
    fn take_syn(&mut self, now: Instant, from: Side, segment: &Segment, len: u32) -> Take {
        if self.isn[from.index()] == Some(segment.seq) {
            // Sent again.
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

    /// The SYN that an answer answers.
    fn opening(&self, answer: &Syn) -> Option<Syn> {
        let ack = answer.segment.ack;
        let fits = |syn: &&Syn| {
            // Data on it may not have been taken (RFC 7413).
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

    /// A connection has begun; its numbers are set.
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
                self.doubts = [Doubt::NONE; 2];
                self.answer(now, from, segment.ack);
                Take::Believed
            }
            Take::Refused => self.doubt(now, from, sight),
            other => other,
        }
    }

    /// Whether the other end accepts a segment; if so, learns from it.
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

    /// A side acknowledges up to `ack`.
    fn answer(&mut self, now: Instant, from: Side, ack: Seq) {
        let peer = from.peer().index();
        self.crossings[peer].answer(now, self.isn[peer].is_some_and(|isn| isn + 1 == ack));
    }

    /// A packet that is not believed: perhaps another connection has begun between these ends, or one that nobody saw
    /// beginning, or too much of this one passed elsewhere.
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

    /// Where no opening was seen, a picture begins once each side has shown itself with two packets, whatever a stranger sends before or in between. Those without
    /// data count as answers to what the other side has shown: a stranger's packet, for which there is a place here, must not let them count sooner.
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

    /// Where what a side has sent ends, believed or not.
    fn sent(&self, side: Side) -> Seq {
        let (half, doubt) = (&self.halves[side.index()], &self.doubts[side.index()]);
        match doubt.last {
            Some(last) if half.is_near(&last) => doubt.end.max(half.next),
            Some(_) => doubt.end,
            None => half.next,
        }
    }

    /// Whether both SYNs of this connection came by.
    fn has_seen_opening(&self) -> bool {
        self.isn.iter().all(Option::is_some)
    }

    /// Whether the other end refuses a segment for its timestamp, whatever else passed unseen: TS.Recent never moves back (RFC 7323 §4.3), and what
    /// is known of it is true where the opening came by. Such a segment is no reason for doubt.
    fn is_certainly_late(&self, from: Side, sight: &Sight) -> bool {
        let (own, peer) = (&self.halves[from.index()], &self.halves[from.peer().index()]);
        self.has_seen_opening() && own.is_replay(sight, peer)
    }

    /// Follows a connection from a packet of each side on: one that comes now, and one of the other side.
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
        // What either of them carries is judged as all else is: one of them may be a stranger's.
        let _ = self.judge(from.peer(), &other);
        let _ = self.judge(from, &sight);
    }

    /// The SYN and its answer that a segment completes.
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
