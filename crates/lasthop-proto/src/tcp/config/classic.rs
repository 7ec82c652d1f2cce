//! Settings of the classic sender.

use super::Switch;
use crate::time::Duration;

/// Algorithm by which the classic sender detects and repairs losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassicRecovery {
    /// Fast retransmit and fast recovery (RFC 5681 §3.2), as in 4.4BSD.
    Reno,
    /// Partial acknowledgments repair further losses (RFC 6582).
    NewReno,
    /// Every acknowledgment names the segment that caused it (\[a\] §III-B).
    Smart,
    /// Selective acknowledgments (RFC 2018); the algorithm is [`ClassicConfig::sack_algorithm`].
    Sack,
    /// NewReno that does not reduce its window for losses marked as corruption (\[a\] §III-B).
    Eln,
    /// [`ClassicRecovery::Eln`] that acts on the first marked duplicate acknowledgment.
    ElnRxmt,
}

impl ClassicRecovery {
    /// Returns whether the sender reacts to corruption reported by the peer (ELN), and reports it itself.
    pub const fn uses_eln(self) -> bool {
        matches!(self, Self::Eln | Self::ElnRxmt)
    }
}

/// Algorithm of [`ClassicRecovery::Sack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackAlgorithm {
    /// Fall and Floyd's "Sack1" (ns-2): a `pipe` counted by arriving acknowledgments.
    Sack1,
    /// RFC 6675: `pipe` computed from the scoreboard, with rescue retransmission.
    Rfc6675,
}

/// Effect on the duplicate count of an acknowledgment without new information that is not a duplicate (it has data,
/// moves the window, or arrives while the timer is off).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImpureDuplicates {
    /// None.
    Ignored,
    /// Resets the count to zero, as an older acknowledgment does (4.4BSD `tcp_input`).
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

    /// Returns whether the rule is one of 4.4BSD's: any acknowledgment of new data opens the window, including one that
    /// ends a recovery.
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
    /// One for each window of data: none while data that was outstanding at the last recovery or timeout is
    /// unacknowledged. [`RecoveryGuard::Careful`] requires one byte more.
    OncePerWindow,
    /// ns-2: [`RecoveryGuard::Careful`], but not before the first data is acknowledged (`bugfix_ss_`).
    Ns2,
}

/// Effect of a partial acknowledgment on the retransmission timer (RFC 6582 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialAckTimer {
    /// Only the first partial acknowledgment restarts the timer.
    Impatient,
    /// Each partial acknowledgment restarts the timer.
    SlowButSteady,
}

/// Settings of the classic sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClassicConfig {
    /// Detection and repair of losses.
    pub recovery: ClassicRecovery,
    /// Algorithm of [`ClassicRecovery::Sack`].
    pub sack_algorithm: SackAlgorithm,
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
    /// SMART: round trip after which a retransmitted hole that still exists is retransmitted again. With `None` a lost
    /// retransmission waits for the timer, as in the study (\[a\] §III-B).
    pub smart_rtt: Option<Duration>,
}
