//! Conclusions of studies, checked with 95 % intervals.

use lasthop_report::study::{Claim, Comparison, Holds};

use crate::stats::Estimate;
use crate::study::Results;

/// Collector of the comparisons behind one claim. A missing cell omits the claim.
pub struct Claimant<'a> {
    /// Results of the study.
    pub results: &'a Results,
    /// Comparisons so far.
    pub comparisons: Vec<Comparison>,
}

/// Share of a throughput by which another may be lower and count as not below it.
const NEGLIGIBLE: f64 = 0.05;

/// Formats an estimate.
pub fn show(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(ci95) => format!("{:.3} ± {ci95:.3}", estimate.mean),
        None => format!("{:.3}", estimate.mean),
    }
}

impl Claimant<'_> {
    /// Returns the throughput of a cell.
    pub fn get(&self, cell: &str) -> Option<Estimate> {
        self.results.throughput(cell).copied()
    }

    /// Adds a comparison of quantities that the runs know exactly, such as counts of events.
    pub fn check(&mut self, holds: bool, text: String) {
        let holds = if holds { Holds::Yes } else { Holds::No };
        self.comparisons.push(Comparison { holds, text });
    }

    /// Checks that a quantity is above zero: its 95 % interval lies above zero. The comparison is open if the interval
    /// contains zero, or if a single run has none.
    pub fn judge(&mut self, quantity: &Estimate, text: String) {
        let (low, high) = quantity.interval();
        self.decide(quantity.ci95, (low > 0.0, high <= 0.0), text);
    }

    /// Checks that a quantity lies from `low` to `high`: its 95 % interval does. The comparison is open if the interval
    /// contains a bound, or if a single run has none.
    pub fn judge_within(&mut self, quantity: &Estimate, (low, high): (f64, f64), text: String) {
        let (from, to) = quantity.interval();
        self.decide(quantity.ci95, (from >= low && to <= high, to < low || from > high), text);
    }

    /// Checks that `upper` exceeds `lower`: the whole 95 % interval of the one lies above that of the other. The
    /// comparison is open if the intervals overlap, or if a single run has none.
    pub fn judge_apart(&mut self, upper: &Estimate, lower: &Estimate, text: String) {
        self.decide(upper.ci95.and(lower.ci95), (upper.above(lower), lower.above(upper)), text);
    }

    /// Adds a comparison that an interval decides: it is open without an interval, and if it neither holds nor fails.
    fn decide(&mut self, interval: Option<f64>, (holds, fails): (bool, bool), text: String) {
        let holds = match interval {
            Some(_) if holds => Holds::Yes,
            Some(_) if fails => Holds::No,
            _ => Holds::Open,
        };
        self.comparisons.push(Comparison { holds, text });
    }

    /// Checks that `upper` exceeds `factor` times `lower`: the 95 % interval of the difference, run by run, lies above
    /// zero.
    pub fn above(&mut self, upper: &str, factor: f64, lower: &str) -> Option<()> {
        let (a, b) = (self.get(upper)?, self.get(lower)?);
        let difference = self.results.by_run([upper, lower], |[a, b]| a - factor * b)?;
        let sign = if factor == 1.0 { String::new() } else { format!("{factor} × ") };
        let evidence = format!("{upper} {} > {sign}{lower} {}: by {}", show(&a), show(&b), show(&difference));
        self.judge(&difference, evidence);
        Some(())
    }

    /// Checks that the throughput of a cell exceeds `least` Mbps, with its interval.
    pub fn exceeds(&mut self, cell: &str, least: f64) -> Option<()> {
        let found = self.get(cell)?;
        self.judge_within(&found, (least, f64::INFINITY), format!("{cell} {} > {least:.3}", show(&found)));
        Some(())
    }

    /// Checks that the throughput of a cell is below `most` Mbps, with its interval.
    pub fn below(&mut self, cell: &str, most: f64) -> Option<()> {
        let found = self.get(cell)?;
        self.judge_within(&found, (f64::NEG_INFINITY, most), format!("{cell} {} < {most:.3}", show(&found)));
        Some(())
    }

    /// Checks that `upper` is not below `lower`: the interval of the difference, run by run, does not lie below zero. The
    /// comparison is open if the interval includes a deficit of more than [`NEGLIGIBLE`].
    pub fn not_below(&mut self, upper: &str, lower: &str) -> Option<()> {
        let (a, b) = (self.get(upper)?, self.get(lower)?);
        let difference = self.results.by_run([upper, lower], |[a, b]| a - b)?;
        let evidence = format!("{upper} {} ≥ {lower} {}: by {}", show(&a), show(&b), show(&difference));
        let (low, high) = difference.interval();
        let fails = high < 0.0;
        self.decide(difference.ci95, (!fails && low >= -NEGLIGIBLE * b.mean, fails), evidence);
        Some(())
    }

    /// Checks that the ratio of two cells lies in a range.
    pub fn ratio_within(&mut self, a: &str, b: &str, (low, high): (f64, f64)) -> Option<()> {
        let ratio = self.get(a)?.over(&self.get(b)?);
        self.judge_within(&ratio, (low, high), format!("{a} / {b} = {} in {low} to {high}", show(&ratio)));
        Some(())
    }
}

