//! One module per command.

pub mod advise;
#[cfg(live)]
pub mod answers;
pub mod compare;
pub mod completions;
pub mod conform;
pub mod convert;
#[cfg(live)]
pub mod daemon;
pub mod diagnose;
pub mod explain;
pub mod fit;
#[cfg(live)]
pub mod gateway;
pub mod keys;
#[cfg(live)]
pub mod lab;
pub mod man;
pub mod plot;
#[cfg(live)]
pub mod probe;
pub mod reproduce;
pub mod run;
pub mod scenarios;
pub mod schemes;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub mod site;
#[cfg(live)]
pub mod status;
pub mod sweep;
mod tables;
pub mod trace;
#[cfg(live)]
pub mod tunnel;
