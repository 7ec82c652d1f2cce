//! What any daemon of this workspace needs around its work (Linux).
//!
//! | module | holds |
//! |---|---|
//! | [`child`] | a worker as its supervisor sees it |
//! | [`keeper`] | keeps a worker alive |
//! | [`supervision`] | what every supervisor does while its daemon runs |
//! | [`channel`] | what the two say to each other |
//! | [`signals`] | signals, and the service manager |
//! | [`control`] | the socket on which a supervisor answers |
//! | [`wishes`] | what is asked of it there |
//! | [`clients`] | whoever connects to a socket of its |
//! | [`groups`] | whose users may ask |
//! | [`metrics`] | figures for Prometheus, over HTTP |
//! | [`logs`] | what daemons write about themselves |
//! | [`finding`] | what a check of the machine found |
//! | [`ab`] | treated and untreated connections compared |
//! | [`flows`] | connections by addresses and ports, at most so many |
//! | [`observe`] | what a bystander can tell about a connection |
//! | [`recording`] | what a worker was told and decided, in a file |
//! | [`interfaces`] | what the kernel says about interfaces |
//! | [`heartbeat`] | what BPF programs listen to, that let packets pass when it stops |
//! | [`shared`] | a state that threads share |
//! | [`system_error`] | what the system refused |
#![cfg(target_os = "linux")]

pub mod ab;
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
pub mod supervision;
pub mod system_error;
pub mod wishes;
