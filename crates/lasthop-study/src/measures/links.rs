//! The metrics of each direction of each link.

use lasthop_sim::measure::Report;
use lasthop_sim::network::{Network, NodeId, NodeKind};
use serde::Serialize;

use super::{Measure, Summary, by_name, delays, first_start, summarise_each};

/// One direction of a link, and its metrics over several runs. As JSON, `link`, `from`, `to`, `measures`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkRow {
    /// Name of the link.
    pub link: String,
    /// Name of the node that sends in this direction.
    pub from: String,
    /// Name of the node that receives.
    pub to: String,
    /// Indicates whether the sending node is a host, which then drops its own packets here.
    #[serde(skip)]
    pub from_host: bool,
    /// Metrics over the runs, in a fixed order.
    #[serde(serialize_with = "by_name")]
    pub measures: Vec<Summary>,
}

/// Returns the metrics of one direction (0: down, 1: up) of the link with this index.
pub fn link_measures(report: &Report, link: usize, direction: usize) -> Vec<Measure> {
    let Some(path) = report.links.get(link).map(|paths| &paths[direction]) else { return Vec::new() };
    let mut measures = Vec::new();
    let mut push = |name: &'static str, unit, value| measures.push(Measure { name: name.into(), unit, value });
    push("frames", "count", path.frames as f64);
    push("bytes", "bytes", path.bytes as f64);
    let seconds = report.ended.since(first_start(report)).as_secs_f64();
    if let Some(busy) = path.busy.filter(|_| seconds > 0.0) {
        push("utilisation", "percent", 100.0 * busy.as_secs_f64() / seconds);
    }
    if let Some(loss) = path.loss() {
        push("loss", "percent", 100.0 * loss);
    }
    for (cause, drops) in path.drops().by_cause() {
        push(cause, "count", drops as f64);
    }
    delays::push_stats("queue_delay", path.queueing, &mut measures);
    measures
}

/// Returns the name of a link's overhead among the metrics of a run.
pub(crate) fn overhead_name(link: &str) -> String {
    format!("overhead of {link}")
}

/// Returns names and units of the overheads of a network's links.
pub(crate) fn overhead_columns(network: &Network) -> Vec<(String, &'static str)> {
    network.links.iter().map(|link| (overhead_name(&link.name), "percent")).collect()
}

/// Returns a metric of this kind in percent: bytes of packets that the link carried, beyond the application bytes that
/// all flows delivered, in the direction that carried more; `None` if it is none, or if nothing was delivered.
pub(crate) fn overhead(network: &Network, report: &Report, name: &str) -> Option<f64> {
    let link = name.strip_prefix("overhead of ")?;
    let at = network.links.iter().position(|spec| spec.name == link)?;
    let carried = report.links.get(at)?.iter().map(|path| path.bytes).max()?;
    let delivered = report.flows.iter().map(|flow| flow.received).sum::<u64>();
    (delivered > 0).then(|| 100.0 * (carried as f64 / delivered as f64 - 1.0))
}

/// Returns both directions of each link of `network`, in its order, down before up.
pub fn links(network: &Network, reports: &[Report]) -> Vec<LinkRow> {
    let node = |id: NodeId| &network.nodes[id.0];
    let row = |(at, direction): (usize, usize)| {
        let spec = &network.links[at];
        let (from, to) = (node(spec.ends[direction]), node(spec.ends[1 - direction]));
        LinkRow {
            link: spec.name.clone(),
            from: from.name.clone(),
            to: to.name.clone(),
            from_host: from.kind == NodeKind::Host,
            measures: summarise_each(reports, |report| link_measures(report, at, direction)),
        }
    };
    (0..network.links.len()).flat_map(|at| [(at, 0), (at, 1)]).map(row).collect()
}
