//! Measured links: diagnosis of a capture's flows, and models fitted to losses.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use lasthop_diagnose::annotate::{AnnotateError, annotate};
use lasthop_diagnose::loss_trace::loss_trace;
use lasthop_diagnose::rounds::{FACTORS, Factor};
use lasthop_diagnose::words::lines;
use lasthop_diagnose::{At, Direction, FlowReport, LossReport, Options, Report, Vantage};
use lasthop_fit::{Beside, Fit, Parameter};
use lasthop_report::columns::Column;
use lasthop_study::diagnosis::{diagnosed, matched, matched_to_json, no_flow, to_json};
use lasthop_study::link::{Access, Files, Fitted, Given, LinkError, MeasuredLink, measured_from};
use lasthop_study::replicate::Progress;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde::Serialize;

use crate::errors::Error;
use crate::table;
use crate::watch::{Watch, watched};

/// Runs `work` with access to this machine's files until Ctrl-C is pressed.
fn reading<T: Send>(py: Python<'_>, work: impl FnOnce(&Access<'_>) -> Result<T, LinkError> + Send) -> PyResult<T> {
    let work = |watch: &Watch| work(&Access { files: Files::Disk, stop: &|| watch.stopped() });
    Ok(watched(py, 0, None, work)?.map_err(Error::from)?)
}

/// Returns the name that JSON has for a value.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Diagnosis of a capture.
#[pyclass(frozen, name = "Diagnosis", module = "lasthop._lasthop")]
pub struct PyDiagnosis {
    path: PathBuf,
    report: Report,
}

#[pymethods]
impl PyDiagnosis {
    /// Reads a capture to its end.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, at: Option<&str>, interface: Option<String>) -> PyResult<Self> {
        let at = match at {
            None => At::Found,
            Some("sender") => At::Given(Vantage::Sender),
            Some("receiver") => At::Given(Vantage::Receiver),
            Some("gateway") => At::Given(Vantage::Gateway),
            Some(at) => {
                let message = format!("at: cannot be {at:?}; give \"sender\", \"receiver\" or \"gateway\"");
                return Err(Error::Argument(message).into());
            }
        };
        let options = Options { at, interface };
        let report = reading(py, |access| diagnosed(access, &path, &options))?;
        Ok(Self { path, report })
    }

    /// Returns the columns of a table of the directions that carry data.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        table::columns(py, flow_columns(&self.report).map_err(Error::from)?)
    }

    /// Returns the columns of a table of losses, and of spurious retransmissions.
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        table::columns(py, loss_columns(&self.report).map_err(Error::from)?)
    }

    /// Returns the JSON of `lasthop diagnose --json`.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| to_json(&[self.path.display().to_string()], &self.report, None).to_string())
    }

    /// Describes the data missing from the capture.
    #[getter]
    fn missing(&self) -> Vec<String> {
        self.report.missing()
    }

    /// Describes the directions that carry data in sentences.
    #[getter]
    fn words(&self) -> Vec<String> {
        directions(&self.report).flat_map(|(flow, direction)| lines(flow, direction)).collect()
    }

    /// Writes the capture as pcapng with the verdicts as comments.
    fn annotate(&self, py: Python<'_>, out: PathBuf) -> PyResult<()> {
        let report = &self.report;
        writing(py, &self.path, &out, |source, file| annotate(report, source, file))
    }

    /// Writes the losses to corruption of flow number `flow`, or of the one with most data.
    fn loss_trace(&self, py: Python<'_>, out: PathBuf, flow: Option<usize>) -> PyResult<()> {
        let flows = self.report.flows.len();
        if let Some(number) = flow.filter(|number| !(1..=flows).contains(number)) {
            let message = format!("flow: cannot be {number}; the capture has flows 1 to {flows}");
            return Err(Error::Argument(message).into());
        }
        let chosen = self.report.with_most_data(flow);
        let (flow, direction) = chosen.ok_or_else(|| Error::from(no_flow(&self.path, &self.report)))?;
        writing(py, &self.path, &out, |source, file| loss_trace(flow, direction, source, file))
    }
}

/// Returns the JSON of `lasthop diagnose --between --json`.
#[pyfunction]
pub fn diagnose_between(py: Python<'_>, one: PathBuf, other: PathBuf) -> PyResult<String> {
    let paths = [one.as_path(), other.as_path()];
    let found = reading(py, |access| matched(access, paths))?;
    Ok(matched_to_json(paths, &found).to_string())
}

