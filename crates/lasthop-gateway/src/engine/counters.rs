//! Statistics of the gateway: totals per rule. A super-segment counts as one packet.

use lasthop_daemon::observe::Tally;
use lasthop_proto::node::{Port, Trigger};
use lasthop_proto::pep::quic::Counts;
use lasthop_proto::time::Duration;

/// Number of buckets of a [`Histogram`]: the last begins at 2^23 µs, over eight seconds.
const BUCKETS: usize = 24;

/// Histogram of round-trip times, in buckets of powers of two microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    /// Number of samples by bucket. `buckets[n]` covers 2^n µs to less than 2^(n+1) µs; the first starts at 0, the last
    /// is open.
    pub buckets: [u64; BUCKETS],
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples, in nanoseconds.
    pub sum: u64,
}

impl Histogram {
    /// Adds a sample.
    pub fn record(&mut self, span: Duration) {
        let micros = (span.as_nanos() / 1_000).max(1);
        let bucket = (micros.ilog2() as usize).min(BUCKETS - 1);
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(span.as_nanos());
    }

    /// Returns the mean; `None` without samples.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count).map(Duration::from_nanos)
    }
}

/// Local retransmissions by the signal that triggered them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Repairs {
    /// Duplicate acknowledgments.
    pub duplicate: u64,
    /// SACK blocks.
    pub hole: u64,
    /// The local timer.
    pub timer: u64,
}

impl Repairs {
    /// Returns the total of all retransmissions.
    pub const fn total(&self) -> u64 {
        self.duplicate + self.hole + self.timer
    }

    pub(super) const fn count(&mut self, trigger: Trigger) {
        match trigger {
            Trigger::Duplicates => self.duplicate += 1,
            Trigger::Hole | Trigger::Request => self.hole += 1,
            Trigger::Timer => self.timer += 1,
        }
    }
}

/// Reason for which a connection of QUIC was not treated from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untreatable {
    /// Its beginning was not seen: it is older than the gateway, has migrated, or is not QUIC.
    Unseen,
    /// Its datagrams arrive merged by an offload, so that their lengths and times are unknown.
    Aggregated,
}

/// Statistics of a rule for QUIC.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuicCounters {
    /// Counts of the treated connections.
    pub treated: Counts,
    /// Counts of the connections left untreated for comparison: what would have been done. The sender's own
    /// retransmissions confirm a case.
    pub untreated: Counts,
    /// Connections passed because their beginning was not seen.
    pub unseen: u64,
    /// Connections passed because an offload merges their datagrams.
    pub aggregated: u64,
}

impl QuicCounters {
    pub(super) const fn count(&mut self, why: Untreatable) {
        match why {
            Untreatable::Unseen => self.unseen += 1,
            Untreatable::Aggregated => self.aggregated += 1,
        }
    }
}

/// Statistics of one rule. Under [`super::rules::Mode::Observe`] the counters of snoop's actions count the actions that
/// it would have taken.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RuleCounters {
    /// Name of the rule.
    pub name: String,
    /// Connections seen. A new connection with the addresses and ports of an old one counts again.
    pub flows_seen: u64,
    /// Connections with state now.
    pub flows_active: u64,
    /// Connections whose state was evicted because a limit was reached.
    pub flows_evicted: u64,
    /// Packets from the wired side, and from the wireless side.
    pub packets: [u64; 2],
    /// Bytes of these packets, IP headers included.
    pub bytes: [u64; 2],
    /// Packets that passed untreated because an option protects them, such as TCP-MD5's or TCP-AO's.
    pub packets_guarded: u64,
    /// Currently tracked connections whose SYNs both had an option that protects segments: none of their packets is
    /// treated.
    pub flows_guarded: u64,
    /// Payload bytes cached now.
    pub cached_bytes: u64,
    /// Connections whose cache was evicted because a limit was reached.
    pub cache_evicted: u64,
    /// Packets retransmitted over the lossy hop.
    pub repairs: Repairs,
    /// Duplicate acknowledgments withheld from senders.
    pub dup_acks_suppressed: u64,
    /// Acknowledgments forwarded without their SACK blocks.
    pub sack_hidden: u64,
    /// Packets absorbed: old acknowledgments, and data segments that the receiver already has.
    pub absorbed: u64,
    /// Acknowledgments sent in answer to data segments that the receiver already has.
    pub local_acks: u64,
    /// Segments lost beyond the gateway, as acknowledgments show; each counts once. Zero for connections that are not
    /// examined (bypass, and the untreated share).
    pub wireless_losses: u64,
    /// Segments that were missing from the wired side and arrived so late that they must be retransmissions.
    pub wired_losses: u64,
    /// Segments missing from the wired side that arrived so soon that they were reordered rather than lost.
    pub wired_reordered: u64,
    /// Segments from the wired side that had passed before.
    pub source_retransmissions: u64,
    /// Round-trip times between the gateway and the wired end.
    pub rtt_wired: Histogram,
    /// Round-trip times between the gateway and the wireless end, delayed acknowledgments included.
    pub rtt_wireless: Histogram,
    /// Statistics of a rule for QUIC.
    pub quic: Option<QuicCounters>,
}

impl Tally for RuleCounters {
    fn lost(&mut self, segments: u64) {
        self.wired_losses += segments;
    }

    fn reordered(&mut self, segments: u64) {
        self.wired_reordered += segments;
    }

    fn resent(&mut self, segments: u64) {
        self.source_retransmissions += segments;
    }

    fn round_trip(&mut self, port: Port, time: Duration) {
        let histogram = if port == Port::WIRED { &mut self.rtt_wired } else { &mut self.rtt_wireless };
        histogram.record(time);
    }
}

/// Statistics of an engine.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Statistics of each rule, in the order of the configuration.
    pub rules: Vec<RuleCounters>,
    /// Packets that are neither complete, readable TCP segments nor UDP datagrams; they passed.
    pub unread: u64,
    /// TCP segments with a wrong checksum; they passed and changed no state.
    pub damaged: u64,
    /// Segments that their receiver would refuse, or that belong to no connection; they passed and changed no state.
    pub out_of_window: u64,
    /// TCP segments and UDP datagrams that match no rule; they passed.
    pub unmatched: u64,
    /// Connections with state now.
    pub flows: u64,
    /// Bytes of packets held now: cached pieces, their headers, and the rest of the super-segments that contain them.
    pub held_bytes: u64,
}
