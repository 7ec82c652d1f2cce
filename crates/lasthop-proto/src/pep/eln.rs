//! Explicit Loss Notification by the base station, for endpoints that cannot distinguish corruption from congestion
//! themselves (Balakrishnan and Katz, *Explicit Loss Notification and Wireless Web Performance*, 1998).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::flow_table::FlowTable;
use crate::event::Event;
use crate::link::radio::Header;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Body, Flags, FlowId, Integrity, Options, Packet, SackBlock, SackBlocks, Segment};
use crate::seq::Seq;
use crate::time::Instant;

/// Maximum length of TCP options, in bytes (RFC 9293 §3.1).
const OPTION_SPACE: u16 = 40;

/// Source of a marker's knowledge of which data to the mobile host was corrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElnKnowledge {
    /// Own observation: data that passed here in order was lost beyond, where congestion loses nothing (one wireless
    /// hop).
    Own,
    /// Reports by radios on the path ([`crate::link::radio`]): several hops.
    Told,
}

/// Knowledge and memory limits of a marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElnMarkerConfig {
    /// Source of its knowledge of which data to the mobile host was corrupted.
    pub knowledge: ElnKnowledge,
    /// Maximum number of connections with state; the least recently used one is evicted first.
    pub connections: usize,
    /// Maximum number of gaps remembered for each direction of a connection.
    pub gaps: usize,
}

impl Default for ElnMarkerConfig {
    /// Returns own observation, and 16,384 connections with 64 gaps in each direction.
    fn default() -> Self {
        Self { knowledge: ElnKnowledge::Own, connections: 16_384, gaps: 64 }
    }
}

/// Handling of a gap beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Surplus {
    /// The gap joins the last one, with all data between.
    Join,
    /// The gap is omitted.
    Omit,
}

/// One direction of data as it passes here.
#[derive(Clone, Debug)]
struct Track {
    /// One past the highest byte seen.
    high: Seq,
    /// Start of the known data.
    start: Seq,
    /// Data that was missing when later data passed, in order. Filled gaps stay until they are acknowledged.
    gaps: Vec<SackBlock>,
    /// Number and window of the last acknowledgment.
    last: Option<(Seq, u16)>,
    fin: Option<Seq>,
}

impl Track {
    fn new(start: Seq) -> Self {
        Self { high: start, start, gaps: Vec::new(), last: None, fin: None }
    }

    fn is_near(&self, seq: Seq) -> bool {
        seq.is_near(self.high)
    }

    fn on_data(&mut self, seq: Seq, end: Seq, most: usize, surplus: Surplus) {
        if seq.gt(self.high) {
            let gap = SackBlock { left: self.high, right: seq };
            if self.gaps.len() < most.max(1) {
                self.gaps.push(gap);
            } else if surplus == Surplus::Join
                && let Some(last) = self.gaps.last_mut()
            {
                last.right = gap.right;
            }
        }
        self.high = self.high.max(end);
    }

    /// Processes an acknowledgment, and returns whether it is a duplicate (RFC 5681 §2).
    fn on_ack(&mut self, ack: Seq, window: u16) -> AckKind {
        let last = self.last.replace((ack, window));
        if let Some((before, _)) = last
            && ack.lt(before)
        {
            self.last = last;
            return AckKind::Old;
        }
        if self.gaps.first().is_some_and(|gap| gap.right.le(ack)) {
            self.gaps.retain(|gap| gap.right.gt(ack));
        }
        if last == Some((ack, window)) && window != 0 && self.high.gt(ack) {
            AckKind::Duplicate
        } else {
            AckKind::Other
        }
    }

    fn is_missing(&self, seq: Seq) -> bool {
        self.gaps.iter().take_while(|gap| gap.left.le(seq)).any(|gap| gap.right.gt(seq))
    }

