//! Common parts of this workspace's daemons (Linux).
//!
//! | module | contents |
//! |---|---|
//! | [`worker`] | loop of every worker, over a trait with the parts specific to one daemon |
//! | [`child`] | a worker from the perspective of its supervisor |
//! | [`keeper`] | start and replacement of workers |
//! | [`supervision`] | every supervisor, over a trait with the parts specific to one daemon |
//! | [`channel`] | messages between the two |
//! | [`signals`] | signals, and the service manager |
//! | [`control`] | control socket of a supervisor |
//! | [`status`] | answers of a daemon as types |
//! | [`wishes`] | reload requests from other threads |
//! | [`clients`] | clients of a socket |
//! | [`groups`] | group of the control socket |
//! | [`metrics`] | metrics for Prometheus, over HTTP |
//! | [`logs`] | logging |
//! | [`finding`] | findings of a check of the machine |
//! | [`ab`] | comparison of treated and untreated connections |
//! | [`flows`] | bounded table of connections by addresses and ports |
//! | [`observe`] | passive measurement of a connection |
//! | [`recording`] | recording of a worker's inputs and decisions |
//! | [`interfaces`] | state of interfaces |
//! | [`bridge`] | interfaces whose frames a daemon takes, and BPF programs there |
//! | [`heartbeat`] | heartbeat for BPF programs, which let packets pass when it stops |
//! | [`shared`] | state shared between threads |
//! | [`system_error`] | errors of the system |
#![cfg(target_os = "linux")]

pub mod ab;
pub mod bridge;
pub mod channel;
pub mod child;
pub mod clients;
pub mod control;
pub mod finding;
pub mod flows;
pub mod groups;
pub mod heartbeat;
pub mod interfaces;
pub mod keeper;
pub mod logs;
pub mod metrics;
pub mod observe;
pub mod recording;
pub mod shared;
pub mod signals;
pub mod status;
pub mod supervision;
pub mod system_error;
pub mod wishes;
pub mod worker;
