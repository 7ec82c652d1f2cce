//! Outcome of a transfer at one end.

use std::net::SocketAddr;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Cause, Packet};
use lasthop_proto::tcp::info::Fields;
use lasthop_proto::time::Instant;
use lasthop_sim::measure::{FlowReport, Reporter, SenderReport};

/// Maximum number of events kept per connection; later ones are only counted.
const MAX_EVENTS: usize = 1 << 18;

/// End of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All data to send is acknowledged, or all data to receive has arrived.
    Complete,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer for the configured number of consecutive timeouts.
    GaveUp,
    /// Aborted at this end, or this end's host was dropped.
    Aborted,
    /// Aborted at its time limit.
    OutOfTime,
}

/// Outcome of a transfer at one end. Times are those of the host's clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Local end.
    pub local: SocketAddr,
    /// Remote end; an arbitrary address and port 0 if no connection was made.
    pub remote: SocketAddr,
    /// End of the transfer.
    pub ending: Ending,
    /// Start: the first SYN was sent, or arrived.
    pub start: Instant,
    /// Time of the last byte received in order, or acknowledged at the sender.
    pub end: Instant,
    /// Stream bytes received in order.
    pub received: u64,
    /// Stream bytes that the peer acknowledged.
    pub acked: u64,
    /// Position of the first received byte that differs from the pattern, if the pattern was expected.
    pub mismatch: Option<u64>,
    /// Timeouts, recoveries and retransmissions of this end.
    pub sender: SenderReport,
    /// Number of data segments sent, including retransmissions.
    pub segments: u64,
    /// Payload bytes sent, including retransmissions.
    pub payload: u64,
    /// Segments that arrived with a wrong checksum.
    pub damaged: u64,
    /// Events at this end with their times; at most 2^18.
    pub events: Vec<(Instant, Event)>,
    /// Number of further events.
    pub more_events: u64,
    /// State of the connection at the end; `None` without one.
    pub tcp_info: Option<Box<Fields>>,
}

impl Outcome {
    /// Creates the outcome of a transfer that has just started.
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
            tcp_info: None,
        }
    }

    /// Returns whether the transfer is complete and all bytes are correct.
    pub fn is_intact(&self) -> bool {
        self.ending == Ending::Complete && self.mismatch.is_none()
    }

    /// Returns the simulator's report of a flow between two ends whose hosts share a clock.
    pub fn flow_report(sender: &Self, receiver: &Self) -> FlowReport {
        let gone = |outcome: &Self| matches!(outcome.ending, Ending::Reset | Ending::GaveUp);
        FlowReport {
            received: receiver.received,
            start: sender.start,
            end: receiver.end,
            complete: sender.ending == Ending::Complete && receiver.is_intact(),
            aborted: gone(sender) || gone(receiver),
            sender: sender.sender,
            tcp_info: sender.tcp_info.clone(),
            ..FlowReport::default()
        }
    }

    /// Counts a packet that is being sent.
    pub(super) fn count_packet(&mut self, packet: &Packet, cause: Cause) {
        if packet.len == 0 {
            return;
        }
        self.segments += 1;
        self.payload += u64::from(packet.len);
        self.sender.source_retransmissions += u64::from(cause.is_source_retransmission());
    }

    /// Counts an event, and keeps it if there is space.
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
