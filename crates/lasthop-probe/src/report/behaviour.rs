//! Behaviour of a direction that rate, delay, queue and losses do not describe, and the quantities that are unknown.
//!
//! Each part is present where the probe recognised it. A quantity that the path's behaviour hides stands in [`BehaviourReport::unknown`], and its value in the
//! report is null.

use serde::{Deserialize, Serialize};

/// Behaviour of one direction.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct BehaviourReport {
    /// Packets overtake each other (RFC 4737).
    pub reordering: Option<Reordering>,
    /// Packets arrive more than once (RFC 5560).
    pub duplicates: Option<Duplicates>,
    /// Delays vary without load.
    pub jitter: Option<Jitter>,
    /// Packets arrive in bursts: the link sends several as one frame.
    pub aggregation: Option<Aggregation>,
    /// Both ways take turns on one medium.
    pub half_duplex: Option<HalfDuplexMedium>,
    /// Packets beyond a token bucket are dropped.
    pub policer: Option<TokenBucket>,
    /// Packets beyond a token bucket are queued.
    pub shaper: Option<TokenBucket>,
    /// The link's rate varies.
    pub varying_rate: Option<VaryingRate>,
    /// Packets are delivered at slot times only.
    pub slots: Option<Slots>,
    /// Others use the path.
    pub other_traffic: Option<OtherTraffic>,
    /// Quantities that are unknown.
    pub unknown: Vec<Unknown>,
}

/// Packets that arrived behind one that was sent later.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Reordering {
    /// Of those that arrived, 0 to 1.
    pub share: f64,
    /// Late time offset (RFC 4737, section 4.4): 95 % of these packets arrived no later, in milliseconds, after the first one sent behind them.
    pub by_ms_p95: f64,
}

/// Packets that arrived again.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Duplicates {
    /// Copies over packets that arrived, 0 to 1 and more.
    pub share: f64,
}

/// Delay beyond the least, of packets that met no load of the probe's own, in milliseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Jitter {
    /// Half of the packets took no longer.
    pub p50_ms: f64,
    /// 95 % of them.
    pub p95_ms: f64,
    /// 99 % of them.
    pub p99_ms: f64,
}

/// Bursts in which packets arrive while the link is loaded.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Aggregation {
    /// Mean number of full packets of a burst.
    pub packets_mean: f64,
    /// Median time from the beginning of a burst to that of the next, in milliseconds.
    pub interval_ms: f64,
}

/// A medium on which both ways take turns, as one direction has it.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct HalfDuplexMedium {
    /// Bits per second of this direction while a frame is on the air.
    pub rate_bps: f64,
    /// Time that each frame takes beside its bytes, in microseconds; `None`: not found, and part of the rate.
    pub frame_overhead_us: Option<f64>,
    /// Time from a frame of one direction to one of the other, beside that, in microseconds.
    pub turnaround_us: f64,
}

/// A token bucket (RFC 2697): a burst passes at the line's rate, and then the sustained rate.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct TokenBucket {
    /// Sustained rate in bits per second, IP headers included.
    pub rate_bps: f64,
    /// Most bytes that passed beyond the sustained rate: the bucket holds as many or more.
    pub burst_bytes: u64,
    /// Bits per second at which packets pass while there are tokens.
    pub line_rate_bps: f64,
}

/// A rate that varies.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct VaryingRate {
    /// Least rate in bits per second.
    pub least_bps: f64,
    /// Greatest rate in bits per second.
    pub most_bps: f64,
    /// Rate over time, in order of time; empty where it varies faster than the probe can follow.
    pub series: Vec<RateStep>,
}

/// A rate from a time on, until the next step.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct RateStep {
    /// When it begins, in seconds from the trace's first packet: the origin of `sent_s`.
    pub at_s: f64,
    /// Bits per second, IP headers included.
    pub rate_bps: f64,
}

/// Slots in which a link delivers.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Slots {
    /// Time from slot to slot in milliseconds.
    pub interval_ms: f64,
}

/// Traffic of others on the path.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct OtherTraffic {
    /// Share of the time in which others occupied the narrowest link, 0 to 1.
    pub share: f64,
}

/// Quantities of the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// `rate_bps`.
    Rate,
    /// `base_rtt_ms` and `one_way_delay_ms`.
    BaseDelay,
    /// `queue`.
    Queue,
    /// `loss.share`.
    Loss,
    /// `half_duplex`: whether both ways take turns.
    HalfDuplex,
    /// `behaviour.policer` and `behaviour.shaper`: whether there is a token bucket, and how much it holds.
    TokenBucket,
    /// `behaviour.other_traffic`.
    OtherTraffic,
    /// `behaviour.varying_rate`.
    VaryingRate,
    /// `behaviour.aggregation`.
    Aggregation,
    /// A quantity that this version does not know.
    #[serde(other)]
    Other,
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::BaseDelay => "base delay",
            Self::Queue => "queue",
            Self::Loss => "loss",
            Self::HalfDuplex => "half-duplex medium",
            Self::TokenBucket => "token bucket",
            Self::OtherTraffic => "other traffic",
            Self::VaryingRate => "rate over time",
            Self::Aggregation => "aggregation",
            Self::Other => "another quantity",
        })
    }
}

/// A quantity that the measurement does not tell.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Unknown {
    /// The quantity.
    pub quantity: Quantity,
    /// Why it is unknown, in a sentence without a full stop.
    pub reason: String,
}
