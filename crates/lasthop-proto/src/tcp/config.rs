//! TCP's details as explicit keys, with presets on top of them.

mod preset;

pub use self::preset::Preset;
pub use crate::tcp::congestion::{Bbr3Rule, ControlRule, HystartRule};
use crate::time::Duration;

/// How the endpoint finds and repairs losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Fast retransmit and fast recovery (RFC 5681 §3.2), as 4.4BSD has it.
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
    /// All of them, each of the algorithms behind [`Recovery::Sack`] by itself.
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

    /// Whether it asks the peer for selective acknowledgments.
    pub const fn uses_sack(self) -> bool {
        matches!(self, Self::Sack | Self::Rack)
    }
}

/// How [`Recovery::Rack`] brings the window down to the threshold (proportional rate reduction).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowReduction {
    /// In proportion to the window before it (Linux).
    Linux,
    /// In proportion to what was in flight before it (RFC 9937).
    Rfc9937,
}

/// Which SACK-based recovery [`Recovery::Sack`] runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackAlgorithm {
    /// Fall and Floyd's "Sack1" (ns-2): a `pipe` counted by arriving acknowledgments.
    Sack1,
    /// RFC 6675: `pipe` computed from the scoreboard, with rescue retransmission.
    Rfc6675,
}

/// How retransmission timers and delayed acknowledgments see time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Timers run exactly.
    Fine,
    /// 4.4BSD's two global ticks, whose phase is independent of the connection: a timer of n slow ticks fires after n-1
    /// to n of them; delayed acknowledgments leave at the next fast tick.
    Ticks {
        /// The 500 ms tick of retransmission and persist timers.
        slow: Duration,
        /// The 200 ms tick of delayed acknowledgments.
        fast: Duration,
    },
    /// Linux: timers count in jiffies, rounded up, and fire at a tick that their wheel rounds up again.
    Jiffies {
        /// Distance of ticks: 1 s over the kernel's `HZ`.
        jiffy: Duration,
        /// Whether the wheel's outer levels round to 8, 64, ... ticks, as kernels since 4.8 do.
        wheel: Switch,
    },
}

/// How round-trip samples become a retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttRule {
    /// 4.4BSD `tcp_xmit_timer`: integers in slow ticks, one segment timed at a time.
    Bsd,
    /// ns-2's `TcpAgent`: integers in ticks of [`TcpConfig::rtt_granularity`]. The timer keeps running when everything is
    /// acknowledged; its expiry is what [`TcpConfig::idle_restart`] waits for.
    Ns2,
    /// RFC 6298 §2, with G = [`TcpConfig::rtt_granularity`].
    Rfc6298,
    /// Linux `tcp_rtt_estimator`: microseconds, a variance that is the largest of a round trip and falls slowly, and
    /// `srtt` plus at least [`TcpConfig::rto_min`].
    Linux,
}

/// When the receiver acknowledges in-order data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Every segment at once.
    Off,
    /// Every second segment at once, a single one after `timeout` (RFC 5681 §4.2).
    EverySecond {
        /// How long a single segment waits.
        timeout: Duration,
    },
    /// ns-2's `TCPSink/DelAck`: [`DelayedAck::EverySecond`] that also holds back the acknowledgment of a duplicate of
    /// the last in-order segment.
    Ns2 {
        /// How long a single segment waits.
        timeout: Duration,
    },
    /// 4.4BSD: when the window can be moved by two segments or half the buffer, otherwise at the next fast tick.
    WindowUpdate,
    /// Linux: at once while it is quick (at the start, and after anything unusual) or when more than a segment is
    /// unacknowledged; otherwise after 40 ms, or longer where arrivals are far apart.
    Linux,
}

/// What becomes of selective acknowledgments that follow each other closely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackCompression {
    /// Each leaves at once (RFC 2018, RFC 5681 §4.2).
    Off,
    /// Linux: after three, one leaves for all that come in a twentieth of the round trip, 1 ms at most, or for 44.
    Linux,
}

/// How large the receive buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveAutotune {
    /// [`TcpConfig::receive_buffer`], which the window shows.
    Off,
    /// Linux 6.18: from 128 KiB of memory on as much as the application turns out to take, [`TcpConfig::receive_buffer`] at
    /// most. Buffers count memory, of which data is a part.
    Linux,
}

/// How large the send buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendAutotune {
    /// [`TcpConfig::send_buffer`], all of it data.
    Off,
    /// Linux 6.18: from 16 KiB of memory on as much as two congestion windows take, three with BBR, [`TcpConfig::send_buffer`] at
    /// most. With [`Recovery::Rack`] only.
    Linux,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// Neither offered nor accepted.
    Off,
    /// Accepted when the peer offers it: Linux's default.
    Passive,
    /// Offered, and accepted.
    On,
}

