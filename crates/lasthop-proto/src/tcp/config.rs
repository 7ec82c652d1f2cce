//! Details of TCP as explicit keys, with presets on top of them.

mod preset;

pub use self::preset::Preset;
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

/// Resolution of retransmission timers and delayed acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Exact timers.
    Fine,
    /// 4.4BSD's two global ticks, whose phase is independent of the connection: a timer of n slow ticks fires after n-1
    /// to n of them; delayed acknowledgments leave at the next fast tick.
    Ticks {
        /// The 500 ms tick of retransmission and persist timers.
        slow: Duration,
        /// The 200 ms tick of delayed acknowledgments.
        fast: Duration,
    },
    /// Linux: timers count in jiffies, rounded up, and fire at a tick that the timer wheel rounds up again.
    Jiffies {
        /// Interval of ticks: 1 s over the kernel's `HZ`.
        jiffy: Duration,
        /// Enables rounding of the wheel's outer levels to 8, 64, ... ticks, as in kernels since 4.8.
        wheel: Switch,
    },
}

/// Rule for the retransmission timeout from round-trip samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttRule {
    /// 4.4BSD `tcp_xmit_timer`: integers in slow ticks, one segment timed at a time.
    Bsd,
    /// ns-2's `TcpAgent`: integers in ticks of [`TcpConfig::rtt_granularity`]. The timer keeps running when everything
    /// is acknowledged; [`TcpConfig::idle_restart`] takes effect at its expiry.
    Ns2,
    /// RFC 6298 §2, with G = [`TcpConfig::rtt_granularity`].
    Rfc6298,
    /// Linux `tcp_rtt_estimator`: microseconds, a variance that is the maximum of a round trip and falls slowly, and
    /// `srtt` plus at least [`TcpConfig::rto_min`].
    Linux,
}

/// Time at which the receiver acknowledges in-order data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Every segment at once.
    Off,
    /// Every second segment at once, a single one after `timeout` (RFC 5681 §4.2).
    EverySecond {
        /// Delay for a single segment.
        timeout: Duration,
    },
    /// ns-2's `TCPSink/DelAck`: [`DelayedAck::EverySecond`] that also delays the acknowledgment of a duplicate of the
    /// last in-order segment.
    Ns2 {
        /// Delay for a single segment.
        timeout: Duration,
    },
    /// 4.4BSD: when the window can be moved by two segments or half the buffer, otherwise at the next fast tick.
    WindowUpdate,
    /// Linux: at once in quick mode (at the start, and after unusual events) or when more than a segment is
    /// unacknowledged; otherwise after 40 ms, or longer if arrivals are far apart.
    Linux,
}

/// Handling of closely spaced selective acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackCompression {
    /// Each leaves at once (RFC 2018, RFC 5681 §4.2).
    Off,
    /// Linux: after three, one leaves for all within a twentieth of the round trip, 1 ms at most, or for 44.
    Linux,
}

/// Size of the receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveAutotune {
    /// [`TcpConfig::receive_buffer`], which determines the window.
    Off,
    /// Linux 6.18: grows from 128 KiB of memory to the amount that the application takes, up to
    /// [`TcpConfig::receive_buffer`]. Buffers count memory, of which data is a part.
    Linux,
}

/// Size of the send buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendAutotune {
    /// [`TcpConfig::send_buffer`], all of it data.
    Off,
    /// Linux 6.18: grows from 16 KiB of memory to the amount that two congestion windows take, three with BBR, up to
    /// [`TcpConfig::send_buffer`]. With [`Recovery::Rack`] only.
    Linux,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// Neither offered nor accepted.
    Off,
    /// Accepted if the peer offers it: Linux's default.
    Passive,
    /// Offered, and accepted.
    On,
}

/// Congestion control of acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckCongestion {
    /// Acknowledgments leave according to [`TcpConfig::delayed_ack`], however many of them are lost.
    Off,
    /// RFC 5690, if the peer supports it: the sender detects lost or marked acknowledgments, and tells the receiver how
    /// many segments to cover by one. If ECN is negotiated, pure acknowledgments are ECN-capable.
    Rfc5690,
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

