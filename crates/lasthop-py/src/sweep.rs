//! Sweeps. A comparison is a sweep without varied keys, a run one of a single point.

use std::path::PathBuf;

use lasthop_report::ReportError;
use lasthop_report::columns::{Column, row_columns};
use lasthop_report::rows::Rows;
use lasthop_study::measures::Samples;
use lasthop_study::measures::flows::flows;
use lasthop_study::measures::links::links;
use lasthop_study::measures::rows::{flow_rows, link_rows};
use lasthop_study::parts::Parts;
use lasthop_study::replicate::{Task, run_all, run_each};
use lasthop_study::sweep::{Axis, Point, Sweep, SweepError};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Error, scheme};
use crate::scenario::PyScenario;
use crate::table::{self, Matrix};
use crate::watch::watched;

/// Sweep that is ready to run.
#[pyclass(frozen, name = "Sweep", module = "lasthop._lasthop")]
pub struct PySweep(Sweep);

/// Folder with a sweep, complete or in part.
#[pyclass(frozen, name = "Parts", module = "lasthop._lasthop")]
pub struct PyParts(Parts);

/// Runs of a cell to be computed: scenario, overrides, scheme, first run, and the run after the last.
pub type Job<'py> = (Bound<'py, PyScenario>, Vec<(String, String)>, String, u32, u32);

/// Values of the runs of each point, and the columns of the tables of flows and of links.
type Details<'py> = (Vec<Bound<'py, PyArray1<f64>>>, Vec<Bound<'py, PyTuple>>, Vec<Bound<'py, PyTuple>>);

