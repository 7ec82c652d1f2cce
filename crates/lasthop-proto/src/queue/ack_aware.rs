//! Queue that recognizes TCP acknowledgments, for a link with less capacity than they need: ACK filtering (RFC 3449
//! §5.2.1) and acknowledgments first (RFC 3449 §5.4.2).
//!
//! Its only state is in the waiting packets. It keeps nothing of a connection without waiting packets.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Backlog, QueueLimit, Queued};
use crate::packet::{Flags, Integrity, Packet};
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// Parameters of an acknowledgment-aware queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckAwareConfig {
    /// Limit beyond which arriving packets are dropped, acknowledgments included.
    pub limit: QueueLimit,
    /// Removes acknowledgments of the same connection that an arriving one makes redundant (RFC 3449 §5.2.1).
    pub filter: Switch,
    /// Puts acknowledgments before all other packets (RFC 3449 §5.4.2).
    pub first: Switch,
}

/// Classification of a packet by a queue that looks for acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sight {
    /// Not a pure acknowledgment: it has data, opens or closes a connection, or is not TCP.
    #[default]
    Other,
    /// An acknowledgment with only a number: a later one with a larger number contains the same information.
    Plain(Seq),
    /// An acknowledgment with more information: selective acknowledgments, an ECN echo, a loss notification. It is
    /// never removed.
    Telling,
}

impl Sight {
    /// Returns the classification of `packet`.
    pub fn of<P>(packet: &Packet<P>) -> Self {
        let Some(segment) = packet.tcp() else { return Self::Other };
        let alone = packet.len == 0 && segment.flags.has(Flags::ACK);
        let special = Flags::SYN.with(Flags::FIN).with(Flags::RST).with(Flags::URG);
        if !alone || segment.flags.meets(special) {
            return Self::Other;
        }
        let options = &segment.options;
        let quiet = options.sack.is_empty() && options.smart.is_none() && !options.eln;
        let plain = quiet && segment.flags.without(Flags::PSH) == Flags::ACK && packet.integrity == Integrity::Intact;
        if plain { Self::Plain(segment.ack) } else { Self::Telling }
    }
}

/// Indicates whether an acknowledgment may be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// By a later acknowledgment with a larger number.
    Replaceable(Seq),
    /// Never: the acknowledgment is one of a series of duplicates with this number.
    Duplicate(Seq),
    /// Never: the acknowledgment carries more information.
    Telling,
}

impl Standing {
    const fn number(self) -> Option<Seq> {
        match self {
            Self::Replaceable(ack) | Self::Duplicate(ack) => Some(ack),
            Self::Telling => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    /// Position of the acknowledgment in the order of arrival, or that of one that it replaced.
    turn: u64,
    item: T,
}

/// The queue. Acknowledgments are stored separately, so that searching them takes time proportional to their number
/// only.
#[derive(Clone, Debug)]
pub struct AckAware<T> {
    config: AckAwareConfig,
    acks: VecDeque<(Waiting<T>, Standing)>,
    rest: VecDeque<Waiting<T>>,
    backlog: Backlog,
    /// Number of packets that have arrived so far.
    came: u64,
}

impl<T: Queued> AckAware<T> {
    /// Returns an empty queue.
    pub fn new(config: AckAwareConfig) -> Self {
        Self { config, acks: VecDeque::new(), rest: VecDeque::new(), backlog: Backlog::default(), came: 0 }
    }

    /// Enqueues a packet. Packets dropped because of it are added to `dropped`: the packet itself if the queue is full,
    /// and acknowledgments that it makes redundant. A new acknowledgment takes the position of the first one that it
    /// replaces, so that the connection's latest number does not wait longer than without a filter. At the end of the
    /// queue, behind data, each acknowledgment would be replaced by the next while they arrive faster than the queue
    /// drains.
    pub fn push(&mut self, item: T, sight: Sight, dropped: &mut Vec<T>) {
        let (standing, place) = match sight {
            Sight::Other => (None, None),
            Sight::Telling => (Some(Standing::Telling), None),
            Sight::Plain(ack) => {
                let (standing, place) = self.make_way(&item, ack, dropped);
                (Some(standing), place)
            }
        };
        if !self.config.limit.has_room(self.backlog, item.bytes()) {
            return dropped.push(item);
        }
        self.backlog.add(item.bytes());
        let waiting = Waiting { turn: place.unwrap_or(self.came), item };
        self.came += 1;
        match standing {
            Some(standing) => {
                let at = self.acks.partition_point(|(before, _)| before.turn < waiting.turn);
                self.acks.insert(at, (waiting, standing));
            }
            None => self.rest.push_back(waiting),
        }
    }

    /// Removes acknowledgments made redundant by `item`, which acknowledges `ack`. Returns the standing of `item`, and
    /// the position that has become free. A series of duplicates stays complete, including the first, since a sender
    /// counts them; remaining packets of its connection keep their order.
    fn make_way(&mut self, item: &T, ack: Seq, dropped: &mut Vec<T>) -> (Standing, Option<u64>) {
        let mut standing = Standing::Replaceable(ack);
        let mut place = None;
        if !self.config.filter.is_on() {
            return (standing, place);
        }
        let flow = item.flow();
        let mut at = 0;
        while let Some((waits, other)) = self.acks.get_mut(at) {
            if waits.item.flow() != flow {
                at += 1;
            } else if matches!(*other, Standing::Replaceable(older) if older.lt(ack)) {
                place = place.or(Some(waits.turn));
                self.backlog.remove(waits.item.bytes());
                dropped.extend(self.acks.remove(at).map(|(waits, _)| waits.item));
            } else {
                place = None;
                if other.number() == Some(ack) {
                    *other = Standing::Duplicate(ack);
                    standing = Standing::Duplicate(ack);
                }
                at += 1;
            }
        }
        (standing, place)
    }

    /// Dequeues the next packet.
    pub fn pop(&mut self) -> Option<T> {
        let ack = self.acks.front().map(|(waits, _)| waits.turn);
        let other = self.rest.front().map(|waits| waits.turn);
        let acks_turn = match (ack, other) {
            (Some(ack), Some(other)) => self.config.first.is_on() || ack < other,
            (ack, _) => ack.is_some(),
        };
        let waits = if acks_turn { self.acks.pop_front().map(|(waits, _)| waits) } else { self.rest.pop_front() }?;
        self.backlog.remove(waits.item.bytes());
        Some(waits.item)
    }

    /// Returns the backlog.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
#[path = "ack_aware_tests.rs"]
mod tests;
