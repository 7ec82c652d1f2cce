//! Aggregation of acknowledgments: the excess acknowledged at once over the path's rate, by which the window is
//! enlarged.

use super::{AckSample, RATE_UNIT};
use crate::time::{Duration, Instant};

/// Number of rounds that each of the two slots of the maximum lasts.
const SLOT_ROUNDS: u32 = 5;
/// Number of segments after which an epoch ends.
const RESET: u64 = 1 << 20;
/// Time whose data at the path's rate limits the allowance.
const LIMIT: Duration = Duration::from_millis(100);

/// Excess of acknowledgments over the expected number since the epoch began, and its maximum of 5 to 10 rounds.
#[derive(Clone, Default, Debug)]
pub(super) struct Aggregation {
    epoch: Instant,
    acked: u64,
    slots: [u64; 2],
    slot: usize,
    rounds: u32,
}

impl Aggregation {
    /// Starts an epoch.
    pub fn begin(&mut self, now: Instant) {
        self.epoch = now;
        self.acked = 0;
    }

    /// Starts a round.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= SLOT_ROUNDS {
            self.rounds = 0;
            self.slot = 1 - self.slot;
            self.slots[self.slot] = 0;
        }
    }

    /// Processes an acknowledgment on a path of `rate`.
    pub fn update(&mut self, ack: &AckSample, rate: u64, cwnd: u32) {
        let micros = ack.now.since(self.epoch).as_nanos() / 1000;
        let expected = u128::from(rate) * u128::from(micros) / RATE_UNIT;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        let acked = u64::from(ack.delivered);
        if self.acked <= expected || self.acked + acked >= RESET {
            self.begin(ack.now);
            expected = 0;
        }
        self.acked = (self.acked + acked).min(RESET - 1);
        let extra = (self.acked - expected).min(u64::from(cwnd));
        let slot = &mut self.slots[self.slot];
        *slot = (*slot).max(extra);
    }

    /// Returns the number of segments by which the window is enlarged.
    pub fn allowance(&self, rate: u64) -> u32 {
        let limit = u128::from(rate) * u128::from(LIMIT.as_nanos() / 1000) / RATE_UNIT;
        u128::from(self.slots[0].max(self.slots[1])).min(limit) as u32
    }
}
