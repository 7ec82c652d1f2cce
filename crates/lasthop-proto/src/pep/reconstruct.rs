//! ACK reconstruction (RFC 3449 §5.3.1): behind a return link on which acknowledgments were filtered or lost, the
//! missing ones between two received acknowledgments are recreated and spaced. A sender whose window grows by the
//! number of acknowledgments grows as if all had arrived, and sends no bursts.
//!
//! Nothing is acknowledged that the receiver had not acknowledged: recreated numbers lie below that of an
//! acknowledgment that has arrived. After retransmissions and duplicates, acknowledgments pass unchanged: their jumps
//! show a sender which data the receiver already had.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use super::flow_table::FlowTable;
use crate::event::Event;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Body, Cause, Flags, FlowId, Integrity, Packet, Segment};
use crate::queue::Sight;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Maximum number of acknowledgments recreated for one gap. If more are missing, they are spaced further apart.
const MOST_MADE: u32 = 64;
/// Maximum time that an acknowledgment is held: the maximum delay by a receiver (RFC 1122 §4.2.3.2).
const LONGEST_HOLD: Duration = Duration::from_millis(500);
/// Distance from which neither of two numbers is the later one.
const HALF: u32 = 1 << 31;
/// Divisor that weights a new interval between acknowledgments in the average.
const WEIGHT: u64 = 8;

/// Parameters of a reconstructor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReconstructorConfig {
    /// Number of segments that each acknowledgment covers at the output (`ack_thresh`), at least 1. With `None`, all
    /// pass unchanged.
    pub spacing: Option<u32>,
    /// Maximum number of connections with state; the least recently used one is evicted first.
    pub connections: usize,
}

impl Default for ReconstructorConfig {
    /// Returns two segments, like a receiver that delays acknowledgments, and 16,384 connections.
    fn default() -> Self {
        Self { spacing: Some(2), connections: 16_384 }
    }
}

/// An acknowledgment that waits until those before it have left.
#[derive(Clone, Debug)]
struct Waiting<P> {
    packet: Packet<P>,
    ack: Seq,
    /// Distance between the recreated numbers, in bytes.
    step: u32,
    /// Interval between departures.
    interval: Duration,
    /// Time of the next departure.
    due: Instant,
}

/// A connection: data towards the link, acknowledgments from it.
#[derive(Clone, Debug)]
struct Flow<P> {
    /// Largest payload so far.
    segment: u32,
    /// One past the highest byte that passed.
    high: Seq,
    /// End of data that may have been retransmitted.
    unsure: Option<Seq>,
    /// Number and window of the last acknowledgment passed on.
    passed: Option<(Seq, u16)>,
    /// Time at which the last one with a new number arrived.
    came: Option<Instant>,
    /// Average interval between those.
    span: Option<Duration>,
    waiting: Option<Waiting<P>>,
}

impl<P> Flow<P> {
    const fn new(high: Seq) -> Self {
        Self { segment: 0, high, unsure: None, passed: None, came: None, span: None, waiting: None }
    }

    /// Returns the highest number that arrived.
    fn highest(&self) -> Option<(Seq, u16)> {
        let held = self.waiting.as_ref().map(|held| (held.ack, held.packet.tcp().map_or(0, |tcp| tcp.window)));
        held.or(self.passed)
    }

    /// Records an acknowledgment with a new number, and returns the average interval between them.
    fn measure(&mut self, now: Instant) -> Duration {
        let span = self.came.replace(now).map(|before| now.since(before).min(LONGEST_HOLD));
        let average = match (self.span, span) {
            (Some(average), Some(span)) => (average * (WEIGHT - 1) + span) / WEIGHT,
            (average, span) => average.or(span).unwrap_or(Duration::ZERO),
        };
        if span.is_some() {
            self.span = Some(average);
        }
        average
    }

    fn is_near(&self, seq: Seq) -> bool {
        seq.is_near(self.high)
    }
}

/// Recreates acknowledgments lost on a return link. Its wireless port faces that link, its wired port the data sender.
///
/// In a driver with bytes, a recreated acknowledgment ([`Why::LocalAck`]) has the payload of the one from which it was
/// made: the driver writes number and window into it.
#[derive(Clone, Debug)]
pub struct Reconstructor<P> {
    config: ReconstructorConfig,
    flows: FlowTable<Flow<P>>,
    /// Time of the next departure of each connection with a waiting acknowledgment.
    agenda: BTreeSet<(Instant, FlowId)>,
    packets: VecDeque<(Port, Why, Packet<P>)>,
    events: VecDeque<(FlowId, Event)>,
}

