//! `lasthop lab`

use std::cell::Cell;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lasthop_live::lab::capture::Capture;
use lasthop_live::lab::emulator::Scheduling;
use lasthop_live::lab::lateness::Lateness;
use lasthop_live::lab::plan::Plan;
use lasthop_live::lab::{Captures, Experiment, LabError, Outcome, Watch, namespace, run};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;
use lasthop_study::measures::{Summary, find, summarise};
use lasthop_study::replicate::{Progress, Task, run_all, run_seed};
use lasthop_study::stats::Estimate;
use serde_json::{Value, json};

use crate::cli::{LabArgs, LabCommand, LabRunArgs};
use crate::commands::compare::{heading, row};
use crate::error::Error;
use crate::output::{count, print_json, summaries_json};
use crate::progress::{Runs, note};

pub fn execute(args: &LabArgs) -> Result<(), Error> {
    match &args.command {
        Some(LabCommand::Clean) => clean(),
        None => measure(&args.run),
    }
}

fn clean() -> Result<(), Error> {
    for removed in namespace::clean()? {
        note(&format!("removed {} (process {} is gone)", removed.name, removed.pid));
    }
    for used in namespace::all() {
        note(&format!("kept {}: process {} is running", used.name, used.pid));
    }
    Ok(())
}

/// A scheme, and what the lab measured of it.
struct Row {
    task: Task,
    scheme: &'static Scheme,
    reports: Vec<Report>,
    lateness: Vec<Lateness>,
    scheduling: Scheduling,
    voided: u32,
}

fn measure(args: &LabRunArgs) -> Result<(), Error> {
    let given = args.scenario.as_ref().ok_or(Error::NoLabScenario)?;
    let scenario = given.open()?;
    let seed = given.seed.unwrap_or(scenario.seed());
    let runs = args.runs.unwrap_or(scenario.runs());
    let schemes = if args.scheme.is_empty() { vec![scenario.scheme()] } else { args.scheme.clone() };
    let tasks = schemes.iter().map(|scheme| Task::new(&scenario, scheme, seed, runs));
    let tasks: Vec<Task> = tasks.collect::<Result<_, _>>()?;
    // What cannot be run is said before an hour has gone.
    for (scheme, task) in schemes.iter().zip(&tasks) {
        Plan::new(&task.network, scheme, scenario.lab())?;
    }
    let total = tasks.len() * runs as usize;
    let progress = Runs::new("lab", total as u64);
    let stop = stop_on_signals()?;
    namespace::require_root()?;
    if let leftovers @ 1.. = namespace::leftovers().len() {
        let what = count(leftovers, "network namespace");
        note(&format!("there are {what} of labs that were killed; `lasthop lab clean` removes them"));
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut done = 0;
    let mut stopped = false;
    for (scheme, task) in schemes.into_iter().zip(tasks) {
        let mut row =
            Row { task, scheme, reports: vec![], lateness: vec![], scheduling: Scheduling::Normal, voided: 0 };
        for number in 0..runs {
            let watcher =
                Watcher { stop: &stop, progress: &progress, scheme, run: number + 1, runs, tenths: Cell::new(0) };
            match one(&scenario, &row.task.network, scheme, number, seed, args, &watcher) {
                Ok(outcome) => row.take(outcome),
                Err(Error::Lab(LabError::Stopped)) => {
                    stopped = true;
                    break;
                }
                Err(error) => {
                    progress.finish();
                    return Err(error);
                }
            }
            done += 1;
            progress.run_done();
        }
        if !row.reports.is_empty() {
            rows.push(row);
        }
        if stopped {
            break;
        }
    }
    progress.finish();
    let simulated = args.against_sim.then(|| {
        // As many runs as the lab has: both with the same errors.
        let task = |row: &Row| Task { runs: 0..row.reports.len() as u32, ..row.task.clone() };
        let tasks: Vec<Task> = rows.iter().map(task).collect();
        run_all(&tasks, 0, &AtomicBool::new(false))
    });
    if args.json.json {
        print_rows_json(&scenario, seed, runs, &rows, simulated)?
    } else {
        print_rows(&scenario, seed, &rows, simulated)?
    }
    if done < total { Err(Error::Stopped { done, total, what: "runs" }) } else { Ok(()) }
}

fn one(
    scenario: &Scenario,
    network: &Network,
    scheme: &'static Scheme,
    number: u32,
    seed: u64,
    args: &LabRunArgs,
    watcher: &Watcher<'_>,
) -> Result<Outcome, Error> {
    let captures = if args.pcapng.is_some() { Captures::On } else { Captures::Off };
    let experiment = Experiment { network, scheme, lab: scenario.lab(), seed: run_seed(seed, number), captures };
    let outcome = run(&experiment, watcher)?;
    if !outcome.counts_timeouts {
        note("this kernel does not count retransmission timeouts (tcpi_total_rto, Linux 6.7): they read 0");
    }
    if let (Some(folder), Some(capture)) = (&args.pcapng, &outcome.capture) {
        write_capture(folder, scheme, number, capture)?;
    }
    Ok(outcome)
}

fn write_capture(folder: &Path, scheme: &Scheme, number: u32, capture: &Capture) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    // "Reno/SR" is no file name.
    let path = folder.join(format!("{}-{number}.pcapng", scheme.name.replace('/', "-")));
    let file = File::create(&path).map_err(Error::file(&path))?;
    capture.write(file).map_err(Error::file(&path))?;
    if capture.left_out() > 0 {
        note(&format!("{}: {} packets found no room in it", path.display(), capture.left_out()));
    }
    Ok(())
}

