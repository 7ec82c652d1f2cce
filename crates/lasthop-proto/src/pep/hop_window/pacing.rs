//! Pacing of data onto the hop: spread over a round trip, like FAST's burstiness control and Linux's pacing.
//!
//! A repaired hole frees a whole window at once. Sent as a burst it could overflow the queue in front of the hop.

use crate::time::{Duration, Instant};

/// Scheduling delay allowed for timers; packets due meanwhile are sent at once.
const SLACK: Duration = Duration::from_millis(2);

/// Rate in bytes per second, and minimum burst in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) struct Pace {
    pub rate: u64,
    pub least_burst: u64,
}

impl Pace {
    fn time_for(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the time by which transmissions may be ahead of the rate.
    fn ahead(self) -> Duration {
        self.time_for(self.least_burst).max(SLACK)
    }
}

/// Time at which all transmissions so far would be complete at the rate.
#[derive(Clone, Copy, Debug)]
pub(in crate::pep) struct Pacer {
    done: Instant,
}

impl Pacer {
    pub const NEW: Self = Self { done: Instant::ZERO };

    /// Returns the time at which the next packet may be sent, or `None` for now.
    pub fn waits_until(self, now: Instant, pace: Pace) -> Option<Instant> {
        let early = self.done.since(now).as_nanos().saturating_sub(pace.ahead().as_nanos());
        (early > 0).then(|| now + Duration::from_nanos(early))
    }

    /// Accounts for a transmission of `len` bytes.
    pub fn sent(&mut self, now: Instant, pace: Pace, len: u32) {
        self.done = self.done.max(now) + pace.time_for(len.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes per millisecond in packets of 500: a burst of 4000 is more than arrives in 2 ms. At any time, at most
    /// the burst, one packet and what the rate yields have been sent since the start, and at least what the rate
    /// yields.
    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let pace = Pace { rate: 1_000_000, least_burst: 4_000 };
        let (mut pacer, mut now, mut gone) = (Pacer::NEW, Instant::ZERO + Duration::from_millis(7), 0);
        let start = now;
        for _ in 0..100 {
            while pacer.waits_until(now, pace).is_none() {
                pacer.sent(now, pace, 500);
                gone += 500;
            }
            let brought = 1_000 * now.since(start).as_nanos() / 1_000_000;
            assert!((brought + 4_000..=brought + 4_500).contains(&gone), "{gone} after {brought}");
            now = pacer.waits_until(now, pace).unwrap();
        }
        // Unused time gives no credit beyond the burst.
        now += Duration::from_secs(10);
        let before = gone;
        while pacer.waits_until(now, pace).is_none() {
            pacer.sent(now, pace, 500);
            gone += 500;
        }
        assert_eq!(gone - before, 4_500);
    }

    #[test]
    fn a_timer_that_is_late_by_two_milliseconds_costs_nothing() {
        // 125 kB per millisecond: 1 Gbps.
        let pace = Pace { rate: 125_000_000, least_burst: 6_000 };
        let (mut pacer, mut now, mut gone) = (Pacer::NEW, Instant::ZERO, 0_u64);
        while gone < 12_500_000 {
            match pacer.waits_until(now, pace) {
                None => {
                    pacer.sent(now, pace, 1_500);
                    gone += 1_500;
                }
                Some(at) => now = at + SLACK,
            }
        }
        assert!(now <= Instant::ZERO + Duration::from_millis(100), "{now:?}");
    }
}
