//! The most frames that a run may hold, and a run that would hold more.

use std::fmt;

use lasthop_proto::time::Instant;

/// Most frames that a run may hold in queues and in flight: 10 Gbps of full Ethernet frames over 1.2 s. A run that holds so many takes
/// some 300 MB.
pub const MOST_FRAMES: usize = 1 << 20;

/// A run that was given up because it would have held more than [`MOST_FRAMES`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// The name of the link that most of them were on.
    pub link: String,
    /// When that was.
    pub at: Instant,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link, at } = self;
        write!(
            f,
            "links.{link}.queue: after {:.6} s of simulated time, more than {MOST_FRAMES} frames wait or are in flight, most of them on \
             this link; give it a smaller queue or delay, or less traffic",
            at.as_secs_f64()
        )
    }
}

impl std::error::Error for Overflow {}
