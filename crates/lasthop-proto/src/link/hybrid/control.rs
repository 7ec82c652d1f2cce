//! How fast frames are sent, and what may be done against losses: the pace, what finds its rate, and what tells congestion.

use super::budget::Budget;
use super::congestion::{Congestion, State, signs};
use super::detect::Detector;
use super::pace::{Pacer, Press};
use super::rate::{Finder, gain_at_given};
use super::rounds::{Heard, Rounds, target};
use super::sender::ROUNDS;
use crate::tcp::config::Switch;
use crate::time::Instant;

/// How fast frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateRule {
    /// So many bits per second, the hop's headers included.
    Fixed(u64),
    /// What the hop is found to carry.
    Auto,
}

/// Probes in a row without an answer after which the rate is not believed any more.
const SILENT: u32 = 3;

/// The pace and what it follows.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub pacer: Pacer,
    /// Bits per second, if they are not found.
    given: u64,
    finder: Option<Finder>,
    rounds: Rounds,
    congestion: Congestion,
    /// Frames lost in the last round that corruption does not explain.
    excess: u64,
}

/// Bits per second at which frames leave: the given ones, or as what finds the rate has it.
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
        Self { pacer, given, finder, rounds: Rounds::new(), congestion: Congestion::new(), excess: 0 }
    }

    /// Nothing is known of the path any more.
    pub fn begin_anew(&mut self) {
        (self.rounds, self.congestion) = (Rounds::new(), Congestion::new());
        if let Some(finder) = &mut self.finder {
            *finder = Finder::new();
        }
        self.pacer.change(pace(self.given, self.finder.as_ref()));
    }

    /// Bits per second: the given ones, or those that were found.
    pub fn rate(&self) -> u64 {
        self.finder.as_ref().map_or(self.given, Finder::rate)
    }

    /// Bits per second of which feedback may take its share, where frames arrive at `arrives`: an end that finds its rate and has
    /// little to send takes the way back for one as fast as the way here, until a queue stands on it.
    pub fn feedback_rate(&self, now: Instant, arrives: u64) -> u64 {
        let rate = self.rate();
        if self.finds() && !self.congestion.is_congested(now) { rate.max(arrives) } else { rate }
    }

    /// Whether the rate may change.
    pub fn finds(&self) -> bool {
        self.finder.is_some()
    }

    /// No frame leaves now.
    pub fn on_pause(&mut self, press: Press) {
        self.pacer.on_pause(press);
        if press == Press::Nothing {
            self.rounds.on_idle();
        }
    }

    /// A packet leaves that was marked before.
    pub fn on_marked_sent(&mut self) {
        self.rounds.on_marked_sent();
    }

    /// Feedback has been taken in. Returns how many packets the sources are to be told of as lost to congestion.
    pub fn on_feedback(&mut self, heard: &Heard, detector: &mut Detector, budget: &mut Budget) -> u32 {
        if let (Some(finder), Some(anchor)) = (&mut self.finder, heard.anchor)
            && let Some(rate) = self.rounds.step(anchor, heard.header)
        {
            finder.on_step(rate);
            self.pacer.change(finder.pace());
        }
        let Some(round) = self.rounds.on_feedback(heard, detector, budget) else { return 0 };
        let signs = signs(&round, target(heard.frame, detector.lag()));
        self.congestion.on_round(&round, signs);
        let before = core::mem::replace(&mut self.excess, round.excess);
        if self.congestion.rounds() == 1 {
            // The queue overflowed before it was seen to stand.
            budget.take_back(before + round.excess);
        }
        budget.freeze(if self.congestion.rounds() > 0 { Switch::On } else { Switch::Off });
        let Some(finder) = &mut self.finder else {
            let gain = gain_at_given(&round, signs, self.congestion.rounds(), heard.frame);
            self.pacer.change(self.given / 100 * gain + self.given % 100 * gain / 100);
            return 0;
        };
        let owed = finder.on_round(&round, signs, self.congestion.rounds());
        self.pacer.change(finder.pace());
        owed
    }

    /// The hop was probed, so many times in a row without an answer.
    pub fn on_probe(&mut self, probes: u32) {
        if let Some(finder) = self.finder.as_mut().filter(|_| probes >= SILENT) {
            finder.on_silence();
            self.pacer.change(finder.pace());
        }
    }

    /// What is done against losses at `now`, of which the hop has `loss` in 10⁻⁶ by corruption.
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

    /// Whether more may be sent than repeats of what is lost.
    pub fn may_code(&self, now: Instant) -> bool {
        !self.congestion.is_broken() && !self.congestion.is_congested(now)
    }

    /// In how many rounds a packet may be sent again at `now`.
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
