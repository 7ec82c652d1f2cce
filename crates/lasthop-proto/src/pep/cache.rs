//! Packets of one connection that the base station caches until they are acknowledged.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::hop_window::Crossing;
use super::sendings::Sendings;
use crate::packet::{Packet, Payload};
use crate::seq::Seq;
use crate::time::Instant;

/// Minimum charge of a packet, in bytes: the memory of its headers, so that small packets cannot evade the limit.
const LEAST_CHARGE: u32 = 256;

/// Maximum number of cached packets of one connection.
pub(super) const MAX_PACKETS: usize = 8192;

/// Maximum number of acknowledged packets processed at once. Bounds the cost of an acknowledgment of a full cache.
const MOST_COUNTED: usize = 64;

/// Occasion on which packets are freed. Freed packets have left the processor's caches long ago, which makes freeing
/// expensive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// Arriving data: frees more than is added. A super-segment has hundreds of packets, each of which frees some.
    Data,
    /// An acknowledgment: usually frees all that it covers.
    Acknowledgment,
    /// A timer: no packet waits.
    Time,
}

impl Pace {
    /// Returns the maximum number of packets freed at once.
    const fn most_freed(self) -> usize {
        match self {
            Self::Data => 3,
            Self::Acknowledgment => 8,
            Self::Time => 16,
        }
    }
}

/// Minimum capacity kept when the cache shrinks, in packets, and divisor of the capacity below which it shrinks.
const KEEP_CAPACITY: usize = 32;
const USED_PART: usize = 16;

/// Size, in packets, from which a cache reserves its maximum capacity at once. Moving thousands of packets would take
/// longer than all other work that a packet causes. Unused capacity takes no memory.
const LARGE: usize = 512;

/// Origin of a packet's last transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// Sent once, in order.
    Fresh,
    /// Resent by the sender, or late: taken for a retransmission.
    Resent,
}

/// Location of a cached packet, as far as the base station knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whereabouts {
    /// Not sent yet: held until the window admits it.
    Held,
    /// On the hop, or lost there.
    OnHop,
    /// At the mobile host.
    Arrived,
}

/// A cached packet: its position in the stream and its state, and a separately allocated part with the rest.
///
/// A search examines a dozen of these, and an acknowledgment all that it covers, while the rest of thousands of packets
/// is not in the processor's caches.
#[derive(Clone, Debug)]
pub(super) struct Cached<P> {
    /// First byte.
    pub seq: Seq,
    /// One past its last byte, or past its FIN.
    pub end: Seq,
    /// Payload, in bytes.
    pub len: u32,
    pub whereabouts: Whereabouts,
    sent: Sent,
    kept: Box<Kept<P>>,
}

/// Number of transmissions by the sender and the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Once,
    Again,
}

/// The packet, and the rest of its state.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Kept<P> {
    /// Time of the last transmission by the sender or the cache.
    pub last_sent: Instant,
    /// Time of the first transmission.
    pub first_sent: Instant,
    /// Time of the last transmission that was not a mere repetition. An answer sooner than the hop allows is for an
    /// earlier transmission.
    pub again_sent: Instant,
    /// Positions in the order of transmissions.
    pub sendings: Sendings,
    /// Bytes on the hop when it left for the first time, including its own; 0 without flow control, and if that says
    /// nothing of the hop's rate.
    pub under_way: u32,
    /// Bytes that had arrived by then.
    pub arrived_before: u32,
    /// Number of local retransmissions since the sender last sent it.
    pub local: u32,
    /// Number of local retransmissions triggered by the timer.
    pub by_timer: u32,
    /// Number of copies sent without proof that the previous one was lost. Each may return as a duplicate
    /// acknowledgment.
    pub unproven: u32,
    pub origin: Origin,
    pub packet: Packet<P>,
}

impl<P> Deref for Cached<P> {
    type Target = Kept<P>;

    #[inline]
    fn deref(&self) -> &Kept<P> {
        &self.kept
    }
}

impl<P> DerefMut for Cached<P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Kept<P> {
        &mut self.kept
    }
}

