//! What a run measures, as the 1997 paper defines it.

use std::collections::BTreeMap;

use lasthop_proto::event::{Event, LossCause};
use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
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

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Per flow, in the network's order.
    pub flows: Vec<FlowReport>,
    /// Per web session, in the network's order.
    pub sessions: Vec<SessionReport>,
    /// Per link, in the network's order: down, up.
    pub links: Vec<[PathReport; 2]>,
    /// Of the host that moves, if one does.
    pub mobility: Option<MobilityReport>,
    /// When the last byte was delivered that any flow delivered.
    pub end: Instant,
    /// When the run ended: at its last event, or at the limit.
    pub ended: Instant,
    /// Frames that links carried.
    pub frames: u64,
    /// Delays of all flows together; `None` where they were not measured ([`Simulation::metered`](crate::Simulation::metered)).
    pub delays: Option<Delays>,
    /// Set if the run was given up because it would have held too many frames: then nothing else here counts.
    pub overflow: Option<Box<Overflow>>,
}

/// What became of a flow.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowReport {
    /// Application bytes that the acceptor received in order; with QUIC's requests and responses, those that the initiator did.
    pub received: u64,
    /// When the flow started.
    pub start: Instant,
    /// When it got the last of them.
    pub end: Instant,
    /// Whether everything was delivered and acknowledged.
    pub complete: bool,
    /// Whether the connection was reset or given up at either end.
    pub aborted: bool,
    /// The initiator's, and in a split connection also the relay's.
    pub sender: SenderReport,
    /// Data segments that the channel destroyed at least once, each counted once however often it happened. The number of
    /// frames is [`Drops::channel`].
    pub losses: u64,
    /// Of those, repaired by the base station.
    pub repaired_locally: u64,
    /// Of those, resent both by the base station and by the source.
    pub repaired_twice: u64,
    /// Duplicate acknowledgments that the base station suppressed.
    pub dupacks_suppressed: u64,
    /// Acknowledgments that were made in the place of those that a return link took.
    pub acks_reconstructed: u64,
    /// Lost segments of which an element on the way said what took them, corruption or congestion.
    pub losses_judged: u64,
    /// Of those, told rightly.
    pub judged_right: u64,
    /// Payload bytes that the end that sends the flow's data handed to the network, retransmissions included; `None` where nobody
    /// counts them.
    pub sent: Option<u64>,
    /// Delays of this flow; `None` where they were not measured.
    pub delays: Option<Box<Delays>>,
    /// Packets of this flow that were dropped on any link, in both directions; `None` where nobody counts them.
    pub drops: Option<Drops>,
    /// Of a call.
    pub call: Option<Box<CallReport>>,
}

/// What the moves of a host came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MobilityReport {
    /// Times that it was taken on by another station than the last, or by the same one after it had left it.
    pub handoffs: u64,
    /// Silences of receivers that fell together with a handoff, of which data ended each.
    pub gaps: u64,
    /// How long they were, all together.
    pub silent: Duration,
    /// Packets that were lost because the host was not where they were sent; of copies, the packet when none came to be sent.
    pub lost: u64,
    /// Data packets that came behind what was sent after them, and were no copies.
    pub reordered: u64,
    /// Data packets of which all had arrived before.
    pub repeated: u64,
}

impl MobilityReport {
    /// The mean silence; `None` where there was none.
    pub fn mean_gap(&self) -> Option<Duration> {
        (self.gaps > 0).then(|| Duration::from_nanos(self.silent.as_nanos() / self.gaps))
    }
}

/// What became of a web session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionReport {
    /// When it started.
    pub start: Instant,
    /// Pages, reply bytes and the end of the last page.
    pub web: WebReport,
}

impl SessionReport {
    /// Reply bits per second up to the end of the last page; 0 without one.
    pub fn throughput(&self) -> f64 {
        let seconds = self.web.end.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.web.reply_bytes as f64 * 8.0 / seconds } else { 0.0 }
    }
}

/// What senders did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderReport {
    /// Retransmission timer expiries ("coarse timeouts") at the source.
    pub timeouts: u64,
    /// Of those, timeouts when nothing was lost of the byte that they were for: it had arrived, or was on its way. Counted where
    /// delays vary and everything is seen.
    pub spurious_timeouts: Option<u64>,
    /// Retransmission timer expiries at a relay.
    pub relay_timeouts: u64,
    /// Times that loss recovery began without a timeout.
    pub recoveries: u64,
    /// Data segments that the source resent.
    pub source_retransmissions: u64,
    /// Data segments that the base station resent, the relay of a split connection included.
    pub local_retransmissions: u64,
    /// Bytes of QUIC streams that either end sent again.
    pub quic_resent_bytes: u64,
}

/// What one direction of a link carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathReport {
    /// Frames handed to the link, queue drops included.
    pub frames: u64,
    /// Payload bytes of frames that it sent.
    pub payload: u64,
    /// Bytes of frames that it sent, headers included.
    pub bytes: u64,
    /// Application bytes that reached their receivers over this path.
    pub useful: u64,
    /// Frames that found the queue full, or that its management dropped.
    pub queue_drops: u64,
    /// Of those, frames that the queue's management dropped.
    pub aqm_drops: u64,
    /// Frames that a policer in front of the queue dropped.
    pub policer_drops: u64,
    /// Frames that the channel destroyed, or that the link gave up.
    pub channel_drops: u64,
    /// Frames that arrived twice.
    pub duplicates: u64,
    /// Frames that were on the way, or waited, when the host that moves left this link, or came while it was not there.
    pub handoff_drops: u64,
    /// Frames that its queue marked (RFC 3168) where it would have dropped others; each is sent.
    pub marks: u64,
    /// Acknowledgments that its queue took out because later ones said all that they say.
    pub filtered: u64,
    /// Time for which it transmitted, the overhead of frames included; `None` where nobody measures it.
    pub busy: Option<Duration>,
    /// Time that frames that arrived had waited in its queue; `None` where nobody measures it.
    pub queueing: Option<DelayStats>,
}

