//! Results of a set of links: how often each cure won, and means and variances of the gains.

use crate::stats::Estimate;

use super::links::SCHEMES;

/// Number of cures.
const CURED: usize = SCHEMES - 1;

/// Number of pairs of schemes.
pub(super) const PAIRS: usize = SCHEMES * (SCHEMES - 1) / 2;

/// Minimum gain of a cure that helps, as in [`crate::advise`].
pub const LEAST_GAIN: f64 = 0.03;

/// Maximum difference between the gains of two equally good cures, as in [`crate::advise`].
const AS_GOOD: f64 = 0.015;

/// Minimum number of links for a verdict.
pub const LEAST_LINKS: u64 = 10;

/// Results of a set of links. Those of two sets together follow from those of each.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Moments {
    /// Number of links on which each scheme was best; of no cure, those where no cure gained the minimum.
    pub won: [u64; SCHEMES],
    /// Mean of the logarithms of each cure's gain.
    pub(super) means: [f64; CURED],
    /// Sums of squared deviations from the mean, of the difference between the logarithms of two schemes, by
    /// [`pair`]; those of no cure are 0.
    pub(super) squares: [f64; PAIRS],
}

/// Returns the index of a pair of schemes, the second of which has the larger index.
pub(super) const fn pair(one: usize, other: usize) -> usize {
    other * (other - 1) / 2 + one
}

/// Returns all pairs, in the order of [`pair`].
pub(super) fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (1..SCHEMES).flat_map(|other| (0..other).map(move |one| (one, other)))
}

/// Verdict on a set of links.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// This scheme gains most; every other cure gains less, or at most 1.5 % more and requires more changes.
    Wins(usize),
    /// Every cure gains less than the minimum.
    Nothing,
    /// Undecided: these cures may be the best one; without any, it is unknown whether a cure helps.
    Unknown(Vec<usize>),
}

impl Moments {
    /// Returns the results of a single link from the logarithms of its gains.
    pub fn of(gains: &[f64; CURED]) -> Self {
        let mut won = [0; SCHEMES];
        won[best(gains)] = 1;
        Self { won, means: *gains, squares: [0.0; PAIRS] }
    }

    /// Returns the number of links.
    pub fn links(&self) -> u64 {
        self.won.iter().sum()
    }

    /// Adds the results of other links (Chan, Golub, LeVeque 1979).
    pub fn add(&mut self, other: &Self) {
        let (mine, theirs) = (self.links() as f64, other.links() as f64);
        let all = mine + theirs;
        if theirs == 0.0 {
            return;
        }
        for (at, (one, with)) in pairs().enumerate() {
            let apart = other.difference(one, with) - self.difference(one, with);
            self.squares[at] += other.squares[at] + apart * apart * mine * theirs / all;
        }
        for (mean, other) in self.means.iter_mut().zip(&other.means) {
            *mean += (other - *mean) * theirs / all;
        }
        for (won, other) in self.won.iter_mut().zip(&other.won) {
            *won += other;
        }
    }

    /// Returns the mean logarithm of a scheme's gain.
    fn mean(&self, scheme: usize) -> f64 {
        scheme.checked_sub(1).map_or(0.0, |cure| self.means[cure])
    }

    /// Returns the mean difference between the logarithms of two schemes, the second minus the first.
    fn difference(&self, one: usize, other: usize) -> f64 {
        self.mean(other) - self.mean(one)
    }

    /// Returns the mean of the logarithm of `scheme`'s result over that of `than`, with its 95 % interval over the links.
    fn over(&self, scheme: usize, than: usize) -> Estimate {
        let n = self.links() as u32;
        let (one, other) = if scheme < than { (scheme, than) } else { (than, scheme) };
        let square = if one == other { 0.0 } else { self.squares[pair(one, other)] };
        Estimate::from_moments(self.difference(than, scheme), square, n)
    }

    /// Returns the geometric mean of the factors by which a scheme raises the throughput, with its 95 % interval;
    /// `None` if there are too few links for a verdict.
    pub fn gain(&self, scheme: usize) -> Option<(f64, [f64; 2])> {
        let estimate = self.over(scheme, 0);
        let (low, high) = estimate.interval();
        (self.links() >= LEAST_LINKS).then(|| (estimate.mean.exp(), [low.exp(), high.exp()]))
    }

    /// Returns the verdict, by 95 % intervals.
    ///
    /// * Nothing helps if the gain of every cure is certainly below 3 %.
    /// * A cure helps if it gains 3 % or more, and certainly more than nothing.
    /// * The best cure wins if it helps, and certainly gains more than each of the others. Among cures that certainly
    ///   differ from it by less than 1.5 %, the one that requires the fewest changes wins.
    pub fn verdict(&self) -> Verdict {
        if self.links() < LEAST_LINKS {
            return Verdict::Unknown(Vec::new());
        }
        let gain = |scheme: usize| self.over(scheme, 0);
        if (1..SCHEMES).all(|cure| gain(cure).interval().1 < (1.0 + LEAST_GAIN).ln()) {
            return Verdict::Nothing;
        }
        let best = (1..SCHEMES).fold(1, |best, cure| if self.mean(cure) > self.mean(best) { cure } else { best });
        let helps = |cure: usize| gain(cure).interval().0 > 0.0 && gain(cure).mean >= (1.0 + LEAST_GAIN).ln();
        if !helps(best) {
            return Verdict::Unknown(Vec::new());
        }
        let (mut as_good, mut rivals) = (vec![best], Vec::new());
        for cure in (1..SCHEMES).filter(|cure| *cure != best) {
            let (low, high) = self.over(best, cure).interval();
            if high < (1.0 + AS_GOOD).ln() && helps(cure) {
                as_good.push(cure);
            } else if low <= 0.0 {
                rivals.push(cure);
            }
        }
        // Cures are in the order of the changes that they require.
        let wins = as_good.iter().copied().min().unwrap_or(best);
        if rivals.is_empty() {
            return Verdict::Wins(wins);
        }
        rivals.push(wins);
        rivals.sort_unstable();
        Verdict::Unknown(rivals)
    }
}