impl<P: Payload> Cached<P> {
    /// Returns a packet that leaves for the first time, or again if `origin` says so.
    pub fn new(now: Instant, packet: Packet<P>, seq: Seq, origin: Origin, places: &mut Places<P>) -> Self {
        let (len, end) = (packet.len, seq + packet.seq_len());
        let sent = if origin == Origin::Resent { Sent::Again } else { Sent::Once };
        let sendings = Sendings::default();
        let kept = places.put(Kept {
            last_sent: now,
            first_sent: now,
            again_sent: now,
            sendings,
            under_way: 0,
            arrived_before: 0,
            local: 0,
            by_timer: 0,
            unproven: 0,
            origin,
            packet,
        });
        Self { seq, end, len, whereabouts: Whereabouts::OnHop, sent, kept }
    }
}

impl<P> Cached<P> {
    /// Returns whether the packet contains this byte.
    #[inline]
    pub fn covers(&self, byte: Seq) -> bool {
        self.seq.le(byte) && byte.lt(self.end)
    }

    /// Returns whether it left more than once.
    #[inline]
    pub fn sent_again(&self) -> bool {
        self.sent == Sent::Again
    }

    /// Returns its crossing of the hop, which is valid if it was sent once.
    #[inline]
    pub fn crossing(&self) -> Crossing {
        Crossing { sent: self.last_sent, under_way: self.under_way, arrived_before: self.arrived_before }
    }

    /// Records a local retransmission.
    pub fn repeat(&mut self, now: Instant) {
        self.sent = Sent::Again;
        self.kept.last_sent = now;
        self.kept.local = self.kept.local.saturating_add(1);
    }
}

/// Free allocations for packets, of all connections.
///
/// Returning thousands to the allocator can take longer than all other work that a packet causes.
#[derive(Clone, Debug)]
pub(super) struct Places<P>(Vec<Box<Kept<P>>>);

impl<P: Payload> Places<P> {
    /// Returns an empty pool.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    fn put(&mut self, kept: Kept<P>) -> Box<Kept<P>> {
        match self.0.pop() {
            Some(mut place) => {
                *place = kept;
                place
            }
            None => Box::new(kept),
        }
    }

    fn take_back(&mut self, mut place: Box<Kept<P>>) {
        if self.0.len() < MAX_PACKETS {
            if self.0.capacity() == 0 {
                self.0.reserve_exact(MAX_PACKETS);
            }
            // The payload is freed now.
            place.packet.payload = P::default();
            self.0.push(place);
        }
    }
}

/// Returns the number of bytes that the packet counts towards the limit.
#[inline]
pub(super) fn charge<P>(packet: &Packet<P>) -> u64 {
    u64::from(packet.len.max(LEAST_CHARGE))
}

/// Position of a segment relative to the cached packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Overlap {
    /// Touches no packet; it belongs at this index.
    None(usize),
    /// Covers these `count` packets starting at `first`, and no other byte of the cache.
    Covers {
        /// Index of the first.
        first: usize,
        /// Number of packets.
        count: usize,
    },
    /// Cuts through some packets.
    Cuts {
        /// Index of the first.
        first: usize,
        /// Number of packets.
        count: usize,
    },
}

impl Overlap {
    /// Returns the index of the first overlapped packet, or of the packet before which the segment belongs, and the
    /// number of overlapped packets.
    pub const fn range(self) -> (usize, usize) {
        match self {
            Self::None(first) => (first, 0),
            Self::Covers { first, count } | Self::Cuts { first, count } => (first, count),
        }
    }
}

/// Summary of acknowledged packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    /// Crossing of the last of all packets acknowledged together; `None` until that one is processed, and if any of
    /// them left more than once (Karn's rule).
    pub sample: Option<Crossing>,
    /// Number of copies that may return as duplicate acknowledgments.
    pub unproven: u32,
    /// Payload bytes of packets not reported as arrived before.
    pub landed: u64,
    /// Payload bytes of packets that never left here: they reached the mobile host by another path.
    pub held: u64,
}

/// Consecutive packets that left once each, and so in order. The first and the last that arrived show as much of the
/// order as all of them.
struct Run<'c, P> {
    is_begun: bool,
    last: Option<&'c Cached<P>>,
}

impl<'c, P> Run<'c, P> {
    const NONE: Self = Self { is_begun: false, last: None };

    /// Adds a packet that has arrived, to the run if it left once.
    fn add(&mut self, packet: &'c Cached<P>, arrived: &mut impl FnMut(&Cached<P>)) {
        if packet.sent_again() || !core::mem::replace(&mut self.is_begun, true) {
            arrived(packet);
        } else {
            self.last = Some(packet);
        }
    }

