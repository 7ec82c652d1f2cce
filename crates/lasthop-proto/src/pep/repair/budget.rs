//! Timer-driven repairs of one connection in a silence, and its pauses while the budget for them is exhausted.

use super::{Burst, Repair};
use crate::packet::Payload;
use crate::time::{Duration, Instant};

/// First and maximum pause of a silence without budget for repairs.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Pause of timer-driven repairs.
///
/// | from | event | to |
/// |---|---|---|
/// | `None` | the budget is exhausted | `Until` |
/// | `Until` | the budget is still exhausted afterwards | `Until`, twice as long |
/// | `Until` | acknowledgment | `None` |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// The budget was not exhausted in this silence.
    None,
    /// It was exhausted: no timer acts before `until`.
    Until { until: Instant, length: Duration },
}

/// Timer-driven repairs since the mobile host was last heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Number of timer-driven repairs.
    spent: u32,
    /// Time at which the mobile host was last heard.
    heard: Instant,
    pub pause: Pause,
}

impl Budget {
    /// Returns the state after an acknowledgment.
    pub const fn new(now: Instant) -> Self {
        Self { spent: 0, heard: now, pause: Pause::None }
    }

    /// Returns the earliest time, from `due`, at which a timer may act.
    pub fn delays(&self, due: Instant) -> Instant {
        match self.pause {
            Pause::None => due,
            Pause::Until { until, .. } => due.max(until),
        }
    }
}

impl<P: Payload> Repair<P> {
    /// Returns whether the next action is a timer-driven repair beyond the `free` ones of each silence.
    pub fn spends_more_than(&self, free: u32) -> bool {
        self.schedule.burst == Burst::None && self.budget.spent >= free
    }

    /// Returns the time of the last packet from the mobile host.
    pub fn last_heard(&self) -> Instant {
        self.budget.heard
    }

    /// Counts `bets` timer-driven repairs. Returns their number before in this silence.
    pub fn count_timer_repairs(&mut self, bets: u32) -> u32 {
        let before = self.budget.spent;
        self.budget.spent = before.saturating_add(bets);
        before
    }

    /// Pauses because the budget is exhausted. Each pause is twice as long as the previous one.
    pub fn pause(&mut self, now: Instant) {
        let length = match self.budget.pause {
            Pause::None => FIRST_PAUSE,
            Pause::Until { length, .. } => length.saturating_mul(2).min(LONGEST_PAUSE),
        };
        self.budget.pause = Pause::Until { until: now + length, length };
    }
}
