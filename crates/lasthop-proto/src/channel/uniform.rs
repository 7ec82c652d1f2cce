//! Independent loss with one probability for every frame, whatever its length (\[b\]'s uniform errors).

use super::Fate;
use crate::random::Stream;

/// Independent frame loss.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    frame_loss: f64,
    stream: Stream,
}

impl Uniform {
    pub(super) fn new(frame_loss: f64, stream: Stream) -> Self {
        Self { frame_loss, stream }
    }

    #[inline]
    pub(super) fn judge(&mut self) -> Fate {
        Fate::lost_if(self.stream.chance(self.frame_loss))
    }
}
