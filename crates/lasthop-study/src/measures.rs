//! What a run is judged by, as numbers with names.

use lasthop_sim::measure::{FlowReport, PathReport, Report, SessionReport};
use lasthop_sim::network::{App, Network};
use serde_json::{Map, Value, json};

use crate::stats::Estimate;

/// One measure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// Its name: `throughput`, `wired_goodput`, ...
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

/// The mean throughput, in Mbps, of the transfers that brought something and of the web sessions.
pub fn throughput(network: &Network, report: &Report) -> f64 {
    let transfers = network.flows.iter().zip(&report.flows);
    let transfers = transfers.filter(|(spec, flow)| matches!(spec.app, App::Transfer { .. }) && flow.received > 0);
    let transfers = transfers.map(|(_, flow)| flow.throughput());
    let each: Vec<f64> = transfers.chain(report.sessions.iter().map(SessionReport::throughput)).collect();
    each.iter().sum::<f64>() / each.len().max(1) as f64 / 1e6
}

/// The measures of a run, always in the same order for the same network.
///
/// `throughput` is the mean over the transfers that brought something and the web sessions; `LINK_goodput` is useful bytes over all payload bytes
/// that the link carried in the direction that carries more payload; counts are sums over all flows.
pub fn measures(network: &Network, report: &Report) -> Vec<Measure> {
    let mut measures =
        vec![Measure { name: "throughput".to_owned(), unit: "Mbps", value: throughput(network, report) }];
    for (link, paths) in network.links.iter().zip(&report.links) {
        let busier = if paths[0].payload >= paths[1].payload { &paths[0] } else { &paths[1] };
        if let Some(goodput) = busier.goodput() {
            let name = format!("{}_goodput", link.name);
            measures.push(Measure { name, unit: "percent", value: 100.0 * goodput });
        }
    }
    if !network.sessions.is_empty() {
        let pages = report.sessions.iter().map(|session| session.web.pages).sum::<u64>() as f64;
        measures.push(Measure { name: "pages".to_owned(), unit: "count", value: pages });
    }
    let mut count = |name: &str, of: &dyn Fn(&FlowReport) -> u64| {
        let value = report.flows.iter().map(of).sum::<u64>() as f64;
        measures.push(Measure { name: name.to_owned(), unit: "count", value });
    };
    count("timeouts", &|flow| flow.sender.timeouts);
    count("relay_timeouts", &|flow| flow.sender.relay_timeouts);
    count("recoveries", &|flow| flow.sender.recoveries);
    count("source_retransmissions", &|flow| flow.sender.source_retransmissions);
    count("local_retransmissions", &|flow| flow.sender.local_retransmissions);
    count("losses", &|flow| flow.losses);
    count("repaired_locally", &|flow| flow.repaired_locally);
    count("repaired_twice", &|flow| flow.repaired_twice);
    count("dupacks_suppressed", &|flow| flow.dupacks_suppressed);
    count("incomplete", &|flow| u64::from(!flow.complete));
    measures
}

/// All measures that runs of `network` can have, with any values: a run has no goodput of a link that carried no payload.
fn every(network: &Network) -> Vec<Measure> {
    let carried = PathReport { payload: 1, ..PathReport::default() };
    let report = Report { links: vec![[carried; 2]; network.links.len()], ..Report::default() };
    measures(network, &report)
}

/// The names of all measures that runs of `network` can have, in order.
pub fn names(network: &Network) -> Vec<String> {
    every(network).into_iter().map(|measure| measure.name).collect()
}

/// A measure over several runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Mean and interval.
    pub estimate: Estimate,
}

/// Each measure over all `reports` of a network; without those that no run has.
pub fn summarise(network: &Network, reports: &[Report]) -> Vec<Summary> {
    let runs: Vec<Vec<Measure>> = reports.iter().map(|report| measures(network, report)).collect();
    let of = |Measure { name, unit, .. }: Measure| {
        let values = runs.iter().flat_map(|run| run.iter().find(|other| other.name == name));
        let values: Vec<f64> = values.map(|measure| measure.value).collect();
        Some(Summary { estimate: Estimate::of(&values)?, name, unit })
    };
    every(network).into_iter().filter_map(of).collect()
}

/// The summary of that name.
pub fn find<'a>(summaries: &'a [Summary], name: &str) -> Option<&'a Estimate> {
    summaries.iter().find(|summary| summary.name == name).map(|summary| &summary.estimate)
}

/// Means and intervals as a JSON object by name of the measure: of `unit`, `mean`, `ci95`, `runs`.
pub fn summaries_json(summaries: &[Summary]) -> Value {
    let entry = |summary: &Summary| {
        let estimate = &summary.estimate;
        let value = json!({ "unit": summary.unit, "mean": estimate.mean, "ci95": estimate.ci95, "runs": estimate.n });
        (summary.name.clone(), value)
    };
    Value::Object(summaries.iter().map(entry).collect::<Map<_, _>>())
}
