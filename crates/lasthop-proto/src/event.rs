//! What a state machine reports beside the packets it sends. Packets say themselves why they were sent
//! ([`crate::packet::Cause`]), so events are only what a tap on the wire cannot see.

use crate::packet::Side;
use crate::seq::Seq;

/// Something that happened inside a node. Figures, tables, traces and metrics derive from these, the same way in all
/// drivers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// The connection can carry data.
    Established,
    /// The peer has sent all it had; the stream up to here was delivered.
    PeerClosed,
    /// Both directions are finished.
    Closed,
    /// The connection was torn down by a reset, or given up.
    Aborted,
    /// The retransmission timer expired ("coarse timeout").
    Timeout {
        /// The lowest unacknowledged byte.
        seq: Seq,
    },
    /// Loss recovery began by duplicate acknowledgments, SACK, SMART or ELN.
    RecoveryEntered {
        /// The lowest unacknowledged byte.
        seq: Seq,
    },
    /// Loss recovery ended.
    RecoveryLeft {
        /// The acknowledgment that ended it.
        ack: Seq,
    },
    /// A tail-loss probe is sent ahead of the timeout (RFC 8985 §7).
    TailProbe {
        /// Its first byte.
        seq: Seq,
    },
    /// A reduction of the window was for nothing, and is taken back.
    Undone {
        /// How that is known.
        why: Spurious,
    },
    /// The congestion window changed; reported only where it is watched.
    Window {
        /// Congestion window in bytes, inflation included.
        cwnd: u32,
        /// Slow-start threshold in bytes.
        ssthresh: u32,
    },
    /// The sender's window is closed and it is probing.
    ZeroWindow,
    /// A TCP-aware hop kept a duplicate acknowledgment from the sender.
    DupAckSuppressed {
        /// Its acknowledgment number.
        ack: Seq,
    },
    /// A TCP-aware hop dropped an acknowledgment older than the last, or data acknowledged before.
    Absorbed {
        /// The number that made it old.
        seq: Seq,
    },
    /// A TCP-aware hop marked an acknowledgment with ELN.
    ElnMarked {
        /// Its acknowledgment number.
        ack: Seq,
    },
    /// A TCP-aware hop made an acknowledgment that a return link took (RFC 3449 §5.3.1).
    AckReconstructed {
        /// Its acknowledgment number.
        ack: Seq,
    },
    /// A radio found that a segment did not come over its hop, and says why (`docs/models/wireless-chain.md`).
    LossJudged {
        /// The end that sent it.
        from: Side,
        /// Its first byte.
        seq: Seq,
        /// What is held to have taken it.
        cause: LossCause,
    },
    /// A TCP-aware hop gave up its state for this flow to stay within its memory.
    Evicted,
}

/// What takes a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossCause {
    /// The channel: it was damaged on the air.
    Corruption,
    /// A queue: there was no room for it.
    Congestion,
}

/// How it is known that nothing was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spurious {
    /// The peer had every retransmission twice (RFC 3708).
    Duplicates,
    /// The peer echoes timestamps older than the retransmission (RFC 4015).
    Timestamps,
    /// After a timeout something arrived that was never sent again (RFC 5682).
    Frto,
}

impl Spurious {
    /// A stable lower-case name for the undoing, used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duplicates => "undone-by-duplicates",
            Self::Timestamps => "undone-by-timestamps",
            Self::Frto => "undone-by-frto",
        }
    }
}

impl Event {
    /// A stable lower-case name, used in traces.
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
