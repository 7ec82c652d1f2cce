//! What a run records when asked: every packet at every capture point, and every event.

use lasthop_proto::event::Event;
use lasthop_proto::packet::{FlowId, Packet};
use lasthop_proto::time::Instant;

/// A recorded run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Where packets were captured. [`Record::point`] indexes this. Points 2k and 2k + 1 are the two ends of link k.
    pub points: Vec<CapturePoint>,
    /// The flows; [`FlowId`] indexes this.
    pub flows: Vec<FlowInfo>,
    /// In order of time; ties in order of occurrence.
    pub records: Vec<Record>,
}

impl Trace {
    /// The capture point at the other end of the link of `point`.
    pub const fn far_end(point: u16) -> u16 {
        point ^ 1
    }
}

impl Trace {
    /// Adds a record; times must not go back.
    pub fn record(&mut self, time: Instant, point: u16, flow: FlowId, what: What) {
        self.records.push(Record { time, point, flow, what });
    }
}

/// One end of one link, seen from the node there; the node's own events are at one of its points too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturePoint {
    /// `NODE` for an endpoint with a single link, otherwise `NODE:LINK`.
    pub name: String,
}

/// Names and addresses of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowInfo {
    /// Its name in the scenario.
    pub name: String,
    /// IPv4 addresses: initiator, acceptor.
    pub addresses: [[u8; 4]; 2],
    /// Ports: initiator, acceptor.
    pub ports: [u16; 2],
    /// First sequence numbers: initiator, acceptor.
    pub iss: [u32; 2],
}

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// When.
    pub time: Instant,
    /// Where: index into [`Trace::points`].
    pub point: u16,
    /// The flow.
    pub flow: FlowId,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// The node here handed a packet to the link; [`Packet::cause`](lasthop_proto::packet::Packet::cause) says why.
    Sent(Packet),
    /// The node here got a packet from the link.
    Received(Packet),
    /// A packet sent from here was dropped.
    Dropped(Packet, DropReason),
    /// The node here reported something.
    Event(Event),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// The management of the queue dropped it: it had waited too long, or others needed the room.
    Aqm,
    /// The queue took it out: an acknowledgment behind it says all that it says.
    Filtered,
    /// A policer had no tokens left for it.
    Policer,
    /// The channel destroyed it.
    Channel,
    /// The host that moves is not at this link, or left before it was across. What waited may be sent elsewhere.
    Handoff,
}

impl DropReason {
    /// A stable lower-case name, used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Aqm => "aqm",
            Self::Filtered => "filtered",
            Self::Policer => "policer",
            Self::Channel => "channel",
            Self::Handoff => "handoff",
        }
    }
}
