//! State of a connection for tools, with the names of Linux's `struct tcp_info`.

mod fields;

pub use self::fields::{Fields, NAMES, word};

use super::congestion::control::CaState;
use super::state::State;
use super::stream::Stream;
use crate::time::Duration;

/// State of a connection at one moment. Fields are named after those of Linux's `struct tcp_info`, without the prefix
/// `tcpi_`. Windows and counts are in segments unless the name says bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpInfo {
    /// State of the connection.
    pub state: State,
    /// Indicates whether the sender keeps a scoreboard of its segments. The classic sender does not: its state of loss
    /// recovery and its counts of segments other than `unacked` are unknown, and have their initial values here.
    pub has_scoreboard: bool,
    /// State of loss recovery.
    pub ca_state: CaState,
    /// Options in use.
    pub options: OptionsInfo,
    /// Segments in flight.
    pub flight: FlightInfo,
    /// Receiving half.
    pub receiver: ReceiverInfo,
    /// Consecutive timeouts without progress.
    pub retransmits: u32,
    /// Window probes without an answer.
    pub probes: u32,
    /// Exponent of the timeout's backoff.
    pub backoff: u32,
    /// Retransmission timeout, backoff included.
    pub rto: Duration,
    /// Payload of a full segment to the peer, in bytes.
    pub snd_mss: u32,
    /// Smoothed round trip; zero before the first sample.
    pub rtt: Duration,
    /// Mean deviation of the round trip.
    pub rttvar: Duration,
    /// Minimum round trip of the last minutes; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Slow-start threshold; `None` if there is none.
    pub snd_ssthresh: Option<u32>,
    /// Congestion window.
    pub snd_cwnd: u32,
    /// Maximum reordering seen.
    pub reordering: u32,
    /// Segments retransmitted since the start.
    pub total_retrans: u64,
    /// Segments that the peer reported as duplicates.
    pub dsack_dups: u64,
    /// Segments delivered since the start, the SYN included.
    pub delivered: u64,
    /// State of accurate ECN.
    pub accurate: AccurateInfo,
    /// Rate, in bytes per second, at which segments are paced, or would be if the control does not pace.
    pub pacing_rate: u64,
    /// Window of the peer, in bytes.
    pub snd_wnd: u32,
    /// Sequence numbers acknowledged by the peer: bytes, the FIN, and the SYN of the end that connects, as in Linux
    /// (`tcp_snd_una_update`).
    pub bytes_acked: u64,
    /// Bytes written and not sent yet.
    pub notsent_bytes: u64,
}

/// Options in use on a connection (`tcpi_options`), and shifts of windows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OptionsInfo {
    /// On if both ends use timestamps (`TCPI_OPT_TIMESTAMPS`).
    pub timestamps: bool,
    /// On if both ends use selective acknowledgments (`TCPI_OPT_SACK`).
    pub sack: bool,
    /// On if both ends scale windows (`TCPI_OPT_WSCALE`).
    pub wscale: bool,
    /// On if both ends use ECN (`TCPI_OPT_ECN`).
    pub ecn: bool,
    /// On if the peer has sent an ECN-capable packet (`TCPI_OPT_ECN_SEEN`).
    pub ecn_seen: bool,
    /// Shift of the windows that the peer advertises.
    pub snd_wscale: u8,
    /// Shift of the windows that this end advertises.
    pub rcv_wscale: u8,
}

/// State of accurate ECN; zero without it. Bytes are those with ECT(1), ECT(0) and CE.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AccurateInfo {
    /// On if both ends have negotiated it.
    pub is_used: bool,
    /// Packets that the peer reported as marked.
    pub delivered_ce: u32,
    /// Marked packets that arrived.
    pub received_ce: u32,
    /// Bytes that the peer reported as delivered.
    pub delivered_bytes: [u32; 3],
    /// Bytes that arrived.
    pub received_bytes: [u32; 3],
    /// Failures of the path (`tcpi_accecn_fail_mode`): 1, no ECN-capable packets, because a SYN-ACK without
    /// the flags has left; 2, neither these nor the peer's counts, because the path changes ECN fields or flags; 4, this
    /// end's option; 8, the peer's option.
    pub failures: u8,
    /// Options that arrived (`tcpi_accecn_opt_seen`): 0, none; 1, without counters; 2, with counters; 3, invalid.
    pub option_seen: u8,
}

/// Segments in flight.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlightInfo {
    /// Segments sent and not acknowledged (`packets_out`).
    pub unacked: u32,
    /// Segments of `unacked` that were selectively acknowledged.
    pub sacked: u32,
    /// Segments of `unacked` that are declared lost.
    pub lost: u32,
    /// Segments of `unacked` of which a retransmission is in flight.
    pub retrans: u32,
}

/// State of the receiving half.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiverInfo {
    /// Delay of acknowledgments; zero if the receiver does not adapt it.
    pub ato: Duration,
    /// Payload of a full segment from the peer, in bytes; 0 if the receiver does not estimate it.
    pub rcv_mss: u32,
    /// Maximum window that the receiver offers at present (`rcv_ssthresh`), in bytes; 0 if it is not auto-tuned.
    pub rcv_ssthresh: u32,
    /// Receiver's estimate of the round trip; `None` without one.
    pub rcv_rtt: Option<Duration>,
    /// Window offered to the peer, in bytes.
    pub rcv_wnd: u32,
    /// Bytes received in order, and the FIN, as in Linux (`tcp_rcv_nxt_update`).
    pub bytes_received: u64,
}

impl TcpInfo {
    /// Returns the values that the stream knows, with zero for those of a sender.
    pub(super) fn of(state: State, s: &Stream) -> Self {
        Self {
            state,
            has_scoreboard: false,
            ca_state: CaState::Open,
            options: OptionsInfo::default(),
            flight: FlightInfo { unacked: s.flight_segments(), ..FlightInfo::default() },
            receiver: ReceiverInfo::default(),
            retransmits: s.retries(),
            probes: s.unanswered_probes(),
            backoff: s.rtt().backoff().ilog2(),
            rto: s.rtt().rto(),
            snd_mss: s.mss(),
            rtt: s.rtt().srtt().unwrap_or(Duration::ZERO),
            rttvar: s.rtt().deviation(),
            min_rtt: None,
            snd_ssthresh: None,
            snd_cwnd: 0,
            reordering: s.config().dupack_threshold,
            total_retrans: 0,
            dsack_dups: 0,
            delivered: u64::from(!s.is_opening()),
            accurate: AccurateInfo {
                delivered_ce: s.feedback().map_or(0, |feedback| feedback.marked),
                ..AccurateInfo::default()
            },
            pacing_rate: 0,
            snd_wnd: s.snd_wnd(),
            bytes_acked: s.pos(s.snd_una()),
            notsent_bytes: (1 + s.queued()).saturating_sub(s.pos(s.snd_nxt())),
        }
    }
}
