//! What the page asks for, computed: no sockets here. Whatever takes time asks `stop` every few hundred microseconds.

use lasthop_report::diagram::{Diagram, busiest_flow};
use lasthop_report::figures::{Figure, SequencePlot, WindowPlot, transfer_series};
use lasthop_study::measures::summaries_json;
use lasthop_study::progressive::{record_unless, refine, rounds};
use lasthop_study::replicate::run_seed;
use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::Plan;
use crate::refusal::Refusal;

/// Runs of each scheme before the first numbers are shown: enough for an interval, few enough to be there at once.
const FIRST_ROUND: u32 = 3;

/// Most records of a run that is shown: packets at both ends of each link, and events.
const MOST_RECORDS: usize = 60_000;

/// Which runs a comparison makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// So few that the answer is there at once.
    First,
    /// All, with an answer every now and then; the least of them has more runs than [`Extent::First`], unless that has all.
    All,
}

/// Compares the schemes of `plan` on `jobs` threads (0: one per core), and hands a JSON object at a time to `sink`:
///
/// * first `{"state": ...}`, the [`State`](crate::plan::State) of the page;
/// * `{"scheme", "runs", "measures"}` for each scheme as soon as it has had a round of runs;
/// * at last `{"done": true}`, or `{"done": false}` when `stop` ended it before all runs were done.
///
/// # Errors
///
/// Before anything is handed out: when the scenario is no network under one of the schemes.
pub fn compare(
    plan: &Plan,
    extent: Extent,
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    mut sink: impl FnMut(Value),
) -> Result<(), Refusal> {
    let tasks = plan.tasks()?;
    sink(json!({ "state": plan.state() }));
    let rounds = rounds(FIRST_ROUND, plan.scenario.runs());
    let rounds = match extent {
        Extent::First => &rounds[..1],
        Extent::All => &rounds[usize::from(rounds.len() > 1)..],
    };
    let done = refine(&tasks, rounds, jobs, stop, |so_far| {
        let scheme = plan.schemes[so_far.task].name;
        sink(json!({ "scheme": scheme, "runs": so_far.runs, "measures": summaries_json(&so_far.measures) }));
    });
    sink(json!({ "done": done }));
    Ok(())
}

/// One run, packet by packet.
#[derive(Clone, Serialize, Debug)]
pub struct Shown {
    /// The scheme.
    pub scheme: &'static str,
    /// The run, counted from 0.
    pub run: u32,
    /// Whether the record ends before the run.
    pub cut: bool,
    /// Its packets over time.
    pub sequence: Figure,
    /// Its windows over time.
    pub window: Figure,
    /// Its packets from node to node.
    pub diagram: Diagram,
}

/// One run of the scheme shown, packet by packet. `None` when `stop` said so before the end.
///
/// # Errors
///
/// When the scenario is no network under that scheme.
pub fn trace(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Option<Shown>, Refusal> {
    let network = plan.scenario.network(plan.shown).map_err(|error| Refusal::scenario(&error, Some("scheme")))?;
    let seed = run_seed(plan.scenario.seed(), plan.run);
    let Some(recorded) = record_unless(&network, seed, MOST_RECORDS, stop) else { return Ok(None) };
    let trace = recorded.outcome.trace;
    let flow = busiest_flow(&trace);
    let name = plan.shown.name;
    let series = transfer_series(&network, &trace, flow, name);
    let sequence = Figure::Sequence(SequencePlot {
        title: format!("Packets of {name}, run {}", plan.run),
        y_label: "sequence number (KB)".to_owned(),
        series: series.sequences,
    });
    let window = Figure::Window(WindowPlot {
        title: format!("Congestion window of {name}, run {}", plan.run),
        y_label: "congestion window (KB)".to_owned(),
        series: series.windows,
    });
    let diagram = Diagram::of(&network, &trace, flow);
    Ok(Some(Shown { scheme: name, run: plan.run, cut: recorded.cut, sequence, window, diagram }))
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
