//! The snoop protocol and its siblings: local retransmission from a cache at the base station (\[a\] §III-A).

mod bets;
mod neighbours;
mod room;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use self::bets::FREE;
use self::neighbours::Neighbours;
use super::cache::{Pace, Places};
use super::flow_table::FlowTable;
pub use super::flow_table::Owner;
use super::repair::{AckVerdict, DataVerdict, Outbox, Passage, Place, Repair};
pub use super::snoop_config::{Begin, HopControl, LocalDetection, RepairPriority, SnoopConfig, TcpAwareness};
use super::tracking::{Take, Tracking};
use crate::event::Event;
use crate::node::{Disposition, Node, Port, Trigger, Why};
use crate::packet::{Flags, FlowId, Integrity, Packet, Payload, Segment, Side};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Maximum payload of a credible IP packet, in bytes. Covers the jumbograms that receive offload builds.
const MAX_SEGMENT: u32 = 1 << 20;

/// Maximum number of packets that timers send at once (at least one for each connection handled), and the pause after
/// them. Bounds how long other packets wait.
const MOST_TIMED: usize = 2;
const PAUSE: Duration = Duration::from_micros(12);

/// Initial capacity of the output queue, in packets: as many as one acknowledgment can trigger.
const LEAVING: usize = 32;

/// Base station of the link-layer schemes LL, LL-TCP-AWARE (snoop), LL-SMART and LL-SMART-TCP-AWARE, selected by
/// [`SnoopConfig::detection`] and [`SnoopConfig::awareness`]. If the mobile host sends SACK blocks instead of SMART
/// numbers, it is a SACK-aware snoop.
///
/// Data from [`Port::WIRED`] is cached and forwarded. Acknowledgments from [`Port::WIRELESS`] remove data from the
/// cache and show which packets the hop lost. Everything else passes unchanged. All state is soft: losing it costs
/// throughput, never data.
///
/// [`Node::poll_deadline`] may return a time at which nothing turns out to be due, because timers are moved back
/// lazily.
#[derive(Clone, Debug)]
pub struct Snoop<P> {
    config: SnoopConfig,
    connections: FlowTable<Repair<P>>,
    /// Wake-up times of connections, each no later than the connection's deadline; at most one entry per connection.
    timers: BTreeSet<(Instant, u32)>,
    next_timer: Option<Instant>,
    /// Time until which timers are suspended because many were due at once.
    pause: Instant,
    cached_bytes: u64,
    /// Cached bytes of each owner.
    owned_bytes: Vec<u64>,
    neighbours: Neighbours,
    /// Connections with deferred work, each once ([`Repair::is_behind`]).
    behind: VecDeque<u32>,
    /// Removed connections whose data has not been released completely.
    over: VecDeque<Repair<P>>,
    /// Time of the next part of the deferred work of `behind` and `over`.
    catch_up: Option<Instant>,
    out: Outbox<P>,
}

impl Snoop<()> {
    /// Returns an element for packets without payload as a trait object, so that it is compiled in this crate.
    pub fn boxed(config: SnoopConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P: Payload> Snoop<P> {
    /// Returns an element without connections.
    pub fn new(config: SnoopConfig) -> Self {
        let repairs = config.queue_priority();
        Self {
            connections: FlowTable::new(config.connections),
            config,
            timers: BTreeSet::new(),
            next_timer: None,
            pause: Instant::ZERO,
            cached_bytes: 0,
            owned_bytes: Vec::new(),
            neighbours: Neighbours::default(),
            behind: VecDeque::new(),
            over: VecDeque::new(),
            catch_up: None,
            out: Outbox {
                packets: VecDeque::with_capacity(LEAVING),
                events: VecDeque::new(),
                repairs,
                places: Places::new(),
            },
        }
    }

    /// Returns the number of bytes cached, as counted towards [`SnoopConfig::cache_bytes`].
    pub fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// Returns the number of connections with state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Takes over a connection that another component has tracked so far. Its data comes from the side `data_from`.
    pub fn adopt(&mut self, now: Instant, flow: FlowId, owner: Owner, data_from: Side, tracking: Tracking) {
        self.forget(now, self.connections.find(flow));
        if let Some(slot) = self.create(now, flow, data_from)
            && let Some((_, connection)) = self.connections.get_mut(slot)
        {
            *connection = Repair::new(now, &self.config, data_from, tracking.next(data_from), tracking);
            connection.entry.owner = Some(owner);
        }
    }

    /// Drops the state of a connection that continues without this element, and releases its held data as soon as
    /// possible.
    pub fn remove(&mut self, now: Instant, flow: FlowId) {
        self.forget(now, self.connections.find(flow));
    }

    /// Drops the state of all connections, which continue without this element, and releases all held data immediately.
    pub fn clear(&mut self) {
        while let Some(oldest) = self.connections.oldest() {
            self.forget(Instant::ZERO, Some(oldest));
        }
        while !self.over.is_empty() {
            self.dissolve(Pace::Time);
        }
    }

    /// Applies new parameters; connections keep their state. If the new limits are exceeded, the least recently used
    /// connections are evicted. Running timers keep their deadlines. If flow control is disabled, all held data is
    /// released. If it is enabled, existing connections continue without it.
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
            self.evict(now, oldest);
            while !self.over.is_empty() {
                self.dissolve(Pace::Time);
            }
        }
        self.config = config;
    }

