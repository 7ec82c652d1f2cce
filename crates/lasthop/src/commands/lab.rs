//! `lasthop lab`

mod exec;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lasthop_lab::capture::Capture;
use lasthop_lab::hold::{Held, Place};
use lasthop_lab::kernel_tcp::{Counters, joined};
use lasthop_lab::lateness::Lateness;
use lasthop_lab::plan::{HostTcp, Plan};
use lasthop_lab::scheduling::Scheduling;
use lasthop_lab::transfer::Transfer;
use lasthop_lab::{Captures, Experiment, LabError, Outcome, Watch, namespace, run};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::{PathReport, Report};
use lasthop_sim::network::{App, LinkSpec, Network};
use lasthop_study::measures::flows::Flows;
use lasthop_study::measures::{ByName, Summary, find, summarise};
use lasthop_study::replicate::{Progress, Task, run_all, run_seed};
use lasthop_study::stats::Estimate;
use serde_json::{Map, Value, json};

use crate::cli::{LabArgs, LabCommand, LabHoldArgs, LabRunArgs};
use crate::commands::compare::{usual_row, usual_table};
use crate::error::Error;
use crate::output::{count, print_json, title, write_file};
use crate::progress::{Runs, note};
use crate::terminal::{fold, width};

pub fn execute(args: &LabArgs) -> Result<(), Error> {
    match &args.command {
        Some(LabCommand::Clean) => clean(),
        Some(LabCommand::Hold(args)) => hold(args),
        Some(LabCommand::Exec(args)) => exec::execute(args),
        None => measure(&args.run),
    }
}

fn clean() -> Result<(), Error> {
    for removed in namespace::clean()? {
        note(&format!("removed {} (process {} has exited)", removed.name, removed.pid));
    }
    for used in namespace::all() {
        note(&format!("kept {}: process {} is still running", used.name, used.pid));
    }
    Ok(())
}

fn hold(args: &LabHoldArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    args.scenario.check_effects(&scenario, &[scheme])?;
    let network = scenario.network(scheme)?;
    let captures = if args.pcapng.is_some() { Captures::On } else { Captures::Off };
    let experiment = Experiment { network: &network, scheme, lab: scenario.lab(), seed: run_seed(seed, 0), captures };
    let stop = stop_on_signals()?;
    namespace::require_root()?;
    note_leftovers();
    let opened = |places: &[Place]| {
        let mut out = stdout().lock();
        if args.json {
            writeln!(out, "{}", places_json(places))?;
        } else {
            writeln!(
                out,
                "{}: open until Ctrl-C; run programs with `ip netns exec NAMESPACE COMMAND`\n",
                scenario.title()
            )?;
            for Place { node, namespace, address, devices } in places {
                let devices: Vec<_> = devices.iter().map(|(link, device)| format!("{device} ({link})")).collect();
                writeln!(out, "{node:12} {namespace:28} {address:12} {}", devices.join(", "))?;
            }
        }
        out.flush()
    };
    let Held { emulated, void } = lasthop_lab::hold::hold(&experiment, &stop, opened)?;
    if let (Some(path), Some(capture)) = (&args.pcapng, &emulated.carried.capture) {
        write_capture(path, capture)?;
    }
    let late = [50, 99].map(|percent| micros(emulated.lateness.percentile(percent)));
    let latest = micros(emulated.lateness.max());
    let mut out = stdout().lock();
    if args.json {
        let link = |(spec, sent): (&LinkSpec, &[PathReport; 2])| {
            let sent = sent.each_ref().map(|way| {
                json!({ "frames": way.frames, "bytes": way.bytes, "queue_drops": way.queue_drops, "policer_drops": way.policer_drops, "channel_drops": way.channel_drops })
            });
            (spec.name.clone(), json!(sent))
        };
        let links: Map<_, _> = network.links.iter().zip(&emulated.carried.links).map(link).collect();
        let lateness = json!({ "p50": late[0], "p99": late[1], "max": latest });
        writeln!(out, "{}", json!({ "links": links, "lateness_us": lateness, "void": void }))?;
    } else {
        let frames = emulated.carried.frames;
        writeln!(
            out,
            "{frames} frames; scheduling delay {:.0} us (median), {:.0} us (99 %), {latest:.0} us (max)",
            late[0], late[1]
        )?;
    }
    if let Some(reason) = void.filter(|_| !args.json) {
        note(&format!("void: {reason}"));
    }
    Ok(())
}

