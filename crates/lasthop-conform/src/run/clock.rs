//! Times of events, with packetdrill's tolerance.

use lasthop_proto::time::{Duration, Instant};

use super::is_range;
use crate::script::Time;

/// Deviation of a time that counts as equal: the larger of a constant and a part of the time since the previous event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Tolerance {
    pub(super) least: Duration,
    pub(super) percent: f64,
}

impl Default for Tolerance {
    /// packetdrill's default: 4 ms, or an eighth, by which the timer wheel of Linux rounds.
    fn default() -> Self {
        Self { least: Duration::from_millis(4), percent: 12.5 }
    }
}

impl Tolerance {
    /// Returns the tolerance of a time `since` the previous event.
    pub(super) fn of(&self, since: Duration) -> Duration {
        let part = (since.as_nanos() as f64 * self.percent / 100.0) as u64;
        self.least.max(Duration::from_nanos(part))
    }
}

/// Virtual time of a run.
#[derive(Default)]
pub(super) struct Clock {
    pub(super) now: Instant,
    /// Time of the previous event, and whether it was an inbound segment.
    last: Option<(Instant, bool)>,
    /// Earliest and latest time of the current event; `None` at any time.
    range: Option<(Instant, Instant)>,
    /// Time from which the current event counts.
    base: Instant,
}

impl Clock {
    /// Determines the time of the next event. The times of inbound segments in a row count from each other, all
    /// others from the present.
    pub(super) fn begin(&mut self, time: Time, is_inbound: bool) {
        self.base = match (time, self.last) {
            (Time::Absolute(_) | Time::AbsoluteRange(..), _) => Instant::ZERO,
            (_, Some((last, true))) if is_inbound => last,
            _ => self.now,
        };
        let at = |duration| self.base + duration;
        self.range = match time {
            Time::Any => None,
            Time::Absolute(one) | Time::Relative(one) => Some((at(one), at(one))),
            Time::AbsoluteRange(from, to) | Time::RelativeRange(from, to) => Some((at(from), at(to))),
        };
    }

    /// Returns the time from which the current event counts.
    pub(super) fn base(&self) -> Instant {
        self.base
    }

    /// Returns the earliest time of the current event.
    pub(super) fn start(&self) -> Instant {
        self.range.map_or(self.now, |(from, _)| from)
    }

    /// Returns the latest time of the current event; `None` at any time.
    pub(super) fn latest(&self) -> Option<Instant> {
        self.range.map(|(_, to)| to)
    }

    /// Ends the current event.
    pub(super) fn end(&mut self, is_inbound: bool) {
        self.last = Some((self.start(), is_inbound));
    }

    /// Returns the expected time as text if `at` is not within the tolerance of it.
    pub(super) fn mismatch(&self, at: Instant, tolerance: &Tolerance, time: Time) -> Option<String> {
        let (from, to) = self.range?;
        let since = self.last.map_or(Duration::ZERO, |(last, _)| from.since(last));
        let tolerance = tolerance.of(since);
        if from.since(at) <= tolerance && at.since(to) <= tolerance {
            return None;
        }
        let until = if is_range(time) { format!(" to {:.6}", to.as_secs_f64()) } else { String::new() };
        Some(format!("at {:.6}{until} s (tolerance {:.6} s)", from.as_secs_f64(), tolerance.as_secs_f64()))
    }
}
