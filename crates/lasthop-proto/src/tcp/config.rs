//! Details of TCP as explicit keys, with presets on top of them.

mod common;
mod preset;
mod receiver;

pub use self::common::{
    AckCongestion, Clock, CommonConfig, EcnMode, HandshakeAck, HeaderAccounting, Nagle, PawsRule, RttRule, Switch,
    WindowProbe,
};
pub use self::preset::Preset;
pub(crate) use self::receiver::AUTOTUNE_START;
pub use self::receiver::{DelayedAck, ReceiveAutotune, ReceiverConfig, SackCompression};
pub use crate::tcp::congestion::{ControlRule, HystartRule};
use crate::time::Duration;

/// Algorithm by which the endpoint detects and repairs losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Fast retransmit and fast recovery (RFC 5681 §3.2), as in 4.4BSD.
    Reno,
    /// Partial acknowledgments repair further losses (RFC 6582).
    NewReno,
    /// Every acknowledgment names the segment that caused it (\[a\] §III-B).
    Smart,
    /// Selective acknowledgments (RFC 2018); the algorithm is [`TcpConfig::sack_algorithm`].
    Sack,
    /// NewReno that does not reduce its window for losses marked as corruption (\[a\] §III-B).
    Eln,
    /// [`Recovery::Eln`] that acts on the first marked duplicate acknowledgment.
    ElnRxmt,
    /// RACK-TLP (RFC 8985) over selective acknowledgments, with the windows of [`TcpConfig::congestion`].
    Rack,
}

impl Recovery {
    /// All recoveries, with each algorithm of [`Recovery::Sack`] separately.
    pub const ALL: [(Self, SackAlgorithm); 8] = [
        (Self::Reno, SackAlgorithm::Sack1),
        (Self::NewReno, SackAlgorithm::Sack1),
        (Self::Smart, SackAlgorithm::Sack1),
        (Self::Sack, SackAlgorithm::Sack1),
        (Self::Sack, SackAlgorithm::Rfc6675),
        (Self::Eln, SackAlgorithm::Sack1),
        (Self::ElnRxmt, SackAlgorithm::Sack1),
        (Self::Rack, SackAlgorithm::Sack1),
    ];

    /// Returns whether it asks the peer for selective acknowledgments.
    pub const fn uses_sack(self) -> bool {
        matches!(self, Self::Sack | Self::Rack)
    }
}

/// Method by which [`Recovery::Rack`] reduces the window to the threshold (proportional rate reduction).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowReduction {
    /// In proportion to the previous window (Linux).
    Linux,
    /// In proportion to the data in flight before (RFC 9937).
    Rfc9937,
}

/// Algorithm of [`Recovery::Sack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackAlgorithm {
    /// Fall and Floyd's "Sack1" (ns-2): a `pipe` counted by arriving acknowledgments.
    Sack1,
    /// RFC 6675: `pipe` computed from the scoreboard, with rescue retransmission.
    Rfc6675,
}

/// Size of the send buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendAutotune {
    /// [`CommonConfig::send_buffer`], all of it data.
    Off,
    /// Linux 6.18: grows from 16 KiB of memory to the amount that two congestion windows take, three with BBR, up to
    /// [`CommonConfig::send_buffer`]. With [`Recovery::Rack`] only.
    Linux,
}

/// Effect on the duplicate count of an acknowledgment without news that is no duplicate (it has data, moves the window,
/// or arrives while the timer is off).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImpureDuplicates {
    /// None.
    Ignored,
    /// Resets it to zero, as an older acknowledgment does (4.4BSD `tcp_input`).
    RestartCount,
}

/// Inflated window after a partial acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialDeflation {
    /// Decreases by the acknowledged data and increases by one segment (RFC 6582 §3.2 step 3).
    ByAcked,
    /// Is set to `ssthresh`, as at the end of a recovery.
    ToThreshold,
}

/// Growth of the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// RFC 5681 §3.1, byte counting limited to one segment per acknowledgment.
    Rfc5681,
    /// RFC 3465, appropriate byte counting: like [`Growth::Rfc5681`], but up to two segments per acknowledgment in slow
    /// start, except after a timeout. If few acknowledgments arrive (RFC 3449 §4.7), the window grows as if there were
    /// more.
    Rfc3465,
    /// 4.4BSD-Lite: one segment, or mss²/cwnd + mss/8 in congestion avoidance (quirk 1), per acknowledgment.
    BsdLite,
    /// 4.4BSD-Lite2: [`Growth::BsdLite`] without the mss/8.
    BsdLite2,
    /// ns-2: a floating-point number of segments, +1 or +1/cwnd per acknowledgment.
    Ns2,
}

impl Growth {
    /// Returns whether the acknowledgment that ends a recovery leaves the window unchanged.
    pub const fn is_rfc(self) -> bool {
        matches!(self, Self::Rfc5681 | Self::Rfc3465)
    }

    /// Returns whether it is one of 4.4BSD's: any acknowledgment of new data opens the window, including one that ends
    /// a recovery.
    pub const fn is_bsd(self) -> bool {
        matches!(self, Self::BsdLite | Self::BsdLite2)
    }
}