fn places_json(places: &[Place]) -> Value {
    let place = |Place { node, namespace, address, devices }: &Place| {
        let devices: Map<_, _> = devices.iter().map(|(link, device)| (link.clone(), json!(device))).collect();
        (node.clone(), json!({ "namespace": namespace, "address": address, "devices": devices }))
    };
    json!({ "nodes": places.iter().map(place).collect::<Map<_, _>>() })
}

/// Notes namespaces that killed labs left behind. Only root can remove them, so call it after the check for root.
fn note_leftovers() {
    if let leftovers @ 1.. = namespace::leftovers().len() {
        let what = count(leftovers, "network namespace");
        note(&format!("killed labs left {what} behind; remove them with `lasthop lab clean`"));
    }
}

fn micros(span: lasthop_proto::time::Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// Scheme with the lab's measurements.
struct Row {
    task: Task,
    scheme: &'static Scheme,
    reports: Vec<Report>,
    /// TCP implementation of each host and relay.
    ends: Vec<(String, HostTcp)>,
    /// Counters of the hosts' kernels, by run.
    kernels: Vec<Vec<(String, Counters)>>,
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
    given.check_effects(&scenario, &schemes)?;
    let tasks = schemes.iter().map(|scheme| Task::new(&scenario, scheme, seed, runs));
    let tasks: Vec<Task> = tasks.collect::<Result<_, _>>()?;
    // Plans that cannot be run are reported before an hour of work.
    for (scheme, task) in schemes.iter().zip(&tasks) {
        Plan::new(&task.network, scheme, scenario.lab())?;
    }
    let total = tasks.len() * runs as usize;
    let progress = Runs::unstoppable("lab", total as u64).without_time_left();
    let stop = stop_on_signals()?;
    namespace::require_root()?;
    note_leftovers();
    let clock = TimeLeft::new(&tasks, runs);
    if let Some(seconds) = clock.expected {
        let transfers = count(total, "run");
        note(&format!("lab: {transfers} in real time, about {} according to the simulator", rough(seconds)));
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut done = 0;
    let mut stopped = false;
    for (scheme, task) in schemes.into_iter().zip(tasks) {
        let mut row = Row {
            task,
            scheme,
            reports: vec![],
            ends: vec![],
            kernels: vec![],
            lateness: vec![],
            scheduling: Scheduling::Normal,
            voided: 0,
        };
        for number in 0..runs {
            let watcher = Watcher {
                stop: &stop,
                progress: &progress,
                clock: &clock,
                done,
                scheme,
                run: number + 1,
                runs,
                tenths: Cell::new(0),
            };
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
        // As many runs as the lab has, with the same errors.
        let task = |row: &Row| Task { runs: 0..row.reports.len() as u32, ..row.task.clone() }.metered();
        let tasks: Vec<Task> = rows.iter().map(task).collect();
        run_all(&tasks, 0, &AtomicBool::new(false))
    });
    let simulated = simulated.transpose()?;
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
        note("this kernel does not count retransmission timeouts (tcpi_total_rto requires Linux 6.7): reporting 0");
    }
    if let (Some(folder), Some(capture)) = (&args.pcapng, &outcome.capture) {
        write_capture(&folder.join(format!("{}-{number}.pcapng", file_name(scheme))), capture)?;
    }
    if let (Some(folder), Some(recording)) = (&args.pcapng, &outcome.recording) {
        let path = folder.join(format!("{}-{number}-gateway.pcapng", file_name(scheme)));
        write_file(&path, |out| out.write_all(recording).map_err(Error::file(&path)))?;
    }
    Ok(outcome)
}

fn write_capture(path: &Path, capture: &Capture) -> Result<(), Error> {
    write_file(path, |out| capture.write(out).map_err(Error::file(path)))?;
    if capture.left_out() > 0 {
        note(&format!("{}: capture full, {} packets omitted", path.display(), capture.left_out()));
    }
    Ok(())
}

/// Replaces the slash, as in "Reno/SR".
fn file_name(scheme: &Scheme) -> String {
    scheme.name.replace('/', "-")
}

/// Registers SIGINT, SIGTERM and SIGHUP, after which the lab stops in an orderly way.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Error::Signals)?;
    }
    Ok(stop)
}

