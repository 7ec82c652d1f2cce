//! Statistics of a worker since its start.

use lasthop_daemon::ab::{ArmReport, Gain, RuleArms};
use lasthop_proto::pep::quic::{Counts, Reason};
use serde::{Deserialize, Serialize};

use crate::daemon::passage::Untreated;
use crate::engine::counters::{Counters, Histogram, QuicCounters, RuleCounters};
use crate::split::{SplitSnapshot, counters::SideSnapshot};

/// Statistics of a worker.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Packets and verdicts.
    pub packets: PacketCounters,
    /// Connections with state.
    pub flows: u64,
    /// Bytes of packets in caches.
    pub cached_bytes: u64,
    /// Packets that are neither complete, readable TCP segments nor UDP datagrams; they passed.
    pub unread: u64,
    /// TCP segments with a wrong checksum; they passed.
    pub damaged: u64,
    /// Segments that their receivers would refuse.
    pub out_of_window: u64,
    /// TCP segments and UDP datagrams that match no rule; they passed.
    pub unmatched: u64,
    /// Statistics of each rule that does not split.
    pub rules: Vec<RuleSnapshot>,
    /// Statistics of the relay, if a rule splits.
    pub split: Option<RelaySnapshot>,
    /// Treatments that are suspended because packets of the gateway itself do not pass.
    pub untreated: Vec<Untreated>,
    /// Number of suspensions so far.
    pub suspensions: u64,
    /// File descriptor of the [tape](crate::daemon::tape) in the worker, if there is one.
    pub tape: Option<i32>,
}

/// Packets that went through the queue or the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketCounters {
    /// Packets towards the lossy hop; a super-segment counts as one.
    pub towards_wireless: u64,
    /// Bytes of these packets, IP headers included.
    pub towards_wireless_bytes: u64,
    /// Packets from the lossy hop.
    pub from_wireless: u64,
    /// Bytes of these packets.
    pub from_wireless_bytes: u64,
    /// Packets that passed unchanged.
    pub accepted: u64,
    /// Packets held to be sent later, or absorbed because the gateway answers or repairs them.
    pub dropped: u64,
    /// Packets that passed with changes.
    pub replaced: u64,
    /// Packets that the gateway itself sent over the lossy hop.
    pub injected_wireless: u64,
    /// Packets that the gateway itself sent towards the wired side.
    pub injected_wired: u64,
    /// Packets that could not be sent.
    pub injection_failures: u64,
    /// Packets of which the queue provided only a part; they passed.
    pub truncated: u64,
    /// Packets of interfaces that no rule names, or no longer names; they passed.
    pub strangers: u64,
    /// Number of times that the queue was full and packets bypassed it; on a bridge, frames lost because a buffer was
    /// full.
    pub overflows: u64,
    /// Verdicts that the kernel refused; on a bridge, frames to forward that it refused.
    pub verdict_failures: u64,
}

/// Statistics of one rule. Under `observe`, the counters of snoop's actions count the actions that it would have taken.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSnapshot {
    /// Name of the rule.
    pub name: String,
    /// Connections seen.
    pub flows_seen: u64,
    /// Connections with state now.
    pub flows_active: u64,
    /// Connections whose state was evicted because a limit was reached.
    pub flows_evicted: u64,
    /// Payload bytes cached now.
    pub cached_bytes: u64,
    /// Connections whose cache was evicted because a limit was reached.
    pub cache_evicted: u64,
    /// Connections with state now that pass untreated because both SYNs had an option that protects segments (TCP-MD5,
    /// TCP-AO).
    pub flows_guarded: u64,
    /// Packets that passed untreated because an option such as TCP-MD5 protects them.
    pub packets_guarded: u64,
    /// Local retransmissions triggered by duplicate acknowledgments.
    pub repairs_duplicate: u64,
    /// Local retransmissions triggered by SACK blocks.
    pub repairs_hole: u64,
    /// Local retransmissions triggered by the timer.
    pub repairs_timer: u64,
    /// Duplicate acknowledgments withheld from senders.
    pub dup_acks_suppressed: u64,
    /// Segments that the receiver was found to lack.
    pub wireless_losses: u64,
    /// Segments missing from the wired side.
    pub wired_losses: u64,
    /// Segments from the wired side that had passed before.
    pub source_retransmissions: u64,
    /// Round-trip times between the gateway and the wired end.
    pub rtt_wired: RoundTrips,
    /// Round-trip times between the gateway and the wireless end.
    pub rtt_wireless: RoundTrips,
    /// Treated connections.
    pub treated: Arm,
    /// Connections left untreated for comparison.
    pub untreated: Arm,
    /// Ratio of the goodput of treated connections to that of untreated ones.
    pub gain: Option<Gain>,
    /// Statistics of a rule for QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicSnapshot>,
}

/// Statistics of a rule for QUIC.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct QuicSnapshot {
    /// Treated connections.
    pub treated: QuicArm,
    /// Connections left untreated for comparison: what would have been done. The sender's own retransmissions confirm a
    /// case.
    pub untreated: QuicArm,
    /// Connections passed because their beginning was not seen, as after a migration.
    pub unseen: u64,
    /// Connections passed because an offload merges their datagrams.
    pub aggregated: u64,
}