/// Writes a file from a capture until Ctrl-C is pressed.
fn writing(
    py: Python<'_>,
    capture: &Path,
    out: &Path,
    work: impl FnOnce(&mut dyn io::Read, &mut BufWriter<File>) -> Result<(), AnnotateError> + Send,
) -> PyResult<()> {
    let same = |one: &Path| std::fs::canonicalize(one).ok();
    if same(out).is_some_and(|out| same(capture) == Some(out)) {
        let message = format!("{}: is the capture itself; give another file", out.display());
        return Err(Error::Argument(message).into());
    }
    reading(py, |access| {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |error| LinkError::File { path, error }
        };
        let mut source = access.open(capture).map_err(failed(capture))?;
        let mut file = BufWriter::new(File::create(out).map_err(failed(out))?);
        work(&mut source, &mut file).map_err(|error| match error {
            AnnotateError::Capture(error) => LinkError::Capture { path: capture.to_path_buf(), error },
            AnnotateError::Output(error) => failed(out)(error),
        })?;
        file.flush().map_err(failed(out))
    })
}

fn directions(report: &Report) -> impl Iterator<Item = (&FlowReport, &Direction)> {
    report.flows.iter().flat_map(|flow| flow.directions.iter().map(move |direction| (flow, direction)))
}

type Columns = Result<Vec<Column>, lasthop_report::ReportError>;

/// Count of a direction.
type Count = fn(&Direction) -> u64;

fn flow_columns(report: &Report) -> Columns {
    let rows = || directions(report);
    let text = |name: &str, of: fn(&FlowReport, &Direction) -> Option<String>| {
        Column::repeated(name.to_owned(), rows().map(move |(flow, direction)| of(flow, direction).unwrap_or_default()))
    };
    let count =
        |name: &str, of: Count| Column::counts(name.to_owned(), rows().map(move |(_, direction)| Some(of(direction))));
    let float = |name: &str, of: fn(&Direction) -> Option<f64>| {
        Column::floats(name.to_owned(), rows().map(move |(_, direction)| of(direction)))
    };
    let mut columns = vec![
        Column::counts("flow".to_owned(), rows().map(|(flow, _)| Some(flow.number as u64))),
        text("interface", |flow, _| flow.interface.clone())?,
        text("from", |_, direction| Some(direction.from.to_string()))?,
        text("to", |_, direction| Some(direction.to.to_string()))?,
        text("vantage", |_, direction| Some(word(direction.vantage)))?,
        Column::floats("begin_s".to_owned(), rows().map(|(flow, _)| Some(flow.span_s[0]))),
        count("bytes", |direction| direction.bytes),
        count("packets", |direction| direction.packets),
        count("segment_bytes", |direction| u64::from(direction.segment_bytes)),
        float("seconds", |direction| Some(direction.seconds)),
        float("goodput_bps", |direction| Some(direction.goodput_bps)),
        float("rtt_ms", |direction| direction.rtt_ms),
        float("mean_rtt_ms", |direction| direction.mean_rtt_ms),
        float("longest_queue_ms", |direction| Some(direction.longest_queue_ms)),
        text("limit", |_, direction| direction.limit.map(word))?,
    ];
    for factor in FACTORS {
        let share = move |direction: &Direction, factor: Factor| {
            let limit = direction.limits.iter().find(|limit| limit.factor == factor);
            Some(limit.map_or(0.0, |limit| limit.share))
        };
        let name = format!("limit_{}", word(factor).replace('-', "_"));
        columns.push(Column::floats(name, rows().map(move |(_, direction)| share(direction, factor))));
    }
    columns.extend([
        float("bottleneck_bps", |direction| direction.bottleneck_bps),
        float("could_reach_bps", |direction| direction.could_reach_bps),
    ]);
    let counts: [(&str, Count); 19] = [
        ("lost", |direction| direction.causes.lost),
        ("corruption", |direction| direction.causes.corruption),
        ("congestion", |direction| direction.causes.congestion),
        ("unknown", |direction| direction.causes.unknown),
        ("policed", |direction| direction.causes.policed),
        ("path_mtu", |direction| direction.causes.path_mtu),
        ("discarded", |direction| direction.window.discarded),
        ("window_probes", |direction| direction.window.window_probes),
        ("keep_alives", |direction| direction.window.keep_alives),
        ("unjudged", |direction| direction.causes.unjudged),
        ("retransmissions", |direction| direction.resent.retransmissions),
        ("needless", |direction| direction.resent.needless),
        ("timeouts", |direction| direction.resent.timeouts),
        ("needless_timeouts", |direction| direction.resent.needless_timeouts),
        ("reordered", |direction| direction.reordered),
        ("unseen_bytes", |direction| direction.unseen_bytes),
        ("marked", |direction| direction.marked),
        ("echoes", |direction| direction.echoes),
        ("zero_windows", |direction| direction.window.zero_windows),
    ];
    columns.extend(counts.map(|(name, of)| count(name, of)));
    Ok(columns)
}

