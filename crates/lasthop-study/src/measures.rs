//! The metrics of a run: numbers with names and units. `docs/output.md` defines each.

mod delays;
pub mod flows;
pub mod links;
pub mod queues;
pub mod rows;

use std::borrow::Cow;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::{CallConfig, CallReport, Delays};
use lasthop_sim::measure::{Drops, FlowReport, MobilityReport, PathReport, Report, SenderReport, SessionReport};
use lasthop_sim::network::{App, FlowSpec, LinkSpec, Network};
use serde::{Serialize, Serializer};

use crate::emodel::{Speech, opinion_score};
use crate::stats::Estimate;

/// A metric of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// Name: `throughput`, `wired_goodput`, ...
    pub name: Cow<'static, str>,
    /// Unit.
    pub unit: &'static str,
    /// Value.
    pub value: f64,
}

/// A count that only some networks have.
pub(crate) struct Occasional {
    /// Name.
    pub name: &'static str,
    /// Returns whether runs of a network have the count.
    pub applies: fn(&Network) -> bool,
    /// Returns the count; `None` if it could not be counted.
    of: fn(&Report) -> Option<u64>,
}

/// Unit of all these counts.
pub(crate) const OCCASIONAL_UNIT: &str = "count";

/// Number of these counts.
pub(crate) const OCCASIONS: usize = 4;

/// All of these counts, in the order of output.
pub(crate) static OCCASIONAL: [Occasional; OCCASIONS] = [
    Occasional {
        name: "marks",
        applies: Network::may_mark,
        of: |report| Some(report.links.iter().flatten().map(|path| path.marks).sum()),
    },
    Occasional {
        name: "acks_filtered",
        applies: Network::filters,
        of: |report| Some(report.links.iter().flatten().map(|path| path.filtered).sum()),
    },
    Occasional {
        name: "acks_reconstructed",
        applies: Network::reconstructs,
        of: |report| Some(report.flows.iter().map(|flow| flow.acks_reconstructed).sum()),
    },
    Occasional {
        name: "spurious_timeouts",
        applies: Network::varies,
        of: |report| report.flows.iter().map(|flow| flow.sender.spurious_timeouts).sum(),
    },
];

/// Returns the rate of a transfer in bits per second: up to its last byte, or up to the limit if that ended it. So a
/// stall until the limit counts.
fn carried(network: &Network, flow: &FlowReport) -> f64 {
    if flow.complete || flow.aborted {
        return flow.throughput();
    }
    let seconds = network.limit.max(flow.end).since(flow.start).as_secs_f64();
    if seconds > 0.0 { flow.received as f64 * 8.0 / seconds } else { 0.0 }
}

/// Returns the mean throughput, in Mbps, of the transfers that delivered data and of the web sessions.
pub fn throughput(network: &Network, report: &Report) -> f64 {
    let transfers = network.flows.iter().zip(&report.flows);
    let transfers = transfers.filter(|(spec, flow)| spec.app.is_transfer() && flow.received > 0);
    let transfers = transfers.map(|(_, flow)| carried(network, flow));
    let each: Vec<f64> = transfers.chain(report.sessions.iter().map(SessionReport::throughput)).collect();
    // The sum of an empty list is -0.
    (each.iter().sum::<f64>() + 0.0) / each.len().max(1) as f64 / 1e6
}

/// Returns the start of the first flow or session of a run.
fn first_start(report: &Report) -> Instant {
    let sessions = report.sessions.iter().map(|session| session.start);
    report.flows.iter().map(|flow| flow.start).chain(sessions).min().unwrap_or_default()
}

/// Returns the throughput of all flows together, in Mbps, from the first start to the last delivery.
fn total_throughput(report: &Report) -> f64 {
    let bytes = report.flows.iter().map(|flow| flow.received).sum::<u64>();
    let seconds = report.end.since(first_start(report)).as_secs_f64();
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}

/// Returns whether a channel of the link destroys frames.
fn loses(link: &LinkSpec) -> bool {
    link.directions.iter().any(|direction| direction.errors != ErrorSpec::None)
}

