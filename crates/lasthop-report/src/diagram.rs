//! A recorded run as a time-sequence diagram, as plain data: packets between nodes, and actions of the nodes, for one
//! flow.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Cause, FlowId, Integrity, Packet, Side};
use lasthop_sim::network::{LinkId, Network, NodeId};
use lasthop_sim::trace::{DropReason, Record, Trace, What};
use serde::{Serialize, Serializer};

use crate::describe;
use crate::fate::{Course, courses};
use crate::numbering::Numbering;

/// Time-sequence diagram of one flow.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Diagram {
    /// Name of the flow in the scenario.
    pub flow: String,
    /// Nodes on the flow's path, from the end that opened it.
    pub lanes: Vec<String>,
    /// Packets between lanes, in order of sending.
    pub packets: Vec<Arrow>,
    /// Other actions of the nodes, in order of time.
    pub notes: Vec<Note>,
    /// End of the record, in microseconds.
    pub end: u64,
}

/// Packet between neighbouring lanes. As JSON, a list of its fields in order, since there are tens of thousands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrow {
    /// Time at which the packet was passed to the link, in microseconds.
    pub sent: u64,
    /// Time at which the packet arrived, was dropped, or the record ended, in microseconds.
    pub ended: u64,
    /// Index of the sending lane.
    pub from: usize,
    /// Index of the receiving lane.
    pub to: usize,
    /// Kind of packet.
    pub kind: Kind,
    /// Fate of the packet.
    pub fate: Fate,
    /// For data, its first byte in the stream of its connection, from 0; for an acknowledgment, the number of bytes
    /// acknowledged.
    pub number: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Reason for sending the packet, as traces name it.
    pub cause: Cause,
}

impl Serialize for Arrow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { sent, ended, from, to, kind, fate, number, len, cause } = *self;
        (sent, ended, from, to, kind, fate, number, len, cause.name()).serialize(serializer)
    }
}

/// Kind of an [`Arrow`].
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Data that this sender sends for the first time.
    Data,
    /// Retransmission by the flow's source.
    SourceRetransmission,
    /// Retransmission by the base station, or by an end of the lossy link.
    LocalRetransmission,
    /// Acknowledgment of new data.
    Ack,
    /// Duplicate acknowledgment.
    DuplicateAck,
    /// SYN, FIN, reset and their answers.
    Handshake,
    /// Control frame of a link protocol.
    LinkControl,
    /// Unreliable datagram.
    Datagram,
}

/// Fate of an [`Arrow`].
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The packet arrived.
    Arrived,
    /// The packet arrived with a damaged payload.
    Damaged,
    /// The channel destroyed the packet.
    Lost,
    /// A full queue dropped the packet.
    QueueFull,
    /// A queue removed the acknowledgment: a later one made it redundant.
    Filtered,
    /// The packet arrived at a base station, which suppressed it as a duplicate acknowledgment.
    Suppressed,
    /// The packet arrived at a base station, which dropped it as outdated.
    Absorbed,
    /// The packet was still in flight when the record ended.
    Underway,
}

/// Action of a node.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Note {
    /// Time in microseconds.
    pub time: u64,
    /// Index of the lane.
    pub lane: usize,
    /// Event, as traces name it: `timeout`, `dupack-suppressed`, ...
    pub event: &'static str,
    /// Position in the stream that the event refers to, in bytes.
    pub number: Option<u32>,
}

/// Returns the flow with the most data sent, which makes the best diagram of `trace`.
pub fn busiest_flow(trace: &Trace) -> FlowId {
    let mut bytes = vec![0_u64; trace.flows.len()];
    for record in &trace.records {
        if let (What::Sent(packet), Some(sum)) = (&record.what, bytes.get_mut(record.flow.0 as usize)) {
            *sum += u64::from(packet.len);
        }
    }
    // The first one with the maximum.
    let most = bytes.iter().max().copied().unwrap_or(0);
    FlowId(bytes.iter().position(|sum| *sum == most).unwrap_or(0) as u32)
}

impl Diagram {
    /// Creates the diagram of `flow` in a `trace` of `network`; without lanes if the flow does not exist.
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

/// Returns the time at which a packet's journey ended, and its fate.
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

/// Returns the immediate action of the node that received a packet in record `index`.
fn arrival(trace: &Trace, index: usize, same_node: &dyn Fn(u16, u16) -> bool) -> Fate {
    let received = &trace.records[index];
    let damaged = matches!(received.what, What::Received(Packet { integrity: Integrity::PayloadDamaged, .. }));
    // Its events refer to this packet until it acts on the next one, or sends one.
    let reports = trace.records[index + 1..].iter().take_while(|record| record.time == received.time);
    // A hop reports at its end of the lossy link, whichever side the packet came from.
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

/// Last acknowledgment of each side at each capture point.
#[derive(Default)]
struct LastAcks(std::collections::HashMap<(u16, Side), u32>);

impl LastAcks {
    /// Classifies a packet without payload.
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

/// Classifies a QUIC datagram by its cause, which only the sender knows.
fn quic_kind(packet: &Packet) -> Kind {
    match packet.cause {
        _ if packet.has_data() => data_kind(packet),
        Cause::Handshake => Kind::Handshake,
        _ => Kind::Ack,
    }
}

/// Returns the side of a flow that sends data first: events refer to its sequence numbers.
fn data_sender(trace: &Trace, flow: FlowId) -> Side {
    let data = trace.records.iter().filter(|record| record.flow == flow);
    let mut data = data.filter_map(|record| describe::packet(&record.what)).filter(|packet| packet.len > 0);
    data.next().map_or(Side::Initiator, |packet| packet.from)
}

/// Returns the nodes from `from` to `to`, inclusive. Links form a tree, so the path is unique.
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
