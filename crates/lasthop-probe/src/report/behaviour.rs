//! Behaviour of a direction beyond rate, delay, queue and losses, and the quantities that are unknown.
//!
//! A part is present if the probe recognised the behaviour. Quantities that the path's behaviour hides are listed in
//! [`BehaviourReport::unknown`], and are null in the report.

use serde::{Deserialize, Serialize};

/// Behaviour of one direction.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct BehaviourReport {
    /// Packet reordering (RFC 4737).
    pub reordering: Option<Reordering>,
    /// Packet duplication (RFC 5560).
    pub duplicates: Option<Duplicates>,
    /// Delay variation without load.
    pub jitter: Option<Jitter>,
    /// Bursts of arrivals from a link that aggregates frames.
    pub aggregation: Option<Aggregation>,
    /// Half-duplex medium that both directions share.
    pub half_duplex: Option<HalfDuplexMedium>,
    /// Token bucket that drops excess packets.
    pub policer: Option<TokenBucket>,
    /// Token bucket that queues excess packets.
    pub shaper: Option<TokenBucket>,
    /// Variation of the link's rate.
    pub varying_rate: Option<VaryingRate>,
    /// Slots at which the link delivers packets.
    pub slots: Option<Slots>,
    /// Other traffic on the path.
    pub other_traffic: Option<OtherTraffic>,
    /// Quantities that are unknown.
    pub unknown: Vec<Unknown>,
}

/// Packets that arrived after one that was sent later.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Reordering {
    /// Share of arrivals, 0 to 1.
    pub share: f64,
    /// 95th percentile of the late time offset (RFC 4737, section 4.4), in milliseconds: lateness after the first
    /// packet that was sent behind them.
    pub by_ms_p95: f64,
}

/// Packets that arrived again.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Duplicates {
    /// Duplicates over packets that arrived; 0 to 1, or more.
    pub share: f64,
}

/// Delay above the minimum, of packets that met no load of the probe's own, in milliseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Jitter {
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

/// Bursts in which packets arrive while the link is loaded.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Aggregation {
    /// Mean number of full packets in a burst.
    pub packets_mean: f64,
    /// Median time from the beginning of a burst to that of the next, in milliseconds.
    pub interval_ms: f64,
}

/// Half-duplex medium, as seen by one direction.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct HalfDuplexMedium {
    /// Rate of this direction while a frame is on the air, in bits per second.
    pub rate_bps: f64,
    /// Overhead of each frame in microseconds. `None` if it was not found; it is then part of the rate.
    pub frame_overhead_us: Option<f64>,
    /// Additional time between frames of different directions, in microseconds.
    pub turnaround_us: f64,
}

/// Token bucket (RFC 2697): a burst passes at the line's rate, then packets pass at the sustained rate.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct TokenBucket {
    /// Sustained rate in bits per second, IP headers included.
    pub rate_bps: f64,
    /// Maximum number of bytes that passed beyond the sustained rate: a lower bound of the bucket's size.
    pub burst_bytes: u64,
    /// Rate of packets while there are tokens, in bits per second.
    pub line_rate_bps: f64,
}

/// Rate that varies.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct VaryingRate {
    /// Minimum rate in bits per second.
    pub least_bps: f64,
    /// Maximum rate in bits per second.
    pub most_bps: f64,
    /// Time series of the rate; empty if it varies faster than the probe can follow.
    pub series: Vec<RateStep>,
}

/// Rate that applies from a given time until the next step.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct RateStep {
    /// Start in seconds from the trace's first packet, the origin of `sent_s`.
    pub at_s: f64,
    /// Rate in bits per second, IP headers included.
    pub rate_bps: f64,
}

/// Slots in which a link delivers.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Slots {
    /// Interval of slots in milliseconds.
    pub interval_ms: f64,
}

/// Other traffic on the path.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct OtherTraffic {
    /// Share of the time in which other traffic occupied the narrowest link, 0 to 1.
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
    /// `half_duplex`: whether both directions share a half-duplex medium.
    HalfDuplex,
    /// `behaviour.policer` and `behaviour.shaper`: whether there is a token bucket, and its size.
    TokenBucket,
    /// `behaviour.other_traffic`.
    OtherTraffic,
    /// `behaviour.varying_rate`.
    VaryingRate,
    /// `behaviour.aggregation`.
    Aggregation,
    /// Quantity that this version does not know.
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

/// Quantity that the measurement could not determine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Unknown {
    /// Quantity.
    pub quantity: Quantity,
    /// Reason, as a sentence without a full stop.
    pub reason: String,
}
