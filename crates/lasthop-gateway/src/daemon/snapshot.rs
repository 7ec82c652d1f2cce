//! What a worker has done since it was started.

use lasthop_daemon::ab::{ArmReport, Gain, RuleArms};
use serde::{Deserialize, Serialize};

use crate::daemon::passage::Untreated;
use crate::engine::counters::{Counters, Histogram, RuleCounters};
use crate::split::{SplitSnapshot, counters::SideSnapshot};

/// All of it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Packets and what became of them.
    pub packets: PacketCounters,
    /// Connections with state.
    pub flows: u64,
    /// Bytes of packets in caches.
    pub cached_bytes: u64,
    /// Packets that are not whole, readable TCP segments; they passed.
    pub unread: u64,
    /// TCP segments with a wrong checksum; they passed.
    pub damaged: u64,
    /// Segments that their receivers would refuse.
    pub out_of_window: u64,
    /// TCP segments that no rule is for; they passed.
    pub unmatched: u64,
    /// What came of each rule that does not split.
    pub rules: Vec<RuleSnapshot>,
    /// What the relay did, when a rule splits.
    pub split: Option<RelaySnapshot>,
    /// Treatments that are suspended, since packets of the gateway's own do not pass.
    pub untreated: Vec<Untreated>,
    /// Number of suspensions so far.
    pub suspensions: u64,
    /// Under which number the worker has the [tape](crate::daemon::tape) open, if there is one.
    pub tape: Option<i32>,
}

/// Packets that went through the queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PacketCounters {
    /// Packets towards the lossy hop; a super-segment is one.
    pub towards_wireless: u64,
    /// Their bytes, from their IP headers on.
    pub towards_wireless_bytes: u64,
    /// Packets from the lossy hop.
    pub from_wireless: u64,
    /// Their bytes.
    pub from_wireless_bytes: u64,
    /// Packets that went on as they were.
    pub accepted: u64,
    /// Packets that were held, to be sent later, or absorbed, since they are answered or repaired here.
    pub dropped: u64,
    /// Packets that went on changed.
    pub replaced: u64,
    /// Packets sent over the lossy hop by the gateway itself.
    pub injected_wireless: u64,
    /// Packets sent the other way by the gateway itself.
    pub injected_wired: u64,
    /// Packets that could not be sent.
    pub injection_failures: u64,
    /// Packets of which the queue showed only a part; passed on.
    pub truncated: u64,
    /// Packets of interfaces that no rule names (any more); passed on.
    pub strangers: u64,
    /// Times that the queue had no room, and let packets pass by; on a bridge, frames that were lost for want of room.
    pub overflows: u64,
    /// Verdicts, and on a bridge frames to pass on, that the kernel did not take.
    pub verdict_failures: u64,
}

/// What came of one rule. Under `observe`, what snoop does is what it would have done.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RuleSnapshot {
    /// The rule.
    pub name: String,
    /// Connections seen.
    pub flows_seen: u64,
    /// Connections with state now.
    pub flows_active: u64,
    /// Connections whose state was given up for want of room.
    pub flows_evicted: u64,
    /// Payload bytes cached now.
    pub cached_bytes: u64,
    /// Connections whose cache was given up for want of room.
    pub cache_evicted: u64,
    /// Connections with state now that pass without treatment, since both SYNs had an option that protects segments (TCP-MD5, TCP-AO).
    pub flows_guarded: u64,
    /// Packets that passed without treatment since such an option protects them.
    pub packets_guarded: u64,
    /// Local retransmissions that duplicate acknowledgments asked for.
    pub repairs_duplicate: u64,
    /// Local retransmissions that SACK blocks asked for.
    pub repairs_hole: u64,
    /// Local retransmissions that the timer asked for.
    pub repairs_timer: u64,
    /// Duplicate acknowledgments kept from senders.
    pub dup_acks_suppressed: u64,
    /// Segments that the receiver was found to miss.
    pub wireless_losses: u64,
    /// Segments missing in what comes from the wired side.
    pub wired_losses: u64,
    /// Segments from the wired side that had passed before.
    pub source_retransmissions: u64,
    /// Round trips between gateway and wired end.
    pub rtt_wired: RoundTrips,
    /// Round trips between gateway and the end behind the lossy hop.
    pub rtt_wireless: RoundTrips,
    /// Connections with the treatment.
    pub treated: Arm,
    /// Connections left alone.
    pub untreated: Arm,
    /// How many times as fast treated connections are.
    pub gain: Option<Gain>,
}

/// Round trips.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Samples.
    pub samples: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// Their mean; none without samples.
    pub mean_seconds: Option<f64>,
}

/// One arm of a comparison.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Arm {
    /// Connections measured.
    pub flows: u64,
    /// Geometric mean of their goodputs, in bits per second; none without connections.
    pub goodput_bps: Option<f64>,
}

