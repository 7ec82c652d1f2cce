//! Data in flight: a record of each segment that was sent and is not acknowledged, in the order of sequence numbers.
//!
//! Counts are segments. Three marks overlap: *sacked* (the peer has it), *lost* (declared lost), and *resent* (a
//! retransmission of it is in flight). A peer without SACK sends duplicates instead: each represents a segment that has
//! arrived, but not which one ([`Flight::guess`]). [`Flight::in_flight`] is Linux's count: all, minus those sacked,
//! guessed or lost, plus those resent.

mod guess;

use alloc::collections::VecDeque;

pub use self::guess::Guess;

use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::Instant;

/// Maximum number of tracked segments; no more are sent while this many are outstanding.
pub const MAX_SEGMENTS: usize = 65_536;

/// Number of records above which an empty ring frees its memory, so that an idle connection stays small.
const KEPT: usize = 16;

/// State of the connection when a segment was last sent, from which delivery-rate samples are computed. Counters wrap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Snapshot {
    /// Time at which its flight began to be sent.
    pub first_sent: Instant,
    /// Time of the last delivery.
    pub delivered_at: Instant,
    /// Segments of the connection delivered.
    pub delivered: u32,
    /// Segments of the connection declared lost.
    pub lost: u32,
    /// Segments in flight, this one included.
    pub in_flight: u32,
    /// True if the application left the window unused.
    pub is_app_limited: bool,
}

/// A segment that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    seq: Seq,
    end: Seq,
    sent_at: Instant,
    snapshot: Snapshot,
    marks: u8,
    transmissions: u8,
    pushed: bool,
    begins: bool,
    joined: bool,
}

const SACKED: u8 = 1;
const LOST: u8 = 2;
const RESENT: u8 = 4;
const JUDGED: u8 = 8;

impl Sent {
    /// Returns the first sequence number that is not acknowledged.
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the number after the segment's last one.
    pub const fn end(&self) -> Seq {
        self.end
    }

    /// Returns the time at which the segment was last sent.
    pub const fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Returns the state of the connection when the segment was last sent.
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns whether the segment was sent more than once.
    pub const fn is_repeated(&self) -> bool {
        self.transmissions > 1
    }

    /// Returns whether the peer has reported the segment.
    pub const fn is_sacked(&self) -> bool {
        self.marks & SACKED != 0
    }

    /// Returns whether the segment is declared lost.
    pub const fn is_lost(&self) -> bool {
        self.marks & LOST != 0
    }

    /// Returns whether a retransmission of the segment is in flight.
    pub const fn is_resent(&self) -> bool {
        self.marks & RESENT != 0
    }

    /// Returns whether RACK has declared the segment lost since its last transmission: it does so once, even if the
    /// loss is undone (Linux takes it off `tsorted_sent_queue`).
    pub const fn is_judged(&self) -> bool {
        self.marks & JUDGED != 0
    }

    /// Returns whether every transmission of the segment carries PSH.
    pub const fn is_pushed(&self) -> bool {
        self.pushed
    }

    /// Returns whether the segment began a super-segment in one of its transmissions.
    pub const fn begins_super_segment(&self) -> bool {
        self.begins
    }

    /// Returns whether the segment belongs to the same batch as the one before (Linux: to the same buffer).
    pub const fn is_joined(&self) -> bool {
        self.joined
    }

    /// Returns whether the segment is declared lost and not retransmitted yet.
    pub const fn is_waiting(&self) -> bool {
        self.marks & (LOST | RESENT) == LOST
    }

    /// Returns whether the segment was sent after one that was sent at `at` and ends at `end`. Segments sent at the
    /// same time are ordered by sequence number (RFC 8985 §6.2 step 2).
    pub fn is_after(&self, at: Instant, end: Seq) -> bool {
        self.sent_at > at || self.sent_at == at && self.end.gt(end)
    }
}

/// Index of a segment in the connection: the first one sent is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Index(u64);

/// The outstanding segments.
#[derive(Clone, Default, Debug)]
pub struct Flight {
    segments: VecDeque<Sent>,
    /// Index of the first one.
    base: u64,
    /// Indices below `sorted` that are not sacked, in order.
    holes: VecDeque<u64>,
    /// Index from which nothing is sacked, lost or resent, and sequence order equals transmission order.
    sorted: u64,
    /// Index before which no segment waits for retransmission.
    waiting_from: u64,
    sacked: u32,
    lost: u32,
    resent: u32,
    waiting: u32,
    /// Segments that duplicates show to have arrived.
    guessed: u32,
}

