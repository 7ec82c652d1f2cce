//! Independent loss with one probability for every frame of any length (\[b\]'s uniform errors).

use super::Fate;
use super::gap::{Gap, expected_errors};
use crate::random::Stream;

/// Independent frame loss. Draws one random number per loss instead of one per frame: the sum of expected errors up to
/// the next loss is exponential.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    per_frame: f64,
    gap: Gap,
}

impl Uniform {
    pub(super) fn new(frame_loss: f64, stream: Stream) -> Self {
        Self { per_frame: expected_errors(frame_loss), gap: Gap::new(1.0, stream) }
    }

    #[inline]
    pub(super) fn judge(&mut self) -> Fate {
        Fate::lost_if(self.gap.hit(self.per_frame).is_some())
    }
}
