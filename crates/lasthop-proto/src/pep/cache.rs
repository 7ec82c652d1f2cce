//! The packets of one connection that the base station keeps until they are acknowledged.

use alloc::collections::VecDeque;

use super::repair::Sendings;
use crate::packet::{Packet, Payload};
use crate::seq::Seq;
use crate::time::Instant;

/// Least that a packet counts, in bytes: what its headers take in memory, so that small packets cannot get past the limit.
const LEAST_CHARGE: u32 = 256;

/// Most packets kept of one connection.
pub(super) const MAX_PACKETS: usize = 8192;

/// Most packets that move when one is put in their midst: bounds what a packet of the sender's can cost.
const MOST_MOVED: usize = 256;

/// Packets for which room is kept when the cache shrinks.
const KEEP_CAPACITY: usize = 32;

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

/// A packet kept.
#[derive(Clone, Debug)]
pub(super) struct Cached<P> {
    pub packet: Packet<P>,
    pub seq: Seq,
    /// One past its last byte, or past its FIN.
    pub end: Seq,
    /// When it last left, by whoever's doing.
    pub last_sent: Instant,
    /// In which order.
    pub sendings: Sendings,
    /// Local retransmissions since the sender last sent it.
    pub local: u32,
    /// Those of them made by the timer.
    pub by_timer: u32,
    /// Copies sent without proof that the one before was lost: each may come back as a duplicate acknowledgment.
    pub unproven: u32,
    pub origin: Origin,
    pub whereabouts: Whereabouts,
}

impl<P> Cached<P> {
    /// A packet that leaves for the first time, or again when `origin` says so.
    pub fn new(now: Instant, packet: Packet<P>, seq: Seq, origin: Origin) -> Self {
        let end = seq + packet.seq_len();
        Self {
            packet,
            seq,
            end,
            last_sent: now,
            sendings: Sendings::default(),
            local: 0,
            by_timer: 0,
            unproven: 0,
            origin,
            whereabouts: Whereabouts::OnHop,
        }
    }

    /// Whether the packet holds this byte.
    #[inline]
    pub fn covers(&self, byte: Seq) -> bool {
        self.seq.le(byte) && byte.lt(self.end)
    }

