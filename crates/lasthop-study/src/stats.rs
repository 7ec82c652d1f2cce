//! Means and their confidence intervals.

use std::sync::OnceLock;

use lasthop_report::study::{CellRow, Lab, Relation};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean of a sample, and half width of its 95 % Student-t interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half width of the interval; `None` for fewer than two values.
    pub ci95: Option<f64>,
    /// Number of values.
    pub n: u32,
}

impl Estimate {
    /// Returns the row of a table with this estimate.
    pub fn row(self, cell: &str, (metric, unit): (&str, &str), published: Option<f64>) -> CellRow {
        CellRow {
            cell: cell.to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            published,
            measured: self.mean,
            ci95: self.ci95,
            runs: self.n,
            relation: Relation::Same,
            lab: None,
        }
    }

    /// Returns the estimate as a number from the lab.
    pub(crate) const fn lab(self) -> Lab {
        Lab { value: self.mean, ci95: self.ci95, runs: self.n }
    }

    /// Returns the estimate from `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let ci95 = (n > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            t975(n - 1) * (variance / n as f64).sqrt()
        });
        Some(Self { mean, ci95, n: n as u32 })
    }

    /// Returns the estimate from the mean of `n` values and the sum of their squared deviations from it.
    pub fn from_moments(mean: f64, squares: f64, n: u32) -> Self {
        let degrees = n.saturating_sub(1);
        let half = || t975(degrees as usize) * (squares / f64::from(degrees) / f64::from(n)).sqrt();
        Self { mean, ci95: (n > 1).then(half), n }
    }

    /// Returns the median of `values` in place of the mean; `None` if there are none. The interval is that of the order
    /// statistics that contain the median with a probability of at least 95 %, whatever the distribution; it requires
    /// six values, and its half width is that of the farther bound.
    pub fn median_of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let middle = [sorted.get(n.checked_sub(1)? / 2)?, sorted.get(n / 2)?];
        let median = (middle[0] + middle[1]) / 2.0;
        // The median lies below the k-th smallest value with the probability that fewer than k of n fair coins show
        // heads.
        let (mut tail, mut coins, mut below) = (0.0, 0.5f64.powi(n as i32), None);
        for k in 0..n / 2 {
            tail += coins;
            if tail > 0.025 {
                break;
            }
            below = Some(k);
            coins *= (n - k) as f64 / (k + 1) as f64;
        }
        let half = |k: usize| (median - sorted[k]).max(sorted[n - 1 - k] - median);
        Some(Self { mean: median, ci95: below.map(half), n: n as u32 })
    }

    /// Returns the interval; a point for a single value.
    pub fn interval(&self) -> (f64, f64) {
        let half = self.ci95.unwrap_or(0.0);
        (self.mean - half, self.mean + half)
    }

    /// Returns the estimate of `factor` times the quantity.
    pub fn scaled(&self, factor: f64) -> Self {
        Self { mean: self.mean * factor, ci95: self.ci95.map(|half| half * factor.abs()), n: self.n }
    }

    /// Returns the estimate of the difference to an independent quantity. It has no interval if either has none.
    pub fn minus(&self, other: &Self) -> Self {
        let ci95 = self.ci95.zip(other.ci95).map(|(own, other)| own.hypot(other));
        Self { mean: self.mean - other.mean, ci95, n: self.n.min(other.n) }
    }

    /// Returns the estimate of the ratio to an independent quantity, to first order in the errors. It has no interval if
    /// either has none.
    pub fn over(&self, other: &Self) -> Self {
        let mean = self.mean / other.mean;
        let relative = self.ci95.zip(other.ci95).map(|(own, theirs)| (own / self.mean).hypot(theirs / other.mean));
        Self { mean, ci95: relative.map(|relative| mean.abs() * relative), n: self.n.min(other.n) }
    }

    /// Returns whether the whole interval lies above the whole interval of `other`.
    pub fn above(&self, other: &Self) -> bool {
        self.interval().0 > other.interval().1
    }
}

/// Number of degrees of freedom whose quantiles are kept: those of as many runs, for each metric of each flow.
const KEPT: usize = 128;

/// Returns the 97.5 % quantile of Student's t.
fn t975(degrees: usize) -> f64 {
    static KNOWN: [OnceLock<f64>; KEPT] = [const { OnceLock::new() }; KEPT];
    // A search, which takes thousands of times longer than the rest of an estimate.
    let quantile = || StudentsT::new(0.0, 1.0, degrees as f64).map_or(f64::NAN, |t| t.inverse_cdf(0.975));
    KNOWN.get(degrees).map_or_else(quantile, |known| *known.get_or_init(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_published_quantiles() {
        // From a table of Student's t.
        for (degrees, t) in [(1, 12.706), (9, 2.262), (29, 2.045)] {
            assert!((t975(degrees) - t).abs() < 1e-3);
            assert_eq!(t975(degrees), t975(degrees));
        }
    }

    /// Of ten values, the second and the ninth contain the median with 97.9 %; of five, no two do with 95 %.
    #[test]
    fn medians_have_the_interval_of_order_statistics() {
        let ten = Estimate::median_of(&[10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0]).unwrap();
        assert_eq!((ten.mean, ten.ci95, ten.n), (5.5, Some(4.5), 10));
        let six = Estimate::median_of(&[1.0, 2.0, 3.0, 4.0, 5.0, 7.0]).unwrap();
        assert_eq!((six.mean, six.ci95), (3.5, Some(3.5)));
        let five = Estimate::median_of(&[3.0, 1.0, 2.0, 9.0, 8.0]).unwrap();
        assert_eq!((five.mean, five.ci95), (3.0, None));
        assert!(Estimate::median_of(&[]).is_none());
    }

    #[test]
    fn a_worked_example() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(estimate.mean, 2.0);
        assert!((estimate.ci95.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-3);
        assert!(!estimate.above(&Estimate::of(&[0.0, 0.1]).unwrap()));
        assert!(estimate.above(&Estimate { mean: -1.0, ci95: Some(0.1), n: 5 }));
    }
}
