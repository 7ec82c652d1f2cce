//! The part of the format `probe.json` that describes a link.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Report {
    pub lasthop_probe: u32,
    pub one_way_delay_ms: Option<f64>,
    #[serde(default)]
    pub median_rtt_ms: Option<f64>,
    /// Missing in early reports.
    #[serde(default)]
    pub half_duplex: Option<Medium>,
    pub down: Direction,
    pub up: Direction,
}

#[derive(Deserialize)]
pub(super) struct Medium {
    pub rate_bps: [f64; 2],
    pub frame_overhead_us: Option<f64>,
    pub turnaround_us: f64,
}

#[derive(Deserialize)]
pub(super) struct Direction {
    pub rate_bps: Option<Estimate>,
    #[serde(default)]
    pub rate_is_lower_bound: bool,
    #[serde(default)]
    pub delay: Option<Delay>,
    #[serde(default)]
    pub longest_load: Option<Load>,
    pub queue: Option<Queue>,
    #[serde(default)]
    pub loss: Option<Loss>,
    #[serde(default)]
    pub reordered: Option<u64>,
    #[serde(default)]
    pub duplicates: Option<u64>,
    /// Missing in early reports.
    #[serde(default)]
    pub behaviour: Option<Behaviour>,
    pub trace: String,
    /// Rate over time; only in reports of `--moving`.
    #[serde(default)]
    pub moving: Option<Moving>,
}

/// Rate over time, and the family that describes it.
#[derive(Deserialize)]
pub(super) struct Moving {
    pub summary: String,
    pub family: String,
    pub why: String,
    pub fits: Option<bool>,
    pub trains: u64,
    pub seconds: f64,
    /// Name of the file with the rate over time.
    pub trace: String,
    #[serde(default)]
    pub interval_ms: Option<f64>,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub slots: Option<MovingSlots>,
    #[serde(default)]
    pub states: Vec<State>,
}

/// Slots with a rate each.
#[derive(Deserialize, Clone, Copy)]
pub(super) struct MovingSlots {
    pub period_s: f64,
    pub first_s: f64,
    pub mean_bps: f64,
    pub spread: f64,
    pub inner: f64,
    pub outage_ms: [f64; 2],
    pub outage_seen: bool,
    pub slots: u64,
}

/// State of a Markov chain.
#[derive(Deserialize)]
pub(super) struct State {
    pub rate_bps: f64,
    pub mean_s: f64,
    pub next: Vec<f64>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Estimate {
    pub value: f64,
    pub interval: Option<[f64; 2]>,
}

/// Delays above the minimum without load.
#[derive(Deserialize)]
pub(super) struct Delay {
    pub median_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

#[derive(Deserialize)]
pub(super) struct Load {
    pub bytes: u64,
    /// Duration in seconds; absent from reports of earlier versions.
    #[serde(default)]
    pub seconds: f64,
    /// Rate at which the load arrived, in bits per second.
    #[serde(default)]
    pub rate_bps: f64,
}

#[derive(Deserialize)]
pub(super) struct Queue {
    pub packets: u32,
    pub bytes: u64,
    pub filled: bool,
    pub bound: String,
}

#[derive(Deserialize)]
pub(super) struct Loss {
    #[serde(default)]
    pub packets: u64,
    #[serde(default)]
    pub lost: u64,
    pub share: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Behaviour {
    pub reordering: Option<Reordering>,
    pub duplicates: Option<Share>,
    pub jitter: Option<Jitter>,
    pub aggregation: Option<Aggregation>,
    pub policer: Option<Bucket>,
    pub shaper: Option<Bucket>,
    pub varying_rate: Option<Varying>,
    pub slots: Option<Slots>,
    pub other_traffic: Option<Share>,
    pub unknown: Vec<Unknown>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Reordering {
    pub share: f64,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Share {
    pub share: f64,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Jitter {
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Aggregation {
    pub packets_mean: f64,
    pub interval_ms: f64,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Bucket {
    pub rate_bps: f64,
    pub burst_bytes: u64,
    pub line_rate_bps: f64,
}

#[derive(Deserialize)]
pub(super) struct Varying {
    pub least_bps: f64,
    pub most_bps: f64,
    #[serde(default)]
    pub series: Vec<Step>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Step {
    pub at_s: f64,
    pub rate_bps: f64,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Slots {
    pub interval_ms: f64,
}

#[derive(Deserialize)]
pub(super) struct Unknown {
    /// `rate`, `base_delay`, `queue`, `loss` and others; unknown names are only shown.
    pub quantity: String,
    pub reason: String,
}

impl Direction {
    /// Returns the reason for which a quantity is unknown.
    pub(super) fn unknown(&self, quantity: &str) -> Option<&str> {
        let behaviour = self.behaviour.as_ref()?;
        behaviour.unknown.iter().find(|unknown| unknown.quantity == quantity).map(|unknown| unknown.reason.as_str())
    }
}
