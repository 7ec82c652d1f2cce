//! By how much later than with its link's delay alone a frame arrives: one process for each direction of a link, asked for every
//! frame in order of transmission.
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
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A model of how a delay varies, and its parameters. What it adds to the link's delay is never negative.
#[derive(Clone, PartialEq, Debug)]
pub enum DelaySpec {
    /// It does not.
    None,
    /// Each frame takes longer by a time of its own.
    Jitter(Spread),
    /// A link layer repeats each frame until it is there.
    Repeats(RepeatsSpec),
    /// Now and then nothing arrives for a while, and what was sent in that time arrives at its end.
    Spikes(SpikesSpec),
    /// The path changes by a timetable, as a satellite terminal's does.
    Handover(HandoverSpec),
    /// A recorded course: each step holds from its time on, the last one to the end of the run.
    Replay(Arc<Vec<DelayStep>>),
}

impl DelaySpec {
    /// Whether it runs in time, whether or not frames are sent: then it is one course for both directions of a link.
    pub const fn is_clocked(&self) -> bool {
        matches!(self, Self::Spikes(_) | Self::Handover(_) | Self::Replay(_))
    }
}

/// What becomes of the order of frames whose delays differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Order {
    /// No frame arrives before one that was sent ahead of it: it waits.
    #[default]
    Kept,
    /// Each arrives when its own delay is over.
    Free,
}

/// How the delay of one direction of a link varies.
#[derive(Clone, PartialEq, Debug)]
pub struct VariationSpec {
    /// The model.
    pub model: DelaySpec,
    /// What becomes of the order of frames.
    pub order: Order,
    /// When the link delivers, if not at any time. What the model adds comes after that.
    pub slots: Option<SlotsSpec>,
}

impl VariationSpec {
    /// A delay that does not vary.
    pub const NONE: Self = Self::of(DelaySpec::None, Order::Kept);

    /// A delay that varies by a model alone.
    pub const fn of(model: DelaySpec, order: Order) -> Self {
        Self { model, order, slots: None }
    }

    /// Whether it does.
    pub const fn varies(&self) -> bool {
        !matches!(self.model, DelaySpec::None) || self.slots.is_some()
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
}

/// The process of one direction.
#[derive(Clone, Debug)]
pub struct Variation {
    model: Model,
    order: Order,
    slots: Option<SlotsSpec>,
    /// When the last frame arrived, or will, but for the link's own delay.
    last: Instant,
}

impl Variation {
    /// The process that `spec` describes, at the start of the run; all its randomness comes from `stream`.
    pub fn new(spec: &VariationSpec, stream: Stream) -> Self {
        let model = match &spec.model {
            DelaySpec::None => Model::None,
            DelaySpec::Jitter(spread) => Model::Jitter(jitter::Jitter::new(*spread, stream)),
            DelaySpec::Repeats(spec) => Model::Repeats(repeats::Repeats::new(*spec, stream)),
            DelaySpec::Spikes(spec) => Model::Spikes(spikes::Spikes::new(*spec, stream)),
            DelaySpec::Handover(spec) => Model::Handover(handover::Handover::new(*spec, stream)),
            DelaySpec::Replay(steps) => Model::Replay(replay::Replay::new(Arc::clone(steps))),
        };
        Self { model, order: spec.order, slots: spec.slots, last: Instant::ZERO }
    }

    /// Whether frames may come late.
    #[inline]
    pub fn varies(&self) -> bool {
        !matches!(self.model, Model::None) || self.slots.is_some()
    }

    /// By how much later the frame arrives that was on the air until `sent`; `None` when it is in time and behind no other. Nothing
    /// at all means that it arrives at the same instant as one before it that is late. Frames are given in order of transmission.
    pub fn of(&mut self, sent: Instant) -> Option<Duration> {
        let delivered = self.slots.map_or(sent, |slots| slots.next(sent));
        let more = match &mut self.model {
            Model::None if self.slots.is_none() => return None,
            Model::None => Duration::ZERO,
            Model::Jitter(model) => model.next(),
            Model::Repeats(model) => model.next(),
            Model::Spikes(model) => model.at(delivered),
            Model::Handover(model) => model.at(delivered),
            Model::Replay(model) => model.at(delivered),
        };
        let own = delivered + more;
        if self.order == Order::Free {
            return (own > sent).then(|| own.since(sent));
        }
        let arrives = own.max(self.last);
        let behind = self.last >= sent && self.last > Instant::ZERO;
        self.last = arrives;
        (behind || arrives > sent).then(|| arrives.since(sent))
    }
}
