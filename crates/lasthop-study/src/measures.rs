//! What a run is judged by, as numbers with names.

use lasthop_sim::measure::{FlowReport, PathReport, Report, SessionReport};
use lasthop_sim::network::{App, FlowSpec, Network};
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

/// What is measured only where queues can mark packets, and its unit.
pub(crate) const MARKS: &str = "marks";
pub(crate) const MARKS_UNIT: &str = "count";

/// The mean throughput, in Mbps, of the transfers that brought something and of the web sessions.
pub fn throughput(network: &Network, report: &Report) -> f64 {
    let transfers = network.flows.iter().zip(&report.flows);
    let transfers = transfers.filter(|(spec, flow)| spec.app.is_transfer() && flow.received > 0);
    let transfers = transfers.map(|(_, flow)| flow.throughput());
    let each: Vec<f64> = transfers.chain(report.sessions.iter().map(SessionReport::throughput)).collect();
    // The sum of nothing is -0.
    (each.iter().sum::<f64>() + 0.0) / each.len().max(1) as f64 / 1e6
}

/// The measures of a run, always in the same order for the same network.
///
/// `throughput` is the mean over the transfers that brought something and the web sessions; `LINK_goodput` is useful bytes over all payload bytes
/// that the link carried in the direction that carries more payload; counts are sums over all flows. `starved` counts the transfers
/// that `throughput` leaves out, where others are left. `marks` counts packets that queues marked; it is there where they can.
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
    if network.flows.iter().any(|flow| matches!(flow.app, App::Quic(_))) {
        count("quic_resent_bytes", &|flow| flow.sender.quic_resent_bytes);
    }
    count("losses", &|flow| flow.losses);
    count("repaired_locally", &|flow| flow.repaired_locally);
    count("repaired_twice", &|flow| flow.repaired_twice);
    count("dupacks_suppressed", &|flow| flow.dupacks_suppressed);
    count("incomplete", &|flow| u64::from(!flow.complete));
    let is_transfer = |spec: &&FlowSpec| spec.app.is_transfer();
    let transfers = network.flows.iter().filter(is_transfer).count();
    if transfers > 0 && transfers + network.sessions.len() > 1 {
        let flows = network.flows.iter().zip(&report.flows);
        let starved = flows.filter(|(spec, flow)| is_transfer(spec) && flow.received == 0).count();
        measures.push(Measure { name: "starved".to_owned(), unit: "count", value: starved as f64 });
    }
    if network.may_mark() {
        let marks = report.links.iter().flatten().map(|path| path.marks).sum::<u64>() as f64;
        measures.push(Measure { name: MARKS.to_owned(), unit: MARKS_UNIT, value: marks });
    }
    measures
}

/// All measures that runs of `network` can have, with any values: a run has no goodput of a link that carried no payload.
fn every(network: &Network) -> Vec<Measure> {
    let carried = PathReport { payload: 1, ..PathReport::default() };
    let report = Report { links: vec![[carried; 2]; network.links.len()], ..Report::default() };
    measures(network, &report)
}

/// Names and units of all measures that runs of `network` can have, in order.
pub fn columns(network: &Network) -> Vec<(String, &'static str)> {
    every(network).into_iter().map(|measure| (measure.name, measure.unit)).collect()
}

/// The measures of several runs: a row a run, a column a measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Samples {
    columns: Vec<(String, &'static str)>,
    /// Row by row; NaN where a run has no such measure.
    values: Vec<f64>,
}