impl Flight {
    /// Returns the number of unacknowledged segments (Linux `packets_out`).
    pub fn len(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Returns whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns whether no more segments can be tracked.
    pub fn is_full(&self) -> bool {
        self.segments.len() >= MAX_SEGMENTS
    }

    /// Returns the number of segments that the peer has reported, or that its duplicates represent (Linux
    /// `sacked_out`).
    pub const fn sacked(&self) -> u32 {
        self.sacked + self.guessed
    }

    /// Returns the number of segments declared lost.
    pub const fn lost(&self) -> u32 {
        self.lost
    }

    /// Returns the number of segments of which a retransmission is in flight.
    pub const fn resent(&self) -> u32 {
        self.resent
    }

    /// Returns the number of segments declared lost and not retransmitted yet.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns the number of segments in the network, according to the acknowledgments so far.
    pub fn in_flight(&self) -> u32 {
        (self.len() + self.resent).saturating_sub(self.sacked() + self.lost)
    }

    /// Returns the oldest segment.
    pub fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// Returns the latest segment.
    pub fn back(&self) -> Option<&Sent> {
        self.segments.back()
    }

    /// Returns a segment that is still outstanding.
    pub fn get(&self, index: Index) -> Option<&Sent> {
        self.segments.get(index.0.checked_sub(self.base)? as usize)
    }

    /// Returns all segments, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Index, &Sent)> {
        (self.base..).map(Index).zip(&self.segments)
    }

    /// Returns the segment that contains `seq`.
    pub fn find(&self, seq: Seq) -> Option<Index> {
        let at = self.segments.partition_point(|sent| sent.end.le(seq));
        self.segments.get(at).filter(|sent| sent.seq.le(seq)).map(|_| Index(self.base + at as u64))
    }

    /// Returns the number after the highest sacked one.
    pub fn highest_sacked(&self) -> Option<Seq> {
        // The highest one that is not a hole: holes are in order, so walk back over those that touch the end.
        if self.sacked == 0 {
            return None;
        }
        let mut place = self.sorted;
        for &hole in self.holes.iter().rev() {
            if hole + 1 != place {
                break;
            }
            place = hole;
        }
        self.get(Index(place.checked_sub(1)?)).map(Sent::end)
    }

    /// Adds a segment `seq..end` that leaves for the first time; with `push`, every transmission of it carries PSH.
    pub fn push(&mut self, (seq, end): (Seq, Seq), push: Switch, now: Instant, snapshot: Snapshot) {
        let pushed = push.is_on();
        self.segments.push_back(Sent {
            seq,
            end,
            sent_at: now,
            snapshot,
            marks: 0,
            transmissions: 1,
            pushed,
            begins: false,
            joined: false,
        });
    }

    /// Records that the segment, or the latest one, begins a super-segment.
    pub fn begin_super_segment(&mut self, index: Option<Index>) {
        let sent = match index {
            Some(index) => self.record(index),
            None => self.segments.back_mut(),
        };
        if let Some(sent) = sent {
            sent.begins = true;
        }
    }

    /// Records that the latest segment belongs to the same batch as the one before.
    pub fn join(&mut self) {
        if let Some(last) = self.segments.back_mut() {
            last.joined = true;
        }
    }

    /// Ends a batch behind a segment: what follows leaves separately.
    pub fn part(&mut self, index: Index) {
        if let Some(next) = self.record(Index(index.0 + 1)) {
            next.joined = false;
        }
    }

    /// Returns the index of the segment after another.
    pub const fn after(&self, index: Index) -> Index {
        Index(index.0 + 1)
    }

    /// Returns the segment after another.
    pub fn following(&self, index: Index) -> Option<&Sent> {
        self.get(Index(index.0 + 1))
    }

    /// Records that RACK has declared the segment lost.
    pub fn set_judged(&mut self, index: Index) {
        if let Some(sent) = self.record(index) {
            sent.marks |= JUDGED;
        }
    }

