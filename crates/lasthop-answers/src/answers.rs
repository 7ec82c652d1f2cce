//! Computation of the page's answers, without sockets. Long work checks `stop` every few hundred microseconds.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::packet::FlowId;
use lasthop_proto::scheme::{Family, SCHEMES, Scheme};
use lasthop_proto::tcp::config::Clock;
use lasthop_report::diagram::{Diagram, busiest_flow};
use lasthop_report::figures::{Figure, SequencePlot, WindowPlot, transfer_series};
use lasthop_scenario::units::TimeSpan;
use lasthop_sim::network::{App, FlowSpec, Network};
use lasthop_sim::trace::Trace;
use lasthop_sim::{Recording, run_while};
use lasthop_study::measures::{ByName, throughput};
use lasthop_study::progressive::{self, record_unless, refine, rounds};
use lasthop_study::replicate::run_seed;
use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::Plan;
use crate::refusal::Refusal;

/// Number of runs per scheme before the first numbers are shown: enough for an interval, few enough to be immediate.
const FIRST_ROUND: u32 = 3;

/// Maximum number of records in a displayed run: packets at both ends of each link, and events.
const MOST_RECORDS: usize = 60_000;
/// Maximum number of simulated events in a run of which one of many flows is shown: a few seconds of work.
const MOST_EVENTS: u64 = 8_000_000;

/// Runs of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Few enough runs for an immediate answer.
    First,
    /// All runs, with intermediate answers; even the first of these has more runs than [`Extent::First`], unless that
    /// has all.
    All,
}

/// Compares the schemes of `plan` on `jobs` threads (0: one per core), and passes JSON objects to `sink`:
///
/// * first `{"state": ...}`, the [`State`](crate::plan::State) of the page;
/// * for [`Extent::First`], `{"without_loss": {"scheme", "throughput"}}`, the throughput of the path without losses in
///   Mbps;
/// * `{"scheme", "runs", "measures"}` for each scheme after each round of runs;
/// * last `{"done": true}`, or `{"done": false}` if `stop` ended it before all runs were done.
///
/// # Errors
///
/// Returns an error before the first object if the scenario is not a valid network under one of the schemes, and later
/// if a run contains too many frames.
pub fn compare(
    plan: &Plan,
    extent: Extent,
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    mut sink: impl FnMut(Value),
) -> Result<(), Refusal> {
    let mut tasks = plan.tasks()?;
    sink(json!({ "state": plan.state() }));
    let rounds = rounds(FIRST_ROUND, plan.scenario.runs());
    let rounds = match extent {
        Extent::First => &rounds[..1],
        Extent::All => &rounds[usize::from(rounds.len() > 1)..],
    };
    // Identical runs are computed once.
    let runs_of: Vec<usize> = plan.meanings(&tasks).iter().map(|meaning| meaning.runs_of).collect();
    let distinct: Vec<usize> = (0..tasks.len()).filter(|at| runs_of[*at] == *at).collect();
    let mut at = 0..;
    tasks.retain(|_| at.next().is_some_and(|at: usize| runs_of[at] == at));
    let done = refine(&tasks, rounds, jobs, stop, |so_far| {
        let measures = json!(ByName(&so_far.measures));
        let task = distinct[so_far.task];
        for (at, scheme) in plan.schemes.iter().enumerate() {
            if runs_of[at] == task {
                sink(json!({ "scheme": scheme.name, "runs": so_far.runs, "measures": measures }));
            }
        }
    })
    .map_err(|overflow| Refusal::overflow(&overflow))?;
    if extent == Extent::First
        && let Some((scheme, most)) = without_loss(plan, stop)
    {
        sink(json!({ "without_loss": { "scheme": scheme.name, "throughput": most } }));
    }
    sink(json!({ "done": done }));
    Ok(())
}

