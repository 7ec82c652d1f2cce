//! State of one path between the two ends.

use super::budget::Budget;
use super::control::{Control, RateRule};
use super::detect::Detector;
use super::feedback::Account;
use super::history::History;
use super::mean::Mean;
use super::settings::Reports;
use super::tiers::{Terms, Tier};
use super::transmissions::Transmissions;
use crate::time::{Duration, Instant};

/// A path. Each path has its own packet numbers.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Terms on which both ends use the path.
    pub terms: Terms,
    /// Bytes that the hop adds to each packet.
    pub header: u16,
    pub control: Control,
    pub detector: Detector,
    pub budget: Budget,
    /// Transmissions of this end.
    pub sent: Transmissions,
    /// Arrivals from the other end.
    pub account: Account,
    /// Arrivals far behind the latest one, if there are several paths.
    pub history: History,
    /// Indicates whether the last report was on such arrivals.
    pub was_far: bool,
    /// Counts for the other end, which wrap: bytes of all frames that arrived, frames whose redundancy delivered a
    /// symbol, and packets that arrived marked.
    pub delivered: u32,
    pub useful: u32,
    pub marked: u32,
    /// First difference of the clocks at an arrival and at its transmission, in microseconds: the one-way delay, plus an
    /// offset that is the same for all paths. Wraps.
    first_delay: Option<u32>,
    /// Mean of such differences minus the first one, in microseconds.
    delay: Mean,
    /// Times to the report of transmissions, if there are several paths.
    pub report_times: ReportTimes,
    /// Last time at which the round trip was far above the shortest one.
    unsteady: Option<Instant>,
    /// Indicates that the other end has stopped answering.
    suspect: bool,
    /// Time of the last feedback on this path that was sent on it.
    own_feedback: Instant,
    /// Indicates that a probe is to be sent now.
    pub probe: bool,
}

/// Times from transmissions to the reports of their arrival, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ReportTimes {
    all: Mean,
    /// Of those that were reported before all later ones.
    in_order: Mean,
}

impl ReportTimes {
    /// Adds the time of a transmission, when transmissions up to `behind` later had been reported.
    pub fn add(&mut self, now: Instant, took: Duration, behind: u64) {
        let took = took.as_nanos() as i64;
        self.all.add(now, took);
        if behind == 0 {
            self.in_order.add(now, took);
        }
    }
}

/// Excess of the round trip over the shortest one up to which a path's delay is steady.
const STEADY: Duration = Duration::from_millis(20);

/// Time for which a path that has lost or delayed a frame is expected to do so again.
const LATELY: Duration = Duration::from_secs(30);

/// Minimum interval between reports on a path that are sent on the path itself, if another one is faster.
const OWN_FEEDBACK: Duration = Duration::from_millis(20);

impl Path {
    /// Returns a path on which nothing was sent or received.
    pub fn new(rate: RateRule, header: u16, reports: Reports) -> Self {
        Self {
            terms: Terms::default(),
            header,
            control: Control::new(rate),
            detector: Detector::new(),
            budget: Budget::new(),
            sent: Transmissions::new(),
            account: Account::new(reports),
            history: History::default(),
            was_far: false,
            delivered: 0,
            useful: 0,
            marked: 0,
            first_delay: None,
            delay: Mean::default(),
            report_times: ReportTimes::default(),
            unsteady: None,
            suspect: false,
            own_feedback: Instant::ZERO,
            probe: false,
        }
    }

    /// Allows for a scheduling delay of up to `lag`.
    pub fn tolerate(&mut self, lag: Duration) {
        self.control.pacer.tolerate(lag);
        self.detector.tolerate(lag);
    }

    /// Moves the path to other addresses, where frames have `header` bytes of headers: its round trip is unknown, and so
    /// are its delay, and its rate if that is estimated.
    pub fn move_to(&mut self, header: u16) {
        self.header = header;
        self.detector.begin_anew();
        self.control.begin_anew();
        self.report_times = ReportTimes::default();
        (self.first_delay, self.delay) = (None, Mean::default());
        (self.unsteady, self.suspect) = (None, false);
    }

    /// Returns whether the other end has stopped answering.
    pub const fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Returns whether the path may carry frames at all.
    pub fn is_on(&self) -> bool {
        self.terms.tier != Tier::Off
    }

    /// Returns whether a probe is to be sent now.
    pub fn must_probe(&self) -> bool {
        self.probe && self.is_on()
    }

    /// Returns whether the path's delay is known, and the other end answers.
    pub const fn is_proven(&self) -> bool {
        self.first_delay.is_some() && !self.suspect
    }

    /// Records that the other end does not answer.
    pub const fn on_silent(&mut self) {
        self.suspect = true;
    }

    /// Returns whether a packet that is sent on this path alone may be lost or arrive late: a frame was lost, or the delay
    /// varied, a short time ago.
    pub fn is_uncertain(&self, now: Instant) -> bool {
        let lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < LATELY);
        self.suspect || lately(self.unsteady) || lately(self.budget.last_loss())
    }

    /// Returns whether feedback on this path is to be sent on it now, and counts it as sent.
    pub fn own_feedback_due(&mut self, now: Instant, trip: Duration) -> bool {
        let is_due = now.since(self.own_feedback) >= (trip / 4).max(OWN_FEEDBACK);
        if is_due {
            self.own_feedback = now;
        }
        is_due
    }

    /// Records that a transmission at `sent` arrived at `arrived` on the other end's clock, in microseconds.
    pub fn on_delay(&mut self, now: Instant, sent: Instant, arrived: u32) {
        self.suspect = false;
        if self.detector.round_trip() > self.detector.shortest() + STEADY {
            self.unsteady = Some(now);
        }
        let sample = arrived.wrapping_sub(micros(sent));
        let first = *self.first_delay.get_or_insert(sample);
        self.delay.add(now, (sample.wrapping_sub(first) as i32).into());
    }

    /// Returns the first sample of the one-way delay plus an offset that is the same for all paths, in microseconds. Wraps.
    pub const fn first_delay(&self) -> Option<u32> {
        self.first_delay
    }

    /// Records that a coded frame received on the path was useful.
    pub fn on_useful_code(&mut self) {
        self.useful = self.useful.wrapping_add(1);
    }

    /// Returns by how much the mean one-way delay plus that offset exceeds `least` microseconds, in nanoseconds; 0 if it is
    /// unknown.
    pub fn one_way(&self, least: u32) -> i64 {
        let first = self.first_delay.map_or(0, |first| first.wrapping_sub(least) as i32);
        (i64::from(first) + self.delay.value().unwrap_or(0)) * 1_000
    }

    /// Returns by how much the mean one-way delay of all transmissions exceeds that of those that [`Self::one_way`] is
    /// about, in nanoseconds: of reordered frames, only the first ones are.
    pub fn excess(&self) -> i64 {
        let ReportTimes { all, in_order } = &self.report_times;
        all.value().zip(in_order.value()).map_or(0, |(all, in_order)| (all - in_order).max(0))
    }

    /// Returns the rate, in bits per second, of which feedback may take its share.
    pub fn feedback_rate(&self, now: Instant) -> u64 {
        self.control.feedback_rate(now, self.account.arrives())
    }
}

/// Returns the low 32 bits of a time in microseconds.
pub(super) const fn micros(at: Instant) -> u32 {
    (at.as_nanos() / 1_000) as u32
}
