//! The published studies.

use std::fs;
use std::path::PathBuf;

use lasthop_report::columns::row_columns;
use lasthop_report::study::Study;
use lasthop_study::reproduce::Plan;
use lasthop_study::study::{Options, Selection};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::Error;
use crate::scenario::PyScenario;
use crate::sweep::{Job, ranges};
use crate::table::{self, Matrix};
use crate::watch::watched;

/// Plan for reproducing a study.
#[pyclass(frozen, name = "Plan", module = "lasthop._lasthop")]
pub struct PyPlan {
    plan: Plan,
    runs: u32,
    scenarios: Vec<Py<PyScenario>>,
}

/// Reproduced study.
#[pyclass(frozen, name = "Study", module = "lasthop._lasthop")]
pub struct PyStudy(Study);

/// Returns the selected part of a study.
fn selection(table: Option<String>, figure: Option<String>) -> Result<Selection, Error> {
    match (table, figure) {
        (Some(_), Some(_)) => Err(Error::Argument("give table or figure, not both".to_owned())),
        (Some(table), None) => Ok(Selection::Table(table)),
        (None, Some(figure)) => Ok(Selection::Figure(figure)),
        (None, None) => Ok(Selection::All),
    }
}

#[pymethods]
impl PyPlan {
    /// Plans the cells of a study, or of one table or figure.
    #[new]
    fn new(
        py: Python<'_>,
        study: &str,
        table: Option<String>,
        figure: Option<String>,
        seed: u64,
        runs: u32,
        jobs: usize,
    ) -> PyResult<Self> {
        let options = Options { selection: selection(table, figure)?, runs, seed, jobs };
        let plan = Plan::new(study, &options).map_err(Error::from)?;
        let scenarios = plan.cells().iter().map(|cell| Py::new(py, PyScenario(cell.scenario.clone())));
        let scenarios = scenarios.collect::<PyResult<_>>()?;
        Ok(Self { plan, runs, scenarios })
    }

    /// Returns the names of the cells.
    #[getter]
    fn cells(&self) -> Vec<&str> {
        self.plan.cells().iter().map(|cell| cell.name.as_str()).collect()
    }

    /// Returns names and units of the metrics of each run.
    #[getter]
    fn measures(&self) -> Vec<(String, &'static str)> {
        self.plan.measures().to_vec()
    }

    /// Runs everything in this process.
    fn run(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<PyStudy> {
        let study = watched(py, self.plan.total_runs(), progress, |watch| self.plan.finish(&self.plan.run(watch)?))?;
        Ok(PyStudy(study.map_err(Error::from)?))
    }

    /// Returns the jobs for the runs `first..end`, counted through all cells.
    fn jobs<'py>(&self, py: Python<'py>, first: usize, end: usize) -> Vec<Job<'py>> {
        let job = |(cell, first, end): (usize, u32, u32)| {
            let scheme = self.plan.cells()[cell].scheme.name.to_owned();
            (self.scenarios[cell].bind(py).clone(), Vec::new(), scheme, first, end)
        };
        ranges(first..end, self.runs).map(job).collect()
    }

    /// Completes the study from the values of the runs of each cell.
    fn finish(&self, py: Python<'_>, values: Vec<Matrix<'_>>) -> PyResult<PyStudy> {
        let samples = values.iter().map(|values| table::samples(self.plan.measures(), values));
        let samples = samples.collect::<PyResult<Vec<_>>>()?;
        let study = watched(py, 0, None, |_| self.plan.finish(&samples))?;
        Ok(PyStudy(study.map_err(Error::from)?))
    }
}

#[pymethods]
impl PyStudy {
    /// Returns the name that selects the study.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the study's title.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// Returns the source of the published numbers.
    #[getter]
    fn citation(&self) -> &str {
        &self.0.citation
    }

    /// Returns the command that repeats the study.
    #[getter]
    fn command(&self) -> &str {
        &self.0.command
    }

    /// Returns the columns of the study's cells, as in `cells.csv` but not rounded.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = self.0.rows().map_err(Error::from)?;
        table::columns(py, row_columns(&rows).map_err(Error::from)?)
    }

    /// Returns the study's claims: letter or number, text, whether it holds (`None`: undecided), evidence.
    #[getter]
    fn claims(&self) -> Vec<(&str, &str, Option<bool>, String)> {
        let claims = self.0.claims.iter();
        claims.map(|claim| (&*claim.id, &*claim.text, claim.verdict(), claim.evidence())).collect()
    }

    /// Returns the study's figures: name, caption, SVG.
    fn figures(&self) -> Vec<(&str, &str, String)> {
        let figures = self.0.figures.iter().zip(self.0.colours());
        let figures =
            figures.map(|(figure, colours)| (&*figure.id, &*figure.caption, figure.figure.render_svg_in(&colours)));
        figures.collect()
    }

    /// Writes the files that `lasthop reproduce` writes, and returns their paths.
    fn write(&self, folder: PathBuf) -> PyResult<Vec<PathBuf>> {
        let files = self.0.files().map_err(Error::from)?;
        fs::create_dir_all(folder.join("figures"))?;
        let write = |(name, bytes): (String, Vec<u8>)| {
            let path = folder.join(name);
            fs::write(&path, bytes)?;
            Ok(path)
        };
        files.into_iter().map(write).collect()
    }
}
