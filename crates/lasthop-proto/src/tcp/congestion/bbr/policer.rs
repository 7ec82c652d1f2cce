//! BBR's detection of policers: two consecutive intervals that lose a fifth and deliver at nearly the same rate. It
//! then sends at that rate, and no faster, for a while.

use super::{GAIN_UNIT, RATE_UNIT, Totals};

/// Minimum number of rounds in an interval.
const LEAST_ROUNDS: u32 = 4;
/// Maximum number of rounds in an interval.
const MOST_ROUNDS: u32 = 4 * LEAST_ROUNDS;
/// Number of losses per 256 deliveries, 19.5 %, from which an interval counts as policed.
const LOSSES: u64 = 50;
/// Divisor of a rate that yields the difference up to which rates count as equal: an eighth.
const SAME: u64 = 8;
/// Absolute difference up to which rates count as equal, 4 kbps, in bytes per second.
const SAME_BYTES: u128 = 500;
/// Length from which an interval is discarded, in milliseconds: its rate would be rounded down to zero.
const LONGEST: u64 = u32::MAX as u64 / 1000;
/// Number of rounds after which the policer is forgotten.
const LASTS: u32 = 48;

/// Input of the detection.
pub(super) struct Seen {
    pub totals: Totals,
    pub is_round_start: bool,
    /// True if the mode is `PROBE_BW`.
    pub is_probing: bool,
    pub shown: Shown,
    pub mss: u32,
}

/// Findings of an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub has_losses: bool,
    pub is_app_limited: bool,
}

/// Result of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Nothing,
    /// The policer's rate has been used for long enough: probe for more.
    Expired,
}

/// State of the detection.
#[derive(Clone, Default, Debug)]
pub(super) struct Policer {
    is_sampling: bool,
    is_found: bool,
    /// Rate of the last interval; 0 if there was none.
    rate: u64,
    rounds: u32,
    /// Counts at the start of the interval.
    totals: Totals,
}

impl Policer {
    /// Returns the policer's rate, if one was detected.
    pub fn rate(&self) -> Option<u64> {
        self.is_found.then_some(self.rate)
    }

    /// Resets the detection.
    pub fn reset(&mut self, totals: Totals) {
        self.rate = 0;
        self.is_found = false;
        self.is_sampling = false;
        self.begin(totals);
    }

    fn begin(&mut self, totals: Totals) {
        self.totals = totals;
        self.rounds = 0;
    }

    pub fn update(&mut self, seen: &Seen) -> Verdict {
        if self.is_found {
            if seen.is_probing && seen.is_round_start {
                self.rounds += 1;
                if self.rounds >= LASTS {
                    self.reset(seen.totals);
                    return Verdict::Expired;
                }
            }
            return Verdict::Nothing;
        }
        if !self.is_sampling {
            // An interval begins with a loss: the policer's bucket is empty.
            if !seen.shown.has_losses {
                return Verdict::Nothing;
            }
            self.begin(seen.totals);
            self.is_sampling = true;
        }
        if seen.shown.is_app_limited {
            self.reset(seen.totals);
            return Verdict::Nothing;
        }
        if seen.is_round_start {
            self.rounds += 1;
        }
        if self.rounds < LEAST_ROUNDS {
            return Verdict::Nothing;
        }
        if self.rounds > MOST_ROUNDS {
            self.reset(seen.totals);
            return Verdict::Nothing;
        }
        // It ends with a loss: the bucket is empty again.
        if seen.shown.has_losses {
            self.end_interval(seen);
        }
        Verdict::Nothing
    }

    fn end_interval(&mut self, seen: &Seen) {
        let lost = seen.totals.lost.saturating_sub(self.totals.lost);
        let delivered = seen.totals.delivered.saturating_sub(self.totals.delivered);
        if delivered == 0 || lost.saturating_mul(u64::from(GAIN_UNIT)) < delivered.saturating_mul(LOSSES) {
            return;
        }
        // From delivery to delivery, in whole milliseconds.
        let millis = |totals: &Totals| totals.delivered_at.as_nanos() / 1_000_000;
        let millis = millis(&seen.totals).saturating_sub(millis(&self.totals));
        if millis == 0 {
            return;
        }
        if millis >= LONGEST {
            self.reset(seen.totals);
            return;
        }
        let rate = (u128::from(delivered) * RATE_UNIT / (u128::from(millis) * 1000)) as u64;
        if self.rate > 0 {
            let apart = rate.abs_diff(self.rate);
            let bytes = u128::from(apart) * u128::from(seen.mss) * 990_000 / RATE_UNIT;
            if apart <= self.rate / SAME || bytes <= SAME_BYTES {
                self.rate = self.rate.midpoint(rate);
                self.is_found = true;
                self.rounds = 0;
                return;
            }
        }
        self.rate = rate;
        self.begin(seen.totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    /// Returns whether two intervals of four rounds, each of which delivers 4000 segments, loses 1000 and lasts
    /// `millis`, look policed.
    fn looks_policed(millis: u64) -> bool {
        let mut policer = Policer::default();
        for round in 0..=8 {
            let delivered_at = Instant::from_nanos((1 + round * millis / 4) * 1_000_000);
            let totals = Totals { delivered: 1000 * round, lost: 1000 * (round / 4), delivered_at };
            let shown = Shown { has_losses: round % 4 == 0, is_app_limited: false };
            policer.update(&Seen { totals, is_round_start: round > 0, is_probing: true, shown, mss: 1448 });
        }
        policer.rate().is_some()
    }

    /// Linux `bbr_lt_bw_sampling`: an interval longer than an hour and 11 minutes gives no information about a policer.
    #[test]
    fn an_interval_of_hours_shows_no_policer() {
        assert!(looks_policed(1000));
        assert!(looks_policed(4_294_964));
        assert!(!looks_policed(4_294_968));
    }
}
