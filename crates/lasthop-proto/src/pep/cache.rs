//! The packets of one connection that the base station keeps until they are acknowledged.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::hop_window::Crossing;
use super::sendings::Sendings;
use crate::packet::{Packet, Payload};
use crate::seq::Seq;
use crate::time::Instant;

/// Least that a packet counts, in bytes: what its headers take in memory, so that small packets cannot get past the limit.
const LEAST_CHARGE: u32 = 256;

/// Most packets kept of one connection.
pub(super) const MAX_PACKETS: usize = 8192;

/// Most acknowledged packets that are looked at at once: bounds what an acknowledgment of a full cache can cost.
const MOST_COUNTED: usize = 64;

/// For whose sake packets are freed. What is freed has left the processor's caches long ago, which makes it dear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// Data's, so that more goes than comes; a super-segment has hundreds of packets, each of which frees some.
    Data,
    /// An acknowledgment's: usually all that it covers.
    Acknowledgment,
    /// Memory's: nothing waits.
    Time,
}

impl Pace {
    /// Most packets freed at once.
    const fn most_freed(self) -> usize {
        match self {
            Self::Data => 3,
            Self::Acknowledgment => 8,
            Self::Time => 16,
        }
    }
}

/// Packets for which room is kept when the cache shrinks, and the part of its room that is in use then.
const KEEP_CAPACITY: usize = 32;
const USED_PART: usize = 16;

/// A cache that outgrows so many packets has room for all that it may keep at once: to move thousands would take longer than all else
/// that a packet causes. What is not used of it takes no memory.
const LARGE: usize = 512;

/// Whose transmission of a packet was the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// Sent once, in order.
    Fresh,
    /// Resent by the sender, or late: taken for a resend.
    Resent,
}

/// Where a packet kept is, as far as the base station knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whereabouts {
    /// Not sent yet: it waits for room on the hop.
    Held,
    /// On the hop, or lost there.
    OnHop,
    /// At the mobile host.
    Arrived,
}

/// A packet kept: where it lies in the stream and whether it has arrived, and beside that, in a place of its own, the rest.
///
/// A search looks at a dozen of these and an acknowledgment at each that it covers, but the rest of thousands of packets is not in the
/// processor's caches.
#[derive(Clone, Debug)]
pub(super) struct Cached<P> {
    /// Its first byte.
    pub seq: Seq,
    /// One past its last byte, or past its FIN.
    pub end: Seq,
    /// Bytes of payload.
    pub len: u32,
    pub whereabouts: Whereabouts,
    sent: Sent,
    kept: Box<Kept<P>>,
}

/// How often a packet left, by whoever's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Once,
    Again,
}

/// What else is known of a packet, and the packet.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Kept<P> {
    /// When it last left, by whoever's doing.
    pub last_sent: Instant,
    /// When it first left.
    pub first_sent: Instant,
    /// When it last left but for mere repetitions: sooner than the hop can bring an answer to that, one is for an earlier sending.
    pub again_sent: Instant,
    /// In which order.
    pub sendings: Sendings,
    /// Bytes that were on the hop when it left for the first time, its own among them; 0 without flow control, and where that says
    /// nothing of the hop's rate.
    pub under_way: u32,
    /// Bytes that had arrived by then.
    pub arrived_before: u32,
    /// Local retransmissions since the sender last sent it.
    pub local: u32,
    /// Those of them made by the timer.
    pub by_timer: u32,
    /// Copies sent without proof that the one before was lost: each may come back as a duplicate acknowledgment.
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
    /// A packet that leaves for the first time, or again when `origin` says so.
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
    /// Whether the packet holds this byte.
    #[inline]
    pub fn covers(&self, byte: Seq) -> bool {
        self.seq.le(byte) && byte.lt(self.end)
    }

    /// Whether it left more than once.
    #[inline]
    pub fn sent_again(&self) -> bool {
        self.sent == Sent::Again
    }

    /// How it crossed the hop, if it was sent once.
    #[inline]
    pub fn crossing(&self) -> Crossing {
        Crossing { sent: self.last_sent, under_way: self.under_way, arrived_before: self.arrived_before }
    }

    /// It is resent from here.
    pub fn repeat(&mut self, now: Instant) {
        self.sent = Sent::Again;
        self.kept.last_sent = now;
        self.kept.local = self.kept.local.saturating_add(1);
    }
}

