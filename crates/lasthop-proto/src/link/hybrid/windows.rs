//! Congestion told to TCP's sources by the windows that they are offered.
//!
//! Where a packet of a source that takes no marks would be dropped to tell it of congestion, the acknowledgments that leave this end offer less of the receiver's window
//! instead ([`Cap`]). A window is never made larger, and the right edge that the source was offered never moves to the left (RFC 7323 §2.4): it stands until enough was
//! acknowledged. Only of connections whose handshake came by the windows' scale is known; [`Tracking`] tells what their ends would refuse, of which nothing is learned.

use alloc::collections::BTreeMap;

use super::cap::{Cap, Edge, Load, Offered, Told};
use super::flight::{Answer, Rounds};
use super::frame::{Item, TcpSight, Traffic};
use crate::packet::{Flags, FlowId, Side};
use crate::pep::flow_table::FlowTable;
use crate::pep::tracking::{Take, Tracking};
use crate::seq::Seq;
use crate::time::Instant;

/// Connections that are remembered; the one that was quiet for longest makes room.
const CONNECTIONS: usize = 4096;

/// The table finds numbers below this by index, for which it would keep room.
const FIRST: u32 = 1 << 16;

/// A source may send so many bytes beyond its window: a probe, and its FIN (RFC 9293 §3.8.6.1).
const BEYOND: u32 = 2;

/// So many flights ahead the right edge may be where a source is told by it: one that grows fast, and one that does not.
const NEAR: u32 = 2;
const FAR: u32 = 4;

/// A packet of a connection that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    slot: u32,
    id: FlowId,
    /// One past its last byte, where it has any.
    end: Option<Seq>,
}

/// What is known of a connection of which one end is behind this end of the hop.
#[derive(Clone, Debug)]
struct Connection<C> {
    key: C,
    /// The side that is.
    local: Side,
    tracking: Tracking,
    /// The largest segment that it sent, in bytes.
    segment: u32,
    /// What it sent up to here waits no more.
    left: Seq,
    /// Since when nothing of it waits.
    empty: Instant,
    rounds: Rounds,
    /// The right edge that it was offered.
    edge: Option<Seq>,
    cap: Option<Cap>,
}

impl<C> Connection<C> {
    fn new(key: C, local: Side, now: Instant) -> Self {
        let (tracking, rounds) = (Tracking::new(), Rounds::new(now));
        Self { key, local, tracking, segment: 0, left: Seq(0), empty: now, rounds, edge: None, cap: None }
    }

    /// Another connection between the same ports, or one that is known anew.
    fn begin(&mut self, now: Instant) {
        (self.segment, self.empty, self.edge, self.cap) = (0, now, None, None);
        (self.left, self.rounds) = (self.tracking.next(self.local), Rounds::new(now));
    }

    /// What to think of a packet, of either side; with one that begins or ends the connection, what was offered before is void.
    fn take<K>(&mut self, now: Instant, sight: &TcpSight<K>) -> Take {
        let taken = self.tracking.take(now, sight.side, &sight.segment, sight.len);
        match taken {
            Take::Opened => self.begin(now),
            Take::Reset => (self.edge, self.cap) = (None, None),
            Take::Believed | Take::Old | Take::Refused => {}
        }
        taken
    }

    /// The side here has sent a packet.
    fn on_sent<K>(&mut self, now: Instant, sight: &TcpSight<K>) {
        let before = self.tracking.next(self.local);
        if matches!(self.take(now, sight), Take::Old | Take::Refused) {
            return;
        }
        self.segment = self.segment.max(sight.len);
        let high = self.tracking.next(self.local);
        if sight.len == 0 || !high.gt(before) {
            return;
        }
        if self.left.ge(before) {
            self.rounds.was_empty(now, self.empty);
        }
        let answer = match sight.segment.options.timestamps {
            Some(stamps) => Some(Answer::Echo(stamps.ecr)),
            None => self.tracking.crossing(self.local.peer()).map(Answer::After),
        };
        if let Some(answer) = answer {
            self.rounds.on_sent(now, high, self.segment, answer);
        }
    }

    /// What it sent up to `end` waits no more.
    fn on_left(&mut self, now: Instant, end: Seq) {
        self.left = self.left.max(end);
        if self.left.ge(self.tracking.next(self.local)) {
            self.empty = now;
        }
    }

    /// Congestion is to be told to the side here.
    fn signal(&mut self, now: Instant) -> Option<Told> {
        self.tracking.shift(self.local.peer())?;
        let (acked, edge) = (self.tracking.acked(self.local)?, self.edge?);
        // Who does not keep to a window is not told by one.
        if self.tracking.next(self.local).gt(edge + BEYOND) {
            return None;
        }
        let load = Load { flight: self.rounds.most(), segment: self.segment };
        let flights = edge.since(acked).div_ceil(load.flight.max(1));
        let most = if self.rounds.are_steady() { FAR } else { NEAR };
        let edge = if flights > most { Edge::Far } else { Edge::Near(flights) };
        let told = match &mut self.cap {
            Some(cap) => cap.signal(now, load, edge)?,
            None => self.cap.insert(Cap::cut(now, load, edge)?).told(),
        };
        if told != Told::Before {
            self.rounds.begin(now);
        }
        (told != Told::Dropped).then_some(told)
    }