/// State of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// In use.
    On,
    /// Not in use.
    Off,
}

impl Switch {
    /// Returns whether it is [`Switch::On`].
    #[inline]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// Acknowledgment of the peer's SYN by the initiator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeAck {
    /// With its first data, if there is some at once.
    WithData,
    /// By a separate segment before any data, as for an application that writes after connecting (Linux
    /// `tcp_rcv_synsent_state_process`).
    Own,
}

/// Condition under which segments smaller than the mss wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nagle {
    /// Never (`TCP_NODELAY`).
    Off,
    /// Only if data is outstanding (RFC 9293 §3.7.4).
    On,
    /// Only if another such segment is outstanding (Minshall; Linux `tcp_minshall_check`).
    Minshall,
}

/// Rule for identifying old copies of segments by their timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PawsRule {
    /// All segments with a timestamp older than the latest (RFC 7323 §5.3).
    Rfc7323,
    /// As [`Self::Rfc7323`], except for one clock tick and for reordered duplicate acknowledgments (Linux
    /// `tcp_paws_check`, `tcp_disordered_ack`).
    Linux,
}

/// Handling of a segment of which only a part is within the peer's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEdge {
    /// Waits until all of it is inside.
    Whole,
    /// Its inner part leaves after a whole segment of the same burst (Linux `tcp_mss_split_point`).
    Cut,
}

/// Probe of a closed window (RFC 9293 §3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowProbe {
    /// The next byte. The peer refuses it, so it is retransmitted later.
    Byte,
    /// A segment without data, with the number before the next one: the peer refuses it and acknowledges (Linux
    /// `tcp_xmit_probe_skb`).
    Empty,
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

/// Header bytes that a segment takes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderAccounting {
    /// 40 bytes of IPv4 and TCP, and the options.
    Full,
    /// ns-2's default: 40 bytes, and 8 per SACK block.
    Ns2,
    /// ns-2 with `useHeaders_` off: none on data, otherwise as [`HeaderAccounting::Ns2`].
    Ns2AcksOnly,
}