/// Returns the metrics of a run, in the same order for the same network.
///
/// `throughput` is the mean over the transfers that delivered data and the web sessions; `LINK_goodput` is useful bytes
/// over all payload bytes that the link carried in the direction with more payload; counts are sums over all flows.
/// `starved` counts the transfers that `throughput` omits, if others remain. The counts that only some networks have
/// follow.
pub fn measures(network: &Network, report: &Report) -> Vec<Measure> {
    let mut measures = vec![Measure { name: "throughput".into(), unit: "Mbps", value: throughput(network, report) }];
    if network.flows.len() > 1 {
        let value = total_throughput(report);
        measures.push(Measure { name: "total_throughput".into(), unit: "Mbps", value });
    }
    if let Some(delays) = &report.delays {
        delays::push(delays, &mut measures);
    }
    for (link, paths) in network.links.iter().zip(&report.links) {
        let busier = if paths[0].payload >= paths[1].payload { &paths[0] } else { &paths[1] };
        if let Some(goodput) = busier.goodput() {
            let name = format!("{}_goodput", link.name).into();
            measures.push(Measure { name, unit: "percent", value: 100.0 * goodput });
        }
        if let Some(loss) = busier.loss().filter(|_| loses(link)) {
            let name = format!("{}_loss", link.name).into();
            measures.push(Measure { name, unit: "percent", value: 100.0 * loss });
        }
    }
    if !network.sessions.is_empty() {
        let pages = report.sessions.iter().map(|session| session.web.pages).sum::<u64>() as f64;
        measures.push(Measure { name: "pages".into(), unit: "count", value: pages });
    }
    let drops = report.links.iter().flatten().map(PathReport::drops).fold(Drops::default(), Drops::and);
    for (name, value) in [("frames_lost", drops.channel), ("queue_drops", drops.queues())] {
        measures.push(Measure { name: name.into(), unit: "count", value: value as f64 });
    }
    let mut count = |name: &'static str, of: &dyn Fn(&FlowReport) -> u64| {
        let value = report.flows.iter().map(of).sum::<u64>() as f64;
        measures.push(Measure { name: name.into(), unit: "count", value });
    };
    count("timeouts", &|flow| flow.sender.timeouts);
    count("relay_timeouts", &|flow| flow.sender.relay_timeouts);
    count("recoveries", &|flow| flow.sender.recoveries);
    count("source_retransmissions", &|flow| flow.sender.source_retransmissions);
    count("local_retransmissions", &|flow| flow.sender.local_retransmissions);
    if network.flows.iter().any(|flow| matches!(flow.app, App::Quic(_))) {
        count("quic_resent_bytes", &|flow| flow.sender.quic_resent_bytes);
    }
    count("segments_lost", &|flow| flow.losses);
    count("repaired_locally", &|flow| flow.repaired_locally);
    count("repaired_twice", &|flow| flow.repaired_twice);
    count("dupacks_suppressed", &|flow| flow.dupacks_suppressed);
    count("incomplete", &|flow| u64::from(!flow.complete));
    let is_transfer = |spec: &&FlowSpec| spec.app.is_transfer();
    let transfers = network.flows.iter().filter(is_transfer).count();
    if transfers > 0 && transfers + network.sessions.len() > 1 {
        let flows = network.flows.iter().zip(&report.flows);
        let starved = flows.filter(|(spec, flow)| is_transfer(spec) && flow.received == 0).count();
        measures.push(Measure { name: "starved".into(), unit: "count", value: starved as f64 });
    }
    call_measures(network, report, &mut measures);
    if let Some(moves) = report.mobility {
        mobility_measures(&moves, &mut measures);
    }
    fairness_measures(network, report, &mut measures);
    if network.judges_losses() {
        let sum = |of: fn(&FlowReport) -> u64| report.flows.iter().map(of).sum::<u64>() as f64;
        let judged = sum(|flow| flow.losses_judged);
        measures.push(Measure { name: "losses_judged".into(), unit: "count", value: judged });
        if judged > 0.0 {
            let value = 100.0 * sum(|flow| flow.judged_right) / judged;
            measures.push(Measure { name: "judged_right".into(), unit: "percent", value });
        }
    }
    for Occasional { name, applies, of } in &OCCASIONAL {
        if let Some(value) = of(report).filter(|_| applies(network)) {
            measures.push(Measure { name: (*name).into(), unit: OCCASIONAL_UNIT, value: value as f64 });
        }
    }
    measures
}

