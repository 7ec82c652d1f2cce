//! `lasthop compare`

use std::io::{Write, stdout};
use std::path::Path;

use lasthop_proto::scheme::Scheme;
use lasthop_report::rows::{Kind, Rows, Value as Cell, write_rows_csv};
use lasthop_scenario::Scenario;
use lasthop_sim::element::Role;
use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;
use lasthop_study::beyond_repair::beyond_repair;
use lasthop_study::meaning::{Meaning, meanings};
use lasthop_study::measures::flows::Flows;
use lasthop_study::measures::links::{LinkRow, links};
use lasthop_study::measures::queues::{self, Measured};
use lasthop_study::measures::{ByName, Summary, find, summarise};
use lasthop_study::replicate::{Cut, Task, run_in_rounds};
use serde::Serialize;

use crate::cli::CompareArgs;
use crate::error::Error;
use crate::output::{Form, count, print_json, quic_remark, title};
use crate::progress::{Runs, note};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

/// Columns of the lab's table: metric, heading.
const COLUMNS: [(&str, &str); 5] = [
    ("throughput", "Mbps"),
    ("timeouts", "timeouts"),
    ("recoveries", "recoveries"),
    ("source_retransmissions", "source rtx"),
    ("local_retransmissions", "local rtx"),
];

/// Columns of the table after throughput and ratio.
const USUAL: [(&str, &str); 6] = [
    ("rtt_p50", "rtt p50 ms"),
    ("rtt_p95", "rtt p95 ms"),
    ("queue_drops", "queue drops"),
    ("source_retransmissions", "source rtx"),
    ("local_retransmissions", "local rtx"),
    ("timeouts", "timeouts"),
];

/// Heading of the throughput relative to that of the first scheme.
const RATIO: &str = "ratio";

/// Timeouts of a relay, in addition to those of the source; runs that did not finish, and runs with starved flows.
const RELAY: (&str, &str) = ("relay_timeouts", "relay timeouts");
const UNFINISHED: (&str, &str) = ("incomplete", "unfinished");
const STARVED: (&str, &str) = ("starved", "starved");
/// Packets that a queue marked.
const MARKS: (&str, &str) = ("marks", "marks");
/// Acknowledgments that a queue filtered or an element generated; spurious timeouts under varying delay.
const FILTERED: (&str, &str) = ("acks_filtered", "acks filtered");
const RECONSTRUCTED: (&str, &str) = ("acks_reconstructed", "acks rebuilt");
const SPURIOUS: (&str, &str) = ("spurious_timeouts", "spurious timeouts");

/// Delays of datagrams.
const DATAGRAMS: [(&str, &str); 2] = [("one_way_delay_p50", "one-way p50 ms"), ("one_way_delay_p95", "one-way p95 ms")];

/// Metrics of calls: lost and late packets, delay, and perceived quality.
const CALLS: [(&str, &str); 5] = [
    ("call_lost", "lost"),
    ("call_late", "late"),
    ("call_delay_p99", "p99 ms"),
    ("call_frames_missed", "frames missed"),
    ("call_mos", "MOS"),
];

/// Metrics of handoffs: silence of receivers, loss, and reordering.
const HANDOFFS: [(&str, &str); 4] =
    [("handoffs", "handoffs"), ("handoff_gap", "gap ms"), ("handoff_lost", "handoff lost"), ("reordered", "reordered")];

/// Scheme with its measurements.
struct Line {
    meaning: Meaning,
    /// Index of its task.
    task: usize,
    /// Number of finished runs.
    runs: usize,
    summaries: Vec<Summary>,
    /// Both directions of each link.
    links: Vec<LinkRow>,
    /// True if there is a relay, whose timeouts count.
    relay: bool,
    /// Flows that the repairing device does not help, since it has no copies of their data.
    beyond_repair: Vec<String>,
    /// Stopped run that the numbers rest on if no run finished.
    cut: Option<Cut>,
}

