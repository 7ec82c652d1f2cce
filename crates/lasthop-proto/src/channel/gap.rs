//! Exponentially distributed distances, the clock of every model that places errors along what is sent.

use crate::random::Stream;

/// `-ln(1 - p)`: the expected errors in something that is hit with probability `p`, for a [`Gap`] of mean 1. Kept finite so
/// that nothing at all still adds nothing when everything is hit.
pub(super) fn expected_errors(p: f64) -> f64 {
    (-libm::log1p(-p)).clamp(0.0, f64::MAX)
}

/// The distance to the next error, carried from frame to frame. The unit is the caller's: bytes, or expected errors.
#[derive(Clone, Debug)]
pub(super) struct Gap {
    mean: f64,
    left: f64,
    stream: Stream,
}

impl Gap {
    /// Errors `mean` apart on average. Every value is safe: at 0 or below everything is hit, at infinity nothing.
    pub(super) fn new(mean: f64, mut stream: Stream) -> Self {
        let left = stream.exponential(mean);
        Self { mean, left, stream }
    }

    /// Moves on by `length` and returns where in it the first error lies, if there is one; stops there.
    ///
    /// Whatever the caller skips after a hit may hold more errors. That needs no loop: the distance has no memory, so
    /// from any later point to the next error it is distributed as at first, and one fresh draw serves.
    #[inline]
    pub(super) fn hit(&mut self, length: f64) -> Option<f64> {
        if self.left < length {
            Some(self.draw())
        } else {
            self.left -= length;
            None
        }
    }

    /// Draws the distance to the error after this one; returns what was left to this one.
    #[inline(never)]
    fn draw(&mut self) -> f64 {
        core::mem::replace(&mut self.left, self.stream.exponential(self.mean))
    }
}
