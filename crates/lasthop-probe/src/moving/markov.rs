//! Hidden Markov chains with lognormal rates, fitted by the algorithm of Baum and Welch.

use super::statistics::mean;
use super::{Sample, repeat};
use crate::estimate::quantile;

/// Minimum and maximum number of states.
const STATES: std::ops::RangeInclusive<usize> = 2..=4;
/// Number of iterations.
const ITERATIONS: usize = 60;
/// Minimum standard deviation of the logarithm of a state's rates.
const QUIET: f64 = 0.01;
/// Share of trains with any rate between the extremes: those that span a change.
const OTHERS: f64 = 0.04;
/// Minimum difference in AIC at which more states are preferred.
const CLEARLY_BETTER: f64 = 6.0;
/// Minimum number of visits of each state on average: a chain that changes less often is not seen to be one.
const VISITS: f64 = 2.5;
/// Maximum spread of a state's rates (logarithm): beyond it, the rate moves within the state.
const WIDE: f64 = 0.08;

/// State of a chain.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Rate in bits per second.
    pub rate: f64,
    /// Mean holding time in seconds.
    pub mean: f64,
    /// Probabilities of the next state, 0 for itself.
    pub next: Vec<f64>,
}

/// Markov chain in continuous time.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// States by rate.
    pub states: Vec<State>,
    /// Shares of the time.
    pub shares: Vec<f64>,
}

impl Chain {
    /// Returns the mean time between changes in seconds.
    pub(super) fn mean_time(&self) -> f64 {
        let often: f64 = self.states.iter().zip(&self.shares).map(|(state, share)| share / state.mean).sum();
        1.0 / often.max(1e-9)
    }
}

/// Chain in steps of trains.
#[derive(Clone)]
struct Hidden {
    means: Vec<f64>,
    deviations: Vec<f64>,
    stays: Vec<Vec<f64>>,
    start: Vec<f64>,
    likelihood: f64,
}

/// Returns the chain if it reproduces the rates, with the evidence, otherwise with the reason.
pub(super) fn markov(samples: &[Sample], trains: repeat::Repeated) -> (Option<Chain>, String) {
    let logs: Vec<f64> = samples.iter().map(|sample| sample.log).collect();
    let mut fits: Vec<(f64, Hidden)> = STATES.filter_map(|count| fitted(&logs, count)).collect();
    let least = fits.iter().map(|(aic, _)| *aic).fold(f64::INFINITY, f64::min);
    let Some(chosen) = fits.iter().position(|(aic, _)| *aic <= least + CLEARLY_BETTER) else {
        return (None, "no family fits".to_owned());
    };
    // A chain with fewer states may do: further states may only describe trains that span a change.
    fits.truncate(chosen + 1);
    let mut why = None;
    for (aic, hidden) in fits.iter().rev() {
        match tested(samples, hidden, trains) {
            Ok(chain) => {
                let count = chain.states.len();
                let why = format!("a hidden chain of {count} states (AIC {aic:.0}); a hundred repetitions agree");
                return (Some(chain), why);
            }
            Err(other) => {
                let count = hidden.means.len();
                why.get_or_insert(format!("no family fits: a Markov chain of {count} states {other}"));
            }
        }
    }
    (None, why.unwrap_or_default())
}

/// Returns the chain in continuous time if it reproduces the rates, otherwise the reason.
fn tested(samples: &[Sample], hidden: &Hidden, trains: repeat::Repeated) -> Result<Chain, String> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Err("has no rates".to_owned()) };
    let span = last.at - first.at;
    let interval = span / (samples.len() - 1) as f64;
    let Some(chain) = continuous(hidden, interval) else {
        return Err("changes too fast for these trains".to_owned());
    };
    if hidden.deviations.iter().any(|deviation| *deviation > WIDE) {
        return Err("has rates that move within a state".to_owned());
    }
    let changes = span / chain.mean_time();
    if changes / (chain.states.len() as f64) < VISITS {
        return Err(format!("would have changed {changes:.0} times only"));
    }
    let Some(spec) = repeat::markov(&chain) else { return Err("has states that are not reached again".to_owned()) };
    let noise = mean(hidden.deviations.iter().copied());
    let departs = repeat::departures(samples, &spec, repeat::Repeated { noise, ..trains });
    if departs.is_empty() {
        Ok(chain)
    } else {
        Err(format!("differs in {} from a hundred repetitions", departs.join(", ")))
    }
}

/// Returns the best chain with `count` states, with its AIC.
fn fitted(logs: &[f64], count: usize) -> Option<(f64, Hidden)> {
    let [low, high] = [0.0, 1.0].map(|share| quantile(&mut logs.to_vec(), share));
    let (low, high) = (low?, high?);
    let by_quantile = |at: usize| quantile(&mut logs.to_vec(), (at as f64 + 0.5) / count as f64).unwrap_or(0.0);
    let by_range = |at: usize| low + (high - low) * (at as f64 + 0.5) / count as f64;
    let at_ends = |at: usize| low + (high - low) * at as f64 / (count as f64 - 1.0);
    let starts: [&dyn Fn(usize) -> f64; 3] = [&by_quantile, &by_range, &at_ends];
    let other = OTHERS / (high - low).max(0.1);
    let fit = |start: &&dyn Fn(usize) -> f64| {
        let stay = |from: usize, to: usize| if from == to { 0.9 } else { 0.1 / (count as f64 - 1.0) };
        let mut hidden = Hidden {
            means: (0..count).map(start).collect(),
            deviations: vec![((high - low) / (4.0 * count as f64)).max(QUIET); count],
            stays: (0..count).map(|from| (0..count).map(|to| stay(from, to)).collect()).collect(),
            start: vec![1.0 / count as f64; count],
            likelihood: f64::NEG_INFINITY,
        };
        (0..ITERATIONS).for_each(|_| hidden.improve(logs, other));
        hidden
    };
    let best = starts.iter().map(fit).max_by(|one, other| one.likelihood.total_cmp(&other.likelihood))?;
    let parameters = (2 * count + count * (count - 1)) as f64;
    Some((2.0 * parameters - 2.0 * best.likelihood, best))
}

