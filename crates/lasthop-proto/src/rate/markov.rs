//! Rates of a semi-Markov chain: each state has a rate and a random holding time.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::random::Stream;
use crate::time::Duration;

/// Maximum number of states.
pub const MOST_STATES: usize = 64;

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateState {
    /// Bits per second; zero is an outage.
    pub rate: u64,
    /// Mean holding time.
    pub mean: Duration,
}

/// Distribution of the holding times of all states.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Hold {
    /// Exponential: a continuous-time Markov chain.
    Exponential,
    /// Always the mean.
    Fixed,
    /// Lognormal with this standard deviation of the logarithm.
    Lognormal(f64),
}

/// Parameters of the chain.
#[derive(Clone, PartialEq, Debug)]
pub struct MarkovSpec {
    states: Arc<Vec<RateState>>,
    /// Rows of cumulative probabilities of the next state, a row for each state.
    next: Arc<Vec<f64>>,
    hold: Hold,
    /// Share of time in each state.
    shares: Arc<Vec<f64>>,
}

impl MarkovSpec {
    /// Returns the chain of `states`, from each of which row `i` of `next` gives the probabilities of the next one, with
    /// zeros in the diagonal. `None` if there are fewer than two states or more than [`MOST_STATES`], a mean is zero,
    /// a row does not add up to 1, or a state cannot be reached from another, or no state sends.
    pub fn new(states: Vec<RateState>, next: &[Vec<f64>], hold: Hold) -> Option<Self> {
        let count = states.len();
        let sound = (2..=MOST_STATES).contains(&count)
            && states.iter().all(|state| state.mean > Duration::ZERO)
            && states.iter().any(|state| state.rate > 0)
            && next.len() == count
            && next.iter().enumerate().all(|(from, row)| is_row(row, from, count))
            && !matches!(hold, Hold::Lognormal(sigma) if !(0.0..=3.0).contains(&sigma))
            && is_connected(next);
        if !sound {
            return None;
        }
        let shares = shares(&states, next);
        let mut cumulative = Vec::with_capacity(count * count);
        for row in next {
            let mut sum = 0.0;
            cumulative.extend(row.iter().map(|p| {
                sum += p;
                sum
            }));
        }
        Some(Self { states: Arc::new(states), next: Arc::new(cumulative), hold, shares: Arc::new(shares) })
    }

    /// Returns the rows of a chain that moves to either neighbour with equal probability.
    pub fn neighbours(count: usize) -> Vec<Vec<f64>> {
        let row = |from: usize| {
            let is_next = |to: usize| to.abs_diff(from) == 1;
            let number = (0..count).filter(|to| is_next(*to)).count().max(1);
            (0..count).map(|to| if is_next(to) { 1.0 / number as f64 } else { 0.0 }).collect()
        };
        (0..count).map(row).collect()
    }

    /// Returns the same chain with all rates times `up / down`, rounded down.
    #[must_use]
    pub fn scaled(&self, up: u64, down: u64) -> Self {
        let scale = |state: &RateState| RateState { rate: super::scaled_rate(state.rate, up, down), ..*state };
        Self { states: Arc::new(self.states.iter().map(scale).collect()), ..self.clone() }
    }

    /// Returns the mean rate in bits per second.
    pub fn mean(&self) -> f64 {
        self.shares().iter().zip(self.states.iter()).map(|(share, state)| share * state.rate as f64).sum()
    }

    /// Returns the standard deviation of the rate in time, in bits per second.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let spans = self.shares().iter().zip(self.states.iter());
        libm::sqrt(spans.map(|(share, state)| share * (state.rate as f64 - mean) * (state.rate as f64 - mean)).sum())
    }

    /// Returns the share of time in each state.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    fn row(&self, from: usize) -> &[f64] {
        let count = self.states.len();
        self.next.get(from * count..(from + 1) * count).unwrap_or_default()
    }
}

/// Iterations for the stationary distribution; a chain of neighbours with 64 states mixes in some 4,000.
const ROUNDS: usize = 20_000;

