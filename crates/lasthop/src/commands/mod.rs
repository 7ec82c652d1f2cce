//! One module per command.

pub mod advise;
#[cfg(target_os = "linux")]
pub mod answers;
pub mod compare;
pub mod completions;
pub mod diagnose;
pub mod explain;
pub mod fit;
#[cfg(target_os = "linux")]
pub mod gateway;
#[cfg(target_os = "linux")]
pub mod lab;
pub mod man;
pub mod plot;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
pub mod recorded;
pub mod reproduce;
pub mod run;
pub mod scenarios;
pub mod schemes;
pub mod serve;
pub mod sweep;
mod tables;
pub mod trace;
#[cfg(target_os = "linux")]
pub mod tunnel;