/// All details of an endpoint. Sizes are in bytes of payload, times as their type says.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Maximum payload of a segment.
    pub mss: u32,
    /// Size of the send buffer.
    pub send_buffer: u32,
    /// Size of the receive buffer: the maximum window that is advertised.
    pub receive_buffer: u32,
    /// Window scale offered on the SYN (RFC 7323 §2); `None` offers none.
    pub window_scale: Option<u8>,
    /// Offers timestamps and uses them for round-trip samples (RFC 7323 §3, §4).
    pub timestamps: Switch,
    /// Rule for rejecting segments by timestamps.
    pub paws: PawsRule,
    /// Header bytes that count.
    pub headers: HeaderAccounting,
    /// Detection and repair of losses.
    pub recovery: Recovery,
    /// Algorithm of [`Recovery::Sack`].
    pub sack_algorithm: SackAlgorithm,
    /// Limits the sender's share of the host's own queue (TCP small queues; Linux `tcp_small_queue_check`). With
    /// [`Recovery::Rack`] only.
    pub small_queues: Switch,
    /// Maximum number of SACK blocks that the receiver sends (1 to 4; timestamps leave space for 3).
    pub sack_blocks: u8,
    /// SACK and ELN coupled (\[a\] future work): no window reduction for losses marked as corruption.
    pub sack_eln: Switch,
    /// Timer resolution.
    pub clock: Clock,
    /// Phase of the host's ticks; `None` lets the driver draw one per host.
    pub tick_phase: Option<Duration>,
    /// Rule for the timeout from samples.
    pub rtt_rule: RttRule,
    /// Resolution of round-trip samples: ns-2's `tcpTick_`, RFC 6298's G. [`RttRule::Bsd`] uses the slow tick.
    pub rtt_granularity: Duration,
    /// Timeout before the first sample.
    pub rto_initial: Duration,
    /// Minimum timeout.
    pub rto_min: Duration,
    /// Maximum timeout, backoff included.
    pub rto_max: Duration,
    /// Maximum backoff factor.
    pub max_backoff: u32,
    /// Number of consecutive timeouts after which the connection is given up.
    pub max_retries: u32,
    /// Time at which in-order data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// Handling of closely spaced selective acknowledgments. Requires [`DelayedAck::Linux`].
    pub sack_compression: SackCompression,
    /// Reports duplicate data (RFC 2883).
    pub dsack: Switch,
    /// Size of the receive buffer. [`ReceiveAutotune::Linux`] requires [`DelayedAck::Linux`].
    pub receive_autotune: ReceiveAutotune,
    /// Size of the send buffer, with [`Recovery::Rack`].
    pub send_autotune: SendAutotune,
    /// Use of ECN: queues may mark packets instead of dropping them.
    pub ecn: EcnMode,
    /// Congestion control of acknowledgments. [`AckCongestion::Rfc5690`] requires [`DelayedAck::EverySecond`], whose
    /// number of segments per acknowledgment it determines, and is not offered without.
    pub ack_congestion: AckCongestion,
    /// Sends the acknowledgment of a segment before the application reads the segment (4.4BSD: `tcp_input` runs before
    /// the reader). It then advertises the window without that read, which may be followed by a separate window update.
    pub ack_before_read: Switch,
    /// Initial congestion window, in segments.
    pub initial_window: u32,
    /// Initial slow-start threshold; `None` uses the send buffer (ns-2: `window_`).
    pub initial_ssthresh: Option<u32>,
    /// Maximum congestion window.
    pub max_cwnd: u32,
    /// Number of duplicate acknowledgments that start fast retransmit.
    pub dupack_threshold: u32,
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
    /// Slow start after an idle period of one timeout (RFC 5681 §4.1).
    pub idle_restart: Switch,
    /// Condition under which segments smaller than the mss wait.
    pub nagle: Nagle,
    /// Maximum number of segments per acknowledgment during recovery (ns-2 NewReno: 2).
    pub recovery_burst: u32,
    /// Adds the SMART number to acknowledgments.
    pub smart_acks: Switch,
    /// Acknowledgment of the peer's SYN by the initiator.
    pub handshake_ack: HandshakeAck,
    /// Maximum number of segments that pacing releases at once (Linux: the device's `gso_max_segs`); the congestion
    /// control sizes bursts within it.
    pub send_quantum: u32,
    /// Handling of a segment at the edge of the peer's window.
    pub window_edge: WindowEdge,
    /// Probe of a closed window.
    pub window_probe: WindowProbe,
    /// Segments that carry PSH.
    pub push: Push,
    /// Time for which a closed connection waits for stray segments (RFC 9293: 2 MSL).
    pub time_wait: Duration,
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

/// Initial memory of an auto-tuned receive buffer, in bytes (`tcp_rmem[1]`).
pub(crate) const AUTOTUNE_START: u32 = 131_072;

impl TcpConfig {
    /// Returns the settings after `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns the window scale that a SYN offers. An auto-tuned buffer offers no more than its size requires (Linux
    /// `tcp_select_initial_window`): its window is rounded up to the unit of the field.
    pub(crate) fn offered_scale(&self) -> Option<u8> {
        let needed = (self.receive_buffer.max(1).ilog2() as u8).saturating_sub(15);
        self.window_scale.map(|shift| if self.tunes_itself() { shift.min(needed) } else { shift })
    }

    /// Returns whether acknowledgment congestion control is offered and accepted.
    pub(crate) fn controls_acks(&self) -> bool {
        self.ack_congestion == AckCongestion::Rfc5690 && matches!(self.delayed_ack, DelayedAck::EverySecond { .. })
    }

    /// Returns whether a connection limits its share of the host's queue.
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.small_queues.is_on() && self.recovery == Recovery::Rack
    }

    /// Returns whether the receive buffer is auto-tuned. One that is smaller than the initial size has a fixed size,
    /// like one that an application has set.
    pub fn tunes_itself(&self) -> bool {
        self.receive_autotune == ReceiveAutotune::Linux && self.receive_buffer >= AUTOTUNE_START
    }
}