/// Adds the results of a host's handoffs.
fn mobility_measures(moves: &MobilityReport, measures: &mut Vec<Measure>) {
    let mut push = |name: &'static str, unit, value| measures.push(Measure { name: name.into(), unit, value });
    push("handoffs", "count", moves.handoffs as f64);
    if let Some(gap) = moves.mean_gap() {
        push("handoff_gap", "ms", 1e3 * gap.as_secs_f64());
    }
    push("handoff_lost", "count", moves.lost as f64);
    push("reordered", "count", moves.reordered as f64);
    push("repeated", "count", moves.repeated as f64);
}

/// Adds Jain's index over all transfers if there are several, and the mean throughput of those that cross a lossy link
/// and of those that do not, if there are both.
fn fairness_measures(network: &Network, report: &Report, measures: &mut Vec<Measure>) {
    let transfers = || network.flows.iter().zip(&report.flows).filter(|(spec, _)| spec.app.is_transfer());
    if transfers().count() < 2 {
        return;
    }
    let kinds: [Vec<f64>; 2] = [true, false].map(|lossy| {
        let of_kind = transfers().filter(|(spec, _)| network.is_lossy_between(spec.from, spec.to) == lossy);
        of_kind.map(|(_, flow)| carried(network, flow) / 1e6).collect()
    });
    if kinds.iter().all(|each| !each.is_empty()) {
        for (name, each) in ["lossy_throughput", "lossless_throughput"].into_iter().zip(&kinds) {
            let value = each.iter().sum::<f64>() / each.len() as f64;
            measures.push(Measure { name: name.into(), unit: "Mbps", value });
        }
    }
    if let Some(value) = jain(&kinds.concat()) {
        measures.push(Measure { name: "fairness".into(), unit: "index", value });
    }
}

/// Returns Jain's index of fairness: 1 if all values are equal, one over their number if only one is not zero (Jain,
/// Chiu, Hawe 1984); `None` if all are zero.
fn jain(each: &[f64]) -> Option<f64> {
    let (sum, squares) = (each.iter().sum::<f64>(), each.iter().map(|one| one * one).sum::<f64>());
    (squares > 0.0).then(|| sum * sum / (each.len() as f64 * squares))
}

/// Adds the results of calls, if there are any.
fn call_measures(network: &Network, report: &Report, measures: &mut Vec<Measure>) {
    let calls: Vec<(CallConfig, &CallReport)> = network
        .flows
        .iter()
        .zip(&report.flows)
        .filter_map(|(spec, flow)| match spec.app {
            App::Call(config) => Some((config, flow.call.as_deref()?)),
            _ => None,
        })
        .collect();
    if calls.is_empty() {
        return;
    }
    let mut push = |name: &'static str, unit, value| measures.push(Measure { name: name.into(), unit, value });
    let sum = |of: fn(&CallReport) -> u64| calls.iter().map(|(_, call)| of(call)).sum::<u64>() as f64;
    push("call_sent", "count", sum(|call| call.sent));
    push("call_lost", "count", sum(|call| call.lost));
    push("call_late", "count", sum(|call| call.late));
    let mut delays = Delays::default();
    calls.iter().for_each(|(_, call)| delays.merge(&call.delays));
    for (name, permille) in [("call_delay_p50", 500), ("call_delay_p95", 950), ("call_delay_p99", 990)] {
        if let Some(delay) = delays.quantile(permille) {
            push(name, "ms", 1e3 * delay.as_secs_f64());
        }
    }
    if delays.count() > 0 {
        push("call_delay_max", "ms", 1e3 * delays.longest().as_secs_f64());
    }
    // Video: speech has no frames of several packets.
    if calls.iter().any(|(config, _)| config.codec.is_none()) {
        let frames = |of: fn(&CallReport) -> u64| {
            calls.iter().filter(|(config, _)| config.codec.is_none()).map(|(_, call)| of(call)).sum::<u64>() as f64
        };
        push("call_frames", "count", frames(|call| call.frames));
        push("call_frames_missed", "count", frames(|call| call.frames_missed));
    }
    let ratings = calls.iter().filter(|(_, call)| call.sent > 0);
    let ratings: Vec<f64> = ratings.filter_map(|(config, call)| Some(speech(config, call)?.rating())).collect();
    if !ratings.is_empty() {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / ratings.len() as f64;
        push("call_rating", "R", mean(&mut ratings.iter().copied()));
        push("call_mos", "MOS", mean(&mut ratings.iter().map(|rating| opinion_score(*rating))));
    }
}

