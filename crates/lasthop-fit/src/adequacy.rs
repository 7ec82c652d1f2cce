//! Check of a model against its trace: the model is run many times over the same packets, and its losses are compared
//! with the observed ones.

use lasthop_proto::channel::{Channel, ErrorSpec, Fate};
use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};

use crate::trace::{LossTrace, Sizes, runs};

/// Number of runs of the model.
const RUNS: u32 = 100;

/// Minimum distance from the model's mean, in its standard deviations, for a departure; the value must also lie outside
/// all runs.
const FAR: f64 = 4.0;

/// Sizes of blocks in which losses are counted. A trace must have at least [`FEWEST_BLOCKS`] of them.
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
pub(crate) fn of(trace: &LossTrace, spec: &ErrorSpec, stop: &dyn Fn() -> bool) -> Adequacy {
    let seen: Vec<bool> = trace.packets().iter().map(|packet| packet.lost).collect();
    let of_trace = Portrait::of(trace, &seen);
    let of_model: Vec<Portrait> =
        (0..RUNS).take_while(|_| !stop()).map(|run| Portrait::of(trace, &simulate(trace, spec, run))).collect();
    let departures = NAMES.iter().enumerate().filter_map(|(at, what)| {
        let values: Vec<f64> = of_model.iter().filter_map(|portrait| portrait.numbers[at]).collect();
        depart(what, of_trace.numbers[at]?, &values)
    });
    let mean = |pick: &dyn Fn(&Portrait) -> f64| of_model.iter().map(pick).sum::<f64>() / f64::from(RUNS);
    let run_lengths = (0..LONGEST_RUN)
        .map(|at| Beside {
            at: at as u32 + 1,
            seen: of_trace.run_lengths[at],
            model: mean(&|portrait| portrait.run_lengths[at]),
        })
        .filter(|beside| beside.seen > 0.0 || beside.model >= 0.5);
    let autocorrelation = LAGS.iter().enumerate().filter(|(_, lag)| **lag < seen.len()).map(|(at, lag)| Beside {
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

/// Returns the losses of the model for the trace's packets.
fn simulate(trace: &LossTrace, spec: &ErrorSpec, run: u32) -> Vec<bool> {
    // Channels begin in the good state, but a trace begins at a random point of a link's life. A channel with states in
    // time forgets its initial state in idle time, one with states in packets over packets.
    const LONG_BEFORE: Duration = Duration::from_secs(1_000_000);
    const PACKETS_BEFORE: u32 = 2000;
    let mut channel = Channel::new(spec, Root(u64::from(run)).stream("fit"));
    let mut packet = Packet::<()> { body: Body::Datagram { number: 0 }, ..Packet::default() };
    let mut judge = |bytes: u32, start: Instant, end: Instant| {
        packet.len = bytes;
        !matches!(channel.judge(&packet, start, end), Fate::Delivered)
    };
    if matches!(spec, ErrorSpec::TwoStatePacket { .. }) {
        for _ in 0..PACKETS_BEFORE {
            judge(1, Instant::ZERO, Instant::ZERO);
        }
    }
    let origin = Instant::ZERO + LONG_BEFORE;
    trace
        .packets()
        .iter()
        .map(|sent| {
            let start = origin + sent.at;
            judge(sent.bytes, start, start + sent.air)
        })
        .collect()
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

struct Portrait {
    numbers: [Option<f64>; NAMES.len()],
    run_lengths: Vec<f64>,
    autocorrelation: Vec<f64>,
}

impl Portrait {
    fn of(trace: &LossTrace, losses: &[bool]) -> Self {
        let runs = runs(losses.iter().copied());
        let mut run_lengths = vec![0.0; LONGEST_RUN];
        for run in &runs {
            run_lengths[(*run as usize).min(LONGEST_RUN) - 1] += 1.0;
        }
        let lost = losses.iter().filter(|lost| **lost).count() as f64;
        let autocorrelation: Vec<f64> = LAGS.iter().map(|lag| autocorrelation(losses, *lag)).collect();
        let bytes =
            trace.packets().iter().zip(losses).filter(|(_, lost)| **lost).map(|(packet, _)| f64::from(packet.bytes));
        let numbers = [
            Some(lost),
            Some(runs.len() as f64),
            runs.iter().max().map(|run| f64::from(*run)),
            Some(autocorrelation[0]),
            variation(losses, BLOCKS[0]),
            variation(losses, BLOCKS[1]),
            variation(losses, BLOCKS[2]),
            (lost > 0.0 && trace.sizes() == Sizes::Several).then(|| bytes.sum::<f64>() / lost),
        ];
        Self { numbers, run_lengths, autocorrelation }
    }
}

/// Returns the standard deviation of the losses in blocks of `block` packets; `None` if the trace has too few blocks.
fn variation(losses: &[bool], block: usize) -> Option<f64> {
    let counts: Vec<f64> =
        losses.chunks_exact(block).map(|block| block.iter().filter(|lost| **lost).count() as f64).collect();
    if counts.len() < FEWEST_BLOCKS {
        return None;
    }
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    Some(libm::sqrt(counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / counts.len() as f64))
}

fn autocorrelation(losses: &[bool], lag: usize) -> f64 {
    if lag >= losses.len() {
        return 0.0;
    }
    let share = losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64;
    let both =
        losses.iter().zip(&losses[lag..]).filter(|(a, b)| **a && **b).count() as f64 / (losses.len() - lag) as f64;
    let variance = share * (1.0 - share);
    if variance > 0.0 { (both - share * share) / variance } else { 0.0 }
}
