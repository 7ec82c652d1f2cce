//! States of TCP connections at regular times, as `ss -ti` shows them for Linux.

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::info::{Fields, NAMES, word};
use lasthop_proto::time::{Duration, Instant};
use lasthop_report::ReportError;
use lasthop_report::rows::{Kind, Rows, Value};
use lasthop_sim::network::Network;
use lasthop_sim::{Recording, Simulation};

use crate::series::SeriesError;

/// Maximum simulated time between cancellation checks.
const PIECE: Duration = Duration::from_millis(1);

/// Maximum number of rows of a table: about 1 GB.
const MOST_ROWS: usize = 1_000_000;

/// Times at which connections are sampled: every interval from its first multiple on.
pub struct Sampler {
    interval: Duration,
    next: Instant,
}

/// State of a run after a piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Indicates whether a sample is due.
    pub due: bool,
    /// Indicates whether the run goes on.
    pub goes_on: bool,
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// Returns an error if the interval is zero.
    pub fn new(interval: Duration) -> Result<Self, SeriesError> {
        if interval == Duration::ZERO {
            return Err(SeriesError::NoInterval);
        }
        Ok(Self { interval, next: Instant::ZERO + interval })
    }

    /// Advances `simulation` by a millisecond, or to the next sample if that is earlier. At the end of the run, a last
    /// sample is due.
    pub fn advance(&mut self, simulation: &mut Simulation) -> Piece {
        let until = (simulation.now() + PIECE).min(self.next);
        let goes_on = simulation.advance_until(until);
        let due = !goes_on || simulation.now() >= self.next;
        if due {
            self.next += self.interval;
        }
        Piece { due, goes_on }
    }
}

/// Runs `network` once and returns a row per sample and flow that uses TCP, until `stop` returns true: `time` in
/// seconds, `flow`, then the fields of Linux's `struct tcp_info`.
///
/// # Errors
///
/// Returns an error if the interval is zero, or so short that the table would have more than a million rows.
pub fn table(
    network: &Network,
    seed: u64,
    interval: Duration,
    stop: impl Fn() -> bool,
) -> Result<Result<Rows, ReportError>, SeriesError> {
    let mut simulation = Simulation::new(network, seed, Recording::Off);
    let mut sampler = Sampler::new(interval)?;
    let mut samples: Vec<(Instant, FlowId, Fields)> = Vec::new();
    let mut goes_on = true;
    while goes_on && !stop() {
        let piece = sampler.advance(&mut simulation);
        goes_on = piece.goes_on;
        if piece.due {
            let now = simulation.now();
            samples.extend(simulation.tcp_infos().map(|(flow, _, info)| (now, flow, info)));
        }
        if samples.len() > MOST_ROWS {
            return Err(SeriesError::TooLong);
        }
    }
    Ok(rows(network, &samples))
}

fn rows(network: &Network, samples: &[(Instant, FlowId, Fields)]) -> Result<Rows, ReportError> {
    let is_word = |name: &str| word(name, 1).is_some();
    let fields = NAMES.map(|name| (name.to_owned(), if is_word(name) { Kind::Text } else { Kind::Count }));
    let first = [("time".to_owned(), Kind::Float), ("flow".to_owned(), Kind::Text)];
    let mut rows = Rows::new(first.into_iter().chain(fields).collect());
    for (at, flow, info) in samples {
        let name = network.flows.get(flow.0 as usize).map_or_else(String::new, |flow| flow.name.clone());
        let fields = info.iter().map(|(name, value)| match value {
            None => Value::Missing,
            Some(value) => word(name, value).map_or(Value::Count(value), |word| Value::Text(word.to_owned())),
        });
        rows.push([Value::Float(at.as_secs_f64()), Value::Text(name)].into_iter().chain(fields).collect())?;
    }
    Ok(rows)
}
