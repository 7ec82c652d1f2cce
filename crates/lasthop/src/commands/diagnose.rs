//! `lasthop diagnose`

mod between;

use std::fs::File;
use std::io::{BufWriter, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use lasthop_diagnose::annotate::{AnnotateError, annotate_capture, reason};
use lasthop_diagnose::loss::{Repair, Side};
use lasthop_diagnose::loss_trace::loss_trace_of;
use lasthop_diagnose::words::lines;
use lasthop_diagnose::{At, Direction, FlowReport, LossReport, Options, Report, Vantage};
use lasthop_scenario::one_line;
use lasthop_study::diagnosis::{continued, diagnosed_files, diagnosed_stream, no_flow, opened, to_json};
use lasthop_study::link::{Access, LinkError};
use serde_json::json;

use crate::cli::{DiagnoseArgs, Place};
use crate::error::Error;
use crate::output::{count, print_json};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

/// Maximum number of flows in the summary.
const MOST_FLOWS: usize = 10;

pub fn execute(args: &DiagnoseArgs) -> Result<(), Error> {
    if args.between {
        return between::execute(args);
    }
    check_outputs(args)?;
    let options =
        Options { at: args.at.map_or(At::Found, |place| At::Given(vantage(place))), interface: args.interface.clone() };
    let mut values = Vec::new();
    for (number, files) in captures(args)?.iter().enumerate() {
        let path = files[0];
        let report = match path {
            path if path == Path::new(STANDARD_INPUT) => diagnosed_stream(path, stdin().lock(), &options)?,
            _ => diagnosed_files(&Access::DISK, files, &options)?,
        };
        if report.packets == 0 {
            return Err(no_flow(path, &report).into());
        }
        if let (Some(number), false) = (args.flow, report.flows.is_empty())
            && number as usize > report.flows.len()
        {
            return Err(Error::FlowNumber { given: number, flows: report.flows.len() });
        }
        if let Some(out) = &args.annotate {
            write_annotated(files, &report, out)?;
        }
        if let Some(out) = &args.loss_trace {
            let (flow, direction) = chosen(path, &report, args.flow)?;
            let capture = opened(&Access::DISK, files)?;
            let mut file = BufWriter::new(File::create(out).map_err(Error::file(out))?);
            loss_trace_of(flow, direction, capture, &mut file).map_err(failed(path, out))?;
        }
        let names: Vec<String> = files.iter().map(|path| one_line(&path.display().to_string())).collect();
        if args.json.json {
            values.push(to_json(&names, &report, args.flow.map(|number| number as usize)));
        } else {
            if number > 0 {
                writeln!(stdout().lock())?;
            }
            print(&title(&names), &report, args.flow)?;
        }
    }
    if args.json.json { print_json(&json!({ "captures": values })) } else { Ok(()) }
}

/// Name of standard input as a capture.
const STANDARD_INPUT: &str = "-";

/// Returns the given captures, each with its files in order of time.
fn captures(args: &DiagnoseArgs) -> Result<Vec<Vec<&Path>>, Error> {
    let paths: Vec<&Path> = args.captures.iter().map(PathBuf::as_path).collect();
    if paths.contains(&Path::new(STANDARD_INPUT)) {
        let flag = [("annotate", &args.annotate), ("loss-trace", &args.loss_trace)];
        let twice = flag.into_iter().find(|(_, out)| out.is_some()).map(|(flag, _)| flag);
        return match twice {
            Some(flag) => Err(Error::ReadTwice { flag }),
            None if paths.len() > 1 => Err(Error::OneInput { given: paths.len() }),
            None => Ok(vec![paths]),
        };
    }
    if args.separately {
        return Ok(paths.into_iter().map(|path| vec![path]).collect());
    }
    let groups = continued(&Access::DISK, &paths)?;
    let groups: Vec<Vec<&Path>> =
        groups.into_iter().map(|group| group.into_iter().map(|index| paths[index]).collect()).collect();
    let outputs = [("annotate", &args.annotate), ("loss-trace", &args.loss_trace)];
    match outputs.into_iter().find(|(_, out)| out.is_some()) {
        Some((flag, _)) if groups.len() > 1 => Err(Error::OneCapture { flag, given: groups.len() }),
        _ => Ok(groups),
    }
}

/// Returns the title of a capture of these files.
fn title(names: &[String]) -> String {
    match names {
        [name] => name.clone(),
        [first, .., last] => format!("{first} to {last} ({} files, one capture)", names.len()),
        [] => String::new(),
    }
}

const fn vantage(place: Place) -> Vantage {
    match place {
        Place::Sender => Vantage::Sender,
        Place::Receiver => Vantage::Receiver,
        Place::Gateway => Vantage::Gateway,
    }
}

/// Checks the output files before minutes of work.
fn check_outputs(args: &DiagnoseArgs) -> Result<(), Error> {
    let outputs = [("annotate", &args.annotate), ("loss-trace", &args.loss_trace)];
    for (flag, path) in outputs.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?))) {
        if args.captures.len() > 1 && args.separately {
            return Err(Error::OneCapture { flag, given: args.captures.len() });
        }
        let same = |capture: &Path| Some(std::fs::canonicalize(capture).ok()? == std::fs::canonicalize(path).ok()?);
        if args.captures.iter().any(|capture| same(capture) == Some(true)) {
            return Err(Error::Itself { flag, path: path.clone() });
        }
        // A device such as /dev/stdout accepts any output.
        if !args.force && std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
            return Err(Error::There { flag, path: path.clone() });
        }
    }
    Ok(())
}