fn loss_columns(report: &Report) -> Columns {
    type Row<'r> = (&'r FlowReport, &'r Direction, &'r LossReport);
    let rows = || {
        directions(report)
            .flat_map(|(flow, direction)| direction.losses.iter().map(move |loss| (flow, direction, loss)))
    };
    let text = |name: &str, of: fn(Row<'_>) -> String| Column::repeated(name.to_owned(), rows().map(of));
    let count = |name: &str, of: fn(&LossReport) -> u64| {
        Column::counts(name.to_owned(), rows().map(move |(_, _, loss)| Some(of(loss))))
    };
    let float = |name: &str, of: fn(&LossReport) -> Option<f64>| {
        Column::floats(name.to_owned(), rows().map(move |(_, _, loss)| of(loss)))
    };
    Ok(vec![
        Column::counts("flow".to_owned(), rows().map(|(flow, _, _)| Some(flow.number as u64))),
        text("from", |(_, direction, _)| direction.from.to_string())?,
        text("to", |(_, direction, _)| direction.to.to_string())?,
        count("packet", |loss| loss.packet),
        count("repaired_by", |loss| loss.repaired_by),
        float("time_s", |loss| Some(loss.time_s)),
        count("seq", |loss| u64::from(loss.seq)),
        count("bytes", |loss| u64::from(loss.bytes)),
        text("side", |(_, _, loss)| word(loss.side))?,
        text("repair", |(_, _, loss)| word(loss.repair))?,
        count("transmission", |loss| u64::from(loss.transmission)),
        text("needless", |(_, _, loss)| loss.needless.map(word).unwrap_or_default())?,
        text("cause", |(_, _, loss)| loss.verdict.cause.name().to_owned())?,
        float("confidence", |loss| Some(loss.verdict.confidence)),
        float("queue_ms", |loss| loss.verdict.queue_ms),
        float("full_ms", |loss| Some(loss.verdict.full_ms)),
        float("air", |loss| loss.verdict.air),
    ])
}

/// Measured link, with the models of its losses.
#[pyclass(frozen, name = "Fit", module = "lasthop._lasthop")]
pub struct PyFit(MeasuredLink);

#[pymethods]
impl PyFit {
    /// Reads a measurement and fits models to its losses; `given` has pairs of name and value, as the command's
    /// options.
    #[new]
    fn new(py: Python<'_>, down: PathBuf, up: Option<PathBuf>, given: Vec<(String, String)>) -> PyResult<Self> {
        let mut known = Given::default();
        for (key, value) in &given {
            let wrong = |why| Error::Argument(format!("{}: {value:?}: {why}", key.replace('-', "_")));
            known.set(key, value).map_err(wrong)?;
        }
        Ok(Self(reading(py, |access| measured_from(access, &down, up.as_deref(), &known))?))
    }

