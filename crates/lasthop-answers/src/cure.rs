//! Computations of the page of five steps, from a measurement to a cure and its proof. There are no sockets here, and
//! no files of this machine are read: measurements come with the request and are discarded with the answer.
//!
//! | step | function | command |
//! |---|---|---|
//! | measure, model | [`link`] | `lasthop diagnose`, `lasthop fit` |
//! | choose | [`advise`] | `lasthop advise` |
//! | install | [`configuration`] | `lasthop advise --out` |
//! | prove | [`prove`] | `lasthop gateway report --promise`, `lasthop tunnel report` |

mod advice;
mod configuration;
mod measurement;
mod pictures;
mod proof;

pub use self::advice::advise;
pub use self::configuration::configuration;
pub use self::measurement::link;
pub use self::proof::prove;

/// Maximum size of all files of a measurement, in bytes.
pub const LARGEST_MEASUREMENT: usize = 64 << 20;
/// Maximum size of a scenario, in bytes.
pub const LARGEST_SCENARIO: usize = 128 << 10;
/// Maximum size of a promise and a report, in bytes.
pub const LARGEST_REPORT: usize = 2 << 20;

#[cfg(test)]
#[path = "cure/tests.rs"]
mod tests;
