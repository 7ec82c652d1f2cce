//! One file a command.

pub mod compare;
pub mod completions;
pub mod explain;
pub mod lab;
pub mod plot;
pub mod reproduce;
pub mod run;
pub mod schemes;
pub mod sweep;
pub mod trace;
