//! Rates that vary in time: one process for each link, independent of its traffic.
//!
//! A model is a file here: its parameters are a variant of [`RateSpec`], and it provides the rate at a time, and the
//! end of its validity ([`Segment`]). A frame on the air when the rate changes is sent partly at each rate.

mod series;
#[cfg(test)]
mod tests;
mod trace;

use crate::random::Stream;
use crate::time::{Duration, Instant};

pub use self::series::{Offset, RateSeries, RateStep, Wrap, ramps};
pub use self::trace::{BadRates, MOST_STEPS, RateTrace, read_rates};

/// Rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(pub u64);

impl Rate {
    /// Returns the transmission time of `bytes`, rounded up to a nanosecond.
    #[inline]
    pub const fn time_for(self, bytes: u32) -> Duration {
        Duration::from_nanos((bytes as u64 * 8_000_000_000).div_ceil(self.0))
    }
}

/// A model of a varying rate, and its parameters.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum RateSpec {
    /// A constant rate.
    #[default]
    Constant,
    /// Steps in time, specified, measured or made from ramps.
    Series(RateSeries),
}

impl RateSpec {
    /// Returns whether the rate varies.
    pub const fn varies(&self) -> bool {
        !matches!(self, Self::Constant)
    }
}

/// A rate, and the end of its validity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Bits per second; nothing is sent at zero.
    pub rate: u64,
    /// Start of the next segment.
    pub until: Instant,
}

#[derive(Clone, Debug)]
enum Model {
    Series(series::Process),
}

/// The process of one direction of a link.
#[derive(Clone, Debug)]
pub struct RateProcess {
    model: Model,
}

/// Work of a byte: its bits, times the nanoseconds of a second, so that a nanosecond of a rate in bits per second is a
/// whole number.
const BYTE: u128 = 8_000_000_000;

impl RateProcess {
    /// Returns the process that `spec` describes, from the start of the run; `None` for a constant rate. All its
    /// randomness comes from `stream`.
    pub fn new(spec: &RateSpec, stream: impl FnOnce() -> Stream) -> Option<Self> {
        let model = match spec {
            RateSpec::Constant => return None,
            RateSpec::Series(series) => Model::Series(series::Process::new(series, stream)),
        };
        Some(Self { model })
    }

    /// Returns when a frame of `bytes` is completely sent, if its transmission begins at `start`;
    /// [`Instant::FAR_FUTURE`] for never.
    pub fn finish(&mut self, start: Instant, bytes: u32) -> Instant {
        let (mut at, mut work) = (start, u128::from(bytes) * BYTE);
        loop {
            (at, work) = match &self.model {
                Model::Series(series) => series.skip(at, work),
            };
            let Segment { rate, until } = self.segment(at);
            let room = u128::from(rate) * u128::from(until.since(at).as_nanos());
            if work <= room {
                // With a rate of zero the work done is zero, and takes no time.
                let nanos = work.div_ceil(u128::from(rate.max(1)));
                return at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            }
            if until == Instant::FAR_FUTURE {
                return until;
            }
            work -= room;
            at = until;
        }
    }

    /// Returns the rate at `at`.
    pub fn segment(&self, at: Instant) -> Segment {
        match &self.model {
            Model::Series(series) => series.segment(at),
        }
    }
}
