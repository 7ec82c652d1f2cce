//! `lasthop lab exec`

use std::fmt::Write as _;
use std::io;
use std::io::Write as _;

use lasthop_lab::exec::{Executed, Guests, Opened, exec};
use lasthop_lab::guest::Ended;
use lasthop_lab::monitor::{Monitor, Way};
use lasthop_lab::namespace::require_root;
use lasthop_lab::{Captures, Experiment};
use lasthop_proto::time::Duration;
use lasthop_report::figures::{Figure, StepSeries, WindowPlot, render_svg_stack};
use lasthop_scenario::Scenario;
use lasthop_sim::measure::PathReport;
use lasthop_sim::network::Network;
use lasthop_study::replicate::run_seed;
use serde_json::{Map, Value, json};

use super::{micros, note_leftovers, write_capture};
use crate::cli::LabExecArgs;
use crate::error::Error;
use crate::output::write_file;
use crate::progress::{note, note_error};

/// Exit status of failures before the command was started, as in `timeout` and `env`.
const FAILED: u8 = 125;
/// Exit status of a command that cannot be run, and of one that was not found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

pub fn execute(args: &LabExecArgs) -> Result<(), Error> {
    let status = run(args).unwrap_or_else(|error| {
        note_error(&error.to_string());
        FAILED
    });
    if status == 0 { Ok(()) } else { Err(Error::Status(status)) }
}

/// Runs the command and returns its exit status.
fn run(args: &LabExecArgs) -> Result<u8, Error> {
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    let network = scenario.network(scheme)?;
    let captures = if args.pcapng.is_some() { Captures::On } else { Captures::Off };
    let experiment = Experiment { network: &network, scheme, lab: scenario.lab(), seed: run_seed(seed, 0), captures };
    let servers = args.serve.iter().map(|given| server(given)).collect::<Result<Vec<_>, _>>()?;
    let guests = Guests {
        command: &args.command,
        at: args.at.as_deref(),
        servers: &servers,
        outside: args.nat.as_deref().map(|host| Some(host).filter(|host| !host.is_empty())),
        name: args.name.as_deref(),
    };
    require_root()?;
    note_leftovers();
    let opened = |opened: &Opened<'_>| {
        if !args.quiet {
            let others = opened.places.iter().map(|place| format!("{} {}", place.node, place.address));
            let nodes = others.collect::<Vec<_>>().join(", ");
            note(&format!("lab: at {} (namespace {}); {nodes}", opened.at.node, opened.at.namespace));
        }
    };
    let executed = exec(&experiment, &guests, opened)?;
    if let (Some(path), Some(capture)) = (&args.pcapng, &executed.emulated.carried.capture) {
        write_capture(path, capture)?;
    }
    let outcome = Outcome { scenario: &scenario, scheme: scheme.name, network: &network, executed: &executed };
    outcome.write(args)?;
    Ok(match &executed.ended {
        Ok(ended) => ended.status(),
        Err(error) => {
            let what = args.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            note_error(&format!("cannot run {what}: {error}"));
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
        }
    })
}

/// Parses a host and a command line: `server:iperf3 -s -1`.
fn server(given: &str) -> Result<(String, String), Error> {
    let parts = given.split_once(':').map(|(host, line)| (host.trim(), line.trim()));
    let (host, line) = parts
        .filter(|(host, line)| !host.is_empty() && !line.is_empty())
        .ok_or_else(|| Error::Serve { given: given.to_owned() })?;
    Ok((host.to_owned(), line.to_owned()))
}

/// Results of the links.
struct Outcome<'a> {
    scenario: &'a Scenario,
    scheme: &'a str,
    network: &'a Network,
    executed: &'a Executed,
}

/// Direction of a link that carried packets.
struct Row<'a> {
    link: &'a str,
    direction: &'static str,
    report: &'a PathReport,
    way: &'a Way,
}

