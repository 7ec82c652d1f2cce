//! Reasons why a file is not a measurement of a link.

use std::io;
use std::path::{Path, PathBuf};

use lasthop_diagnose::capture::CaptureError;
use lasthop_fit::probe::ProbeError;
use lasthop_fit::read::ReadError;

/// Why a file is no measurement of a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no list of losses.
    #[error("{}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ReadError,
    },
    /// It is no report of a probe.
    #[error("{}: {error}", path.display())]
    Probe {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ProbeError,
    },
    /// It is no capture.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        error: CaptureError,
    },
    /// A capture without data in it.
    #[error("{}: no TCP flow that sends data; {why}", path.display())]
    NoFlow {
        /// The file.
        path: PathBuf,
        /// What is missing in the capture.
        why: String,
    },
    /// A capture without what is asked for.
    #[error("{}: {what}", path.display())]
    Without {
        /// The file.
        path: PathBuf,
        /// What is not in it.
        what: String,
    },
    /// Something that a scenario needs is neither measured nor given.
    #[error("{name}: the link's {}{why}; give {}", lacks(lacking), flags(lacking))]
    Lacking {
        /// The measurement.
        name: String,
        /// `rate`, `delay`.
        lacking: Vec<&'static str>,
        /// Reason in parentheses, or nothing.
        why: String,
    },
    /// What is given contradicts the measurement.
    #[error("{name}: {what}")]
    Contradiction {
        /// The measurement.
        name: String,
        /// What contradicts what, and what would be right.
        what: String,
    },
    /// Whoever waited has gone.
    #[error("{}: stopped", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

/// What is lacking, as a sentence goes on: `rate and delay are not known from it`.
pub fn lacks(lacking: &[&str]) -> String {
    format!("{} {} not known from it", lacking.join(" and "), if lacking.len() == 1 { "is" } else { "are" })
}

fn flags(lacking: &[&str]) -> String {
    let one = |name: &&str| if *name == "rate" { "--rate, as \"10 Mbps\"" } else { "--delay, as \"20 ms\"" };
    lacking.iter().map(one).collect::<Vec<_>>().join(", and ")
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_path_buf();
    move |error| LinkError::File { path, error }
}
