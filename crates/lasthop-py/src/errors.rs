//! Errors as Python exceptions. Their classes are defined in Python, since they travel between the processes of a
//! cluster.

use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_report::ReportError;
use lasthop_scenario::Spot;
use lasthop_sim::Overflow;
use lasthop_study::link::{LinkError, lacks};
use lasthop_study::parts::PartsError;
use lasthop_study::study::StudyError;
use lasthop_study::sweep::{MAX_POINTS, SweepError};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// Any error of lasthop.
pub enum Error {
    Scenario(lasthop_scenario::Error),
    Sweep(SweepError),
    Parts(PartsError),
    Study(StudyError),
    Report(ReportError),
    Link(LinkError),
    Overflow(Overflow),
    /// Invalid argument.
    Argument(String),
}

macro_rules! from {
    ($($of:ty => $variant:ident),*) => { $(impl From<$of> for Error {
        fn from(error: $of) -> Self {
            Self::$variant(error)
        }
    })* };
}
from!(lasthop_scenario::Error => Scenario, SweepError => Sweep, PartsError => Parts, StudyError => Study, ReportError => Report, LinkError => Link, Overflow => Overflow);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Scenario(error)
            | Error::Sweep(SweepError::Scenario(error))
            | Error::Parts(PartsError::Sweep(SweepError::Scenario(error)))
            | Error::Study(StudyError::Scenario(error)) => scenario(&error),
            Error::Sweep(SweepError::Reserved { key, .. }) => {
                let argument = if key == "scheme" { "schemes" } else { &key };
                PyValueError::new_err(format!("vary: {key}: cannot be varied; give {argument}=..."))
            }
            Error::Sweep(SweepError::Twice { key }) => PyValueError::new_err(format!("vary: {key}: given twice")),
            Error::Sweep(SweepError::TooMany) => PyValueError::new_err(format!(
                "vary: too many combinations; give values for at most {MAX_POINTS} in all"
            )),
            Error::Parts(PartsError::Sweep(error)) => Error::Sweep(error).into(),
            Error::Parts(error @ (PartsError::Other { .. } | PartsError::Foreign { .. })) => {
                exception("SweepError", (error.to_string(),))
            }
            Error::Parts(error @ PartsError::File { .. }) => PyOSError::new_err(error.to_string()),
            Error::Sweep(SweepError::Report(error))
            | Error::Parts(PartsError::Report(error))
            | Error::Report(error) => PyOSError::new_err(error.to_string()),
            Error::Link(error @ LinkError::File { .. }) => PyOSError::new_err(error.to_string()),
            // The message uses this package's names.
            Error::Link(LinkError::Lacking { name, lacking, why }) => {
                let example = |what: &&str| if *what == "rate" { "rate=\"10 Mbps\"" } else { "delay=\"20 ms\"" };
                let examples = lacking.iter().map(example).collect::<Vec<_>>().join(", ");
                PyValueError::new_err(format!("{name}: the link's {}{why}; give {examples}", lacks(&lacking)))
            }
            Error::Link(error) => PyValueError::new_err(error.to_string()),
            Error::Overflow(overflow)
            | Error::Sweep(SweepError::Overflow(overflow))
            | Error::Study(StudyError::Overflow(overflow)) => PyValueError::new_err(overflow.to_string()),
            Error::Study(error) => PyValueError::new_err(error.to_string()),
            Error::Argument(message) => PyValueError::new_err(message),
        }
    }
}

/// Returns the scheme with this name.
pub fn scheme(name: &str) -> Result<&'static Scheme, Error> {
    Scheme::by_name(name).ok_or_else(|| {
        let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        Error::Argument(format!("no scheme {name:?}; expected one of {}", names.join(", ")))
    })
}

fn scenario(error: &lasthop_scenario::Error) -> PyErr {
    let line = if let Spot::Line(line) = error.spot() { Some(line) } else { None };
    exception("ScenarioError", (error.to_string(), error.file(), error.key(), line))
}

/// Creates an exception of a class of this package.
fn exception(name: &str, arguments: impl for<'py> PyCallArgs<'py>) -> PyErr {
    Python::attach(|py| {
        let class = py.import("lasthop._errors").and_then(|module| module.getattr(name));
        class.and_then(|class| class.call1(arguments)).map_or_else(|error| error, PyErr::from_value)
    })
}