/// Counts of the connections of one arm.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct QuicArm {
    /// Cases opened: acknowledgments that reveal a loss.
    pub cases: u64,
    /// Cases whose losses were all repaired; of untreated connections, by the sender.
    pub repaired: u64,
    /// Copies sent.
    pub copies: u64,
    /// Acknowledgments held.
    pub held: u64,
    /// Cases that ended before a copy could arrive, because the hop reorders.
    pub reordered: u64,
    /// Losses before the gateway, whose acknowledgments passed.
    pub elsewhere: u64,
    /// Number of times that a connection was passed, by reason.
    pub passed: Passed,
}

/// Number of times that a connection was passed for some time or for good, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Passed {
    /// The client acknowledges fewer than one in four datagrams.
    pub rare_acks: u64,
    /// Too few cases ended in a repair.
    pub unconfirmed: u64,
    /// Too many cases for the number of datagrams.
    pub frequent: u64,
    /// The hop reorders.
    pub reordering: u64,
    /// The round trip of the hop rises.
    pub rising: u64,
    /// Too many gaps, or too many acknowledgments to hold.
    pub storm: u64,
    /// The round trip of the hop is longer than a hold.
    pub long_hop: u64,
}

/// Round-trip times.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundTrips {
    /// Number of samples.
    pub samples: u64,
    /// Sum of the samples, in seconds.
    pub sum_seconds: f64,
    /// Mean, in seconds; `None` without samples.
    pub mean_seconds: Option<f64>,
}

/// One arm of a comparison.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Arm {
    /// Number of connections measured.
    pub flows: u64,
    /// Geometric mean of the connections' goodputs, in bits per second; `None` without connections.
    pub goodput_bps: Option<f64>,
}

/// Statistics of the relay of split connections.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RelaySnapshot {
    /// Open connections.
    pub open: u64,
    /// Connections accepted.
    pub total: u64,
    /// Connections whose far side could not be reached.
    pub refused: u64,
    /// Connections ended by a reset of either end or a timeout.
    pub aborted: u64,
    /// Number of times that the relay stopped accepting because it was full.
    pub full: u64,
    /// SYNs of connections forwarded unsplit: a limit, in total or for their client, was reached, or they have an
    /// option that only the called end can answer (TCP-MD5, TCP-AO, a subflow of Multipath TCP).
    pub passed: u64,
    /// Segments retransmitted over the hop below the wireless side's TCP.
    pub repairs: u64,
    /// Duplicate acknowledgments withheld from the wireless side's TCP.
    pub dup_acks_suppressed: u64,
    /// The wired side.
    pub wired: RelaySide,
    /// The wireless side.
    pub wireless: RelaySide,
}

/// One side of the relay.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RelaySide {
    /// Bytes passed to the kernel for this side.
    pub bytes: u64,
    /// Segments retransmitted, for connections that have ended.
    pub retransmissions: u64,
    /// Mean of the connections' last smoothed round-trip times, in seconds.
    pub mean_rtt_seconds: Option<f64>,
}

impl Snapshot {
    /// Combines the reports of the parts.
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
            quic: counters.quic.as_ref().map(QuicSnapshot::from),
        }
    }
}

impl From<&QuicCounters> for QuicSnapshot {
    fn from(counters: &QuicCounters) -> Self {
        let QuicCounters { treated, untreated, unseen, aggregated } = counters;
        Self { treated: treated.into(), untreated: untreated.into(), unseen: *unseen, aggregated: *aggregated }
    }
}

impl From<&Counts> for QuicArm {
    fn from(counts: &Counts) -> Self {
        let Counts { cases, repaired, copies, reordered, held, elsewhere, .. } = *counts;
        let of = |reason| counts.passed_for(reason);
        let passed = Passed {
            rare_acks: of(Reason::RareAcks),
            unconfirmed: of(Reason::Unconfirmed),
            frequent: of(Reason::Frequent),
            reordering: of(Reason::Reordering),
            rising: of(Reason::Rising),
            storm: of(Reason::Storm),
            long_hop: of(Reason::LongHop),
        };
        Self { cases, repaired, copies, held, reordered, elsewhere, passed }
    }
}

impl Passed {
    /// Returns the counts, each with its name in metrics and a description.
    pub const fn by_reason(&self) -> [(&'static str, &'static str, u64); Reason::COUNT] {
        [
            ("rare_acks", "the client acknowledges fewer than one in four datagrams", self.rare_acks),
            ("unconfirmed", "too few cases ended in a repair", self.unconfirmed),
            ("frequent", "too many cases for the number of datagrams", self.frequent),
            ("reordering", "the hop reorders", self.reordering),
            ("rising", "the round trip of the hop rises", self.rising),
            ("storm", "too many losses at a time", self.storm),
            ("long_hop", "the round trip of the hop is longer than a hold", self.long_hop),
        ]
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
    /// Combines the reports of the relay and, if there is one, the engine below it.
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
