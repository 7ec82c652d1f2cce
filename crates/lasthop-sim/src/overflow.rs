//! Maximum number of frames in a run, and the error for exceeding it.

use std::fmt;

use lasthop_proto::time::Instant;

/// Maximum number of frames in queues and in flight in a run: 10 Gbps of full Ethernet frames for 1.2 s. A run with so
/// many uses about 300 MB.
pub const MOST_FRAMES: usize = 1 << 20;

/// A run that was abandoned because it exceeded [`MOST_FRAMES`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// Name of the link with the most frames.
    pub link: String,
    /// Time of the overflow.
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
