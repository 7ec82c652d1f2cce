//! When a frame is lost: one error process per direction of a link, fed with every frame in order of transmission.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::packet::FlowId;
use crate::time::Duration;

/// Which frames an error model looks at; the others pass and, where the model counts, do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// Every frame.
    All,
    /// Frames with payload.
    Data,
    /// Frames without.
    Acks,
}

/// An error model and its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum ErrorSpec {
    /// Nothing is lost.
    None,
    /// Errors at exponentially distributed distances in bytes; a frame with an error in it is damaged, in its header or
    /// in its payload as the position says ([a] §IV).
    Exponential {
        /// Mean bytes between errors.
        mean_bytes: f64,
        /// Which frames.
        frames: Frames,
    },
    /// Every frame is lost with the same probability.
    Uniform {
        /// Probability, 0 to 1.
        frame_loss: f64,
        /// Which frames.
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
        /// Probability to turn bad, per frame.
        good_to_bad: f64,
        /// Probability to turn good, per frame.
        bad_to_good: f64,
        /// Frame loss in the good state.
        good_loss: f64,
        /// Frame loss in the bad state.
        bad_loss: f64,
        /// Which frames.
        frames: Frames,
    },
    /// Errors at exponentially distributed distances in bytes, each of which destroys a run of frames ([a] §V).
    Burst {
        /// Mean bytes between bursts.
        mean_bytes: f64,
        /// Frames destroyed by each.
        packets: u32,
        /// Which frames.
        frames: Frames,
    },
    /// Exactly the frames listed.
    List(Arc<Vec<Drop>>),
    /// Frame n is lost when `trace[n]` says so; the trace starts over at its end.
    Replay {
        /// True where a frame is lost.
        trace: Arc<Vec<bool>>,
        /// Which frames.
        frames: Frames,
    },
}

/// A frame to drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    /// The flow; `None` means every flow.
    pub flow: Option<FlowId>,
    /// Which of its frames.
    pub frame: DropFrame,
}

/// One frame of a flow, as seen by this direction of this link. All counts start at 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropFrame {
    /// The `transmission`th time that the `segment`th data segment passes. Segments are numbered in the order in which
    /// they first pass here; a SYN or FIN without payload is none.
    Data {
        /// Number of the segment.
        segment: u32,
        /// Which of its transmissions.
        transmission: u32,
    },
    /// The nth pure acknowledgment (no payload, no SYN, FIN or RST).
    Ack(u32),
}