/// Mean and interval of a metric: name, unit, mean, half the width of the 95 % interval, number of values.
type Summary = (String, &'static str, f64, Option<f64>, u32);

#[pymethods]
impl PySweep {
    /// Checks all combinations of the values of `axes`, each under every scheme.
    #[new]
    fn new(
        py: Python<'_>,
        scenario: &Bound<'_, PyScenario>,
        axes: Vec<(String, Vec<String>)>,
        schemes: Vec<String>,
        seed: u64,
        runs: u32,
    ) -> PyResult<Self> {
        let axes = axes.into_iter().map(|(key, values)| Axis { key, values }).collect();
        let schemes = schemes.iter().map(|name| scheme(name)).collect::<Result<Vec<_>, _>>()?;
        let scenario = &scenario.get().0;
        let sweep = watched(py, 0, None, |_| Sweep::new(scenario, axes, &schemes, seed, runs))?;
        Ok(Self(sweep.map_err(Error::from)?))
    }

    /// Returns the number of points.
    #[getter]
    fn points(&self) -> usize {
        self.0.points().len()
    }

    /// Returns names and units of the metrics of each run.
    #[getter]
    fn measures(&self) -> Vec<(String, &'static str)> {
        self.0.measures().to_vec()
    }

    /// Runs everything in this process, and returns the columns of the rows, one row per point.
    fn run<'py>(
        &self,
        py: Python<'py>,
        jobs: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut all = Rows::new(self.0.columns().to_vec());
        let done = watched(py, self.total_runs(), progress, |watch| {
            self.0.run(0, jobs, watch, |rows| {
                rows.rows().iter().try_for_each(|row| all.push(row.clone())).map_err(SweepError::from)
            })
        })?;
        done.map_err(Error::from)?;
        table::columns(py, row_columns(&all).map_err(Error::from)?)
    }

    /// Runs everything in this process, and returns the values of the runs of each point, row by row.
    fn samples<'py>(
        &self,
        py: Python<'py>,
        jobs: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<f64>>>> {
        let points: Vec<usize> = (0..self.points()).collect();
        let mut all = Vec::new();
        let done = watched(py, self.total_runs(), progress, |watch| {
            self.0.run_points(&points, jobs, watch, |_, samples| {
                all.push(samples);
                Ok::<(), SweepError>(())
            })
        })?;
        done.map_err(Error::from)?;
        Ok(all.into_iter().map(|samples| table::values(py, samples)).collect())
    }

    /// Like [`Self::samples`], with the columns of the tables of flows and of links.
    fn details<'py>(
        &self,
        py: Python<'py>,
        jobs: usize,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Details<'py>> {
        let own: Vec<&Point> = self.0.points().iter().filter(|point| point.same_as.is_none()).collect();
        let tasks = own.iter().map(|point| self.0.task(point)).collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
        let total = own.len() as u64 * u64::from(self.0.runs());
        let reports = watched(py, total, progress, |watch| run_all(&tasks, jobs, watch))?.map_err(Error::from)?;
        let (mut values, mut of_flows, mut of_links) = (Vec::new(), Vec::new(), Vec::new());
        for point in self.0.points() {
            let runs_of = point.same_as.unwrap_or(point.scheme).name;
            let at = own.iter().position(|own| own.scheme.name == runs_of && own.values == point.values);
            let Some(at) = at.filter(|at| reports[*at].len() == self.0.runs() as usize) else {
                return Err(Error::Argument("the runs were abandoned".to_owned()).into());
            };
            let (network, reports) = (&tasks[at].network, &reports[at]);
            let mut samples = Samples::new(self.0.measures().to_vec());
            reports.iter().for_each(|report| samples.push(network, report));
            values.push(table::values(py, samples));
            of_flows.push((point.scheme.name, flows(network, reports)));
            of_links.push((point.scheme.name, links(network, reports)));
        }
        let columns = |rows: Result<Rows, ReportError>| -> PyResult<Vec<Bound<'py, PyTuple>>> {
            table::columns(py, row_columns(&rows.map_err(Error::from)?).map_err(Error::from)?)
        };
        Ok((values, columns(flow_rows(&of_flows))?, columns(link_rows(&of_links))?))
    }

    /// Returns the columns of points' rows from the values of their runs; `first` is the number of the first point.
    fn rows<'py>(&self, py: Python<'py>, first: usize, values: Vec<Matrix<'py>>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut rows = Rows::new(self.0.columns().to_vec());
        for (point, values) in (first..self.points()).zip(&values) {
            rows.push(self.0.row(point, &self.samples_of(values)?)).map_err(Error::from)?;
        }
        table::columns(py, row_columns(&rows).map_err(Error::from)?)
    }

    /// Returns the columns of a table with a row per run: scheme, number of the run, and each metric.
    fn run_rows<'py>(&self, py: Python<'py>, values: Vec<Matrix<'py>>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let samples = values.iter().map(|values| self.samples_of(values)).collect::<PyResult<Vec<_>>>()?;
        let points = || self.0.points().iter().zip(&samples);
        let schemes = points().flat_map(|(point, samples)| (0..samples.runs()).map(|_| Some(point.scheme.name)));
        let runs = points().flat_map(|(_, samples)| (0..samples.runs()).map(|run| Some(run as u64)));
        let mut columns = vec![
            Column::texts("scheme".to_owned(), schemes).map_err(Error::from)?,
            Column::counts("run".to_owned(), runs),
        ];
        for (at, (name, _)) in self.0.measures().iter().enumerate() {
            columns.push(Column::floats(name.clone(), samples.iter().flat_map(|samples| samples.column(at))));
        }
        table::columns(py, columns)
    }

    /// Returns mean and interval of each metric of a point, from the values of its runs.
    fn summaries(&self, values: Matrix<'_>) -> PyResult<Vec<Summary>> {
        let summary = |of: lasthop_study::measures::Summary| {
            (of.name.into_owned(), of.unit, of.estimate.mean, of.estimate.ci95, of.estimate.n)
        };
        Ok(self.samples_of(&values)?.summaries().into_iter().map(summary).collect())
    }

    /// Returns the jobs for the runs `first..end`, counted through all points.
    fn jobs<'py>(slf: &Bound<'py, Self>, scenario: &Bound<'py, PyScenario>, first: usize, end: usize) -> Vec<Job<'py>> {
        let sweep = &slf.get().0;
        ranges(first..end, sweep.runs())
            .map(|(point, first, end)| {
                let values = &sweep.points()[point];
                let set = sweep.axes().iter().map(|axis| axis.key.clone()).zip(values.values.iter().cloned());
                (scenario.clone(), set.collect(), values.scheme.name.to_owned(), first, end)
            })
            .collect()
    }

    /// Opens the folder of this sweep, or creates it.
    fn open(&self, folder: PathBuf) -> PyResult<PyParts> {
        Ok(PyParts(Parts::open(folder, &self.0).map_err(Error::from)?))
    }

    /// Computes the missing parts of the folder in this process.
    fn fill(
        &self,
        py: Python<'_>,
        parts: &Bound<'_, PyParts>,
        jobs: usize,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let parts = &parts.get().0;
        let points: usize = parts.missing().into_iter().map(|part| parts.points(part).len()).sum();
        let total = points as u64 * u64::from(self.0.runs());
        let done = watched(py, total, progress, |watch| parts.fill(&self.0, jobs, watch))?;
        Ok(done.map_err(Error::from)?)
    }

    /// Writes a part, from the values of the runs of each of its points.
    fn write(&self, py: Python<'_>, parts: &Bound<'_, PyParts>, part: usize, values: Vec<Matrix<'_>>) -> PyResult<()> {
        let samples = values.iter().map(|values| self.samples_of(values)).collect::<PyResult<Vec<_>>>()?;
        let parts = &parts.get().0;
        py.detach(|| parts.write(part, &self.0, &samples)).map_err(|error| Error::from(error).into())
    }
}