pub fn execute(args: &CompareArgs) -> Result<(), Error> {
    let form = args.out.as_deref().map(Form::of).transpose()?;
    if let Some(out) = args.out.as_ref().filter(|out| !args.force && out.exists()) {
        return Err(Error::Exists { path: out.clone() });
    }
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let schemes: Vec<&'static Scheme> =
        if args.scheme.is_empty() { scenario.usual_schemes() } else { args.scheme.clone() };
    args.scenario.check_effects(&scenario, &schemes)?;
    let all: Vec<Task> = schemes
        .iter()
        .map(|scheme| Ok(Task::new(&scenario, scheme, seed, runs)?.metered()))
        .collect::<Result<_, Error>>()?;
    let meanings = meanings(&scenario, &schemes, &all.iter().map(|task| &task.network).collect::<Vec<_>>());
    // Identical runs are run once.
    let (places, tasks): (Vec<usize>, Vec<Task>) =
        all.into_iter().enumerate().filter(|(at, _)| meanings[*at].runs_of == *at).unzip();
    let total = tasks.len() * runs as usize;
    let progress = Runs::new("compare", total as u64).within(scenario.limit());
    let mut reports = run_in_rounds(&tasks, args.runs.jobs, &progress)?;
    progress.finish();
    let done = reports.iter().map(Vec::len).sum::<usize>();
    // Schemes can be compared only over runs with the same errors, so all get the same number of runs.
    let least = reports.iter().map(Vec::len).min().unwrap_or(0);
    if least > 0 {
        reports.iter_mut().for_each(|reports| reports.truncate(least));
    }
    let lines: Vec<Line> = meanings
        .into_iter()
        .map(|meaning| {
            let at = places.iter().position(|place| *place == meaning.runs_of).unwrap_or_default();
            let (network, reports) = (&tasks[at].network, &reports[at]);
            let cut = if reports.is_empty() { progress.cut(at) } else { None };
            let measured = measured(cut.as_ref(), reports);
            let (summaries, links) = (summarise(network, measured), links(network, measured));
            let beyond_repair = beyond_repair(network).into_iter().map(str::to_owned).collect();
            Line {
                meaning,
                task: at,
                runs: reports.len(),
                summaries,
                links,
                relay: has_relay(network),
                beyond_repair,
                cut,
            }
        })
        .collect();
    let most = lines.iter().map(|line| line.runs).max().unwrap_or(0);
    if args.csv || args.out.is_some() {
        write_rows(args.out.as_deref().zip(form), &lines)?;
    } else if args.json.json {
        let answer = |line| LineAnswer::of(line, &lines[0], &tasks, &reports);
        print_json(&Answer {
            scenario: scenario.title(),
            seed,
            runs: most,
            schemes: lines.iter().map(answer).collect(),
            remarks: queue_remarks(&scenario, &lines, &tasks[0].network),
        })?;
    } else {
        let mut out = stdout().lock();
        let interval = if most == 1 { "" } else { "; means, throughput with 95 % interval" };
        let many = if least == most { count(most, "run") } else { format!("{least} to {}", count(most, "run")) };
        let from = fold(&format!("{many} per scheme from seed {seed}{interval}"), width());
        writeln!(out, "{}\n{from}\n", title(&scenario))?;
        out.write_all(table(&lines).render(width()).as_bytes())?;
        let remarks = remarks(&scenario, &lines, &tasks[0].network);
        if !remarks.is_empty() {
            writeln!(out)?;
        }
        for remark in remarks {
            writeln!(out, "{}", Style::Remark.out(&fold(&remark, width())))?;
        }
    }
    if done < total { Err(Error::Stopped { done, total, what: "runs" }) } else { Ok(()) }
}

/// Writes one row per scheme, with the columns of a sweep's CSV, to the file or as CSV to standard output.
fn write_rows(to: Option<(&Path, Form)>, lines: &[Line]) -> Result<(), Error> {
    let mut names: Vec<&str> = Vec::new();
    for Summary { name, .. } in lines.iter().flat_map(|line| &line.summaries) {
        if !names.contains(&name.as_ref()) {
            names.push(name);
        }
    }
    let mut columns: Vec<(String, Kind)> = vec![("scheme".to_owned(), Kind::Text)];
    let has_same = lines.iter().any(|line| line.meaning.same_as.is_some());
    columns.extend(has_same.then(|| ("same_as".to_owned(), Kind::Text)));
    columns.push(("runs".to_owned(), Kind::Count));
    for name in &names {
        columns.extend([((*name).to_owned(), Kind::Float), (format!("{name}_ci95"), Kind::Float)]);
    }
    let mut rows = Rows::new(columns);
    for Line { meaning, runs, summaries, .. } in lines {
        let mut row = vec![Cell::Text(meaning.scheme.name.to_owned())];
        let same_as = meaning.same_as.map_or(Cell::Missing, |scheme| Cell::Text(scheme.name.to_owned()));
        row.extend(has_same.then_some(same_as));
        row.push(Cell::Count(*runs as u64));
        for name in &names {
            let estimate = find(summaries, name);
            row.push(estimate.map_or(Cell::Missing, |estimate| Cell::Float(estimate.mean)));
            row.push(estimate.and_then(|estimate| estimate.ci95).map_or(Cell::Missing, Cell::Float));
        }
        rows.push(row)?;
    }
    match to {
        None => Ok(write_rows_csv(&rows, stdout().lock())?),
        Some((path, form)) => {
            form.write(&rows, path)?;
            note(&format!("wrote {} to {}", count(lines.len(), "scheme"), path.display()));
            Ok(())
        }
    }
}

