//! A link between two nodes, as plain data.

use lasthop_proto::bucket::BucketSpec;
use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::link::aggregation::AggregationSpec;
use lasthop_proto::queue::QueueSpec;
use lasthop_proto::rate::RateSpec;
use lasthop_proto::time::Duration;

/// Index into [`Network::nodes`](crate::network::Network::nodes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// Index into [`Network::links`](crate::network::Network::links).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub usize);

/// Bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(pub u64);

impl Rate {
    /// How long `bytes` take, rounded up to a nanosecond.
    #[inline]
    pub const fn time_for(self, bytes: u32) -> Duration {
        Duration::from_nanos((bytes as u64 * 8_000_000_000).div_ceil(self.0))
    }
}

/// A link between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// Its name in the scenario.
    pub name: String,
    /// The two ends. "Down" is from the first to the second.
    pub ends: [NodeId; 2],
    /// Who may send when.
    pub medium: Medium,
    /// Propagation delay.
    pub delay: Duration,
    /// Per direction: down, up.
    pub directions: [DirectionSpec; 2],
}

/// Who may send when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Both ends at once.
    Duplex,
    /// One frame at a time, the two ends alternating while both have frames; each frame occupies the medium for
    /// `frame_overhead` besides its bytes (preamble, interframe space, backoff).
    HalfDuplex {
        /// Added to the transmission time of each frame.
        frame_overhead: Duration,
        /// How long the radios take to turn from one direction to the other: it goes before a frame that does not follow one of
        /// its own direction.
        turnaround: Duration,
    },
    /// As [`Medium::HalfDuplex`], and on a channel with other links: of those that have an end in common, or a link of the channel
    /// between them, one sends at a time.
    Shared {
        /// Added to the transmission time of each frame.
        frame_overhead: Duration,
        /// Which channel.
        channel: u32,
    },
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionSpec {
    /// Transmission rate.
    pub rate: Rate,
    /// The queue in front of it; the frame in transmission does not count.
    pub queue: QueueSpec,
    /// When a frame is lost.
    pub errors: ErrorSpec,
    /// What becomes of a frame whose payload only was hit.
    pub damaged: DamagedFrames,
    /// How its delay varies.
    pub variation: VariationSpec,
    /// What else happens to frames.
    pub impairments: Impairments,
}

/// What an ideal direction of a link has not: limits in front of it, a rate that varies, aggregates, duplicates.
///
/// A frame meets them in this order: policer, queue, shaper, transmission (alone or in an aggregate, at the rate of the time), error
/// model, duplication, delay.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Impairments {
    /// Drops what exceeds it, before the queue.
    pub policer: Option<BucketSpec>,
    /// Holds back what exceeds it, in the queue. Duplex links only.
    pub shaper: Option<BucketSpec>,
    /// How the rate varies; [`DirectionSpec::rate`] then is nominal.
    pub rate: RateSpec,
    /// Frames that share an access to the medium. Not on a channel that links share.
    pub aggregation: Option<AggregationSpec>,
    /// Probability with which a frame that arrives does so twice, 0 to 1.
    pub duplicates: f64,
}

impl Impairments {
    /// None.
    pub const NONE: Self =
        Self { policer: None, shaper: None, rate: RateSpec::Constant, aggregation: None, duplicates: 0.0 };

    /// Whether frames wait for other reasons than those before them at a constant rate, or are dropped for others than a full queue.
    pub const fn pace(&self) -> bool {
        self.policer.is_some() || self.shaper.is_some() || self.rate.varies() || self.aggregation.is_some()
    }

    /// Whether they make the time that a frame takes vary.
    pub const fn vary(&self) -> bool {
        self.rate.varies() || self.aggregation.is_some()
    }
}

/// What a link does with a frame that arrives corrupted with its header intact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedFrames {
    /// Drops it, as links do.
    Drop,
    /// Hands it on, marked, so that a receiver can tell corruption from congestion.
    Deliver,
}