/// Condition for deflating the window that duplicate acknowledgments have inflated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deflation {
    /// At every end of fast recovery.
    Always,
    /// Only if more than three duplicates arrived (quirk 2 of 4.4BSD-Lite).
    AboveThreshold,
}

/// Guard against a second fast retransmit within one window of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryGuard {
    /// No guard (quirk 4 of 4.4BSD-Lite).
    None,
    /// Not before `recover` is acknowledged, also after a timeout (RFC 6582 §3.2, "careful").
    Careful,
    /// One for each window of data: not while data is unacknowledged that was outstanding at the last recovery or
    /// timeout. [`RecoveryGuard::Careful`] requires one byte more.
    OncePerWindow,
    /// ns-2: [`RecoveryGuard::Careful`], but not before the first data is acknowledged (`bugfix_ss_`).
    Ns2,
}

/// Effect of a partial acknowledgment on the retransmission timer (RFC 6582 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialAckTimer {
    /// Only the first one restarts it.
    Impatient,
    /// Each one restarts it.
    SlowButSteady,
}

/// Handling of a segment of which only a part is within the peer's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEdge {
    /// Waits until all of it is inside.
    Whole,
    /// Its inner part leaves after a whole segment of the same burst (Linux `tcp_mss_split_point`).
    Cut,
}

/// Data segments that carry PSH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// None: the application reads data as it arrives.
    Never,
    /// The last of a burst of several, and the last of the data written by the application (Linux `__tcp_transmit_skb`,
    /// `tcp_push`).
    Bursts,
}

/// All details of an endpoint. Sizes are in bytes of payload, times as their type says.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Settings of both halves.
    pub common: CommonConfig,
    /// Settings of the receiving half.
    pub receiver: ReceiverConfig,
    /// Detection and repair of losses.
    pub recovery: Recovery,
    /// Algorithm of [`Recovery::Sack`].
    pub sack_algorithm: SackAlgorithm,
    /// Limits the sender's share of the host's own queue (TCP small queues; Linux `tcp_small_queue_check`). With
    /// [`Recovery::Rack`] only.
    pub small_queues: Switch,
    /// Size of the send buffer, with [`Recovery::Rack`].
    pub send_autotune: SendAutotune,
    /// Sends a new segment on the first and second duplicate (\[a\] §IV-B; RFC 3042).
    pub limited_transmit: Switch,
    /// Growth of the window.
    pub growth: Growth,
    /// Condition for deflating the window after fast recovery.
    pub deflation: Deflation,
    /// Effect on the duplicate count of an acknowledgment between duplicates.
    pub impure_duplicates: ImpureDuplicates,
    /// Window after a partial acknowledgment.
    pub partial_deflation: PartialDeflation,
    /// Window inflation by duplicates that follow a retransmission on an ELN mark, until it is acknowledged, as in fast
    /// recovery.
    pub eln_inflation: Switch,
    /// 4.4BSD's header prediction: a pure acknowledgment on the fast path neither deflates nor grows the window, nor
    /// resets the count of duplicates (quirk 3).
    pub header_prediction: Switch,
    /// Guard against a second fast retransmit in one window.
    pub recovery_guard: RecoveryGuard,
    /// Effect of partial acknowledgments on the timer.
    pub partial_ack_timer: PartialAckTimer,
    /// Maximum number of segments per acknowledgment during recovery (ns-2 NewReno: 2).
    pub recovery_burst: u32,
    /// Maximum number of segments that pacing releases at once (Linux: the device's `gso_max_segs`); the congestion
    /// control sizes bursts within it.
    pub send_quantum: u32,
    /// Handling of a segment at the edge of the peer's window.
    pub window_edge: WindowEdge,
    /// Segments that carry PSH.
    pub push: Push,
    /// Congestion control under [`Recovery::Rack`].
    pub congestion: ControlRule,
    /// Window reduction by [`Recovery::Rack`].
    pub window_reduction: WindowReduction,
    /// Undoes reductions that timestamps or duplicate SACKs show to be spurious (RFC 4015, RFC 3708). With
    /// [`Recovery::Rack`] only.
    pub undo: Switch,
    /// Detects spurious timeouts by acknowledgments of data sent once (RFC 5682). With [`Recovery::Rack`] only.
    pub frto: Switch,
    /// Sends a probe ahead of the timeout (RFC 8985 §7). With [`Recovery::Rack`] only.
    pub tlp: Switch,
    /// SMART: round trip after which a retransmitted hole that still exists is retransmitted again. With `None` a lost
    /// retransmission waits for the timer, as in the study (\[a\] §III-B).
    pub smart_rtt: Option<Duration>,
}

impl TcpConfig {
    /// Returns the settings after `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns whether acknowledgment congestion control is offered and accepted.
    pub(crate) fn controls_acks(&self) -> bool {
        let every_second = matches!(self.receiver.delayed_ack, DelayedAck::EverySecond { .. });
        self.common.ack_congestion == AckCongestion::Rfc5690 && every_second
    }

    /// Returns whether a connection limits its share of the host's queue.
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.small_queues.is_on() && self.recovery == Recovery::Rack
    }
}
