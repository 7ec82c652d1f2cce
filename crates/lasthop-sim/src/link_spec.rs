//! A link between two nodes, as plain data.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::queue::QueueSpec;
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
}

/// What a link does with a frame that arrives corrupted with its header intact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedFrames {
    /// Drops it, as links do.
    Drop,
    /// Hands it on, marked, so that a receiver can tell corruption from congestion.
    Deliver,
}
