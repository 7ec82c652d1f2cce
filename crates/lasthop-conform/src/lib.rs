//! Conformance runner.
pub mod code;
pub mod differential;
pub mod format;
#[cfg(all(feature = "kernel", target_os = "linux"))]
pub mod kernel;
pub mod lasthop;
pub mod parse;
pub mod run;
pub mod script;
pub mod shell;
pub mod stack;
pub mod suite;