    fn is_done(&self, ack: Seq) -> bool {
        self.fin.is_some_and(|fin| ack.ge(fin))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckKind {
    Old,
    Duplicate,
    Other,
}

/// Both directions of a connection; `None` until data passes.
#[derive(Clone, Default, Debug)]
struct Flow {
    /// Data from the wired to the mobile host. Gaps were lost to congestion before this point.
    down: Option<Track>,
    /// Data from the mobile host. Gaps were lost on the wireless hop.
    up: Option<Track>,
    down_done: Done,
    up_done: Done,
    /// Data to the mobile host that radios report as corrupted: the last ranges.
    told: VecDeque<SackBlock>,
}

/// Indicates whether all data of a direction, FIN included, is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Done {
    #[default]
    No,
    Yes,
}

/// A base station that sets ELN on acknowledgments for losses on the wireless hop.
///
/// *Data to the mobile host:* it marks a duplicate acknowledgment whose next byte passed here in order, as that byte
/// was lost on the hop. Bytes that were missing here at first count as congestion losses, even after the sender has
/// filled them in. With [`ElnKnowledge::Told`] it instead marks one whose next byte a radio reports as corrupted. *Data
/// from the mobile host:* it marks an acknowledgment whose next byte was missing here, as that byte was lost on the
/// hop.
///
/// Only acknowledgments without payload are marked: a full segment has no space for the option. Packets pass in order
/// and are neither kept nor created.
#[derive(Clone, Debug)]
pub struct ElnMarker<P> {
    config: ElnMarkerConfig,
    flows: FlowTable<Flow>,
    packets: VecDeque<(Port, Packet<P>)>,
    events: VecDeque<(FlowId, Event)>,
}

impl ElnMarker<()> {
    /// Returns a marker for packets without payload as a trait object, so that it is compiled in this crate.
    pub fn boxed(config: ElnMarkerConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P> ElnMarker<P> {
    /// Returns a marker without connections.
    pub fn new(config: ElnMarkerConfig) -> Self {
        Self { flows: FlowTable::new(config.connections), config, packets: VecDeque::new(), events: VecDeque::new() }
    }

    /// Returns the number of connections with state.
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    fn take(&mut self, port: Port, packet: &mut Packet<P>) -> Disposition {
        let mut disposition = Disposition::Forwarded;
        if packet.integrity != Integrity::Intact {
            return disposition;
        }
        let Some(&segment) = packet.tcp() else { return disposition };
        let found = self.flows.find(packet.flow);
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if segment.flags.has(Flags::RST) || opens {
            if let Some(slot) = found {
                self.flows.remove(slot);
            }
            return disposition;
        }
        if let Some(slot) = found
            && segment.flags.has(Flags::ACK)
        {
            disposition = self.take_ack(slot, port, packet, &segment);
        }
        if packet.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_data(port, packet, &segment);
        }
        disposition
    }

    fn take_data(&mut self, port: Port, packet: &Packet<P>, segment: &Segment) {
        let slot = match self.flows.find(packet.flow) {
            Some(slot) => slot,
            // A bare FIN is not worth state.
            None if packet.len == 0 => return,
            None => match self.create(packet.flow) {
                Some(slot) => slot,
                None => return,
            },
        };
        self.flows.touch(slot);
        let Some((_, flow)) = self.flows.get_mut(slot) else { return };
        let (track, surplus) = match port {
            Port::WIRED => (&mut flow.down, Surplus::Join),
            _ => (&mut flow.up, Surplus::Omit),
        };
        let (seq, end) = (segment.seq, segment.seq + packet.seq_len());
        let track = match track {
            Some(track) if track.is_near(seq) && track.is_near(end) => track,
            other => other.insert(Track::new(seq)),
        };
        track.on_data(seq, end, self.config.gaps, surplus);
        if segment.flags.has(Flags::FIN) {
            track.fin = Some(end);
        }
    }

    fn take_ack(&mut self, slot: u32, port: Port, packet: &mut Packet<P>, segment: &Segment) -> Disposition {
        self.flows.touch(slot);
        let Some((id, flow)) = self.flows.get_mut(slot) else { return Disposition::Forwarded };
        let from_mobile = port != Port::WIRED;
        let (track, done) =
            if from_mobile { (&mut flow.down, &mut flow.down_done) } else { (&mut flow.up, &mut flow.up_done) };
        let Some(known) = track else { return Disposition::Forwarded };
        let ack = segment.ack;
        if !known.is_near(ack) || ack.gt(known.high) {
            // It acknowledges data that was never seen: the state is not this connection's.
            *track = None;
            return Disposition::Forwarded;
        }
        let pure = packet.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        let kind = known.on_ack(ack, segment.window);
        if from_mobile {
            while flow.told.front().is_some_and(|range| range.right.le(ack)) {
                flow.told.pop_front();
            }
        }
        let lost = match kind {
            AckKind::Old => false,
            AckKind::Duplicate if from_mobile => match self.config.knowledge {
                ElnKnowledge::Own => ack.ge(known.start) && !known.is_missing(ack),
                ElnKnowledge::Told => flow.told.iter().any(|range| range.left.le(ack) && range.right.gt(ack)),
            },
            _ if from_mobile => false,
            _ => known.is_missing(ack),
        };
        if known.is_done(ack) {
            *done = Done::Yes;
        }
        let finished = flow.down_done == Done::Yes && flow.up_done == Done::Yes;
        let marked = lost && pure && mark(packet);
        if marked {
            self.events.push_back((id, Event::ElnMarked { ack }));
        }
        if finished {
            self.flows.remove(slot);
        }
        if marked { Disposition::Changed } else { Disposition::Forwarded }
    }

    /// Processes a radio's report, and returns whether the packet was one.
    fn take_told(&mut self, port: Port, packet: &Packet<P>) -> bool {
        let Some(Header::Missing(range)) = Header::of(packet) else { return false };
        if self.config.knowledge == ElnKnowledge::Own || port == Port::WIRED {
            return false;
        }
        let flow = self.flows.find(packet.flow).and_then(|slot| self.flows.get_mut(slot));
        if let Some((_, flow)) = flow
            && let Some(track) = &flow.down
            && track.is_near(range.left)
            && range.left.lt(range.right)
            && range.right.le(track.high)
        {
            if flow.told.len() >= self.config.gaps.max(1) {
                flow.told.pop_front();
            }
            flow.told.push_back(range);
        }
        true
    }

    fn create(&mut self, flow: FlowId) -> Option<u32> {
        if self.flows.is_full()
            && let Some(oldest) = self.flows.oldest()
            && let Some((evicted, _)) = self.flows.remove(oldest)
        {
            self.events.push_back((evicted, Event::Evicted));
        }
        self.flows.insert(flow, Flow::default())
    }
}

/// Sets the mark, and returns whether it is new.
fn mark<P>(packet: &mut Packet<P>) -> bool {
    let Body::Tcp(segment) = &mut packet.body else { return false };
    if segment.options.eln {
        return false;
    }
    let before = segment.options.wire_len();
    segment.options.eln = true;
    fit(&mut segment.options);
    let after = segment.options.wire_len();
    if packet.header_len > 0 {
        packet.header_len = packet.header_len.saturating_sub(before).saturating_add(after);
    }
    true
}

/// Drops the SACK blocks reported longest ago, as RFC 2018 §3 allows, if the options exceed their space.
fn fit(options: &mut Options) {
    while options.wire_len() > OPTION_SPACE && !options.sack.is_empty() {
        let mut fewer = SackBlocks::default();
        if let Some((_, kept)) = options.sack.as_slice().split_last() {
            kept.iter().for_each(|&block| fewer.push(block));
        }
        options.sack = fewer;
    }
}

impl<P> Node<P> for ElnMarker<P> {
    fn handle_packet(&mut self, _now: Instant, port: Port, mut packet: Packet<P>) -> Disposition {
        if self.take_told(port, &packet) {
            return Disposition::Absorbed;
        }
        let disposition = self.take(port, &mut packet);
        self.packets.push_back((port.across(), packet));
        disposition
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, packet) = self.packets.pop_front()?;
        *place = packet;
        Some((port, Why::Given))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        None
    }

    #[inline]
    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.events.pop_front()
    }
}

#[cfg(test)]
#[path = "eln_tests.rs"]
mod tests;