/// Whether acknowledgments are subject to congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckCongestion {
    /// They leave as [`TcpConfig::delayed_ack`] has it, however many of them are lost.
    Off,
    /// RFC 5690, where the peer does so too: the sender sees which acknowledgments are lost or marked, and tells the receiver for how
    /// many segments there is to be one. With ECN agreed on, pure acknowledgments take marks.
    Rfc5690,
}

/// What an acknowledgment of nothing new that is no duplicate (it has data, moves the window, or comes while the timer is
/// off) does to the count of duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImpureDuplicates {
    /// Nothing.
    Ignored,
    /// Sets it to zero, as an older acknowledgment does (4.4BSD `tcp_input`).
    RestartCount,
}

/// Where a partial acknowledgment leaves the inflated window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialDeflation {
    /// It falls by what was acknowledged and rises by one segment (RFC 6582 §3.2 step 3).
    ByAcked,
    /// It goes to `ssthresh`, as at the end of a recovery.
    ToThreshold,
}

/// How the congestion window grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// RFC 5681 §3.1, byte counting limited to one segment per acknowledgment.
    Rfc5681,
    /// RFC 3465, appropriate byte counting: as [`Growth::Rfc5681`], but up to two segments per acknowledgment in slow start, except
    /// after a timeout. Where few acknowledgments come (RFC 3449 §4.7) the window grows as if more had.
    Rfc3465,
    /// 4.4BSD-Lite: one segment, or mss²/cwnd + mss/8 in congestion avoidance (quirk 1), per acknowledgment.
    BsdLite,
    /// 4.4BSD-Lite2: [`Growth::BsdLite`] without the mss/8.
    BsdLite2,
    /// ns-2: a floating-point number of segments, +1 or +1/cwnd per acknowledgment.
    Ns2,
}

impl Growth {
    /// Whether the acknowledgment that ends a recovery leaves the window where the recovery left it.
    pub const fn is_rfc(self) -> bool {
        matches!(self, Self::Rfc5681 | Self::Rfc3465)
    }

    /// Whether it is one of 4.4BSD's: any acknowledgment of new data opens the window, that which ends a recovery too.
    pub const fn is_bsd(self) -> bool {
        matches!(self, Self::BsdLite | Self::BsdLite2)
    }
}

/// When the window inflated by duplicate acknowledgments comes down again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deflation {
    /// Whenever fast recovery ends.
    Always,
    /// Only when more than three duplicates came (quirk 2 of 4.4BSD-Lite).
    AboveThreshold,
}

/// Whether a second fast retransmit may start within one window of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryGuard {
    /// No guard (quirk 4 of 4.4BSD-Lite).
    None,
    /// Not before `recover` is acknowledged, also after a timeout (RFC 6582 §3.2, "careful").
    Careful,
    /// One for each window of data: not while something is unacknowledged that was out at the last recovery or timeout.
    /// [`RecoveryGuard::Careful`] asks for one byte more.
    OncePerWindow,
    /// ns-2: [`RecoveryGuard::Careful`], but not before the first data is acknowledged (`bugfix_ss_`).
    Ns2,
}

/// What a partial acknowledgment does to the retransmission timer (RFC 6582 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialAckTimer {
    /// Only the first one restarts it.
    Impatient,
    /// Each one restarts it.
    SlowButSteady,
}

/// Whether a feature is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// In use.
    On,
    /// Not in use.
    Off,
}

impl Switch {
    /// Whether it is [`Switch::On`].
    #[inline]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// How the initiator acknowledges the peer's SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeAck {
    /// With its first data, where there is some at once.
    WithData,
    /// By a segment of its own, before any data: what an application sees that writes once it is connected (Linux
    /// `tcp_rcv_synsent_state_process`).
    Own,
}

/// Whether segments smaller than the mss wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nagle {
    /// Never (`TCP_NODELAY`).
    Off,
    /// While data is outstanding (RFC 9293 §3.7.4).
    On,
    /// While another such segment is outstanding (Minshall; Linux `tcp_minshall_check`).
    Minshall,
}

/// Which segments are old copies by their timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PawsRule {
    /// All whose timestamp is older than the newest (RFC 7323 §5.3).
    Rfc7323,
    /// The same, but for one tick of the clock and for duplicate acknowledgments that were overtaken (Linux `tcp_paws_check`,
    /// `tcp_disordered_ack`).
    Linux,
}

