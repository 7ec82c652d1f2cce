//! COBALT, CAKE's control of one line: CoDel with a count that decays, and BLUE for flows that do not respond.
//!
//! Arithmetic and order of decisions are those of Linux (`sch_cake`). Because a new line starts with 1/√count = 0, its
//! first signal comes with the second packet over the target, not an interval later.

use crate::random::Stream;

/// Steps of the probability of BLUE, in units of 2⁻³²: 1/256 up, 1/4096 down.
const UP: u32 = 1 << 24;
const DOWN: u32 = 1 << 20;

/// 1/√count in units of 2⁻³² for small counts, for which a single Newton step is too coarse.
const INVERSE_ROOTS: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];

/// Performs one step of Newton's method towards 1/√count: r·(3 - count·r²)/2.
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = ((root as u64) * (root as u64)) >> 32;
    let term = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square)) >> 2;
    (term.wrapping_mul(root as u64) >> (32 - 2 + 1)) as u32
}

/// Parameters of a tin's lines. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parameters {
    pub target: i64,
    pub interval: i64,
    /// Transmission time of a full packet at the tin's rate.
    pub packet_time: i64,
}

/// State of one line. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Cobalt {
    count: u32,
    inverse_root: u32,
    drop_next: i64,
    /// Time of the last change of BLUE's probability.
    changed: i64,
    /// Probability of BLUE, in units of 2⁻³².
    probability: u32,
    dropping: bool,
}

impl Cobalt {
    pub const fn new() -> Self {
        Self { count: 0, inverse_root: 0, drop_next: 0, changed: 0, probability: 0, dropping: false }
    }

    fn set_root(&mut self) {
        self.inverse_root = match INVERSE_ROOTS.get(self.count as usize) {
            Some(root) => *root,
            None => newton_step(self.inverse_root, self.count),
        };
    }

    /// Returns the time of the signal after one at `at`: interval/√count later.
    fn control_law(&self, at: i64, interval: i64) -> i64 {
        at.saturating_add(((i128::from(interval) * i128::from(self.inverse_root)) >> 32) as i64)
    }

    fn advance(&mut self, interval: i64) {
        self.set_root();
        self.drop_next = self.control_law(self.drop_next, interval);
    }

    /// Records that a packet of the line was dropped because memory ran out.
    pub fn on_overflow(&mut self, now: i64, with: &Parameters) {
        if now - self.changed > with.target {
            self.probability = self.probability.saturating_add(UP);
            self.changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Records that the line was served while it was empty.
    pub fn on_empty(&mut self, now: i64, with: &Parameters) {
        if self.probability > 0 && now - self.changed > with.target {
            self.probability = self.probability.saturating_sub(DOWN);
            self.changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.advance(with.interval);
        }
    }

    /// Returns whether the state differs from that of a line without congestion.
    pub const fn is_active(&self, now: i64) -> bool {
        self.probability > 0 || self.count > 0 || now < self.drop_next
    }

    /// Returns whether to drop a packet that leaves the line after `waited`; `mark` marks it instead if it can.
    pub fn drops(
        &mut self,
        now: i64,
        waited: i64,
        with: &Parameters,
        mark: impl FnOnce() -> bool,
        draws: &mut Stream,
    ) -> bool {
        let mut schedule = now - self.drop_next;
        let mut due = self.count > 0 && schedule >= 0;
        let mut drops = false;
        if waited > with.target && waited > with.packet_time.saturating_mul(4) {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control_law(now, with.interval);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            drops = !mark();
            self.count = self.count.saturating_add(1);
            self.advance(with.interval);
            schedule = now - self.drop_next;
        } else {
            while due {
                self.count -= 1;
                self.advance(with.interval);
                schedule = now - self.drop_next;
                due = self.count > 0 && schedule >= 0;
            }
        }
        // BLUE never marks, since a source that responds does not need it.
        if self.probability > 0 {
            drops |= draws.below(1 << 32) < u64::from(self.probability);
        }
        if self.count == 0 {
            self.drop_next = now.saturating_add(with.interval);
        } else if schedule > 0 && !drops {
            self.drop_next = now;
        }
        drops
    }
}

#[cfg(test)]
#[path = "cobalt_tests.rs"]
mod tests;
