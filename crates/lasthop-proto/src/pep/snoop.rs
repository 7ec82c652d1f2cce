//! The snoop protocol and its siblings: local retransmission from a cache at the base station (\[a\] §III-A).

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::cache::{MAX_PACKETS, charge};
use super::flow_table::FlowTable;
use super::repair::{AckVerdict, DataVerdict, Outbox, Passage, Place, Repair};
pub use super::snoop_config::{HopControl, RepairPriority, SnoopConfig};
use super::tracking::{Take, Tracking};
use crate::event::Event;
use crate::node::{Node, Port};
use crate::packet::{Flags, FlowId, Integrity, Packet, Payload, Segment, Side};
use crate::seq::Seq;
use crate::time::Instant;

/// No IP packet is larger than this, in bytes (jumbograms as receive offload builds them included).
const MAX_SEGMENT: u32 = 1 << 20;

/// An owner of connections may push others out of the cache only while it takes less than this part of it.
const FAIR_PART: u64 = 4;

/// Whose a connection is, where that is known: several may be one client's. Drivers number owners from 0 up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub u32);

/// The base station of the link-layer schemes: LL, LL-TCP-AWARE (snoop), LL-SMART and LL-SMART-TCP-AWARE, by
/// [`SnoopConfig::detection`] and [`SnoopConfig::awareness`]; and, where the mobile host sends SACK blocks instead of SMART
/// numbers, a SACK-aware snoop.
///
/// Data from [`Port::WIRED`] is cached and forwarded, acknowledgments from [`Port::WIRELESS`] purge it and show what the
/// hop lost. Everything else passes unchanged. All state is soft: losing it costs speed, never data.
///
/// [`Node::poll_deadline`] may name a time at which nothing turns out to be due: timers are moved back lazily.
#[derive(Clone, Debug)]
pub struct Snoop<P> {
    config: SnoopConfig,
    connections: FlowTable<Repair<P>>,
    /// Not after each connection's own deadline; at most one entry each.
    timers: BTreeSet<(Instant, u32)>,
    next_timer: Option<Instant>,
    cached_bytes: u64,
    /// Those of each owner.
    owned_bytes: Vec<u64>,
    out: Outbox<P>,
}

impl<P: Payload> Snoop<P> {
    /// An element without any connections.
    pub fn new(config: SnoopConfig) -> Self {
        let repairs = config.queue_priority();
        Self {
            connections: FlowTable::new(config.connections),
            config,
            timers: BTreeSet::new(),
            next_timer: None,
            cached_bytes: 0,
            owned_bytes: Vec::new(),
            out: Outbox { packets: VecDeque::new(), events: VecDeque::new(), repairs },
        }
    }

    /// Bytes cached, as counted towards [`SnoopConfig::cache_bytes`].
    pub fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// Connections with state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Takes over a connection whose packets somebody else has followed so far; its data comes from that side.
    pub fn adopt(&mut self, now: Instant, flow: FlowId, owner: Owner, data_from: Side, tracking: Tracking) {
        self.forget(self.connections.find(flow));
        if let Some(slot) = self.create(now, flow, data_from)
            && let Some((_, connection)) = self.connections.get_mut(slot)
        {
            *connection = Repair::new(now, &self.config, data_from, tracking.next(data_from), tracking);
            connection.owner = Some(owner);
        }
    }

    /// Drops the state of a connection that goes on without this element: what is held of it goes now.
    pub fn remove(&mut self, flow: FlowId) {
        self.forget(self.connections.find(flow));
    }

    /// Drops the state of all connections, which go on: what is held goes now.
    pub fn clear(&mut self) {
        while let Some(oldest) = self.connections.oldest() {
            self.forget(Some(oldest));
        }
    }

    /// Takes new parameters; connections keep their state. Where the limits are lower than what is kept, the least recently
    /// used connections go. Timers that run already keep their time. Without flow control all that is held goes now; where
    /// it is new, connections that are known already go on without it.
    pub fn set_config(&mut self, now: Instant, config: SnoopConfig) {
        self.out.repairs = config.queue_priority();
        if config.hop_control() != self.config.hop_control() {
            for connection in self.connections.values_mut() {
                connection.set_control(now, config.hop_control(), &mut self.out);
            }
        }
        self.connections.set_limit(config.connections);
        while (self.cached_bytes > config.cache_bytes || self.connections.len() > config.connections)
            && let Some(oldest) = self.connections.oldest()
        {
            self.evict(oldest);
        }
        self.config = config;
    }

