//! Congestion signals to TCP sources by receive-window clamping.
//!
//! Instead of dropping a packet of a source that is not ECN-capable, this end reduces the receive window in the
//! acknowledgments that leave it ([`Cap`]). A window is never enlarged, and the right edge offered to the source never
//! moves left (RFC 7323 §2.4): it stays until enough data is acknowledged. The window scale is known only of
//! connections whose handshake was seen. [`Tracking`] identifies packets that their ends would refuse, from which
//! nothing is learned.

use alloc::collections::BTreeMap;

use super::cap::{Cap, Edge, Load, Offered, Told};
use super::flight::{Answer, Rounds};
use super::frame::{Item, TcpSight, Traffic};
use crate::packet::{Flags, FlowId, Side};
use crate::pep::flow_table::FlowTable;
use crate::pep::tracking::{Take, Tracking};
use crate::seq::Seq;
use crate::time::Instant;

/// Maximum number of tracked connections; the least recently used one is evicted.
const CONNECTIONS: usize = 4096;

/// First flow number. The table finds lower numbers by index and would reserve memory for them.
const FIRST: u32 = 1 << 16;

/// Bytes that a source may send beyond its window: a probe, and its FIN (RFC 9293 §3.8.6.1).
const BEYOND: u32 = 2;

/// Maximum distance of the right edge, in flights, at which clamping is effective: for a source that grows fast, and
/// for one that does not.
const NEAR: u32 = 2;
const FAR: u32 = 4;

/// A waiting packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    slot: u32,
    id: FlowId,
    /// One past the packet's last byte; `None` without data.
    end: Option<Seq>,
}

/// A connection with one end behind this end of the hop.
#[derive(Clone, Debug)]
struct Connection<C> {
    key: C,
    /// Side behind this end.
    local: Side,
    tracking: Tracking,
    /// Largest segment that the source sent, in bytes.
    segment: u32,
    /// End of the source's data that has left the queue.
    left: Seq,
    /// Time since which none of the flow's data is queued.
    empty: Instant,
    rounds: Rounds,
    /// Right edge that the source was offered.
    edge: Option<Seq>,
    cap: Option<Cap>,
}

impl<C> Connection<C> {
    fn new(key: C, local: Side, now: Instant) -> Self {
        let (tracking, rounds) = (Tracking::new(), Rounds::new(now));
        Self { key, local, tracking, segment: 0, left: Seq(0), empty: now, rounds, edge: None, cap: None }
    }

    /// Resets the state for another connection between the same ports, or one that is picked up again.
    fn begin(&mut self, now: Instant) {
        (self.segment, self.empty, self.edge, self.cap) = (0, now, None, None);
        (self.left, self.rounds) = (self.tracking.next(self.local), Rounds::new(now));
    }

    /// Judges a packet of either side. One that begins or ends the connection voids earlier offers.
    fn take<K>(&mut self, now: Instant, sight: &TcpSight<K>) -> Take {
        let taken = self.tracking.take(now, sight.side, &sight.segment, sight.len);
        match taken {
            Take::Opened => self.begin(now),
            Take::Reset => (self.edge, self.cap) = (None, None),
            Take::Believed | Take::Old | Take::Refused => {}
        }
        taken
    }

    /// Records a packet sent by the local side.
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

    /// Records that the local side's data up to `end` has left the queue.
    fn on_left(&mut self, now: Instant, end: Seq) {
        self.left = self.left.max(end);
        if self.left.ge(self.tracking.next(self.local)) {
            self.empty = now;
        }
    }

    /// Signals congestion to the local side.
    fn signal(&mut self, now: Instant) -> Option<Told> {
        self.tracking.shift(self.local.peer())?;
        let (acked, edge) = (self.tracking.acked(self.local)?, self.edge?);
        // A source that exceeds its window cannot be clamped.
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

    /// Returns the window to offer in a packet to the local side, if it has to be changed.
    fn on_heard<K>(&mut self, now: Instant, sight: &TcpSight<K>) -> Option<u16> {
        let (segment, taken) = (&sight.segment, self.take(now, sight));
        match taken {
            Take::Opened | Take::Reset | Take::Believed => {}
            // An acknowledgment on retransmitted data does not count, and one beyond the edge is not accepted.
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
            // Older acknowledgments and retransmitted data grant no more than was already granted.
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

    /// Offers data up to `allowed`, at most the receiver's window. Returns the window field if it differs from the
    /// receiver's.
    fn offer(&mut self, ack: Seq, window: u16, shift: u8, allowed: Seq) -> Option<u16> {
        let unit = 1_u32 << shift;
        // Rounded up: the edge does not move left.
        let field = u16::try_from(allowed.since(ack).div_ceil(unit)).map_or(window, |field| field.min(window));
        let edge = ack + (u32::from(field) << shift);
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
        (field < window && self.cap.is_some()).then_some(field)
    }
}

/// Tracked connections, and the signals to their sources.
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

    /// Returns the number of tracked connections.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of windows cut instead of a drop.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Resets all connections after acknowledgments have taken or will take another path: the offered windows are
    /// unknown.
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

    /// Records a packet that enters the queue.
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

    /// Records that the packet has left the queue.
    pub fn on_left(&mut self, now: Instant, ticket: Ticket) {
        if let (Some(end), Some(connection)) = (ticket.end, self.of(ticket)) {
            connection.on_left(now, end);
        }
    }

    /// Signals congestion to the source of a packet. Returns true if this replaces dropping the packet.
    pub fn tell(&mut self, now: Instant, ticket: Ticket) -> bool {
        let told =
            if ticket.end.is_some() { self.of(ticket).and_then(|connection| connection.signal(now)) } else { None };
        self.cuts += u64::from(told == Some(Told::Now));
        told.is_some()
    }

    /// Adjusts a packet that arrived over the hop and is passed on.
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

/// Returns the TCP segment of a packet whose source may be clamped. Packets sent without repair for comparison are not
/// changed.
fn sight_of<I: Item>(item: &I) -> Option<TcpSight<I::Connection>> {
    if item.traffic() == Traffic::Bare { None } else { item.tcp() }
}
