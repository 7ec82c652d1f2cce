//! Columns for Python: buffers in the layout of Apache Arrow, without copying.

use lasthop_report::columns::{Column, Texts, Values};
use lasthop_study::measures::Samples;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Returns name, kind, number of values, and the buffers of each column: validity (or `None`), then those of its kind:
///
/// | kind | buffers |
/// |---|---|
/// | `float64`, `uint64`, `uint32` | values |
/// | `string` | offsets, bytes |
/// | `dictionary` | indices, and of the texts: offsets, bytes |
pub fn columns(py: Python<'_>, columns: Vec<Column>) -> PyResult<Vec<Bound<'_, PyTuple>>> {
    columns.into_iter().map(|of| column(py, of)).collect()
}

fn column(py: Python<'_>, Column { name, len, validity, values }: Column) -> PyResult<Bound<'_, PyTuple>> {
    let mut buffers = vec![validity.map(|bits| bits.into_pyarray(py).into_any())];
    let texts =
        |texts: Texts| [texts.offsets.into_pyarray(py).into_any(), texts.bytes.into_pyarray(py).into_any()].map(Some);
    let kind = match values {
        Values::Float(values) => {
            buffers.push(Some(values.into_pyarray(py).into_any()));
            "float64"
        }
        Values::Count(values) => {
            buffers.push(Some(values.into_pyarray(py).into_any()));
            "uint64"
        }
        Values::Word(values) => {
            buffers.push(Some(values.into_pyarray(py).into_any()));
            "uint32"
        }
        Values::Text(of) => {
            buffers.extend(texts(of));
            "string"
        }
        Values::Repeated(indices, of) => {
            buffers.push(Some(indices.into_pyarray(py).into_any()));
            buffers.extend(texts(of));
            "dictionary"
        }
    };
    (name, kind, len, buffers).into_pyobject(py)
}

/// Values of runs, row by row, as passed between processes.
pub type Matrix<'py> = PyReadonlyArray1<'py, f64>;

/// Returns the samples of runs from their values.
pub fn samples(columns: &[(String, &'static str)], values: &Matrix<'_>) -> PyResult<Samples> {
    Ok(Samples::from_values(columns.to_vec(), values.as_slice()?.to_vec()))
}

/// Returns the values of runs, row by row.
pub fn values<'py>(py: Python<'py>, samples: Samples) -> Bound<'py, PyArray1<f64>> {
    samples.into_values().into_pyarray(py)
}
