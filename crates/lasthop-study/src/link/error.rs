//! Errors of reading the measurement of a link.

use std::io;
use std::path::{Path, PathBuf};

use lasthop_diagnose::capture::CaptureError;
use lasthop_fit::probe::ProbeError;
use lasthop_fit::read::ReadError;

/// Error of reading the measurement of a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// The file is not a list of losses.
    #[error("{}: {error}", path.display())]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: ReadError,
    },
    /// The file is not a report of a probe.
    #[error("{}: {error}", path.display())]
    Probe {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: ProbeError,
    },
    /// The file is not a capture.
    #[error("{}: {error}", path.display())]
    Capture {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: CaptureError,
    },
    /// The capture contains no data.
    #[error("{}: no TCP flow that sends data; {why}", path.display())]
    NoFlow {
        /// Path of the file.
        path: PathBuf,
        /// Description of the missing packets.
        why: String,
    },
    /// The capture does not contain the requested packets.
    #[error("{}: {what}", path.display())]
    Without {
        /// Path of the file.
        path: PathBuf,
        /// Description of the missing packets.
        what: String,
    },
    /// A value that a scenario needs is neither measured nor given.
    #[error("{name}: the link's {}{why}; give {}", lacks(lacking), flags(lacking))]
    Lacking {
        /// Name of the measurement.
        name: String,
        /// Missing values: `rate`, `delay`.
        lacking: Vec<&'static str>,
        /// Reason in parentheses, or empty.
        why: String,
    },
    /// A given value contradicts the measurement.
    #[error("{name}: {what}")]
    Contradiction {
        /// Name of the measurement.
        name: String,
        /// Description of the contradiction, with advice.
        what: String,
    },
    /// Reading was stopped.
    #[error("{}: stopped", path.display())]
    Stopped {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Returns the missing values as the end of a sentence: `rate and delay are not known from it`.
pub fn lacks(lacking: &[&str]) -> String {
    format!("{} {} unknown", lacking.join(" and "), if lacking.len() == 1 { "is" } else { "are" })
}

fn flags(lacking: &[&str]) -> String {
    let one = |name: &&str| if *name == "rate" { "--rate, e.g. \"10 Mbps\"" } else { "--delay, e.g. \"20 ms\"" };
    lacking.iter().map(one).collect::<Vec<_>>().join(", and ")
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_path_buf();
    move |error| LinkError::File { path, error }
}