/// What the relay of split connections did.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RelaySnapshot {
    /// Connections now.
    pub open: u64,
    /// Connections accepted.
    pub total: u64,
    /// Connections whose far side could not be reached.
    pub refused: u64,
    /// Connections that ended by a reset of either end or a timeout.
    pub aborted: u64,
    /// How often it stopped accepting because it was full.
    pub full: u64,
    /// First packets of connections that passed unsplit: for want of room, in all or for their client, or since they have an option
    /// that only the called end can answer (TCP-MD5, TCP-AO, a subflow of Multipath TCP).
    pub passed: u64,
    /// Segments that were sent again over the hop beneath the wireless side's TCP.
    pub repairs: u64,
    /// Duplicate acknowledgments that were kept from it.
    pub dup_acks_suppressed: u64,
    /// The wired side.
    pub wired: RelaySide,
    /// The wireless side.
    pub wireless: RelaySide,
}

/// One side of the relay.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct RelaySide {
    /// Bytes handed to the kernel for this side.
    pub bytes: u64,
    /// Segments retransmitted, of connections that have ended.
    pub retransmissions: u64,
    /// Mean of their last smoothed round-trip times.
    pub mean_rtt_seconds: Option<f64>,
}

impl Snapshot {
    /// Puts together what the parts report.
    pub fn new(packets: PacketCounters, counters: &Counters, arms: &[RuleArms], split: Option<RelaySnapshot>) -> Self {
        let rule = |rule: &RuleCounters| RuleSnapshot::new(rule, arms.iter().find(|arms| arms.name == rule.name));
        Self {
            packets,
            flows: counters.flows,
            cached_bytes: counters.held_bytes,
            unread: counters.unread,
            damaged: counters.damaged,
            out_of_window: counters.out_of_window,
            unmatched: counters.unmatched,
            rules: counters.rules.iter().map(rule).collect(),
            split,
            untreated: Vec::new(),
            suspensions: 0,
            tape: None,
        }
    }
}

impl RuleSnapshot {
    fn new(counters: &RuleCounters, arms: Option<&RuleArms>) -> Self {
        Self {
            name: counters.name.clone(),
            flows_seen: counters.flows_seen,
            flows_active: counters.flows_active,
            flows_evicted: counters.flows_evicted,
            cached_bytes: counters.cached_bytes,
            cache_evicted: counters.cache_evicted,
            flows_guarded: counters.flows_guarded,
            packets_guarded: counters.packets_guarded,
            repairs_duplicate: counters.repairs.duplicate,
            repairs_hole: counters.repairs.hole,
            repairs_timer: counters.repairs.timer,
            dup_acks_suppressed: counters.dup_acks_suppressed,
            wireless_losses: counters.wireless_losses,
            wired_losses: counters.wired_losses,
            source_retransmissions: counters.source_retransmissions,
            rtt_wired: (&counters.rtt_wired).into(),
            rtt_wireless: (&counters.rtt_wireless).into(),
            treated: arms.map(|arms| Arm::from(&arms.treated)).unwrap_or_default(),
            untreated: arms.map(|arms| Arm::from(&arms.untreated)).unwrap_or_default(),
            gain: arms.and_then(RuleArms::gain),
        }
    }
}

impl From<&Histogram> for RoundTrips {
    fn from(histogram: &Histogram) -> Self {
        let sum_seconds = histogram.sum as f64 / 1e9;
        let mean_seconds = (histogram.count > 0).then(|| sum_seconds / histogram.count as f64);
        Self { samples: histogram.count, sum_seconds, mean_seconds }
    }
}

impl From<&ArmReport> for Arm {
    fn from(report: &ArmReport) -> Self {
        Self { flows: report.flows, goodput_bps: report.mean().map(|bytes| 8.0 * bytes) }
    }
}

impl RelaySnapshot {
    /// What the relay says, and the engine beneath it, if there is one.
    pub fn new(split: SplitSnapshot, beneath: Option<&Counters>) -> Self {
        let rules = || beneath.into_iter().flat_map(|counters| &counters.rules);
        let side = |side: SideSnapshot| RelaySide {
            bytes: side.bytes,
            retransmissions: side.retransmissions,
            mean_rtt_seconds: side.mean_rtt.map(|span| span.as_secs_f64()),
        };
        Self {
            open: split.open,
            total: split.total,
            refused: split.refused,
            aborted: split.aborted,
            full: split.full,
            passed: split.passed,
            repairs: rules().map(|rule| rule.repairs.duplicate + rule.repairs.hole + rule.repairs.timer).sum(),
            dup_acks_suppressed: rules().map(|rule| rule.dup_acks_suppressed).sum(),
            wired: side(split.wired),
            wireless: side(split.wireless),
        }
    }
}
