//! The format of the report, `probe.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::behaviour::BehaviourReport;
use super::moving::MovingReport;
use crate::estimate::Runs;

/// Number with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// 95 % interval, if there is one.
    pub interval: Option<[f64; 2]>,
}

/// Delays above the minimum, in milliseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct DelayReport {
    /// Median without load.
    pub median_ms: f64,
    /// 95th percentile without load.
    pub p95_ms: f64,
    /// 99th percentile without load.
    pub p99_ms: f64,
    /// 95th percentile while the queue was filled.
    pub loaded_p95_ms: Option<f64>,
    /// Maximum while the queue was filled.
    pub loaded_most_ms: Option<f64>,
}

/// Sustained load: packets sent at about the path's rate.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct LoadReport {
    /// Bytes sent, IP headers included.
    pub bytes: u64,
    /// Time from the first packet's arrival to the last one's, in seconds.
    pub seconds: f64,
    /// Arrival rate in bits per second.
    pub rate_bps: f64,
}

/// Limit of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Packets of any size.
    Packets,
    /// Bytes.
    Bytes,
    /// Unknown.
    Unknown,
}

/// Findings about a queue.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct QueueReport {
    /// Number of packets it holds.
    pub packets: u32,
    /// Bytes of these packets, IP headers included.
    pub bytes: u64,
    /// Time to transmit these packets at the link's rate.
    pub milliseconds: f64,
    /// Size of each packet in bytes: of a full packet if the limit is in packets, otherwise of those that filled the
    /// queue.
    pub packet_bytes: u16,
    /// True if the queue was filled; otherwise the numbers are lower bounds.
    pub filled: bool,
    /// Limit of the queue.
    pub bound: Bound,
}

/// Losses of a set of packets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct LossReport {
    /// Number of packets.
    pub packets: u64,
    /// Number of lost packets.
    pub lost: u64,
    /// Lost over sent, 0 to 1. `None` if the losses are not the path's own; `behaviour.unknown` has the reason.
    pub share: Option<Estimate>,
}

/// Runs of lost packets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct RunReport {
    /// Number of runs.
    pub runs: u64,
    /// Mean length in packets; 0 without runs.
    pub mean: Estimate,
    /// Length of the longest run.
    pub longest: u32,
    /// Number of runs by length.
    pub lengths: BTreeMap<u32, u64>,
}

impl From<Runs> for RunReport {
    fn from(runs: Runs) -> Self {
        let mut lengths = BTreeMap::new();
        for run in &runs.lengths {
            *lengths.entry(*run).or_insert(0) += 1;
        }
        Self {
            runs: runs.lengths.len() as u64,
            mean: Estimate { value: runs.mean, interval: runs.interval },
            longest: runs.lengths.into_iter().max().unwrap_or(0),
            lengths,
        }
    }
}

/// Packets of one size, or of one code point.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ClassReport {
    /// Size in bytes with the IP header, or DSCP.
    pub class: u16,
    /// Most frequent DSCP on arrival.
    pub arrives_as: Option<u8>,
    /// Losses.
    pub loss: LossReport,
    /// Median delay above the minimum over all packets, in milliseconds.
    pub median_ms: Option<f64>,
}

/// Results of one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionReport {
    /// Rate of a long transfer without other traffic, in bits per second, IP headers included; the mean if it varies.
    /// `None` if unknown; `behaviour.unknown` has the reason.
    pub rate_bps: Option<Estimate>,
    /// True if the rate is a lower bound, since trains arrived as fast as they were sent.
    pub rate_is_lower_bound: bool,
    /// Delays.
    pub delay: DelayReport,
    /// Longest load under which the rate was observed; absent in reports of earlier versions.
    #[serde(default)]
    pub longest_load: Option<LoadReport>,
    /// Queue; `None` if it was not measured or is unknown.
    pub queue: Option<QueueReport>,
    /// Losses below the rate.
    pub loss: LossReport,
    /// Losses while the queue was filled.
    pub loss_loaded: LossReport,
    /// Runs of losses below the rate.
    pub runs: RunReport,
    /// Number of packets that arrived after one sent later.
    pub reordered: u64,
    /// Number of duplicates received.
    pub duplicates: u64,
    /// Behaviour beyond rate, delay, queue and losses, and the quantities that are unknown; empty in reports of earlier
    /// versions.
    #[serde(default)]
    pub behaviour: BehaviourReport,
    /// Losses and delays by size, below the rate.
    pub sizes: Vec<ClassReport>,
    /// Losses and delays by DSCP, below the rate.
    pub code_points: Vec<ClassReport>,
    /// Size of the largest packet that arrived unfragmented, in bytes with the IP header.
    pub path_mtu: Option<u16>,
    /// Next larger size that was tried and did not arrive.
    pub too_big: Option<u16>,
    /// Total bytes sent, IP headers included.
    pub sent_bytes: u64,
    /// Share of the capacity that was used after the first two seconds; `None` if the rate is unknown.
    pub used_share: Option<f64>,
    /// Datagrams that the receiver's kernel dropped: they count as lost.
    pub receiver_dropped: u32,
    /// Drift of the receiver's clock relative to the sender's, in parts per million.
    pub clock_drift_ppm: f64,
    /// Name of the file with losses packet by packet, as `lasthop fit` reads it.
    pub trace: String,
    /// Rate over time, of measurements with `--moving`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<MovingReport>,
}

/// Half-duplex medium shared by both directions.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct MediumReport {
    /// Rates in bits per second while a frame is on the air: down, up.
    pub rate_bps: [f64; 2],
    /// Overhead of each frame in microseconds. `None` if it was not found; it is then part of the rates.
    pub frame_overhead_us: Option<f64>,
    /// Additional time between frames of different ends, in microseconds.
    pub turnaround_us: f64,
}

/// Report of a measurement.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Report {
    /// Version of the format.
    pub lasthop_probe: u32,
    /// Address of the other end.
    pub server: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Minimum round-trip time without the transmission times. `None` if delays have no clear minimum;
    /// `behaviour.unknown` of both directions has the reason.
    pub base_rtt_ms: Option<f64>,
    /// Minimum round-trip time of a ping.
    pub least_rtt_ms: f64,
    /// Median round-trip time of the pings; absent in reports of earlier versions.
    #[serde(default)]
    pub median_rtt_ms: Option<f64>,
    /// 95th percentile of the pings' round-trip times.
    pub p95_rtt_ms: f64,
    /// Half of `base_rtt_ms`: unsynchronised clocks cannot separate the two directions.
    pub one_way_delay_ms: Option<f64>,
    /// Half-duplex medium, if both directions were found to share one.
    pub half_duplex: Option<MediumReport>,
    /// Direction to the caller.
    pub down: DirectionReport,
    /// Direction from the caller.
    pub up: DirectionReport,
    /// Remarks that matter for the interpretation.
    pub remarks: Vec<String>,
}
