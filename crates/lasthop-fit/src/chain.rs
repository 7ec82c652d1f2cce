//! Forward algorithm of a two-state chain over runs of equal steps.
//!
//! A run of n equal steps multiplies the probabilities of the states by the n-th power of the step's matrix. The powers
//! for all lengths that occur are calculated once per evaluation, so that its cost is that of the runs, not that of the
//! packets.

use std::array::from_fn;
use std::collections::BTreeMap;

/// Probabilities of good and bad.
pub(crate) type Chances = [f64; 2];
/// Transition matrix from the row's state to the column's.
pub(crate) type Matrix = [[f64; 2]; 2];

/// Returns the probabilities after the transitions of `matrix`.
fn apply(chances: Chances, matrix: &Matrix) -> Chances {
    [chances[0] * matrix[0][0] + chances[1] * matrix[1][0], chances[0] * matrix[0][1] + chances[1] * matrix[1][1]]
}

/// Returns the transitions of `first`, then of `then`.
pub(crate) fn product(first: &Matrix, then: &Matrix) -> Matrix {
    first.map(|row| apply(row, then))
}

/// Below this, the product of probabilities is moved into the logarithm.
const SMALL: f64 = 1e-200;

/// Probabilities of the states so far, relative to a factor whose logarithm is separate.
pub(crate) struct Forward {
    chances: Chances,
    log: f64,
}

impl Forward {
    /// Begins with probabilities of the states.
    pub(crate) fn from(chances: Chances) -> Self {
        Self { chances, log: 0.0 }
    }

    pub(crate) fn apply(&mut self, matrix: &Matrix) {
        self.chances = apply(self.chances, matrix);
    }

    /// Applies the transitions of an observed step. Returns false if it was impossible.
    pub(crate) fn step(&mut self, matrix: &Matrix) -> bool {
        self.apply(matrix);
        let sum = self.chances[0] + self.chances[1];
        if sum < SMALL {
            if sum <= 0.0 {
                return false;
            }
            self.log += libm::log(sum);
            self.chances = self.chances.map(|chance| chance / sum);
        }
        true
    }

    /// Returns the logarithm of the probability of all steps.
    pub(crate) fn log_likelihood(&self) -> f64 {
        self.log + libm::log(self.chances[0] + self.chances[1])
    }
}

/// Number of chains whose probabilities are propagated together.
const LANES: usize = 4;

/// Probabilities of the states at first, and the transitions of each kind of step.
#[derive(Clone, Copy)]
pub(crate) struct Chain<const KINDS: usize> {
    pub(crate) start: Chances,
    pub(crate) matrices: [Matrix; KINDS],
}

/// A number of consecutive steps of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Run {
    kind: u32,
    length: u32,
}

/// Steps of a chain, as runs of equal kinds.
pub(crate) struct Steps {
    /// Distinct runs, sorted, and the number of occurrences of each.
    distinct: Vec<(Run, u32)>,
    /// Indices into `distinct`, in order.
    sequence: Vec<u32>,
}

impl Steps {
    /// Creates steps from the kinds of runs and their lengths. `runs` is called twice; runs of length zero are omitted.
    pub(crate) fn of<I: Iterator<Item = (u32, u32)>>(runs: impl Fn() -> I) -> Self {
        let runs = || runs().filter(|(_, length)| *length > 0).map(|(kind, length)| Run { kind, length });
        let mut counts = BTreeMap::new();
        for run in runs() {
            *counts.entry(run).or_insert(0) += 1;
        }
        let distinct: Vec<(Run, u32)> = counts.into_iter().collect();
        let at = |run: Run| distinct.partition_point(|(other, _)| *other < run) as u32;
        let sequence = runs().map(at).collect();
        Self { distinct, sequence }
    }

    /// Returns the log-likelihood of the steps under each of `chains`.
    pub(crate) fn log_likelihoods<const KINDS: usize>(&self, chains: &[Chain<KINDS>]) -> Vec<f64> {
        chains.chunks(LANES).flat_map(|chains| self.in_lanes(chains).into_iter().take(chains.len())).collect()
    }

