//! `lasthop trace`

use std::fs::File;
use std::io::{BufWriter, Read, StdoutLock, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lasthop_proto::time::Instant as SimTime;
use lasthop_report::ReportError;
use lasthop_report::pcapng::{APPLICATION, CaptureWriter, Points};
use lasthop_report::trace_csv::{COLUMNS, TraceCsv, info_line, line};
use lasthop_report::trace_info::InfoRecord;
use lasthop_report::trace_text::TraceText;
use lasthop_sim::trace::{Record, Trace};
use lasthop_sim::{Recording, Simulation};
use lasthop_study::replicate::{Progress, run_seed};
use lasthop_study::series::{Piece, Sampler};
use serde::Serializer;

use crate::cli::TraceArgs;
use crate::error::Error;
use crate::output::count;
use crate::progress::{Runs, note};

/// Number of events after which records are written: few enough that a reader sees lines at once, and that they need
/// little memory.
const EVENTS: u32 = 256;

/// Maximum time for which lines are buffered.
const HELD_BACK: Duration = Duration::from_millis(50);

pub fn execute(args: &TraceArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    args.scenario.check_effects(&scenario, &[scheme])?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let network = scenario.network(scheme)?;
    if let Some(key) = scenario.fixes(scheme) {
        note(&format!("{}: modified: {key} is set", scheme.name));
    }
    let mut simulation = Simulation::new(&network, run_seed(seed, args.run), Recording::On);
    let head = simulation.trace_head();
    let point = args.point.as_ref().map(|given| find_point(&head, given)).transpose()?;
    let mut capture = args.pcapng.as_ref().map(|path| Capture::begin(args, point, &head, path)).transpose()?;
    let silent = capture.is_some() && !args.csv && !args.json;
    let mut lines = (!silent).then(|| Lines::begin(args, &head)).transpose()?;
    // Lines on standard output show the progress themselves.
    let progress = match &args.pcapng {
        Some(path) if silent => Runs::new(&format!("writing {}", path.display()), 1).within(scenario.limit()),
        _ => Runs::quiet(),
    };
    let mut window = Window { args, point, left: args.limit.unwrap_or(u64::MAX) };
    let mut records = Vec::new();
    let mut goes_on = true;
    let mut sampler = args.tcp_info.map(|interval| Sampler::new(interval.0)).transpose()?;
    while goes_on && !progress.stopped() && window.is_open(simulation.now()) {
        let piece = match &mut sampler {
            Some(sampler) => sampler.advance(&mut simulation),
            None => Piece { due: false, goes_on: simulation.advance(EVENTS) },
        };
        goes_on = piece.goes_on;
        simulation.take_records(&mut records);
        for record in &records {
            let shown = window.shows(record);
            if let Some(lines) = &mut lines {
                lines.take(&head, record, shown)?;
            }
            if let Some(capture) = &mut capture {
                capture.take(&head, record, shown)?;
            }
        }
        if let Some(lines) = &mut lines {
            if piece.due {
                let time = simulation.now();
                for (flow, point, info) in simulation.tcp_infos() {
                    if window.shows_at(time, point) {
                        lines.take_info(&head, &InfoRecord { time, point, flow, info })?;
                    }
                }
            }
            lines.flush_now_and_then()?;
        }
        progress.run_at(simulation.now());
    }
    progress.finish();
    if let Some(lines) = &mut lines {
        lines.flush()?;
    }
    let at = simulation.now().min(window.end()).as_secs_f64();
    let overflow = simulation.overflow(&network);
    if let Some(capture) = capture {
        capture.finish(&head, at)?;
    }
    if let Some(overflow) = overflow {
        return Err(overflow.into());
    }
    if progress.stopped() && goes_on { Err(Error::StoppedAt { at }) } else { Ok(()) }
}

/// Selection of records.
struct Window<'a> {
    args: &'a TraceArgs,
    /// Capture point, if only one is selected.
    point: Option<usize>,
    /// Number of records that are still to be shown.
    left: u64,
}

impl Window<'_> {
    fn end(&self) -> SimTime {
        self.args.to.map_or(SimTime::FAR_FUTURE, |span| SimTime::ZERO + span.0)
    }

    /// Returns whether the selection may include records at `now` or later.
    fn is_open(&self, now: SimTime) -> bool {
        self.left > 0 && now <= self.end()
    }

    fn shows(&mut self, record: &Record) -> bool {
        self.shows_at(record.time, record.point)
    }

    /// Returns whether the selection includes a record of that time and capture point, and counts it.
    fn shows_at(&mut self, time: SimTime, point: u16) -> bool {
        let from = self.args.from.map_or(SimTime::ZERO, |span| SimTime::ZERO + span.0);
        let here = self.point.is_none_or(|selected| selected == usize::from(point));
        let shown = here && self.left > 0 && (from..=self.end()).contains(&time);
        self.left -= u64::from(shown);
        shown
    }
}

