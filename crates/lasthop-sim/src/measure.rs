//! Measurements of a run, as the 1997 paper defines them.

use std::collections::BTreeMap;

use lasthop_proto::event::{Event, LossCause};
use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::info::Fields;
use lasthop_proto::time::{Duration, Instant};

use crate::apps::{CallReport, WebReport};
use crate::leg::LegId;
use crate::link::Frame;
use crate::overflow::Overflow;
use crate::trace::DropReason;

mod delays;
mod drops;

pub use delays::{DelayHistogram, DelayStats, Delays};
pub use drops::Drops;

/// Result of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Results per flow, in the network's order.
    pub flows: Vec<FlowReport>,
    /// Results per web session, in the network's order.
    pub sessions: Vec<SessionReport>,
    /// Results per link, in the network's order: down, up.
    pub links: Vec<[PathReport; 2]>,
    /// Results of the moving host, if any.
    pub mobility: Option<MobilityReport>,
    /// Time of the last delivery of any flow.
    pub end: Instant,
    /// End of the run: its last event, or the limit.
    pub ended: Instant,
    /// Number of frames that links carried.
    pub frames: u64,
    /// Delays of all flows together; `None` if not measured ([`Simulation::metered`](crate::Simulation::metered)).
    pub delays: Option<Delays>,
    /// Set if the run was abandoned because of too many frames. Then the other fields are meaningless.
    pub overflow: Option<Box<Overflow>>,
}

/// Result of a flow.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowReport {
    /// Application bytes that the acceptor received in order; for QUIC's requests and responses, those that the
    /// initiator received.
    pub received: u64,
    /// Number of these bytes that had arrived when the run had settled; `None` if no such time was set.
    pub settled: Option<u64>,
    /// Start of the flow.
    pub start: Instant,
    /// Time when the last of these bytes arrived.
    pub end: Instant,
    /// Indicates whether everything was delivered and acknowledged.
    pub complete: bool,
    /// Indicates whether the connection was reset or aborted at either end.
    pub aborted: bool,
    /// Counters of the initiator, and of the relay of a split connection.
    pub sender: SenderReport,
    /// Number of data segments that the channel destroyed at least once, each counted once. The number of frames is
    /// [`Drops::channel`].
    pub losses: u64,
    /// Number of these segments repaired by the base station.
    pub repaired_locally: u64,
    /// Number of these segments retransmitted both by the base station and by the source.
    pub repaired_twice: u64,
    /// Duplicate acknowledgments that the base station suppressed.
    pub dupacks_suppressed: u64,
    /// Acknowledgments created in place of those that a return link removed.
    pub acks_reconstructed: u64,
    /// Lost segments for which an element on the path reported the cause, corruption or congestion.
    pub losses_judged: u64,
    /// Number of these with the correct cause.
    pub judged_right: u64,
    /// Payload bytes that the sender of the flow's data handed to the network, including retransmissions; `None` if not
    /// counted.
    pub sent: Option<u64>,
    /// Delays of this flow; `None` if not measured.
    pub delays: Option<Box<Delays>>,
    /// Packets of this flow dropped on any link, in both directions; `None` if not counted.
    pub drops: Option<Drops>,
    /// Result of a call.
    pub call: Option<Box<CallReport>>,
    /// State of the initiator's TCP connection at the end of the flow, or of the run; `None` if it has none, or was not
    /// asked for.
    pub tcp_info: Option<Box<Fields>>,
}

/// Results of a host's handoffs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MobilityReport {
    /// Number of times that the host attached to another station, or again to the same one after leaving it.
    pub handoffs: u64,
    /// Number of gaps at receivers that coincided with a handoff and were ended by data.
    pub gaps: u64,
    /// Total duration of these gaps.
    pub silent: Duration,
    /// Packets lost because the host was not at the station. With multicast, a packet counts if no copy was sent.
    pub lost: u64,
    /// Data packets that arrived after ones sent later, without duplicates.
    pub reordered: u64,
    /// Data packets that contained no new data.
    pub repeated: u64,
}

impl MobilityReport {
    /// Returns the mean gap; `None` if there was none.
    pub fn mean_gap(&self) -> Option<Duration> {
        (self.gaps > 0).then(|| Duration::from_nanos(self.silent.as_nanos() / self.gaps))
    }
}

/// Result of a web session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionReport {
    /// Start of the session.
    pub start: Instant,
    /// Pages, reply bytes and the end of the last page.
    pub web: WebReport,
}

impl SessionReport {
    /// Returns the reply bits per second up to the end of the last page; 0 without one.
    pub fn throughput(&self) -> f64 {
        let seconds = self.web.end.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.web.reply_bytes as f64 * 8.0 / seconds } else { 0.0 }
    }
}

