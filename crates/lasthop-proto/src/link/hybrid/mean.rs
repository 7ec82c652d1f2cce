//! Mean of the recent values of a quantity.

use crate::time::{Duration, Instant};

/// Time over which values are averaged.
const SPAN: Duration = Duration::from_millis(200);

/// Minimum and maximum weight of a value, in 1/1024.
const LEAST: u64 = 4;
const MOST: u64 = 256;

/// Maximum value.
const LARGEST: i64 = 1 << 50;

/// Exponentially weighted mean over about 200 ms, or over four values if they are rarer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Mean {
    value: Option<i64>,
    at: Instant,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, now: Instant, value: i64) {
        let weight = (now.since(self.at).min(SPAN).as_nanos() * 1024 / SPAN.as_nanos()).clamp(LEAST, MOST);
        let value = value.clamp(-LARGEST, LARGEST);
        self.value = Some(self.value.map_or(value, |mean| mean + (value - mean) * weight as i64 / 1024));
        self.at = now;
    }

    /// Returns the mean, if there are values.
    pub const fn value(&self) -> Option<i64> {
        self.value
    }
}

/// Inverse share of the values that exceed the quantile: 0.5 %.
const EXCEED: i64 = 200;

/// Number of values after which the quantile decreases by their mean deviation, if none exceeds it.
const FALL: i64 = 1024;

/// Estimate of the time that all but 0.5 % of the values stay below, by stochastic approximation (Robbins and Monro): it
/// rises by a step of 199 if a value exceeds it, and falls by one otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Quantile {
    /// Estimate in nanoseconds.
    value: Option<i64>,
    mean: i64,
    /// Mean absolute deviation.
    deviation: i64,
}

impl Quantile {
    /// Adds a value.
    pub fn add(&mut self, value: Duration) {
        let sample = value.as_nanos().min(LARGEST as u64) as i64;
        let Some(quantile) = self.value else {
            *self = Self { value: Some(sample), mean: sample, deviation: sample / 8 };
            return;
        };
        self.deviation += ((sample - self.mean).abs() - self.deviation) / 64;
        self.mean += (sample - self.mean) / 64;
        let step = self.deviation / FALL;
        let change = if sample > quantile { (step * (EXCEED - 1)).min(sample - quantile) } else { -step };
        self.value = Some((quantile + change).max(0));
    }

    /// Returns the estimate; 0 without values.
    pub fn value(&self) -> Duration {
        Duration::from_nanos(self.value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values every 10 ms have a weight of 51/1024; after a second, a value has that of a quarter.
    #[test]
    fn weights_follow_the_intervals() {
        let mut mean = Mean::default();
        assert_eq!(mean.value(), None);
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        mean.add(at(0), 1024);
        mean.add(at(10), 2048);
        assert_eq!(mean.value(), Some(1024 + 51));
        mean.add(at(1010), 1075 + 400);
        assert_eq!(mean.value(), Some(1175));
    }

    /// Uniform values from 0 to 1 s: the quantile is 995 ms.
    #[test]
    fn the_quantile_is_that_of_uniform_values() {
        let mut quantile = Quantile::default();
        for index in 0..100_000u64 {
            // A low-discrepancy sequence.
            quantile.add(Duration::from_micros(index * 618_034 % 1_000_000));
        }
        let millis = quantile.value().as_nanos() / 1_000_000;
        assert!((975..=1000).contains(&millis), "{millis}");
    }
}