/// Set by Ctrl-C, SIGTERM and SIGHUP: the lab then ends in order.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Error::Signals)?;
    }
    Ok(stop)
}

struct Watcher<'r> {
    stop: &'r AtomicBool,
    progress: &'r Runs,
    scheme: &'r Scheme,
    run: u32,
    runs: u32,
    /// Tenths of a percent that were last told.
    tenths: Cell<u64>,
}

impl Watch for Watcher<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, received: u64, total: u64) {
        let tenths = received.saturating_mul(1000) / total.max(1);
        if self.tenths.replace(tenths) != tenths {
            let Self { scheme, run, runs, .. } = self;
            self.progress.doing(&format!("{} run {run} of {runs}: {} %", scheme.name, tenths / 10));
        }
    }

    fn void(&self, reason: &str) {
        note(&format!("{} run {} of {} is void: {reason}", self.scheme.name, self.run, self.runs));
    }
}

impl Row {
    fn take(&mut self, outcome: Outcome) {
        self.reports.push(outcome.report);
        self.lateness.push(outcome.lateness);
        self.scheduling = outcome.scheduling;
        self.voided += outcome.voided;
    }

    fn summaries(&self) -> Vec<Summary> {
        summarise(&self.task.network, &self.reports)
    }

    /// The worst of all runs: median, 99th percentile, latest; in microseconds.
    fn lateness(&self) -> [f64; 3] {
        let worst = |of: &dyn Fn(&Lateness) -> f64| self.lateness.iter().map(of).fold(0.0, f64::max);
        let micros = |span: lasthop_proto::time::Duration| span.as_nanos() as f64 / 1e3;
        [
            worst(&|lateness| micros(lateness.percentile(50))),
            worst(&|lateness| micros(lateness.percentile(99))),
            worst(&|lateness| micros(lateness.max())),
        ]
    }
}

fn print_rows(scenario: &Scenario, seed: u64, rows: &[Row], simulated: Option<Vec<Vec<Report>>>) -> Result<(), Error> {
    let mut out = stdout().lock();
    let runs = rows.iter().map(|row| row.reports.len()).max().unwrap_or_default();
    let interval = if runs == 1 { "" } else { "; means, throughput with 95 % interval" };
    writeln!(out, "{}\nlab: {} a scheme from seed {seed}{interval}\n", scenario.title(), count(runs, "run"))?;
    writeln!(out, "{}", heading())?;
    for (index, measured) in rows.iter().enumerate() {
        writeln!(out, "{}", row(measured.scheme.name, &measured.summaries()))?;
        if let Some(reports) = simulated.as_ref().and_then(|simulated| simulated.get(index)) {
            let summaries = summarise(&measured.task.network, reports);
            writeln!(out, "{}", row("  simulated", &summaries))?;
            writeln!(out, "  lab / simulated: {}", ratio(&measured.summaries(), &summaries))?;
        }
    }
    writeln!(out)?;
    for row in rows {
        let [median, p99, max] = row.lateness();
        let scheduling = if row.scheduling == Scheduling::RealTime { "real-time" } else { "normal" };
        let (name, voided) = (row.scheme.name, row.voided);
        writeln!(
            out,
            "{name}: links late by {median:.0} us (median), {p99:.0} us (99 %), {max:.0} us (most); {scheduling} priority; {voided} void"
        )?;
    }
    Ok(())
}

/// The ratio of throughputs with its interval.
fn ratio(lab: &[Summary], simulated: &[Summary]) -> String {
    let throughput = |summaries| find(summaries, "throughput").copied();
    let ratio = |(lab, simulated): (Estimate, Estimate)| {
        let ratio = lab.over(&simulated);
        let interval = lab.ci95.map_or(String::new(), |_| format!(" ± {:.3}", ratio.ci95.unwrap_or_default()));
        format!("{:.3}{interval}", ratio.mean)
    };
    throughput(lab).zip(throughput(simulated)).map_or_else(|| "no run".to_owned(), ratio)
}

fn print_rows_json(
    scenario: &Scenario,
    seed: u64,
    runs: u32,
    rows: &[Row],
    simulated: Option<Vec<Vec<Report>>>,
) -> Result<(), Error> {
    let row = |(index, row): (usize, &Row)| {
        let [median, p99, max] = row.lateness();
        let mut value = json!({
            "scheme": row.scheme.name,
            "measures": summaries_json(&row.summaries()),
            "lateness_us": { "p50": median, "p99": p99, "max": max },
            "real_time": row.scheduling == Scheduling::RealTime,
            "void": row.voided,
        });
        if let Some(reports) = simulated.as_ref().and_then(|simulated| simulated.get(index)) {
            value["simulated"] = summaries_json(&summarise(&row.task.network, reports));
        }
        value
    };
    let rows: Vec<Value> = rows.iter().enumerate().map(row).collect();
    print_json(&json!({ "scenario": scenario.title(), "seed": seed, "runs": runs, "schemes": rows }))
}
