//! Delay of frames in addition to their link's: one process for each direction of a link, applied to every frame in
//! order of transmission.
//!
//! A model is a file here: its parameters are a variant of [`DelaySpec`], its state is one of `Model`.

mod handover;
mod jitter;
mod repeats;
mod replay;
mod slots;
mod spikes;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::handover::HandoverSpec;
pub use self::jitter::Spread;
pub use self::repeats::RepeatsSpec;
pub(crate) use self::replay::scaled;
pub use self::replay::{BadDelays, DelayStep, MOST_STEPS, read_delays};
pub use self::slots::SlotsSpec;
pub use self::spikes::SpikesSpec;
use crate::link_trace::{Cursor, TimeSeries};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A model of varying delay, and its parameters. The delay that it adds to the link's is never negative.
#[derive(Clone, PartialEq, Debug)]
pub enum DelaySpec {
    /// No variation.
    None,
    /// An independent additional delay for each frame.
    Jitter(Spread),
    /// A link layer that retransmits each frame until it arrives.
    Repeats(RepeatsSpec),
    /// Occasional stalls: frames sent during one arrive at its end.
    Spikes(SpikesSpec),
    /// Path changes by a timetable, as of a satellite terminal.
    Handover(HandoverSpec),
    /// A recorded time series: each step is valid from its time until the next one, the last one until the end of the
    /// run.
    Replay(Arc<Vec<DelayStep>>),
    /// The column of a link's trace.
    Trace(TimeSeries<Duration>),
}

impl DelaySpec {
    /// Returns whether it runs in time, whether or not frames are sent. It is then one time series for both directions
    /// of a link.
    pub const fn is_clocked(&self) -> bool {
        matches!(self, Self::Spikes(_) | Self::Handover(_) | Self::Replay(_) | Self::Trace(_))
    }

    /// Returns whether it is a column of its link's trace, whose random offset it shares.
    pub const fn is_in_step(&self) -> bool {
        matches!(self, Self::Trace(_))
    }
}

/// Order of frames with different delays.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Order {
    /// No frame arrives before one that was sent before it: it waits.
    #[default]
    Kept,
    /// Each frame arrives after its own delay.
    Free,
}

/// Variation of the delay in one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct VariationSpec {
    /// The model.
    pub model: DelaySpec,
    /// Order of frames.
    pub order: Order,
    /// Times at which the link delivers, if restricted. The model's delay is added afterwards.
    pub slots: Option<SlotsSpec>,
    /// Constant delay added to the model's: of a direction whose link has a smaller delay in the other one.
    pub more: Duration,
}

impl VariationSpec {
    /// A constant delay.
    pub const NONE: Self = Self::of(DelaySpec::None, Order::Kept);

    /// Returns a delay that varies by a model alone.
    pub const fn of(model: DelaySpec, order: Order) -> Self {
        Self { model, order, slots: None, more: Duration::ZERO }
    }

    /// Returns whether it varies.
    pub const fn varies(&self) -> bool {
        !matches!(self.model, DelaySpec::None) || self.slots.is_some() || self.more.as_nanos() > 0
    }
}

#[derive(Clone, Debug)]
enum Model {
    None,
    Jitter(jitter::Jitter),
    Repeats(repeats::Repeats),
    Spikes(spikes::Spikes),
    Handover(handover::Handover),
    Replay(replay::Replay),
    Trace(Cursor<Duration>),
}

/// The process of one direction.
#[derive(Clone, Debug)]
pub struct Variation {
    model: Model,
    order: Order,
    slots: Option<SlotsSpec>,
    more: Duration,
    /// Arrival of the last frame, without the link's own delay.
    last: Instant,
}

impl Variation {
    /// Returns the process that `spec` describes, at the start of the run; all its randomness comes from `stream`.
    pub fn new(spec: &VariationSpec, stream: Stream) -> Self {
        let model = match &spec.model {
            DelaySpec::None => Model::None,
            DelaySpec::Jitter(spread) => Model::Jitter(jitter::Jitter::new(*spread, stream)),
            DelaySpec::Repeats(spec) => Model::Repeats(repeats::Repeats::new(*spec, stream)),
            DelaySpec::Spikes(spec) => Model::Spikes(spikes::Spikes::new(*spec, stream)),
            DelaySpec::Handover(spec) => Model::Handover(handover::Handover::new(*spec, stream)),
            DelaySpec::Replay(steps) => Model::Replay(replay::Replay::new(Arc::clone(steps))),
            DelaySpec::Trace(series) => Model::Trace(Cursor::new(series, || stream)),
        };
        Self { model, order: spec.order, slots: spec.slots, more: spec.more, last: Instant::ZERO }
    }

    /// Returns whether frames may be late.
    #[inline]
    pub fn varies(&self) -> bool {
        !matches!(self.model, Model::None) || self.slots.is_some() || self.more.as_nanos() > 0
    }

    /// Returns the additional delay of the frame that was on the air until `sent`; `None` if it is in time and behind
    /// no other frame. Zero means that it arrives at the same instant as a late frame before it. Frames are passed in
    /// order of transmission.
    pub fn of(&mut self, sent: Instant) -> Option<Duration> {
        let delivered = self.slots.map_or(sent, |slots| slots.next(sent));
        let more = match &mut self.model {
            Model::None if self.slots.is_none() && self.more.as_nanos() == 0 => return None,
            Model::None => Duration::ZERO,
            Model::Jitter(model) => model.next(),
            Model::Repeats(model) => model.next(),
            Model::Spikes(model) => model.at(delivered),
            Model::Handover(model) => model.at(delivered),
            Model::Replay(model) => model.at(delivered),
            Model::Trace(model) => model.at(delivered).unwrap_or_default(),
        };
        let own = delivered + self.more + more;
        if self.order == Order::Free {
            return (own > sent).then(|| own.since(sent));
        }
        let arrives = own.max(self.last);
        let behind = self.last >= sent && self.last > Instant::ZERO;
        self.last = arrives;
        (behind || arrives > sent).then(|| arrives.since(sent))
    }
}