    fn end(&mut self, arrived: &mut impl FnMut(&Cached<P>)) {
        if let Some(last) = self.last.take() {
            arrived(last);
        }
        self.is_begun = false;
    }
}

/// Packets in order of sequence number, without overlaps, all within 2^31. Indices count from the first unacknowledged
/// packet.
///
/// Acknowledged packets become invisible at once, but are processed and freed a few at a time, so that no single
/// acknowledgment pays for thousands. Packets are boxed for the same reason: an insertion moves only 24 bytes for each
/// packet behind it.
#[derive(Clone, Debug)]
pub(super) struct Cache<P> {
    packets: VecDeque<Cached<P>>,
    /// Number of acknowledged packets at the front.
    acknowledged: usize,
    /// Number of acknowledged packets that have been processed and only have to be freed.
    counted: usize,
    /// True if any of the packets processed so far left more than once, until the last acknowledged one is processed.
    again: bool,
    /// Charge of all packets that are not freed, in bytes.
    bytes: u64,
    /// Number of packets with [`Origin::Resent`] that have not been processed.
    resent: u32,
    /// Ends of gaps: data before these numbers was not seen, or not cached.
    gaps: VecDeque<Seq>,
}

impl<P: Payload> Cache<P> {
    /// Returns an empty cache.
    pub fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            acknowledged: 0,
            counted: 0,
            again: false,
            bytes: 0,
            resent: 0,
            gaps: VecDeque::new(),
        }
    }

    /// Returns the number of bytes charged.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of unacknowledged packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len() - self.acknowledged
    }

    /// Returns whether the maximum number of packets is reached.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.packets.len() >= MAX_PACKETS
    }

    /// Returns whether there are acknowledged packets left.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.acknowledged > 0
    }

    /// Returns whether all packets can be dropped at once.
    pub fn is_small(&self) -> bool {
        self.packets.len() <= Pace::Time.most_freed()
    }

    /// Returns the oldest unacknowledged packet.
    #[inline]
    pub fn front(&self) -> Option<&Cached<P>> {
        self.packets.get(self.acknowledged)
    }

    /// Returns the packet at an index.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Cached<P>> {
        self.packets.get_mut(self.acknowledged + index)
    }

    /// Returns the packets starting at an index.
    #[inline]
    fn from(&self, index: usize) -> impl Iterator<Item = &Cached<P>> {
        self.packets.range(self.acknowledged + index..)
    }

    /// Returns whether the sender resent any cached packet.
    #[inline]
    pub fn any_resent(&self) -> bool {
        self.resent > 0
    }

    /// Returns whether every byte from the oldest packet to `seq` is cached.
    #[inline]
    pub fn is_whole_below(&self, seq: Seq) -> bool {
        self.gaps.front().is_none_or(|gap| gap.gt(seq))
    }

    /// Returns whether the `count` packets starting at `first` are `seq..end`, without a gap.
    pub fn is_unbroken(&self, first: usize, count: usize, seq: Seq, end: Seq) -> bool {
        let mut next = seq;
        for packet in self.from(first).take(count) {
            if packet.seq != next {
                return false;
            }
            next = packet.end;
        }
        next == end
    }

    /// Returns the index of the first packet that starts at `seq` or later.
    pub fn index_from(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.seq.lt(seq)).saturating_sub(self.acknowledged)
    }

    /// Returns the index of the first packet that ends after `seq`.
    pub fn index_after(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.end.le(seq)).saturating_sub(self.acknowledged)
    }

    /// Returns the position of `seq..end` relative to the cached packets.
    pub fn overlap(&self, seq: Seq, end: Seq) -> Overlap {
        let first = self.index_after(seq);
        let Some(front) = self.from(first).next().filter(|front| front.seq.lt(end)) else {
            return Overlap::None(first);
        };
        let count = self.index_from(end) - first;
        let whole = front.seq.ge(seq) && self.packets[self.acknowledged + first + count - 1].end.le(end);
        if whole { Overlap::Covers { first, count } } else { Overlap::Cuts { first, count } }
    }

    /// Adds a packet after all others.
    #[inline]
    pub fn push(&mut self, packet: Cached<P>) {
        if self.len() > 0 && self.packets.back().is_some_and(|last| last.end != packet.seq) {
            self.gaps.push_back(packet.seq);
        }
        self.count_in(&packet);
        self.grow();
        self.packets.push_back(packet);
    }

    /// Returns whether a packet contains the same bytes as the `count` packets starting at `first`.
    pub fn agrees(&self, first: usize, count: usize, packet: &Packet<P>) -> bool {
        self.from(first).take(count).all(|kept| P::agrees(&kept.packet, packet))
    }

    /// Replaces the `count` packets starting at `index` with one packet.
    pub fn replace(&mut self, index: usize, count: usize, packet: Cached<P>, places: &mut Places<P>) {
        self.uncount(index, count);
        self.count_in(&packet);
        let at = self.acknowledged + index;
        if count == 0 {
            self.grow();
            self.packets.insert(at, packet);
        } else {
            places.take_back(core::mem::replace(&mut self.packets[at], packet).kept);
            self.packets.drain(at + 1..at + count).for_each(|old| places.take_back(old.kept));
        }
        self.note_gaps(index..index + 2);
    }

    /// Removes the `count` packets starting at `index`, and passes each to `seen`.
    pub fn remove(&mut self, index: usize, count: usize, places: &mut Places<P>, mut seen: impl FnMut(&Cached<P>)) {
        self.uncount(index, count);
        let at = self.acknowledged + index;
        for packet in self.packets.drain(at..at + count) {
            seen(&packet);
            places.take_back(packet.kept);
        }
        self.note_gaps(index..index + 1);
    }

    /// Ensures capacity for one more packet.
    fn grow(&mut self) {
        let len = self.packets.len();
        if len == self.packets.capacity() && (LARGE..MAX_PACKETS).contains(&len) {
            self.packets.reserve_exact(MAX_PACKETS - len);
        }
    }

    fn count_in(&mut self, packet: &Cached<P>) {
        self.bytes += charge(&packet.packet);
        self.resent += u32::from(packet.origin == Origin::Resent);
    }

    /// Subtracts the counts of the `count` packets starting at `index`, and removes the gaps at and behind them.
    fn uncount(&mut self, index: usize, count: usize) {
        for old in self.packets.range(self.acknowledged + index..).take(count) {
            self.bytes -= charge(&old.packet);
            self.resent -= u32::from(old.origin == Origin::Resent);
        }
        let Some(first) = self.from(index).next() else { return };
        let Some(last) = self.from(index + count).next().or_else(|| self.packets.back()) else { return };
        let from = self.gaps.partition_point(|gap| gap.lt(first.seq));
        let to = self.gaps.partition_point(|gap| gap.le(last.seq));
        self.gaps.drain(from..to);
    }

    /// Records the gaps before these packets.
    fn note_gaps(&mut self, indices: core::ops::Range<usize>) {
        for index in indices.start.max(1)..indices.end.min(self.len()) {
            let at = self.acknowledged + index;
            let seq = self.packets[at].seq;
            if self.packets[at - 1].end != seq {
                let at = self.gaps.partition_point(|gap| gap.lt(seq));
                self.gaps.insert(at, seq);
            }
        }
    }

    /// Records that the sender resent the packet at `index`.
    pub fn set_resent(&mut self, index: usize) {
        if let Some(packet) = self.get_mut(index)
            && packet.origin == Origin::Fresh
        {
            packet.origin = Origin::Resent;
            packet.sent = Sent::Again;
            self.resent += 1;
        }
    }

    /// Acknowledges all data below `ack` and returns the number of packets covered. [`Cache::take_out`] has to be
    /// called afterwards.
    #[inline]
    pub fn acknowledge(&mut self, ack: Seq) -> u32 {
        let before = self.acknowledged;
        // Usually one or two.
        while self.acknowledged - before < MOST_COUNTED && self.from(0).next().is_some_and(|front| front.end.le(ack)) {
            self.acknowledged += 1;
        }
        if self.acknowledged - before == MOST_COUNTED {
            self.acknowledged = self.packets.partition_point(|packet| packet.end.le(ack)).max(self.acknowledged);
        }
        let passed = match self.from(0).next().map(|front| front.seq) {
            Some(front) => self.gaps.partition_point(|gap| gap.le(front)),
            None => self.gaps.len(),
        };
        self.gaps.drain(..passed);
        (self.acknowledged - before) as u32
    }

    /// Processes and frees a part of the acknowledged packets. Calls `arrived` for each packet not reported as arrived
    /// before.
    #[inline]
    pub fn take_out(&mut self, pace: Pace, places: &mut Places<P>, mut arrived: impl FnMut(&Cached<P>)) -> Taken {
        let mut taken = Taken { sample: None, unproven: 0, landed: 0, held: 0 };
        let until = self.acknowledged.min(self.counted + MOST_COUNTED);
        let mut run = Run::NONE;
        for packet in self.packets.range(self.counted..until) {
            match packet.whereabouts {
                Whereabouts::OnHop => taken.landed += u64::from(packet.len),
                Whereabouts::Held => taken.held += u64::from(packet.len),
                Whereabouts::Arrived => {}
            }
            if packet.sent_again() {
                run.end(&mut arrived);
                // Only these packets and the last need their separate part.
                self.again = true;
                self.resent -= u32::from(packet.origin == Origin::Resent);
                taken.unproven = taken.unproven.saturating_add(packet.unproven);
            }
            if packet.whereabouts == Whereabouts::OnHop {
                run.add(packet, &mut arrived);
            }
        }
        run.end(&mut arrived);
        let last = self.packets.range(self.counted..until).next_back();
        if until == self.acknowledged && !self.again {
            taken.sample = last.map(|last| last.crossing());
        }
        self.counted = until;
        self.again &= until < self.acknowledged;
        self.free(pace, places);
        taken
    }

    /// Drops a part of the packets of a removed connection. Returns whether nothing is left.
    pub fn drop_some(&mut self, pace: Pace, places: &mut Places<P>) -> bool {
        (self.resent, self.gaps) = (0, VecDeque::new());
        (self.acknowledged, self.counted) = (self.packets.len(), self.packets.len());
        self.free(pace, places);
        self.packets.is_empty()
    }

    /// Frees a part of the processed packets.
    #[inline]
    fn free(&mut self, pace: Pace, places: &mut Places<P>) {
        for _ in 0..self.counted.min(pace.most_freed()) {
            let Some(Cached { kept, .. }) = self.packets.pop_front() else { break };
            self.bytes -= charge(&kept.packet);
            places.take_back(kept);
            (self.acknowledged, self.counted) = (self.acknowledged - 1, self.counted - 1);
        }
        // Thousands of idle connections must not keep the capacity that a large window once needed.
        let kept = self.packets.capacity();
        if kept > KEEP_CAPACITY && self.packets.len() < kept / USED_PART {
            self.packets.shrink_to((self.packets.len() * 2).max(KEEP_CAPACITY));
        }
    }
}

