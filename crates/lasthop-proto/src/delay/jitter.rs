//! A delay of each frame's own, uniform: what a busy shared medium or a scheduler adds.

use crate::random::Stream;
use crate::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Jitter {
    most: Duration,
    stream: Stream,
}

impl Jitter {
    pub(super) fn new(most: Duration, stream: Stream) -> Self {
        Self { most, stream }
    }

    pub(super) fn next(&mut self) -> Duration {
        Duration::from_nanos(self.stream.below(self.most.as_nanos().saturating_add(1)))
    }
}
