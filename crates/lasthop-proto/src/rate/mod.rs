//! Rates that vary in time: one process for each link, independent of its traffic.
//!
//! A model is a file here, and its parameters are a variant of [`RateSpec`]. Most provide the rate at a time, and the end
//! of its validity ([`Segment`]); a frame on the air when the rate changes is sent partly at each rate. [`Opportunities`]
//! send at given instants instead.

mod acm;
mod cellreplay;
mod generated;
mod markov;
mod opportunities;
mod series;
mod slots;
#[cfg(test)]
mod tests;
mod trace;

use alloc::boxed::Box;

use self::generated::Generator;
use crate::random::Stream;
use crate::time::{Duration, Instant};

pub use self::acm::{AcmError, AcmSpec, Fade, acm};
pub use self::cellreplay::{BadLight, CELL_OPPORTUNITY, CellReplay, LightLine, MOST_LIGHT, read_light};
pub use self::markov::{Hold, MOST_STATES, MarkovSpec, RateState};
pub use self::opportunities::{
    BadOpportunities, MOST_OPPORTUNITIES, OPPORTUNITY, OPPORTUNITY_EXTRA, Opportunities, read_opportunities,
};
pub use self::series::{Offset, RateSeries, RateStep, Wrap, ramps};
pub use self::slots::{EdgeLoss, RateSlotsSpec};
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
    /// States with random holding times.
    Markov(MarkovSpec),
    /// A satellite terminal that is assigned anew at regular times.
    Slots(RateSlotsSpec),
    /// Recorded delivery opportunities.
    Opportunities(Opportunities),
    /// Recorded light and heavy opportunities, whose base delay is part of the transmission. Their queue is unlimited.
    CellReplay(CellReplay),
    /// The column of a link's trace.
    Trace(RateSeries),
}

impl RateSpec {
    /// Returns the same model with all rates times `up / down`, for the other direction of a link. Recorded
    /// opportunities and the columns of a trace remain as they are.
    #[must_use]
    pub fn scaled(&self, up: u64, down: u64) -> Self {
        if up == down || down == 0 {
            return self.clone();
        }
        match self {
            Self::Constant => Self::Constant,
            Self::Series(series) => Self::Series(series.scaled(up, down)),
            Self::Markov(spec) => Self::Markov(spec.scaled(up, down)),
            Self::Slots(spec) => Self::Slots(spec.scaled(up, down)),
            Self::Opportunities(_) | Self::CellReplay(_) | Self::Trace(_) => self.clone(),
        }
    }

    /// Returns the mean rate in bits per second; `None` for a constant rate, which the link has.
    pub fn mean(&self) -> Option<f64> {
        Some(match self {
            Self::Constant => return None,
            Self::Series(series) | Self::Trace(series) => series.mean(),
            Self::Markov(spec) => spec.mean(),
            Self::Slots(spec) => spec.mean(),
            Self::Opportunities(trace) => trace.mean(),
            Self::CellReplay(trace) => trace.mean(),
        })
    }

    /// Returns the standard deviation of the rate in time over its mean, 0 for a constant rate; `None` for a model
    /// that this is not known of: recorded opportunities, and a satellite's slots.
    pub fn variation(&self) -> Option<f64> {
        let over = |deviation: f64, mean: f64| if mean > 0.0 { deviation / mean } else { 0.0 };
        match self {
            Self::Constant => Some(0.0),
            Self::Series(series) | Self::Trace(series) => Some(over(series.deviation(), series.mean())),
            Self::Markov(spec) => Some(over(spec.deviation(), spec.mean())),
            Self::Slots(_) | Self::Opportunities(_) | Self::CellReplay(_) => None,
        }
    }

    /// Returns the losses at the boundaries of slots, if there are any.
    pub fn edge_loss(&self, stream: impl FnOnce() -> Stream) -> Option<EdgeLoss> {
        if let Self::Slots(spec) = self { EdgeLoss::new(spec, stream) } else { None }
    }

    /// Returns whether frames are sent at recorded instants rather than at a rate.
    pub const fn is_discrete(&self) -> bool {
        matches!(self, Self::Opportunities(_) | Self::CellReplay(_))
    }