/// Places for packets, of all connections, that are free.
///
/// To give thousands back to the allocator, and have it sort them, can take longer than all else that a packet causes.
#[derive(Clone, Debug)]
pub(super) struct Places<P>(Vec<Box<Kept<P>>>);

impl<P: Payload> Places<P> {
    /// None yet.
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
            // What is in it goes now.
            place.packet.payload = P::default();
            self.0.push(place);
        }
    }
}

/// What the packet counts towards the limit on bytes.
#[inline]
pub(super) fn charge<P>(packet: &Packet<P>) -> u64 {
    u64::from(packet.len.max(LEAST_CHARGE))
}

/// How a segment lies to what is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Overlap {
    /// It touches nothing; it belongs at this index.
    None(usize),
    /// It covers these `count` packets from `first` on, and no other byte of the cache.
    Covers {
        /// Index of the first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// It cuts through some of these.
    Cuts {
        /// Index of the first.
        first: usize,
        /// How many.
        count: usize,
    },
}

impl Overlap {
    /// Index of the first packet that is met, or in front of which the segment belongs; and how many are met.
    pub const fn range(self) -> (usize, usize) {
        match self {
            Self::None(first) => (first, 0),
            Self::Covers { first, count } | Self::Cuts { first, count } => (first, count),
        }
    }
}

/// What there was to know of acknowledged packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    /// When the last of all that were acknowledged together left; `None` before it is looked at, and when any of them left more
    /// than once (Karn's rule).
    pub sample: Option<Crossing>,
    /// Copies that may come back as duplicate acknowledgments.
    pub unproven: u32,
    /// Payload bytes of those of which nothing said before that they had arrived.
    pub landed: u64,
    /// Payload bytes of those that never left here: they came to the mobile host by another way.
    pub held: u64,
}

/// Packets in a row that left once each, and so in their order: the first and the last that arrived tell as much of the order as all of
/// them.
struct Run<'c, P> {
    is_begun: bool,
    last: Option<&'c Cached<P>>,
}

impl<'c, P> Run<'c, P> {
    const NONE: Self = Self { is_begun: false, last: None };

    /// A packet has arrived, in a row if it left once.
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

/// Packets in order of sequence number, none overlapping another, all within 2^31. Indices count from the first that is not
/// acknowledged.
///
/// What an acknowledgment covers is out of sight at once, but looked at and freed a few packets at a time: no acknowledgment has
/// to pay for thousands. For the same reason packets are boxed: to put one in their midst moves 24 bytes for each behind it.
#[derive(Clone, Debug)]
pub(super) struct Cache<P> {
    packets: VecDeque<Cached<P>>,
    /// How many in front are acknowledged.
    acknowledged: usize,
    /// How many of these have been looked at, and only have to be freed.
    counted: usize,
    /// Whether any of those looked at left more than once, until the last is.
    again: bool,
    /// Of all packets that are not freed.
    bytes: u64,
    /// Packets with [`Origin::Resent`] that have not been looked at.
    resent: u32,
    /// Where discontinuities end: data before these places never came by, or was not kept.
    gaps: VecDeque<Seq>,
}

impl<P: Payload> Cache<P> {
    /// An empty cache.
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

    /// Bytes charged.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets that are not acknowledged.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len() - self.acknowledged
    }

