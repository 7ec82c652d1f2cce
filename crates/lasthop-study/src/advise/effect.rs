//! Result of a use under a cure, and its improvement over no cure.

use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;

use super::Use;
use crate::measures::{Summary, find, summarise};
use crate::stats::Estimate;

/// Result of one use under one cure.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The use.
    pub usage: Use,
    /// Result in the use's unit.
    pub value: Estimate,
    /// Result relative to that without a cure; `None` if that is zero.
    pub factor: Option<Factor>,
    /// All metrics.
    pub summaries: Vec<Summary>,
}

impl Effect {
    /// Compares the results of runs with and without a cure. Returns `None` without runs.
    pub(super) fn of(usage: Use, with: (&Network, &[Report]), without: (&Network, &[Report])) -> Option<Self> {
        let values = |(network, reports): (&Network, &[Report])| -> Vec<f64> {
            reports.iter().map(|report| usage.value(network, report)).collect()
        };
        let (mine, none) = (values(with), values(without));
        let value = Estimate::of(&mine)?;
        Some(Self { usage, value, factor: Factor::of(&mine, &none), summaries: summarise(with.0, with.1) })
    }

    /// Returns the sender's round-trip time under this load in milliseconds, median and 95th percentile: means over the
    /// runs. `None` if nothing was acknowledged.
    pub fn round_trip_ms(&self) -> Option<[f64; 2]> {
        let of = |name: &str| find(&self.summaries, name).map(|estimate| estimate.mean);
        Some([of("rtt_p50")?, of("rtt_p95")?])
    }

    /// Returns the mean of the metric of that name; 0 if there is none.
    pub fn mean(&self, name: &str) -> f64 {
        find(&self.summaries, name).map_or(0.0, |estimate| estimate.mean)
    }
}

/// Ratio of two results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factor {
    /// The ratio.
    pub mean: f64,
    /// 95 % interval of the factor; a point for a single run.
    pub interval: (f64, f64),
}

impl Factor {
    /// Returns the geometric mean of `these` over `those`, taken in pairs, so that variation between runs cancels.
    /// `None` if one of `those` is zero.
    pub(super) fn of(these: &[f64], those: &[f64]) -> Option<Self> {
        if those.iter().any(|that| *that <= 0.0) {
            return None;
        }
        let logarithms: Vec<f64> = these.iter().zip(those).map(|(this, that)| (this / that).ln()).collect();
        let mean = Estimate::of(&logarithms)?;
        if mean.mean.is_finite() {
            let (low, high) = mean.interval();
            return Some(Self { mean: mean.mean.exp(), interval: (low.exp(), high.exp()) });
        }
        // Some of `these` are zero.
        let ratio = these.iter().sum::<f64>() / those.iter().sum::<f64>();
        Some(Self { mean: ratio, interval: (0.0, f64::INFINITY) })
    }
}
