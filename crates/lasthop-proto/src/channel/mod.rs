//! Loss of frames: one error process per direction of a link, applied to every frame in order of transmission.

mod burst;
mod exponential;
mod gap;
mod list;
#[cfg(test)]
mod list_tests;
mod position;
mod replay;
mod script;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod tests;
mod timed;
mod two_state;
mod uniform;
mod whole;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::replay::{BadList, MOST_FRAMES, read_list};
pub use self::script::{Act, Behind, ScriptFrame, ScriptLine};
use crate::link_trace::TimeSeries;
use crate::packet::{FlowId, Packet};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Handling of a frame that arrives corrupted with its header intact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedFrames {
    /// Drops it, as links do.
    Drop,
    /// Delivers it, marked as damaged, so that a receiver can distinguish corruption from congestion.
    Deliver,
}

/// Frames that an error model includes; the others pass and, if the model counts frames, do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// Every frame.
    All,
    /// Frames with payload.
    Data,
    /// Frames without payload.
    Acks,
}

impl Frames {
    #[inline]
    const fn include<P>(self, packet: &Packet<P>) -> bool {
        match self {
            Self::All => true,
            Self::Data => packet.has_data(),
            Self::Acks => !packet.has_data(),
        }
    }
}

/// Unit for which an error model decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossUnit {
    /// Each packet.
    Packet,
    /// All packets of a super-segment together ([`ErrorSpec::Whole`]).
    SuperSegment,
}

/// An error model and its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum ErrorSpec {
    /// No losses.
    None,
    /// Errors at exponentially distributed distances in bytes; a frame with an error is damaged, in its header or in
    /// its payload depending on the position (\[a\] §IV).
    Exponential {
        /// Mean number of bytes between errors.
        mean_bytes: f64,
        /// Included frames.
        frames: Frames,
    },
    /// Every frame is lost with the same probability.
    Uniform {
        /// Probability, 0 to 1.
        frame_loss: f64,
        /// Included frames.
        frames: Frames,
    },
    /// Good and bad states with exponentially distributed durations; bits are hit independently within a state. The
    /// process runs in time whether or not frames are sent, and begins in the good state.
    TwoStateTime {
        /// Mean duration of the good state.
        good: Duration,
        /// Mean duration of the bad state.
        bad: Duration,
        /// Bit error rate in the good state.
        good_ber: f64,
        /// Bit error rate in the bad state.
        bad_ber: f64,
    },
    /// Gilbert-Elliott: the state may change with every frame.
    TwoStatePacket {
        /// Probability of a change to the bad state, per frame.
        good_to_bad: f64,
        /// Probability of a change to the good state, per frame.
        bad_to_good: f64,
        /// Frame loss in the good state.
        good_loss: f64,
        /// Frame loss in the bad state.
        bad_loss: f64,
        /// Included frames.
        frames: Frames,
    },
    /// Errors at exponentially distributed distances in bytes, each of which destroys a run of frames (\[a\] §V).
    Burst {
        /// Mean number of bytes between bursts.
        mean_bytes: f64,
        /// Number of frames destroyed by each.
        packets: u32,
        /// Included frames.
        frames: Frames,
    },
    /// Loss of exactly the listed frames.
    List(Arc<Vec<Drop>>),
    /// Exactly the frames of the script are lost, late or marked.
    Script(Arc<Vec<ScriptLine>>),
    /// Frame n is lost if `trace[n]` is true; the trace restarts at its end.
    Replay {
        /// True for each lost frame.
        trace: Arc<Vec<bool>>,
        /// Included frames.
        frames: Frames,
    },
    /// Every frame is lost with the probability at the end of its transmission: the column of a link's trace.
    Trace(TimeSeries<f64>),
    /// The model decides once for all packets of a super-segment ([`Packet::super_segment`]).
    Whole(Box<Self>),
}

impl ErrorSpec {
    /// Returns the same model with a fixed offset in its link's trace, if it has one: a random one is drawn from `stream`.
    #[must_use]
    pub fn placed(&self, stream: impl FnOnce() -> Stream) -> Self {
        match self {
            Self::Trace(series) => Self::Trace(series.placed(stream)),
            Self::Whole(model) => Self::Whole(Box::new(model.placed(stream))),
            other => other.clone(),
        }
    }

    /// Returns the frames that it includes.
    pub fn frames(&self) -> Frames {
        match *self {
            Self::Whole(ref model) => model.frames(),
            Self::Exponential { frames, .. }
            | Self::Uniform { frames, .. }
            | Self::TwoStatePacket { frames, .. }
            | Self::Burst { frames, .. }
            | Self::Replay { frames, .. } => frames,
            Self::None | Self::TwoStateTime { .. } | Self::List(_) | Self::Script(_) | Self::Trace(_) => Frames::All,
        }
    }
}

/// A frame to drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    /// Flow; `None` means every flow.
    pub flow: Option<FlowId>,
    /// Frame of the flow.
    pub frame: DropFrame,
}

/// One frame of a flow, as seen by this direction of this link. All counts start at 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropFrame {
    /// The `transmission`th time that the `segment`th data segment passes. Segments are numbered in the order in which
    /// they first pass here; a SYN or FIN without payload does not count.
    Data {
        /// Number of the segment.
        segment: u32,
        /// Number of the transmission.
        transmission: u32,
    },
    /// The nth pure acknowledgment (no payload, no SYN, FIN or RST).
    Ack(u32),
    /// The nth SYN, its answer included (no payload).
    Syn(u32),
}

