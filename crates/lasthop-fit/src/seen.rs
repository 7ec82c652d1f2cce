//! Properties of a path that a measurement shows besides its losses.

/// Delays of packets, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Spread {
    /// Minimum.
    pub least_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// Maximum.
    pub most_ms: f64,
}

impl Spread {
    /// Summarises delays in seconds; `None` without any.
    pub fn of(seconds: &mut [f64]) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let at = (libm::ceil(share * seconds.len() as f64) as usize).clamp(1, seconds.len().max(1));
            seconds.get(at - 1).map(|seconds| libm::round(seconds * 1e6) / 1e3)
        };
        Some(Self { least_ms: rank(0.0)?, median_ms: rank(0.5)?, p95_ms: rank(0.95)?, most_ms: rank(1.0)? })
    }

    /// Returns the difference between the 95th percentile and the minimum.
    pub fn variation_ms(&self) -> f64 {
        self.p95_ms - self.least_ms
    }
}

/// Observations besides losses. A field is `None` if the measurement does not show it.
#[derive(Clone, Copy, PartialEq, Default, Debug, serde::Serialize)]
pub struct Seen {
    /// Number of packets that arrived.
    pub arrived: u64,
    /// Round-trip times.
    pub round_trip: Option<Spread>,
    /// One-way delays above the minimum: unsynchronised clocks show no more.
    pub one_way: Option<Spread>,
    /// Number of packets that arrived after one sent later.
    pub reordered: Option<u64>,
    /// Number of duplicates.
    pub duplicates: Option<u64>,
    /// Sending rate in bits per second, IP headers included.
    pub sent_bps: Option<f64>,
}

/// Lost packets in one interval of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Count {
    /// Beginning in seconds.
    pub from_s: f64,
    /// Number of packets sent.
    pub packets: u64,
    /// Number of packets lost.
    pub lost: u64,
}

/// Losses that are known per interval only.
#[derive(Clone, PartialEq, Debug)]
pub struct Counts {
    /// Intervals in order of time; each has packets.
    pub intervals: Vec<Count>,
    /// Bytes of a packet, network header included.
    pub bytes: u32,
}

impl Counts {
    /// Returns the number of packets in all intervals.
    pub fn packets(&self) -> u64 {
        self.intervals.iter().map(|count| count.packets).sum()
    }

    /// Returns the number of packets lost in all intervals.
    pub fn lost(&self) -> u64 {
        self.intervals.iter().map(|count| count.lost).sum()
    }

    /// Returns the beginning of each interval in seconds, and its loss, 0 to 1.
    pub fn loss_over_time(&self) -> Vec<(f64, f64)> {
        self.intervals.iter().map(|count| (count.from_s, count.lost as f64 / count.packets as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn quantiles_are_of_the_sorted_delays() {
        let mut delays: Vec<f64> = (1..=100).rev().map(|millis| f64::from(millis) / 1e3).collect();
        let spread = Spread::of(&mut delays).unwrap();
        assert_eq!((spread.least_ms, spread.median_ms, spread.p95_ms, spread.most_ms), (1.0, 50.0, 95.0, 100.0));
        assert_eq!(Spread::of(&mut []), None);
    }
}