/// Returns the throughput of the path in Mbps without losses: that of one run of plain TCP, or of modern TCP if the
/// endpoints are modern. Queues may still overflow.
fn without_loss(plan: &Plan, stop: &(dyn Fn() -> bool + Sync)) -> Option<(&'static Scheme, f64)> {
    let plain = if plan.scenario.is_modern() {
        SCHEMES.iter().find(|scheme| scheme.family == Family::Modern).unwrap_or(&SCHEMES[0])
    } else {
        &SCHEMES[0]
    };
    let mut network = plan.scenario.network(plain).ok()?;
    for way in network.links.iter_mut().flat_map(|link| &mut link.directions) {
        way.errors = ErrorSpec::None;
    }
    let outcome = run_while(&network, run_seed(plan.scenario.seed(), 0), Recording::Off, || !stop())?;
    if outcome.report.overflow.is_some() {
        return None;
    }
    Some((plain, throughput(&network, &outcome.report)))
}

/// One run, packet by packet.
#[derive(Clone, Serialize, Debug)]
pub struct Shown {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Number of the run, from 0.
    pub run: u32,
    /// Timers of the sender, which distinguish endpoints of 1997 from modern ones; `None` if the flow has no TCP
    /// sender.
    pub timers: Option<String>,
    /// True if the record ends before the run.
    pub cut: bool,
    /// Number of flows in the run; the diagram has the one that is shown.
    pub flows: usize,
    /// Packets over time.
    pub sequence: Figure,
    /// Windows over time.
    pub window: Figure,
    /// Packets between nodes.
    pub diagram: Diagram,
}

/// Records a run of the displayed scheme, packet by packet. `None` if `stop` returned true before the end.
///
/// # Errors
///
/// Returns an error if the scenario is not a valid network under that scheme.
pub fn trace(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Option<Shown>, Refusal> {
    let network = plan.scenario.network(plan.shown).map_err(|error| Refusal::scenario(&error, Some("scheme")))?;
    let seed = run_seed(plan.scenario.seed(), plan.run);
    let Some((trace, flow, cut)) = record(&network, seed, stop) else { return Ok(None) };
    let name = plan.shown.name;
    let series = transfer_series(&network, &trace, flow, name);
    let sequence = Figure::Sequence(SequencePlot {
        title: format!("Packets of {name}, run {}", plan.run),
        y_label: "sequence number (KiB)".to_owned(),
        series: series.sequences,
    });
    let window = Figure::Window(WindowPlot {
        title: format!("Congestion window of {name}, run {}", plan.run),
        y_label: "congestion window (KiB)".to_owned(),
        series: series.windows,
    });
    let diagram = Diagram::of(&network, &trace, flow);
    let timers = network.flows.get(flow.0 as usize).and_then(timers);
    Ok(Some(Shown { scheme: name, run: plan.run, timers, cut, flows: network.flows.len(), sequence, window, diagram }))
}

/// Describes the timers of a flow's sender: `4.4BSD's timers (ticks of 500 ms), timeout of at least 1 s`.
fn timers(flow: &FlowSpec) -> Option<String> {
    if !matches!(flow.app, App::Transfer { .. } | App::Web) {
        return None;
    }
    let tcp = &flow.tcp[0];
    let clock = match tcp.common.clock {
        Clock::Ticks { slow, .. } => format!("4.4BSD's timers (ticks of {})", TimeSpan(slow)),
        Clock::Jiffies { .. } => "Linux's timers".to_owned(),
        Clock::Fine => "timers without ticks".to_owned(),
    };
    Some(format!("{clock}, timeout of at least {}", TimeSpan(tcp.common.rto_min)))
}

/// Records a run; returns the trace, the flow to show, and whether the record ends before the run. If there are so many
/// flows that a record of all would end with their first packets, only one is recorded.
fn record(network: &Network, seed: u64, stop: &dyn Fn() -> bool) -> Option<(Trace, FlowId, bool)> {
    let extent = progressive::Extent { records: MOST_RECORDS, events: MOST_EVENTS };
    let all = record_unless(network, seed, Recording::On, extent, stop)?;
    let flow = busiest_flow(&all.outcome.trace);
    if !all.cut || network.flows.len() == 1 {
        return Some((all.outcome.trace, flow, all.cut));
    }
    let alone = record_unless(network, seed, Recording::Flow(flow), extent, stop)?;
    Some((alone.outcome.trace, flow, alone.cut))
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
