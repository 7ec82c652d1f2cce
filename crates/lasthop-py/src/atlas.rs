//! The atlas: its links, their runs, and the map of the results.

use lasthop_report::columns::Column;
use lasthop_study::atlas::{DIMENSIONS, Links, Map, NAMES, SCHEMES, definition};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::Error;
use crate::table::{self, Matrix};
use crate::watch::watched;

/// Links of a seed.
#[pyclass(frozen, name = "Links", module = "lasthop._lasthop")]
pub struct PyLinks(Links);

/// Map of results that is being computed.
#[pyclass(name = "AtlasMap", module = "lasthop._lasthop")]
pub struct PyAtlasMap {
    map: Map,
    links: Links,
}

#[pymethods]
impl PyLinks {
    #[new]
    fn new(seed: u64) -> PyResult<Self> {
        Ok(Self(Links::new(seed).map_err(Error::from)?))
    }

    /// Returns everything that the rows depend on, as text.
    fn definition(&self) -> PyResult<String> {
        Ok(definition(self.0.seed()).map_err(Error::from)?)
    }

    /// Returns the columns of the links `first..end`: number, properties, duration of the download.
    fn columns<'py>(&self, py: Python<'py>, first: u32, end: u32) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let links: Vec<_> = (first..end).map(|number| self.0.link(number)).collect();
        let mut columns = vec![Column::counts("link".to_owned(), (first..end).map(|number| Some(number.into())))];
        for (at, dimension) in DIMENSIONS.iter().enumerate() {
            let unit = match dimension.unit {
                "%" => "percent",
                unit => unit,
            };
            let values = links.iter().map(|link| Some(f64::from(link.values[at]) / f64::from(dimension.scale)));
            columns.push(Column::floats(format!("{}_{unit}", dimension.id.replace('-', "_")), values));
        }
        columns.push(Column::floats("seconds".to_owned(), links.iter().map(|link| Some(link.time().as_secs_f64()))));
        table::columns(py, columns)
    }

    /// Returns the keys of the ready-made scenario that describe a link, with their values.
    fn keys(&self, number: u32) -> Vec<(String, String)> {
        self.0.link(number).keys()
    }

    /// Runs the links `first..end`, and returns the throughput of each scheme in Mbps, link by link.
    fn measure<'py>(
        &self,
        py: Python<'py>,
        first: u32,
        end: u32,
        jobs: usize,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let total = u64::from(end.saturating_sub(first)) * SCHEMES as u64;
        let rows =
            watched(py, total, progress, |watch| self.0.measure(first..end, jobs, watch))?.map_err(Error::from)?;
        Ok(rows.into_iter().flat_map(|row| row.throughputs).collect::<Vec<f64>>().into_pyarray(py))
    }
}

#[pymethods]
impl PyAtlasMap {
    /// Creates a map of the links of `seed` that this build simulates.
    #[new]
    fn new(seed: u64) -> PyResult<Self> {
        Ok(Self { map: Map::new(seed, lasthop_identity::BUILD), links: Links::new(seed).map_err(Error::from)? })
    }

    /// Adds the links from `first` on, with the throughput of each scheme in Mbps, link by link.
    fn add(&mut self, first: u32, throughputs: Matrix<'_>) -> PyResult<()> {
        let (rows, _) = throughputs.as_slice()?.as_chunks::<SCHEMES>();
        for (number, row) in (first..).zip(rows) {
            self.map.add(&self.links.link(number), row);
        }
        Ok(())
    }

    /// Returns the number of links.
    #[getter]
    fn links(&self) -> u64 {
        self.map.head.links
    }

    /// Returns the file.
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.map.to_bytes().map_err(|error| Error::Argument(error.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the results of a selection as JSON: the number of a bin for each dimension, or `None` for all.
    fn region(&self, bins: Vec<Option<usize>>) -> PyResult<String> {
        let selection = bins.try_into().map_err(|bins: Vec<_>| {
            Error::Argument(format!("bins: {} given; expected {}", bins.len(), DIMENSIONS.len()))
        })?;
        Ok(self.map.region(&selection).to_json().to_string())
    }
}

/// Returns the names of the atlas's schemes; the first is no cure.
#[pyfunction]
pub fn atlas_schemes() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Returns name, label, and bins of each dimension of the atlas.
#[pyfunction]
pub fn atlas_dimensions() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let bins = |at: usize| (0..DIMENSIONS[at].bins()).map(|bin| DIMENSIONS[at].bin_words(bin)).collect();
    DIMENSIONS.iter().enumerate().map(|(at, dimension)| (dimension.id, dimension.label, bins(at))).collect()
}