/// Estimate of the remaining time, from the durations of simulated transfers and the measured slowdown.
struct TimeLeft {
    begun: Instant,
    /// Seconds of each run in order; empty if the simulation itself would take long.
    each: Vec<f64>,
    /// Sum of these durations, if known.
    expected: Option<f64>,
}

impl TimeLeft {
    /// Maximum size in bytes of transfers that are simulated to estimate their duration.
    const LARGEST: u64 = 1 << 30;

    fn new(tasks: &[Task], runs: u32) -> Self {
        // The time limit bounds the volume of a transfer.
        let within = |task: &Task| {
            let rate = task.network.links.iter().flat_map(|link| &link.directions).map(|way| way.rate.0).max();
            (rate.unwrap_or(0) as f64 / 8.0 * task.network.limit.as_secs_f64()) as u64
        };
        let bytes = |task: &Task| {
            let all = task.network.flows.iter().map(|flow| Transfer::of(flow).bytes);
            all.fold(0, u64::saturating_add).min(within(task))
        };
        let mut each = Vec::new();
        if tasks.iter().all(|task| bytes(task) <= Self::LARGEST) {
            let first: Vec<Task> = tasks.iter().map(|task| Task { runs: 0..1, ..task.clone() }).collect();
            // The duration of a run that cannot be simulated is unknown.
            for reports in run_all(&first, 0, &AtomicBool::new(false)).unwrap_or_default() {
                // Up to the limit if the transfer does not finish before.
                let seconds = reports.first().map_or(0.0, |report| report.ended.as_secs_f64());
                each.extend((0..runs).map(|_| seconds));
            }
        }
        let expected = Some(each.iter().sum()).filter(|seconds| *seconds > 0.0);
        Self { begun: Instant::now(), each, expected }
    }

    /// Returns the remaining seconds after `done` runs and this share of the next.
    fn left(&self, done: usize, share: f64) -> Option<f64> {
        let over = self.each.iter().take(done).sum::<f64>() + share * self.each.get(done)?;
        let taken = self.begun.elapsed().as_secs_f64();
        // At first the elapsed time says little.
        let slower = if taken > 5.0 && over > 0.0 { taken / over } else { 1.0 };
        Some((self.expected? - over) * slower)
    }
}

/// Formats a duration roughly: "40 s", "7 min", "2.5 h".
fn rough(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{:.0} s", seconds.max(1.0)),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

struct Watcher<'r> {
    stop: &'r AtomicBool,
    progress: &'r Runs,
    clock: &'r TimeLeft,
    /// Number of runs of all schemes before this one.
    done: usize,
    scheme: &'r Scheme,
    run: u32,
    runs: u32,
    /// Progress that was last shown, in tenths of a percent.
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
            let left = self.clock.left(self.done, tenths as f64 / 1000.0);
            let left = left.map_or(String::new(), |seconds| format!(", about {} left", rough(seconds)));
            self.progress.doing(&format!("{} run {run} of {runs}: {} %{left}", scheme.name, tenths / 10));
        }
    }

    fn void(&self, reason: &str) {
        note(&format!("{} run {} of {} is void: {reason}", self.scheme.name, self.run, self.runs));
    }
}

impl Row {
    fn take(&mut self, outcome: Outcome) {
        self.reports.push(outcome.report);
        self.ends = outcome.ends;
        self.kernels.push(outcome.kernels);
        self.lateness.push(outcome.lateness);
        self.scheduling = outcome.scheduling;
        self.voided += outcome.voided;
    }

    fn summaries(&self) -> Vec<Summary> {
        summarise(&self.task.network, &self.reports)
    }

