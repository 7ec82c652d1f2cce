//! What a congestion control of today is told, and what it answers.
//!
//! Loss detection says what was delivered and lost; the congestion control says how far down and how fast up; window
//! reduction ([`Episode::Reduce`] to [`Episode::Ended`]) says how the window gets there. Windows are counted in segments,
//! rates in bytes a second, all in integers: the same bytes on every machine.

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// The sender's state, as Linux names it; in Linux's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum CaState {
    /// Nothing dubious.
    #[default]
    Open,
    /// Selective or duplicate acknowledgments have come; nothing is taken for lost.
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
    /// Segments delivered between the newest delivered segment's transmission and now.
    pub delivered: u32,
    /// In what time: the longer of the intervals of sending and of acknowledging.
    pub interval: Duration,
    /// What had been delivered of the connection when that segment was sent, in segments.
    pub prior_delivered: u64,
    /// Segments in flight when that segment was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since that segment was sent.
    pub lost: u32,
    /// Whether the application left the window unused when that segment was sent.
    pub is_app_limited: bool,
    /// Whether this acknowledgment may have been delayed: it covers a single segment less than the path holds.
    pub is_ack_delayed: bool,
}

/// What one acknowledgment told, once scoreboard and loss detection have seen it. Counts are segments.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it came.
    pub now: Instant,
    /// The state after it.
    pub state: CaState,
    /// Segments that it newly acknowledged or selectively acknowledged.
    pub delivered: u32,
    /// Of these, segments that the cumulative acknowledgment took off the front.
    pub acked: u32,
    /// All that has been delivered of the connection, these included.
    pub total_delivered: u64,
    /// Segments found lost by it.
    pub newly_lost: u32,
    /// All that has been found lost of the connection.
    pub total_lost: u64,
    /// In flight before it.
    pub prior_in_flight: u32,
    /// In flight after it.
    pub in_flight: u32,
    /// Whether `snd_una` has advanced.
    pub una_advanced: bool,
    /// `snd_una` after it.
    pub una: Seq,
    /// `snd_nxt`: what it answers was sent before.
    pub nxt: Seq,
    /// Whether it is one that a window grows by: `snd_una` has advanced or, where reordering has been seen, anything was
    /// delivered (Linux `tcp_may_raise_cwnd`).
    pub may_raise: bool,
    /// Whether data sent after the last round's end has been acknowledged: one round trip is over. A timeout starts a
    /// round of its own.
    pub round_ended: bool,
    /// Whether the window was in use (Linux `tcp_is_cwnd_limited`); a window that is not used does not grow.
    pub is_cwnd_limited: bool,
    /// Whether it carries an ECN echo.
    pub ece: bool,
    /// Round trip of the newest segment that it delivers, unless that was sent more than once.
    pub rtt: Option<Duration>,
    /// Smoothed round trip; zero before the first sample.
    pub srtt: Duration,
    /// Shortest round trip of late.
    pub min_rtt: Duration,
    /// When pacing lets the next segment out; `now` where nothing has to wait (Linux `tcp_wstamp_ns`).
    pub next_send: Instant,
    /// Delivery rate, where this acknowledgment gives a sample.
    pub rate: Option<RateSample>,
}

impl AckSample {
    /// Whether a control that leaves recovery to window reduction may let its window grow: not while it is being reduced,
    /// and not while it is not used.
    pub fn lets_grow(&self) -> bool {
        self.may_raise
            && self.is_cwnd_limited
            && matches!(self.state, CaState::Open | CaState::Disorder | CaState::Loss)
    }
}

/// What has become of the connection's segments so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Segments delivered.
    pub delivered: u64,
    /// Segments found lost.
    pub lost: u64,
    /// When the last of the former was delivered; where nothing was out since, when sending began again.
    pub delivered_at: Instant,
}

/// A segment that loss detection has just taken for lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSegment {
    /// Segments in flight when it was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since it was sent, itself included.
    pub lost: u32,
    /// Whether the application left the window unused when it was sent.
    pub is_app_limited: bool,
}