/// Fate of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Arrives as sent.
    Delivered,
    /// Its payload is damaged, its header is not: useful to a receiver that distinguishes corruption from congestion,
    /// lost to others.
    Damaged,
    /// Lost.
    Lost,
    /// Arrives with this additional delay.
    Late(Duration),
    /// Arrives in time, marked "congestion experienced" if it is ECN-capable.
    Marked,
}

impl Fate {
    const fn lost_if(lost: bool) -> Self {
        if lost { Self::Lost } else { Self::Delivered }
    }

    /// Returns the fate of a frame whose first error is at `position`; its first `header` of the same unit are header.
    fn hit_at(position: f64, header: f64) -> Self {
        if position < header { Self::Lost } else { Self::Damaged }
    }
}

/// Error process of one direction of a link.
///
/// Models that place errors along the frame's bits ([`ErrorSpec::Exponential`], [`ErrorSpec::TwoStateTime`])
/// distinguish [`Fate::Damaged`] from [`Fate::Lost`]; the others treat whole frames only and return [`Fate::Lost`].
/// Only [`ErrorSpec::Script`] returns [`Fate::Late`] and [`Fate::Marked`]. Parameters out of range are harmless
/// (nothing or everything is lost): the scenario reader rejects them.
#[derive(Clone, Debug)]
pub struct Channel {
    frames: Frames,
    model: Model,
}

#[derive(Clone, Debug)]
enum Model {
    None,
    Exponential(exponential::Exponential),
    Uniform(uniform::Uniform),
    // Boxed: its two random streams would double the size of every channel.
    TwoStateTime(Box<two_state::TimeClocked>),
    TwoStatePacket(two_state::PacketClocked),
    Burst(burst::Burst),
    List(list::List),
    Script(script::Script),
    Replay(replay::Replay),
    Timed(Box<timed::Timed>),
    Whole(Box<whole::Whole>),
}

impl Channel {
    /// Returns the process that `spec` describes, at the start of the run; all its randomness comes from `stream`.
    pub fn new(spec: &ErrorSpec, stream: Stream) -> Self {
        let model = match *spec {
            ErrorSpec::None => Model::None,
            ErrorSpec::Exponential { mean_bytes, .. } => {
                Model::Exponential(exponential::Exponential::new(mean_bytes, stream))
            }
            ErrorSpec::Uniform { frame_loss, .. } => Model::Uniform(uniform::Uniform::new(frame_loss, stream)),
            ErrorSpec::TwoStateTime { good, bad, good_ber, bad_ber } => {
                let channel = two_state::TimeClocked::new(good, bad, good_ber, bad_ber, stream);
                Model::TwoStateTime(Box::new(channel))
            }
            ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, .. } => {
                let channel = two_state::PacketClocked::new(good_to_bad, bad_to_good, good_loss, bad_loss, stream);
                Model::TwoStatePacket(channel)
            }
            ErrorSpec::Burst { mean_bytes, packets, .. } => {
                Model::Burst(burst::Burst::new(mean_bytes, packets, stream))
            }
            ErrorSpec::List(ref drops) => Model::List(list::List::new(drops)),
            ErrorSpec::Script(ref lines) => Model::Script(script::Script::new(lines)),
            ErrorSpec::Replay { ref trace, .. } => Model::Replay(replay::Replay::new(trace.clone())),
            ErrorSpec::Trace(ref series) => Model::Timed(Box::new(timed::Timed::new(series, stream))),
            ErrorSpec::Whole(ref model) => Model::Whole(Box::new(whole::Whole::new(Self::new(model, stream)))),
        };
        Self { frames: spec.frames(), model }
    }

    /// Returns whether every frame arrives as sent.
    #[inline]
    pub fn is_clean(&self) -> bool {
        match &self.model {
            Model::None => true,
            Model::Whole(whole) => whole.channel().is_clean(),
            _ => false,
        }
    }

    /// Returns whether it may return [`Fate::Late`].
    pub fn delays(&self) -> bool {
        match &self.model {
            Model::Script(_) => true,
            Model::Whole(whole) => whole.channel().delays(),
            _ => false,
        }
    }

    /// Returns the fate of a frame that is on the air from `start` to `end`. Frames are passed in order of
    /// transmission; each is judged once, and retransmissions are separate frames.
    #[inline]
    pub fn judge<P>(&mut self, packet: &Packet<P>, start: Instant, end: Instant) -> Fate {
        if !self.frames.include(packet) {
            return Fate::Delivered;
        }
        // The most frequent model is handled separately: the others' code would slow its callers down.
        if let Model::Uniform(model) = &mut self.model {
            model.judge()
        } else {
            self.judge_otherwise(packet, start, end)
        }
    }

    #[inline(never)]
    fn judge_otherwise<P>(&mut self, packet: &Packet<P>, start: Instant, end: Instant) -> Fate {
        match &mut self.model {
            Model::None => Fate::Delivered,
            Model::Exponential(model) => model.judge(packet),
            Model::Uniform(model) => model.judge(),
            Model::TwoStateTime(model) => model.judge(packet, start, end),
            Model::TwoStatePacket(model) => model.judge(),
            Model::Burst(model) => model.judge(packet.wire_len()),
            Model::List(model) => model.judge(packet),
            Model::Script(model) => model.judge(packet, end),
            Model::Replay(model) => model.judge(),
            Model::Timed(model) => model.judge(end),
            Model::Whole(model) => model.judge(packet, start, end),
        }
    }
}