    /// Returns the columns of a table of models.
    fn models<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = || self.rows(|fitted| fitted.report.fits.iter().enumerate());
        let columns = vec![
            Column::repeated("direction".to_owned(), rows().map(|(way, _)| way.to_owned())).map_err(Error::from)?,
            Column::repeated("model".to_owned(), rows().map(|(_, (_, fit))| fit.family.name().to_owned()))
                .map_err(Error::from)?,
            Column::counts("rank".to_owned(), rows().map(|(_, (at, _))| Some(at as u64 + 1))),
            Column::counts("free".to_owned(), rows().map(|(_, (_, fit))| Some(u64::from(fit.free)))),
            Column::floats("log_likelihood".to_owned(), rows().map(|(_, (_, fit))| Some(fit.log_likelihood))),
            Column::floats("aic".to_owned(), rows().map(|(_, (_, fit))| Some(fit.aic))),
        ];
        table::columns(py, columns)
    }

    /// Returns the columns of a table of their parameters.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        fn parameters(fitted: &Fitted) -> impl Iterator<Item = (&Fit, &Parameter)> {
            fitted.report.fits.iter().flat_map(|fit| fit.parameters.iter().map(move |parameter| (fit, parameter)))
        }
        let rows = || self.rows(parameters);
        let text = |name: &str, of: fn(&str, &Fit, &Parameter) -> String| {
            let texts = rows().map(move |(way, (fit, parameter))| of(way, fit, parameter));
            Column::repeated(name.to_owned(), texts).map_err(Error::from)
        };
        let float = |name: &str, of: fn(&Parameter) -> Option<f64>| {
            Column::floats(name.to_owned(), rows().map(move |(_, (_, parameter))| of(parameter)))
        };
        let columns = vec![
            text("direction", |way, _, _| way.to_owned())?,
            text("model", |_, fit, _| fit.family.name().to_owned())?,
            text("parameter", |_, _, parameter| parameter.key.to_owned())?,
            text("unit", |_, _, parameter| word(parameter.unit))?,
            float("value", |parameter| Some(parameter.value)),
            float("low", |parameter| parameter.interval.map(|[low, _]| low)),
            float("high", |parameter| parameter.interval.map(|[_, high]| high)),
        ];
        table::columns(py, columns)
    }

    /// Returns the columns of a table that compares trace and model.
    fn beside<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        fn beside(fitted: &Fitted) -> impl Iterator<Item = (&'static str, &Beside)> {
            let adequacy = &fitted.report.adequacy;
            let lengths = adequacy.run_lengths.iter().map(|run| ("runs", run));
            lengths.chain(adequacy.autocorrelation.iter().map(|lag| ("autocorrelation", lag)))
        }
        let rows = || self.rows(beside);
        let text = |name: &str, texts: &mut dyn Iterator<Item = String>| {
            Column::repeated(name.to_owned(), texts).map_err(Error::from)
        };
        let columns = vec![
            text("direction", &mut rows().map(|(way, _)| way.to_owned()))?,
            text("what", &mut rows().map(|(_, (what, _))| what.to_owned()))?,
            Column::counts("at".to_owned(), rows().map(|(_, (_, beside))| Some(u64::from(beside.at)))),
            Column::floats("seen".to_owned(), rows().map(|(_, (_, beside))| Some(beside.seen))),
            Column::floats("model".to_owned(), rows().map(|(_, (_, beside))| Some(beside.model))),
        ];
        table::columns(py, columns)
    }

    /// Returns the columns of a table of losses over time.
    fn over_time<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = || self.rows(|fitted| fitted.over_time.iter());
        let columns = vec![
            Column::repeated("direction".to_owned(), rows().map(|(way, _)| way.to_owned())).map_err(Error::from)?,
            Column::floats("at".to_owned(), rows().map(|(_, (at, _))| Some(*at))),
            Column::floats("lost".to_owned(), rows().map(|(_, (_, share))| Some(*share))),
        ];
        table::columns(py, columns)
    }

    /// Returns the JSON of `lasthop fit --json`.
    fn json(&self) -> String {
        self.0.to_json().to_string()
    }

    /// Returns the link as a scenario's text, as `lasthop fit --out` writes it.
    fn scenario(&self) -> PyResult<String> {
        Ok(self.0.scenario().map_err(Error::from)?)
    }

    /// Describes the link in a line.
    #[getter]
    fn words(&self) -> String {
        self.0.words()
    }

    /// Describes the models of each direction in sentences.
    #[getter]
    fn verdicts(&self) -> Vec<(&'static str, Vec<String>)> {
        self.rows(|fitted| std::iter::once(fitted.report.verdict())).collect()
    }

    /// Returns the scenario's agreement with the measurement: direction, aspect, verdict, reason.
    #[getter]
    fn statements(&self) -> Vec<(&'static str, &'static str, String, String)> {
        let rows = self.rows(|fitted| fitted.statement.aspects().into_iter());
        rows.map(|(way, (aspect, said))| (way, aspect, word(said.verdict), said.why.clone())).collect()
    }

    /// Returns a description of the part of a larger measurement that was used.
    #[getter]
    fn remark(&self) -> Option<&str> {
        self.0.remark.as_deref()
    }

    /// Returns the measurement's name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }
}

impl PyFit {
    /// Returns rows of both directions, each with the direction's name.
    fn rows<'s, I: Iterator + 's>(
        &'s self,
        of: impl Fn(&'s Fitted) -> I,
    ) -> impl Iterator<Item = (&'static str, I::Item)> {
        let up = self.0.up.as_ref().map(|up| ("up", up));
        let ways: Vec<_> = [Some(("down", &self.0.down)), up].into_iter().flatten().collect();
        let rows: Vec<_> = ways.into_iter().map(|(way, fitted)| (way, of(fitted))).collect();
        rows.into_iter().flat_map(|(way, rows)| rows.map(move |row| (way, row)))
    }
}
