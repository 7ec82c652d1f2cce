//! Errors returned by the operating system.

use std::io;

/// Failed operation of the system.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct SystemError {
    /// The operation.
    what: &'static str,
    /// Error returned by the operating system.
    error: io::Error,
}

/// Returns a closure for `map_err` that adds the operation.
pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> SystemError {
    move |error| SystemError { what, error }
}
