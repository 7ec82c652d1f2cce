//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet: no I/O, no clock |
//! | [`rules`] | what an engine is told: which connections, which treatment |
//! | [`counters`] | what it reports |
//! | [`ab`] | the comparison of treated and untreated connections |

pub mod ab;
pub mod counters;
pub mod engine;
mod flow;
mod flows;
mod held;
mod observe;
pub mod rules;
mod treatment;