/// Counters of senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderReport {
    /// Retransmission timer expiries ("coarse timeouts") at the source.
    pub timeouts: u64,
    /// Number of these timeouts for a byte that was not lost, but had arrived or was in flight. Counted if delays vary
    /// and all losses are observed.
    pub spurious_timeouts: Option<u64>,
    /// Retransmission timer expiries at a relay.
    pub relay_timeouts: u64,
    /// Number of loss recoveries that began without a timeout.
    pub recoveries: u64,
    /// Data segments that the source retransmitted.
    pub source_retransmissions: u64,
    /// Data segments that the base station retransmitted, including the relay of a split connection.
    pub local_retransmissions: u64,
    /// Bytes of QUIC streams that either end retransmitted.
    pub quic_resent_bytes: u64,
}

/// Traffic in one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathReport {
    /// Frames handed to the link, including queue drops.
    pub frames: u64,
    /// Payload bytes of the frames sent.
    pub payload: u64,
    /// Bytes of the frames sent, including headers.
    pub bytes: u64,
    /// Application bytes that reached their receivers over this path.
    pub useful: u64,
    /// Frames dropped by the queue, because it was full or by its management.
    pub queue_drops: u64,
    /// Frames among [`Self::queue_drops`] that the queue's management dropped.
    pub aqm_drops: u64,
    /// Frames that a policer in front of the queue dropped.
    pub policer_drops: u64,
    /// Frames that the channel destroyed or the link gave up on.
    pub channel_drops: u64,
    /// Frames that arrived twice.
    pub duplicates: u64,
    /// Frames that were in flight or queued when the moving host left this link, or that arrived while it was absent.
    pub handoff_drops: u64,
    /// Frames that the queue marked (RFC 3168) instead of dropping them.
    pub marks: u64,
    /// Acknowledgments that the queue removed because later ones replace them.
    pub filtered: u64,
    /// Transmission time, including the overhead of frames; `None` if not measured.
    pub busy: Option<Duration>,
    /// Time in the queue, of frames that arrived; `None` if not measured.
    pub queueing: Option<DelayStats>,
}

impl FlowReport {
    /// Returns the application bits per second at the receiver (throughput of \[a\]); 0 if nothing arrived.
    pub fn throughput(&self) -> f64 {
        let seconds = self.end.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.received as f64 * 8.0 / seconds } else { 0.0 }
    }
}

impl PathReport {
    /// Returns useful bytes over all payload bytes on the path, from 0 to 1 (goodput of \[a\]); `None` if it carried
    /// none.
    pub fn goodput(&self) -> Option<f64> {
        (self.payload > 0).then(|| self.useful as f64 / self.payload as f64)
    }

    /// Returns the frames dropped in this direction, by cause.
    pub const fn drops(&self) -> Drops {
        Drops {
            queue_full: self.queue_drops - self.aqm_drops,
            managed_queue: self.aqm_drops,
            policer: self.policer_drops,
            channel: self.channel_drops,
            handoff: self.handoff_drops,
        }
    }

    /// Returns the share of transmitted frames that the channel destroyed, from 0 to 1; `None` if none were
    /// transmitted.
    pub fn loss(&self) -> Option<f64> {
        let kept_back = self.queue_drops + self.policer_drops + self.filtered;
        let transmitted = self.frames.saturating_sub(kept_back);
        (transmitted > 0).then(|| self.channel_drops as f64 / transmitted as f64)
    }
}

/// Repairs of a lost segment so far.
#[derive(Clone, Copy, Default)]
struct Repairs {
    local: bool,
    source: bool,
}

/// Follows every data segment that the channel destroyed until the end of the run.
#[derive(Default)]
pub struct LossLedger {
    lost: BTreeMap<(u32, Side, u32), Repairs>,
    /// Currently lost ranges of sequence numbers of each end of each flow, in no order. The end is exclusive.
    missing: BTreeMap<(u32, Side), Vec<(Seq, Seq)>>,
}

impl LossLedger {
    /// Records that the channel destroyed a data segment.
    #[cold]
    pub fn lose(&mut self, packet: &Packet) {
        if let Some(key) = Self::key(packet) {
            self.lost.entry(key).or_default();
        }
    }

    /// Records the retransmission of a data segment.
    #[cold]
    pub fn resend(&mut self, packet: &Packet) {
        if let Some(key) = Self::key(packet)
            && let Some(repairs) = self.lost.get_mut(&key)
        {
            repairs.local |= packet.cause.is_local_retransmission();
            repairs.source |= packet.cause.is_source_retransmission();
        }
    }

    /// Records the loss of a segment at any place.
    #[cold]
    pub fn miss(&mut self, packet: &Packet) {
        if let Some(segment) = packet.tcp()
            && packet.seq_len() > 0
        {
            let span = (segment.seq, segment.seq + packet.seq_len());
            self.missing.entry((packet.flow.0, packet.from)).or_default().push(span);
        }
    }

    /// Records that a segment is in flight again.
    #[cold]
    pub fn send_again(&mut self, packet: &Packet) {
        let Some(segment) = packet.tcp() else { return };
        let Some(missing) = self.missing.get_mut(&(packet.flow.0, packet.from)) else { return };
        let (first, end) = (segment.seq, segment.seq + packet.seq_len());
        for (left, right) in std::mem::take(missing) {
            if left.lt(first) {
                missing.push((left, right.min(first)));
            }
            if right.gt(end) {
                missing.push((left.max(end), right));
            }
        }
    }

