//! Comparison of treated and untreated connections by goodput, or by another quantity that spans orders of magnitude.

use lasthop_proto::random::Stream;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Number of values kept of one arm.
const KEPT: usize = 1024;

/// Arm of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arm {
    /// Treated as configured.
    #[default]
    Treated,
    /// Left untreated for comparison.
    Untreated,
}

/// Uniform random sample of at most 1024 values, one of each connection (Vitter's algorithm R).
#[derive(Clone, Default, Debug)]
pub struct Reservoir {
    seen: u64,
    kept: Vec<f64>,
}

impl Reservoir {
    /// Adds a value; `random` decides whether it is kept.
    pub fn push(&mut self, value: f64, random: &mut Stream) {
        self.seen += 1;
        if self.kept.len() < KEPT {
            self.kept.push(value);
        } else if let Some(place) = self.kept.get_mut(random.below(self.seen) as usize) {
            *place = value;
        }
    }
}

/// Report on one arm of a comparison.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ArmReport {
    /// Number of connections measured, ended and active, with enough acknowledged bytes.
    pub flows: u64,
    /// Value of each connection, such as its goodput in bytes per second; a random sample if there are many.
    pub values: Vec<f64>,
}

impl ArmReport {
    /// Returns the report of a sample.
    pub fn of(reservoir: &Reservoir) -> Self {
        Self { flows: reservoir.seen, values: reservoir.kept.clone() }
    }

    /// Adds a connection that has not ended.
    pub fn push(&mut self, value: f64) {
        self.flows += 1;
        self.values.push(value);
    }

    /// Returns the geometric mean; `None` without values above zero.
    pub fn mean(&self) -> Option<f64> {
        let logs = logs(&self.values);
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }
}

/// Report on both arms of a comparison.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RuleArms {
    /// Subject of the comparison: a rule.
    pub name: String,
    /// Treated connections.
    pub treated: ArmReport,
    /// Untreated connections.
    pub untreated: ArmReport,
}

/// Ratio of the goodputs, or other values, of treated and untreated connections, with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gain {
    /// Geometric mean of the treated values divided by that of the untreated ones.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl RuleArms {
    /// Returns one of the arms.
    pub const fn arm_mut(&mut self, arm: Arm) -> &mut ArmReport {
        match arm {
            Arm::Treated => &mut self.treated,
            Arm::Untreated => &mut self.untreated,
        }
    }

    /// Returns the gain; `None` with fewer than two connections in either arm, or if the interval is not finite.
    ///
    /// Goodputs and round-trip times span orders of magnitude, so their logarithms are compared. Welch's t interval
    /// does not require equal variances.
    pub fn gain(&self) -> Option<Gain> {
        let (treated, untreated) = (Moments::of(&self.treated.values)?, Moments::of(&self.untreated.values)?);
        let squared = treated.error + untreated.error;
        let difference = treated.mean - untreated.mean;
        let half = if squared > 0.0 {
            let freedom = squared.powi(2)
                / (treated.error.powi(2) / treated.freedom + untreated.error.powi(2) / untreated.freedom);
            StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975) * squared.sqrt()
        } else {
            0.0
        };
        let gain = Gain { ratio: difference.exp(), low: (difference - half).exp(), high: (difference + half).exp() };
        (gain.low.is_finite() && gain.high.is_finite()).then_some(gain)
    }
}

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect()
}

/// Moments of logarithms: the mean, its squared standard error, and degrees of freedom.
struct Moments {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let logs = logs(values);
        let n = logs.len() as f64;
        if logs.len() < 2 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { mean, error: variance / n, freedom: n - 1.0 })
    }
}

/// Difference of two shares, with its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// First share minus the second.
    pub difference: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Difference {
    /// Computes the difference from pairs of count and total; `None` if a total is 0.
    ///
    /// The interval is Newcombe's (1998, method 10), from Wilson's of both shares, which is valid near zero too. It
    /// assumes independent events.
    pub fn of(first: (u64, u64), second: (u64, u64)) -> Option<Self> {
        let ([one, one_low, one_high], [two, two_low, two_high]) = (wilson(first)?, wilson(second)?);
        let difference = one - two;
        Some(Self {
            difference,
            low: difference - (one - one_low).hypot(two_high - two),
            high: difference + (one_high - one).hypot(two - two_low),
        })
    }
}

/// Returns a share, and the ends of its 95 % confidence interval (Wilson, 1927).
fn wilson((count, all): (u64, u64)) -> Option<[f64; 3]> {
    /// Quantile 97.5 % of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    if all == 0 {
        return None;
    }
    let n = all as f64;
    let share = count.min(all) as f64 / n;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some([share, (middle - half) / scale, (middle + half) / scale])
}

#[cfg(test)]
mod tests {
    use lasthop_proto::random::Root;

    use super::*;

    #[test]
    fn a_reservoir_is_a_fair_sample() {
        let mut random = Root(1).stream("test");
        let mut reservoir = Reservoir::default();
        (0..100_000).for_each(|n| reservoir.push(f64::from(n), &mut random));
        let report = ArmReport::of(&reservoir);
        assert_eq!((report.flows, report.values.len()), (100_000, KEPT));
        let mean = report.values.iter().sum::<f64>() / KEPT as f64;
        // Standard error: 100,000 / sqrt(12 * 1024).
        assert!((mean - 50_000.0).abs() < 4.0 * 902.0, "{mean}");
    }

    /// Newcombe (1998), table II, method 10.
    #[test]
    fn a_difference_of_shares_and_its_interval() {
        for (first, second, low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((5, 56), (0, 29), -0.0381, 0.1926),
        ] {
            let told = Difference::of(first, second).unwrap();
            assert!((told.low - low).abs() < 1e-4 && (told.high - high).abs() < 1e-4, "{told:?}");
        }
        assert_eq!(Difference::of((0, 0), (0, 5)), None);
    }

    #[test]
    fn the_gain_and_its_interval() {
        let arms = |treated: &[f64], untreated: &[f64]| RuleArms {
            treated: ArmReport { flows: 0, values: treated.to_vec() },
            untreated: ArmReport { flows: 0, values: untreated.to_vec() },
            ..RuleArms::default()
        };
        assert_eq!(arms(&[1.0], &[1.0, 2.0]).gain(), None);
        // Logarithms 0 and 2 against 0 and 0: mean 1, error 1, one degree of freedom, t = 12.706.
        let gain = arms(&[1.0, 2f64.exp().powi(1)], &[1.0, 1.0]).gain().unwrap();
        assert!((gain.ratio - 1f64.exp()).abs() < 1e-9 && (gain.high.ln() - 13.706).abs() < 1e-2, "{gain:?}");
        // Equal spread: three times as fast, with a narrow interval.
        let slow: Vec<f64> = (0..50).map(|n| 1e6 * (1.0 + 0.01 * f64::from(n % 10))).collect();
        let fast: Vec<f64> = slow.iter().map(|value| 3.0 * value).collect();
        let gain = arms(&fast, &slow).gain().unwrap();
        assert!((gain.ratio - 3.0).abs() < 1e-9 && gain.low > 2.9 && gain.high < 3.1, "{gain:?}");
        let even = arms(&[5.0; 3], &[5.0; 4]).gain().unwrap();
        assert_eq!((even.ratio, even.low, even.high), (1.0, 1.0, 1.0));
    }
}
