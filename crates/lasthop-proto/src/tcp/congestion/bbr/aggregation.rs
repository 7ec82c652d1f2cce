//! How much more is acknowledged at once than the path's rate explains: the window makes room for it.

use super::{AckSample, RATE_UNIT};
use crate::time::{Duration, Instant};

/// Rounds that one of the two slots of the maximum lasts.
const SLOT_ROUNDS: u32 = 5;
/// An epoch is over when so many segments are counted.
const RESET: u64 = 1 << 20;
/// The allowance is at most what the path carries in this time.
const LIMIT: Duration = Duration::from_millis(100);

/// The excess of acknowledgments over what was expected since the epoch began, and its maximum of 5 to 10 rounds.
#[derive(Clone, Default, Debug)]
pub(super) struct Aggregation {
    epoch: Instant,
    acked: u64,
    slots: [u64; 2],
    slot: usize,
    rounds: u32,
}

impl Aggregation {
    /// Counts from here on.
    pub fn begin(&mut self, now: Instant) {
        self.epoch = now;
        self.acked = 0;
    }

    /// A round begins.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= SLOT_ROUNDS {
            self.rounds = 0;
            self.slot = 1 - self.slot;
            self.slots[self.slot] = 0;
        }
    }

    /// An acknowledgment, on a path of `rate`.
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

    /// Segments that the window is larger by.
    pub fn allowance(&self, rate: u64) -> u32 {
        let limit = u128::from(rate) * u128::from(LIMIT.as_nanos() / 1000) / RATE_UNIT;
        u128::from(self.slots[0].max(self.slots[1])).min(limit) as u32
    }
}
