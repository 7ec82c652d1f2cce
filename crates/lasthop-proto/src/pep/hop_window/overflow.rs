//! Whether the queue in front of the hop overflows, or the hop corrupts much.
//!
//! Both lose packets, and delay shows neither. But what an overflowing queue loses depends on how much is sent into it; what corruption takes does not.
//! So where much is lost, half of the backlog is tried, and what is lost then is compared.

/// Rounds in a row in which more than a third of what was under way is lost, after which half of the backlog is tried, and rounds that are compared with
/// them: a burst takes one or two.
const ROUNDS: u32 = 3;

/// Rounds between these: packets still arrive that were sent before, and repairs of what was lost then.
const SETTLING: u32 = 2;

/// In so many parts losses are compared.
const PARTS: u64 = 1 << 10;

/// How much is lost, of how much, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Losses {
    pub lost: u64,
    pub of: u64,
}

impl Losses {
    fn add(&mut self, Self { lost, of }: Self) {
        self.lost += lost;
        self.of += of;
    }

    fn are_many(self) -> bool {
        3 * self.lost > self.of
    }

    /// In [`PARTS`] of all.
    fn share(self) -> u64 {
        self.lost / (self.of / PARTS).max(1)
    }
}

/// What is to be given back when less did not help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    /// Bytes that may be on the hop.
    pub window: u64,
    /// Bytes that are to wait at most.
    pub most_queued: u64,
}

/// What the window is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Go on.
    Keep,
    /// Try half of the backlog.
    Halve,
    /// Take back what was allowed before: corruption it was.
    Restore(Allowance),
}

/// Half of the backlog, tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    before: Allowance,
    lost_before: Losses,
    lost_since: Losses,
    rounds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// For so many rounds much has been lost.
    Watching(u32, Losses),
    Trying(Trial),
    /// It did not help.
    TriedInVain,
}

/// Watches the losses of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow(State);

impl Overflow {
    pub const fn new() -> Self {
        Self(State::Watching(0, Losses { lost: 0, of: 0 }))
    }

    /// The queue has been let run dry: the path may be another one.
    pub fn forget(&mut self) {
        if self.0 == State::TriedInVain {
            *self = Self::new();
        }
    }

    /// Half of the backlog is tried.
    pub fn is_trying(&self) -> bool {
        matches!(self.0, State::Trying(_))
    }

    /// A round trip in which so much was lost while so much was allowed.
    pub fn round(&mut self, losses: Losses, allowed: Allowance) -> Advice {
        match &mut self.0 {
            State::TriedInVain => Advice::Keep,
            State::Watching(rounds, all) if losses.are_many() => {
                all.add(losses);
                *rounds += 1;
                if *rounds < ROUNDS {
                    return Advice::Keep;
                }
                self.0 = State::Trying(Trial {
                    before: allowed,
                    lost_before: *all,
                    lost_since: Losses::default(),
                    rounds: 0,
                });
                Advice::Halve
            }
            State::Watching(..) => {
                *self = Self::new();
                Advice::Keep
            }
            State::Trying(trial) => {
                if trial.rounds >= SETTLING {
                    trial.lost_since.add(losses);
                }
                trial.rounds += 1;
                if trial.rounds < SETTLING + ROUNDS {
                    return Advice::Keep;
                }
                let before = trial.before;
                if 8 * trial.lost_since.share() <= 7 * trial.lost_before.share() {
                    *self = Self::new();
                    return Advice::Keep;
                }
                self.0 = State::TriedInVain;
                Advice::Restore(before)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowance = Allowance { window: 200_000, most_queued: u64::MAX };

    fn lost(lost: u64) -> Losses {
        Losses { lost, of: 100_000 }
    }

    /// The advice of round after round.
    fn advice(overflow: &mut Overflow, rounds: &[u64]) -> alloc::vec::Vec<Advice> {
        rounds.iter().map(|&bytes| overflow.round(lost(bytes), ALLOWED)).collect()
    }

    #[test]
    fn a_burst_is_no_overflow() {
        let advice = advice(&mut Overflow::new(), &[90_000, 60_000, 10_000, 90_000, 60_000, 10_000]);
        assert!(advice.iter().all(|&advice| advice == Advice::Keep), "{advice:?}");
    }

    #[test]
    fn a_smaller_backlog_that_loses_less_is_kept() {
        let mut overflow = Overflow::new();
        assert_eq!(advice(&mut overflow, &[60_000; 3])[2], Advice::Halve);
        // The first two rounds show what was sent before.
        assert_eq!(advice(&mut overflow, &[60_000, 60_000, 45_000, 50_000, 45_000]), [Advice::Keep; 5]);
        assert_eq!(advice(&mut overflow, &[60_000; 3])[2], Advice::Halve, "and halved again");
    }

    #[test]
    fn corruption_takes_as_much_of_less() {
        let mut overflow = Overflow::new();
        assert_eq!(advice(&mut overflow, &[60_000; 3])[2], Advice::Halve);
        assert_eq!(advice(&mut overflow, &[60_000; 5])[4], Advice::Restore(ALLOWED));
        assert_eq!(advice(&mut overflow, &[60_000; 9]), [Advice::Keep; 9]);
        overflow.forget();
        assert_eq!(advice(&mut overflow, &[60_000; 3])[2], Advice::Halve, "once the path may be another one");
    }
}
