//! The metrics of each flow.

use lasthop_proto::tcp::info::{Fields, word};
use lasthop_sim::measure::{FlowReport, Report};
use lasthop_sim::network::{App, FlowSpec, Network};
use serde::{Serialize, Serializer};

use super::{Measure, Summary, by_name, carried, delays, summarise_each};
use lasthop_proto::time::{Duration, Instant};

/// A flow, and its metrics over several runs. As JSON, `flow`, `kind`, `from`, `to`, `measures`, and for TCP
/// `tcp_info`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowRow {
    /// Name of the flow.
    pub flow: String,
    /// Kind of the flow's application: `transfer`, `quic`, `datagrams`, `call`, `web` or `idle`.
    pub kind: &'static str,
    /// Name of the host that opens the flow.
    pub from: String,
    /// Name of the host that accepts the flow.
    pub to: String,
    /// Metrics over the runs, in a fixed order.
    #[serde(serialize_with = "by_name")]
    pub measures: Vec<Summary>,
    /// State of the initiator's TCP connection at the end of the first run; `None` if the flow does not use TCP.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields_by_name")]
    pub tcp_info: Option<Box<Fields>>,
}

/// Returns a stable name of a flow's kind of application.
const fn kind(app: &App) -> &'static str {
    match app {
        App::Transfer { .. } => "transfer",
        App::Quic(_) => "quic",
        App::OnOff(_) => "datagrams",
        App::Call(_) => "call",
        App::Web => "web",
        App::Idle => "idle",
    }
}

/// Returns the metrics of the flow with this index.
pub fn flow_measures(network: &Network, report: &Report, index: usize) -> Vec<Measure> {
    let (Some(spec), Some(flow)) = (network.flows.get(index), report.flows.get(index)) else { return Vec::new() };
    let mut measures = Vec::new();
    let mut push = |name: &'static str, unit, value| measures.push(Measure { name: name.into(), unit, value });
    if let Some((throughput, seconds)) = pace(network, report, spec, flow) {
        push("throughput", "Mbps", throughput);
        push("duration", "s", seconds);
    }
    push("received", "bytes", flow.received as f64);
    if let Some(sent) = flow.sent {
        push("sent", "bytes", sent as f64);
        if sent > 0 {
            push("goodput", "percent", 100.0 * flow.received as f64 / sent as f64);
        }
    }
    push("incomplete", "count", if flow.complete { 0.0 } else { 1.0 });
    if !matches!(spec.app, App::OnOff(_) | App::Call(_)) {
        push("timeouts", "count", flow.sender.timeouts as f64);
        push("recoveries", "count", flow.sender.recoveries as f64);
        push("source_retransmissions", "count", flow.sender.source_retransmissions as f64);
    }
    push("local_retransmissions", "count", flow.sender.local_retransmissions as f64);
    push("segments_lost", "count", flow.losses as f64);
    for (cause, drops) in flow.drops.iter().flat_map(|drops| drops.by_cause()) {
        push(cause, "count", drops as f64);
    }
    if let Some(of_flow) = &flow.delays {
        delays::push(of_flow, &mut measures);
    }
    measures
}

/// Returns the name of the steady throughput of a flow among the metrics of a run: that from a number of seconds on to
/// the limit. No metric of a whole run has spaces.
pub(crate) fn steady_name(flow: &str, from: u64) -> String {
    format!("throughput of {flow} from {from} s")
}

/// Returns the flow and the seconds of such a name.
fn steady_flow(name: &str) -> Option<(&str, u64)> {
    let (flow, from) = name.strip_prefix("throughput of ")?.strip_suffix(" s")?.rsplit_once(" from ")?;
    Some((flow, from.parse().ok()?))
}

/// Returns names and units of the steady throughputs of a network's transfers.
pub(crate) fn steady_columns(network: &Network, from: u64) -> Vec<(String, &'static str)> {
    let flows = network.flows.iter().filter(|spec| spec.app.is_transfer());
    flows.map(|spec| (steady_name(&spec.name, from), "Mbps")).collect()
}

/// Returns the time from which the run is steady according to the names of its metrics, if any asks for one.
pub(crate) fn settling<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<Instant> {
    names.find_map(|name| Some(Instant::ZERO + Duration::from_secs(steady_flow(name)?.1)))
}

