//! Models that a trace cannot distinguish from the chosen one. Advice must hold under all of them.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::time::Duration;

use crate::CLEARLY_BETTER;
use crate::family::{Family, Fit, of_time};
use crate::states::{ByTime, Timed};
use crate::trace::{Clock, LossTrace};

/// Model that is kept in addition to the chosen one.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Kept {
    /// Fitted model.
    #[serde(flatten)]
    pub fit: Fit,
    /// Reason for keeping the model.
    pub why: Why,
}

/// Reason for which a model is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The model's AIC is about as good.
    AsGood,
    /// Packets were too far apart to show short bad periods: these are the longest that the trace permits.
    LongestBadTimes,
    /// Losses are known only as counts: these are the longest runs that the counts permit.
    LongestRuns,
}

impl Why {
    /// Returns the reason in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::AsGood => "fits about as well",
            Self::LongestBadTimes => "longest bad periods that the packet spacing allows",
            Self::LongestRuns => "longest runs that the counts allow",
        }
    }
}

/// Maximum spacing, in transmission times of a full packet, at which packets show the correlation of neighbouring
/// losses.
const SPARSE: f64 = 4.0;

/// Half of the 95 % quantile of the chi-squared distribution with one degree of freedom: maximum distance of a
/// log-likelihood from the greatest one.
const WITHIN: f64 = 1.92;

/// Returns the spacing in seconds if packets are too far apart to show the correlation of losses at the link's rate.
pub(crate) fn is_sparse(trace: &LossTrace) -> Option<f64> {
    let (spacing, air) = (trace.closest_spacing()?, trace.full_packet_air()?);
    (spacing > SPARSE * air).then_some(spacing)
}

/// Returns the fits that are as good as the first one, and a bound if packets were sparse. `fits` starts with the
/// chosen fit.
pub(crate) fn kept(trace: &LossTrace, fits: &[Fit]) -> Vec<Kept> {
    let Some((chosen, others)) = fits.split_first() else { return Vec::new() };
    let least = fits.iter().map(|fit| fit.aic).fold(f64::INFINITY, f64::min);
    let as_good = others.iter().filter(|fit| fit.aic <= least + CLEARLY_BETTER && !contains(fit.family, chosen.family));
    let mut kept: Vec<Kept> = as_good.map(|fit| Kept { fit: fit.clone(), why: Why::AsGood }).collect();
    let is_independent = matches!(chosen.family, Family::Uniform | Family::Exponential);
    let has_time = kept.iter().any(|kept| kept.fit.family == Family::TwoState);
    if let Some(spacing) = is_sparse(trace).filter(|_| is_independent && !has_time)
        && let Some(fit) = longest_bad_times(trace, spacing, chosen.log_likelihood)
    {
        kept.push(Kept { fit, why: Why::LongestBadTimes });
    }
    kept
}

/// Returns whether `family` contains the `chosen` model as a special case: its fit then adds parameters but no
/// information.
const fn contains(family: Family, chosen: Family) -> bool {
    matches!(family, Family::TwoState | Family::TwoStatePacket)
        && matches!(chosen, Family::Uniform | Family::Exponential)
}

/// Returns the model with states in time and the same loss whose bad periods are the longest with a likelihood close to
/// `independent`, that of independent losses.
fn longest_bad_times(trace: &LossTrace, spacing: f64, independent: f64) -> Option<Fit> {
    let lost = trace.lost() as f64 / trace.len() as f64;
    if !(0.0..1.0).contains(&lost) || lost == 0.0 {
        return None;
    }
    let model =
        |bad: f64| ByTime { good: bad * (1.0 - lost) / lost, bad, good_errors: 0.0, bad_errors: crate::family::ALL };
    let packets = Timed::of(trace);
    let fit = |bad: f64| of_time(model(bad), ByTime::log_likelihoods(&[model(bad)], &packets)[0]);
    // From far above the spacing, where neighbours are correlated, to far below it.
    let steps = (-8..=8).rev().map(|step| spacing * libm::exp2(f64::from(step) / 2.0));
    steps.map(fit).find(|fit| fit.log_likelihood >= independent - WITHIN)
}

/// Describes the properties that the trace cannot show, if it has losses.
pub(crate) fn untold(trace: &LossTrace, chosen: &ErrorSpec) -> Option<String> {
    if trace.lost() == 0 {
        return None;
    }
    if trace.clock() == Clock::Unknown {
        return Some(
            "the trace has no times: whether loss bursts last for a time or for a number of packets is unknown; give --interval, the time between \
             its packets"
                .to_owned(),
        );
    }
    let spacing = is_sparse(trace)?;
    let millis = Duration::from_secs_f64(spacing).as_secs_f64() * 1e3;
    let is_independent = matches!(chosen, ErrorSpec::Uniform { .. } | ErrorSpec::Exponential { .. });
    let what = if is_independent {
        "losses that appear independent may be short bad periods"
    } else {
        "behaviour at shorter times is unknown"
    };
    Some(format!(
        "its packets are {millis:.3} ms apart: {what}; measure with `lasthop probe`, which sends packets back to back"
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Sent, fit};

    /// Returns a pseudorandom number (splitmix64).
    pub(crate) fn mixed(number: u64) -> u64 {
        let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn pings(spacing_ms: u64, lost: impl Fn(u64) -> bool) -> LossTrace {
        let sent = |number| Sent {
            at: Duration::from_millis(number * spacing_ms),
            air: Duration::ZERO,
            bytes: 84,
            lost: lost(number),
        };
        LossTrace::timed((0..3000).map(sent).collect()).at_rate(1e7)
    }

    /// Losses seconds apart that seem independent may be bad periods of many packets.
    #[test]
    fn sparse_packets_do_not_show_short_bad_times() {
        let report = fit(&pings(1000, |number| mixed(number).is_multiple_of(100))).unwrap();
        let bound = report.kept.iter().find(|kept| kept.fit.family == Family::TwoState).expect("a bound");
        assert_eq!((report.chosen().family, bound.why), (Family::Uniform, Why::LongestBadTimes));
        let bad = bound.fit.parameter("bad").unwrap().value;
        // Far longer than a packet of 1.2 ms, but no longer than what would have shown in neighbours.
        assert!((0.05..1.0).contains(&bad), "{bad}");
        assert!(report.untold.is_some_and(|untold| untold.contains("1000.000 ms apart")));
        // Closely spaced packets exclude that.
        let dense = fit(&pings(1, |number| mixed(number).is_multiple_of(100))).unwrap();
        assert!(dense.kept.is_empty() && dense.untold.is_none(), "{:?}", dense.kept);
    }

    /// For runs at regular distances, states in packets and in time fit equally well, and both are kept.
    #[test]
    fn families_that_are_as_good_are_kept() {
        let report =
            fit(&pings(100, |number| number % 60 < 1 + mixed(number / 60) % 4 && mixed(number / 60) % 3 != 1)).unwrap();
        let mut families: Vec<Family> = report.kept.iter().map(|kept| kept.fit.family).collect();
        families.push(report.chosen().family);
        assert!(families.contains(&Family::TwoState) && families.contains(&Family::TwoStatePacket), "{families:?}");
    }

    #[test]
    fn order_alone_says_that_times_are_missing() {
        let report = fit(&LossTrace::ordered((0..1000).map(|number| number % 50 < 2))).unwrap();
        assert!(report.untold.is_some_and(|untold| untold.contains("--interval")));
        assert_eq!(fit(&LossTrace::ordered([false; 50])).unwrap().untold, None);
    }
}