    /// Returns whether the byte is currently lost.
    pub fn is_missing(&self, flow: FlowId, from: Side, seq: Seq) -> bool {
        let missing = self.missing.get(&(flow.0, from));
        missing.is_some_and(|missing| missing.iter().any(|(left, right)| left.le(seq) && right.gt(seq)))
    }

    /// Returns the key of a segment, which its retransmissions share. Only a link protocol retransmits a QUIC datagram.
    fn key(packet: &Packet) -> Option<(u32, Side, u32)> {
        let number = match packet.body {
            Body::Tcp(segment) => segment.seq.0,
            Body::Quic { number, .. } => number,
            Body::Datagram { .. } | Body::Media { .. } | Body::Control | Body::Coded(_) | Body::Report(_) => {
                return None;
            }
        };
        packet.has_data().then_some((packet.flow.0, packet.from, number))
    }

    /// Writes the counts into the flows' reports.
    pub fn settle(&self, flows: &mut [FlowReport]) {
        for (&(flow, ..), repairs) in &self.lost {
            let Some(report) = flows.get_mut(flow as usize) else { continue };
            report.losses += 1;
            report.repaired_locally += u64::from(repairs.local);
            report.repaired_twice += u64::from(repairs.local && repairs.source);
        }
    }
}

/// Place and cause of each data segment's last loss, to check the judgements of elements.
#[derive(Default)]
pub struct LossTruth {
    lost: BTreeMap<(u32, Side, u32), (LegId, LossCause)>,
}

impl LossTruth {
    /// Records that `packet` was lost on `leg` or in its queue.
    pub fn lose(&mut self, leg: LegId, packet: &Packet, reason: DropReason) {
        if let Some(key) = LossLedger::key(packet) {
            let cause = match reason {
                DropReason::Channel => LossCause::Corruption,
                DropReason::Queue | DropReason::Aqm | DropReason::Policer => LossCause::Congestion,
                // Neither cause: any judgement is wrong.
                DropReason::Filtered | DropReason::Handoff => return,
            };
            self.lost.insert(key, (leg, cause));
        }
    }

    /// Returns whether the segment that starts at `seq` was last lost on that leg for that cause.
    pub fn says(&self, leg: LegId, flow: FlowId, (from, seq): (Side, Seq), cause: LossCause) -> bool {
        self.lost.get(&(flow.0, from, seq.0)) == Some(&(leg, cause))
    }
}

/// Source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// An endpoint of the flow.
    Endpoint,
    /// An element on the path.
    Element,
}

impl FlowReport {
    /// Counts an event.
    pub fn count(&mut self, reporter: Reporter, event: &Event) {
        match (reporter, event) {
            (Reporter::Endpoint, Event::Timeout { .. }) => self.sender.timeouts += 1,
            (Reporter::Element, Event::Timeout { .. }) => self.sender.relay_timeouts += 1,
            (_, Event::RecoveryEntered { .. }) => self.sender.recoveries += 1,
            (_, Event::DupAckSuppressed { .. }) => self.dupacks_suppressed += 1,
            (_, Event::AckReconstructed { .. }) => self.acks_reconstructed += 1,
            (Reporter::Endpoint, Event::Aborted) => self.aborted = true,
            _ => {}
        }
    }
}

impl PathReport {
    /// Counts a packet that the link accepted.
    #[inline]
    pub fn carry(&mut self, frame: Frame) {
        self.frames += 1;
        self.payload += u64::from(frame.payload());
        self.bytes += u64::from(frame.bytes());
    }

    /// Subtracts an accepted packet that was dropped before transmission. [`Self::lose`] counts the reason.
    pub fn withdraw(&mut self, frame: Frame) {
        self.payload -= u64::from(frame.payload());
        self.bytes -= u64::from(frame.bytes());
    }

    /// Subtracts a packet that the link has not received after all.
    pub fn forget(&mut self, frame: Frame) {
        self.frames -= 1;
        self.withdraw(frame);
    }

    /// Adds the counts of another report.
    pub fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.payload += other.payload;
        self.bytes += other.bytes;
        self.useful += other.useful;
        self.queue_drops += other.queue_drops;
        self.aqm_drops += other.aqm_drops;
        self.policer_drops += other.policer_drops;
        self.duplicates += other.duplicates;
        self.channel_drops += other.channel_drops;
        self.handoff_drops += other.handoff_drops;
        self.marks += other.marks;
        self.filtered += other.filtered;
    }

    /// Counts a dropped packet. One dropped by a full queue was never [carried](Self::carry).
    pub fn lose(&mut self, reason: DropReason) {
        match reason {
            DropReason::Queue => {
                self.frames += 1;
                self.queue_drops += 1;
            }
            DropReason::Aqm => {
                self.queue_drops += 1;
                self.aqm_drops += 1;
            }
            DropReason::Policer => self.policer_drops += 1,
            DropReason::Filtered => self.filtered += 1,
            DropReason::Channel => self.channel_drops += 1,
            DropReason::Handoff => self.handoff_drops += 1,
        }
    }
}
