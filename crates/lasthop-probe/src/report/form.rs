//! The report's form: what `probe.json` holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::behaviour::BehaviourReport;

/// A number with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its 95 % interval, where there is one.
    pub interval: Option<[f64; 2]>,
}

/// Delays beyond the least, in milliseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct DelayReport {
    /// Without load: half of the packets took no longer.
    pub median_ms: f64,
    /// 95 % of them.
    pub p95_ms: f64,
    /// 99 % of them.
    pub p99_ms: f64,
    /// While the queue was filled: 95 % of the packets took no longer.
    pub loaded_p95_ms: Option<f64>,
    /// The longest while it was filled.
    pub loaded_most_ms: Option<f64>,
}

/// A load that lasted: packets sent about as fast as the path takes them.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct LoadReport {
    /// Bytes sent, IP headers included.
    pub bytes: u64,
    /// Time from the first packet's arrival to the last one's.
    pub seconds: f64,
    /// Bits per second that arrived.
    pub rate_bps: f64,
}

/// What bounds a queue.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Packets of any size.
    Packets,
    /// Bytes.
    Bytes,
    /// Not found out.
    Unknown,
}

/// What was found of a queue.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct QueueReport {
    /// Packets that wait.
    pub packets: u32,
    /// Bytes of these packets, IP headers included.
    pub bytes: u64,
    /// What they come to at the link's rate.
    pub milliseconds: f64,
    /// Bytes of each: of a full packet where packets are what bounds it, else of those that filled it.
    pub packet_bytes: u16,
    /// Whether it was filled; otherwise it holds this or more.
    pub filled: bool,
    /// What bounds it.
    pub bound: Bound,
}

/// Losses of some packets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct LossReport {
    /// Packets.
    pub packets: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Lost over sent, 0 to 1; `None` where losses are not the path's own: `behaviour.unknown` has the reason.
    pub share: Option<Estimate>,
}

/// Runs of lost packets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct RunReport {
    /// How many.
    pub runs: u64,
    /// Mean length in packets; 0 without any.
    pub mean: Estimate,
    /// The longest.
    pub longest: u32,
    /// How many there were of each length.
    pub lengths: BTreeMap<u32, u64>,
}

/// Packets of one size, or of one code point.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ClassReport {
    /// Bytes with the IP header, or the code point.
    pub class: u16,
    /// With which code point they arrived, in most cases.
    pub arrives_as: Option<u8>,
    /// What was lost.
    pub loss: LossReport,
    /// The median delay beyond the least of all, in milliseconds.
    pub median_ms: Option<f64>,
}

/// One direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionReport {
    /// Rate that a long transfer gets while nobody else sends, in bits per second, IP headers included; its mean where it varies. `None`: unknown, and
    /// `behaviour.unknown` has the reason.
    pub rate_bps: Option<Estimate>,
    /// Whether the rate may be greater: trains came as fast as they were sent.
    pub rate_is_lower_bound: bool,
    /// Delays.
    pub delay: DelayReport,
    /// Longest load under which the rate was observed; reports of earlier versions have none.
    #[serde(default)]
    pub longest_load: Option<LoadReport>,
    /// The queue; `None` where it was not sought or is unknown.
    pub queue: Option<QueueReport>,
    /// Losses below the rate.
    pub loss: LossReport,
    /// Losses while the queue was filled.
    pub loss_loaded: LossReport,
    /// Runs of losses below the rate.
    pub runs: RunReport,
    /// Packets that came behind one sent later, of those that arrived.
    pub reordered: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Behaviour beside rate, delay, queue and losses, and the quantities that are unknown; empty in reports of earlier versions.
    #[serde(default)]
    pub behaviour: BehaviourReport,
    /// By size, below the rate.
    pub sizes: Vec<ClassReport>,
    /// By code point (DSCP), below the rate.
    pub code_points: Vec<ClassReport>,
    /// The largest packet that arrived unfragmented, in bytes with the IP header.
    pub path_mtu: Option<u16>,
    /// The next larger size that was tried, and did not arrive.
    pub too_big: Option<u16>,
    /// Bytes sent in all, IP headers included.
    pub sent_bytes: u64,
    /// Of the capacity, what was used behind the first two seconds; `None` where the rate is unknown.
    pub used_share: Option<f64>,
    /// Datagrams that the receiver's own kernel dropped: they look lost.
    pub receiver_dropped: u32,
    /// The receiver's clock ran so much faster, in millionths.
    pub clock_drift_ppm: f64,
    /// The file with losses packet by packet, as `lasthop fit` reads it.
    pub trace: String,
}

/// A medium on which both ways take turns.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct MediumReport {
    /// Bits a second while a frame is on the air: down, up.
    pub rate_bps: [f64; 2],
    /// How long each frame takes beside its bytes, in microseconds; not found where there is none, and then part of the rates.
    pub frame_overhead_us: Option<f64>,
    /// How long it takes from a frame of one end to one of the other, beside that, in microseconds.
    pub turnaround_us: f64,
}

/// All of it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Report {
    /// The form's version.
    pub lasthop_probe: u32,
    /// The other end.
    pub server: String,
    /// How long it took.
    pub seconds: f64,
    /// The least round trip, less the time on the air both ways; `None` where delays have no least value: `behaviour.unknown` of both directions has the reason.
    pub base_rtt_ms: Option<f64>,
    /// The least round trip of a ping.
    pub least_rtt_ms: f64,
    /// Median round trip of the pings; reports of earlier versions have none.
    #[serde(default)]
    pub median_rtt_ms: Option<f64>,
    /// 95 % of the pings took no longer.
    pub p95_rtt_ms: f64,
    /// Half of `base_rtt_ms`: clocks that differ cannot tell the two ways apart.
    pub one_way_delay_ms: Option<f64>,
    /// Both ways were seen to take turns on one medium; where there is none, they were not.
    pub half_duplex: Option<MediumReport>,
    /// To the caller.
    pub down: DirectionReport,
    /// From the caller.
    pub up: DirectionReport,
    /// What to mind.
    pub remarks: Vec<String>,
}