/// Returns the throughput of a line relative to the first one; `None` if that is zero.
fn ratio(line: &Line, first: &Line) -> Option<f64> {
    let [own, other] = [line, first].map(|line| mean(&line.summaries, "throughput").unwrap_or(0.0));
    (other > 0.0).then(|| own / other)
}

/// Returns the runs that the numbers rest on: those that finished, or else the stopped one.
fn measured<'r>(cut: Option<&'r Cut>, reports: &'r [Report]) -> &'r [Report] {
    cut.map_or(reports, |cut| std::slice::from_ref(&cut.report))
}

/// Output of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    scenario: &'a str,
    seed: u64,
    runs: usize,
    schemes: Vec<LineAnswer<'a>>,
    remarks: Vec<String>,
}

/// Output of `--json` for one scheme.
#[derive(Serialize)]
struct LineAnswer<'a> {
    scheme: &'a str,
    ratio: Option<f64>,
    measures: ByName<'a>,
    flows: Flows<'a>,
    links: &'a [LinkRow],
    runs: usize,
    same_as: Option<&'a str>,
    remark: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_at: Option<f64>,
}

impl<'a> LineAnswer<'a> {
    fn of(line: &'a Line, first: &Line, tasks: &'a [Task], reports: &'a [Vec<Report>]) -> Self {
        let reports = measured(line.cut.as_ref(), &reports[line.task]);
        Self {
            scheme: line.meaning.scheme.name,
            ratio: ratio(line, first),
            measures: ByName(&line.summaries),
            flows: Flows { network: &tasks[line.task].network, reports },
            links: &line.links,
            runs: line.runs,
            same_as: line.meaning.same_as.map(|scheme| scheme.name),
            remark: line.meaning.remark(),
            cut_at: line.cut.as_ref().map(|cut| cut.at.as_secs_f64()),
        }
    }
}

fn has_relay(network: &Network) -> bool {
    network.elements.iter().any(|element| element.element.role() == Role::Relay)
}

fn table(lines: &[Line]) -> Table {
    let any = |name: &str| lines.iter().any(|line| mean(&line.summaries, name).is_some_and(|mean| mean > 0.0));
    let has = |name: &str| lines.iter().any(|line| mean(&line.summaries, name).is_some());
    let mut columns = vec![COLUMNS[0], (RATIO, RATIO)];
    let is_rtt = |name: &str| name.starts_with("rtt_");
    columns.extend(USUAL.into_iter().filter(|(name, _)| has(name) || !is_rtt(name)));
    if lines.iter().any(|line| line.relay) {
        columns.push(RELAY);
    }
    columns.extend(DATAGRAMS.into_iter().filter(|(name, _)| has(name)));
    columns.extend(CALLS.into_iter().filter(|(name, _)| has(name)));
    columns.extend(HANDOFFS.into_iter().filter(|(name, _)| has(name)));
    columns.extend(
        [SPURIOUS, FILTERED, RECONSTRUCTED, MARKS, UNFINISHED, STARVED].into_iter().filter(|(name, _)| any(name)),
    );
    let differ = lines.iter().any(|line| line.runs != lines[0].runs);
    let mut head = head(&columns);
    head.extend(differ.then(|| Column { heading: "runs".to_owned(), width: 8 }));
    let mut table = Table::new(head);
    for line in lines {
        let name = line.meaning.scheme.name;
        if let Some(remark) = line.meaning.remark().filter(|_| line.meaning.same_as.is_some()) {
            table.push_words(name.to_owned(), remark);
            continue;
        }
        let mut cells = vec![name.to_owned(), throughput_cell(&line.summaries)];
        cells.extend(columns.iter().skip(1).map(|(name, _)| match *name {
            RATIO => ratio(line, &lines[0]).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            name if name == RELAY.0 && !line.relay => "-".to_owned(),
            "call_mos" => mean(&line.summaries, "call_mos").map_or("-".to_owned(), |mean| format!("{mean:.2}")),
            name => count_cell(&line.summaries, name),
        }));
        let runs = if line.cut.is_some() { "stopped".to_owned() } else { line.runs.to_string() };
        cells.extend(differ.then_some(runs));
        table.push(cells);
    }
    table
}

