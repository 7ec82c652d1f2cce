//! A queue that knows TCP's acknowledgments, for a link that is thinner than they need: ACK filtering (RFC 3449 §5.2.1) and
//! acknowledgments first (RFC 3449 §5.4.2).
//!
//! All that it knows it reads off the packets that wait. Nothing of a connection stays when none of its packets does.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Backlog, QueueLimit, Queued};
use crate::packet::{Flags, Integrity, Packet};
use crate::seq::Seq;
use crate::tcp::config::Switch;

/// What an acknowledgment-aware queue does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckAwareConfig {
    /// What finds the queue full, acknowledgment or not, is dropped.
    pub limit: QueueLimit,
    /// Whether an acknowledgment that comes takes out those of its connection that it makes superfluous (RFC 3449 §5.2.1).
    pub filter: Switch,
    /// Whether acknowledgments go ahead of all else (RFC 3449 §5.4.2).
    pub first: Switch,
}

/// What a queue sees of a packet that looks for acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sight {
    /// No acknowledgment by itself: it has data, opens or ends a connection, or is no TCP.
    #[default]
    Other,
    /// An acknowledgment that says nothing but how far the stream is there: a later one with a larger number says it too.
    Plain(Seq),
    /// An acknowledgment that says more: selective acknowledgments, an ECN echo, a notification of loss. It stays.
    Telling,
}

impl Sight {
    /// What is to be seen of `packet`.
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

/// Whether an acknowledgment may be taken out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Once a later one says more.
    Replaceable(Seq),
    /// Never: one of a series of duplicates with this number.
    Duplicate(Seq),
    /// Never.
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
    /// Its place in the order of arrival, or that of an acknowledgment which it replaced.
    turn: u64,
    item: T,
}

/// The queue. Acknowledgments wait apart from the rest, so that looking through them costs no more than there are.
#[derive(Clone, Debug)]
pub struct AckAware<T> {
    config: AckAwareConfig,
    acks: VecDeque<(Waiting<T>, Standing)>,
    rest: VecDeque<Waiting<T>>,
    backlog: Backlog,
    /// Packets that came so far.
    came: u64,
}

impl<T: Queued> AckAware<T> {
    /// An empty queue.
    pub fn new(config: AckAwareConfig) -> Self {
        Self { config, acks: VecDeque::new(), rest: VecDeque::new(), backlog: Backlog::default(), came: 0 }
    }

    /// Takes a packet in. What goes for it is added to `dropped`: the packet itself where there is no room, acknowledgments that
    /// it makes superfluous. It takes the place of the first of these, so that the connection's news does not wait longer than without a
    /// filter: at the end, behind data, one would be replaced by the next for as long as these come faster than the queue drains.
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

    /// Takes out what an acknowledgment of `ack` makes superfluous; its own standing, and the place that has become free. A series of
    /// duplicates stays as a whole, the first of it included, since a sender counts them; nothing of its connection that stays is
    /// overtaken.
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

    /// The packet whose turn it is.
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

    /// What waits.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
#[path = "ack_aware_tests.rs"]
mod tests;