/// Destination of lines.
struct Lines {
    form: Form,
    flushed: Instant,
}

enum Form {
    Text(TraceText, BufWriter<StdoutLock<'static>>),
    Csv(Box<TraceCsv<StdoutLock<'static>>>),
    Json(BufWriter<StdoutLock<'static>>),
}

impl Lines {
    fn begin(args: &TraceArgs, head: &Trace) -> Result<Self, Error> {
        let out = stdout().lock();
        let form = if args.csv {
            Form::Csv(Box::new(TraceCsv::begin(out)?))
        } else if args.json {
            Form::Json(BufWriter::new(out))
        } else {
            Form::Text(TraceText::new(head), BufWriter::new(out))
        };
        Ok(Self { form, flushed: Instant::now() })
    }

    fn take(&mut self, head: &Trace, record: &Record, shown: bool) -> Result<(), Error> {
        match &mut self.form {
            Form::Text(text, out) => {
                text.see(record);
                if shown {
                    text.write(head, record, out)?;
                }
            }
            Form::Csv(csv) if shown => csv.write(head, record)?,
            Form::Json(out) if shown => write_json(out, line(head, record)?)?,
            Form::Csv(_) | Form::Json(_) => {}
        }
        Ok(())
    }

    fn take_info(&mut self, head: &Trace, record: &InfoRecord) -> Result<(), Error> {
        match &mut self.form {
            Form::Text(text, out) => text.write_info(head, record, out)?,
            Form::Csv(csv) => csv.write_info(head, record)?,
            Form::Json(out) => write_json(out, info_line(head, record)?)?,
        }
        Ok(())
    }

    /// Flushes lines that have waited for a while.
    fn flush_now_and_then(&mut self) -> Result<(), Error> {
        if self.flushed.elapsed() >= HELD_BACK {
            self.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(match &mut self.form {
            Form::Text(_, out) | Form::Json(out) => out.flush(),
            Form::Csv(csv) => csv.flush(),
        }?)
    }
}

/// Writes an object with the names of the CSV's columns, so that there is one format to document.
fn write_json(out: &mut impl Write, line: [String; COLUMNS.len()]) -> Result<(), Error> {
    serde_json::Serializer::new(&mut *out).collect_map(COLUMNS.iter().zip(&line)).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Open pcapng file.
struct Capture {
    path: PathBuf,
    writer: CaptureWriter<BufWriter<File>>,
    points: usize,
}

impl Capture {
    fn begin(args: &TraceArgs, point: Option<usize>, head: &Trace, path: &Path) -> Result<Self, Error> {
        let points = point.map_or(Points::All, Points::One);
        if !args.force && !may_replace(path) {
            return Err(Error::Foreign { path: path.to_owned(), what: "a capture written by lasthop" });
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        let file = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        let writer = CaptureWriter::begin(head, points, file).map_err(at(path))?;
        let points = if points == Points::All { head.points.len() } else { 1 };
        Ok(Self { path: path.to_owned(), writer, points })
    }

    fn take(&mut self, head: &Trace, record: &Record, shown: bool) -> Result<(), Error> {
        let Self { path, writer, .. } = self;
        let taken = if shown { writer.write(head, *record) } else { writer.leave_out(head, record) };
        taken.map_err(at(path))
    }

    fn finish(self, head: &Trace, seconds: f64) -> Result<(), Error> {
        let Self { path, writer, points } = self;
        let written = writer.finish(head).map_err(at(&path))?;
        let (path, points) = (path.display(), count(points, "capture point"));
        let megabytes = written.bytes as f64 / 1e6;
        note(&format!("{path}: {} frames of {points}, {megabytes:.1} MB, up to {seconds:.3} s", written.frames));
        Ok(())
    }
}

/// Adds the path to errors of the system.
fn at(path: &Path) -> impl FnOnce(ReportError) -> Error {
    let path = path.to_owned();
    move |error| match error {
        ReportError::Io(error) => Error::File { path, error },
        other => Error::Report(other),
    }
}

/// Returns whether `path` may be overwritten without loss: it does not exist, is empty, is not a regular file, or is a
/// capture that lasthop wrote.
fn may_replace(path: &Path) -> bool {
    let Ok(about) = std::fs::metadata(path) else { return true };
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(128).read_to_end(&mut begin));
    let ours = begin.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
        && begin.windows(APPLICATION.len()).any(|bytes| bytes == APPLICATION.as_bytes());
    !about.is_file() || about.len() == 0 || read.is_ok() && ours
}

fn find_point(trace: &Trace, given: &str) -> Result<usize, Error> {
    trace.points.iter().position(|point| point.name == given).ok_or_else(|| Error::Point {
        given: given.to_owned(),
        points: trace.points.iter().map(|point| point.name.clone()).collect(),
    })
}