impl Samples {
    /// No rows yet. A measure that is not among `columns`, which are names and units, will be left out.
    pub const fn new(columns: Vec<(String, &'static str)>) -> Self {
        Self { columns, values: Vec::new() }
    }

    /// The rows that [`values`](Self::values) of others with the same columns gave; a row that is not whole is left out.
    pub fn from_values(columns: Vec<(String, &'static str)>, mut values: Vec<f64>) -> Self {
        values.truncate(values.len() - values.len() % columns.len().max(1));
        Self { columns, values }
    }

    /// Adds a run of `network`.
    pub fn push(&mut self, network: &Network, report: &Report) {
        let measures = measures(network, report);
        let value = |name: &String| measures.iter().find(|measure| measure.name == *name).map(|measure| measure.value);
        self.values.extend(self.columns.iter().map(|(name, _)| value(name).unwrap_or(f64::NAN)));
    }

    /// How many runs.
    pub fn runs(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    /// Names and units of the measures.
    pub fn columns(&self) -> &[(String, &'static str)] {
        &self.columns
    }

    /// All values, row by row; NaN where a run has no such measure.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// As [`values`](Self::values), without copying.
    pub fn into_values(self) -> Vec<f64> {
        self.values
    }

    /// The values of one column.
    pub fn column(&self, at: usize) -> impl Iterator<Item = Option<f64>> {
        let values = self.values.iter().skip(at).step_by(self.columns.len().max(1));
        values.map(|value| (!value.is_nan()).then_some(*value))
    }

    /// Mean and interval of each measure; without those that no run has.
    pub fn summaries(&self) -> Vec<Summary> {
        let of = |(at, (name, unit)): (usize, &(String, &'static str))| {
            let values: Vec<f64> = self.column(at).flatten().collect();
            Some(Summary { name: name.clone(), unit, estimate: Estimate::of(&values)? })
        };
        self.columns.iter().enumerate().filter_map(of).collect()
    }
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
    let mut samples = Samples::new(columns(network));
    reports.iter().for_each(|report| samples.push(network, report));
    samples.summaries()
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

#[cfg(test)]
mod tests {
    use lasthop_scenario::Scenario;

    use super::*;
    use crate::replicate::{Silent, Task, run_all};

    #[test]
    fn transfers_that_the_mean_leaves_out_are_counted() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let task = |overrides: &[(&str, &str)]| {
            let scenario = scenario.with_overrides(overrides).unwrap();
            Task::new(&scenario, scenario.scheme(), 1, 1).unwrap()
        };
        let measured = |task: &Task| {
            let report = run_all(std::slice::from_ref(task), 1, &Silent).remove(0).remove(0);
            let measures = measures(&task.network, &report);
            let of = |name: &str| measures.iter().find(|measure| measure.name == name).map(|measure| measure.value);
            (of("throughput"), of("starved"), of("incomplete"))
        };
        // The second copy starts when the run is as good as over.
        let two = task(&[("limit", "1 s"), ("flows.bulk.count", "2"), ("flows.bulk.spacing", "999999 us")]);
        let (throughput, starved, incomplete) = measured(&two);
        assert_eq!((starved, incomplete), (Some(1.0), Some(2.0)));
        assert_eq!(throughput, measured(&task(&[("limit", "1 s")])).0);
        // Of a single transfer nothing is left out; where nothing arrived, its throughput is no negative zero.
        let (throughput, starved, _) = measured(&task(&[("limit", "1 ms")]));
        assert_eq!((throughput.map(f64::to_bits), starved), (Some(0), None));
    }

    /// Marks are a measure where a queue can mark, and only there.
    #[test]
    fn marks_are_counted_where_there_can_be_any() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let queue = ("links.wireless.queue", r#"{ kind = "fq-codel", target = "1 ms", interval = "10 ms" }"#);
        let marks = |overrides: &[(&str, &str)]| {
            let scenario = scenario.with_overrides(overrides).unwrap();
            let task = Task::new(&scenario, scenario.scheme(), 1, 1).unwrap();
            let report = run_all(std::slice::from_ref(&task), 1, &Silent).remove(0).remove(0);
            measures(&task.network, &report).iter().find(|measure| measure.name == MARKS).map(|measure| measure.value)
        };
        assert_eq!(marks(&[]), None);
        assert_eq!(marks(&[queue]), None);
        assert_eq!(marks(&[("tcp.ecn", r#""on""#)]), None);
        assert!(marks(&[queue, ("tcp.ecn", r#""on""#)]).unwrap() > 0.0);
    }

    #[test]
    fn values_carry_samples_from_one_process_to_another() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        // Within a millisecond nothing is delivered: no goodput.
        for limit in ["1 ms", "2 s"] {
            let scenario = scenario.with_overrides(&[("limit", limit)]).unwrap();
            let task = Task::new(&scenario, scenario.scheme(), 1, 3).unwrap();
            let reports = run_all(std::slice::from_ref(&task), 1, &Silent).remove(0);
            let mut samples = Samples::new(columns(&task.network));
            reports.iter().for_each(|report| samples.push(&task.network, report));
            let again = Samples::from_values(samples.columns().to_vec(), samples.values().to_vec());
            assert_eq!((again.runs(), again.summaries()), (3, summarise(&task.network, &reports)));
            let goodput = samples.columns().iter().position(|(name, _)| name == "wired_goodput").unwrap();
            assert_eq!(samples.column(goodput).flatten().count(), if limit == "1 ms" { 0 } else { 3 });
        }
    }
}
