//! Switch of a flow: its cases must end in repairs, otherwise its acknowledgments do not mean what is assumed.

use super::counts::{Counts, Reason};
use crate::time::{Duration, Instant};

/// Number of cases that are judged together.
const CASES: u32 = 20;
/// Number of repairs among them for which the flow stays under repair.
const LEAST_REPAIRED: u32 = 6;
/// Number of datagrams for that many cases below which the hop reorders, or loses too much.
const LEAST_SENT: u64 = 320;
/// Number of cases closed by reordered datagrams at which the flow passes, if they outnumber repairs.
const MOST_REORDERED: u32 = 5;
/// Time for which a flow passes after its first failure. It is four times longer after each further one.
const PASS: Duration = Duration::from_secs(1);
/// Number of failures without a success between them after which a flow passes for good.
const MOST_FAILURES: u32 = 4;

/// Results of a flow's cases.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Judge {
    cases: u32,
    repaired: u32,
    reordered: u32,
    failures: u32,
    /// Datagrams sent to the hop before the first of the cases.
    since: u64,
    until: Option<Instant>,
    for_good: bool,
}

impl Judge {
    /// Returns whether cases may be opened.
    pub fn permits(&self, now: Instant) -> bool {
        !self.for_good && self.until.is_none_or(|until| now >= until)
    }

    /// Opens no cases for some time.
    pub fn pause(&mut self, until: Instant) {
        self.until = Some(self.until.map_or(until, |own| own.max(until)));
    }

    /// Never opens a case again: the client acknowledges too rarely.
    pub const fn stop(&mut self, counts: &mut Counts) {
        if !self.for_good {
            counts.count(Reason::RareAcks);
        }
        self.for_good = true;
    }

    /// Records a case whose gap was a reordered datagram.
    pub fn record_reordering(&mut self, now: Instant, sent: u64, counts: &mut Counts) {
        self.reordered += 1;
        if self.reordered >= MOST_REORDERED && self.reordered > self.repaired {
            self.fail(now, Reason::Reordering, counts);
        } else {
            self.record(now, false, sent, counts);
        }
    }

    fn fail(&mut self, now: Instant, reason: Reason, counts: &mut Counts) {
        counts.count(reason);
        self.failures += 1;
        self.for_good |= self.failures >= MOST_FAILURES;
        self.pause(now + PASS * (1 << (2 * self.failures.min(MOST_FAILURES) - 2)));
        (self.cases, self.repaired, self.reordered) = (0, 0, 0);
    }

    /// Records the result of a case, at which `sent` datagrams had been sent to the hop. Returns whether none of the
    /// first half was repaired, so that the estimates behind them are to be made anew.
    pub fn record(&mut self, now: Instant, repaired: bool, sent: u64, counts: &mut Counts) -> bool {
        self.cases += 1;
        self.repaired += u32::from(repaired);
        if self.cases >= CASES {
            if self.repaired < LEAST_REPAIRED {
                self.fail(now, Reason::Unconfirmed, counts);
            } else if sent.saturating_sub(self.since) < LEAST_SENT {
                self.fail(now, Reason::Frequent, counts);
            } else {
                self.failures = 0;
            }
            (self.cases, self.repaired, self.reordered, self.since) = (0, 0, 0, sent);
        }
        self.cases == CASES / 2 && self.repaired == 0
    }
}