impl Hidden {
    fn density(&self, state: usize, log: f64) -> f64 {
        let (mean, deviation) = (self.means[state], self.deviations[state]);
        let off = (log - mean) / deviation;
        libm::exp(-0.5 * off * off) / (deviation * libm::sqrt(std::f64::consts::TAU))
    }

    /// Performs an iteration. `other` is the density of trains that span a change.
    fn improve(&mut self, logs: &[f64], other: f64) {
        let count = self.means.len();
        let states = || 0..count;
        let own: Vec<Vec<f64>> =
            logs.iter().map(|log| states().map(|state| self.density(state, *log)).collect()).collect();
        let emits: Vec<Vec<f64>> =
            own.iter().map(|all| all.iter().map(|own| (1.0 - OTHERS) * own + other).collect()).collect();
        let mut forward: Vec<Vec<f64>> = Vec::with_capacity(logs.len());
        let mut scales = Vec::with_capacity(logs.len());
        for (at, emits) in emits.iter().enumerate() {
            let before = |state: usize| match forward.last() {
                Some(last) if at > 0 => states().map(|from| last[from] * self.stays[from][state]).sum::<f64>(),
                _ => self.start[state],
            };
            let mut now: Vec<f64> = states().map(|state| before(state) * emits[state]).collect();
            let scale = now.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            now.iter_mut().for_each(|value| *value /= scale);
            forward.push(now);
            scales.push(scale);
        }
        self.likelihood = scales.iter().map(|scale| libm::log(*scale)).sum();
        let mut backward = vec![1.0; count];
        let mut passes = vec![vec![1e-6; count]; count];
        let (mut weights, mut sums, mut squares) = (vec![1e-9; count], vec![0.0; count], vec![0.0; count]);
        let old = self.means.clone();
        for at in (0..logs.len()).rev() {
            for state in states() {
                let here = forward[at][state] * backward[state];
                // Trains that span a change belong to a state, but say nothing about its rate.
                let weight = here * (1.0 - OTHERS) * own[at][state] / emits[at][state];
                weights[state] += weight;
                sums[state] += weight * logs[at];
                squares[state] += weight * (logs[at] - old[state]) * (logs[at] - old[state]);
                if at == 0 {
                    self.start[state] = here;
                }
            }
            if at == 0 {
                break;
            }
            let onward: Vec<f64> = states().map(|to| emits[at][to] * backward[to] / scales[at]).collect();
            for from in states() {
                for to in states() {
                    passes[from][to] += forward[at - 1][from] * self.stays[from][to] * onward[to];
                }
            }
            backward = states().map(|from| states().map(|to| self.stays[from][to] * onward[to]).sum::<f64>()).collect();
        }
        for state in states() {
            self.means[state] = sums[state] / weights[state];
            self.deviations[state] = libm::sqrt(squares[state] / weights[state]).max(QUIET);
            let all: f64 = passes[state].iter().sum();
            self.stays[state] = passes[state].iter().map(|pass| pass / all).collect();
        }
    }
}

fn product(one: &[Vec<f64>], other: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = one.len();
    let cell = |row: usize, column: usize| (0..count).map(|at| one[row][at] * other[at][column]).sum::<f64>();
    (0..count).map(|row| (0..count).map(|column| cell(row, column)).collect()).collect()
}

/// Returns the chain in continuous time whose states are seen each `interval`: the logarithm of the matrix of
/// transitions, as a series. `None` if a state lasts too short for it.
fn continuous(hidden: &Hidden, interval: f64) -> Option<Chain> {
    let count = hidden.means.len();
    if (0..count).any(|state| hidden.stays[state][state] < 0.55) {
        return None;
    }
    let less = |row: usize, column: usize| hidden.stays[row][column] - if row == column { 1.0 } else { 0.0 };
    let apart: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|column| less(row, column)).collect()).collect();
    let mut rates = vec![vec![0.0; count]; count];
    let mut power = apart.clone();
    for number in 1..=60 {
        let sign = if number % 2 == 1 { 1.0 } else { -1.0 };
        for row in 0..count {
            for column in 0..count {
                rates[row][column] += sign * power[row][column] / f64::from(number);
            }
        }
        power = product(&power, &apart);
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| hidden.means[*one].total_cmp(&hidden.means[*other]));
    let mut states = Vec::new();
    for &from in &order {
        let leave: Vec<f64> = order.iter().map(|&to| if to == from { 0.0 } else { rates[from][to].max(0.0) }).collect();
        let all: f64 = leave.iter().sum();
        // Transitions that hardly ever happen were not seen.
        let seen: Vec<f64> = leave.iter().map(|rate| if *rate < 0.01 * all { 0.0 } else { *rate }).collect();
        let sum: f64 = seen.iter().sum();
        if sum <= 0.0 {
            return None;
        }
        // Six digits add up to one within what a scenario accepts.
        let next = seen.iter().map(|rate| rate / sum).collect();
        states.push(State { rate: libm::exp(hidden.means[from]), mean: interval / all, next });
    }
    let mut shares = vec![1.0 / count as f64; count];
    for _ in 0..2000 {
        let step = |to: usize| (0..count).map(|from| shares[from] * hidden.stays[order[from]][order[to]]).sum::<f64>();
        shares = (0..count).map(step).collect();
    }
    Some(Chain { states, shares })
}
