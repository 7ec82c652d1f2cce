//! Record of a run, if requested: every packet at every capture point, and every event.

use lasthop_proto::event::Event;
use lasthop_proto::packet::{FlowId, Packet};
use lasthop_proto::time::Instant;

/// A recorded run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Capture points, indexed by [`Record::point`]. Points 2k and 2k + 1 are the two ends of link k.
    pub points: Vec<CapturePoint>,
    /// Flows, indexed by [`FlowId`].
    pub flows: Vec<FlowInfo>,
    /// Records in order of time; ties in order of occurrence.
    pub records: Vec<Record>,
}

impl Trace {
    /// Returns the capture point at the other end of the link of `point`.
    pub const fn far_end(point: u16) -> u16 {
        point ^ 1
    }
}

impl Trace {
    /// Adds a record. Times must not decrease.
    pub fn record(&mut self, time: Instant, point: u16, flow: FlowId, what: What) {
        self.records.push(Record { time, point, flow, what });
    }
}

/// One end of a link, seen from its node. The node's own events use one of its points too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturePoint {
    /// `NODE` for an endpoint with a single link, otherwise `NODE:LINK`.
    pub name: String,
}

/// Names and addresses of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowInfo {
    /// Name in the scenario.
    pub name: String,
    /// IPv4 addresses: initiator, acceptor.
    pub addresses: [[u8; 4]; 2],
    /// Ports: initiator, acceptor.
    pub ports: [u16; 2],
    /// Initial sequence numbers: initiator, acceptor.
    pub iss: [u32; 2],
}

/// A recorded packet or event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// Time.
    pub time: Instant,
    /// Place: index into [`Trace::points`].
    pub point: u16,
    /// The flow.
    pub flow: FlowId,
    /// Packet or event.
    pub what: What,
}

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// The node handed a packet to the link; [`Packet::cause`](lasthop_proto::packet::Packet::cause) is the reason.
    Sent(Packet),
    /// The node received a packet from the link.
    Received(Packet),
    /// A packet sent from here was dropped.
    Dropped(Packet, DropReason),
    /// The node reported an event.
    Event(Event),
}

/// Reason for a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// A policer in front of the queue dropped the packet because it exceeded the rate and burst.
    Policer,
    /// The queue's management dropped the packet: it had waited too long, or others needed the space.
    Aqm,
    /// The queue removed the acknowledgment: a later one replaces it.
    Filtered,
    /// The channel destroyed the packet.
    Channel,
    /// The moving host was not at this link, or left before the packet crossed. A queued packet may be sent elsewhere.
    Handoff,
}

impl DropReason {
    /// Returns a stable lower-case name, used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Policer => "policer",
            Self::Aqm => "aqm",
            Self::Filtered => "filtered",
            Self::Channel => "channel",
            Self::Handoff => "handoff",
        }
    }
}
