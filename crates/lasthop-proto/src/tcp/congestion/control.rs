//! Interface of modern congestion controls: their inputs and outputs.
//!
//! Loss detection reports deliveries and losses. The congestion control decides how far to reduce and how fast to grow.
//! Window reduction ([`Episode::Reduce`] to [`Episode::Ended`]) determines how the window gets there. Windows are
//! counted in segments, rates in bytes per second, all in integers, so that results are the same on every machine.

use alloc::boxed::Box;
use core::fmt;

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// State of the sender, with Linux's names and in Linux's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum CaState {
    /// Nothing dubious.
    #[default]
    Open,
    /// Selective or duplicate acknowledgments have arrived; nothing is declared lost.
    Disorder,
    /// The window is being reduced without a loss to repair: an ECN echo, or a loss that a tail-loss probe repaired.
    Cwr,
    /// Lost segments are being repaired.
    Recovery,
    /// The retransmission timer expired.
    Loss,
}

/// A sample of the delivery rate (draft-ietf-ccwg-bbr, "Delivery Rate Samples").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Segments delivered between the transmission of the latest delivered segment and now.
    pub delivered: u32,
    /// Interval of the sample: the longer of the intervals of sending and of acknowledging.
    pub interval: Duration,
    /// Segments of the connection delivered when the latest delivered segment was sent.
    pub prior_delivered: u64,
    /// Segments in flight when the latest delivered segment was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments declared lost since the latest delivered segment was sent.
    pub lost: u32,
    /// True if the application left the window unused when the latest delivered segment was sent.
    pub is_app_limited: bool,
    /// True if this acknowledgment may have been delayed: it covers a single segment less than the path holds.
    pub is_ack_delayed: bool,
}

/// Information from one acknowledgment, after scoreboard and loss detection have processed it. Counts are segments.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Time of the acknowledgment's arrival.
    pub now: Instant,
    /// State after the acknowledgment.
    pub state: CaState,
    /// Segments that the acknowledgment newly acknowledged or selectively acknowledged.
    pub delivered: u32,
    /// Segments of `delivered` that the cumulative acknowledgment covered.
    pub acked: u32,
    /// Total number of segments of the connection delivered, including those of this acknowledgment.
    pub total_delivered: u64,
    /// Segments that the acknowledgment showed to be lost.
    pub newly_lost: u32,
    /// Total number of segments of the connection declared lost.
    pub total_lost: u64,
    /// Segments in flight before the acknowledgment.
    pub prior_in_flight: u32,
    /// Segments in flight after the acknowledgment.
    pub in_flight: u32,
    /// True if `snd_una` has advanced.
    pub una_advanced: bool,
    /// `snd_una` after the acknowledgment.
    pub una: Seq,
    /// `snd_nxt`, above all acknowledged data.
    pub nxt: Seq,
    /// True if a window may grow by the acknowledgment: `snd_una` has advanced or, if reordering has been seen,
    /// anything was delivered (Linux `tcp_may_raise_cwnd`).
    pub may_raise: bool,
    /// True if data sent after the last round's end has been acknowledged: one round trip has passed. A timeout starts
    /// a new round.
    pub round_ended: bool,
    /// True if the window was in use (Linux `tcp_is_cwnd_limited`); an unused window does not grow.
    pub is_cwnd_limited: bool,
    /// True if the acknowledgment carries an ECN echo.
    pub ece: bool,
    /// Segments of [`Self::delivered`] that the acknowledgment reports as marked; 0 unless the congestion control is
    /// scalable.
    pub marked: u32,
    /// Round trip of the latest segment that the acknowledgment delivers, unless that was sent more than once.
    pub rtt: Option<Duration>,
    /// Smoothed round trip; zero before the first sample.
    pub srtt: Duration,
    /// Recent minimum of the round trip.
    pub min_rtt: Duration,
    /// Time at which pacing releases the next segment; `now` if no segment has to wait (Linux `tcp_wstamp_ns`).
    pub next_send: Instant,
    /// Delivery rate, if this acknowledgment yields a sample.
    pub rate: Option<RateSample>,
}

impl AckSample {
    /// Returns whether a control that leaves recovery to window reduction may grow its window: not during a reduction,
    /// and not if the window is unused.
    pub fn lets_grow(&self) -> bool {
        self.may_raise
            && self.is_cwnd_limited
            && matches!(self.state, CaState::Open | CaState::Disorder | CaState::Loss)
    }
}

/// Counts of the connection's segments so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Segments delivered.
    pub delivered: u64,
    /// Segments declared lost.
    pub lost: u64,
    /// Time of the last delivery; if nothing was outstanding since, the time at which sending resumed.
    pub delivered_at: Instant,
}

/// A segment just declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSegment {
    /// Segments in flight when the lost segment was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments declared lost since the lost segment was sent, itself included.
    pub lost: u32,
    /// True if the application left the window unused when the lost segment was sent.
    pub is_app_limited: bool,
}

