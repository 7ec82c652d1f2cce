//! Settings that do not depend on the sender.

use crate::time::Duration;

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
    /// ns-2's `TcpAgent`: integers in ticks of [`CommonConfig::rtt_granularity`]. The timer keeps running when everything
    /// is acknowledged; [`CommonConfig::idle_restart`] takes effect at its expiry.
    Ns2,
    /// RFC 6298 §2, with G = [`CommonConfig::rtt_granularity`].
    Rfc6298,
    /// Linux `tcp_rtt_estimator`: microseconds, a variance that is the maximum of a round trip and falls slowly, and
    /// `srtt` plus at least [`CommonConfig::rto_min`].
    Linux,
}

/// Explicit congestion notification (RFC 3168, RFC 9768).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// Neither offered nor accepted.
    Off,
    /// Accepted if the peer makes the offer: Linux's default.
    Passive,
    /// Offered, and accepted.
    On,
    /// Accurate ECN (RFC 9768) offered and accepted, and the classic kind accepted. Requires a modern sender; with a
    /// classic one it is [`Self::On`].
    Accurate,
    /// Accurate ECN or the classic kind accepted if the peer makes the offer. Requires a modern sender; with a classic
    /// one it is [`Self::Passive`].
    AccuratePassive,
    /// The classic kind offered, and accurate ECN or the classic kind accepted. Requires a modern sender; with a
    /// classic one it is [`Self::On`].
    AccurateAccept,
}

/// Use of the option of accurate ECN, which reports numbers of bytes (RFC 9768 §3.2.3; `net.ipv4.tcp_ecn_option`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EcnOption {
    /// Not sent. That of the peer is evaluated.
    Off,
    /// After changes of the ECN field, and [`CommonConfig::ecn_option_beacon`] times in a round trip.
    Minimum,
    /// In every segment with space for it, unless segments with it are lost.
    Full,
    /// In every segment with space for it.
    Persistent,
}

/// Congestion control of acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckCongestion {
    /// Acknowledgments leave according to [`ReceiverConfig::delayed_ack`](super::ReceiverConfig::delayed_ack),
    /// regardless of the number of lost ones.
    Off,
    /// RFC 5690, if the peer supports it: the sender detects lost or marked acknowledgments, and tells the receiver how
    /// many segments to cover by one. If ECN is negotiated, pure acknowledgments are ECN-capable.
    Rfc5690,
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
    /// Returns whether the switch is [`Switch::On`].
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

/// Probe of a closed window (RFC 9293 §3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowProbe {
    /// The next byte. The peer refuses the byte, so it is retransmitted later.
    Byte,
    /// A segment without data, with the number before the next one: the peer refuses it and acknowledges (Linux
    /// `tcp_xmit_probe_skb`).
    Empty,
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

/// Settings of both halves of an endpoint, and of either sender. Sizes are in bytes of payload, times as their type
/// says.
#[derive(Clone, PartialEq, Debug)]
pub struct CommonConfig {
    /// Maximum payload of a segment.
    pub mss: u32,
    /// Size of the send buffer.
    pub send_buffer: u32,
    /// Offers timestamps and uses them for round-trip samples (RFC 7323 §3, §4).
    pub timestamps: Switch,
    /// Rule for rejecting segments by timestamps.
    pub paws: PawsRule,
    /// Header bytes that count.
    pub headers: HeaderAccounting,
    /// SACK and ELN coupled (\[a\] future work): the receiver reports corruption, and a sender with
    /// [`ClassicRecovery::Sack`](super::ClassicRecovery::Sack) does not reduce its window for losses marked as such.
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
    /// Use of ECN: queues may mark packets instead of dropping them.
    pub ecn: EcnMode,
    /// Use of the option of accurate ECN.
    pub ecn_option: EcnOption,
    /// Minimum number of options in a round trip under [`EcnOption::Minimum`] (`net.ipv4.tcp_ecn_option_beacon`).
    pub ecn_option_beacon: u8,
    /// Does without ECN if SYNs that offer it are lost, or if the path changes the ECN field of a SYN
    /// (`net.ipv4.tcp_ecn_fallback`).
    pub ecn_fallback: Switch,
    /// Congestion control of acknowledgments. [`AckCongestion::Rfc5690`] requires
    /// [`DelayedAck::EverySecond`](super::DelayedAck::EverySecond), whose number of segments per acknowledgment it
    /// determines, and is not offered without.
    pub ack_congestion: AckCongestion,
    /// Initial congestion window, in segments.
    pub initial_window: u32,
    /// Initial slow-start threshold; `None` uses the send buffer (ns-2: `window_`).
    pub initial_ssthresh: Option<u32>,
    /// Maximum congestion window.
    pub max_cwnd: u32,
    /// Number of duplicate acknowledgments that start fast retransmit.
    pub dupack_threshold: u32,
    /// Slow start after an idle period of one timeout (RFC 5681 §4.1).
    pub idle_restart: Switch,
    /// Condition under which segments smaller than the mss wait.
    pub nagle: Nagle,
    /// Acknowledgment of the peer's SYN by the initiator.
    pub handshake_ack: HandshakeAck,
    /// Probe of a closed window.
    pub window_probe: WindowProbe,
    /// Time for which a closed connection waits for stray segments (RFC 9293: 2 MSL).
    pub time_wait: Duration,
}
