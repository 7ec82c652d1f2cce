//! Losses that are known per interval only: their number, and their dispersion.
//!
//! With independent losses, the counts of equal intervals follow a binomial distribution. Losses in runs increase their
//! variance: by the factor (1 + r) / (1 - r) for states that change with packets, where r is the correlation of
//! neighbours. The counts thus bound that factor, and with it the length of runs.

use lasthop_proto::channel::{ErrorSpec, Frames};

use crate::adequacy::Adequacy;
use crate::family::{Family, Fit, share, uniform_of};
use crate::kept::{Kept, Why};
use crate::seen::Counts;
use crate::{Detail, Report};

/// Minimum number of intervals for estimating the variance.
const FEWEST: usize = 5;
/// 97.5 % and 99.5 % quantiles of the normal distribution.
const SURE: f64 = 1.959_963_984_540_054;
const VERY_SURE: f64 = 2.575_829_303_548_901;

/// Variance of the counts relative to independent losses, its 97.5 % bound, and whether it may be chance.
struct Dispersion {
    factor: f64,
    most: f64,
    may_be_chance: bool,
}

/// Fits models to counts of lost packets. `None` without packets.
pub fn fit_counts(counts: &Counts) -> Option<Report> {
    let (packets, lost) = (counts.packets(), counts.lost());
    if packets == 0 {
        return None;
    }
    let share = lost as f64 / packets as f64;
    let mut fits = vec![if lost == 0 { Fit::none() } else { uniform_of(lost as f64, packets as f64) }];
    let mut kept = Vec::new();
    let dispersion = dispersion(counts).filter(|_| lost > 0 && lost < packets);
    if let Some(Dispersion { factor, most, may_be_chance }) = dispersion {
        if !may_be_chance {
            fits.insert(0, runs(share, factor));
        }
        kept.push(Kept { fit: runs(share, most), why: Why::LongestRuns });
    }
    let untold = match (lost, &dispersion) {
        (0, _) => None,
        (_, Some(_)) => Some(
            "the losses are counts per interval; their distribution within an interval was not measured".to_owned(),
        ),
        (_, None) => Some(format!(
            "the losses are counts of {} interval(s): whether they are isolated or in long runs was not measured; measure with `lasthop probe`, or with \
             ping -D -O at a short interval",
            counts.intervals.len()
        )),
    };
    Some(Report {
        packets,
        lost,
        mean_run: 0.0,
        longest_run: 0,
        detail: Detail::Intervals,
        alike: Vec::new(),
        kept,
        untold,
        adequacy: Adequacy::unchecked(),
        fits,
    })
}

/// Returns the dispersion; `None` if there are too few intervals or losses.
fn dispersion(counts: &Counts) -> Option<Dispersion> {
    let share = counts.lost() as f64 / counts.packets() as f64;
    if counts.intervals.len() < FEWEST || counts.lost() < FEWEST as u64 {
        return None;
    }
    let squares = counts.intervals.iter().map(|count| {
        let packets = count.packets as f64;
        let apart = count.lost as f64 - packets * share;
        apart * apart / (packets * share * (1.0 - share))
    });
    let (sum, free) = (squares.sum::<f64>(), (counts.intervals.len() - 1) as f64);
    Some(Dispersion {
        factor: (sum / free).max(1.0),
        most: (sum / chi_squared(free, -SURE)).max(1.0),
        may_be_chance: sum <= chi_squared(free, VERY_SURE),
    })
}

/// Returns the quantile of the chi-squared distribution for the quantile `z` of the normal one (Wilson and Hilferty
/// 1931).
fn chi_squared(free: f64, z: f64) -> f64 {
    let part = 2.0 / (9.0 * free);
    let root = (1.0 - part + z * libm::sqrt(part)).max(0.05);
    free * root * root * root
}

/// Returns the model whose states change with packets and whose bad state loses all, with `factor` times the variance
/// of independent losses.
fn runs(loss: f64, factor: f64) -> Fit {
    let correlation = (factor - 1.0) / (factor + 1.0);
    let bad_to_good = ((1.0 - correlation) * (1.0 - loss)).clamp(1e-6, 1.0);
    let good_to_bad = (bad_to_good * loss / (1.0 - loss)).clamp(0.0, 1.0);
    let spec =
        ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss: 0.0, bad_loss: 1.0, frames: Frames::All };
    let parameters = vec![
        share("good_to_bad", good_to_bad, None),
        share("bad_to_good", bad_to_good, None),
        share("good_loss", 0.0, None),
        share("bad_loss", 1.0, None),
    ];
    Fit::untested(Family::TwoStatePacket, spec, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::Count;

    fn counts(lost: impl IntoIterator<Item = u64>) -> Counts {
        let count = |lost| Count { from_s: 0.0, packets: 1000, lost };
        Counts { intervals: lost.into_iter().map(count).collect(), bytes: 1228 }
    }

    /// The 2.5 % and 97.5 % quantiles for 20 degrees of freedom are 9.591 and 34.170.
    #[test]
    fn quantiles_of_chi_squared() {
        assert!((chi_squared(20.0, -SURE) - 9.591).abs() < 0.02, "{}", chi_squared(20.0, -SURE));
        assert!((chi_squared(20.0, SURE) - 34.170).abs() < 0.02);
    }

    /// A binomial variance of counts permits short runs only; ten times that variance excludes independent losses.
    #[test]
    fn the_variance_of_counts_bounds_the_runs() {
        let binomial = counts([20, 24, 16, 21, 19, 15, 25, 20, 23, 17, 22, 18, 20, 24, 16, 21, 19, 15, 25, 20]);
        let report = fit_counts(&binomial).unwrap();
        assert_eq!((report.chosen().family, report.kept.len()), (Family::Uniform, 1));
        let mean_run = 1.0 / report.kept[0].fit.parameter("bad_to_good").unwrap().value;
        assert!((1.0..2.5).contains(&mean_run), "{mean_run}");
        assert!(report.untold.is_some());
        let uneven = counts([0, 60, 0, 0, 90, 0, 0, 0, 80, 0, 0, 70, 0, 0, 0, 0, 100, 0, 0, 0]);
        let report = fit_counts(&uneven).unwrap();
        assert_eq!(report.chosen().family, Family::TwoStatePacket);
        assert!(1.0 / report.chosen().parameter("bad_to_good").unwrap().value > 10.0);
    }

    /// A single count gives no information about runs; without losses there is nothing to add.
    #[test]
    fn too_few_counts_say_so() {
        let report = fit_counts(&counts([20])).unwrap();
        assert!(report.kept.is_empty() && report.untold.unwrap().contains("not measured"));
        let none = fit_counts(&counts([0; 10])).unwrap();
        assert_eq!((none.chosen().family, none.untold), (Family::None, None));
        assert!(fit_counts(&counts([])).is_none());
    }
}
