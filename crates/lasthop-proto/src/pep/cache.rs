//! The packets of one connection that the base station keeps until they are acknowledged.

use alloc::collections::VecDeque;

use crate::packet::Packet;
use crate::seq::Seq;
use crate::time::Instant;

/// Least that a packet counts, in bytes: what its headers take in memory, so that small packets cannot get past the limit.
const LEAST_CHARGE: u32 = 256;

/// Most packets kept of one connection: bounds the cost of an insertion in the middle.
pub(super) const MAX_PACKETS: usize = 8192;

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
}

/// Packets in order of sequence number, none overlapping another, all within 2^31.
#[derive(Clone, Debug)]
pub(super) struct Cache<P> {
    packets: VecDeque<Cached<P>>,
    bytes: u64,
    /// Packets with [`Origin::Resent`].
    resent: u32,
    /// Where the first discontinuity ends: data below it never came by, or was not kept.
    first_gap: Option<Seq>,
}

impl<P> Cache<P> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, resent: 0, first_gap: None }
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
        self.first_gap.is_none_or(|gap| gap.gt(seq))
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
        if self.first_gap.is_none() && self.packets.back().is_some_and(|last| last.end != packet.seq) {
            self.first_gap = Some(packet.seq);
        }
        self.bytes += charge(&packet.packet);
        self.resent += u32::from(packet.origin == Origin::Resent);
        self.packets.push_back(packet);
    }

    /// Puts a packet in place of the `count` packets from `index` on.
    pub fn replace(&mut self, index: usize, count: usize, packet: Cached<P>) {
        for old in self.packets.range(index..index + count) {
            self.bytes -= charge(&old.packet);
            self.resent -= u32::from(old.origin == Origin::Resent);
        }
        self.bytes += charge(&packet.packet);
        self.resent += u32::from(packet.origin == Origin::Resent);
        if count == 0 {
            self.packets.insert(index, packet);
        } else {
            self.packets[index] = packet;
            self.packets.drain(index + 1..index + count);
        }
        self.find_gap();
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

    /// Takes out what lies wholly below `ack`.
    #[inline]
    pub fn purge(&mut self, ack: Seq) -> Purged {
        let mut purged = Purged { packets: 0, sample: None, unproven: 0, landed: 0 };
        let mut again = false;
        while self.packets.front().is_some_and(|packet| packet.end.le(ack)) {
            let Some(packet) = self.packets.pop_front() else { break };
            self.bytes -= charge(&packet.packet);
            self.resent -= u32::from(packet.origin == Origin::Resent);
            again |= packet.sent_again();
            purged.packets += 1;
            purged.sample = Some(packet.last_sent);
            purged.unproven = purged.unproven.saturating_add(packet.unproven);
            if packet.whereabouts == Whereabouts::OnHop {
                purged.landed += u64::from(packet.packet.len);
            }
        }
        if again {
            purged.sample = None;
        }
        if self.first_gap.is_some_and(|gap| self.packets.front().is_none_or(|front| front.seq.ge(gap))) {
            self.find_gap();
        }
        // What a large window once took must not stay taken by thousands of idle connections.
        let kept = self.packets.capacity();
        if kept > KEEP_CAPACITY && self.packets.len() < kept / 4 {
            self.packets.shrink_to((self.packets.len() * 2).max(KEEP_CAPACITY));
        }
        purged
    }

    fn find_gap(&mut self) {
        let after = self.packets.iter().skip(1);
        let gap = self.packets.iter().zip(after).find(|(packet, next)| packet.end != next.seq);
        self.first_gap = gap.map(|(_, next)| next.seq);
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
        let gap = self.packets.iter().zip(self.packets.iter().skip(1)).find(|(packet, next)| packet.end != next.seq);
        assert_eq!(self.first_gap, gap.map(|(_, next)| next.seq));
        assert!(self.packets.capacity() <= KEEP_CAPACITY.max(4 * self.packets.len() + 4));
    }
}