/// Returns the best scheme on one link from the logarithms of the cures' gains: of those within 1.5 % of the best one,
/// that with the fewest changes; no cure if none gains the minimum.
fn best(gains: &[f64; CURED]) -> usize {
    let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most < (1.0 + LEAST_GAIN).ln() {
        return 0;
    }
    let near = |cure: &usize| gains[*cure] >= (most + (1.0 - AS_GOOD).ln()).max((1.0 + LEAST_GAIN).ln());
    (0..CURED).find(near).map_or(0, |cure| cure + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns results of links whose cures have these mean gains, each link ± a per mille in turn, all cures alike.
    fn links(n: u64, gains: [f64; CURED], common: f64, own: f64) -> Moments {
        let mut all = Moments::default();
        for number in 0..n {
            let side = if number % 2 == 0 { 1.0 } else { -1.0 };
            // A second pattern, uncorrelated with the first.
            let other = if number / 2 % 2 == 0 { 1.0 } else { -1.0 };
            let of = |cure: usize| gains[cure].ln() + side * common + if cure == 2 { other * own } else { 0.0 };
            all.add(&Moments::of(&std::array::from_fn(of)));
        }
        all
    }

    const SNOOP: usize = 2;
    const SPLIT: usize = 3;

    #[test]
    fn moments_are_those_of_the_textbook() {
        let given = [
            [0.1, 0.5, 0.0, -0.2],
            [0.3, 0.4, 0.1, 0.0],
            [-0.4, 0.9, 0.2, 0.0],
            [0.0, 0.0, 0.3, 0.7],
            [1.0, 1.5, 0.0, 0.1],
        ];
        let mut all = Moments::default();
        // In two sets, joined.
        let mut rest = Moments::default();
        given[..2].iter().for_each(|gains| all.add(&Moments::of(gains)));
        given[2..].iter().for_each(|gains| rest.add(&Moments::of(gains)));
        all.add(&rest);
        assert_eq!(all.links(), 5);
        for (one, other) in pairs() {
            let value = |gains: &[f64; CURED], scheme: usize| if scheme == 0 { 0.0 } else { gains[scheme - 1] };
            let values: Vec<f64> = given.iter().map(|gains| value(gains, other) - value(gains, one)).collect();
            let (expected, found) = (Estimate::of(&values).unwrap(), all.over(other, one));
            assert!((expected.mean - found.mean).abs() < 1e-12, "{one} {other}");
            assert!((expected.ci95.unwrap() - found.ci95.unwrap()).abs() < 1e-12, "{one} {other}");
        }
    }

    /// The links differ widely, but the cures differ on each of them in the same direction.
    #[test]
    fn a_cure_wins_if_its_lead_on_the_same_links_is_certain() {
        let clear = links(40, [1.1, 1.2, 2.0, 1.5], 0.3, 0.0);
        assert_eq!(clear.verdict(), Verdict::Wins(SPLIT));
        let (gain, [low, high]) = clear.gain(SPLIT).unwrap();
        assert!((gain - 2.0).abs() < 1e-9 && low < 1.9 && high > 2.1, "{gain} {low} {high}");
        // SPLIT-BBR varies by itself as much as it leads.
        let noisy = links(40, [1.1, 1.2, 2.0, 1.9], 0.0, 0.3);
        assert_eq!(noisy.verdict(), Verdict::Unknown(vec![SPLIT, 4]));
    }

    #[test]
    fn of_equal_cures_the_one_with_fewer_changes_wins() {
        assert_eq!(links(40, [1.1, 1.5, 1.5, 1.505], 0.3, 0.0).verdict(), Verdict::Wins(SNOOP));
        assert_eq!(links(40, [1.499, 1.5, 1.5, 1.505], 0.3, 0.0).verdict(), Verdict::Wins(1));
    }

    #[test]
    fn nothing_helps_only_where_that_is_certain() {
        assert_eq!(links(40, [0.9, 1.0, 1.01, 0.8], 0.01, 0.0).verdict(), Verdict::Nothing);
        // On average no cure gains, but one may.
        assert_eq!(links(40, [0.9, 1.0, 1.01, 0.8], 0.5, 0.0).verdict(), Verdict::Unknown(vec![]));
        assert_eq!(links(9, [0.9, 1.0, 1.01, 0.8], 0.0, 0.0).verdict(), Verdict::Unknown(vec![]));
        assert_eq!(links(9, [2.0; 4], 0.0, 0.0).gain(1), None);
    }

    #[test]
    fn the_best_scheme_of_a_link_follows_the_rules_of_advise() {
        let logarithms = |gains: [f64; CURED]| best(&gains.map(f64::ln));
        assert_eq!(logarithms([1.02, 1.0, 0.9, 1.0]), 0);
        assert_eq!(logarithms([1.5, 1.6, 1.61, 1.0]), SNOOP);
        assert_eq!(logarithms([1.5, 1.2, 1.51, 1.52]), 1);
        assert_eq!(logarithms([1.0, 1.0, 1.1, 1.2]), 4);
    }
}
