//! The comparison of treated and untreated connections: by goodput, or by any other quantity that spreads over orders of magnitude.

use lasthop_proto::random::Stream;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Values kept of one arm.
const KEPT: usize = 1024;

/// Whether a connection is treated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arm {
    /// As the configuration says.
    #[default]
    Treated,
    /// It passes as it is, for comparison.
    Untreated,
}

/// A fair sample of at most 1024 values, one of each connection (Vitter's algorithm R).
#[derive(Clone, Default, Debug)]
pub struct Reservoir {
    seen: u64,
    kept: Vec<f64>,
}

impl Reservoir {
    /// Another value; `random` decides whether it is kept.
    pub fn push(&mut self, value: f64, random: &mut Stream) {
        self.seen += 1;
        if self.kept.len() < KEPT {
            self.kept.push(value);
        } else if let Some(place) = self.kept.get_mut(random.below(self.seen) as usize) {
            *place = value;
        }
    }
}

/// One arm of a comparison.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ArmReport {
    /// Connections measured: ended ones, and those at work now, with enough bytes acknowledged.
    pub flows: u64,
    /// The value of each, as its goodput in bytes per second; of many, a random sample.
    pub values: Vec<f64>,
}

impl ArmReport {
    /// What a sample holds.
    pub fn of(reservoir: &Reservoir) -> Self {
        Self { flows: reservoir.seen, values: reservoir.kept.clone() }
    }

    /// A connection that has not ended.
    pub fn push(&mut self, value: f64) {
        self.flows += 1;
        self.values.push(value);
    }

    /// The geometric mean; `None` without values above zero.
    pub fn mean(&self) -> Option<f64> {
        let logs = logs(&self.values);
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }
}

/// Both arms of a comparison.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RuleArms {
    /// What is compared: a rule.
    pub name: String,
    /// Those treated.
    pub treated: ArmReport,
    /// Those not treated.
    pub untreated: ArmReport,
}

/// How many times as fast treated connections are, or the ratio of other values, with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gain {
    /// Geometric mean of the treated values over that of the untreated.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl RuleArms {
    /// One of the arms.
    pub const fn arm_mut(&mut self, arm: Arm) -> &mut ArmReport {
        match arm {
            Arm::Treated => &mut self.treated,
            Arm::Untreated => &mut self.untreated,
        }
    }

    /// The gain; `None` with fewer than two connections in either arm, or an interval beyond all numbers.
    ///
    /// Goodputs and round trips of connections spread over orders of magnitude, so that it is their logarithms that are compared, by
    /// Welch's t interval, which does not ask both arms to spread alike.
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

/// Of logarithms: the mean, its squared standard error, and degrees of freedom.
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

/// By how much one share exceeds another, with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The first share less the second.
    pub difference: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Difference {
    /// Of two counts, each of so many; `None` where one is of nothing.
    ///
    /// The interval is Newcombe's (1998, method 10), from Wilson's of both shares: it holds for shares near zero too. It takes each
    /// event for independent of the others.
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

/// A share, and the ends of its 95 % interval (Wilson, 1927).
fn wilson((count, all): (u64, u64)) -> Option<[f64; 3]> {
    /// The 97.5 % quantile of the normal distribution.
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
        // Alike: three times as fast, and sure of it.
        let slow: Vec<f64> = (0..50).map(|n| 1e6 * (1.0 + 0.01 * f64::from(n % 10))).collect();
        let fast: Vec<f64> = slow.iter().map(|value| 3.0 * value).collect();
        let gain = arms(&fast, &slow).gain().unwrap();
        assert!((gain.ratio - 3.0).abs() < 1e-9 && gain.low > 2.9 && gain.high < 3.1, "{gain:?}");
        let even = arms(&[5.0; 3], &[5.0; 4]).gain().unwrap();
        assert_eq!((even.ratio, even.low, even.high), (1.0, 1.0, 1.0));
    }
}