/// What happens to a sender besides acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Episode {
    /// The handshake is over, and its round trip was measured unless a SYN was repeated.
    Established {
        /// Round trip of the handshake.
        rtt: Option<Duration>,
    },
    /// Loss or an ECN mark: the congestion control sets its threshold and remembers what [`Episode::Undone`] restores.
    Reduce(Reduction),
    /// The reduction is over: all that was outstanding at its start is acknowledged.
    Ended,
    /// What was taken for congestion was none.
    Undone,
    /// The retransmission timer expired. Told before the window is set.
    Timeout {
        /// Whether the window has been reduced for this data before, by a timeout or in recovery: then the threshold
        /// stays (Linux `tcp_enter_loss`).
        again: bool,
        /// What the timeout itself marked lost included.
        totals: Totals,
    },
    /// A segment is about to be sent while nothing is in flight (Linux `CA_EVENT_TX_START`).
    SendingAgain {
        /// Since the last segment with data was sent.
        idle: Duration,
        /// Whether the rate sampler takes what is sent now for limited by the application.
        is_app_limited: bool,
    },
    /// RFC 5681 §4.1: nothing was sent for `idle`, longer than `rto`.
    IdleRestart {
        /// For how long nothing was sent.
        idle: Duration,
        /// The retransmission timeout.
        rto: Duration,
    },
    /// RFC 2861: for a retransmission timeout the window was not used up (Linux `tcp_cwnd_application_limited`).
    Unused {
        /// Most segments that were in flight meanwhile.
        used: u32,
    },
}

/// Why a window is reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// Segments were found lost.
    Loss,
    /// A tail-loss probe repaired a loss.
    ProbeRepaired,
    /// The receiver echoed a mark (RFC 3168).
    Ecn,
}

/// How fast a congestion control lets segments out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// Bytes of payload a second. At 0 nothing waits, as in Linux: a rate too small to be told from none would hold
    /// segments back for hours.
    pub rate: u64,
    /// Segments that may leave at once.
    pub quantum: u32,
}

/// What a control that models the path takes it for: what `ss -i` shows of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathModel {
    /// What it is about.
    pub phase: Phase,
    /// The path's rate: payload bytes a second.
    pub rate: u64,
    /// The path's round trip without queues; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Most segments in flight that the path is known to bear; `None` while it has shown no limit.
    pub inflight_bound: Option<u32>,
}

/// The phases of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Twice as fast every round trip.
    Startup,
    /// Emptying the queue that [`Phase::Startup`] filled.
    Drain,
    /// Slower than the path, so that its queue empties.
    Down,
    /// As fast as the path.
    Cruise,
    /// As fast as the path for a round trip, with nothing held back (version 3).
    Refill,
    /// Faster than the path, to see whether there is more.
    Up,
    /// Little in flight, to see the round trip without queues.
    ProbeRtt,
}

/// A congestion control. One file each.
pub trait CongestionControl {
    /// The congestion window, in segments.
    fn window(&self) -> u32;

    /// The slow-start threshold, in segments; `u32::MAX` while there is none.
    fn ssthresh(&self) -> u32;

    /// Window reduction and timeouts act through this; nothing else sets the window.
    fn set_window(&mut self, segments: u32);

    /// An acknowledgment that is for data sent, in any state. Whoever does not govern recovery lets the window grow
    /// where [`AckSample::lets_grow`] says so.
    fn on_ack(&mut self, ack: &AckSample);

    /// A segment was taken for lost. Told before the acknowledgment that showed it.
    fn on_lost(&mut self, _now: Instant, _segment: &LostSegment) {}

    /// Something else.
    fn on_episode(&mut self, now: Instant, what: Episode);

    /// Whether [`CongestionControl::pacing`] says something: asked for every segment, where what it says takes divisions.
    fn is_paced(&self) -> bool {
        self.pacing().is_some()
    }

    /// How fast segments may leave; `None` leaves that to acknowledgments and window.
    fn pacing(&self) -> Option<Pacing> {
        None
    }

    /// Whether the congestion control sets the window in recovery too, so that no window reduction runs.
    fn governs_recovery(&self) -> bool {
        false
    }

    /// How many windows a send buffer that tunes itself holds (Linux `sndbuf_expand`).
    fn buffered_windows(&self) -> u32 {
        2
    }

    /// What it takes the path for, where it has a model of it.
    fn model(&self) -> Option<PathModel> {
        None
    }

    /// Whether the window is kept so small on purpose that what is in flight now says nothing about the path's rate: the
    /// rate sampler takes it for limited by the application. Asked after each acknowledgment.
    fn holds_back(&self) -> bool {
        false
    }
}
