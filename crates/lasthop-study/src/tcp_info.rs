//! States of TCP connections at regular times, as `ss -ti` shows them for Linux.

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::info::{Fields, NAMES, word};
use lasthop_proto::time::{Duration, Instant};
use lasthop_report::ReportError;
use lasthop_report::rows::{Kind, Rows, Value};
use lasthop_sim::network::Network;
use lasthop_sim::{Recording, Simulation};

use crate::series::{Sampler, SeriesError};

/// Maximum number of rows of a table: about 1 GB.
const MOST_ROWS: usize = 1_000_000;

/// A run over time, as states of its TCP connections.
pub struct InfoSeries {
    /// Name of each flow.
    flows: Vec<String>,
    samples: Vec<(Instant, FlowId, Fields)>,
}

impl InfoSeries {
    /// Runs `network` once and samples it every `interval`, and at its end, until `stop` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if the interval is zero, or so short that there would be more than a million rows.
    pub fn of(network: &Network, seed: u64, interval: Duration, stop: impl Fn() -> bool) -> Result<Self, SeriesError> {
        let mut simulation = Simulation::new(network, seed, Recording::Off);
        let mut sampler = Sampler::new(interval)?;
        let flows = network.flows.iter().map(|flow| flow.name.clone()).collect();
        let mut series = Self { flows, samples: Vec::new() };
        let mut goes_on = true;
        while goes_on && !stop() {
            let piece = sampler.advance(&mut simulation);
            goes_on = piece.goes_on;
            if piece.due {
                let now = simulation.now();
                series.samples.extend(simulation.tcp_infos().map(|(flow, _, info)| (now, flow, info)));
            }
            if series.samples.len() > MOST_ROWS {
                return Err(SeriesError::TooLong);
            }
        }
        Ok(series)
    }

    /// Returns a row per sample and flow that uses TCP: `time` in seconds, `flow`, then the fields of Linux's `struct
    /// tcp_info`.
    ///
    /// # Errors
    ///
    /// Returns an error only if a row lacks a column.
    pub fn rows(&self) -> Result<Rows, ReportError> {
        let is_word = |name: &str| word(name, 1).is_some();
        let fields = NAMES.map(|name| (name.to_owned(), if is_word(name) { Kind::Text } else { Kind::Count }));
        let first = [("time".to_owned(), Kind::Float), ("flow".to_owned(), Kind::Text)];
        let mut rows = Rows::new(first.into_iter().chain(fields).collect());
        for (at, flow, info) in &self.samples {
            let name = self.flows.get(flow.0 as usize).cloned().unwrap_or_default();
            let fields = info.iter().map(|(name, value)| match value {
                None => Value::Missing,
                Some(value) => word(name, value).map_or(Value::Count(value), |word| Value::Text(word.to_owned())),
            });
            rows.push([Value::Float(at.as_secs_f64()), Value::Text(name)].into_iter().chain(fields).collect())?;
        }
        Ok(rows)
    }
}