    /// A packet goes on to the side here: the window that it is to offer.
    fn on_heard<K>(&mut self, now: Instant, sight: &TcpSight<K>) -> Option<u16> {
        let (segment, taken) = (&sight.segment, self.take(now, sight));
        match taken {
            Take::Opened | Take::Reset | Take::Believed => {}
            // Of data that comes again no acknowledgment is believed, and one beyond the edge is none.
            Take::Old if self.edge.is_none_or(|edge| segment.ack.gt(edge)) => return None,
            Take::Old => {}
            Take::Refused => return None,
        }
        let shift = self.tracking.shift(self.local.peer())?;
        if !segment.flags.has(Flags::ACK) || segment.flags.has(Flags::RST) {
            return None;
        }
        // RFC 7323 §2.2: the window of a SYN is not scaled.
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { shift };
        let offered = segment.ack + (u32::from(segment.window) << shift);
        let edge = self.edge.map_or(offered, |edge| edge.max(segment.ack));
        if taken == Take::Old || self.tracking.acked(self.local) != Some(segment.ack) {
            // An older one, and data that comes again, grant no more than has been granted.
            return self.offer(segment.ack, segment.window, shift, edge);
        }
        let stamp = segment.options.timestamps.map(|stamps| stamps.val);
        let empty = self.left.ge(self.tracking.next(self.local)).then_some(self.empty);
        let round = self.rounds.on_acked(now, segment.ack, stamp, empty);
        let allowed = match &mut self.cap {
            Some(cap) => {
                if let Some(round) = round {
                    let offered = Offered { bytes: edge.since(segment.ack), unit: 1 << shift };
                    cap.on_round(round, offered, self.segment);
                }
                edge.max(segment.ack + cap.bytes())
            }
            None => offered,
        };
        self.offer(segment.ack, segment.window, shift, allowed)
    }

    /// Offers all up to `allowed`, and no more than the receiver does: the window field, where it is not the receiver's.
    fn offer(&mut self, ack: Seq, window: u16, shift: u8, allowed: Seq) -> Option<u16> {
        let unit = 1_u32 << shift;
        // Rounded up: the edge does not move to the left.
        let field = u16::try_from(allowed.since(ack).div_ceil(unit)).map_or(window, |field| field.min(window));
        let edge = ack + (u32::from(field) << shift);
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
        (field < window && self.cap.is_some()).then_some(field)
    }
}

/// The connections, and what their sources are told.
#[derive(Clone, Debug)]
pub(super) struct Windows<C> {
    slots: BTreeMap<C, u32>,
    table: FlowTable<Connection<C>>,
    next: FlowId,
    cuts: u64,
}

impl<C: Ord + Clone> Windows<C> {
    pub fn new() -> Self {
        Self { slots: BTreeMap::new(), table: FlowTable::new(CONNECTIONS), next: FlowId(FIRST), cuts: 0 }
    }

    /// Connections that are remembered.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Windows that were cut in place of a drop.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Acknowledgments went another way, or will: nothing is known of what was offered.
    pub fn forget(&mut self) {
        *self = Self { cuts: self.cuts, next: self.next, ..Self::new() };
    }

    fn find(&mut self, now: Instant, key: &C, local: Side) -> Option<(u32, FlowId, &mut Connection<C>)> {
        let slot = match self.slots.get(key) {
            Some(slot) => *slot,
            None => self.insert(now, key, local)?,
        };
        self.table.touch(slot);
        let (id, connection) = self.table.get_mut(slot)?;
        Some((slot, id, connection))
    }

    fn insert(&mut self, now: Instant, key: &C, local: Side) -> Option<u32> {
        if self.table.is_full()
            && let Some((_, gone)) = self.table.oldest().and_then(|oldest| self.table.remove(oldest))
        {
            self.slots.remove(&gone.key);
        }
        let id = self.next;
        self.next = FlowId(self.next.0.checked_add(1).unwrap_or(FIRST));
        let slot = self.table.insert(id, Connection::new(key.clone(), local, now))?;
        self.slots.insert(key.clone(), slot);
        Some(slot)
    }

    /// A packet comes to the entrance.
    pub fn on_offered<I: Item<Connection = C>>(&mut self, now: Instant, item: &I) -> Option<Ticket> {
        let sight = sight_of(item)?;
        let (slot, id, connection) = self.find(now, &sight.connection, sight.side)?;
        if connection.local != sight.side {
            return None;
        }
        connection.on_sent(now, &sight);
        let end = (sight.len > 0).then(|| sight.segment.seq + sight.len);
        Some(Ticket { slot, id, end })
    }

    fn of(&mut self, ticket: Ticket) -> Option<&mut Connection<C>> {
        let (id, connection) = self.table.get_mut(ticket.slot)?;
        (id == ticket.id).then_some(connection)
    }

    /// The packet has left the entrance.
    pub fn on_left(&mut self, now: Instant, ticket: Ticket) {
        if let (Some(end), Some(connection)) = (ticket.end, self.of(ticket)) {
            connection.on_left(now, end);
        }
    }

    /// Congestion is to be told to the source of a packet: whether it need not be dropped for it.
    pub fn tell(&mut self, now: Instant, ticket: Ticket) -> bool {
        let told =
            if ticket.end.is_some() { self.of(ticket).and_then(|connection| connection.signal(now)) } else { None };
        self.cuts += u64::from(told == Some(Told::Now));
        told.is_some()
    }

    /// A packet that came over the hop goes on.
    pub fn on_arrived<I: Item<Connection = C>>(&mut self, now: Instant, item: &mut I) {
        let Some(sight) = sight_of(item) else { return };
        let Some((.., connection)) = self.find(now, &sight.connection, sight.side.peer()) else { return };
        if connection.local == sight.side {
            return;
        }
        if let Some(window) = connection.on_heard(now, &sight) {
            item.set_window(window);
        }
    }
}

/// The segment in a packet whose source may be told by its window. What goes unrepaired for comparison is to fare as it would without the hop's ends.
fn sight_of<I: Item>(item: &I) -> Option<TcpSight<I::Connection>> {
    if item.traffic() == Traffic::Bare { None } else { item.tcp() }
}
