//! Configuration of a link between two nodes.

use std::sync::Arc;

use lasthop_proto::bucket::BucketSpec;
use lasthop_proto::channel::{DamagedFrames, ErrorSpec};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::link::aggregation::AggregationSpec;
use lasthop_proto::link::cell::{CellSpec, HandoverSpec, Quality};
use lasthop_proto::link::wifi::{TransmitterSpec, WifiSpec};
use lasthop_proto::queue::QueueSpec;
use lasthop_proto::rate::{Rate, RateSpec};
use lasthop_proto::time::Duration;

/// Index into [`Network::nodes`](crate::network::Network::nodes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// Index into [`Network::links`](crate::network::Network::links).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub usize);

/// A link between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// Name in the scenario.
    pub name: String,
    /// The two ends. "Down" is from the first to the second.
    pub ends: [NodeId; 2],
    /// Medium access.
    pub medium: Medium,
    /// Propagation delay.
    pub delay: Duration,
    /// The two directions: down, up.
    pub directions: [DirectionSpec; 2],
}

/// Medium access of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum Medium {
    /// Both ends send at the same time.
    Duplex,
    /// One frame at a time; the two ends alternate while both have frames. Each frame occupies the medium for
    /// `frame_overhead` in addition to its bytes (preamble, interframe space, backoff).
    HalfDuplex {
        /// Added to the transmission time of each frame.
        frame_overhead: Duration,
        /// Time for the radios to change direction, before a frame that does not follow one of its own direction.
        turnaround: Duration,
    },
    /// As [`Medium::HalfDuplex`], on a channel with other links. Among links with a common end, or with a link of the
    /// channel between them, one sends at a time.
    Shared {
        /// Added to the transmission time of each frame.
        frame_overhead: Duration,
        /// Number of the channel.
        channel: u32,
    },
    /// Wi-Fi: the ends contend for a channel with those of other links, and choose rates. [`DirectionSpec::rate`] is
    /// nominal.
    Wifi {
        /// Number of the channel.
        channel: u32,
        /// Parameters.
        wifi: WifiLink,
    },
    /// LTE or NR: the second end is a user of a cell, which it shares with those of other links; the first end is the
    /// base station. [`DirectionSpec::rate`] is nominal.
    Cell {
        /// Number of the cell.
        channel: u32,
        /// Parameters.
        cell: Arc<CellLink>,
    },
}

/// Parameters of a link over Wi-Fi.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WifiLink {
    /// Parameters that all links of a channel have in common.
    pub channel: WifiSpec,
    /// Transmitters: down, up.
    pub transmitters: [TransmitterSpec; 2],
}

/// Parameters of a link over a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CellLink {
    /// Parameters of the cell, the same for all its links.
    pub spec: CellSpec,
    /// Channel of the downlink.
    pub down: Quality,
    /// Channel of the uplink.
    pub up: Quality,
    /// Handovers of the user, if it moves.
    pub handover: Option<HandoverSpec>,
}

impl Medium {
    /// Returns whether the medium chooses the rate of each transmission.
    pub const fn chooses_rates(&self) -> bool {
        matches!(self, Self::Wifi { .. } | Self::Cell { .. })
    }

    /// Returns whether a link with the medium `other` shares this one.
    pub fn is_one_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared { channel, .. }, Self::Shared { channel: other, .. })
            | (Self::Wifi { channel, .. }, Self::Wifi { channel: other, .. })
            | (Self::Cell { channel, .. }, Self::Cell { channel: other, .. }) => channel == other,
            _ => false,
        }
    }
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionSpec {
    /// Transmission rate.
    pub rate: Rate,
    /// Queue in front of the link. The frame in transmission does not count.
    pub queue: QueueSpec,
    /// Error model.
    pub errors: ErrorSpec,
    /// Handling of a frame with errors only in its payload.
    pub damaged: DamagedFrames,
    /// Variation of the delay.
    pub variation: VariationSpec,
    /// Other effects on frames.
    pub impairments: Impairments,
}

/// Impairments of a direction: limits in front of it, a varying rate, aggregates, duplicates.
///
/// They apply to a frame in this order: policer, queue, shaper, transmission (alone or in an aggregate, at the current
/// rate), error model, duplication, delay.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Impairments {
    /// Drops excess frames before the queue.
    pub policer: Option<BucketSpec>,
    /// Delays excess frames in the queue. Duplex links only.
    pub shaper: Option<BucketSpec>,
    /// Variation of the rate; [`DirectionSpec::rate`] then is nominal.
    pub rate: RateSpec,
    /// Aggregation of frames into one access to the medium. Not on a channel that links share.
    pub aggregation: Option<AggregationSpec>,
    /// Probability that a frame that arrives is duplicated, from 0 to 1.
    pub duplicates: f64,
}

impl Impairments {
    /// No impairments.
    pub const NONE: Self =
        Self { policer: None, shaper: None, rate: RateSpec::Constant, aggregation: None, duplicates: 0.0 };

    /// Returns whether frames wait for reasons other than frames before them at a constant rate, or are dropped for
    /// reasons other than a full queue.
    pub const fn pace(&self) -> bool {
        self.policer.is_some() || self.shaper.is_some() || self.rate.varies() || self.aggregation.is_some()
    }

    /// Returns whether these impairments make transmission times vary.
    pub const fn vary(&self) -> bool {
        self.rate.varies() || self.aggregation.is_some()
    }
}
