//! Statistics of the relay, readable from other threads while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lasthop_proto::random::Stream;
use lasthop_sys::tcp::TcpInfo;

use super::Side;
use crate::engine::rules::MEASURED_BYTES;
use crate::family::Family;
use lasthop_daemon::ab::{ArmReport, Reservoir};

/// Counters of one side.
#[derive(Debug, Default)]
pub struct SideCounters {
    bytes: AtomicU64,
    retransmissions: AtomicU64,
    rtt_sum: AtomicU64,
    rtt_samples: AtomicU64,
}

/// Shared counters; all but `open` only increase.
#[derive(Debug, Default)]
pub struct SplitCounters {
    open: AtomicU64,
    total: AtomicU64,
    refused: AtomicU64,
    aborted: AtomicU64,
    full: AtomicU64,
    passed: AtomicU64,
    turns: AtomicU64,
    /// Connections whose far side has answered, by IP version.
    answered: [AtomicU64; 2],
    wired: SideCounters,
    wireless: SideCounters,
    /// Goodputs over the lossy hop of connections that have ended, by rule.
    goodputs: Mutex<BTreeMap<usize, Reservoir>>,
}

/// Snapshot of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SplitSnapshot {
    /// Open connections, including those whose far side has not answered yet.
    pub open: u64,
    /// Connections accepted since the start.
    pub total: u64,
    /// Accepted connections that were reset because their far side could not be reached.
    pub refused: u64,
    /// Accepted connections ended by a reset, a dead peer or the end of the relay.
    pub aborted: u64,
    /// Number of times that the relay stopped accepting because it was full.
    pub full: u64,
    /// SYNs of connections forwarded unsplit: a limit, in total or for their client, was reached, or they have an
    /// option that only the called end can answer (TCP-MD5, TCP-AO, a subflow of Multipath TCP).
    pub passed: u64,
    /// The wired side.
    pub wired: SideSnapshot,
    /// The wireless side.
    pub wireless: SideSnapshot,
}

/// Snapshot of one side's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SideSnapshot {
    /// Bytes passed to the kernel for this side.
    pub bytes: u64,
    /// Segments that the gateway retransmitted on this side, for connections that have ended.
    pub retransmissions: u64,
    /// Mean of the last smoothed round-trip time between gateway and peer, over the connections that have ended.
    pub mean_rtt: Option<Duration>,
}

impl SplitCounters {
    const fn side(&self, side: Side) -> &SideCounters {
        match side {
            Side::Wired => &self.wired,
            Side::Wireless => &self.wireless,
        }
    }

    /// Counts an iteration of the relay's loop.
    pub(super) fn turned(&self) {
        self.turns.fetch_add(1, Relaxed);
    }

    /// Returns the number of iterations of the relay's loop: at least ten per second while it is healthy.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// Returns all counters; each is exact. Counts of closed connections are consistent; the rest may be from slightly
    /// different moments.
    pub fn snapshot(&self) -> SplitSnapshot {
        SplitSnapshot {
            // First, and paired with the release in `ended`: a connection that is no longer open is in the other
            // counters.
            open: self.open.load(Acquire),
            total: self.total.load(Relaxed),
            refused: self.refused.load(Relaxed),
            aborted: self.aborted.load(Relaxed),
            full: self.full.load(Relaxed),
            passed: self.passed.load(Relaxed),
            wired: self.wired.snapshot(),
            wireless: self.wireless.snapshot(),
        }
    }

    /// Counts a connection whose far side has answered.
    pub(super) fn answered(&self, family: Family) {
        self.answered[family as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of connections whose far side has answered.
    pub fn answered_so_far(&self, family: Family) -> u64 {
        self.answered[family as usize].load(Relaxed)
    }

    pub(super) fn accepted(&self) {
        self.total.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self, end: End) {
        match end {
            End::Complete => 0,
            End::Refused => self.refused.fetch_add(1, Relaxed),
            End::Aborted => self.aborted.fetch_add(1, Relaxed),
        };
        self.open.fetch_sub(1, Release);
    }

    pub(super) fn full(&self) {
        self.full.fetch_add(1, Relaxed);
    }

    /// Counts a SYN that was forwarded although it matched a splitting rule.
    pub fn passed(&self) {
        self.passed.fetch_add(1, Relaxed);
    }

    pub(super) fn moved(&self, to: Side, bytes: u64) {
        self.side(to).bytes.fetch_add(bytes, Relaxed);
    }

    /// Records the goodput of an ended connection of that rule from the kernel's report on its lossy side, if enough
    /// bytes were acknowledged.
    pub(super) fn measured(&self, rule: usize, report: TcpInfo, random: &mut Stream) {
        if report.acknowledged < MEASURED_BYTES || report.busy_micros == 0 {
            return;
        }
        let goodput = report.acknowledged as f64 * 1e6 / report.busy_micros as f64;
        let mut goodputs = self.goodputs.lock().unwrap_or_else(PoisonError::into_inner);
        goodputs.entry(rule).or_default().push(goodput, random);
    }

    /// Returns the goodputs of that rule's ended connections, in bytes per second of the time in which data was
    /// outstanding.
    pub fn goodputs(&self, rule: usize) -> ArmReport {
        let goodputs = self.goodputs.lock().unwrap_or_else(PoisonError::into_inner);
        goodputs.get(&rule).map(ArmReport::of).unwrap_or_default()
    }

    pub(super) fn report(&self, side: Side, report: TcpInfo) {
        let side = self.side(side);
        side.retransmissions.fetch_add(report.retransmissions, Relaxed);
        if report.rtt_micros > 0 {
            side.rtt_sum.fetch_add(report.rtt_micros, Relaxed);
            side.rtt_samples.fetch_add(1, Relaxed);
        }
    }
}

impl SideCounters {
    fn snapshot(&self) -> SideSnapshot {
        let samples = self.rtt_samples.load(Relaxed);
        SideSnapshot {
            bytes: self.bytes.load(Relaxed),
            retransmissions: self.retransmissions.load(Relaxed),
            mean_rtt: (samples > 0).then(|| Duration::from_micros(self.rtt_sum.load(Relaxed) / samples)),
        }
    }
}

/// Reason for the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Both ends closed the connection.
    Complete,
    /// The far side could not be reached.
    Refused,
    /// All other cases.
    Aborted,
}
