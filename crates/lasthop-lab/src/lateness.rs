//! Scheduling delay of the emulated links: time by which frames leave after they are due.

use lasthop_proto::time::Duration;

/// Maximum delay that is resolved, in microseconds. Longer ones count as this.
const LONGEST: usize = 100_000;

/// Distribution of scheduling delays, with a resolution of a microsecond.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lateness {
    /// Number of frames by whole microseconds.
    frames: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { frames: vec![0; LONGEST + 1], total: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// Adds a frame.
    pub fn add(&mut self, late: Duration) {
        let micros = usize::try_from(late.as_nanos() / 1000).unwrap_or(LONGEST).min(LONGEST);
        self.frames[micros] += 1;
        self.total += 1;
        self.max = self.max.max(late);
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.total
    }

    /// Returns the maximum delay.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the delay, rounded up to a microsecond, that `percent` of all frames do not exceed; zero without frames.
    pub fn percentile(&self, percent: u64) -> Duration {
        let wanted = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        let place = self.frames.iter().position(|frames| {
            seen += frames;
            seen >= wanted && wanted > 0
        });
        place.map_or(Duration::ZERO, |micros| Duration::from_micros(micros as u64 + 1).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_sample() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.percentile(99), Duration::ZERO);
        (1..=100).for_each(|micros| lateness.add(Duration::from_nanos(micros * 1000 - 500)));
        assert_eq!(lateness.percentile(50), Duration::from_micros(50));
        assert_eq!(lateness.percentile(99), Duration::from_micros(99));
        assert_eq!(lateness.percentile(100), Duration::from_nanos(99_500));
        lateness.add(Duration::from_secs(5));
        assert_eq!((lateness.max(), lateness.frames()), (Duration::from_secs(5), 101));
        assert_eq!(lateness.percentile(99), Duration::from_nanos(100_000));
    }
}