    /// Learns from a packet that passes unchanged in any case. The packet is not cached, but repairs that it triggers
    /// are sent.
    pub fn observe(&mut self, now: Instant, port: Port, mut packet: Packet<P>) {
        let Some(&segment) = usable(&packet) else { return };
        let found = self.connections.find(packet.flow);
        let Some((slot, take)) = self.judge(now, found, port, &packet, &segment) else { return };
        if port == Port::WIRED {
            let end = segment.seq + packet.seq_len();
            let verdict = self.counted(slot, |connection, _, out| match take {
                Take::Believed if end != segment.seq => connection.pass_uncached(&segment, end, out),
                Take::Old => {
                    connection.pass_old_data();
                    DataVerdict::Forward
                }
                _ => DataVerdict::Forward,
            });
            if verdict == Some(DataVerdict::Restart) {
                self.restart(now, slot, end);
            }
        } else if take == Take::Believed {
            // The packet passes regardless of the verdict.
            let _ = self.take_ack(now, slot, &mut packet, &segment);
            if let Some((_, connection)) = self.connections.get_mut(slot) {
                connection.forget_answer();
            }
        }
    }

    fn on_wired(&mut self, now: Instant, packet: Packet<P>) -> Disposition {
        if let Some(&segment) = usable(&packet) {
            match self.take_wired(now, &packet, &segment) {
                DataVerdict::Absorbed => return Disposition::Absorbed,
                DataVerdict::Held => return Disposition::Held,
                DataVerdict::Refused => return Disposition::Dropped,
                DataVerdict::Store(_) | DataVerdict::Forward | DataVerdict::Restart => {}
            }
        }
        self.out.send(Port::WIRELESS, Why::Given, packet);
        Disposition::Forwarded
    }

    fn take_wired(&mut self, now: Instant, packet: &Packet<P>, segment: &Segment) -> DataVerdict {
        let begins = segment.flags.has(Flags::SYN) || packet.len > 0 && !segment.flags.has(Flags::RST);
        let found = self.connections.find(packet.flow);
        let found = found.or_else(|| if begins { self.create(now, packet.flow, packet.from) } else { None });
        let Some((slot, take)) = self.judge(now, found, Port::WIRED, packet, segment) else {
            return DataVerdict::Forward;
        };
        let data = packet.len > 0 && !segment.flags.has(Flags::SYN);
        let data = data && (take != Take::Opened || self.is_sent(slot, segment.seq + packet.len));
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

    /// Returns the connection that the packet belongs to and how far the packet may change its state. Returns `None` if
    /// there is no such connection, if the packet comes from the wrong side, or if it resets the connection.
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
        let take = connection.tracking.take(now, packet.from, segment, packet.len);
        match take {
            Take::Reset => {
                if let Some((_, mut connection)) = self.discard(slot) {
                    connection.drop_held();
                    self.end(now, connection);
                }
                return None;
            }
            Take::Opened => self.begin(now, slot, packet, segment),
            _ => {}
        }
        Some((slot, take))
    }

    /// Returns whether the data up to `end` counts as sent. For a connection picked up in progress, not all seen data
    /// does.
    fn is_sent(&mut self, slot: u32, end: Seq) -> bool {
        self.connections.get_mut(slot).is_some_and(|(_, connection)| end.le(connection.tracking.next(connection.side)))
    }

    /// Starts the connection afresh with this packet. Data held for a previous connection is released now.
    fn begin(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let next = connection.tracking.next(connection.side);
        let data = packet.from == connection.side
            && packet.len > 0
            && !segment.flags.has(Flags::SYN)
            && (segment.seq + packet.len).le(next);
        let start = if data { segment.seq } else { next };
        self.restart(now, slot, start);
    }

