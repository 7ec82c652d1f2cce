//! Link layer that retransmits a frame until it arrives: each failed attempt costs a round of the link.
//!
//! The link's rate is unchanged; the capacity that retransmissions take is modelled by a link protocol (`arq`).

use crate::random::Stream;
use crate::time::Duration;

/// Parameters of a retransmitting link layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RepeatsSpec {
    /// Probability that an attempt fails, 0 to 1.
    pub frame_loss: f64,
    /// Time until the next attempt.
    pub round: Duration,
    /// Maximum number of retransmissions of a frame, which arrives with the last of them.
    pub most: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Repeats {
    spec: RepeatsSpec,
    stream: Stream,
}

impl Repeats {
    pub(super) fn new(spec: RepeatsSpec, stream: Stream) -> Self {
        Self { spec, stream }
    }

    pub(super) fn next(&mut self) -> Duration {
        let mut repeats = 0;
        while repeats < self.spec.most && self.stream.chance(self.spec.frame_loss) {
            repeats += 1;
        }
        self.spec.round.saturating_mul(u64::from(repeats))
    }
}
