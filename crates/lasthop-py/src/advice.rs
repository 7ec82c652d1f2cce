//! Advice: the cure that helps on a link.

use lasthop_report::columns::Column;
use lasthop_study::advise::{Advice, HopRates, Needs, Places, Plan, Use};
use lasthop_study::install::tunnel::End;
use lasthop_study::install::{Installed, Site, installed};
use lasthop_study::promise::Promise;
use lasthop_study::replicate::run_in_rounds;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::Error;
use crate::scenario::PyScenario;
use crate::table;
use crate::watch::watched;

/// Cures with their results.
#[pyclass(frozen, name = "Advice", module = "lasthop._lasthop")]
pub struct PyAdvice {
    advice: Advice,
    promise: Promise,
    rates: Option<HopRates>,
}

/// End of the two-ended link: host, file of the private key, public key, networks behind it.
type GivenEnd = (Option<String>, String, Option<String>, Vec<String>);

/// Names and contents of files, and the next steps.
type Files = (Vec<(&'static str, String)>, Vec<String>);

#[pymethods]
impl PyAdvice {
    /// Simulates the cures.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        scenario: &Bound<'_, PyScenario>,
        control: Vec<String>,
        place: Option<String>,
        uses: Vec<String>,
        seed: u64,
        runs: u32,
        jobs: usize,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        fn named<T>(argument: &str, names: &[String], by_name: fn(&str) -> Result<T, String>) -> Result<Vec<T>, Error> {
            let wrong = |name: &str, why: String| Error::Argument(format!("{argument}: {name:?}: {why}"));
            names.iter().map(|name| by_name(name).map_err(|why| wrong(name, why))).collect()
        }
        let needs = named("control", &control, Needs::by_name)?;
        let uses = named("uses", &uses, Use::by_name)?;
        let place = named("place", place.as_slice(), Places::by_name)?;
        let scenario = &scenario.get().0;
        let plan = Plan::at(scenario, &needs, place.last().copied(), &uses, seed, runs).map_err(Error::from)?;
        let total = plan.tasks().len() as u64 * u64::from(runs);
        let reports =
            watched(py, total, progress, |watch| run_in_rounds(plan.tasks(), jobs, watch))?.map_err(Error::from)?;
        let none = || Error::Argument("control, uses: nothing to simulate; give at least one of each".to_owned());
        let advice = plan.judge(&reports).ok_or_else(none)?;
        let promise = Promise::new(scenario.title(), seed, &advice);
        Ok(Self { advice, promise, rates: plan.hop_rates() })
    }

    /// Returns the columns of a table with a row for each cure and use.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let rows = || {
            let cured = self.advice.cured.iter();
            cured.flat_map(|cured| cured.results.iter().map(move |result| (cured, result)))
        };
        let text = |name: &str, texts: &mut dyn Iterator<Item = String>| {
            Column::repeated(name.to_owned(), texts).map_err(Error::from)
        };
        let float = |name: &str, values: &mut dyn Iterator<Item = Option<f64>>| Column::floats(name.to_owned(), values);
        // Infinite values are null, as in JSON.
        let finite = |value: f64| value.is_finite().then_some(value);
        let columns = vec![
            text("cure", &mut rows().map(|(cured, _)| cured.cure.name()))?,
            text("needs", &mut rows().map(|(cured, _)| cured.cure.needs_words().to_owned()))?,
            text("use", &mut rows().map(|(_, result)| result.usage.name().to_owned()))?,
            text("unit", &mut rows().map(|(_, result)| result.usage.unit().to_owned()))?,
            float("value", &mut rows().map(|(_, result)| Some(result.value.mean))),
            float("ci95", &mut rows().map(|(_, result)| result.value.ci95)),
            float("ratio", &mut rows().map(|(_, result)| result.factor.and_then(|factor| finite(factor.mean)))),
            float("ratio_low", &mut rows().map(|(_, result)| result.factor.and_then(|it| finite(it.interval.0)))),
            float("ratio_high", &mut rows().map(|(_, result)| result.factor.and_then(|it| finite(it.interval.1)))),
        ];
        table::columns(py, columns)
    }

    /// Returns the JSON of `lasthop advise --json`.
    fn json(&self) -> String {
        self.advice.to_json(&self.promise).to_string()
    }

    /// Returns the advice in sentences.
    #[getter]
    fn words(&self) -> Vec<String> {
        self.advice.words()
    }

    /// Returns the files of a cure, and the next steps.
    fn files(&self, cure: &str, interface: Option<String>, near: GivenEnd, far: GivenEnd) -> PyResult<Files> {
        let end = |(host, key_file, public_key, behind): GivenEnd| End {
            host,
            key_file,
            public_key: public_key.unwrap_or_default(),
            behind,
        };
        let site = Site { interface, near: end(near), far: end(far), rates: self.rates };
        let Installed { files, steps } = installed(cure, &site)
            .map_err(|unfit| Error::Argument(format!("{}: {}", unfit.what.replace('-', "_"), unfit.message)))?;
        Ok((files, steps))
    }
}