    /// Discards the connection's cached data and repair state, and restarts it at `start`.
    fn restart(&mut self, now: Instant, slot: u32, start: Seq) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let tracking = core::mem::take(&mut connection.tracking);
        let mut fresh = Repair::new(now, &self.config, connection.side, start, tracking);
        fresh.entry = connection.entry;
        let old = core::mem::replace(connection, fresh);
        self.end(now, old);
    }

    /// Restarts a connection whose packets turned out to exceed the hop's path MTU, so that the sender sees the losses
    /// and sends smaller packets.
    fn heed_sizes(&mut self, now: Instant, slot: u32) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let Some((start, sizes, edge)) = connection.take_size_news() else { return };
        self.restart(now, slot, start);
        if let Some((_, connection)) = self.connections.get_mut(slot) {
            connection.keep_sizes(sizes, edge);
        }
    }

    /// Restarts the connection at an acknowledgment below the recorded one. An off-path attacker may have acknowledged
    /// more than has arrived, and the sender may have accepted that. Tracked sequence numbers stay, so that an off-path
    /// attacker cannot change them.
    fn go_back(&mut self, now: Instant, slot: u32, segment: &Segment) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        connection.tracking.go_back(connection.side, segment.ack);
        let start = connection.tracking.next(connection.side);
        let edge = connection.edge_with(segment);
        self.restart(now, slot, start);
        if let Some((_, connection)) = self.connections.get_mut(slot) {
            connection.set_edge(edge);
        }
        self.connections.touch(slot);
    }

    fn take_old_data(&mut self, now: Instant, slot: u32, packet: &Packet<P>) -> DataVerdict {
        self.connections.touch(slot);
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        connection.on_acknowledged_data(&self.config, now, packet, &mut self.out)
    }

    fn take_data(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment) -> DataVerdict {
        let verdict = self.counted(slot, |connection, config, out| {
            // Frees more than the packet adds.
            if connection.is_behind() {
                connection.catch_up(now, Pace::Data, out);
            }
            connection.on_data(now, config, packet, segment, out)
        });
        let verdict = match verdict.unwrap_or(DataVerdict::Forward) {
            DataVerdict::Store(place) => self.keep(now, slot, packet, segment, place),
            DataVerdict::Restart => {
                self.restart(now, slot, segment.seq + packet.seq_len());
                DataVerdict::Forward
            }
            other => other,
        };
        self.heed_sizes(now, slot);
        self.arm(slot);
        verdict
    }

    /// Caches a packet if there is capacity for it.
    fn keep(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment, place: Place) -> DataVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return DataVerdict::Forward };
        if place == Place::Back && connection.is_full(packet.len, segment.seq + packet.len) {
            return DataVerdict::Refused;
        }
        let overtakes = place == Place::Back && connection.holds();
        if !self.make_room(now, slot, packet) {
            return if overtakes { DataVerdict::Refused } else { DataVerdict::Forward };
        }
        match self.counted(slot, |connection, _, out| connection.store(now, packet.clone(), segment.seq, place, out)) {
            Some(Passage::Later) => DataVerdict::Held,
            Some(Passage::Now) | None => DataVerdict::Forward,
        }
    }

    fn on_wireless(&mut self, now: Instant, mut packet: Packet<P>) -> Disposition {
        let mut disposition = Disposition::Forwarded;
        if let Some(&segment) = usable(&packet) {
            if self.take_wireless(now, &mut packet, &segment) == AckVerdict::Hold {
                return Disposition::Absorbed;
            }
            if packet.tcp() != Some(&segment) {
                disposition = Disposition::Changed;
            }
        }
        self.out.send(Port::WIRED, Why::Given, packet);
        disposition
    }

    fn take_wireless(&mut self, now: Instant, packet: &mut Packet<P>, segment: &Segment) -> AckVerdict {
        let found = self.connections.find(packet.flow);
        // The mobile host's own SYN carries its window scale.
        let begins = segment.flags.has(Flags::SYN);
        let found = found.or_else(|| if begins { self.create(now, packet.flow, packet.from.peer()) } else { None });
        let Some((slot, take)) = self.judge(now, found, Port::WIRELESS, packet, segment) else {
            return AckVerdict::Forward;
        };
        match take {
            Take::Believed => self.take_ack(now, slot, packet, segment),
            Take::Refused if packet.len == 0 => self.take_refused_ack(now, slot, packet, segment),
            _ => AckVerdict::Forward,
        }
    }

    /// Handles an acknowledgment that the sender refuses: it changes no state. A reordered one that the sender might
    /// evaluate nevertheless is suppressed as if it had arrived in order.
    fn take_refused_ack(&mut self, now: Instant, slot: u32, packet: &Packet<P>, segment: &Segment) -> AckVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return AckVerdict::Forward };
        let overtaken = connection.tracking.is_overtaken(packet.from, segment);
        if !overtaken || !connection.suppresses_reordered(now, &self.config, segment.ack) {
            return AckVerdict::Forward;
        }
        self.out.events.push_back((packet.flow, Event::DupAckSuppressed { ack: segment.ack }));
        AckVerdict::Hold
    }

    fn take_ack(&mut self, now: Instant, slot: u32, packet: &mut Packet<P>, segment: &Segment) -> AckVerdict {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return AckVerdict::Forward };
        connection.set_others(self.neighbours.of(connection.entry.owner));
        let told = self.counted(slot, |connection, config, out| {
            let verdict = connection.on_ack(now, config, packet, segment, out);
            connection.release(now, out);
            (verdict, connection.entry.owner, connection.take_news(now))
        });
        let Some((verdict, owner, news)) = told else { return AckVerdict::Forward };
        if let Some(news) = news {
            self.neighbours.hear(owner, now, news);
            self.share_backlog(now, slot, owner);
        }
        match verdict {
            AckVerdict::Forget => {
                self.forget(now, Some(slot));
            }
            AckVerdict::GoBack => self.go_back(now, slot, segment),
            AckVerdict::Forward | AckVerdict::Hold => {
                self.connections.touch(slot);
                self.heed_sizes(now, slot);
                self.arm(slot);
                self.note_behind(now, slot);
            }
        }
        verdict
    }

    /// Assigns a connection its share of the backlog that the mobile host's connections may have in front of the hop.
    fn share_backlog(&mut self, now: Instant, slot: u32, owner: Option<Owner>) {
        if self.config.hop_control().is_none() {
            return;
        }
        if let Some((_, connection)) = self.connections.get_mut(slot) {
            let sharing = self.neighbours.count(owner, now, &mut connection.entry.counted_in);
            connection.share_backlog(sharing);
        }
    }

    /// Ensures that the timer queue wakes up for this connection in time. If the deadline moves later, as with each
    /// acknowledgment, the queue is left unchanged.
    #[inline]
    fn arm(&mut self, slot: u32) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        let Some(deadline) = connection.poll_deadline(&self.config) else { return };
        if connection.entry.queued.is_some_and(|queued| queued <= deadline) {
            return;
        }
        if let Some(queued) = connection.entry.queued.replace(deadline) {
            self.timers.remove(&(queued, slot));
        }
        self.timers.insert((deadline, slot));
        self.next_timer = self.timers.first().map(|&(at, _)| at);
    }

    fn run_timers(&mut self, now: Instant) {
        if now < self.pause {
            return;
        }
        let mut left = MOST_TIMED;
        while self.next_timer.is_some_and(|at| at <= now) {
            if left == 0 {
                self.pause = now + PAUSE;
                return;
            }
            let before = self.out.packets.len();
            let Some((_, slot)) = self.timers.pop_first() else { break };
            self.next_timer = self.timers.first().map(|&(at, _)| at);
            let Some((_, connection)) = self.connections.get_mut(slot) else { continue };
            connection.entry.queued = None;
            connection.set_others(self.neighbours.of(connection.entry.owner));
            if connection.poll_deadline(&self.config).is_some_and(|deadline| deadline <= now) {
                let (owner, heard) = (connection.entry.owner, connection.last_heard());
                if connection.spends_more_than(FREE) && !self.neighbours.may_bet(owner, now, heard) {
                    connection.pause(now);
                } else {
                    let is_bet = connection.spends_more_than(0);
                    connection.on_timer(now, &self.config, &mut self.out);
                    let by_timer = |why: &Why| matches!(why, Why::Repair(Trigger::Timer));
                    let bets = self.out.packets.range(before..).filter(|(_, why, _)| by_timer(why)).count() as u32;
                    if is_bet && bets > 0 {
                        self.neighbours.pay(owner, heard, connection.count_timer_repairs(bets), bets);
                    }
                }
            }
            left = left.saturating_sub((self.out.packets.len() - before).max(1));
            self.heed_sizes(now, slot);
            self.arm(slot);
            self.note_behind(now, slot);
        }
    }
}

/// Returns the header of an intact TCP segment of credible size.
fn usable<P>(packet: &Packet<P>) -> Option<&Segment> {
    packet.tcp().filter(|_| packet.integrity == Integrity::Intact && packet.len <= MAX_SEGMENT)
}

impl<P: Payload> Node<P> for Snoop<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        if port == Port::WIRED { self.on_wired(now, packet) } else { self.on_wireless(now, packet) }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.run_timers(now);
        if self.catch_up.is_some_and(|at| at <= now) {
            self.do_part(now);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.out.packets.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        let timer = self.next_timer.map(|at| at.max(self.pause));
        [timer, self.catch_up].into_iter().flatten().min()
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
#[path = "snoop_delay_tests.rs"]
mod delays;

#[cfg(test)]
#[path = "snoop_bounds_tests.rs"]
mod bounds;

#[cfg(test)]
#[path = "snoop_conservation_tests.rs"]
mod conservation;

#[cfg(test)]
#[path = "snoop_silence_tests.rs"]
mod silences;

#[cfg(test)]
#[path = "snoop_hostile_tests.rs"]
mod hostile;

#[cfg(test)]
#[path = "snoop_properties.rs"]
pub(super) mod properties;