impl Outcome<'_> {
    fn write(&self, args: &LabExecArgs) -> Result<(), Error> {
        let monitor = self.executed.monitor();
        if let Some(path) = &args.series {
            let text = self.series(monitor);
            write_file(path, |out| out.write_all(text.as_bytes()).map_err(Error::file(path)))?;
        }
        if let Some(path) = &args.plot {
            let svg = render_svg_stack(&self.figures(monitor));
            write_file(path, |out| out.write_all(svg.as_bytes()).map_err(Error::file(path)))?;
        }
        if let Some(path) = &args.json {
            let text = serde_json::to_string_pretty(&self.json(monitor)).map_err(io::Error::from)?;
            write_file(path, |out| writeln!(out, "{text}").map_err(Error::file(path)))?;
        }
        if !args.quiet {
            self.tell(monitor);
        }
        if let Some(reason) = &self.executed.void {
            note(&format!("lab: void: {reason}; discard measurements taken in it"));
        }
        Ok(())
    }

    fn rows<'a>(&'a self, monitor: &'a Monitor) -> impl Iterator<Item = Row<'a>> {
        let links = self.network.links.iter().zip(&self.executed.emulated.carried.links).enumerate();
        let both = links.flat_map(move |(index, (spec, reports))| {
            ["down", "up"].into_iter().enumerate().map(move |(way, direction)| Row {
                link: &spec.name,
                direction,
                report: &reports[way],
                way: monitor.way(2 * index + way),
            })
        });
        both.filter(|row| row.report.frames > 0)
    }

    /// Prints a table on standard error with the totals of each direction.
    fn tell(&self, monitor: &Monitor) {
        let mut rows = vec![
            ["link", "", "Mbps", "delay ms", "95 %", "max", "queue", "dropped", "lost"].map(str::to_owned).to_vec(),
        ];
        for row in self.rows(monitor) {
            let total = row.way.total();
            let delay = |delay: Option<Duration>| delay.map_or("-".to_owned(), |delay| format!("{:.2}", millis(delay)));
            let dropped = row.report.queue_drops + row.report.policer_drops;
            rows.push(vec![
                row.link.to_owned(),
                row.direction.to_owned(),
                format!("{:.2}", row.way.throughput() / 1e6),
                delay(row.way.delays.percentile(50)),
                delay(row.way.delays.percentile(95)),
                delay((total.delivered.frames > 0).then_some(total.longest)),
                total.queue.to_string(),
                share(dropped, row.report.frames),
                share(row.report.channel_drops, row.report.frames),
            ]);
        }
        for line in align(&rows) {
            note(&line);
        }
    }

    fn json(&self, monitor: &Monitor) -> Value {
        let mut links = Map::new();
        for row in self.rows(monitor) {
            let (total, report) = (row.way.total(), row.report);
            let at = |percent| row.way.delays.percentile(percent).map(millis);
            let value = json!({
                "frames": report.frames,
                "bytes": report.bytes,
                "delivered_frames": total.delivered.frames,
                "delivered_bytes": total.delivered.bytes,
                "throughput_mbps": row.way.throughput() / 1e6,
                "delay_ms": { "mean": total.mean_delay().map(millis), "p50": at(50), "p95": at(95), "p99": at(99), "max": (total.delivered.frames > 0).then(|| millis(total.longest)) },
                "queueing_ms": total.mean_wait().map(millis),
                "queue_packets_max": total.queue,
                "queue_drops": report.queue_drops,
                "policer_drops": report.policer_drops,
                "channel_drops": report.channel_drops,
                "duplicates": report.duplicates,
                "marks": report.marks,
            });
            let link = links.entry(row.link.to_owned()).or_insert_with(|| json!({}));
            link[row.direction] = value;
        }
        let lateness = &self.executed.emulated.lateness;
        json!({
            "scenario": self.scenario.title(),
            "scheme": self.scheme,
            "at": self.executed.at,
            "status": self.executed.ended.as_ref().ok().map(|ended| ended.status()),
            "signal": match self.executed.ended { Ok(Ended::Signal(signal)) => Some(signal), _ => None },
            "links": links,
            "lateness_us": { "p50": micros(lateness.percentile(50)), "p99": micros(lateness.percentile(99)), "max": micros(lateness.max()) },
            "void": self.executed.void,
        })
    }

    /// Returns a CSV with one line per step and direction.
    fn series(&self, monitor: &Monitor) -> String {
        let step = monitor.step().as_secs_f64();
        let mut text = "time_s,link,direction,offered_mbps,delivered_mbps,delay_ms,delay_max_ms,queueing_ms,queue_packets,dropped,lost\n".to_owned();
        for row in self.rows(monitor) {
            for (number, each) in row.way.steps.iter().enumerate() {
                let mbps = |bytes: u64| bytes as f64 * 8e-6 / step;
                let or_none =
                    |delay: Option<Duration>| delay.map_or(String::new(), |delay| format!("{:.3}", millis(delay)));
                let longest = (each.delivered.frames > 0).then_some(each.longest);
                let _ = writeln!(
                    text,
                    "{:.3},{},{},{:.4},{:.4},{},{},{},{},{},{}",
                    number as f64 * step,
                    row.link,
                    row.direction,
                    mbps(each.offered.bytes),
                    mbps(each.delivered.bytes),
                    or_none(each.mean_delay()),
                    or_none(longest),
                    or_none(each.mean_wait()),
                    each.queue,
                    each.dropped,
                    each.lost
                );
            }
        }
        text
    }

    /// Returns figures of throughput, delay and queue over time.
    fn figures(&self, monitor: &Monitor) -> Vec<Figure> {
        let step = monitor.step().as_secs_f64();
        let figure = |title: &str, y_label: &str, value: &dyn Fn(&lasthop_lab::monitor::Step) -> Option<f64>| {
            let series = self.rows(monitor).map(|row| {
                let points = row.way.steps.iter().enumerate();
                let mut points: Vec<(f64, f64)> =
                    points.filter_map(|(number, each)| Some((number as f64 * step, value(each)?))).collect();
                if let Some((_, last)) = points.last().copied() {
                    points.push((row.way.steps.len() as f64 * step, last));
                }
                StepSeries { name: format!("{} {}", row.link, row.direction), points }
            });
            Figure::Window(WindowPlot {
                title: title.to_owned(),
                y_label: y_label.to_owned(),
                series: series.collect(),
            })
        };
        let title = format!("{} ({})", self.scenario.title(), self.scheme);
        vec![
            figure(&title, "throughput (Mbps)", &|each| Some(each.delivered.bytes as f64 * 8e-6 / step)),
            figure("", "mean delay (ms)", &|each| each.mean_delay().map(millis)),
            figure("", "queue (packets)", &|each| Some(each.queue as f64)),
        ]
    }
}

fn millis(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// Formats a share, such as `0.4 %`.
fn share(part: u64, all: u64) -> String {
    match (part, all) {
        (0, _) | (_, 0) => "0 %".to_owned(),
        _ => format!("{:.2} %", part as f64 * 100.0 / all as f64),
    }
}

/// Formats rows with aligned columns: the first two to the left, numbers to the right.
fn align(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(widths.iter().copied()).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}