/// What a sender does with a segment of which only a part lies within the peer's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEdge {
    /// It waits until the whole lies within.
    Whole,
    /// Its part within leaves, behind a whole segment of the same burst (Linux `tcp_mss_split_point`).
    Cut,
}

/// What asks whether a closed window has opened (RFC 9293 §3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowProbe {
    /// The next byte. The peer refuses it, so that it is sent again later.
    Byte,
    /// A segment without data, with the number before the next one: the peer refuses that and says what it expects (Linux
    /// `tcp_xmit_probe_skb`).
    Empty,
}

/// Which segments with data carry PSH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// None: the application reads whatever has arrived.
    Never,
    /// The last of a burst of several, and the last of what the application has written (Linux `__tcp_transmit_skb`,
    /// `tcp_push`).
    Bursts,
}

/// Which header bytes a segment takes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderAccounting {
    /// 40 bytes of IPv4 and TCP, and the options.
    Full,
    /// ns-2's default: 40 bytes, and 8 per SACK block.
    Ns2,
    /// ns-2 with `useHeaders_` off: none on data, otherwise as [`HeaderAccounting::Ns2`].
    Ns2AcksOnly,
}

/// Every detail of an endpoint. Sizes are in bytes of payload, times as their type says.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Largest payload of a segment.
    pub mss: u32,
    /// Send buffer.
    pub send_buffer: u32,
    /// Receive buffer: the largest window that is advertised.
    pub receive_buffer: u32,
    /// Shift offered on the SYN (RFC 7323 §2); `None` offers none.
    pub window_scale: Option<u8>,
    /// Whether timestamps are offered and used for round-trip samples (RFC 7323 §3, §4).
    pub timestamps: Switch,
    /// What timestamps protect from.
    pub paws: PawsRule,
    /// Which header bytes count.
    pub headers: HeaderAccounting,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// The algorithm behind [`Recovery::Sack`].
    pub sack_algorithm: SackAlgorithm,
    /// Whether the sender keeps its share of the host's own queue short (TCP small queues; Linux `tcp_small_queue_check`). With
    /// [`Recovery::Rack`] only.
    pub small_queues: Switch,
    /// Most SACK blocks that the receiver sends (1 to 4; timestamps leave room for 3).
    pub sack_blocks: u8,
    /// SACK and ELN coupled (\[a\] future work): no window reduction for losses marked as corruption.
    pub sack_eln: Switch,
    /// Timer resolution.
    pub clock: Clock,
    /// Phase of the host's ticks; `None` lets the driver draw one per host.
    pub tick_phase: Option<Duration>,
    /// From samples to timeout.
    pub rtt_rule: RttRule,
    /// Resolution of round-trip samples: ns-2's `tcpTick_`, RFC 6298's G. [`RttRule::Bsd`] uses the slow tick.
    pub rtt_granularity: Duration,
    /// Timeout before the first sample.
    pub rto_initial: Duration,
    /// Smallest timeout.
    pub rto_min: Duration,
    /// Largest timeout, backoff included.
    pub rto_max: Duration,
    /// Largest backoff factor.
    pub max_backoff: u32,
    /// Timeouts in a row after which the connection is given up.
    pub max_retries: u32,
    /// When in-order data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// What becomes of selective acknowledgments that follow each other closely. Needs [`DelayedAck::Linux`].
    pub sack_compression: SackCompression,
    /// Whether data that came twice is reported (RFC 2883).
    pub dsack: Switch,
    /// How large the receive buffer is. [`ReceiveAutotune::Linux`] needs [`DelayedAck::Linux`].
    pub receive_autotune: ReceiveAutotune,
    /// How large the send buffer is, with [`Recovery::Rack`].
    pub send_autotune: SendAutotune,
    /// Whether queues may mark packets instead of dropping them.
    pub ecn: EcnMode,
    /// Whether acknowledgments are subject to congestion control. [`AckCongestion::Rfc5690`] needs [`DelayedAck::EverySecond`], of
    /// which it says how many segments there are to be for one acknowledgment, and is not offered without.
    pub ack_congestion: AckCongestion,
    /// Whether an acknowledgment that a segment calls for leaves before the application reads the segment (4.4BSD:
    /// `tcp_input` runs before the reader). It then advertises the window without that read, which may be followed by a
    /// window update of its own.
    pub ack_before_read: Switch,
    /// Congestion window at the start, in segments.
    pub initial_window: u32,
    /// Slow-start threshold at the start; `None` takes the send buffer (ns-2: `window_`).
    pub initial_ssthresh: Option<u32>,
    /// The congestion window never grows past this.
    pub max_cwnd: u32,
    /// Duplicate acknowledgments that start fast retransmit.
    pub dupack_threshold: u32,
    /// A new segment on the first and second duplicate (\[a\] §IV-B; RFC 3042).
    pub limited_transmit: Switch,
    /// How the window grows.
    pub growth: Growth,
    /// When the window comes down after fast recovery.
    pub deflation: Deflation,
    /// What an acknowledgment between duplicates does to their count.
    pub impure_duplicates: ImpureDuplicates,
    /// Where a partial acknowledgment leaves the window.
    pub partial_deflation: PartialDeflation,
    /// ELN: whether duplicates that follow a retransmission on a mark inflate the window until that is acknowledged, as
    /// those of fast recovery do.
    pub eln_inflation: Switch,
    /// 4.4BSD's header prediction: a pure acknowledgment that takes the short path neither deflates nor grows the
    /// window, nor clears the count of duplicates (quirk 3).
    pub header_prediction: Switch,
    /// Guard against a second fast retransmit in one window.
    pub recovery_guard: RecoveryGuard,
    /// The timer under partial acknowledgments.
    pub partial_ack_timer: PartialAckTimer,
    /// Back to slow start after an idle period of one timeout (RFC 5681 §4.1).
    pub idle_restart: Switch,
    /// Whether segments smaller than the mss wait.
    pub nagle: Nagle,
    /// Most segments per acknowledgment during recovery (ns-2 NewReno: 2).
    pub recovery_burst: u32,
    /// Whether acknowledgments carry the SMART number.
    pub smart_acks: Switch,
    /// How the initiator acknowledges the peer's SYN.
    pub handshake_ack: HandshakeAck,
    /// Most segments that pacing lets go at once (Linux: the device's `gso_max_segs`); the congestion control sizes bursts within
    /// it.
    pub send_quantum: u32,
    /// What becomes of a segment at the edge of the peer's window.
    pub window_edge: WindowEdge,
    /// What asks whether a closed window has opened.
    pub window_probe: WindowProbe,
    /// Which segments carry PSH.
    pub push: Push,
    /// How long a closed connection waits for stray segments (RFC 9293: 2 MSL).
    pub time_wait: Duration,
    /// The congestion control under [`Recovery::Rack`].
    pub congestion: ControlRule,
    /// How [`Recovery::Rack`] brings the window down.
    pub window_reduction: WindowReduction,
    /// [`Recovery::Rack`]: whether reductions are taken back that timestamps or duplicate SACKs show to be wrong (RFC 4015,
    /// RFC 3708).
    pub undo: Switch,
    /// [`Recovery::Rack`]: whether a timeout that was wrong is told by acknowledgments of what was sent once (RFC 5682).
    pub frto: Switch,
    /// [`Recovery::Rack`]: whether a probe goes ahead of the timeout (RFC 8985 §7).
    pub tlp: Switch,
    /// SMART: the round trip after which a hole that was resent and still shows is resent again. With `None` a lost
    /// retransmission waits for the timer, as in the study (\[a\] §III-B).
    pub smart_rtt: Option<Duration>,
}