    /// Learns from a packet that passes as it is, whatever is known of its connection. Nothing of it is kept; repairs that it asks for
    /// are made.
    pub fn observe(&mut self, now: Instant, port: Port, mut packet: Packet<P>) {
        let Some(&segment) = usable(&packet) else { return };
        let found = self.connections.find(packet.flow);
        let Some((slot, take)) = self.judge(now, found, port, &packet, &segment) else { return };
        if port == Port::WIRED {
            let Some((_, connection)) = self.connections.get_mut(slot) else { return };
            let before = connection.cache.bytes();
            match take {
                Take::Old => connection.pass_old_data(),
                Take::Believed | Take::Opened if packet.seq_len() > 0 => {
                    connection.pass_by(&segment, segment.seq + packet.seq_len(), &mut self.out);
                }
                _ => {}
            }
            let (owner, after) = (connection.owner, connection.cache.bytes());
            self.count(owner, before, after);
        } else if take == Take::Believed {
            // Whatever is to become of it, it passes.
            let _ = self.take_ack(now, slot, &mut packet, &segment);
            if let Some((_, connection)) = self.connections.get_mut(slot) {
                connection.forget_answer();
            }
        }
    }

    fn on_wired(&mut self, now: Instant, packet: Packet<P>) {
        if let Some(&segment) = usable(&packet)
            && matches!(
                self.take_wired(now, &packet, &segment),
                DataVerdict::Absorbed | DataVerdict::Held | DataVerdict::Refused
            )
        {
            return;
        }
        self.out.packets.push_back((Port::WIRELESS, packet));
    }

    fn take_wired(&mut self, now: Instant, packet: &Packet<P>, segment: &Segment) -> DataVerdict {
        let begins = segment.flags.has(Flags::SYN) || packet.len > 0 && !segment.flags.has(Flags::RST);
        let found = self.connections.find(packet.flow);
        let found = found.or_else(|| if begins { self.create(now, packet.flow, packet.from) } else { None });
        let Some((slot, take)) = self.judge(now, found, Port::WIRED, packet, segment) else {
            return DataVerdict::Forward;
        };
        let data = packet.len > 0 && !segment.flags.has(Flags::SYN);
        match take {
            Take::Believed | Take::Opened if data => {
                self.connections.touch(slot);
                self.take_data(now, slot, packet, segment)
            }
            Take::Old => self.take_old_data(now, slot, packet),
            Take::Believed if segment.flags.has(Flags::FIN) => {
                if let Some((_, connection)) = self.connections.get_mut(slot) {
                    connection.on_fin(segment.seq + packet.seq_len());
                }
                DataVerdict::Forward
            }
            _ => DataVerdict::Forward,
        }
    }

    /// What to think of a packet, and the connection whose state may follow it; none where there is none, or where it comes from
    /// the wrong side.
    fn judge(
        &mut self,
        now: Instant,
        found: Option<u32>,
        port: Port,
        packet: &Packet<P>,
        segment: &Segment,
    ) -> Option<(u32, Take)> {
        let slot = found?;
        let (_, connection) = self.connections.get_mut(slot)?;
        if (connection.side == packet.from) != (port == Port::WIRED) {
            return None;
        }
        let take = connection.tracking.take(packet.from, segment, packet.len);
        match take {
            Take::Reset => {
                self.discard(slot);
                return None;
            }
            Take::Opened => self.begin(now, slot, packet, segment),
            _ => {}
        }
        Some((slot, take))
    }

    /// The connection has begun with this packet: what is held of one before it goes now.
    fn begin(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let before = connection.cache.bytes();
        connection.flush(now, &mut self.out);
        let tracking = core::mem::take(&mut connection.tracking);
        let (side, queued, owner) = (connection.side, connection.queued, connection.owner);
        let data = packet.from == side && packet.len > 0 && !segment.flags.has(Flags::SYN);
        let start = if data { segment.seq } else { tracking.next(side) };
        *connection = Repair::new(now, &self.config, side, start, tracking);
        (connection.queued, connection.owner) = (queued, owner);
        self.count(owner, before, 0);
    }

