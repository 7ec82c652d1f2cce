//! Few levels, each for a while: change points in the logarithm of the rate (PELT; Killick, Fearnhead and Eckley, 2012).

use super::Sample;
use super::statistics::{mean, neighbours, variance};
use crate::estimate::median;

/// Penalty of a change point, in logarithms of the number of trains.
const PENALTY: f64 = 3.0;
/// Maximum number of levels, and minimum number of trains of each; the first and the last one may be cut off.
const MOST: usize = 6;
const LEAST: usize = 10;
const LEAST_CUT: usize = 4;
/// Maximum number of trains that span a change.
const PASSAGE: usize = 2;
/// Minimum standard deviation of the noise.
const QUIET: f64 = 0.01;
/// Minimum difference of neighbouring levels (logarithm).
const DIFFERENT: f64 = 0.05;
/// Maximum spread around the levels that matters to nobody, and the probability below which their order is not random.
const NEGLIGIBLE: f64 = 0.03;
/// Maximum spread around the levels.
const MOST_SPREAD: f64 = 0.1;
const CHANCE: f64 = 0.002;

/// Rate from a time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Level {
    /// Time in seconds.
    pub at: f64,
    /// Rate in bits per second.
    pub rate: f64,
}

/// Returns the mean time between changes in seconds.
pub(super) fn mean_time(levels: &[Level]) -> f64 {
    match levels {
        [_, second, .., last] => (last.at - second.at) / (levels.len() - 2) as f64,
        [first, last] => last.at - first.at,
        _ => 0.0,
    }
}

/// Returns the levels if they describe the rates, with the evidence. They end with the samples.
pub(super) fn steps(samples: &[Sample]) -> Option<(Vec<Level>, String)> {
    // A train that spans a change has a rate between the levels.
    let middle = |at: usize| {
        let from = at.saturating_sub(1);
        let mut near: Vec<f64> = samples[from..(at + 2).min(samples.len())].iter().map(|sample| sample.log).collect();
        if near.len() < 3 { samples[at].log } else { median(&mut near).unwrap_or(samples[at].log) }
    };
    let logs: Vec<f64> = (0..samples.len()).map(middle).collect();
    let mut differences: Vec<f64> = samples.windows(2).map(|pair| (pair[1].log - pair[0].log).abs()).collect();
    let noise = (1.483 * median(&mut differences)? / std::f64::consts::SQRT_2).max(QUIET);
    let mut cuts = changes(&logs, noise);
    skip_passages(&logs, &mut cuts);
    merge(&logs, &mut cuts);
    let count = cuts.len() - 1;
    if !(2..=MOST).contains(&count) {
        return None;
    }
    let is_enough =
        |(at, pair): (usize, &[usize])| pair[1] - pair[0] >= if at == 0 || at + 1 == count { LEAST_CUT } else { LEAST };
    if !cuts.windows(2).enumerate().all(is_enough) {
        return None;
    }
    let levels: Vec<f64> =
        cuts.windows(2).map(|pair| median(&mut logs[pair[0]..pair[1]].to_vec()).unwrap_or(0.0)).collect();
    // Rates beside a change may be of trains that span it.
    let inner = cuts.windows(2).zip(&levels).flat_map(|(pair, level)| {
        let [from, to] =
            [pair[0] + PASSAGE * usize::from(pair[0] > 0), pair[1] - PASSAGE * usize::from(pair[1] < samples.len())];
        samples[from.min(to)..to].iter().map(move |sample| sample.log - level)
    });
    let rest: Vec<f64> = inner.collect();
    let spread = libm::sqrt(variance(&rest));
    let (correlation, chance) = neighbours(&rest);
    if spread > MOST_SPREAD || spread > NEGLIGIBLE && chance < CHANCE {
        return None;
    }
    let of = |(pair, log): (&[usize], &f64)| Level { at: samples[pair[0]].at, rate: libm::exp(*log) };
    let found: Vec<Level> = cuts.windows(2).zip(&levels).map(of).collect();
    let why = format!(
        "{count} levels; standard deviation around them {:.1} %, autocorrelation of neighbours {correlation:.2}",
        100.0 * spread
    );
    Some((found, why))
}

/// Returns the borders of the parts with a mean of their own, from 0 to the number of values.
fn changes(logs: &[f64], noise: f64) -> Vec<usize> {
    let count = logs.len();
    let penalty = PENALTY * libm::log(count as f64);
    // Sums of values and squares of the first values, from which the cost of each part follows.
    let mut sums = vec![(0.0, 0.0)];
    for log in logs {
        let (sum, squares) = sums[sums.len() - 1];
        sums.push((sum + log, squares + log * log));
    }
    let cost = |from: usize, to: usize| {
        let (sum, squares) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        ((squares - sum * sum / (to - from) as f64) / (noise * noise)).max(0.0)
    };
    let (mut least, mut before) = (vec![-penalty], vec![0]);
    let mut candidates: Vec<usize> = vec![0];
    for to in 1..=count {
        let of = |from: &usize| (least[*from] + cost(*from, to) + penalty, *from);
        let (value, from) =
            candidates.iter().map(of).min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0));
        candidates.retain(|from| least[*from] + cost(*from, to) <= value);
        candidates.push(to);
        least.push(value);
        before.push(from);
    }
    let mut cuts = vec![count];
    while let Some(last) = cuts.last().copied().filter(|last| *last > 0) {
        cuts.push(before[last]);
    }
    cuts.reverse();
    cuts
}

/// Removes parts of a train or two between levels: these trains span a change.
fn skip_passages(logs: &[f64], cuts: &mut Vec<usize>) {
    let level = |from: usize, to: usize| mean(logs[from..to].iter().copied());
    let mut at = 1;
    while at + 2 < cuts.len() {
        let [before, from, to, after] = [cuts[at - 1], cuts[at], cuts[at + 1], cuts[at + 2]];
        let [one, here, other] = [level(before, from), level(from, to), level(to, after)];
        if to - from <= PASSAGE && (one.min(other)..=one.max(other)).contains(&here) {
            // The part goes to the nearer level.
            cuts.remove(if (here - one).abs() < (here - other).abs() { at } else { at + 1 });
        } else {
            at += 1;
        }
    }
}

/// Removes borders between parts with nearly the same mean.
fn merge(logs: &[f64], cuts: &mut Vec<usize>) {
    loop {
        let apart = |at: usize| {
            let level = |from: usize, to: usize| mean(logs[from..to].iter().copied());
            (level(cuts[at - 1], cuts[at]) - level(cuts[at], cuts[at + 1])).abs()
        };
        let closest = (1..cuts.len().saturating_sub(1)).map(|at| (apart(at), at));
        match closest.min_by(|one, other| one.0.total_cmp(&other.0)) {
            Some((apart, at)) if apart < DIFFERENT => drop(cuts.remove(at)),
            _ => return,
        }
    }
}