/// `tcp_rmem[1]`: bytes of memory of a receive buffer that tunes itself, at first.
pub(crate) const AUTOTUNE_START: u32 = 131_072;

impl TcpConfig {
    /// The shift that a SYN offers. A buffer that tunes itself offers no more than its size takes (Linux `tcp_select_initial_window`):
    /// its window is rounded up to what the field counts in.
    pub(crate) fn offered_scale(&self) -> Option<u8> {
        let needed = (self.receive_buffer.max(1).ilog2() as u8).saturating_sub(15);
        self.window_scale.map(|shift| if self.tunes_itself() { shift.min(needed) } else { shift })
    }

    /// Whether acknowledgment congestion control is offered and accepted.
    pub(crate) fn controls_acks(&self) -> bool {
        self.ack_congestion == AckCongestion::Rfc5690 && matches!(self.delayed_ack, DelayedAck::EverySecond { .. })
    }

    /// Whether a connection keeps its share of the host's queue short.
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.small_queues.is_on() && self.recovery == Recovery::Rack
    }

    /// Whether the receive buffer grows by itself: one that is smaller than what it would begin with is as it is, like one that an
    /// application has set.
    pub fn tunes_itself(&self) -> bool {
        self.receive_autotune == ReceiveAutotune::Linux && self.receive_buffer >= AUTOTUNE_START
    }
}