    /// Returns whether fewer retransmissions are in flight than segments are declared lost
    /// (`tcp_xmit_retransmit_queue`). After an undo, retransmissions of segments that are not lost any more remain.
    #[inline]
    pub fn lacks_retransmissions(&self) -> bool {
        self.resent < self.lost
    }

    /// Records a retransmission. It counts as such in [`Flight::in_flight`].
    pub fn resend(&mut self, index: Index, now: Instant, snapshot: Snapshot) {
        self.sort_until(index.0 + 1);
        self.repeat(index, now, snapshot);
        let Some(sent) = self.record(index) else { return };
        if sent.marks & (RESENT | SACKED) != 0 {
            return;
        }
        let waited = sent.is_waiting();
        sent.marks |= RESENT;
        self.resent += 1;
        self.waiting -= u32::from(waited);
    }

    /// Records a copy not triggered by a loss (a tail-loss probe), which is not counted.
    pub fn repeat(&mut self, index: Index, now: Instant, snapshot: Snapshot) {
        self.sort_until(index.0 + 1);
        if let Some(sent) = self.record(index) {
            sent.sent_at = now;
            sent.snapshot = snapshot;
            sent.transmissions = sent.transmissions.saturating_add(1);
            sent.marks &= !JUDGED;
        }
    }

    /// Removes everything below `una`, which has arrived. Calls `each` with the former state of every removed segment.
    pub fn acknowledge(&mut self, una: Seq, mut each: impl FnMut(&Sent)) {
        while let Some(first) = self.segments.front() {
            if first.end.gt(una) {
                break;
            }
            each(first);
            // Most segments bear no mark.
            if first.marks != 0 {
                self.sacked -= u32::from(first.is_sacked());
                self.lost -= u32::from(first.is_lost());
                self.resent -= u32::from(first.is_resent());
                self.waiting -= u32::from(first.is_waiting());
            }
            self.segments.pop_front();
            self.base += 1;
        }
        while self.holes.front().is_some_and(|&hole| hole < self.base) {
            self.holes.pop_front();
        }
        self.sorted = self.sorted.max(self.base);
        if let Some(first) = self.segments.front_mut() {
            first.seq = first.seq.max(una);
        } else if self.segments.capacity() > KEPT {
            self.segments = VecDeque::new();
            self.holes = VecDeque::new();
        }
    }

    /// Marks `left..right`, which the peer reports. Calls `each` with the former state of every newly covered segment,
    /// and the number after the highest sacked one before it.
    pub fn select(&mut self, left: Seq, right: Seq, mut each: impl FnMut(&Sent, Option<Seq>)) {
        let (from, to) = self.covered(left, right);
        if from >= to {
            return;
        }
        let mut highest = self.highest_sacked();
        let mut take = |flight: &mut Self, place: u64| {
            let Some(sent) = flight.record(Index(place)) else { return };
            each(sent, highest);
            let (lost, resent, waiting) = (sent.is_lost(), sent.is_resent(), sent.is_waiting());
            if highest.is_none_or(|highest| highest.lt(sent.end)) {
                highest = Some(sent.end);
            }
            sent.marks |= SACKED;
            sent.marks &= !LOST;
            if lost && resent {
                // The original arrived; its retransmission still counts as in flight (Linux `tcp_sacktag_one`).
                sent.marks &= !RESENT;
                flight.resent -= 1;
            }
            flight.lost -= u32::from(lost);
            flight.waiting -= u32::from(waiting);
            flight.sacked += 1;
        };
        let first = self.holes.partition_point(|&hole| hole < from);
        let last = self.holes.partition_point(|&hole| hole < to);
        for at in first..last {
            let place = self.holes[at];
            take(self, place);
        }
        self.holes.drain(first..last);
        if to > self.sorted {
            self.sort_until(from);
            for place in self.sorted..to {
                take(self, place);
            }
            self.sorted = to;
        }
    }

    /// Processes the report that data in `left..right` arrived twice. Calls `each` for every segment in it; a
    /// retransmission in flight has arrived.
    pub fn select_again(&mut self, left: Seq, right: Seq, mut each: impl FnMut(&Sent)) {
        let (from, to) = self.covered(left, right);
        for place in from..to {
            let Some(sent) = self.record(Index(place)) else { break };
            each(sent);
            if sent.is_sacked() && sent.is_resent() {
                sent.marks &= !RESENT;
                self.resent -= 1;
            }
        }
    }