/// Returns the E-model's parameters of a call; `None` without a codec. A frame is complete when it has been spoken, and
/// is played at its deadline.
fn speech(config: &CallConfig, call: &CallReport) -> Option<Speech> {
    let codec = config.codec?;
    let delay = 1e3 * (config.interval + config.deadline).as_secs_f64();
    let (loss, burst_ratio) = (call.missed(), call.burst_ratio());
    Some(Speech { delay, ie: codec.ie, bpl: codec.bpl, loss, burst_ratio })
}

/// Returns all metrics that runs of `network` can have, with arbitrary values; a run without payload on a link lacks
/// its goodput. Delays are included only if `metered`.
fn every(network: &Network, metered: Switch) -> Vec<Measure> {
    let carried = PathReport { frames: 1, payload: 1, ..PathReport::default() };
    let mut delays = Delays::default();
    delays.add(Duration::ZERO);
    let call = CallReport { sent: 1, delays, ..CallReport::default() };
    let sender = SenderReport { spurious_timeouts: Some(0), ..SenderReport::default() };
    let flow = |spec: &FlowSpec| FlowReport {
        sender,
        received: 1,
        end: Instant::ZERO + Duration::from_secs(1),
        losses_judged: 1,
        call: matches!(spec.app, App::Call(_)).then(|| Box::new(call.clone())),
        ..FlowReport::default()
    };
    let report = Report {
        flows: network.flows.iter().map(flow).collect(),
        links: vec![[carried; 2]; network.links.len()],
        mobility: network.mobility.as_ref().map(|_| MobilityReport { gaps: 1, ..MobilityReport::default() }),
        delays: metered.is_on().then(|| delays::possible(network)),
        ..Report::default()
    };
    measures(network, &report)
}

/// Returns names and units of all metrics that runs of `network` can have without
/// [metering](crate::replicate::Task::metered), in order.
pub fn columns(network: &Network) -> Vec<(String, &'static str)> {
    named(every(network, Switch::Off))
}

/// Returns names and units of all metrics that [metered](crate::replicate::Task::metered) runs of `network` can have,
/// in order.
pub fn metered_columns(network: &Network) -> Vec<(String, &'static str)> {
    named(every(network, Switch::On))
}

fn named(measures: Vec<Measure>) -> Vec<(String, &'static str)> {
    measures.into_iter().map(|measure| (measure.name.into_owned(), measure.unit)).collect()
}

/// Returns whether one of these metrics needs metered runs.
pub fn need_metering<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    names.any(delays::is_delay)
}

/// Metrics of several runs: a row per run, a column per metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Samples {
    columns: Vec<(String, &'static str)>,
    /// Values row by row; NaN if a run lacks the metric.
    values: Vec<f64>,
}

