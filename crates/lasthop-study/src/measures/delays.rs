//! Quantiles of delays as metrics.

use lasthop_sim::measure::{DelayStats, Delays};
use lasthop_sim::network::{App, Network};

use super::Measure;

/// Names of the distributions, without `_p50`, `_p95`, `_p99`.
const NAMES: [&str; 3] = ["rtt", "queue_delay", "one_way_delay"];
const QUANTILES: [&str; 3] = ["p50", "p95", "p99"];

/// Adds the metrics of the measured delays.
pub(super) fn push(delays: &Delays, measures: &mut Vec<Measure>) {
    for (name, stats) in NAMES.into_iter().zip([delays.rtt, delays.queueing, delays.one_way]) {
        push_stats(name, stats, measures);
    }
}

/// Adds the quantiles of one distribution.
pub(super) fn push_stats(name: &str, stats: Option<DelayStats>, measures: &mut Vec<Measure>) {
    let Some(stats) = stats else { return };
    for (quantile, delay) in QUANTILES.into_iter().zip([stats.p50, stats.p95, stats.p99]) {
        measures.push(Measure {
            name: format!("{name}_{quantile}").into(),
            unit: "ms",
            value: 1e3 * delay.as_secs_f64(),
        });
    }
}

/// Returns whether `name` is one of these metrics.
pub(super) fn is_delay(name: &str) -> bool {
    let of = |known: &str| name.strip_prefix(known).and_then(|rest| rest.strip_prefix('_'));
    NAMES.iter().any(|known| of(known).is_some_and(|quantile| QUANTILES.contains(&quantile)))
}

/// Returns the delays that a run of `network` can have, with arbitrary values.
pub(super) fn possible(network: &Network) -> Delays {
    let zero = lasthop_proto::time::Duration::ZERO;
    let any = DelayStats { count: 1, mean: zero, p50: zero, p95: zero, p99: zero, longest: zero };
    let is_datagrams = |app: &App| matches!(app, App::OnOff(_) | App::Call(_));
    let has = |of: &dyn Fn(&App) -> bool| network.flows.iter().any(|flow| of(&flow.app)).then_some(any);
    Delays { rtt: has(&|app| !is_datagrams(app)), queueing: has(&|_| true), one_way: has(&is_datagrams) }
}