impl FlowReport {
    /// Application bits per second at the receiver (throughput of \[a\]); 0 when nothing arrived.
    pub fn throughput(&self) -> f64 {
        let seconds = self.end.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.received as f64 * 8.0 / seconds } else { 0.0 }
    }
}

impl PathReport {
    /// Useful bytes over all payload bytes that the path carried, 0 to 1 (goodput of \[a\]); `None` when it carried none.
    pub fn goodput(&self) -> Option<f64> {
        (self.payload > 0).then(|| self.useful as f64 / self.payload as f64)
    }

    /// Frames dropped in this direction, by cause.
    pub const fn drops(&self) -> Drops {
        Drops {
            queue_full: self.queue_drops - self.aqm_drops,
            managed_queue: self.aqm_drops,
            policer: self.policer_drops,
            channel: self.channel_drops,
            handoff: self.handoff_drops,
        }
    }

    /// Frames that the channel destroyed over the frames that were transmitted, 0 to 1; `None` when none were transmitted.
    pub fn loss(&self) -> Option<f64> {
        let kept_back = self.queue_drops + self.policer_drops + self.filtered;
        let transmitted = self.frames.saturating_sub(kept_back);
        (transmitted > 0).then(|| self.channel_drops as f64 / transmitted as f64)
    }
}

/// Which repairs a lost segment has seen.
#[derive(Clone, Copy, Default)]
struct Repairs {
    local: bool,
    source: bool,
}

/// Follows every data segment that the channel destroyed until the run's end.
#[derive(Default)]
pub struct LossLedger {
    lost: BTreeMap<(u32, Side, u32), Repairs>,
    /// What is lost at the moment, of each end of each flow: from the first byte up to that after the last, in no order.
    missing: BTreeMap<(u32, Side), Vec<(Seq, Seq)>>,
}

impl LossLedger {
    /// The channel destroyed a data segment.
    #[cold]
    pub fn lose(&mut self, packet: &Packet) {
        if let Some(key) = Self::key(packet) {
            self.lost.entry(key).or_default();
        }
    }

    /// A data segment was sent again.
    #[cold]
    pub fn resend(&mut self, packet: &Packet) {
        if let Some(key) = Self::key(packet)
            && let Some(repairs) = self.lost.get_mut(&key)
        {
            repairs.local |= packet.cause.is_local_retransmission();
            repairs.source |= packet.cause.is_source_retransmission();
        }
    }

    /// Something of a stream was lost, wherever.
    #[cold]
    pub fn miss(&mut self, packet: &Packet) {
        if let Some(segment) = packet.tcp()
            && packet.seq_len() > 0
        {
            let span = (segment.seq, segment.seq + packet.seq_len());
            self.missing.entry((packet.flow.0, packet.from)).or_default().push(span);
        }
    }

    /// Something of a stream is on its way again.
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

    /// Whether the byte is lost at the moment.
    pub fn is_missing(&self, flow: FlowId, from: Side, seq: Seq) -> bool {
        let missing = self.missing.get(&(flow.0, from));
        missing.is_some_and(|missing| missing.iter().any(|(left, right)| left.le(seq) && right.gt(seq)))
    }

    /// What is sent again has the same key; only a link protocol sends a datagram of QUIC again.
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

/// Where each data segment was lost last, and to what: what an element's judgement is held against.
#[derive(Default)]
pub struct LossTruth {
    lost: BTreeMap<(u32, Side, u32), (LegId, LossCause)>,
}

impl LossTruth {
    /// `packet` was lost on `leg`, or in front of it.
    pub fn lose(&mut self, leg: LegId, packet: &Packet, reason: DropReason) {
        if let Some(key) = LossLedger::key(packet) {
            let cause = match reason {
                DropReason::Channel => LossCause::Corruption,
                DropReason::Queue | DropReason::Aqm | DropReason::Policer => LossCause::Congestion,
                // Neither; who judges it is wrong.
                DropReason::Filtered | DropReason::Handoff => return,
            };
            self.lost.insert(key, (leg, cause));
        }
    }

    /// Whether the segment that begins there was lost on that leg, to that cause.
    pub fn says(&self, leg: LegId, flow: FlowId, (from, seq): (Side, Seq), cause: LossCause) -> bool {
        self.lost.get(&(flow.0, from, seq.0)) == Some(&(leg, cause))
    }
}

/// Who reported an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// An endpoint of the flow.
    Endpoint,
    /// Something on the path.
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
    /// Counts a packet that the link took.
    #[inline]
    pub fn carry(&mut self, frame: Frame) {
        self.frames += 1;
        self.payload += u64::from(frame.payload());
        self.bytes += u64::from(frame.bytes());
    }

    /// A packet that the link took was dropped before it was sent. What it is dropped for is counted by [`Self::lose`].
    pub fn withdraw(&mut self, frame: Frame) {
        self.payload -= u64::from(frame.payload());
        self.bytes -= u64::from(frame.bytes());
    }

    /// A packet was counted that the link has not come to take.
    pub fn forget(&mut self, frame: Frame) {
        self.frames -= 1;
        self.withdraw(frame);
    }

    /// Counts what another counted besides.
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

    /// Counts a packet that was dropped. One that a full queue dropped was never [carried](Self::carry).
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