impl Samples {
    /// Creates an empty table. Metrics other than those in `columns`, which has names and units, are omitted.
    pub const fn new(columns: Vec<(String, &'static str)>) -> Self {
        Self { columns, values: Vec::new() }
    }

    /// Creates a table from the rows that [`values`](Self::values) of others with the same columns returned. Omits an
    /// incomplete row.
    pub fn from_values(columns: Vec<(String, &'static str)>, mut values: Vec<f64>) -> Self {
        values.truncate(values.len() - values.len() % columns.len().max(1));
        Self { columns, values }
    }

    /// Adds a run of `network`.
    pub fn push(&mut self, network: &Network, report: &Report) {
        let measures = measures(network, report);
        let value = |name: &String| {
            let found = measures.iter().find(|measure| measure.name == *name).map(|measure| measure.value);
            found
                .or_else(|| flows::steady_throughput(network, report, name))
                .or_else(|| flows::duration(network, report, name))
                .or_else(|| links::overhead(network, report, name))
        };
        self.values.extend(self.columns.iter().map(|(name, _)| value(name).unwrap_or(f64::NAN)));
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    /// Returns names and units of the metrics.
    pub fn columns(&self) -> &[(String, &'static str)] {
        &self.columns
    }

    /// Returns all values, row by row; NaN if a run lacks the metric.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the same as [`values`](Self::values), without copying.
    pub fn into_values(self) -> Vec<f64> {
        self.values
    }

    /// Returns the values of one column.
    pub fn column(&self, at: usize) -> impl Iterator<Item = Option<f64>> {
        let values = self.values.iter().skip(at).step_by(self.columns.len().max(1));
        values.map(|value| (!value.is_nan()).then_some(*value))
    }

    /// Returns mean and interval of each metric; omits those that no run has.
    pub fn summaries(&self) -> Vec<Summary> {
        let of = |(at, (name, unit)): (usize, &(String, &'static str))| {
            let values: Vec<f64> = self.column(at).flatten().collect();
            Some(Summary { name: name.clone().into(), unit, estimate: Estimate::of(&values)? })
        };
        self.columns.iter().enumerate().filter_map(of).collect()
    }
}

/// A metric over several runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// Name.
    pub name: Cow<'static, str>,
    /// Unit.
    pub unit: &'static str,
    /// Mean and interval.
    pub estimate: Estimate,
}

/// Returns each metric over all `reports` of a network; omits those that no run has.
pub fn summarise(network: &Network, reports: &[Report]) -> Vec<Summary> {
    let mut samples = Samples::new(metered_columns(network));
    reports.iter().for_each(|report| samples.push(network, report));
    samples.summaries()
}

/// Returns mean and interval of each metric that `of` finds in the reports, in the order in which they are first found.
pub(crate) fn summarise_each(reports: &[Report], of: impl Fn(&Report) -> Vec<Measure>) -> Vec<Summary> {
    let runs: Vec<Vec<Measure>> = reports.iter().map(of).collect();
    let mut summaries: Vec<Summary> = Vec::with_capacity(runs.first().map_or(0, Vec::len));
    let mut values = Vec::with_capacity(runs.len());
    for Measure { name, unit, .. } in runs.iter().flatten() {
        if find(&summaries, name).is_none() {
            values.clear();
            values.extend(runs.iter().flatten().filter(|other| other.name == *name).map(|other| other.value));
            let summary = |estimate| Summary { name: name.clone(), unit, estimate };
            summaries.extend(Estimate::of(&values).map(summary));
        }
    }
    // There may be a hundred thousand flows.
    summaries.shrink_to_fit();
    summaries
}

/// Returns the estimate of the metric of that name.
pub fn find<'a>(summaries: &'a [Summary], name: &str) -> Option<&'a Estimate> {
    summaries.iter().find(|summary| summary.name == name).map(|summary| &summary.estimate)
}

/// Means and intervals, serialized as an object by metric, with `unit`, `mean`, `ci95`, `runs`.
#[derive(Clone, Copy, Debug)]
pub struct ByName<'s>(pub &'s [Summary]);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|summary| (&summary.name, Spread::of(summary))))
    }
}

/// Serializes the metrics of a row as [`ByName`].
fn by_name<S: Serializer>(summaries: &[Summary], serializer: S) -> Result<S::Ok, S::Error> {
    ByName(summaries).serialize(serializer)
}

/// Entry of a metric in [`ByName`].
#[derive(Serialize)]
struct Spread {
    unit: &'static str,
    mean: f64,
    ci95: Option<f64>,
    runs: u32,
}

impl Spread {
    fn of(summary: &Summary) -> Self {
        let Estimate { mean, ci95, n } = summary.estimate;
        Self { unit: summary.unit, mean, ci95, runs: n }
    }
}

#[cfg(test)]
#[path = "measures_tests.rs"]
mod tests;
