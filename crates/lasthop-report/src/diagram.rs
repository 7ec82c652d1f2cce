//! A recorded run as a time-sequence diagram: what went from node to node when, and what the nodes did, for one flow. Plain data
//! for whoever draws it.

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Cause, FlowId, Integrity, Packet, Side};
use lasthop_sim::network::{LinkId, Network, NodeId};
use lasthop_sim::trace::{DropReason, Record, Trace, What};
use serde::{Serialize, Serializer};

use crate::describe;
use crate::fate::{Course, courses};
use crate::numbering::Numbering;

/// A diagram.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Diagram {
    /// The flow's name in the scenario.
    pub flow: String,
    /// The nodes on its way, from the end that opened it.
    pub lanes: Vec<String>,
    /// Packets from lane to lane, in order of sending.
    pub packets: Vec<Arrow>,
    /// What the nodes did besides, in order of time.
    pub notes: Vec<Note>,
    /// When the record ends, in microseconds.
    pub end: u64,
}

/// A packet on its way from one lane to the next. As JSON a list of its fields in their order: there are tens of thousands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrow {
    /// When it was handed to the link, in microseconds.
    pub sent: u64,
    /// When it arrived, or was dropped, or the record ended, in microseconds.
    pub ended: u64,
    /// Index of the lane that it leaves.
    pub from: usize,
    /// Index of the lane that it goes to.
    pub to: usize,
    /// What it is.
    pub kind: Kind,
    /// What became of it.
    pub fate: Fate,
    /// Of data, its first byte in the stream of its connection, from 0; of an acknowledgment, how many bytes of it are acknowledged.
    pub number: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Why it was sent, as traces name it.
    pub cause: Cause,
}

impl Serialize for Arrow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { sent, ended, from, to, kind, fate, number, len, cause } = *self;
        (sent, ended, from, to, kind, fate, number, len, cause.name()).serialize(serializer)
    }
}

/// What an [`Arrow`] is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Data sent for the first time by this sender.
    Data,
    /// Data that the flow's source sent before.
    SourceRetransmission,
    /// Data that the base station, or an end of the lossy link, sent before.
    LocalRetransmission,
    /// An acknowledgment of something new.
    Ack,
    /// An acknowledgment that says the same as the one before it.
    DuplicateAck,
    /// SYN, FIN, reset and their answers.
    Handshake,
    /// A control frame of a link protocol.
    LinkControl,
    /// An unreliable datagram.
    Datagram,
}

/// What became of an [`Arrow`].
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// It arrived with a damaged payload.
    Damaged,
    /// The channel destroyed it.
    Lost,
    /// A full queue dropped it.
    QueueFull,
    /// A queue took it out: an acknowledgment behind it said all that it says.
    Filtered,
    /// It arrived at a base station that kept it back: a duplicate acknowledgment.
    Suppressed,
    /// It arrived at a base station that dropped it: older than what was known there.
    Absorbed,
    /// It was still underway when the record ended.
    Underway,
}

/// Something that a node did.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Note {
    /// When, in microseconds.
    pub time: u64,
    /// Index of the lane.
    pub lane: usize,
    /// What, as traces name it: `timeout`, `dupack-suppressed`, ...
    pub event: &'static str,
    /// The place in the stream that it is about, in bytes.
    pub number: Option<u32>,
}

/// The flow that a diagram of `trace` shows best: the one that the most data was sent on.
pub fn busiest_flow(trace: &Trace) -> FlowId {
    let mut bytes = vec![0_u64; trace.flows.len()];
    for record in &trace.records {
        if let (What::Sent(packet), Some(sum)) = (&record.what, bytes.get_mut(record.flow.0 as usize)) {
            *sum += u64::from(packet.len);
        }
    }
    // The first of those with the most.
    let most = bytes.iter().max().copied().unwrap_or(0);
    FlowId(bytes.iter().position(|sum| *sum == most).unwrap_or(0) as u32)
}

impl Diagram {
    /// The diagram of `flow` in a `trace` of `network`; without lanes when the flow does not exist.
    pub fn of(network: &Network, trace: &Trace, flow: FlowId) -> Self {
        let end = trace.records.last().map_or(0, micros);
        let Some((spec, info)) = network.flows.get(flow.0 as usize).zip(trace.flows.get(flow.0 as usize)) else {
            return Self { flow: String::new(), lanes: vec![], packets: vec![], notes: vec![], end };
        };
        let path = path(network, spec.from, spec.to);
        let lane_of = |node: NodeId| path.iter().position(|on_path| *on_path == node);
        let lanes = path.iter().map(|node| network.nodes[node.0].name.clone()).collect();
        let node_at =
            |point: u16| network.links.get(usize::from(point / 2)).map(|link| link.ends[usize::from(point % 2)]);
        let lane_at = |point: u16| node_at(point).and_then(lane_of);
        let same_node = |a: u16, b: u16| node_at(a) == node_at(b);
        let data_from = data_sender(trace, flow);
        let mut numbering = Numbering::default();
        let courses = courses(trace);
        let mut acks = LastAcks::default();
        let (mut packets, mut notes) = (Vec::new(), Vec::new());
        for (index, record) in trace.records.iter().enumerate() {
            // A link's control frames belong to no flow.
            if record.flow != flow && record.flow != FlowId::NONE {
                continue;
            }
            numbering.see(record);
            let place = |seq: u32, side: Side| numbering.place(trace, record, side, seq);
            let Some(lane) = lane_at(record.point) else { continue };
            match &record.what {
                What::Sent(packet) => {
                    let Some(to) = lane_at(Trace::far_end(record.point)) else { continue };
                    let (ended, fate) = ending(trace, courses[index], &same_node);
                    let (kind, number) = match packet.tcp() {
                        None if record.flow == FlowId::NONE => (Kind::LinkControl, 0),
                        None => match packet.body {
                            Body::Quic { number, .. } => (quic_kind(packet), number),
                            _ => (Kind::Datagram, 0),
                        },
                        Some(segment) if packet.len > 0 => (data_kind(packet), place(segment.seq.0, packet.from)),
                        Some(segment) => {
                            let acked = place(segment.ack.0, packet.from.peer());
                            (acks.kind(record.point, packet, acked), acked)
                        }
                    };
                    let ended = ended.unwrap_or(end);
                    let (sent, cause, len) = (micros(record), packet.cause, packet.len);
                    packets.push(Arrow { sent, ended, from: lane, to, kind, fate, number, len, cause });
                }
                What::Event(Event::Window { .. }) | What::Received(_) | What::Dropped(..) => {}
                What::Event(event) => {
                    let numbers = describe::event_numbers(event);
                    let number = numbers.seq.or(numbers.ack).map(|seq| place(seq.0, data_from));
                    notes.push(Note { time: micros(record), lane, event: event.name(), number });
                }
            }
        }
        Self { flow: info.name.clone(), lanes, packets, notes, end }
    }
}