    /// Declares a segment lost, or its retransmission if it was lost before. Returns whether that is new.
    pub fn mark_lost(&mut self, index: Index) -> bool {
        self.sort_until(index.0 + 1);
        let Some(sent) = self.record(index) else { return false };
        let again = sent.is_lost();
        if sent.is_sacked() || again && !sent.is_resent() {
            return false;
        }
        let resent = sent.is_resent();
        sent.marks |= LOST;
        if again {
            sent.marks &= !RESENT;
            self.resent -= 1;
        } else {
            self.lost += 1;
        }
        // A probe's copy may be in flight when the original is declared lost; then nothing waits.
        if again || !resent {
            self.waiting += 1;
            self.waiting_from = self.waiting_from.min(index.0);
        }
        true
    }

    /// Removes all loss marks.
    pub fn unmark_lost(&mut self) {
        for at in 0..self.holes.len() {
            if let Some(sent) = self.record(Index(self.holes[at])) {
                sent.marks &= !LOST;
            }
        }
        self.lost = 0;
        self.waiting = 0;
    }

    /// Discards all SACK marks: the peer has reneged (RFC 2018 §8).
    pub fn forget_sacks(&mut self) {
        for sent in &mut self.segments {
            sent.marks &= !SACKED;
        }
        self.sorted = self.base + self.segments.len() as u64;
        self.holes = (self.base..self.sorted).collect();
        self.sacked = 0;
        self.recount();
    }

    /// Returns the number of holes for [`Flight::hole`]: segments that may be missing, as they are below something
    /// sacked, lost or resent, or were sent before a segment that was sent at `at` and ends at `end`.
    pub fn holes(&mut self, at: Instant, end: Seq) -> usize {
        let mut sorted = self.sorted;
        while self.get(Index(sorted)).is_some_and(|sent| !sent.is_after(at, end)) {
            sorted += 1;
        }
        self.sort_until(sorted);
        self.holes.len()
    }

    /// Returns the hole with this index, in sequence order.
    pub fn hole(&self, at: usize) -> Option<Index> {
        self.holes.get(at).copied().map(Index)
    }

    /// Returns the first segment to be retransmitted.
    pub fn next_waiting(&mut self) -> Option<(Index, &Sent)> {
        if self.waiting == 0 {
            return None;
        }
        let start = self.holes.partition_point(|&hole| hole < self.waiting_from);
        let waits = |place: u64| self.get(Index(place)).is_some_and(Sent::is_waiting);
        let place = self.holes.range(start..).copied().find(|&place| waits(place))?;
        self.waiting_from = place;
        self.get(Index(place)).map(|sent| (Index(place), sent))
    }

    /// Splits segments longer than `mss`, which the path does not carry, and declares all that are not sacked lost.
    pub fn cut(&mut self, mss: u32) {
        let mss = mss.max(1);
        self.guessed = 0;
        let mut pieces = VecDeque::with_capacity(self.segments.len());
        for sent in &self.segments {
            let mut rest = *sent;
            if !rest.is_sacked() {
                rest.marks = LOST;
                while rest.end.since(rest.seq) > mss && pieces.len() < MAX_SEGMENTS {
                    pieces.push_back(Sent { end: rest.seq + mss, pushed: false, ..rest });
                    rest.seq += mss;
                }
            }
            pieces.push_back(rest);
        }
        self.segments = pieces;
        self.sorted = self.base + self.segments.len() as u64;
        self.holes = self.iter().filter(|(_, sent)| !sent.is_sacked()).map(|(index, _)| index.0).collect();
        self.recount();
    }

