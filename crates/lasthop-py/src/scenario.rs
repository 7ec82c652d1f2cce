//! Scenarios.

use std::path::{self, PathBuf};

use lasthop_scenario::{Scenario, Source};
use lasthop_study::meaning::meanings;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{Error, scheme};

/// Scenario that has been parsed and checked.
#[pyclass(frozen, name = "Scenario", module = "lasthop._lasthop")]
pub struct PyScenario(pub Scenario);

/// Scheme that is the same run, and a remark.
type Remark = (Option<&'static str>, Option<String>);

fn new(scenario: Result<Scenario, lasthop_scenario::Error>) -> Result<PyScenario, Error> {
    Ok(PyScenario(scenario?))
}

#[pymethods]
impl PyScenario {
    /// Reads a scenario file.
    #[staticmethod]
    fn load(path: PathBuf) -> Result<Self, Error> {
        new(Scenario::load(path))
    }

    /// Returns the ready-made scenario with this name.
    #[staticmethod]
    fn builtin(name: &str) -> Result<Self, Error> {
        new(Scenario::builtin(name))
    }

    /// Parses a scenario from its text; `name` identifies it in messages.
    #[staticmethod]
    fn parse(text: &str, name: &str) -> Result<Self, Error> {
        new(Scenario::parse(name, text))
    }

    /// Opens a file if there is one or if the name looks like one, otherwise a ready-made scenario.
    #[staticmethod]
    fn open(name: &str) -> Result<Self, Error> {
        new(Scenario::open(name))
    }

    /// Recreates a scenario from its file's name, text, folder, and overrides.
    #[staticmethod]
    fn from_source(
        file: String,
        text: String,
        directory: PathBuf,
        overrides: Vec<(String, String)>,
    ) -> Result<Self, Error> {
        new(Scenario::from_source(Source { file, text, directory, overrides, customer: None, traffic: None }))
    }

    /// Returns the scenario with other values: dotted keys and texts, as `lasthop run --set` takes them.
    fn with_overrides(&self, values: Vec<(String, String)>) -> Result<Self, Error> {
        new(self.0.with_overrides(&values).map_err(|error| error.set_by("set()")))
    }

    /// Returns, for each of these schemes, the other one among them that is the same run, if any, and a remark.
    fn remarks(&self, names: Vec<String>) -> Result<Vec<Remark>, Error> {
        let schemes = names.iter().map(|name| scheme(name)).collect::<Result<Vec<_>, _>>()?;
        let networks = schemes.iter().map(|scheme| self.0.network(scheme)).collect::<Result<Vec<_>, _>>()?;
        let meanings = meanings(&self.0, &schemes, &networks.iter().collect::<Vec<_>>());
        Ok(meanings.iter().map(|meaning| (meaning.same_as.map(|scheme| scheme.name), meaning.remark())).collect())
    }

    /// Returns the names of the schemes that are compared by default.
    fn usual_schemes(&self) -> Vec<&'static str> {
        self.0.usual_schemes().iter().map(|scheme| scheme.name).collect()
    }

    /// Returns the scenario as TOML with every default.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    /// Returns the scenario as TOML with every default, each with a comment on its origin; under a scheme, with the
    /// values that it determines.
    #[pyo3(signature = (scheme_name=None))]
    fn explain(&self, scheme_name: Option<&str>) -> PyResult<String> {
        match scheme_name {
            Some(name) => Ok(self.0.explain_under(scheme(name)?).map_err(Error::from)?),
            None => Ok(self.0.explain()),
        }
    }

    /// Returns the name of the scenario's file.
    #[getter]
    fn file(&self) -> &str {
        self.0.file()
    }

    /// Returns the scenario's title, one line.
    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    /// Returns the scenario's description.
    #[getter]
    fn description(&self) -> Option<&str> {
        self.0.description()
    }

    /// Returns the name of the default scheme.
    #[getter]
    fn scheme(&self) -> &'static str {
        self.0.scheme().name
    }

    /// Returns the default number of runs.
    #[getter]
    fn runs(&self) -> u32 {
        self.0.runs()
    }

    /// Returns the default root seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Pickles the scenario; relative paths in it keep referring to this folder.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let Source { file, text, directory, overrides, .. } = self.0.source();
        let directory =
            path::absolute(if directory.as_os_str().is_empty() { ".".as_ref() } else { directory.as_path() })?;
        let make = py.get_type::<Self>().getattr("from_source")?;
        Ok((make, (file, text, directory, overrides.clone()).into_pyobject(py)?))
    }
}