fn micros(record: &Record) -> u64 {
    record.time.as_nanos() / 1000
}

/// When a packet's way ended, and how.
fn ending(trace: &Trace, course: Course, same_node: &dyn Fn(u16, u16) -> bool) -> (Option<u64>, Fate) {
    let at = |index: usize| Some(micros(&trace.records[index]));
    match course {
        Course::Underway => (None, Fate::Underway),
        Course::Dropped(index, DropReason::Channel | DropReason::Handoff) => (at(index), Fate::Lost),
        Course::Dropped(index, DropReason::Queue | DropReason::Aqm | DropReason::Policer) => {
            (at(index), Fate::QueueFull)
        }
        Course::Dropped(index, DropReason::Filtered) => (at(index), Fate::Filtered),
        Course::Arrived(index) => (at(index), arrival(trace, index, same_node)),
    }
}

/// What the node where record `index` received a packet did with it at once.
fn arrival(trace: &Trace, index: usize, same_node: &dyn Fn(u16, u16) -> bool) -> Fate {
    let received = &trace.records[index];
    let damaged = matches!(received.what, What::Received(Packet { integrity: Integrity::PayloadDamaged, .. }));
    // Until it acts on the next packet, or sends one, what it reports is about this one.
    let reports = trace.records[index + 1..].iter().take_while(|record| record.time == received.time);
    // A hop reports at its end of the lossy link, from whichever side the packet came.
    let reports = reports.filter(|record| record.flow == received.flow && same_node(record.point, received.point));
    let reports = reports.map_while(|record| match &record.what {
        What::Event(event) => Some(event),
        _ => None,
    });
    for event in reports {
        match event {
            Event::DupAckSuppressed { .. } => return Fate::Suppressed,
            Event::Absorbed { .. } => return Fate::Absorbed,
            _ => {}
        }
    }
    if damaged { Fate::Damaged } else { Fate::Arrived }
}

const fn data_kind(packet: &Packet) -> Kind {
    if packet.cause.is_local_retransmission() {
        Kind::LocalRetransmission
    } else if packet.cause.is_source_retransmission() {
        Kind::SourceRetransmission
    } else {
        Kind::Data
    }
}

/// What each capture point acknowledged last on each side's behalf.
#[derive(Default)]
struct LastAcks(std::collections::HashMap<(u16, Side), u32>);

impl LastAcks {
    /// What a packet without payload is.
    fn kind(&mut self, point: u16, packet: &Packet, acked: u32) -> Kind {
        if matches!(packet.cause, Cause::Handshake | Cause::Reset) {
            return Kind::Handshake;
        }
        match self.0.insert((point, packet.from), acked) {
            Some(last) if last == acked => Kind::DuplicateAck,
            _ => Kind::Ack,
        }
    }
}

/// What a datagram of QUIC is: its sender knows, though nobody on the way does.
fn quic_kind(packet: &Packet) -> Kind {
    match packet.cause {
        _ if packet.has_data() => data_kind(packet),
        Cause::Handshake => Kind::Handshake,
        _ => Kind::Ack,
    }
}

/// The side of a flow that sends data first: events speak of its sequence numbers.
fn data_sender(trace: &Trace, flow: FlowId) -> Side {
    let data = trace.records.iter().filter(|record| record.flow == flow);
    let mut data = data.filter_map(|record| describe::packet(&record.what)).filter(|packet| packet.len > 0);
    data.next().map_or(Side::Initiator, |packet| packet.from)
}

/// The nodes from `from` to `to`, both included. Links make a tree, so there is one way.
fn path(network: &Network, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let mut before: Vec<Option<NodeId>> = vec![None; network.nodes.len()];
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for LinkEnds { near, far } in ends(network, node) {
            if far != from && before[far.0].is_none() {
                before[far.0] = Some(near);
                open.push(far);
            }
        }
    }
    let mut path = vec![to];
    while let Some(node) = path.last().and_then(|last| before[last.0]) {
        path.push(node);
    }
    path.reverse();
    path
}

struct LinkEnds {
    near: NodeId,
    far: NodeId,
}

fn ends(network: &Network, node: NodeId) -> impl Iterator<Item = LinkEnds> {
    (0..network.links.len()).map(LinkId).filter_map(move |link| match network.links[link.0].ends {
        [near, far] if near == node => Some(LinkEnds { near, far }),
        [far, near] if near == node => Some(LinkEnds { near, far }),
        _ => None,
    })
}