    /// Returns the log-likelihood under each of at most [`LANES`] chains. Lanes do not depend on each other, so that the
    /// processor propagates all in the time of one, which is spent waiting for the result of the step before.
    fn in_lanes<const KINDS: usize>(&self, chains: &[Chain<KINDS>]) -> Lanes {
        // Lanes without a chain stay in the good state.
        let (mut good, mut bad, mut exponents) = ([1.0; LANES], [0.0; LANES], [0; LANES]);
        let mut powers = vec![[[1.0; LANES], [0.0; LANES], [0.0; LANES], [1.0; LANES]]; self.distinct.len()];
        for (lane, chain) in chains.iter().enumerate() {
            [good[lane], bad[lane]] = chain.start;
            exponents[lane] = self.powers(chain, |at, power| {
                for (element, value) in powers[at].iter_mut().zip(power.as_flattened()) {
                    element[lane] = *value;
                }
            });
        }
        let logs = propagate(&self.sequence, &powers, good, bad);
        from_fn(|lane| logs[lane] + exponents[lane] as f64 * core::f64::consts::LN_2)
    }

    /// Calls `put` with the power of each distinct run, and returns the sum of their exponents over all runs.
    fn powers<const KINDS: usize>(&self, chain: &Chain<KINDS>, mut put: impl FnMut(usize, Matrix)) -> i64 {
        let mut exponents = 0;
        let mut before: Option<(Run, Power)> = None;
        let mut squares = Vec::new();
        for (at, &(run, occurrences)) in self.distinct.iter().enumerate() {
            let power = match before {
                Some((last, power)) if last.kind == run.kind => {
                    power.times(&nth(&mut squares, run.length - last.length))
                }
                _ => {
                    squares.clear();
                    squares.push(Power::of(chain.matrices[run.kind as usize]));
                    nth(&mut squares, run.length)
                }
            };
            exponents += power.exponent * i64::from(occurrences);
            put(at, power.matrix);
            before = Some((run, power));
        }
        exponents
    }
}

/// Transitions of each lane: from good to good, good to bad, bad to good, and bad to bad.
type Transitions = [Lanes; 4];
/// A value of each lane.
type Lanes = [f64; LANES];

/// Returns the logarithm of each lane's probability of all steps, the indices of their transitions.
#[inline(never)]
fn propagate(steps: &[u32], transitions: &[Transitions], mut good: Lanes, mut bad: Lanes) -> Lanes {
    let mut logs = [0.0; LANES];
    for &at in steps {
        let [stays_good, to_bad, to_good, stays_bad] = &transitions[at as usize];
        let next_good = from_fn(|lane| good[lane] * stays_good[lane] + bad[lane] * to_good[lane]);
        let next_bad = from_fn(|lane| good[lane] * to_bad[lane] + bad[lane] * stays_bad[lane]);
        (good, bad) = (next_good, next_bad);
        let is_small: [bool; LANES] = from_fn(|lane| good[lane] + bad[lane] < SMALL);
        if is_small.into_iter().fold(false, |any, is_small| any | is_small) {
            for lane in 0..LANES {
                (good[lane], bad[lane], logs[lane]) = rescaled(good[lane], bad[lane], logs[lane]);
            }
        }
    }
    from_fn(|lane| logs[lane] + libm::log(good[lane] + bad[lane]))
}

/// Moves the sum of small probabilities into its logarithm; minus infinity for an impossible step, after which the
/// probabilities do not count. By value: references would keep the lanes in memory, which takes longer than a step.
#[cold]
#[inline(never)]
fn rescaled(good: f64, bad: f64, log: f64) -> (f64, f64, f64) {
    let sum = good + bad;
    if sum <= 0.0 {
        (1.0, 0.0, f64::NEG_INFINITY)
    } else if sum < SMALL {
        (good / sum, bad / sum, log + libm::log(sum))
    } else {
        (good, bad, log)
    }
}