fn failed(capture: &Path, out: &Path) -> impl FnOnce(AnnotateError) -> Error {
    let (capture, out) = (capture.to_owned(), out.to_owned());
    move |error| match error {
        AnnotateError::Capture(error) => LinkError::Capture { path: capture, error }.into(),
        AnnotateError::Output(error) => Error::File { path: out, error },
    }
}

fn write_annotated(files: &[&Path], report: &Report, out: &Path) -> Result<(), Error> {
    let capture = opened(&Access::DISK, files)?;
    let mut file = BufWriter::new(File::create(out).map_err(Error::file(out))?);
    annotate_capture(report, capture, &mut file).map_err(failed(files[0], out))
}

/// Returns the direction of flow `number`, or else of the flow with most data.
fn chosen<'r>(path: &Path, report: &'r Report, number: Option<u32>) -> Result<(&'r FlowReport, &'r Direction), Error> {
    let number = number.map(|number| number as usize);
    Ok(report.with_most_data(number).ok_or_else(|| no_flow(path, report))?)
}

fn print(name: &str, report: &Report, flow: Option<u32>) -> Result<(), Error> {
    let width = width();
    let say = |text: &str| writeln!(stdout().lock(), "{}", fold(text, width));
    let flows: Vec<&FlowReport> = report.flows.iter().filter(|flow| !flow.directions.is_empty()).collect();
    let mut title = format!("{name}: {} in {:.1} s", count(report.packets as usize, "packet"), report.seconds);
    title += &format!(", {} with data", count(flows.len(), "TCP flow"));
    say(&Style::Heading.out(&title))?;
    for clause in report.missing() {
        say(&Style::Remark.out(&clause))?;
    }
    let mut shown = flows.clone();
    match flow {
        Some(number) => shown.retain(|flow| flow.number == number as usize),
        None => {
            shown.sort_by_key(|flow| std::cmp::Reverse(flow.directions[0].bytes));
            shown.truncate(MOST_FLOWS);
        }
    }
    for flow_report in &shown {
        say("")?;
        for direction in directions(flow_report, flow) {
            lines(flow_report, direction).iter().try_for_each(|line| say(line))?;
        }
    }
    if flow.is_none() && shown.len() < flows.len() {
        say(&format!(
            "\n{} with less data omitted; --flow N shows one, --json all",
            count(flows.len() - shown.len(), "flow")
        ))?;
    }
    for quic in &report.quic {
        let [one, other] = quic.ends;
        let trip = match quic.spin_rtt_ms {
            Some([least, mean]) => {
                format!("round trip by spin bit: minimum {least:.1} ms, mean {mean:.1} ms")
            }
            None => "encrypted and without spin bit, so its round trip is unknown".to_owned(),
        };
        say(&format!("\nQUIC {one} and {other}: {}, {trip}", count(quic.packets as usize, "packet")))?;
    }
    let detailed = shown.iter().filter(|_| flow.is_some()).flat_map(|flow| &flow.directions);
    for direction in detailed.filter(|direction| !direction.losses.is_empty()) {
        say(&format!("\n{}", losses(direction).render(width).trim_end()))?;
    }
    Ok(())
}

/// Returns the directions to report; those that carry requests only are omitted.
fn directions(flow: &FlowReport, number: Option<u32>) -> impl Iterator<Item = &Direction> {
    let most = flow.directions.first().map_or(0, |direction| direction.bytes);
    flow.directions.iter().filter(move |direction| number.is_some() || direction.bytes * 20 >= most)
}

fn losses(direction: &Direction) -> Table {
    let heading = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let mut table = Table::new(vec![
        heading("packet", 8),
        heading("time, s", 10),
        heading("cause", 12),
        heading("conf.", 5),
        heading("queue, ms", 14),
        heading("on the link", 11),
        heading("repaired by", 20),
    ]);
    for loss in &direction.losses {
        table.push(row(loss));
    }
    table
}

fn row(loss: &LossReport) -> Vec<String> {
    let repair = match loss.repair {
        Repair::Fast => "",
        Repair::Probe => ", probe",
        Repair::Timeout => ", timeout",
    };
    let number = match loss.side {
        Side::Beyond => format!("{}", loss.packet),
        Side::Before => format!("< {}", loss.packet),
    };
    let verdict = &loss.verdict;
    let (cause, sure) = match loss.needless {
        Some(why) => (format!("none: {}", reason(why)), String::new()),
        None => (verdict.cause.name().to_owned(), format!("{:.0} %", verdict.confidence * 100.0)),
    };
    vec![
        number,
        format!("{:.4}", loss.time_s),
        cause,
        sure,
        verdict.queue_ms.map_or(String::new(), |queue| format!("{queue:.1} of {:.1}", verdict.full_ms)),
        verdict.air.map_or(String::new(), |air| format!("{:.0} %", (air * 100.0).clamp(0.0, 100.0))),
        format!("{}{repair}", loss.repaired_by),
    ]
}
