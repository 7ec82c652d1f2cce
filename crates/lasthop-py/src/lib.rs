//! Compiled part of the Python package: scenarios, runs and traces of `lasthop-scenario`, `-study` and `-report`,
//! passed to Python without copying. The public interface is in `python/lasthop`, on top of this.
#![forbid(unsafe_code)]

mod advice;
mod atlas;
mod errors;
mod figures;
mod measured;
mod scenario;
mod study;
mod sweep;
mod table;
mod trace;
mod watch;

use lasthop_proto::scheme::SCHEMES;
use lasthop_scenario::Numbers;
use pyo3::prelude::*;

/// Numbers among values: their position in a value, their unit, whether they are whole, and each value's number.
type Found = (String, Option<&'static str>, bool, Vec<Option<f64>>);

/// The compiled part of lasthop.
#[pymodule]
mod _lasthop {
    use super::*;

    #[pymodule_export]
    use super::advice::PyAdvice;
    #[pymodule_export]
    use super::atlas::{PyAtlasMap, PyLinks, atlas_dimensions, atlas_schemes};
    #[pymodule_export]
    use super::figures::{bars_svg, lines_svg};
    #[pymodule_export]
    use super::measured::{PyDiagnosis, PyFit, diagnose_between};
    #[pymodule_export]
    use super::scenario::PyScenario;
    #[pymodule_export]
    use super::study::{PyPlan, PyStudy};
    #[pymodule_export]
    use super::sweep::{PyParts, PySweep, measure};
    #[pymodule_export]
    use super::trace::PyTrace;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__build__", lasthop_identity::BUILD)
    }

    /// Returns name, family and summary of each scheme.
    #[pyfunction]
    fn schemes() -> Vec<(&'static str, &'static str, &'static str)> {
        SCHEMES.iter().map(|scheme| (scheme.name, scheme.family.name(), scheme.summary)).collect()
    }

    /// Returns the numbers among the values of a key.
    #[pyfunction]
    fn numbers(values: Vec<String>) -> Vec<Found> {
        let of = |numbers: Numbers| (numbers.path, numbers.unit, numbers.whole, numbers.values);
        Numbers::of(&values).into_iter().map(of).collect()
    }

    /// Returns whether a path is a measurement, not a scenario.
    #[pyfunction]
    fn is_measurement(path: std::path::PathBuf) -> bool {
        lasthop_study::link::is_measurement(&path)
    }

    /// Returns the names of the ready-made scenarios.
    #[pyfunction]
    fn builtin_names() -> Vec<&'static str> {
        lasthop_scenario::builtin_names().collect()
    }
}
