//! Aggregation of frames that share an access to the medium: several are sent as one aggregate, each is acknowledged
//! separately, and failed ones are resent with the next aggregate, as in IEEE 802.11n and later (A-MPDU and block
//! acknowledgment).
//!
//! One end of a link, without I/O. Its driver supplies frames and the number of bytes that fit. It returns the frames
//! that the receiver has in order, and those given up. The receiver holds frames behind a hole until that is filled or
//! given up, so losses turn into delay.

use alloc::vec::Vec;

use super::access::Fate;
use super::window::{BlockWindow, Chosen};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Parameters of aggregation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AggregationSpec {
    /// Maximum number of frames in an aggregate.
    pub frames: u32,
    /// Maximum airtime of an aggregate, without access. A frame that takes longer is sent alone.
    pub time: Duration,
    /// Time on the medium that each aggregate takes besides its frames: interframe spaces, preamble, acknowledgment.
    pub access: Duration,
    /// Maximum random backoff before each aggregate, uniform from zero.
    pub backoff: Duration,
    /// Probability that an attempt of a frame fails, 0 to 1.
    pub frame_loss: f64,
    /// Number of attempts after the first before a frame is given up.
    pub retries: u32,
}

/// The sending end, with its knowledge of the other end.
#[derive(Clone, Debug)]
pub struct Aggregator<T> {
    spec: AggregationSpec,
    stream: Stream,
    window: BlockWindow<T>,
}

/// An aggregate that is sent.
#[derive(Clone, Debug)]
pub struct Aggregate<T> {
    /// Total bytes of the frames.
    pub bytes: u32,
    /// Additional time on the medium: access and backoff.
    pub access: Duration,
    /// Number of frames, resent ones included.
    pub frames: u32,
    /// Number of resent frames.
    pub again: u32,
    /// Frames that the receiver passes on when the aggregate is complete, in order.
    pub delivered: Vec<T>,
    /// Frames given up with the aggregate, in order.
    pub given_up: Vec<T>,
}

impl<T: Copy> Aggregator<T> {
    /// Returns an end with nothing to send; backoffs and losses are drawn from `stream`.
    pub fn new(spec: AggregationSpec, stream: Stream) -> Self {
        Self { spec, stream, window: BlockWindow::default() }
    }

    /// Returns the maximum airtime of an aggregate.
    pub const fn time(&self) -> Duration {
        self.spec.time
    }

    /// Returns the number of frames that wait here to be sent, for the first time or again.
    pub fn waiting(&self) -> usize {
        self.window.waiting()
    }

    /// Removes and returns all frames, in any state, in order.
    pub fn drain(&mut self) -> Vec<T> {
        self.window.drain()
    }

    /// Builds the next aggregate: failed frames in order, followed by those from `source`, as long as `fits` accepts
    /// the total number of bytes, but at least one frame. Returns `None` if there is nothing to send.
    pub fn aggregate(
        &mut self,
        source: impl FnMut() -> Option<(T, u32)>,
        fits: impl FnMut(u32) -> bool,
    ) -> Option<Aggregate<T>> {
        let Self { spec, stream, window } = self;
        let Chosen { bytes, frames, again } = window.choose(spec.frames, source, u32::saturating_add, fits)?;
        let backoff = Duration::from_nanos(stream.below(spec.backoff.as_nanos().saturating_add(1)));
        // All frames of an aggregate arrive at its end, which the driver knows.
        let end = Instant::ZERO;
        window.settle(spec.retries, end, |_| (!stream.chance(spec.frame_loss)).then_some(end));
        let (mut delivered, mut given_up) = (Vec::new(), Vec::new());
        while let Some((item, fate, _)) = window.release() {
            match fate {
                Fate::Received => delivered.push(item),
                Fate::GivenUp => given_up.push(item),
            }
        }
        Some(Aggregate { bytes, access: spec.access + backoff, frames, again, delivered, given_up })
    }
}

#[cfg(test)]
#[path = "aggregation_tests.rs"]
mod tests;
