//! Readings: what is known of a daemon at an instant.

use serde::Serialize;
use serde_json::Value;

/// Answer of a daemon, and the measurements that are kept from it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// Answer of the daemon to a status request.
    pub status: Value,
    /// Sentences on the daemon: problems, and what the page has no table for.
    pub remarks: Vec<String>,
    /// Time since the daemon started, in seconds.
    pub uptime_seconds: f64,
    /// Identity of the process that counts; counters restart with it.
    pub counted_by: u64,
    /// Measurements.
    pub lines: Vec<Line>,
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Name of the part of the page with the chart, such as a peer.
    pub group: String,
    /// The chart.
    pub chart: Chart,
    /// Name of the line in the chart; unique within it.
    pub name: String,
    /// The measurement.
    pub measure: Measure,
}

/// Chart over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chart {
    /// Rates, in bits per second.
    Throughput,
    /// Rates of each path, repairs included, in bits per second.
    Paths,
    /// Round-trip times, in seconds.
    RoundTrip,
    /// Shares of packets that are lost.
    Loss,
    /// Numbers of packets per second.
    Packets,
}

/// Measurement of a daemon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measure {
    /// Number of bytes since the counter started; the line shows bits per second.
    Bytes(u64),
    /// Number of events since the counter started; the line shows events per second.
    Events(u64),
    /// Sum and number of samples since the counter started; the line shows their mean between two readings.
    Samples {
        /// Sum of the samples.
        sum: f64,
        /// Number of samples.
        count: u64,
    },
    /// Current value, if known.
    Value(Option<f64>),
}

impl Measure {
    /// Returns the value to show for the `seconds` since `before`, the same measurement of the previous reading. A
    /// counter has no value after a restart, nor in the first reading.
    pub(super) fn since(self, before: Option<Self>, seconds: f64) -> Option<f64> {
        let per_second = |now: u64, before: u64| {
            let more = now.checked_sub(before)?;
            (seconds > 0.0).then(|| more as f64 / seconds)
        };
        let value = match (self, before) {
            (Self::Value(value), _) => value,
            (Self::Bytes(now), Some(Self::Bytes(before))) => per_second(now, before).map(|bytes| 8.0 * bytes),
            (Self::Events(now), Some(Self::Events(before))) => per_second(now, before),
            (Self::Samples { sum, count }, Some(Self::Samples { sum: earlier, count: fewer })) => {
                let samples = count.checked_sub(fewer).filter(|samples| *samples > 0)?;
                Some((sum - earlier) / samples as f64)
            }
            _ => None,
        };
        value.filter(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_rates_and_sums_become_means() {
        let since = |now: Measure, before, seconds| now.since(before, seconds);
        assert_eq!(since(Measure::Bytes(3_000), Some(Measure::Bytes(1_000)), 2.0), Some(8_000.0));
        assert_eq!(since(Measure::Events(9), Some(Measure::Events(3)), 2.0), Some(3.0));
        let samples = |sum, count| Measure::Samples { sum, count };
        assert_eq!(since(samples(1.5, 5), Some(samples(0.5, 1)), 2.0), Some(0.25));
        assert_eq!(since(Measure::Value(Some(0.02)), None, 0.0), Some(0.02));
    }

    #[test]
    fn without_a_difference_there_is_no_value() {
        let samples = |sum, count| Measure::Samples { sum, count };
        for (now, before, seconds) in [
            // The first reading.
            (Measure::Bytes(5), None, 2.0),
            // A counter that restarted although nothing says so.
            (Measure::Bytes(5), Some(Measure::Bytes(6)), 2.0),
            // Two readings of one answer.
            (Measure::Events(6), Some(Measure::Events(5)), 0.0),
            // No samples between two readings.
            (samples(2.0, 4), Some(samples(2.0, 4)), 2.0),
            // A line that changed its meaning.
            (Measure::Bytes(6), Some(Measure::Events(5)), 2.0),
            (Measure::Value(None), None, 2.0),
            (Measure::Value(Some(f64::NAN)), None, 2.0),
        ] {
            assert_eq!(now.since(before, seconds), None, "{now:?} after {before:?}");
        }
    }
}
