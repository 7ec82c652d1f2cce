//! Sending rate and permitted repair: the pacer, the rate estimator, and congestion detection.

use super::budget::Budget;
use super::congestion::{Congestion, Signs, State, signs};
use super::detect::Detector;
use super::limits::ROUNDS;
use super::pace::{Pacer, Press};
use super::rate::{Finder, gain_at_given};
use super::rounds::{Heard, Rounds, target};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Rate at which frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateRule {
    /// Fixed rate in bits per second, including the hop's headers.
    Fixed(u64),
    /// Estimated capacity of the hop.
    Auto,
}

/// Number of consecutive unanswered probes after which the rate estimate is discarded.
const SILENT: u32 = 3;

/// The pacer and its inputs.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub pacer: Pacer,
    /// Configured rate in bits per second, used if the rate is not estimated.
    given: u64,
    finder: Option<Finder>,
    rounds: Rounds,
    congestion: Congestion,
    /// Number of frames lost in the last round that corruption does not explain.
    excess: u64,
    /// Indicates that the estimated rate was raised, or a queue stands since then.
    raised: bool,
}

/// Returns the sending rate in bits per second: the configured one, or the estimator's.
fn pace(given: u64, finder: Option<&Finder>) -> u64 {
    finder.map_or(given, Finder::pace)
}

impl Control {
    pub fn new(rule: RateRule) -> Self {
        let (given, finder) = match rule {
            RateRule::Fixed(rate) => (rate.max(1), None),
            RateRule::Auto => (0, Some(Finder::new())),
        };
        let pacer = Pacer::new(pace(given, finder.as_ref()));
        Self { pacer, given, finder, rounds: Rounds::new(), congestion: Congestion::new(), excess: 0, raised: false }
    }

    /// Discards all knowledge of the path.
    pub fn begin_anew(&mut self) {
        (self.rounds, self.congestion) = (Rounds::new(), Congestion::new());
        if let Some(finder) = &mut self.finder {
            *finder = Finder::new();
        }
        self.pacer.change(pace(self.given, self.finder.as_ref()));
    }

    /// Returns the rate in bits per second: configured or estimated.
    pub fn rate(&self) -> u64 {
        self.finder.as_ref().map_or(self.given, Finder::rate)
    }

    /// Returns the rate, in bits per second, of which feedback may take its share, when frames arrive at `arrives`. An
    /// end that estimates its rate and has little to send assumes that the return direction is as fast as the arriving
    /// one, until a queue builds up.
    pub fn feedback_rate(&self, now: Instant, arrives: u64) -> u64 {
        let rate = self.rate();
        if self.finds() && !self.congestion.is_congested(now) { rate.max(arrives) } else { rate }
    }

    /// Returns whether the rate is estimated.
    pub fn finds(&self) -> bool {
        self.finder.is_some()
    }

    /// Returns whether the rate was raised a short time ago, so that a queue may be this end's own; `None` if the rate is
    /// not estimated.
    pub fn has_raised(&self) -> Option<bool> {
        self.finds().then_some(self.raised)
    }

    /// Records that no frame leaves now.
    pub fn on_pause(&mut self, press: Press) {
        self.pacer.on_pause(press);
        if press == Press::Nothing {
            self.rounds.on_idle();
        }
    }

    /// Records a packet that left already marked.
    pub fn on_marked_sent(&mut self) {
        self.rounds.on_marked_sent();
    }

    /// Evaluates feedback. Returns the number of packets to be signalled to the sources as lost to congestion.
    pub fn on_feedback(&mut self, heard: &Heard, detector: &mut Detector, budget: &mut Budget) -> u32 {
        if let (Some(finder), Some(anchor)) = (&mut self.finder, heard.anchor)
            && let Some(rate) = self.rounds.step(anchor, heard.header)
            && !(heard.is_multipath && detector.lateness() > Duration::ZERO)
        {
            finder.on_step(rate);
            self.pacer.change(finder.pace());
        }
        let Some(round) = self.rounds.on_feedback(heard, detector, budget) else { return 0 };
        let signs = signs(&round, target(heard.frame, detector.lag()));
        self.congestion.on_round(&round, signs);
        let before = core::mem::replace(&mut self.excess, round.excess);
        if self.congestion.rounds() == 1 {
            // The queue overflowed before the delay showed it.
            budget.take_back(before + round.excess);
        }
        budget.freeze(if self.congestion.rounds() > 0 { Switch::On } else { Switch::Off });
        let Some(finder) = &mut self.finder else {
            let gain = gain_at_given(&round, signs, self.congestion.rounds(), heard.frame);
            self.pacer.change(self.given / 100 * gain + self.given % 100 * gain / 100);
            return 0;
        };
        let owed = finder.on_round(&round, signs, self.congestion.rounds(), heard.frame);
        self.raised = finder.raises() || self.raised && signs == Signs::Full && !finder.is_sharing();
        self.pacer.change(finder.pace());
        owed
    }

    /// Records that the hop was probed, and the number of consecutive probes without an answer.
    pub fn on_probe(&mut self, probes: u32) {
        if let Some(finder) = self.finder.as_mut().filter(|_| probes >= SILENT) {
            finder.on_silence();
            self.pacer.change(finder.pace());
        }
    }

    /// Returns the measures against losses at `now`, at a corruption rate of `loss`, in 10⁻⁶.
    pub fn state(&self, now: Instant, loss: u64) -> State {
        if self.congestion.is_broken() {
            State::Broken
        } else if self.congestion.is_congested(now) {
            State::Congested
        } else if loss > 0 {
            State::Repairing
        } else {
            State::Silent
        }
    }

    /// Returns whether more may be sent than retransmissions of lost packets.
    pub fn may_code(&self, now: Instant) -> bool {
        !self.congestion.is_broken() && !self.congestion.is_congested(now)
    }

    /// Returns the number of rounds in which a packet may be retransmitted at `now`.
    pub fn repeats(&self, now: Instant) -> u8 {
        if self.congestion.is_broken() {
            0
        } else if self.congestion.is_congested(now) {
            1
        } else {
            ROUNDS
        }
    }
}
