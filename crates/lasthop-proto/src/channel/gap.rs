//! Exponentially distributed distances, used by every model that places errors along the transmitted data.

use crate::random::Stream;

/// Returns `-ln(1 - p)`: the expected number of errors in a unit that is hit with probability `p`, for a [`Gap`] of
/// mean 1. Limited to finite values, so that zero length still adds nothing when everything is hit.
pub(super) fn expected_errors(p: f64) -> f64 {
    (-libm::log1p(-p)).clamp(0.0, f64::MAX)
}

/// Distance to the next error, carried from frame to frame. The unit is the caller's: bytes, or expected errors.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    mean: f64,
    left: f64,
    stream: Stream,
}

impl Gap {
    /// Returns a process with errors `mean` apart on average. Every value is safe: at 0 or below everything is hit, at
    /// infinity nothing.
    pub(super) fn new(mean: f64, mut stream: Stream) -> Self {
        let left = stream.exponential(mean);
        Self { mean, left, stream }
    }

    /// Advances by `length` and returns the position of the first error in it, if there is one; stops there.
    ///
    /// The part that the caller skips after a hit may contain more errors. That needs no loop: the distance is
    /// memoryless, so from any later point to the next error it is distributed as at first, and one new draw suffices.
    #[inline]
    pub(super) fn hit(&mut self, length: f64) -> Option<f64> {
        if self.left < length {
            Some(self.draw())
        } else {
            self.left -= length;
            None
        }
    }

    /// Draws the distance to the error after this one; returns the remaining distance to this one.
    #[inline(never)]
    fn draw(&mut self) -> f64 {
        core::mem::replace(&mut self.left, self.stream.exponential(self.mean))
    }
}