/// Returns a metric of this kind in Mbps; `None` if it is none, or if the transfer or the run ended earlier.
pub(crate) fn steady_throughput(network: &Network, report: &Report, name: &str) -> Option<f64> {
    let (flow, from) = steady_flow(name)?;
    let at = network.flows.iter().position(|spec| spec.name == flow)?;
    let flow = report.flows.get(at).filter(|flow| !flow.complete && !flow.aborted)?;
    let bytes = flow.received.checked_sub(flow.settled?)?;
    let seconds = network.limit.since(Instant::ZERO + Duration::from_secs(from)).as_secs_f64();
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds / 1e6)
}

/// Returns the name of a transfer's duration among the metrics of a run.
pub(crate) fn duration_name(flow: &str) -> String {
    format!("duration of {flow}")
}

/// Returns names and units of the durations of a network's transfers.
pub(crate) fn duration_columns(network: &Network) -> Vec<(String, &'static str)> {
    let flows = network.flows.iter().filter(|spec| spec.app.is_transfer());
    flows.map(|spec| (duration_name(&spec.name), "s")).collect()
}

/// Returns a metric of this kind in seconds, up to the limit for a transfer that it ended; `None` if it is none, or if
/// the transfer did not start.
pub(crate) fn duration(network: &Network, report: &Report, name: &str) -> Option<f64> {
    let flow = name.strip_prefix("duration of ")?;
    let at = network.flows.iter().position(|spec| spec.name == flow)?;
    Some(pace(network, report, network.flows.get(at)?, report.flows.get(at)?)?.1)
}

/// Returns throughput in Mbps, and its time base in seconds; `None` for flows without a beginning and an end, such as
/// one direction of a web session's connections, which are opened repeatedly.
fn pace(network: &Network, report: &Report, spec: &FlowSpec, flow: &FlowReport) -> Option<(f64, f64)> {
    match spec.app {
        App::Web | App::Idle => None,
        App::Transfer { .. } | App::Quic(_) => {
            let ends = if flow.complete || flow.aborted { flow.end } else { network.limit.max(flow.end) };
            Some((carried(network, flow) / 1e6, ends.since(flow.start).as_secs_f64()))
        }
        App::OnOff(_) | App::Call(_) => {
            let seconds = report.ended.since(flow.start).as_secs_f64();
            let throughput = if seconds > 0.0 { flow.received as f64 * 8.0 / seconds / 1e6 } else { 0.0 };
            Some((throughput, seconds))
        }
    }
}

/// Returns each flow of `network`, in its order.
pub fn flows(network: &Network, reports: &[Report]) -> Vec<FlowRow> {
    let rows = Flows { network, reports };
    rows.iter().collect()
}

/// Rows of all flows, each of which exists only while it is used: there may be a hundred thousand. As JSON, a list.
#[derive(Clone, Copy, Debug)]
pub struct Flows<'r> {
    /// Network of the runs.
    pub network: &'r Network,
    /// Runs.
    pub reports: &'r [Report],
}

impl<'r> Flows<'r> {
    /// Returns each flow, in the order of the network.
    pub fn iter(self) -> impl Iterator<Item = FlowRow> + 'r {
        let Self { network, reports } = self;
        network.flows.iter().enumerate().map(move |(at, spec)| FlowRow {
            flow: spec.name.clone(),
            kind: kind(&spec.app),
            from: network.nodes[spec.from.0].name.clone(),
            to: network.nodes[spec.to.0].name.clone(),
            measures: summarise_each(reports, |report| flow_measures(network, report, at)),
            tcp_info: reports.first().and_then(|report| report.flows.get(at)?.tcp_info.clone()),
        })
    }
}

impl Serialize for Flows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Serializes the fields of Linux's `struct tcp_info` by name: `state` and `ca_state` as words, the others as numbers,
/// unknown ones as null.
fn fields_by_name<S: Serializer>(info: &Option<Box<Fields>>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Field {
        Word(&'static str),
        Number(Option<u64>),
    }
    let field = |(name, value): (&'static str, Option<u64>)| {
        let word = value.and_then(|value| word(name, value));
        (name, word.map_or(Field::Number(value), Field::Word))
    };
    serializer.collect_map(info.iter().flat_map(|info| info.iter()).map(field))
}