impl Reconstructor<()> {
    /// Returns a reconstructor for packets without payload as a trait object, so that it is compiled in this crate.
    pub fn boxed(config: ReconstructorConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P: Clone> Reconstructor<P> {
    /// Returns a reconstructor without connections.
    pub fn new(config: ReconstructorConfig) -> Self {
        Self {
            flows: FlowTable::new(config.connections),
            config: ReconstructorConfig { spacing: config.spacing.map(|spacing| spacing.max(1)), ..config },
            agenda: BTreeSet::new(),
            packets: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the number of connections with state.
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Releases the waiting acknowledgment of a connection, without those before it.
    fn release(&mut self, slot: u32) {
        let Some((id, flow)) = self.flows.get_mut(slot) else { return };
        if let Some(Waiting { packet, ack, due, .. }) = flow.waiting.take() {
            self.agenda.remove(&(due, id));
            flow.passed = Some((ack, packet.tcp().map_or(0, |tcp| tcp.window)));
            self.packets.push_back((Port::WIRED, Why::Released, packet));
        }
    }

    fn forget_slot(&mut self, slot: u32) {
        self.release(slot);
        self.flows.remove(slot);
    }

    /// Processes a packet towards the link.
    fn see_data(&mut self, packet: &Packet<P>, segment: &Segment) {
        let found = self.flows.find(packet.flow);
        if segment.flags.meets(Flags::SYN.with(Flags::RST)) {
            if let Some(slot) = found {
                self.forget_slot(slot);
            }
            return;
        }
        if packet.len == 0 {
            return;
        }
        let (seq, end) = (segment.seq, segment.seq + packet.len);
        let Some(slot) = found.or_else(|| self.create(packet.flow, seq)) else { return };
        self.flows.touch(slot);
        let is_near = self.flows.get_mut(slot).is_some_and(|(_, flow)| flow.is_near(seq) && flow.is_near(end));
        if !is_near {
            self.release(slot);
        }
        let Some((_, flow)) = self.flows.get_mut(slot) else { return };
        if !is_near {
            *flow = Flow::new(seq);
        }
        if seq.lt(flow.high) {
            flow.unsure = Some(flow.high);
        }
        flow.segment = flow.segment.max(packet.len);
        flow.high = flow.high.max(end);
    }

    fn create(&mut self, flow: FlowId, seq: Seq) -> Option<u32> {
        if self.flows.is_full()
            && let Some(oldest) = self.flows.oldest()
        {
            self.release(oldest);
            if let Some((evicted, _)) = self.flows.remove(oldest) {
                self.events.push_back((evicted, Event::Evicted));
            }
        }
        self.flows.insert(flow, Flow::new(seq))
    }

    /// Processes a packet from the link, and returns it if it has to wait.
    fn see_ack(&mut self, now: Instant, packet: &Packet<P>, segment: &Segment) -> Option<Waiting<P>> {
        let slot = self.flows.find(packet.flow)?;
        self.flows.touch(slot);
        if segment.flags.meets(Flags::SYN.with(Flags::RST)) {
            self.forget_slot(slot);
            return None;
        }
        let sight = Sight::of(packet);
        let (_, flow) = self.flows.get_mut(slot)?;
        let ack = segment.ack;
        if !segment.flags.has(Flags::ACK) || !flow.is_near(ack) || ack.gt(flow.high) {
            // It acknowledges data that was never seen: the state is not this connection's.
            self.release(slot);
            return None;
        }
        let before = flow.highest();
        if let (Sight::Plain(_), Some((highest, _))) = (sight, before)
            && ack.lt(highest)
        {
            // Late: it has no news and passes; recreated ones continue behind it.
            if flow.passed.is_none_or(|(passed, _)| ack.gt(passed)) {
                flow.passed = Some((ack, segment.window));
            }
            return None;
        }
        let advances = before.is_none_or(|(highest, _)| ack.gt(highest));
        if sight == Sight::Telling || !advances && before.is_some_and(|(_, window)| window == segment.window) {
            // Data is missing at the receiver, or arrived twice.
            flow.unsure = Some(flow.high);
        }
        let average = if advances { flow.measure(now) } else { Duration::ZERO };
        let sure = flow.unsure.is_none();
        if flow.unsure.is_some_and(|unsure| ack.ge(unsure)) {
            flow.unsure = None;
        }
        let narrower = before.is_some_and(|(_, window)| segment.window < window);
        if !(matches!(sight, Sight::Plain(_)) && advances && sure) || narrower || average == Duration::ZERO {
            self.release(slot);
            let (_, flow) = self.flows.get_mut(slot)?;
            if flow.passed.is_none_or(|(passed, _)| ack.ge(passed)) {
                flow.passed = Some((ack, segment.window));
            }
            return None;
        }
        self.hold(now, slot, packet, ack, average)
    }

    /// Holds an acknowledgment of data that was sent once and recreates those missing before it, the first at once.
    /// Returns `None` if none is missing.
    fn hold(&mut self, now: Instant, slot: u32, packet: &Packet<P>, ack: Seq, average: Duration) -> Option<Waiting<P>> {
        let spacing = self.config.spacing?;
        let (id, flow) = self.flows.get_mut(slot)?;
        let superseded = flow.waiting.take();
        if let Some(superseded) = &superseded {
            self.agenda.remove(&(superseded.due, id));
        }
        let (passed, window) = flow.passed?;
        let gap = ack.since(passed);
        let segment = flow.segment.max(1);
        let mut step = spacing.saturating_mul(segment);
        // ceil(gap / step) - 1 are missing.
        let mut missing = gap.saturating_sub(1) / step;
        if missing > MOST_MADE {
            step = gap.div_ceil(MOST_MADE + 1).div_ceil(segment).saturating_mul(segment);
            missing = gap.saturating_sub(1) / step;
        }
        if missing == 0 {
            flow.passed = Some((ack, packet.tcp().map_or(window, |tcp| tcp.window)));
            return None;
        }
        // RFC 3449: acknowledged bytes continue at the rate at which they arrived.
        let interval = Duration::from_nanos((average.as_nanos() / (u64::from(missing) + 1)).max(1));
        Some(Waiting { packet: packet.clone(), ack, step, interval, due: now })
    }

    /// Sends one due packet of a connection.
    fn depart(&mut self, id: FlowId) {
        let Some(slot) = self.flows.find(id) else { return };
        let Some((_, flow)) = self.flows.get_mut(slot) else { return };
        let (Some(waiting), Some((passed, window))) = (&mut flow.waiting, flow.passed) else { return };
        let left = waiting.ack.since(passed);
        self.agenda.remove(&(waiting.due, id));
        if left <= waiting.step || left >= HALF {
            self.release(slot);
            return;
        }
        let next = passed + waiting.step;
        let mut made = waiting.packet.clone();
        if let Body::Tcp(segment) = &mut made.body {
            // The right edge lies between the previous one's and this one's: the receiver has offered it by now.
            (segment.ack, segment.window) = (next, window);
        }
        made.cause = Cause::LocalAck;
        waiting.due += waiting.interval;
        self.agenda.insert((waiting.due, id));
        flow.passed = Some((next, window));
        self.packets.push_back((Port::WIRED, Why::LocalAck, made));
        self.events.push_back((id, Event::AckReconstructed { ack: next }));
    }
}

impl<P: Clone> Node<P> for Reconstructor<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        if packet.integrity == Integrity::Intact
            && self.config.spacing.is_some()
            && let Some(&segment) = packet.tcp()
        {
            if port == Port::WIRED {
                self.see_data(&packet, &segment);
            } else if port == Port::WIRELESS
                && let Some(waiting) = self.see_ack(now, &packet, &segment)
                && let Some(slot) = self.flows.find(packet.flow)
                && let Some((id, flow)) = self.flows.get_mut(slot)
            {
                self.agenda.insert((waiting.due, id));
                flow.waiting = Some(waiting);
                self.depart(id);
                return Disposition::Held;
            }
        }
        self.packets.push_back((port.across(), Why::Given, packet));
        Disposition::Forwarded
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(due, id)) = self.agenda.first()
            && due <= now
        {
            self.depart(id);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.packets.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.agenda.first().map(|(due, _)| *due)
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.events.pop_front()
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(slot) = self.flows.find(flow) {
            self.forget_slot(slot);
        }
    }
}

#[cfg(test)]
#[path = "reconstruct_tests.rs"]
mod tests;