    /// Returns the worst scheduling delays of all runs in microseconds: median, 99th percentile, maximum.
    fn lateness(&self) -> [f64; 3] {
        let worst = |of: &dyn Fn(&Lateness) -> f64| self.lateness.iter().map(of).fold(0.0, f64::max);
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
    let from = fold(&format!("lab: {} per scheme from seed {seed}{interval}", count(runs, "run")), width());
    writeln!(out, "{}\n{from}\n", title(scenario))?;
    let mut table = usual_table();
    for (index, measured) in rows.iter().enumerate() {
        table.push(usual_row(measured.scheme.name, &measured.summaries()));
        if let Some(reports) = simulated.as_ref().and_then(|simulated| simulated.get(index)) {
            let summaries = summarise(&measured.task.network, reports);
            table.push(usual_row("  simulated", &summaries));
            table.push_note(format!("  lab / simulated: {}", ratio(&measured.summaries(), &summaries)));
        }
    }
    writeln!(out, "{}", table.render(width()))?;
    for row in rows {
        let [median, p99, max] = row.lateness();
        let (name, voided) = (row.scheme.name, row.voided);
        let tcp = (!row.ends.is_empty()).then(|| format!("TCP {}", whose(&row.ends)));
        let over_quic = row.task.network.flows.iter().any(|flow| matches!(flow.app, App::Quic(_)));
        let ends: Vec<String> = tcp.into_iter().chain(over_quic.then(|| "QUIC by quinn".to_owned())).collect();
        writeln!(out, "{}", fold(&format!("{name}: {}", ends.join("; ")), width()))?;
        if row.ends.iter().any(|(_, tcp)| *tcp == HostTcp::Mptcp) {
            let joined = row.kernels.iter().map(|run| run.iter().map(|(_, kernel)| joined(kernel)).sum::<u64>());
            let joined: Vec<_> = joined.map(|subflows| subflows.to_string()).collect();
            writeln!(out, "{}", fold(&format!("{name}: additional subflows by run: {}", joined.join(", ")), width()))?;
        }
        let late = format!(
            "{name}: scheduling delay {median:.0} us (median), {p99:.0} us (99 %), {max:.0} us (max); {} priority; {voided} void",
            row.scheduling.name()
        );
        writeln!(out, "{}", fold(&late, width()))?;
    }
    Ok(())
}

/// Describes `own at source, kernel at mobile`; for many nodes, the number of each kind.
fn whose(ends: &[(String, HostTcp)]) -> String {
    const MOST: usize = 6;
    if ends.len() <= MOST {
        let each = ends.iter().map(|(name, tcp)| format!("{} at {name}", tcp.name()));
        return each.collect::<Vec<_>>().join(", ");
    }
    let of = |wanted| ends.iter().filter(|(_, tcp)| *tcp == wanted).count();
    let kinds = [HostTcp::Own, HostTcp::Kernel, HostTcp::Mptcp].map(|tcp| (tcp, of(tcp)));
    let kinds = kinds.into_iter().filter(|(_, number)| *number > 0);
    kinds.map(|(tcp, number)| format!("{} at {}", tcp.name(), count(number, "node"))).collect::<Vec<_>>().join(", ")
}

/// Formats the ratio of throughputs with its interval.
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
            "endpoints": row.ends.iter().map(|(name, tcp)| (name.clone(), json!(tcp.name()))).collect::<Map<_, _>>(),
            "measures": ByName(&row.summaries()),
            "flows": Flows { network: &row.task.network, reports: &row.reports },
            "lateness_us": { "p50": median, "p99": p99, "max": max },
            "real_time": row.scheduling == Scheduling::RealTime,
            "priority": row.scheduling.name(),
            "void": row.voided,
            "kernels": row.kernels.iter().map(|run| json!(run.iter().cloned().collect::<BTreeMap<_, _>>())).collect::<Vec<_>>(),
        });
        if let Some(reports) = simulated.as_ref().and_then(|simulated| simulated.get(index)) {
            value["simulated"] = json!(ByName(&summarise(&row.task.network, reports)));
            value["simulated_flows"] = json!(Flows { network: &row.task.network, reports });
        }
        value
    };
    let rows: Vec<Value> = rows.iter().enumerate().map(row).collect();
    print_json(&json!({ "scenario": scenario.title(), "seed": seed, "runs": runs, "schemes": rows }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_how_slow_it_went() {
        let begun = Instant::now() - std::time::Duration::from_secs(60);
        let clock = TimeLeft { begun, each: vec![10.0, 10.0, 50.0], expected: Some(70.0) };
        // 15 of 70 seconds' work took 60: the other 55 will take 220.
        let left = clock.left(1, 0.5).unwrap();
        assert!((219.0..222.0).contains(&left), "{left}");
        let unknown = TimeLeft { begun, each: vec![], expected: None };
        assert_eq!(unknown.left(0, 0.5), None);
        assert_eq!([0.2, 40.0, 420.0, 9000.0].map(rough), ["1 s", "40 s", "7 min", "2.5 h"]);
    }
}
