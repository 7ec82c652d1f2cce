//! What the gateway reports: totals per rule, in packets and bytes as super-segments and single packets come.

use lasthop_daemon::observe::Tally;
use lasthop_proto::node::{Port, Trigger};
use lasthop_proto::time::Duration;

/// Buckets of a [`Histogram`]: the last begins at 2^23 µs, over eight seconds.
const BUCKETS: usize = 24;

/// Round trips in buckets of powers of two microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    /// `buckets[n]`: samples from 2^n µs to less than 2^(n+1); the first from 0 on, the last without end.
    pub buckets: [u64; BUCKETS],
    /// Samples.
    pub count: u64,
    /// Their sum in nanoseconds.
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

    /// The mean; `None` without samples.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count).map(Duration::from_nanos)
    }
}

/// Local retransmissions by what showed the loss.
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
    /// All of them.
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

/// What came of one rule. Under [`super::rules::Mode::Observe`] the counters of what snoop does say what it would have done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RuleCounters {
    /// The rule.
    pub name: String,
    /// Connections seen; a new one on old addresses and ports counts anew.
    pub flows_seen: u64,
    /// Connections with state now.
    pub flows_active: u64,
    /// Connections whose state was given up for want of room.
    pub flows_evicted: u64,
    /// Packets from the wired side, and from behind the lossy hop.
    pub packets: [u64; 2],
    /// Bytes in them, IP headers counted.
    pub bytes: [u64; 2],
    /// Packets that passed without treatment since an option protects them, such as TCP-MD5's or TCP-AO's.
    pub packets_guarded: u64,
    /// Connections with state now of which both SYNs had such an option: none of their packets is treated.
    pub flows_guarded: u64,
    /// Payload bytes cached now.
    pub cached_bytes: u64,
    /// Connections whose cache was given up for want of room.
    pub cache_evicted: u64,
    /// Packets resent over the lossy hop.
    pub repairs: Repairs,
    /// Duplicate acknowledgments kept from senders.
    pub dup_acks_suppressed: u64,
    /// Acknowledgments passed on without their SACK blocks.
    pub sack_hidden: u64,
    /// Old acknowledgments dropped, and segments of data that the receiver has.
    pub absorbed: u64,
    /// Acknowledgments sent for the latter.
    pub local_acks: u64,
    /// Segments that passed the gateway and that acknowledgments show to be missing behind it: each counts once. Zero where nothing
    /// looks for them (bypass, and the untreated share).
    pub wireless_losses: u64,
    /// Segments missing in what comes from the wired side that came later, as retransmissions do.
    pub wired_losses: u64,
    /// Such segments that came so soon that they were out of order rather than lost.
    pub wired_reordered: u64,
    /// Segments from the wired side that had passed before.
    pub source_retransmissions: u64,
    /// Round trips between gateway and wired end.
    pub rtt_wired: Histogram,
    /// Round trips between gateway and the end behind the lossy hop, time for delayed acknowledgments included.
    pub rtt_wireless: Histogram,
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

/// What an engine reports.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// In the order of the configuration.
    pub rules: Vec<RuleCounters>,
    /// Packets that are not whole, readable TCP segments; they passed.
    pub unread: u64,
    /// TCP segments with a wrong checksum; they passed, and nothing was learned from them.
    pub damaged: u64,
    /// Segments that their receiver would refuse, or that belong to nothing: they passed, and nothing was learned from them.
    pub out_of_window: u64,
    /// TCP segments that no rule is for; they passed.
    pub unmatched: u64,
    /// Connections with state now.
    pub flows: u64,
    /// Bytes of packets held now, headers and what super-segments hold beside the cached pieces included.
    pub held_bytes: u64,
}