/// Returns remarks on the numbers.
fn remarks(scenario: &Scenario, lines: &[Line], network: &Network) -> Vec<String> {
    let mut remarks = Vec::new();
    let own = || lines.iter().filter(|line| line.meaning.same_as.is_none());
    for line in own() {
        remarks.extend(line.meaning.remark().map(|remark| format!("{}: {remark}", line.meaning.scheme.name)));
        remarks.extend(line.cut.as_ref().map(|cut| {
            let (name, at) = (line.meaning.scheme.name, cut.at.as_secs_f64());
            format!("{name}: the first {at:.3} s of run {}, which was stopped", cut.run)
        }));
    }
    let transfers = network.flows.iter().filter(|flow| !flow.app.is_endless()).count();
    let share = |name: &str| {
        let of = |line: &Line| {
            let short = (mean(&line.summaries, name)? * line.runs as f64).round();
            let all = transfers * line.runs;
            (short > 0.0).then(|| format!("{} {short} of {all}", line.meaning.scheme.name))
        };
        let all: Vec<String> = own().filter_map(of).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let blind = own().map(|line| line.meaning.scheme).filter(|scheme| scheme.reads_tcp());
    remarks.extend(quic_remark(network, &blind.map(|scheme| scheme.name).collect::<Vec<_>>()));
    remarks.extend(beyond_repair_remark(lines));
    remarks.extend(queue_remarks(scenario, lines, network));
    let limit = scenario.limit().as_secs_f64();
    remarks.extend(share(UNFINISHED.0).map(|shares| {
        format!("unfinished: transfers still incomplete at the end of their run (limit {limit} s): {shares}")
    }));
    remarks.extend(share(STARVED.0).map(|shares| {
        format!("starved: transfers that delivered no data: {shares}; Mbps is the mean over the others")
    }));
    remarks
}

/// Names the schemes that repair from copies, and the flows for which they have none.
fn beyond_repair_remark(lines: &[Line]) -> Option<String> {
    let lines: Vec<&Line> = lines.iter().filter(|line| !line.beyond_repair.is_empty()).collect();
    let flows = lines.first()?.beyond_repair.join(", ");
    let schemes = lines.iter().map(|line| line.meaning.scheme.name).collect::<Vec<_>>().join(", ");
    Some(format!("{flows}: data crosses the hop before it reaches the device, so {schemes} does not repair it"))
}

/// Returns remarks on the decisions of the links' queues.
fn queue_remarks(scenario: &Scenario, lines: &[Line], network: &Network) -> Vec<String> {
    let own = lines.iter().filter(|line| line.meaning.same_as.is_none());
    let measured = own.map(|line| Measured { scheme: line.meaning.scheme.name, links: &line.links });
    queues::remarks(scenario, network, &measured.collect::<Vec<_>>())
}

/// Creates a table with the columns that every scheme has.
pub fn usual_table() -> Table {
    Table::new(head(&COLUMNS))
}

/// Creates a row of [`usual_table`] for `name`.
pub fn usual_row(name: &str, summaries: &[Summary]) -> Vec<String> {
    let counts = COLUMNS.iter().skip(1).map(|(name, _)| count_cell(summaries, name));
    [name.to_owned(), throughput_cell(summaries)].into_iter().chain(counts).collect()
}

/// Returns the table's columns: the scheme, then `columns`.
fn head(columns: &[(&str, &str)]) -> Vec<Column> {
    let heading = |(at, (_, heading)): (usize, &(&str, &str))| Column {
        heading: (*heading).to_owned(),
        width: if at == 0 { 17 } else { 11 },
    };
    let scheme = Column { heading: "scheme".to_owned(), width: 20 };
    std::iter::once(scheme).chain(columns.iter().enumerate().map(heading)).collect()
}

fn mean(summaries: &[Summary], name: &str) -> Option<f64> {
    find(summaries, name).map(|estimate| estimate.mean)
}

fn count_cell(summaries: &[Summary], name: &str) -> String {
    mean(summaries, name).map_or("-".to_owned(), |mean| format!("{mean:.1}"))
}

/// Formats mean and interval; the mean is aligned even without an interval.
fn throughput_cell(summaries: &[Summary]) -> String {
    let Some(throughput) = find(summaries, COLUMNS[0].0) else { return format!("-{:8}", "") };
    let ci95 = throughput.ci95.map_or(String::new(), |ci95| format!("± {ci95:.3}"));
    format!("{:>9.3} {ci95:<7}", throughput.mean)
}