    fn take_old_data(&mut self, now: Instant, slot: u32, packet: &Packet<P>) -> DataVerdict {
        self.connections.touch(slot);
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        connection.on_acknowledged_data(&self.config, now, packet, &mut self.out)
    }

    fn take_data(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment) -> DataVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        let before = connection.cache.bytes();
        let verdict = connection.on_data(now, &self.config, packet, segment, &mut self.out);
        let (owner, after) = (connection.owner, connection.cache.bytes());
        self.count(owner, before, after);
        let verdict = match verdict {
            DataVerdict::Store(place) => self.keep(now, slot, packet, segment, place),
            other => other,
        };
        self.arm(slot);
        verdict
    }

    /// Keeps a packet if there is room for it.
    fn keep(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment, place: Place) -> DataVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        if place == Place::Back && connection.is_full(packet.len, segment.seq + packet.len) {
            return DataVerdict::Refused;
        }
        let overtakes = place == Place::Back && connection.holds();
        if !self.make_room(slot, packet) {
            return if overtakes { DataVerdict::Refused } else { DataVerdict::Forward };
        }
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        let before = connection.cache.bytes();
        let passage = connection.store(now, packet.clone(), segment.seq, place);
        let (owner, after) = (connection.owner, connection.cache.bytes());
        self.count(owner, before, after);
        match passage {
            Passage::Now => DataVerdict::Forward,
            Passage::Later => DataVerdict::Held,
        }
    }

    /// Whether the packet fits, after evicting connections that were not used for longer.
    fn make_room(&mut self, slot: u32, packet: &Packet<P>) -> bool {
        let charge = charge(packet);
        let Some((_, connection)) = self.connections.get_mut(slot) else { return false };
        let own = connection.owner.and_then(|Owner(owner)| self.owned_bytes.get(owner as usize).copied());
        let own = own.unwrap_or(connection.cache.bytes()).saturating_add(charge);
        if connection.cache.len() >= MAX_PACKETS {
            return false;
        }
        while self.cached_bytes.saturating_add(charge) > self.config.cache_bytes {
            // The data nearest to its acknowledgment is worth most: a connection at its share keeps what it has.
            if own > self.config.cache_bytes / FAIR_PART {
                return false;
            }
            // The connection itself was touched just now, so it is the newest.
            match self.connections.oldest().filter(|&oldest| oldest != slot) {
                Some(oldest) => self.evict(oldest),
                None => return false,
            }
        }
        true
    }

    fn on_wireless(&mut self, now: Instant, mut packet: Packet<P>) {
        let verdict = match usable(&packet) {
            Some(&segment) => self.take_wireless(now, &mut packet, &segment),
            None => AckVerdict::Forward,
        };
        if verdict != AckVerdict::Hold {
            self.out.packets.push_back((Port::WIRED, packet));
        }
    }

    fn take_wireless(&mut self, now: Instant, packet: &mut Packet<P>, segment: &Segment) -> AckVerdict {
        let found = self.connections.find(packet.flow);
        // The mobile host's own SYN tells how large its windows are.
        let begins = segment.flags.has(Flags::SYN);
        let found = found.or_else(|| if begins { self.create(now, packet.flow, packet.from.peer()) } else { None });
        let Some((slot, take)) = self.judge(now, found, Port::WIRELESS, packet, segment) else {
            return AckVerdict::Forward;
        };
        if take != Take::Believed {
            return AckVerdict::Forward;
        }
        self.take_ack(now, slot, packet, segment)
    }

    fn take_ack(&mut self, now: Instant, slot: u32, packet: &mut Packet<P>, segment: &Segment) -> AckVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return AckVerdict::Forward };
        let before = connection.cache.bytes();
        let verdict = connection.on_ack(now, &self.config, packet, segment, &mut self.out);
        connection.release(now, &mut self.out);
        let (owner, after) = (connection.owner, connection.cache.bytes());
        self.count(owner, before, after);
        if verdict == AckVerdict::Forget {
            self.forget(Some(slot));
        } else {
            self.connections.touch(slot);
            self.arm(slot);
        }
        verdict
    }

    fn create(&mut self, now: Instant, flow: FlowId, data_from: Side) -> Option<u32> {
        if self.connections.is_full()
            && let Some(oldest) = self.connections.oldest()
        {
            self.evict(oldest);
        }
        self.connections.insert(flow, Repair::new(now, &self.config, data_from, Seq(0), Tracking::new()))
    }

    fn evict(&mut self, slot: u32) {
        if let Some(flow) = self.forget(Some(slot)) {
            self.out.events.push_back((flow, Event::Evicted));
        }
    }

    /// Drops the state of a connection that goes on.
    fn forget(&mut self, slot: Option<u32>) -> Option<FlowId> {
        let (flow, mut connection) = self.discard(slot?)?;
        // Nobody will ask when it went.
        connection.flush(Instant::ZERO, &mut self.out);
        Some(flow)
    }

    /// Drops the state of a connection that is over.
    fn discard(&mut self, slot: u32) -> Option<(FlowId, Repair<P>)> {
        let (flow, connection) = self.connections.remove(slot)?;
        self.count(connection.owner, connection.cache.bytes(), 0);
        if let Some(at) = connection.queued {
            self.timers.remove(&(at, slot));
            self.next_timer = self.timers.first().map(|&(at, _)| at);
        }
        Some((flow, connection))
    }

    /// What an owner's connection has cached is now `after` bytes instead of `before`.
    fn count(&mut self, owner: Option<Owner>, before: u64, after: u64) {
        self.cached_bytes = self.cached_bytes - before + after;
        if let Some(Owner(owner)) = owner {
            let owner = owner as usize;
            if self.owned_bytes.len() <= owner {
                self.owned_bytes.resize(owner + 1, 0);
            }
            self.owned_bytes[owner] = self.owned_bytes[owner] - before + after;
        }
    }

    /// Sees to it that the queue wakes up for this connection in time. A deadline that moves back, as each acknowledgment
    /// moves it, leaves the queue alone.
    #[inline]
    fn arm(&mut self, slot: u32) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let Some(deadline) = connection.deadline(&self.config) else { return };
        if connection.queued.is_some_and(|queued| queued <= deadline) {
            return;
        }
        if let Some(queued) = connection.queued.replace(deadline) {
            self.timers.remove(&(queued, slot));
        }
        self.timers.insert((deadline, slot));
        self.next_timer = self.timers.first().map(|&(at, _)| at);
    }

    fn run_timers(&mut self, now: Instant) {
        while self.next_timer.is_some_and(|at| at <= now) {
            let Some((_, slot)) = self.timers.pop_first() else { break };
            self.next_timer = self.timers.first().map(|&(at, _)| at);
            let Some((_, connection)) = self.connections.get_mut(slot) else { continue };
            connection.queued = None;
            if connection.deadline(&self.config).is_some_and(|deadline| deadline <= now) {
                connection.on_timer(now, &self.config, &mut self.out);
            }
            self.arm(slot);
        }
    }
}

/// The header, of an intact TCP segment of credible size.
fn usable<P>(packet: &Packet<P>) -> Option<&Segment> {
    packet.tcp().filter(|_| packet.integrity == Integrity::Intact && packet.len <= MAX_SEGMENT)
}

impl<P: Payload> Node<P> for Snoop<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) {
        if port == Port::WIRED {
            self.on_wired(now, packet);
        } else {
            self.on_wireless(now, packet);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.run_timers(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<P>) -> Option<Port> {
        if self.out.packets.is_empty() {
            // A packet may have come at the very time of a deadline; it goes first, since it may be the acknowledgment.
            self.run_timers(now);
        }
        let (port, packet) = self.out.packets.pop_front()?;
        *place = packet;
        Some(port)
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        self.next_timer
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.out.events.pop_front()
    }
}

#[cfg(test)]
#[path = "snoop_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "snoop_properties.rs"]
pub(super) mod properties;