impl PySweep {
    fn total_runs(&self) -> u64 {
        self.points() as u64 * u64::from(self.0.runs())
    }

    fn samples_of(&self, values: &Matrix<'_>) -> PyResult<Samples> {
        table::samples(self.0.measures(), values)
    }
}

#[pymethods]
impl PyParts {
    /// Returns the total number of parts.
    #[getter]
    fn count(&self) -> usize {
        self.0.count()
    }

    /// Returns the first point of a part, and the point after the last.
    fn points(&self, part: usize) -> (usize, usize) {
        let points = self.0.points(part);
        (points.start, points.end)
    }

    /// Returns the file of a part.
    fn path(&self, part: usize) -> PathBuf {
        self.0.path(part)
    }

    /// Returns the parts that are missing.
    fn missing(&self) -> Vec<usize> {
        self.0.missing()
    }
}

/// Splits the runs `numbers`, counted through all cells of `runs` runs each, by cell: cell, first run, run after the
/// last.
pub fn ranges(numbers: std::ops::Range<usize>, runs: u32) -> impl Iterator<Item = (usize, u32, u32)> {
    let each = runs.max(1) as usize;
    let cells = if numbers.is_empty() { 0..0 } else { numbers.start / each..numbers.end.div_ceil(each) };
    cells.map(move |cell| {
        let begins = cell * each;
        let first = numbers.start.saturating_sub(begins);
        let end = (numbers.end - begins).min(each);
        (cell, first as u32, end as u32)
    })
}

/// Runs jobs, and returns the values of all their runs, row by row, with a column per metric.
#[pyfunction]
pub fn measure<'py>(
    py: Python<'py>,
    jobs: Vec<Job<'py>>,
    measures: Vec<String>,
    seed: u64,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let mut tasks = Vec::new();
    for (scenario, set, name, first, end) in &jobs {
        let base = &scenario.get().0;
        let scheme = scheme(name)?;
        let task = if set.is_empty() {
            Task::new(base, scheme, seed, *end)
        } else {
            base.with_overrides(set).and_then(|scenario| Task::new(&scenario, scheme, seed, *end))
        };
        let task = task.map_err(Error::from)?;
        let task = task.with_measures(measures.iter().map(String::as_str));
        tasks.push(Task { runs: *first..*end, ..task });
    }
    let mut samples = Samples::new(measures.into_iter().map(|name| (name, "")).collect());
    let done = watched(py, 0, None, |watch| {
        run_each(&tasks, threads, watch, |at, report| {
            samples.push(&tasks[at].network, &report);
            Ok::<(), SweepError>(())
        })
    })?;
    done.map_err(Error::from)?;
    Ok(table::values(py, samples))
}
