//! From a measurement to a cure and its proof: what the page of five steps asks for, computed. No sockets here, and no file of this
//! machine: measurements come with the request and are gone with the answer.
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
mod words;

pub use self::advice::advise;
pub use self::configuration::configuration;
pub use self::measurement::link;
pub use self::proof::prove;

/// Most bytes of all files of a measurement.
pub const LARGEST_MEASUREMENT: usize = 64 << 20;
/// Most bytes of a scenario that is asked about.
pub const LARGEST_SCENARIO: usize = 128 << 10;
/// Most bytes of a promise and a report.
pub const LARGEST_REPORT: usize = 2 << 20;

#[cfg(test)]
#[path = "cure/tests.rs"]
mod tests;
