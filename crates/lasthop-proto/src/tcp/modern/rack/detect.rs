//! Loss detection by time (RFC 8985 §6.2). A segment is lost when one sent after it was delivered, and a round trip
//! plus the reordering window has passed since it was sent.

use crate::seq::Seq;
use crate::tcp::congestion::control::CaState;
use crate::tcp::modern::flight::{Flight, Index, Sent};
use crate::time::{Duration, Instant};

/// Maximum reordering degree accepted (Linux `tcp_max_reordering`).
const MOST_REORDERING: u32 = 300;
/// Number of recoveries without a duplicate SACK after which the reordering window shrinks again (RFC 8985 §6.2 step
/// 4).
const PERSISTENCE: u8 = 16;

/// The delivered segment that was sent last.
#[derive(Clone, Copy, Default, Debug)]
pub struct Newest {
    sent_at: Instant,
    end: Seq,
    /// Round trip of the last delivery.
    rtt: Duration,
    /// True if anything was delivered since the last loss detection.
    advanced: bool,
}

impl Newest {
    /// Records that `sent` is delivered. A round trip shorter than the minimum shows that the original arrived (step
    /// 2).
    pub fn advance(&mut self, now: Instant, sent: &Sent, min_rtt: Option<Duration>) {
        let rtt = now.since(sent.sent_at());
        if sent.is_repeated() && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if sent.is_after(self.sent_at, self.end) {
            (self.sent_at, self.end) = (sent.sent_at(), sent.end());
        }
    }

    /// Forces loss detection, regardless of deliveries.
    pub fn force(&mut self) {
        self.advanced = true;
    }

    /// Returns whether losses have to be detected, once.
    pub fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.advanced)
    }

    fn is_after(&self, sent: &Sent) -> bool {
        self.sent_at > sent.sent_at() || self.sent_at == sent.sent_at() && self.end.gt(sent.end())
    }

    /// Returns the time for which `sent` may still be in flight.
    pub fn patience(&self, now: Instant, sent: &Sent, reordering: Duration) -> Duration {
        (self.rtt + reordering).saturating_sub(now.since(sent.sent_at()))
    }
}

/// Applies steps 4 and 5: calls `lost` for each lost segment, which has to mark it. Returns the time after which the
/// last of those that may still arrive will be lost too.
pub fn detect(
    flight: &mut Flight,
    newest: &Newest,
    now: Instant,
    reordering: Duration,
    mut lost: impl FnMut(&mut Flight, Index),
) -> Option<Duration> {
    let mut wait = None;
    for at in 0..flight.holes(newest.sent_at, newest.end) {
        let Some(index) = flight.hole(at) else { break };
        let Some(sent) = flight.get(index) else { continue };
        if sent.is_waiting() || sent.is_judged() || !newest.is_after(sent) {
            continue;
        }
        match newest.patience(now, sent, reordering) {
            Duration::ZERO => {
                lost(flight, index);
                flight.set_judged(index);
            }
            patience => wait = wait.max(Some(patience)),
        }
    }
    wait
}

/// Observed reordering on the path.
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    /// True if any was seen.
    seen: bool,
    /// Reordering in segments: without reordering, this number of selectively acknowledged segments proves a loss.
    degree: u32,
    /// Initial value of `degree`.
    threshold: u32,
    /// Reordering window, in quarters of the shortest round trip.
    steps: u8,
    /// Number of recoveries until `steps` is reset to 1.
    persist: u8,
    /// True if a duplicate SACK shows that the last window was too small.
    dsack_seen: bool,
    /// Number of segments delivered when the window was last widened.
    widened_at: u64,
}

impl Reordering {
    /// Returns the state without observations; `threshold` segments above a hole prove its loss.
    pub fn new(threshold: u32) -> Self {
        let degree = threshold;
        Self { seen: false, degree, threshold, steps: 1, persist: 0, dsack_seen: false, widened_at: 0 }
    }

    /// Returns whether this number of duplicates proves a loss.
    pub const fn is_reached(&self, duplicates: u32) -> bool {
        duplicates >= self.degree
    }

    /// Records more duplicates than the `out` outstanding segments, which may therefore be reordered. The degree may
    /// become smaller (Linux `tcp_check_reno_reordering`).
    pub fn on_surplus(&mut self, out: u32) {
        self.degree = out.min(MOST_REORDERING);
        self.seen = true;
    }

    /// Returns the observed reordering degree, in segments.
    pub const fn degree(&self) -> u32 {
        self.degree
    }

    /// Returns whether more reordering was seen than the duplicate threshold allows for.
    pub const fn is_high(&self) -> bool {
        self.degree > self.threshold
    }

    /// Returns the reordering window (step 4).
    pub fn window(&self, state: CaState, sacked: u32, min_rtt: Duration, srtt: Duration) -> Duration {
        let certain = matches!(state, CaState::Recovery | CaState::Loss) || sacked >= self.degree;
        if !self.seen && certain {
            return Duration::ZERO;
        }
        ((min_rtt / 4) * u64::from(self.steps)).min(srtt)
    }

    /// Records that a segment at `low`, sent once, was delivered after one that ends at `highest` (step 3).
    pub fn on_reordered(&mut self, low: Seq, highest: Seq, mss: u32) {
        if !low.lt(highest) {
            return;
        }
        let degree = highest.since(low).div_ceil(mss.max(1));
        self.degree = self.degree.max(degree.min(MOST_REORDERING));
        self.seen = true;
    }

    /// Records a duplicate SACK that is not for a probe.
    pub fn on_duplicate(&mut self) {
        self.dsack_seen |= self.seen;
    }

    /// Processes an acknowledgment of a segment sent when `prior` segments had been delivered: widens the window once
    /// per round trip if it was too small.
    pub fn on_ack(&mut self, prior: u64, delivered: u64) {
        if prior < self.widened_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = self.steps.saturating_add(1);
            self.dsack_seen = false;
            self.widened_at = delivered;
            self.persist = PERSISTENCE;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Records the end of a recovery that was justified.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// Records that a recovery turned out to be spurious.
    pub fn on_undone(&mut self) {
        self.persist = (self.persist + 1).min(PERSISTENCE);
    }

    /// Records a timeout despite duplicates: the degree was overestimated.
    pub fn on_timeout(&mut self, sacked: u32) {
        if sacked >= self.threshold {
            self.degree = self.degree.min(self.threshold);
        }
    }
}
