//! Token bucket, by which a policer drops and a shaper delays frames.
//!
//! The bucket fills at a rate up to a size (`burst`), and starts full. A frame takes as many bytes as it has. In any
//! span `t` at most `rate · t + burst` passes (RFC 2697 §3 with one colour; ITU-T I.371's leaky bucket as a meter).

use crate::time::{Duration, Instant};

/// Parameters of a token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketSpec {
    /// Fill rate, in bits per second.
    pub rate: u64,
    /// Capacity, in bytes.
    pub burst: u64,
}

/// Billionths of a bit in a byte: the unit of the level, in which a nanosecond of `rate` is a whole number.
const BYTE: u128 = 8_000_000_000;

/// A token bucket.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    size: u128,
    /// Level as of `at`, in billionths of a bit.
    level: u128,
    at: Instant,
}

impl TokenBucket {
    /// Returns a full bucket.
    pub fn new(spec: BucketSpec) -> Self {
        let size = u128::from(spec.burst) * BYTE;
        // A rate of zero would keep a shaper waiting forever.
        Self { rate: spec.rate.max(1), size, level: size, at: Instant::ZERO }
    }

    fn fill(&mut self, now: Instant) {
        let gained = u128::from(self.rate) * u128::from(now.since(self.at).as_nanos());
        self.level = (self.level + gained).min(self.size);
        self.at = self.at.max(now);
    }

    /// Takes the bytes of a frame at `now`, if the bucket contains them, and returns whether it did. Otherwise the
    /// bucket is unchanged.
    pub fn take(&mut self, now: Instant, bytes: u32) -> bool {
        self.fill(now);
        let cost = u128::from(bytes) * BYTE;
        let holds = self.level >= cost;
        if holds {
            self.level -= cost;
        }
        holds
    }

    /// Takes the bytes of a frame as soon as the bucket contains them, at `earliest` or later, and returns that time. A
    /// frame larger than the bucket waits for a full one and empties it. Frames are passed in order.
    pub fn wait(&mut self, earliest: Instant, bytes: u32) -> Instant {
        let earliest = earliest.max(self.at);
        self.fill(earliest);
        let cost = (u128::from(bytes) * BYTE).min(self.size);
        let lacks = cost.saturating_sub(self.level).div_ceil(u128::from(self.rate));
        let ready = earliest + Duration::from_nanos(u64::try_from(lacks).unwrap_or(u64::MAX));
        self.fill(ready);
        self.level = self.level.saturating_sub(cost);
        ready
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// 8 Mbps is a byte per microsecond: 3000 bytes at once, then one of 1000 every millisecond.
    #[test]
    fn a_policer_passes_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(BucketSpec { rate: 8_000_000, burst: 3000 });
        let passed: Vec<bool> = (0..6).map(|_| bucket.take(at(10), 1000)).collect();
        assert_eq!(passed, [true, true, true, false, false, false]);
        assert!(!bucket.take(at(1009), 1000));
        assert!(bucket.take(at(1010), 1000));
        assert!(!bucket.take(at(1010), 1));
        // It holds at most its burst, however long it is idle.
        assert!(bucket.take(at(1_000_000), 3000) && !bucket.take(at(1_000_000), 1));
    }

    #[test]
    fn a_shaper_sends_when_the_bucket_has_filled() {
        let mut bucket = TokenBucket::new(BucketSpec { rate: 8_000_000, burst: 1500 });
        let ready: Vec<Instant> = [1500, 1500, 500].map(|bytes| bucket.wait(at(100), bytes)).into();
        assert_eq!(ready, [at(100), at(1600), at(2100)]);
        // Larger than the bucket: as soon as that is full, instead of never.
        assert_eq!(bucket.wait(at(2100), 9000), at(3600));
        assert_eq!(bucket.wait(at(3600), 1), at(3601));
    }

    proptest! {
        /// In any sequence of frames, at most the data of the rate in that time plus the burst passes. A shaper is
        /// work-conserving: it never delays a frame whose bytes the rate has yielded.
        #[test]
        fn the_bound_holds_in_any_span(
            rate in 1u64..100_000_000,
            burst in 1500u64..100_000,
            offers in proptest::collection::vec((0u64..5_000_000, 1u32..1500), 1..60),
        ) {
            let spec = BucketSpec { rate, burst };
            let (mut policer, mut shaper) = (TokenBucket::new(spec), TokenBucket::new(spec));
            let mut now = Instant::ZERO;
            let (mut policed, mut shaped) = (Vec::new(), Vec::new());
            for (after, bytes) in offers {
                now += Duration::from_nanos(after);
                if policer.take(now, bytes) {
                    policed.push((now, bytes));
                }
                let ready = shaper.wait(now, bytes);
                let earliest = shaped.last().map_or(now, |(last, _): &(Instant, u32)| (*last).max(now));
                prop_assert!(ready >= earliest);
                if ready > earliest {
                    // A nanosecond earlier the bytes would have exceeded the bound of some span that ends there.
                    let too_much = |from: usize| {
                        let sent: u128 = shaped[from..].iter().map(|(_, bytes)| u128::from(*bytes)).sum();
                        let span = u128::from(ready.since(shaped[from].0).as_nanos()) - 1;
                        (sent + u128::from(bytes)) * BYTE > u128::from(rate) * span + u128::from(burst) * BYTE
                    };
                    prop_assert!((0..shaped.len()).any(too_much));
                }
                shaped.push((ready, bytes));
            }
            for passed in [policed, shaped] {
                for first in 0..passed.len() {
                    let mut sent = 0u128;
                    for (time, bytes) in &passed[first..] {
                        sent += u128::from(*bytes) * BYTE;
                        let span = u128::from(time.since(passed[first].0).as_nanos());
                        prop_assert!(sent <= u128::from(rate) * span + u128::from(burst) * BYTE);
                    }
                }
            }
        }
    }
}