    /// Whether there is room for one more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.packets.len() >= MAX_PACKETS
    }

    /// Whether there are acknowledged packets left.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.acknowledged > 0
    }

    /// Whether all can be dropped in one go.
    pub fn is_small(&self) -> bool {
        self.packets.len() <= Pace::Time.most_freed()
    }

    /// The oldest packet.
    #[inline]
    pub fn front(&self) -> Option<&Cached<P>> {
        self.packets.get(self.acknowledged)
    }

    /// The packet at an index.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Cached<P>> {
        self.packets.get_mut(self.acknowledged + index)
    }

    /// Packets from an index on.
    #[inline]
    fn from(&self, index: usize) -> impl Iterator<Item = &Cached<P>> {
        self.packets.range(self.acknowledged + index..)
    }

    /// Whether the sender resent any packet kept here.
    #[inline]
    pub fn any_resent(&self) -> bool {
        self.resent > 0
    }

    /// Whether every byte from the oldest packet to `seq` is here.
    #[inline]
    pub fn is_whole_below(&self, seq: Seq) -> bool {
        self.gaps.front().is_none_or(|gap| gap.gt(seq))
    }

    /// Whether the `count` packets from `first` on are `seq..end`, without a gap.
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

    /// Index of the first packet that starts at `seq` or later.
    pub fn index_from(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.seq.lt(seq)).saturating_sub(self.acknowledged)
    }

    /// Index of the first packet that ends after `seq`.
    pub fn index_after(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.end.le(seq)).saturating_sub(self.acknowledged)
    }

    /// How `seq..end` lies to what is cached.
    pub fn overlap(&self, seq: Seq, end: Seq) -> Overlap {
        let first = self.index_after(seq);
        let Some(front) = self.from(first).next().filter(|front| front.seq.lt(end)) else {
            return Overlap::None(first);
        };
        let count = self.index_from(end) - first;
        let whole = front.seq.ge(seq) && self.packets[self.acknowledged + first + count - 1].end.le(end);
        if whole { Overlap::Covers { first, count } } else { Overlap::Cuts { first, count } }
    }

    /// Adds a packet behind all others.
    #[inline]
    pub fn push(&mut self, packet: Cached<P>) {
        if self.len() > 0 && self.packets.back().is_some_and(|last| last.end != packet.seq) {
            self.gaps.push_back(packet.seq);
        }
        self.count_in(&packet);
        self.grow();
        self.packets.push_back(packet);
    }

    /// Whether a packet holds the same bytes as the `count` packets from `first` on.
    pub fn agrees(&self, first: usize, count: usize, packet: &Packet<P>) -> bool {
        self.from(first).take(count).all(|kept| P::agrees(&kept.packet, packet))
    }

    /// Puts a packet in place of the `count` packets from `index` on.
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

    /// Takes out the `count` packets from `index` on, and shows each to `seen`.
    pub fn remove(&mut self, index: usize, count: usize, places: &mut Places<P>, mut seen: impl FnMut(&Cached<P>)) {
        self.uncount(index, count);
        let at = self.acknowledged + index;
        for packet in self.packets.drain(at..at + count) {
            seen(&packet);
            places.take_back(packet.kept);
        }
        self.note_gaps(index..index + 1);
    }

    /// Makes room for one more.
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

    /// What the `count` packets from `index` on counted for, and the gaps at and behind them.
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

    /// The gaps in front of these packets.
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

    /// The sender resent the packet at `index`.
    pub fn set_resent(&mut self, index: usize) {
        if let Some(packet) = self.get_mut(index)
            && packet.origin == Origin::Fresh
        {
            packet.origin = Origin::Resent;
            packet.sent = Sent::Again;
            self.resent += 1;
        }
    }

    /// All below `ack` is acknowledged: how many packets that is. [`Cache::take_out`] has to be called then.
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

    /// Looks at some of what is acknowledged, and frees some of that; `arrived` is told of each packet of which nothing said
    /// before that it had.
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
                // Only of these the rest is looked at, and of the last.
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

    /// Drops some of what there is, of a connection that is over. Whether nothing is left.
    pub fn drop_some(&mut self, pace: Pace, places: &mut Places<P>) -> bool {
        (self.resent, self.gaps) = (0, VecDeque::new());
        (self.acknowledged, self.counted) = (self.packets.len(), self.packets.len());
        self.free(pace, places);
        self.packets.is_empty()
    }

    /// Frees some of the packets that have been looked at.
    #[inline]
    fn free(&mut self, pace: Pace, places: &mut Places<P>) {
        for _ in 0..self.counted.min(pace.most_freed()) {
            let Some(Cached { kept, .. }) = self.packets.pop_front() else { break };
            self.bytes -= charge(&kept.packet);
            places.take_back(kept);
            (self.acknowledged, self.counted) = (self.acknowledged - 1, self.counted - 1);
        }
        // What a large window once took must not stay taken by thousands of idle connections.
        let kept = self.packets.capacity();
        if kept > KEEP_CAPACITY && self.packets.len() < kept / USED_PART {
            self.packets.shrink_to((self.packets.len() * 2).max(KEEP_CAPACITY));
        }
    }
}

#[cfg(test)]
impl<P> Cache<P> {
    /// Checks what must hold at all times.
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
