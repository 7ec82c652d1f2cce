//! Events that a state machine reports besides the packets it sends. Packets carry the reason for which they were sent
//! ([`crate::packet::Cause`]), so events cover only what an observer on the wire cannot see.

use crate::packet::Side;
use crate::seq::Seq;

/// Something that happened inside a node. Figures, tables, traces and metrics derive from events, in the same way in
/// all drivers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The connection can carry data.
    Established,
    /// The peer has finished sending; the stream up to here was delivered.
    PeerClosed,
    /// Both directions are finished.
    Closed,
    /// The connection was reset or given up.
    Aborted,
    /// The retransmission timer expired ("coarse timeout").
    Timeout {
        /// Lowest unacknowledged byte.
        seq: Seq,
    },
    /// Loss recovery began by duplicate acknowledgments, SACK, SMART or ELN.
    RecoveryEntered {
        /// Lowest unacknowledged byte.
        seq: Seq,
    },
    /// Loss recovery ended.
    RecoveryLeft {
        /// Acknowledgment that ended the recovery.
        ack: Seq,
    },
    /// A tail-loss probe is sent ahead of the timeout (RFC 8985 §7).
    TailProbe {
        /// First byte of the probe.
        seq: Seq,
    },
    /// A spurious reduction of the window is undone.
    Undone {
        /// Evidence that the reduction was spurious.
        why: Spurious,
    },
    /// The congestion window changed; reported only if it is watched.
    Window {
        /// Congestion window in bytes, inflation included.
        cwnd: u32,
        /// Slow-start threshold in bytes.
        ssthresh: u32,
    },
    /// The sender's window is closed and it is probing.
    ZeroWindow,
    /// A TCP-aware hop suppressed a duplicate acknowledgment.
    DupAckSuppressed {
        /// Acknowledgment number of the packet.
        ack: Seq,
    },
    /// A TCP-aware hop dropped an acknowledgment older than the last, or data acknowledged before.
    Absorbed {
        /// Acknowledgment number that makes the packet old.
        seq: Seq,
    },
    /// A TCP-aware hop marked an acknowledgment with ELN.
    ElnMarked {
        /// Acknowledgment number of the packet.
        ack: Seq,
    },
    /// A TCP-aware hop reconstructed an acknowledgment lost on a return link (RFC 3449 §5.3.1).
    AckReconstructed {
        /// Acknowledgment number of the packet.
        ack: Seq,
    },
    /// A radio found that a segment was lost on its hop, and determined the cause (`docs/models/wireless-chain.md`).
    LossJudged {
        /// End that sent the segment.
        from: Side,
        /// First byte of the segment.
        seq: Seq,
        /// Inferred cause of the loss.
        cause: LossCause,
    },
    /// A TCP-aware hop dropped its state of this flow to stay within its memory limit.
    Evicted,
}

/// Cause of a packet loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossCause {
    /// The channel: the packet was corrupted on the air.
    Corruption,
    /// A queue: there was no space for the packet.
    Congestion,
}

/// Evidence that nothing was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spurious {
    /// The peer received every retransmission twice (RFC 3708).
    Duplicates,
    /// The peer echoes timestamps older than the retransmission (RFC 4015).
    Timestamps,
    /// After a timeout, data arrived that was never retransmitted (RFC 5682).
    Frto,
}

impl Spurious {
    /// Returns a stable lower-case name of the undoing, used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duplicates => "undone-by-duplicates",
            Self::Timestamps => "undone-by-timestamps",
            Self::Frto => "undone-by-frto",
        }
    }
}

impl Event {
    /// Returns a stable lower-case name, used in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::PeerClosed => "peer-closed",
            Self::Closed => "closed",
            Self::Aborted => "aborted",
            Self::Timeout { .. } => "timeout",
            Self::RecoveryEntered { .. } => "recovery-entered",
            Self::RecoveryLeft { .. } => "recovery-left",
            Self::TailProbe { .. } => "tail-probe",
            Self::Undone { why } => why.name(),
            Self::Window { .. } => "window",
            Self::ZeroWindow => "zero-window",
            Self::DupAckSuppressed { .. } => "dupack-suppressed",
            Self::Absorbed { .. } => "absorbed",
            Self::ElnMarked { .. } => "eln-marked",
            Self::AckReconstructed { .. } => "ack-reconstructed",
            Self::LossJudged { cause: LossCause::Corruption, .. } => "held-corrupted",
            Self::LossJudged { cause: LossCause::Congestion, .. } => "held-congested",
            Self::Evicted => "evicted",
        }
    }
}
