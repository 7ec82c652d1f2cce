//! Counts of a direction: losses by cause, retransmissions, closed windows.

use serde::Serialize;

use super::LossReport;
use crate::half::{Half, Window};
use crate::loss::{Needless, Repair};
use crate::verdict::Cause;

/// Lost packets by cause.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Causes {
    /// Lost packets.
    pub lost: u64,
    /// Of these, packets lost to corruption.
    pub corruption: u64,
    /// Of these, packets lost to congestion: dropped by a full or managed queue.
    pub congestion: u64,
    /// Of these, all others: policed, larger than the path MTU, or of unknown cause.
    pub unknown: u64,
    /// Of the others, packets that a policer dropped.
    pub policed: u64,
    /// Of the others, packets that exceeded the path MTU without a report to the sender.
    pub path_mtu: u64,
    /// Rate of the policer in bits of IP packets per second.
    pub policer_bps: Option<f64>,
    /// Losses beyond the limit, which were not judged.
    pub unjudged: u64,
}

impl Causes {
    /// Counts judged losses; `policers` are the rates of the policers before and beyond the capture.
    pub(super) fn of(half: &Half, policers: [Option<f64>; 2], losses: &[LossReport]) -> Self {
        let packets = |losses: &mut dyn Iterator<Item = &LossReport>| {
            losses.filter(|loss| loss.needless.is_none()).map(|loss| half.rounds.packets(loss.bytes)).sum()
        };
        let count = |cause: Cause| -> u64 { packets(&mut losses.iter().filter(|loss| loss.verdict.cause == cause)) };
        let (policed, path_mtu) = (count(Cause::Policed), count(Cause::PathMtu));
        Self {
            lost: packets(&mut losses.iter()),
            corruption: count(Cause::Corruption),
            congestion: count(Cause::Congestion),
            unknown: count(Cause::Unknown) + policed + path_mtu,
            policed,
            path_mtu,
            policer_bps: policers.into_iter().flatten().min_by(f64::total_cmp).filter(|_| policed > 0),
            unjudged: half.losses.left_out(),
        }
    }
}

/// Retransmissions and timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Retransmissions {
    /// Retransmissions of data that the capture had seen.
    pub retransmissions: u64,
    /// Of these, needless ones.
    pub needless: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Of these, timeouts without a loss.
    pub needless_timeouts: u64,
}

impl Retransmissions {
    pub(super) fn of(half: &Half, losses: &[LossReport]) -> Self {
        let timeouts = |all: bool| {
            let timeout = |loss: &&LossReport| loss.repair == Repair::Timeout && (all || loss.needless.is_some());
            // After a timeout, the sender retransmits more than one packet.
            let mut last = 0;
            losses
                .iter()
                .filter(timeout)
                .filter(|loss| std::mem::replace(&mut last, loss.repaired_by) != loss.repaired_by)
                .count() as u64
        };
        let is_needless = |loss: &&LossReport| loss.needless.is_some_and(|why| why != Needless::Overtaken);
        let needless = losses.iter().filter(is_needless);
        Self {
            retransmissions: half.counts.retransmissions,
            needless: half.counts.repeated + needless.map(|loss| half.rounds.packets(loss.bytes)).sum::<u64>(),
            timeouts: timeouts(true),
            needless_timeouts: timeouts(false),
        }
    }
}

/// Closed windows, and packets beyond them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct WindowCounts {
    /// Number of times that the receiver closed its window.
    pub zero_windows: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Packets that arrived beyond the receiver's window, were discarded there, and were retransmitted.
    pub discarded: u64,
    /// Of these, packets that arrived while the window was closed.
    pub discarded_closed: u64,
}

impl WindowCounts {
    pub(super) const fn of(window: &Window) -> Self {
        Self {
            zero_windows: window.closings,
            window_probes: window.probes,
            keep_alives: window.keep_alives,
            discarded: window.discarded,
            discarded_closed: window.discarded_closed,
        }
    }
}