    /// Whether it left more than once.
    #[inline]
    pub fn sent_again(&self) -> bool {
        self.local > 0 || self.origin == Origin::Resent
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

/// What an acknowledgment took out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Purged {
    /// Packets.
    pub packets: u32,
    /// When the last of them left; `None` when any of them left more than once (Karn's rule).
    pub sample: Option<Instant>,
    /// Copies that may come back as duplicate acknowledgments.
    pub unproven: u32,
    /// Payload bytes of those of which nothing said before that they had arrived.
    pub landed: u64,
    /// Payload bytes of those that never left here: they came to the mobile host by another way.
    pub held: u64,
}

/// Packets in order of sequence number, none overlapping another, all within 2^31.
#[derive(Clone, Debug)]
pub(super) struct Cache<P> {
    packets: VecDeque<Cached<P>>,
    bytes: u64,
    /// Packets with [`Origin::Resent`].
    resent: u32,
    /// Where discontinuities end: data before these places never came by, or was not kept.
    gaps: VecDeque<Seq>,
}

impl<P: Payload> Cache<P> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, resent: 0, gaps: VecDeque::new() }
    }

    /// Bytes charged.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The oldest packet.
    #[inline]
    pub fn front(&self) -> Option<&Cached<P>> {
        self.packets.front()
    }

    /// The packet at an index.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Cached<P>> {
        self.packets.get_mut(index)
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
        for packet in self.packets.range(first..first + count) {
            if packet.seq != next {
                return false;
            }
            next = packet.end;
        }
        next == end
    }

    /// Index of the first packet that starts at `seq` or later.
    pub fn index_from(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.seq.lt(seq))
    }

    /// Index of the first packet that ends after `seq`.
    pub fn index_after(&self, seq: Seq) -> usize {
        self.packets.partition_point(|packet| packet.end.le(seq))
    }

    /// How `seq..end` lies to what is cached.
    pub fn overlap(&self, seq: Seq, end: Seq) -> Overlap {
        let first = self.index_after(seq);
        let count = self.packets.range(first..).take_while(|packet| packet.seq.lt(end)).count();
        if count == 0 {
            return Overlap::None(first);
        }
        let whole = self.packets[first].seq.ge(seq) && self.packets[first + count - 1].end.le(end);
        if whole { Overlap::Covers { first, count } } else { Overlap::Cuts { first, count } }
    }

    /// Adds a packet behind all others.
    #[inline]
    pub fn push(&mut self, packet: Cached<P>) {
        if self.packets.back().is_some_and(|last| last.end != packet.seq) {
            self.gaps.push_back(packet.seq);
        }
        self.bytes += charge(&packet.packet);
        self.resent += u32::from(packet.origin == Origin::Resent);
        self.packets.push_back(packet);
    }

    /// Whether a packet can take the place of the `count` packets from `index` on without moving too many others.
    pub fn has_place(&self, index: usize, count: usize) -> bool {
        count == 1 || index.min(self.packets.len() - index - count) <= MOST_MOVED
    }

    /// Whether a packet holds the same bytes as the `count` packets from `first` on.
    pub fn agrees(&self, first: usize, count: usize, packet: &Packet<P>) -> bool {
        self.packets.range(first..first + count).all(|kept| P::agrees(&kept.packet, packet))
    }

    /// Puts a packet in place of the `count` packets from `index` on.
    pub fn replace(&mut self, index: usize, count: usize, packet: Cached<P>) {
        self.uncount(index, count);
        self.bytes += charge(&packet.packet);
        self.resent += u32::from(packet.origin == Origin::Resent);
        if count == 0 {
            self.packets.insert(index, packet);
        } else {
            self.packets[index] = packet;
            self.packets.drain(index + 1..index + count);
        }
        self.note_gaps(index..index + 2);
    }

    /// Takes out the `count` packets from `index` on.
    pub fn remove(&mut self, index: usize, count: usize) -> impl Iterator<Item = Cached<P>> {
        self.uncount(index, count);
        let removed: VecDeque<_> = self.packets.drain(index..index + count).collect();
        self.note_gaps(index..index + 1);
        removed.into_iter()
    }

    /// What the `count` packets from `index` on counted for, and the gaps at and behind them.
    fn uncount(&mut self, index: usize, count: usize) {
        for old in self.packets.range(index..index + count) {
            self.bytes -= charge(&old.packet);
            self.resent -= u32::from(old.origin == Origin::Resent);
        }
        let (Some(first), last) = (self.packets.get(index), self.packets.get(index + count)) else { return };
        let last = last.map_or_else(|| self.packets[index + count - 1].seq, |last| last.seq);
        let from = self.gaps.partition_point(|gap| gap.lt(first.seq));
        let to = self.gaps.partition_point(|gap| gap.le(last));
        self.gaps.drain(from..to);
    }

    /// The gaps in front of these packets.
    fn note_gaps(&mut self, indices: core::ops::Range<usize>) {
        for index in indices.start.max(1)..indices.end.min(self.packets.len()) {
            let seq = self.packets[index].seq;
            if self.packets[index - 1].end != seq {
                let at = self.gaps.partition_point(|gap| gap.lt(seq));
                self.gaps.insert(at, seq);
            }
        }
    }

    /// The sender resent the packet at `index`.
    pub fn set_resent(&mut self, index: usize) {
        if let Some(packet) = self.packets.get_mut(index)
            && packet.origin == Origin::Fresh
        {
            packet.origin = Origin::Resent;
            self.resent += 1;
        }
    }

    /// Takes out what lies wholly below `ack`; `arrived` is told of each packet of which nothing said before that it had.
    #[inline]
    pub fn purge(&mut self, ack: Seq, mut arrived: impl FnMut(&Cached<P>)) -> Purged {
        let mut purged = Purged { packets: 0, sample: None, unproven: 0, landed: 0, held: 0 };
        let mut again = false;
        while self.packets.front().is_some_and(|packet| packet.end.le(ack)) {
            let Some(packet) = self.packets.pop_front() else { break };
            self.bytes -= charge(&packet.packet);
            self.resent -= u32::from(packet.origin == Origin::Resent);
            again |= packet.sent_again();
            purged.packets += 1;
            purged.sample = Some(packet.last_sent);
            purged.unproven = purged.unproven.saturating_add(packet.unproven);
            let len = u64::from(packet.packet.len);
            match packet.whereabouts {
                Whereabouts::OnHop => {
                    purged.landed += len;
                    arrived(&packet);
                }
                Whereabouts::Held => purged.held += len,
                Whereabouts::Arrived => {}
            }
        }
        if again {
            purged.sample = None;
        }
        while self.gaps.front().is_some_and(|gap| self.packets.front().is_none_or(|front| front.seq.ge(*gap))) {
            self.gaps.pop_front();
        }
        // What a large window once took must not stay taken by thousands of idle connections.
        let kept = self.packets.capacity();
        if kept > KEEP_CAPACITY && self.packets.len() < kept / 4 {
            self.packets.shrink_to((self.packets.len() * 2).max(KEEP_CAPACITY));
        }
        purged
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
        assert_eq!(self.bytes, self.packets.iter().map(|packet| charge(&packet.packet)).sum());
        assert_eq!(self.resent as usize, self.packets.iter().filter(|packet| packet.origin == Origin::Resent).count());
        let pairs = self.packets.iter().zip(self.packets.iter().skip(1));
        let gaps: VecDeque<_> =
            pairs.filter(|(packet, next)| packet.end != next.seq).map(|(_, next)| next.seq).collect();
        assert_eq!(self.gaps, gaps);
        assert!(self.packets.capacity() <= KEEP_CAPACITY.max(4 * self.packets.len() + 4));
    }
}