#[cfg(test)]
impl<P> Cache<P> {
    /// Returns the packets that have not been processed, acknowledged ones included.
    pub fn unprocessed(&self) -> impl Iterator<Item = &Cached<P>> {
        self.packets.iter().skip(self.counted)
    }

    /// Checks the invariants.
    pub fn check(&self) {
        let after = self.packets.iter().skip(1);
        for (packet, next) in self.packets.iter().zip(after) {
            assert!(packet.seq.lt(packet.end) && packet.end.le(next.seq), "{} {} {}", packet.seq, packet.end, next.seq);
        }
        assert!(self.counted <= self.acknowledged && self.acknowledged <= self.packets.len());
        let told = |packet: &Cached<P>| {
            let again = packet.local > 0 || packet.unproven > 0 || packet.origin == Origin::Resent;
            packet.len == packet.packet.len && packet.sent_again() == again
        };
        assert!(self.packets.iter().all(told));
        assert_eq!(self.bytes, self.packets.iter().map(|packet| charge(&packet.packet)).sum());
        let uncounted = self.packets.iter().skip(self.counted);
        assert_eq!(self.resent as usize, uncounted.filter(|packet| packet.origin == Origin::Resent).count());
        let live = || self.packets.iter().skip(self.acknowledged);
        let pairs = live().zip(live().skip(1));
        let gaps: VecDeque<_> =
            pairs.filter(|(packet, next)| packet.end != next.seq).map(|(_, next)| next.seq).collect();
        assert_eq!(self.gaps, gaps);
        assert!(self.packets.capacity() <= KEEP_CAPACITY.max(USED_PART * (self.packets.len() + 1)));
    }
}
