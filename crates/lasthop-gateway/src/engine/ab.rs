//! The comparison of treated and untreated connections.

use lasthop_proto::random::Stream;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Goodputs kept of one arm.
const KEPT: usize = 1024;

/// Whether a connection is treated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arm {
    /// As the rule says.
    #[default]
    Treated,
    /// It passes as it is, for comparison.
    Untreated,
}

/// A fair sample of at most [`KEPT`] goodputs (Vitter's algorithm R).
#[derive(Clone, Default, Debug)]
pub(super) struct Reservoir {
    seen: u64,
    kept: Vec<f64>,
}

impl Reservoir {
    pub fn push(&mut self, value: f64, random: &mut Stream) {
        self.seen += 1;
        if self.kept.len() < KEPT {
            self.kept.push(value);
        } else if let Some(place) = self.kept.get_mut(random.below(self.seen) as usize) {
            *place = value;
        }
    }
}

/// One arm of a rule.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ArmReport {
    /// Connections measured: ended ones, and those at work now, with enough bytes acknowledged.
    pub flows: u64,
    /// The goodput of each, in bytes per second; of many, a random sample.
    pub goodputs: Vec<f64>,
}

impl ArmReport {
    pub(super) fn of(reservoir: &Reservoir) -> Self {
        Self { flows: reservoir.seen, goodputs: reservoir.kept.clone() }
    }
}

/// Both arms of a rule.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RuleArms {
    /// The rule.
    pub name: String,
    /// Those treated.
    pub treated: ArmReport,
    /// Those not treated.
    pub untreated: ArmReport,
}

/// How many times as fast treated connections are, with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gain {
    /// Geometric mean of the treated goodputs over that of the untreated.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl RuleArms {
    /// The gain; `None` with fewer than two connections in either arm.
    ///
    /// Goodputs of connections spread over orders of magnitude, so that it is their logarithms that are compared, by
    /// Welch's t interval, which does not ask both arms to spread alike.
    pub fn gain(&self) -> Option<Gain> {
        let (treated, untreated) = (Moments::of(&self.treated.goodputs)?, Moments::of(&self.untreated.goodputs)?);
        let squared = treated.error + untreated.error;
        let difference = treated.mean - untreated.mean;
        let half = if squared > 0.0 {
            let freedom = squared.powi(2)
                / (treated.error.powi(2) / treated.freedom + untreated.error.powi(2) / untreated.freedom);
            StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975) * squared.sqrt()
        } else {
            0.0
        };
        Some(Gain { ratio: difference.exp(), low: (difference - half).exp(), high: (difference + half).exp() })
    }
}

/// Of logarithms: the mean, its squared standard error, and degrees of freedom.
struct Moments {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
        let n = logs.len() as f64;
        if logs.len() < 2 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { mean, error: variance / n, freedom: n - 1.0 })
    }
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
        assert_eq!((report.flows, report.goodputs.len()), (100_000, KEPT));
        let mean = report.goodputs.iter().sum::<f64>() / KEPT as f64;
        // Standard error: 100,000 / sqrt(12 * 1024).
        assert!((mean - 50_000.0).abs() < 4.0 * 902.0, "{mean}");
    }

    #[test]
    fn the_gain_and_its_interval() {
        let arms = |treated: &[f64], untreated: &[f64]| RuleArms {
            treated: ArmReport { flows: 0, goodputs: treated.to_vec() },
            untreated: ArmReport { flows: 0, goodputs: untreated.to_vec() },
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
