//! Controlled delay (RFC 8289): packets are dropped, or marked, at the head of a line in which they have waited longer
//! than a target for at least an interval; at first one per interval, then more often the longer that lasts.
//!
//! Arithmetic and order of decisions are those of Linux (`codel`), which differ from the RFC's pseudocode in three
//! points: time counts in 1.024 µs, 1/√count is updated by one Newton step per drop in 16 bits, and the initial count
//! when dropping resumes is the number of drops of the last time.

use alloc::vec::Vec;

use super::{Backlog, Line, MTU, Queued, Ticks};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Bits of 1/√count.
const ROOT_BITS: u32 = 16;

/// CoDel's parameters (RFC 8289 §4.2, §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelConfig {
    /// Accepted standing delay.
    pub target: Duration,
    /// Time for which the delay may exceed the target before a reaction: a worst-case round trip.
    pub interval: Duration,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: Switch,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: Switch::Off }
    }
}

/// CoDel state of one line.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: u32,
    interval: u32,
    ecn: Switch,
    /// Bytes up to which a line is never too long: the MTU, or the largest packet so far.
    largest: u32,
    /// Drops or marks since dropping began.
    count: u32,
    /// [`Self::count`] when dropping last began.
    count_at_start: u32,
    dropping: bool,
    /// 1/√count in units of 2⁻¹⁶.
    inverse_root: u16,
    /// Time at which the delay permits a drop: one interval after it first exceeded the target.
    above_until: Option<Ticks>,
    drop_next: Ticks,
}

impl CoDel {
    /// Returns the state of an empty line.
    pub fn new(config: CoDelConfig) -> Self {
        Self {
            target: Ticks::span(config.target.as_nanos()),
            interval: Ticks::span(config.interval.as_nanos()),
            ecn: config.ecn,
            largest: MTU,
            count: 0,
            count_at_start: 0,
            dropping: false,
            inverse_root: 0,
            above_until: None,
            drop_next: Ticks(0),
        }
    }

    /// Changes target and interval.
    pub(super) fn tune(&mut self, config: CoDelConfig) {
        self.target = Ticks::span(config.target.as_nanos());
        self.interval = Ticks::span(config.interval.as_nanos());
    }

    /// Performs one step of Newton's method towards 1/√count: r·(3 - count·r²)/2.
    fn newton_step(&mut self) {
        let root = u64::from(self.inverse_root) << (32 - ROOT_BITS);
        let square = (root * root) >> 32;
        let term = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        let root = term.wrapping_mul(root) >> (32 - 2 + 1);
        self.inverse_root = (root >> (32 - ROOT_BITS)) as u16;
    }

    /// Returns the time of the next drop after one at `at`: interval/√count later.
    fn control_law(&self, at: Ticks) -> Ticks {
        let root = u64::from(self.inverse_root) << (32 - ROOT_BITS);
        at.plus(((u64::from(self.interval) * root) >> 32) as u32)
    }

    /// Removes the first packet from the queue; returns whether its delay permits dropping it.
    fn take<T: Queued>(&mut self, now: Ticks, line: &mut Line<T>, backlog: &mut Backlog) -> (Option<T>, bool) {
        let Some(first) = line.pop_front() else {
            self.above_until = None;
            return (None, false);
        };
        let bytes = first.item.bytes();
        backlog.remove(bytes);
        self.largest = self.largest.max(bytes);
        if now.since(first.since) < self.target || backlog.bytes <= u64::from(self.largest) {
            self.above_until = None;
            return (Some(first.item), false);
        }
        let ripe = match self.above_until {
            None => {
                self.above_until = Some(now.plus(self.interval));
                false
            }
            Some(until) => until.is_before(now),
        };
        (Some(first.item), ripe)
    }

    /// Returns the packet to send at `now` from `line`. `backlog` is that of the whole queue, of which the line may be
    /// a part. Dropped packets are added to `dropped`. `tell` marks a packet, or else signals congestion to its source,
    /// so that it need not be dropped.
    pub(super) fn pop<T: Queued>(
        &mut self,
        now: Instant,
        line: &mut Line<T>,
        backlog: &mut Backlog,
        dropped: &mut Vec<T>,
        tell: &mut impl FnMut(&mut T) -> bool,
    ) -> Option<T> {
        let now = Ticks::at(now);
        let (item, ripe) = self.take(now, line, backlog);
        let Some(mut item) = item else {
            self.dropping = false;
            return None;
        };
        if !self.dropping {
            if !ripe {
                return Some(item);
            }
            let next = if self.marks(&mut item, tell) {
                Some(item)
            } else {
                dropped.push(item);
                self.take(now, line, backlog).0
            };
            self.begin(now);
            return next;
        }
        if !ripe {
            self.dropping = false;
        }
        while self.dropping && !now.is_before(self.drop_next) {
            self.count = self.count.wrapping_add(1);
            self.newton_step();
            if self.marks(&mut item, tell) {
                self.drop_next = self.control_law(self.drop_next);
                break;
            }
            dropped.push(item);
            let (next, ripe) = self.take(now, line, backlog);
            if ripe {
                self.drop_next = self.control_law(self.drop_next);
            } else {
                self.dropping = false;
            }
            item = next?;
        }
        Some(item)
    }

    /// Starts dropping, at a recent rate if dropping ended shortly before.
    fn begin(&mut self, now: Ticks) {
        self.dropping = true;
        let drops = self.count.wrapping_sub(self.count_at_start);
        let lately = now.since(self.drop_next) < self.interval.saturating_mul(16);
        if drops > 1 && lately {
            self.count = drops;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.count_at_start = self.count;
        self.drop_next = self.control_law(now);
    }

    fn marks<T>(&self, item: &mut T, tell: &mut impl FnMut(&mut T) -> bool) -> bool {
        self.ecn.is_on() && tell(item)
    }

    /// Accounts for `drops` packets dropped from the line because a limit was reached, as if CoDel had dropped them.
    pub(super) fn strengthen(&mut self, drops: u32) {
        self.count = self.count.wrapping_add(drops);
    }
}

/// Access to the arithmetic for tests.
#[cfg(test)]
pub(super) mod tests_access {
    extern crate std;

    use std::vec::Vec;

    use super::{CoDel, CoDelConfig, Ticks};
    use crate::time::Duration;

    fn after_each_step(interval: Duration) -> impl Iterator<Item = CoDel> {
        let mut control = CoDel::new(CoDelConfig { interval, ..CoDelConfig::default() });
        (control.count, control.inverse_root) = (1, u16::MAX);
        std::iter::successors(Some(control), |before| {
            let mut next = before.clone();
            next.count += 1;
            next.newton_step();
            Some(next)
        })
    }

    /// Returns 1/√n for n from 1 to `most`.
    pub(crate) fn inverse_roots(most: usize) -> Vec<u16> {
        after_each_step(Duration::from_millis(100)).take(most).map(|control| control.inverse_root).collect()
    }

    /// Returns the ticks from the nth drop to the next, for n from 1 to `most`.
    pub(crate) fn spans(interval: Duration, most: usize) -> Vec<u32> {
        after_each_step(interval).take(most).map(|control| control.control_law(Ticks(7)).since(Ticks(7))).collect()
    }
}
