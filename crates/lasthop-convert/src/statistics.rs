//! Properties of a trace in numbers.

use lasthop_proto::link_trace::LinkTrace;
use lasthop_proto::time::Duration;
use serde::Serialize;

/// Values of a column, weighted by the time for which they are valid.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Mean.
    pub mean: f64,
    /// Value below which the column is for 5 % of the time.
    pub p5: f64,
    /// Value below which the column is for 95 % of the time.
    pub p95: f64,
}

/// Properties of a trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statistics {
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of rows.
    pub rows: usize,
    /// Columns that are present.
    pub columns: Vec<Column>,
}

/// Returns the properties of `trace`. The last row only ends it, unless it is the only one.
pub fn statistics(trace: &LinkTrace) -> Statistics {
    let rates = trace.rates.iter().map(|rates| rates.as_ref().map(|rates| scaled(rates, |rate| *rate as f64 / 1e6)));
    let delays = trace
        .delays
        .iter()
        .map(|delays| delays.as_ref().map(|delays| scaled(delays, |delay: &Duration| delay.as_nanos() as f64 / 1e6)));
    let losses = trace.losses.iter().cloned();
    let present = rates.chain(delays).chain(losses).flatten();
    let spans: Vec<f64> = trace.spans().map(|span| span.as_nanos() as f64).collect();
    let columns = trace.names().zip(present).map(|(name, values)| column(name, &values, &spans)).collect();
    Statistics { seconds: trace.length().as_secs_f64(), rows: trace.times.len(), columns }
}

fn scaled<T>(values: &[T], scale: impl Fn(&T) -> f64) -> Vec<f64> {
    values.iter().map(scale).collect()
}

fn column(name: &'static str, values: &[f64], spans: &[f64]) -> Column {
    let mut weighted: Vec<(f64, f64)> = values.iter().copied().zip(spans.iter().copied()).collect();
    if weighted.is_empty() {
        weighted.extend(values.first().map(|value| (*value, 1.0)));
    }
    let total: f64 = weighted.iter().map(|(_, span)| span).sum();
    let mean = weighted.iter().map(|(value, span)| value * span).sum::<f64>() / total;
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let quantile = |share: f64| {
        let mut sum = 0.0;
        let found = weighted.iter().find(|(_, span)| {
            sum += span;
            sum >= share * total
        });
        found.or(weighted.last()).map_or(0.0, |(value, _)| *value)
    };
    Column { name, mean, p5: quantile(0.05), p95: quantile(0.95) }
}
