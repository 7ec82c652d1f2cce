//! What the system refused to a daemon.

use std::io;

/// Something in the system that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct SystemError {
    /// What was tried.
    what: &'static str,
    /// Why it failed.
    error: io::Error,
}

/// Names what was tried, for `map_err`.
pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> SystemError {
    move |error| SystemError { what, error }
}
