//! Check of a model against its trace: the model is run many times over the same packets, and its losses are compared
//! with the observed ones.

use std::iter::repeat_n;

use lasthop_proto::channel::ErrorSpec;

use crate::bits::Bits;
use crate::parallel::{Stop, map};
use crate::simulation::{is_certain, simulate};
use crate::trace::{LossTrace, Sizes};

/// Number of runs of the model.
const RUNS: usize = 100;

/// Minimum distance from the model's mean, in its standard deviations, for a departure; the value must also lie outside
/// all runs.
const FAR: f64 = 4.0;

/// Sizes of blocks in which losses are counted. A trace must have at least [`FEWEST_BLOCKS`] of them.
///
/// Each is ten times the one before.
const BLOCKS: [usize; 3] = [10, 100, 1000];
const FEWEST_BLOCKS: usize = 20;

/// Lags of the autocorrelation, in packets.
const LAGS: [usize; 10] = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500];

/// Maximum run length that is shown separately; longer runs are counted with it.
const LONGEST_RUN: usize = 30;

/// Value of the metric in the trace, and in the model.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Beside {
    /// Argument of the value: a length in packets.
    pub at: u32,
    /// Value in the trace.
    pub seen: f64,
    /// Mean over the model's runs.
    pub model: f64,
}

/// Departure of the trace from the model.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Departure {
    /// Name of the metric.
    pub what: &'static str,
    /// Value in the trace.
    pub seen: f64,
    /// Mean over the model's runs.
    pub model: f64,
    /// Distance between the two, in the model's standard deviations.
    pub deviations: f64,
}

/// Comparison of trace and model.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Adequacy {
    /// Departures; empty if the model fits.
    pub departures: Vec<Departure>,
    /// Number of runs by length; the last entry includes longer runs.
    pub run_lengths: Vec<Beside>,
    /// Autocorrelation of losses by lag, -1 to 1.
    pub autocorrelation: Vec<Beside>,
}

impl Adequacy {
    /// Returns an empty comparison, for losses that are not known packet by packet.
    pub(crate) fn unchecked() -> Self {
        Self { departures: Vec::new(), run_lengths: Vec::new(), autocorrelation: Vec::new() }
    }

    /// Returns whether the model loses packets as the link did, in the properties that were compared.
    pub fn fits(&self) -> bool {
        self.departures.is_empty()
    }
}

/// Compares a trace with a model. The result is incomplete once `stop` has returned true.
pub(crate) fn of(trace: &LossTrace, spec: &ErrorSpec, stop: Stop<'_>) -> Adequacy {
    let of_trace = Portrait::of(trace, trace.bits());
    let run = |run: usize, stop: Stop<'_>| (!stop()).then(|| Portrait::of(trace, &simulate(trace, spec, run as u64)));
    // All runs of a model without chance are the same.
    let different = if is_certain(spec) { 1 } else { RUNS };
    let of_model = map(different, stop, run).into_iter().flatten();
    let of_model: Vec<Portrait> = of_model.flat_map(|portrait| repeat_n(portrait, RUNS / different)).collect();
    let departures = NAMES.iter().enumerate().filter_map(|(at, what)| {
        let values: Vec<f64> = of_model.iter().filter_map(|portrait| portrait.numbers[at]).collect();
        depart(what, of_trace.numbers[at]?, &values)
    });
    let mean = |pick: &dyn Fn(&Portrait) -> f64| of_model.iter().map(pick).sum::<f64>() / RUNS as f64;
    let run_lengths = (0..LONGEST_RUN)
        .map(|at| Beside {
            at: at as u32 + 1,
            seen: of_trace.run_lengths[at],
            model: mean(&|portrait| portrait.run_lengths[at]),
        })
        .filter(|beside| beside.seen > 0.0 || beside.model >= 0.5);
    let autocorrelation = LAGS.iter().enumerate().filter(|(_, lag)| **lag < trace.len()).map(|(at, lag)| Beside {
        at: *lag as u32,
        seen: of_trace.autocorrelation[at],
        model: mean(&|portrait| portrait.autocorrelation[at]),
    });
    Adequacy {
        departures: departures.collect(),
        run_lengths: run_lengths.collect(),
        autocorrelation: autocorrelation.collect(),
    }
}

fn depart(what: &'static str, seen: f64, values: &[f64]) -> Option<Departure> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (values.len() - 1) as f64;
    let outside = values.iter().all(|&value| value < seen) || values.iter().all(|&value| value > seen);
    let deviations = (seen - mean) / libm::sqrt(variance).max(1e-9 * mean.abs()).max(f64::MIN_POSITIVE);
    (outside && deviations.abs() > FAR).then_some(Departure { what, seen, model: mean, deviations })
}

/// Metrics that are compared in addition to run lengths and autocorrelation.
const NAMES: [&str; 8] = [
    "losses",
    "runs of losses",
    "the longest run",
    "autocorrelation of neighbours",
    "variation of losses in 10 packets",
    "variation of losses in 100 packets",
    "variation of losses in 1000 packets",
    "size of lost packets",
];

#[derive(Clone)]
struct Portrait {
    numbers: [Option<f64>; NAMES.len()],
    run_lengths: Vec<f64>,
    autocorrelation: Vec<f64>,
}

impl Portrait {
    fn of(trace: &LossTrace, losses: &Bits) -> Self {
        let (at_least, longest) = losses.run_lengths(LONGEST_RUN);
        // The last count includes longer runs.
        let shorter = at_least.iter().skip(1).chain([&0]);
        let run_lengths = at_least.iter().zip(shorter).map(|(these, longer)| (these - longer) as f64).collect();
        let runs = at_least[0];
        let lost = losses.ones() as f64;
        let autocorrelation: Vec<f64> = LAGS.iter().map(|lag| autocorrelation(losses, lost, *lag)).collect();
        let bytes = || losses.positions().map(|at| f64::from(trace.form(at).bytes)).sum::<f64>();
        let tens = losses.in_blocks(BLOCKS[0]);
        let hundreds = tenfold(&tens);
        let thousands = tenfold(&hundreds);
        let numbers = [
            Some(lost),
            Some(runs as f64),
            (longest > 0).then(|| f64::from(longest)),
            Some(autocorrelation[0]),
            variation(&tens),
            variation(&hundreds),
            variation(&thousands),
            (lost > 0.0 && trace.sizes() == Sizes::Several).then(|| bytes() / lost),
        ];
        Self { numbers, run_lengths, autocorrelation }
    }
}

/// Returns the sums of each ten counts.
fn tenfold(counts: &[u16]) -> Vec<u16> {
    counts.chunks_exact(10).map(|counts| counts.iter().sum()).collect()
}

/// Returns the standard deviation of the losses in blocks; `None` if there are too few blocks.
fn variation(counts: &[u16]) -> Option<f64> {
    if counts.len() < FEWEST_BLOCKS {
        return None;
    }
    let mean = counts.iter().copied().map(u64::from).sum::<u64>() as f64 / counts.len() as f64;
    let apart = |count: &u16| f64::from(*count) - mean;
    Some(libm::sqrt(counts.iter().map(|count| apart(count) * apart(count)).sum::<f64>() / counts.len() as f64))
}

fn autocorrelation(losses: &Bits, lost: f64, lag: usize) -> f64 {
    if lag >= losses.len() {
        return 0.0;
    }
    let share = lost / losses.len() as f64;
    let both = losses.pairs(lag) as f64 / (losses.len() - lag) as f64;
    let variance = share * (1.0 - share);
    if variance > 0.0 { (both - share * share) / variance } else { 0.0 }
}