/// Events of a sender besides acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Episode {
    /// The handshake is complete. Its round trip was measured unless a SYN was repeated.
    Established {
        /// Round trip of the handshake.
        rtt: Option<Duration>,
    },
    /// Loss or an ECN mark: the congestion control sets its threshold and remembers the values that [`Episode::Undone`]
    /// restores.
    Reduce(Reduction),
    /// The reduction has ended: all data outstanding at its start is acknowledged.
    Ended,
    /// The reduction turned out to be spurious.
    Undone,
    /// The retransmission timer expired. Reported before the window is set.
    Timeout {
        /// True if the window has been reduced for this data before, by a timeout or in recovery: then the threshold
        /// stays (Linux `tcp_enter_loss`).
        again: bool,
        /// Counts, including segments that the timeout itself declared lost.
        totals: Totals,
    },
    /// A segment is about to be sent while nothing is in flight (Linux `CA_EVENT_TX_START`).
    SendingAgain {
        /// Time since the last data segment was sent.
        idle: Duration,
        /// True if the rate sampler counts data sent now as application-limited.
        is_app_limited: bool,
    },
    /// RFC 5681 §4.1: nothing was sent for `idle`, longer than `rto`.
    IdleRestart {
        /// Time for which nothing was sent.
        idle: Duration,
        /// Retransmission timeout.
        rto: Duration,
    },
    /// RFC 2861: the window was not fully used for a retransmission timeout (Linux `tcp_cwnd_application_limited`).
    Unused {
        /// Maximum number of segments in flight meanwhile.
        used: u32,
    },
}

/// Reason for a window reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// Segments were declared lost.
    Loss,
    /// A tail-loss probe repaired a loss.
    ProbeRepaired,
    /// The receiver echoed a mark (RFC 3168).
    Ecn,
}

/// Pacing rate and burst size of a congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// Payload bytes per second. At 0 nothing waits, as in Linux: a rate rounded down to zero would delay segments for
    /// hours.
    pub rate: u64,
    /// Maximum number of segments that may leave at once.
    pub quantum: u32,
}

/// State of a control that models the path: the values that `ss -i` shows for BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathModel {
    /// Current phase.
    pub phase: Phase,
    /// Estimated rate of the path, in payload bytes per second.
    pub rate: u64,
    /// Estimated round trip without queues; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Maximum number of segments in flight that the path is known to bear; `None` while no limit is known.
    pub inflight_bound: Option<u32>,
}

/// Phases of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubles the rate every round trip.
    Startup,
    /// Drains the queue that [`Phase::Startup`] filled.
    Drain,
    /// Sends more slowly than the path, so that its queue drains.
    Down,
    /// Sends at the path's rate.
    Cruise,
    /// Sends at the path's rate for a round trip, without a bound (version 3).
    Refill,
    /// Sends faster than the path, to probe for more capacity.
    Up,
    /// Keeps little in flight, to measure the round trip without queues.
    ProbeRtt,
}

/// A congestion control. Each has its own file, which also declares an [`Algorithm`](super::Algorithm), and may be
/// outside this crate.
pub trait CongestionControl: CloneControl + fmt::Debug + Send + Sync {
    /// Returns the congestion window, in segments.
    fn window(&self) -> u32;

    /// Returns the slow-start threshold, in segments; `u32::MAX` if there is none.
    fn ssthresh(&self) -> u32;

    /// Sets the window. Called only by window reduction and on timeouts.
    fn set_window(&mut self, segments: u32);

    /// Processes an acknowledgment of sent data, in any state. A control that does not govern recovery lets the window
    /// grow only if [`AckSample::lets_grow`] permits it.
    fn on_ack(&mut self, ack: &AckSample);

    /// Records a segment declared lost. Called before the acknowledgment that showed the loss.
    fn on_lost(&mut self, _now: Instant, _segment: &LostSegment) {}

    /// Processes any other event.
    fn on_episode(&mut self, now: Instant, what: Episode);

    /// Returns whether [`CongestionControl::pacing`] returns a value. Called for every segment; computing that value
    /// takes divisions.
    fn is_paced(&self) -> bool {
        self.pacing().is_some()
    }

    /// Returns the pacing; `None` leaves sending to acknowledgments and window.
    fn pacing(&self) -> Option<Pacing> {
        None
    }

    /// Returns whether the congestion control sets the window in recovery as well, so that no window reduction runs.
    /// The answer is always the same.
    fn governs_recovery(&self) -> bool {
        false
    }

    /// Returns the number of windows that an auto-tuned send buffer holds (Linux `sndbuf_expand`).
    fn buffered_windows(&self) -> u32 {
        2
    }

    /// Returns the congestion control's model of the path, if it has one.
    fn model(&self) -> Option<PathModel> {
        None
    }

    /// Returns whether the window is deliberately so small that the data in flight now gives no information about the
    /// path's rate: the rate sampler counts it as application-limited. Called after each acknowledgment.
    fn holds_back(&self) -> bool {
        false
    }
}

/// Copy of a congestion control behind a pointer. Implemented for everything that is `Clone`.
pub trait CloneControl {
    /// Returns a copy.
    fn clone_control(&self) -> Box<dyn CongestionControl>;
}

impl<T: CongestionControl + Clone + 'static> CloneControl for T {
    fn clone_control(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn CongestionControl> {
    fn clone(&self) -> Self {
        (**self).clone_control()
    }
}
