//! Distinguishes an overflowing queue in front of the hop from corruption.
//!
//! Both lose packets, and neither shows in the delay. An overflowing queue loses less if less is sent into it;
//! corruption takes the same share. If much is lost, half the backlog is therefore tried, and the losses are compared.

/// Number of consecutive rounds with more than a third of the data in flight lost after which half the backlog is
/// tried, and number of rounds compared with them. A burst takes one or two.
const ROUNDS: u32 = 3;

/// Number of rounds skipped in between, in which packets sent before still arrive, and repairs of their losses.
const SETTLING: u32 = 2;

/// Resolution of compared loss shares.
const PARTS: u64 = 1 << 10;

/// Lost bytes, and the bytes sent.
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

    /// Returns the lost share, in units of 1/[`PARTS`].
    fn share(self) -> u64 {
        self.lost / (self.of / PARTS).max(1)
    }
}

/// Limits to restore if the smaller backlog does not help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    /// Maximum number of bytes on the hop.
    pub window: u64,
    /// Maximum backlog, in bytes.
    pub most_queued: u64,
}

/// Action that the window has to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// No change.
    Keep,
    /// Try half the backlog.
    Halve,
    /// Restore the previous limits: the losses are corruption.
    Restore(Allowance),
}

/// Trial of half the backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    before: Allowance,
    lost_before: Losses,
    lost_since: Losses,
    rounds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Number of consecutive rounds with heavy loss, and their losses.
    Watching(u32, Losses),
    Trying(Trial),
    /// The trial did not help.
    TriedInVain,
}

/// Detector of overflow in the losses of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow(State);

impl Overflow {
    pub const fn new() -> Self {
        Self(State::Watching(0, Losses { lost: 0, of: 0 }))
    }

    /// Allows another trial after the queue has been drained: the path may have changed.
    pub fn forget(&mut self) {
        if self.0 == State::TriedInVain {
            *self = Self::new();
        }
    }

    /// Returns whether half the backlog is being tried.
    pub fn is_trying(&self) -> bool {
        matches!(self.0, State::Trying(_))
    }

    /// Evaluates a round trip with its losses and the limits in force.
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

    /// Returns the advice of consecutive rounds.
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
        // The first two rounds contain data sent before.
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