/// Gathers the comparisons behind a claim; `None` if a cell is missing. A claim holds if all comparisons hold, fails if
/// any fails, and is open otherwise.
pub fn claim(results: &Results, id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>) -> Option<Claim> {
    let mut claimant = Claimant { results, comparisons: Vec::new() };
    gather(&mut claimant)?;
    let comparisons = claimant.comparisons;
    let any = |holds: Holds| comparisons.iter().any(|comparison| comparison.holds == holds);
    let holds = match (any(Holds::No), any(Holds::Open)) {
        (true, _) => Holds::No,
        (false, true) => Holds::Open,
        (false, false) => Holds::Yes,
    };
    Some(Claim { id: id.to_owned(), text: text.to_owned(), holds, comparisons })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval decides a comparison only if the bound lies outside of it; one run has no interval.
    #[test]
    fn intervals_that_contain_the_bound_leave_a_claim_open() {
        let verdict = |samples: &[&[f64]]| {
            let gather = |c: &mut Claimant| {
                samples.iter().try_for_each(|values| {
                    c.judge(&Estimate::of(values)?, String::new());
                    Some(())
                })
            };
            claim(&Results::default(), "a", "", &gather).unwrap().holds
        };
        let (above, around, below): (&[f64], &[f64], &[f64]) =
            (&[1.0, 1.1, 1.2], &[-1.0, 1.0, 0.5], &[-1.0, -1.1, -1.2]);
        assert_eq!(verdict(&[above]), Holds::Yes);
        assert_eq!(verdict(&[below]), Holds::No);
        assert_eq!(verdict(&[around]), Holds::Open);
        assert_eq!(verdict(&[&[1.0]]), Holds::Open);
        assert_eq!(verdict(&[&[0.0, 0.0]]), Holds::No, "equal is not above");
        assert_eq!(verdict(&[above, around]), Holds::Open);
        assert_eq!(verdict(&[above, around, below]), Holds::No, "one that fails decides");
    }

    /// Neither a wide interval nor a single run makes a claim hold or fail; equal bounds count as within.
    #[test]
    fn ranges_and_order_are_decided_by_whole_intervals() {
        let of = |mean: f64, ci95: Option<f64>| Estimate { mean, ci95, n: 5 };
        let within = |estimate: Estimate| {
            let mut claimant = Claimant { results: &Results::default(), comparisons: Vec::new() };
            claimant.judge_within(&estimate, (0.9, 1.1), String::new());
            claimant.comparisons[0].holds
        };
        assert_eq!(within(of(1.0, Some(0.1))), Holds::Yes);
        assert_eq!(within(of(1.0, Some(0.2))), Holds::Open);
        assert_eq!(within(of(1.3, Some(0.1))), Holds::No);
        assert_eq!(within(of(1.3, Some(0.3))), Holds::Open);
        assert_eq!(within(of(1.0, None)), Holds::Open);
        let apart = |a: Estimate, b: Estimate| {
            let mut claimant = Claimant { results: &Results::default(), comparisons: Vec::new() };
            claimant.judge_apart(&a, &b, String::new());
            claimant.comparisons[0].holds
        };
        let (low, high) = (of(1.0, Some(0.1)), of(2.0, Some(0.1)));
        assert_eq!(apart(high, low), Holds::Yes);
        assert_eq!(apart(low, high), Holds::No);
        assert_eq!(apart(high, of(1.5, Some(0.5))), Holds::Open);
        assert_eq!(apart(high, of(1.0, None)), Holds::Open);
    }
}