    /// Splits a segment at `middle`, which lies within it. PSH stays with the second part (Linux `tcp_fragment`).
    pub fn split(&mut self, index: Index, middle: Seq) {
        let Some(at) = index.0.checked_sub(self.base).map(|at| at as usize) else { return };
        if self.segments.len() >= MAX_SEGMENTS {
            return;
        }
        let Some(first) = self.segments.get_mut(at) else { return };
        let second = Sent { seq: middle, joined: true, ..*first };
        (first.end, first.pushed) = (middle, false);
        self.segments.insert(at + 1, second);
        self.sort_until(index.0 + 1);
        let next = index.0 + 1;
        self.holes.iter_mut().filter(|hole| **hole >= next).for_each(|hole| *hole += 1);
        self.sorted += 1;
        if !second.is_sacked() {
            let place = self.holes.partition_point(|hole| *hole < next);
            self.holes.insert(place, next);
        }
        self.waiting_from += u64::from(self.waiting_from >= next);
        self.sacked += u32::from(second.is_sacked());
        self.lost += u32::from(second.is_lost());
        self.resent += u32::from(second.is_resent());
        self.waiting += u32::from(second.is_waiting());
    }

    /// Merges a segment with the one behind it, for a retransmission (Linux `tcp_collapse_retrans`).
    pub fn merge(&mut self, index: Index) {
        self.sort_until(index.0 + 2);
        let next = index.0 + 1;
        let Some(at) = next.checked_sub(self.base).filter(|at| *at > 0).map(|at| at as usize) else { return };
        let Some(second) = self.segments.remove(at) else { return };
        if let Some(first) = self.segments.get_mut(at - 1) {
            first.end = second.end;
            first.pushed |= second.pushed;
            first.transmissions = first.transmissions.max(second.transmissions);
        }
        self.holes.retain(|hole| *hole != next);
        self.holes.iter_mut().filter(|hole| **hole > next).for_each(|hole| *hole -= 1);
        self.sorted -= 1;
        self.waiting_from -= u64::from(self.waiting_from > index.0 && self.waiting_from > self.base);
        self.sacked -= u32::from(second.is_sacked());
        self.lost -= u32::from(second.is_lost());
        self.resent -= u32::from(second.is_resent());
        self.waiting -= u32::from(second.is_waiting());
    }

    /// Returns whether every count is correct, and every order holds.
    pub fn is_sound(&self) -> bool {
        let count = |wanted: fn(&Sent) -> bool| self.segments.iter().filter(|sent| wanted(sent)).count() as u32;
        let counts = (self.sacked, self.lost, self.resent, self.waiting)
            == (count(Sent::is_sacked), count(Sent::is_lost), count(Sent::is_resent), count(Sent::is_waiting));
        let sorted = (self.sorted.saturating_sub(self.base)) as usize;
        let marked = self.segments.iter().skip(sorted).any(|sent| sent.marks != 0);
        let missing = self.iter().take(sorted).filter(|(_, sent)| !sent.is_sacked()).map(|(index, _)| index.0);
        let waiting = self.iter().find(|(_, sent)| sent.is_waiting()).map(|(index, _)| index.0);
        counts
            && !marked
            && self.sorted >= self.base
            && missing.eq(self.holes.iter().copied())
            && waiting.is_none_or(|first| first >= self.waiting_from)
            && self.segments.iter().all(|sent| !(sent.is_sacked() && sent.is_lost()) && sent.seq.lt(sent.end))
            && self.segments.iter().zip(self.segments.iter().skip(1)).all(|(a, b)| a.end == b.seq)
    }

    /// Returns the indices of the segments that lie entirely in `left..right`.
    fn covered(&self, left: Seq, right: Seq) -> (u64, u64) {
        let from = self.segments.partition_point(|sent| sent.seq.lt(left));
        let to = self.segments.partition_point(|sent| sent.end.le(right));
        (self.base + from as u64, self.base + to as u64)
    }

    fn record(&mut self, index: Index) -> Option<&mut Sent> {
        self.segments.get_mut(index.0.checked_sub(self.base)? as usize)
    }

    fn sort_until(&mut self, place: u64) {
        let place = place.min(self.base + self.segments.len() as u64);
        self.holes.extend(self.sorted..place.max(self.sorted));
        self.sorted = self.sorted.max(place);
    }

    fn recount(&mut self) {
        let count = |wanted: fn(&Sent) -> bool| self.segments.iter().filter(|sent| wanted(sent)).count() as u32;
        (self.sacked, self.lost) = (count(Sent::is_sacked), count(Sent::is_lost));
        (self.resent, self.waiting) = (count(Sent::is_resent), count(Sent::is_waiting));
        self.waiting_from = self.base;
    }
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
