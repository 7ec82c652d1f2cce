//! Repetitions of a model at the times of the trains: the model fits if the measurement is among a hundred of them.

use lasthop_proto::random::Root;
use lasthop_proto::rate::{Hold, MarkovSpec, RateProcess, RateSlotsSpec, RateSpec, RateState};
use lasthop_proto::time::{Duration, Instant};

use super::statistics::lagged;
use super::{Chain, Sample, SlotsFound};
use crate::estimate::quantile;

/// Number of repetitions.
const REPEATS: u64 = 100;
/// Lags in seconds at which autocorrelations are compared.
const LAGS: [f64; 3] = [0.2, 1.0, 5.0];
/// Quantiles of the rates that are compared.
const QUANTILES: [f64; 2] = [0.05, 0.95];
/// Relative difference of quantiles that matters to nobody.
const NEAR: f64 = 0.02;

/// Returns the specification of slots as a scenario has it.
pub(super) fn slots(found: &SlotsFound) -> RateSpec {
    RateSpec::Slots(RateSlotsSpec {
        mean: found.mean as u64,
        period: Duration::from_secs_f64(found.period),
        first: Duration::from_secs_f64(found.first),
        spread: found.spread,
        inner: found.inner,
        outage: found.outage.map(Duration::from_secs_f64),
        recovery: Duration::from_millis(350),
        edge_loss: 0.0,
    })
}

/// Returns the specification of a Markov chain as a scenario has it.
pub(super) fn markov(chain: &Chain) -> Option<RateSpec> {
    let state = |state: &super::State| RateState { rate: state.rate as u64, mean: Duration::from_secs_f64(state.mean) };
    let next: Vec<Vec<f64>> = chain.states.iter().map(|state| state.next.clone()).collect();
    MarkovSpec::new(chain.states.iter().map(state).collect(), &next, Hold::Exponential).map(RateSpec::Markov)
}

/// Statistics that are compared, and their values; `None` for those that the samples do not show.
fn statistics(samples: &[Sample]) -> [Option<f64>; 5] {
    let mut logs: Vec<f64> = samples.iter().map(|sample| sample.log).collect();
    let [one, two, three] = LAGS.map(|lag| lagged(samples, lag));
    let [low, high] = QUANTILES.map(|share| quantile(&mut logs, share));
    [one, two, three, low, high]
}

/// Names of these statistics.
const NAMES: [&str; 5] = [
    "autocorrelation at 0.2 s",
    "autocorrelation at 1 s",
    "autocorrelation at 5 s",
    "5th percentile of the rate",
    "95th percentile of the rate",
];

/// Trains as they are repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// Bytes of a packet, and of those from the second one to the last.
    pub packet: u32,
    pub rest: u32,
    /// Standard deviation of a measured logarithm of a rate.
    pub noise: f64,
}

impl Repeated {
    /// Returns the logarithm of the rate of a train at `at`.
    fn log(&self, process: &RateProcess, at: Instant) -> f64 {
        let mut process = process.clone();
        let mut start = at;
        let mut segment = process.segment(start);
        while segment.rate == 0 && segment.until < Instant::FAR_FUTURE {
            start = segment.until;
            segment = process.segment(start);
        }
        let first = process.finish(start, self.packet);
        let took = process.finish(first, self.rest).since(first).as_secs_f64();
        libm::log(8.0 * f64::from(self.rest) / took.max(1e-9))
    }
}

/// Returns the names of the statistics of `samples` that are outside those of all repetitions of `spec`.
pub(super) fn departures(samples: &[Sample], spec: &RateSpec, trains: Repeated) -> Vec<&'static str> {
    let seen = statistics(samples);
    let mut ranges = [[f64::INFINITY, f64::NEG_INFINITY]; 5];
    let origin = samples.first().map_or(0.0, |sample| sample.at);
    for seed in 0..REPEATS {
        let Some(mut process) = RateProcess::new(spec, || Root(seed).stream("probe/moving/repeat")) else { break };
        let mut draws = Root(seed).stream("probe/moving/noise");
        let again: Vec<Sample> = samples
            .iter()
            .map(|sample| {
                let at = Instant::ZERO + Duration::from_secs_f64(sample.at - origin);
                // What is before is not asked for again.
                process.segment(at);
                Sample { at: sample.at, log: trains.log(&process, at) + trains.noise * draws.normal() }
            })
            .collect();
        for (range, value) in ranges.iter_mut().zip(statistics(&again)) {
            if let Some(value) = value {
                *range = [range[0].min(value), range[1].max(value)];
            }
        }
    }
    let is_outside = |at: &usize| {
        let near = if *at >= LAGS.len() { NEAR } else { 0.0 };
        let [low, high] = ranges[*at];
        seen[*at].is_some_and(|seen| low <= high && !(low - near..=high + near).contains(&seen))
    };
    (0..NAMES.len()).filter(is_outside).map(|at| NAMES[at]).collect()
}
