//! Constant rates: the trains differ by no more than the halves of one train, in random order.

use super::statistics::{neighbours, variance};
use super::{Sample, Train};
use crate::estimate::quantile;

/// Maximum standard deviation of the logarithm of the rates.
const MOST: f64 = 0.05;
/// Maximum standard deviation that matters to nobody, in whatever order.
const NEGLIGIBLE: f64 = 0.02;
/// Maximum probability that a random order has the seen autocorrelation, to call the order not random. Of a thousand
/// constant directions one has less.
const CHANCE: f64 = 0.002;
/// Maximum ratio of the trains' variance to that of the halves of a train, and how much larger the latter is: it is
/// twice that of a half, which has half of the packets.
const ALIKE: f64 = 1.5;
const LARGER: f64 = 4.0;
/// Share of the rates at either end that stalls of an end may have caused.
const STALLS: f64 = 0.01;

/// Result of the test.
pub(super) struct Constant {
    pub is_constant: bool,
    /// True if only the spread within trains explains that of the rates.
    pub by_halves: bool,
    /// Evidence, as a clause.
    pub why: String,
}

/// Tests whether the rate is constant.
pub(super) fn constant(trains: &[Train], samples: &[Sample]) -> Constant {
    let logs: Vec<f64> = samples.iter().map(|sample| sample.log).collect();
    let [low, high] = [STALLS, 1.0 - STALLS].map(|share| quantile(&mut logs.clone(), share).unwrap_or(0.0));
    let usual: Vec<f64> = logs.iter().map(|log| log.clamp(low, high)).collect();
    let spread = libm::sqrt(variance(&usual));
    let halves: Vec<f64> =
        trains.iter().filter_map(|train| train.halves).map(|[one, other]| libm::log(one / other)).collect();
    let within = libm::sqrt(variance(&halves) / LARGER);
    let (correlation, chance) = neighbours(&usual);
    let random = chance > CHANCE;
    let small = spread < MOST && random || spread < NEGLIGIBLE;
    let like_halves = halves.len() * 2 > samples.len() && spread * spread < ALIKE * within * within && random;
    let why = format!(
        "standard deviation of the trains' rates {:.1} %, of halves of a train {:.1} %; autocorrelation of neighbours {correlation:.2}, p = {chance:.3}",
        100.0 * spread,
        100.0 * within
    );
    Constant { is_constant: small || like_halves, by_halves: !small, why }
}
