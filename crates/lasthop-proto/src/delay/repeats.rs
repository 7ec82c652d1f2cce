//! A link layer that repeats a frame until it is there: each try that fails costs a round of the link.
//!
//! The link's rate is as it was: what repeats take of it, a link protocol (`arq`) models.

use crate::random::Stream;
use crate::time::Duration;

/// Parameters of a link layer that repeats.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RepeatsSpec {
    /// With which probability a try fails, 0 to 1.
    pub frame_loss: f64,
    /// How long it takes until the next.
    pub round: Duration,
    /// Most repeats of one frame, which is there with the last of them.
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