    /// Returns whether it is a column of its link's trace, whose random offset it shares.
    pub const fn is_in_step(&self) -> bool {
        matches!(self, Self::Trace(_))
    }

    /// Returns whether the rate varies.
    pub const fn varies(&self) -> bool {
        !matches!(self, Self::Constant)
    }
}

/// Returns `rate` times `up / down`, rounded down. A positive rate stays positive.
fn scaled_rate(rate: u64, up: u64, down: u64) -> u64 {
    let scaled = u128::from(rate) * u128::from(up) / u128::from(down.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(u64::from(rate > 0))
}

/// A frame's transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// End of the frame; [`Instant::FAR_FUTURE`] for never.
    pub end: Instant,
    /// Time from which the next frame can be sent; before `end` only if frames wait within the link.
    pub free: Instant,
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
    Generated(Box<generated::Process>),
    Opportunities(opportunities::Process),
    CellReplay(Box<cellreplay::Process>),
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
        let generated = |generator| Model::Generated(Box::new(generated::Process::new(generator)));
        let model = match spec {
            RateSpec::Constant => return None,
            RateSpec::Series(series) | RateSpec::Trace(series) => Model::Series(series::Process::new(series, stream)),
            RateSpec::Markov(spec) => generated(Generator::Markov(markov::Markov::new(spec, stream()))),
            RateSpec::Slots(spec) => generated(Generator::Slots(slots::Slots::new(spec, stream()))),
            RateSpec::Opportunities(trace) => Model::Opportunities(opportunities::Process::new(trace, stream)),
            RateSpec::CellReplay(trace) => Model::CellReplay(Box::new(cellreplay::Process::new(trace))),
        };
        Some(Self { model })
    }

    /// Returns the time that `bytes` take at the mean rate, if frames take no time but wait for opportunities.
    pub fn capacity_used(&self, bytes: u32) -> Option<Duration> {
        let mean = match &self.model {
            Model::Opportunities(opportunities) => opportunities.mean(),
            Model::CellReplay(replay) => replay.mean(),
            Model::Series(_) | Model::Generated(_) => return None,
        };
        Some(Duration::from_secs_f64(f64::from(bytes) * 8.0 / mean))
    }

    /// Returns the time from which a frame can be sent that arrives at `now` at a direction without others.
    pub fn opens(&self, now: Instant) -> Instant {
        match &self.model {
            Model::Series(_) | Model::Generated(_) | Model::CellReplay(_) => now,
            Model::Opportunities(opportunities) => opportunities.opens(now),
        }
    }

    /// Sends a frame of `bytes` from `start` on. No frame starts before the last one did.
    pub fn send(&mut self, start: Instant, bytes: u32) -> Transmission {
        match &mut self.model {
            Model::Opportunities(opportunities) => return opportunities.send(start, bytes),
            Model::CellReplay(replay) => return replay.send(start, bytes),
            Model::Series(_) | Model::Generated(_) => {}
        }
        let end = self.finish(start, bytes);
        Transmission { end, free: end }
    }

    /// Returns the time at which a frame of `bytes` is completely sent, if its transmission begins at `start`;
    /// [`Instant::FAR_FUTURE`] for never. For opportunities, the whole of those from `start` on.
    pub fn finish(&mut self, start: Instant, bytes: u32) -> Instant {
        match &mut self.model {
            Model::Opportunities(opportunities) => return opportunities.clone().send(start, bytes).end,
            Model::CellReplay(replay) => return replay.clone().send(start, bytes).end,
            Model::Generated(generated) => generated.forget(start),
            Model::Series(_) => {}
        }
        let (mut at, mut work) = (start, u128::from(bytes) * BYTE);
        loop {
            if let Model::Series(series) = &self.model {
                (at, work) = series.skip(at, work);
            }
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

    /// Returns the rate at `at`. Opportunities have none: zero until the next one.
    pub fn segment(&mut self, at: Instant) -> Segment {
        match &mut self.model {
            Model::Series(series) => series.segment(at),
            Model::Generated(generated) => generated.segment(at),
            Model::Opportunities(opportunities) => Segment { rate: 0, until: opportunities.opens(at) },
            Model::CellReplay(_) => Segment { rate: 0, until: Instant::FAR_FUTURE },
        }
    }
}
