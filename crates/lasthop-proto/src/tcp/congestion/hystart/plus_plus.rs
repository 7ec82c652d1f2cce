//! HyStart++ (RFC 9406): slow start turns into Conservative Slow Start (CSS) when the round trip rises, and back if the
//! rise was spurious.

use super::{SAMPLES, SlowStart, tolerated_rise};
use crate::tcp::congestion::control::AckSample;
use crate::time::Duration;

/// Divisor of slow start's growth in CSS (`CSS_GROWTH_DIVISOR`).
const CSS_DIVISOR: u32 = 4;
/// Number of rounds of CSS (`CSS_ROUNDS`), including the one in which it begins.
const CSS_ROUNDS: u32 = 5;
/// Maximum growth per acknowledgment of an unpaced window, in segments (`L`).
const BURST: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    #[default]
    SlowStart,
    Conservative {
        /// Minimum round trip of the round in which CSS began.
        baseline: Duration,
        /// Number of rounds that have ended in CSS.
        rounds: u32,
    },
    Over,
}

#[derive(Clone, Default, Debug)]
pub(in crate::tcp::congestion) struct PlusPlus {
    phase: Phase,
    /// Minimum round trip of the last round.
    last_round: Option<Duration>,
    /// Minimum round trip of this round.
    this_round: Option<Duration>,
    samples: u32,
    /// Segments delivered in CSS that are too few for growth.
    credit: u32,
}

impl PlusPlus {
    pub fn stop(&mut self) {
        self.phase = Phase::Over;
    }

    pub fn on_round(&mut self, ack: &AckSample) {
        if ack.round_ended {
            self.last_round = self.this_round.take();
            self.samples = 0;
            if let Phase::Conservative { rounds, .. } = &mut self.phase {
                *rounds += 1;
            }
        }
    }

    pub fn on_ack(&mut self, rtt: Duration) -> SlowStart {
        if self.phase == Phase::Over {
            return SlowStart::Stay;
        }
        let shortest = self.this_round.map_or(rtt, |min| min.min(rtt));
        self.this_round = Some(shortest);
        self.samples += 1;
        match self.phase {
            Phase::Conservative { rounds: CSS_ROUNDS.., .. } => {
                self.phase = Phase::Over;
                return SlowStart::Leave;
            }
            Phase::Conservative { baseline, .. } => {
                if self.samples >= SAMPLES && shortest < baseline {
                    self.phase = Phase::SlowStart;
                }
            }
            Phase::SlowStart => {
                let has_risen = self.last_round.is_some_and(|last| shortest >= last + tolerated_rise(last));
                if self.samples >= SAMPLES && has_risen {
                    self.phase = Phase::Conservative { baseline: shortest, rounds: 0 };
                    self.credit = 0;
                }
            }
            Phase::Over => {}
        }
        SlowStart::Stay
    }

    pub fn allowed(&mut self, delivered: u32) -> u32 {
        match self.phase {
            Phase::SlowStart => delivered.min(BURST),
            Phase::Conservative { .. } => {
                self.credit += delivered.min(BURST);
                let grown = self.credit / CSS_DIVISOR;
                self.credit %= CSS_DIVISOR;
                grown
            }
            Phase::Over => delivered,
        }
    }
}