/// Power of a matrix: `matrix` times 2 to the `exponent`. Scaled so that its greatest element is from a quarter to a
/// half: it does not vanish, and no product of probabilities with it grows.
#[derive(Clone, Copy)]
struct Power {
    matrix: Matrix,
    exponent: i64,
}

impl Power {
    fn of(matrix: Matrix) -> Self {
        let greatest = matrix.as_flattened().iter().copied().fold(0.0, f64::max);
        if greatest == 0.0 || !greatest.is_finite() {
            return Self { matrix, exponent: 0 };
        }
        let exponent = libm::ilogb(greatest) + 2;
        let scale = |value: f64| libm::scalbn(value, -exponent);
        Self { matrix: matrix.map(|row| row.map(scale)), exponent: exponent.into() }
    }

    fn times(&self, then: &Self) -> Self {
        let Self { matrix, exponent } = Self::of(product(&self.matrix, &then.matrix));
        Self { matrix, exponent: exponent + self.exponent + then.exponent }
    }
}

/// Returns the power `n`, at least 1, of the matrix that `squares` begins with: each of its further elements is the
/// square of the one before.
fn nth(squares: &mut Vec<Power>, n: u32) -> Power {
    let mut result: Option<Power> = None;
    for bit in 0..u32::BITS - n.leading_zeros() {
        let at = bit as usize;
        if at == squares.len() {
            squares.push(squares[at - 1].times(&squares[at - 1]));
        }
        if n >> bit & 1 == 1 {
            result = Some(result.map_or(squares[at], |result| result.times(&squares[at])));
        }
    }
    result.unwrap_or(squares[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The likelihood of runs is that of their single steps, also where a power alone would vanish.
    #[test]
    fn runs_have_the_likelihood_of_their_steps() {
        let matrices = [[[0.97, 0.01], [0.2, 0.1]], [[1e-4, 1e-5], [0.1, 0.6]]];
        let start = [0.9, 0.1];
        let many = (0..10_000).map(|number| (number % 2, 1 + number % 7)).collect();
        for runs in [vec![(0, 5), (1, 2), (0, 100_000), (1, 1), (0, 0), (1, 700)], vec![(1, 100_000)], many, vec![]] {
            let steps = Steps::of(|| runs.iter().copied());
            let mut forward = Forward::from(start);
            for &(kind, length) in &runs {
                assert!((0..length).all(|_| forward.step(&matrices[kind as usize])));
            }
            let (found, expected) = (steps.in_lanes(&[Chain { start, matrices }])[0], forward.log_likelihood());
            assert!((found - expected).abs() <= 1e-12 * expected.abs() + 1e-12, "{found}, {expected}");
        }
    }

    /// The value of a chain does not depend on the chains that are propagated with it, to the bit; some of them are
    /// impossible.
    #[test]
    fn lanes_do_not_depend_on_each_other() {
        let start = [0.9, 0.1];
        let possible = |good: f64| Chain { start, matrices: [[[good, 0.01], [0.2, 0.1]], [[1e-4, 1e-5], [0.1, 0.6]]] };
        let impossible = Chain { start, matrices: [[[1.0, 0.0], [0.0, 1.0]], [[0.0; 2]; 2]] };
        let steps = Steps::of(|| (0..10_000).map(|number| (number % 2, 1 + number % 7)));
        let chains: Vec<Chain<2>> =
            (0..7).map(|at| if at % 3 == 1 { impossible } else { possible(0.9 + f64::from(at) / 100.0) }).collect();
        for count in 0..=chains.len() {
            let alone: Vec<f64> = chains[..count].iter().map(|chain| steps.in_lanes(&[*chain])[0]).collect();
            assert_eq!(steps.log_likelihoods(&chains[..count]), alone);
            assert!(alone.iter().enumerate().all(|(at, value)| value.is_finite() == (at % 3 != 1)), "{alone:?}");
        }
    }
}
