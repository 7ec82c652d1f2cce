//! What became of a transfer, as one end saw it.

use std::net::SocketAddr;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Cause, Packet};
use lasthop_proto::time::Instant;
use lasthop_sim::measure::{FlowReport, Reporter, SenderReport};

/// Most events kept of a connection; what comes beyond is counted only.
const MAX_EVENTS: usize = 1 << 18;

/// How a transfer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All that was to be sent is acknowledged, or all that was to be received has arrived.
    Complete,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer, for as many timeouts in a row as the configuration has patience for.
    GaveUp,
    /// It was aborted at this end, or this end's host came down.
    Aborted,
    /// It was not over at its time limit, and aborted.
    OutOfTime,
}

/// What became of a transfer, as one end saw it. Times are those of the host's clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// This end.
    pub local: SocketAddr,
    /// The other end; of a connection that never came, whatever address and port 0.
    pub remote: SocketAddr,
    /// How it ended.
    pub ending: Ending,
    /// When it was begun: the first SYN was sent, or arrived.
    pub start: Instant,
    /// When the last byte so far was received in order, or acknowledged at the end that sends.
    pub end: Instant,
    /// Stream bytes received in order.
    pub received: u64,
    /// Stream bytes that the peer acknowledged.
    pub acked: u64,
    /// Position of the first byte received that is not the pattern's, where the pattern was expected.
    pub mismatch: Option<u64>,
    /// Timeouts, recoveries and retransmissions of this end.
    pub sender: SenderReport,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Payload bytes sent, retransmissions included.
    pub payload: u64,
    /// Segments that arrived with a wrong checksum.
    pub damaged: u64,
    /// What happened at this end, and when; the first quarter of a million.
    pub events: Vec<(Instant, Event)>,
    /// Events beyond those.
    pub more_events: u64,
}

impl Outcome {
    /// Nothing has happened yet.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr, start: Instant) -> Self {
        Self {
            local,
            remote,
            ending: Ending::Aborted,
            start,
            end: start,
            received: 0,
            acked: 0,
            mismatch: None,
            sender: SenderReport::default(),
            segments: 0,
            payload: 0,
            damaged: 0,
            events: Vec::new(),
            more_events: 0,
        }
    }

    /// Whether it is complete, and no wrong byte arrived.
    pub fn is_intact(&self) -> bool {
        self.ending == Ending::Complete && self.mismatch.is_none()
    }

    /// The flow between two ends whose hosts share a clock, in the form in which the simulator measures one.
    pub fn flow_report(sender: &Self, receiver: &Self) -> FlowReport {
        let gone = |outcome: &Self| matches!(outcome.ending, Ending::Reset | Ending::GaveUp);
        FlowReport {
            received: receiver.received,
            start: sender.start,
            end: receiver.end,
            complete: sender.ending == Ending::Complete && receiver.is_intact(),
            aborted: gone(sender) || gone(receiver),
            sender: sender.sender,
            ..FlowReport::default()
        }
    }

    /// Counts what is being sent.
    pub(super) fn count_packet(&mut self, packet: &Packet, cause: Cause) {
        if packet.len == 0 {
            return;
        }
        self.segments += 1;
        self.payload += u64::from(packet.len);
        self.sender.source_retransmissions += u64::from(cause.is_source_retransmission());
    }

    /// Counts and keeps what happened.
    pub(super) fn count_event(&mut self, now: Instant, event: Event) {
        let mut report = FlowReport { sender: self.sender, ..FlowReport::default() };
        report.count(Reporter::Endpoint, &event);
        self.sender = report.sender;
        if self.events.len() < MAX_EVENTS {
            self.events.push((now, event));
        } else {
            self.more_events += 1;
        }
    }
}