/// Returns the share of time in each of `states`, from each of which a row of `next` leads to the others.
fn shares(states: &[RateState], next: &[Vec<f64>]) -> Vec<f64> {
    // Stationary distribution of the chain of visits, by iteration of (I + P) / 2, which has no period.
    let mut visits = alloc::vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..ROUNDS {
        let mut new: Vec<f64> = visits.iter().map(|share| share / 2.0).collect();
        for (share, row) in visits.iter().zip(next) {
            new.iter_mut().zip(row).for_each(|(new, p)| *new += share / 2.0 * p);
        }
        visits = new;
    }
    let times: Vec<f64> = visits.iter().zip(states).map(|(share, state)| share * state.mean.as_secs_f64()).collect();
    let sum: f64 = times.iter().sum();
    times.iter().map(|time| time / sum).collect()
}

fn is_row(row: &[f64], from: usize, count: usize) -> bool {
    row.len() == count
        && row.iter().all(|p| (0.0..=1.0).contains(p))
        && row.get(from) == Some(&0.0)
        && (row.iter().sum::<f64>() - 1.0).abs() < 1e-6
}

/// Returns whether every state can be reached from every other.
fn is_connected(next: &[Vec<f64>]) -> bool {
    let reached_from = |first: usize| {
        let mut reached = alloc::vec![false; next.len()];
        let mut open = alloc::vec![first];
        while let Some(from) = open.pop() {
            if !core::mem::replace(&mut reached[from], true) {
                open.extend((0..next.len()).filter(|to| next[from][*to] > 0.0));
            }
        }
        reached.iter().all(|reached| *reached)
    };
    (0..next.len()).all(reached_from)
}

/// The chain in a run.
#[derive(Clone, Debug)]
pub(super) struct Markov {
    spec: MarkovSpec,
    state: usize,
    /// Indicates the first holding time, which began before the run.
    is_first: bool,
    stream: Stream,
}

impl Markov {
    /// Starts the chain in its stationary distribution.
    pub(super) fn new(spec: &MarkovSpec, mut stream: Stream) -> Self {
        let mut left = stream.uniform();
        let shares = spec.shares();
        let passed = shares.iter().take_while(|share| {
            left -= **share;
            left >= 0.0
        });
        // Rounding may leave a rest beyond the last state.
        let state = passed.count().min(shares.len() - 1);
        Self { spec: spec.clone(), state, is_first: true, stream }
    }

    pub(super) fn next(&mut self) -> (u64, Duration) {
        if core::mem::take(&mut self.is_first) {
            let state = self.spec.states[self.state];
            return (state.rate, Duration::from_secs_f64(self.residual(state.mean.as_secs_f64())));
        }
        let drawn = self.stream.uniform();
        let count = self.spec.states.len();
        let passed = self.spec.row(self.state).iter().take_while(|sum| **sum <= drawn).count();
        // Rounding may leave the last sum below 1: the last state with any probability takes the rest.
        self.state = if passed < count { passed } else { self.last_reachable() };
        let state = self.spec.states[self.state];
        (state.rate, Duration::from_secs_f64(self.holding(state.mean.as_secs_f64())))
    }

    fn last_reachable(&self) -> usize {
        let row = self.spec.row(self.state);
        (1..row.len()).rev().find(|to| row[*to] > row[*to - 1]).unwrap_or_default()
    }

    /// Draws a holding time in seconds.
    fn holding(&mut self, mean: f64) -> f64 {
        match self.spec.hold {
            Hold::Exponential => self.stream.exponential(mean),
            Hold::Fixed => mean,
            Hold::Lognormal(sigma) => mean * libm::exp(sigma * self.stream.normal() - sigma * sigma / 2.0),
        }
    }

    /// Draws the rest of the holding time that contains the start: a uniform part of a holding time whose probability is
    /// proportional to its length.
    fn residual(&mut self, mean: f64) -> f64 {
        match self.spec.hold {
            Hold::Exponential => self.stream.exponential(mean),
            Hold::Fixed => mean * self.stream.uniform(),
            Hold::Lognormal(sigma) => {
                let whole = mean * libm::exp(sigma * self.stream.normal() + sigma * sigma / 2.0);
                whole * self.stream.uniform()
            }
        }
    }
}
