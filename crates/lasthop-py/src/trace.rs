//! Traced runs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use lasthop_proto::packet::FlowId;
use lasthop_proto::time::Duration;
use lasthop_report::ReportError;
use lasthop_report::columns::{row_columns, trace_columns};
use lasthop_report::figures::{Colours, Figure, SequencePlot, WindowPlot, transfer_series};
use lasthop_report::pcapng::{write_pcapng, write_pcapng_at};
use lasthop_report::trace_text::write_trace_text;
use lasthop_sim::network::Network;
use lasthop_sim::trace::Trace;
use lasthop_sim::{EVENTS_BETWEEN_QUESTIONS, Recording, Simulation};
use lasthop_study::measures::{Samples, metered_columns};
use lasthop_study::replicate::{Progress, run_seed};
use lasthop_study::series::Series;
use lasthop_study::tcp_info::InfoSeries;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Error, scheme};
use crate::scenario::PyScenario;
use crate::table;
use crate::watch::watched;

/// Run with all its packets and events.
#[pyclass(frozen, name = "Trace", module = "lasthop._lasthop")]
pub struct PyTrace {
    network: Network,
    trace: Trace,
    scheme: &'static str,
    samples: Samples,
    /// Seed of this run.
    seed: u64,
}

#[pymethods]
impl PyTrace {
    /// Runs `scenario` once.
    #[new]
    fn new(py: Python<'_>, scenario: &Bound<'_, PyScenario>, scheme_name: &str, seed: u64, run: u32) -> PyResult<Self> {
        let scheme = scheme(scheme_name)?;
        scenario.get().0.check_effects(&[scheme]).map_err(Error::from)?;
        let network = scenario.get().0.network(scheme).map_err(Error::from)?;
        let outcome = watched(py, 1, None, |watch| {
            let mut simulation = Simulation::metered(&network, run_seed(seed, run), Recording::On);
            while !watch.abandoned() {
                if !simulation.advance(EVENTS_BETWEEN_QUESTIONS) {
                    return Some(simulation.finish(&network));
                }
            }
            None
        })?;
        let outcome = outcome.ok_or_else(|| Error::Argument("the run was abandoned".to_owned()))?;
        if let Some(overflow) = outcome.report.overflow {
            return Err(Error::Overflow(*overflow).into());
        }
        let mut samples = Samples::new(metered_columns(&network));
        samples.push(&network, &outcome.report);
        Ok(Self { network, trace: outcome.trace, scheme: scheme.name, samples, seed: run_seed(seed, run) })
    }

    /// Returns the names of the capture points.
    #[getter]
    fn points(&self) -> Vec<&str> {
        self.trace.points.iter().map(|point| point.name.as_str()).collect()
    }

    /// Returns the names of the flows.
    #[getter]
    fn flows(&self) -> Vec<&str> {
        self.trace.flows.iter().map(|flow| flow.name.as_str()).collect()
    }

    /// Returns the number of records.
    fn __len__(&self) -> usize {
        self.trace.records.len()
    }

    /// Returns the metrics of the run: name, unit, value.
    #[getter]
    fn measures(&self) -> Vec<(String, &'static str, f64)> {
        let values = self.samples.columns().iter().zip(self.samples.values());
        values.filter(|(_, value)| !value.is_nan()).map(|((name, unit), value)| (name.clone(), *unit, *value)).collect()
    }

    /// Returns the columns of the records.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let columns = py.detach(|| trace_columns(&self.trace)).map_err(Error::from)?;
        table::columns(py, columns)
    }

    /// Draws the packets of a flow over time, in these traces.
    #[staticmethod]
    fn sequence_svg(traces: Vec<PyRef<'_, Self>>, flow: &str, title: String) -> PyResult<String> {
        let (figures, colours) = drawn(&traces, flow, title)?;
        Ok(figures[0].render_svg_in(&colours[0]))
    }

    /// Draws the congestion windows of a flow over time, in these traces.
    #[staticmethod]
    fn window_svg(traces: Vec<PyRef<'_, Self>>, flow: &str, title: String) -> PyResult<String> {
        let (figures, colours) = drawn(&traces, flow, title)?;
        Ok(figures[1].render_svg_in(&colours[1]))
    }

    /// Returns the columns of throughput, delays and queues of this run every `interval` nanoseconds.
    fn series<'py>(&self, py: Python<'py>, interval: u64) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let series = watched(py, 1, None, |watch| {
            Series::of(&self.network, self.seed, Duration::from_nanos(interval), || watch.abandoned())
        })?;
        let series = series.map_err(|error| Error::Argument(error.to_string()))?;
        let rows = series.rows().map_err(Error::from)?;
        table::columns(py, row_columns(&rows).map_err(Error::from)?)
    }

    /// Returns the columns of the states of TCP connections of this run every `interval` nanoseconds.
    fn tcp_info<'py>(&self, py: Python<'py>, interval: u64) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let series = watched(py, 1, None, |watch| {
            InfoSeries::of(&self.network, self.seed, Duration::from_nanos(interval), || watch.abandoned())
        })?;
        let series = series.map_err(|error| Error::Argument(error.to_string()))?;
        let rows = series.rows().map_err(Error::from)?;
        table::columns(py, row_columns(&rows).map_err(Error::from)?)
    }

    /// Returns human-readable lines.
    fn text(&self) -> PyResult<String> {
        let mut text = Vec::new();
        write_trace_text(&self.trace, &mut text).map_err(Error::from)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes a pcapng file, with all capture points or one.
    fn write_pcapng(&self, path: PathBuf, point: Option<&str>) -> PyResult<()> {
        let point = point.map(|given| self.point(given)).transpose()?;
        let mut out = BufWriter::new(File::create(path)?);
        let written: Result<(), ReportError> = match point {
            Some(point) => write_pcapng_at(&self.trace, point, &mut out),
            None => write_pcapng(&self.trace, &mut out),
        };
        written.map_err(Error::from)?;
        Ok(out.flush()?)
    }
}

/// Returns the figures of packets and of windows of a flow, and the colours of their series.
fn drawn(traces: &[PyRef<'_, PyTrace>], flow: &str, title: String) -> PyResult<([Figure; 2], [Vec<usize>; 2])> {
    let (mut packets, mut windows) = (Vec::new(), Vec::new());
    for trace in traces {
        let series = transfer_series(&trace.network, &trace.trace, trace.flow(flow)?, trace.scheme);
        packets.extend(series.sequences);
        windows.extend(series.windows);
    }
    let y_label = "sequence number (KB)".to_owned();
    let packets = Figure::Sequence(SequencePlot { title: title.clone(), y_label, series: packets });
    let y_label = "congestion window (KB)".to_owned();
    let figures = [packets, Figure::Window(WindowPlot { title, y_label, series: windows })];
    let mut colours = Colours::default();
    let of = figures.each_ref().map(|figure| colours.of(figure));
    Ok((figures, of))
}

impl PyTrace {
    fn flow(&self, given: &str) -> Result<FlowId, Error> {
        let flow = self.trace.flows.iter().position(|flow| flow.name == given);
        flow.map(|flow| FlowId(flow as u32))
            .ok_or_else(|| Error::Argument(format!("no flow {given:?}; expected one of {}", self.flows().join(", "))))
    }

    fn point(&self, given: &str) -> Result<usize, Error> {
        let point = self.trace.points.iter().position(|point| point.name == given);
        point.ok_or_else(|| {
            Error::Argument(format!("no capture point {given:?}; expected one of {}", self.points().join(", ")))
        })
    }
}
