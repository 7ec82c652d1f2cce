//! Scenario files: TOML with units, parsed into checked types, and together with a scheme into the networks that
//! `lasthop-sim` runs.
//!
//! ```
//! use lasthop_proto::scheme::Scheme;
//! use lasthop_scenario::Scenario;
//!
//! let scenario = Scenario::builtin("wavelan-lan")?;
//! let slower = scenario.with_overrides(&[("links.wireless.rate", "1 Mbps")])?;
//! let network = slower.network(Scheme::by_name("LL-TCP-AWARE").unwrap())?;
//! assert_eq!(network.elements.len(), 1);
//! # Ok::<(), lasthop_scenario::Error>(())
//! ```
//!
//! `docs/scenarios.md` describes every key. An invalid scenario results in an [`Error`], one line with the file, the
//! line, the key, the given value, and the correct form.
//!
//! Internally, the text becomes a tree of values with their places (`document`). A `reader` accesses it by key, and
//! enters each value and each default into a ledger. `tcp`, `nodes`, `flows`, `channel`, `stations` and `snoop` read
//! one part of the scenario each. `today` combines the defaults of modern Linux with the scenario's settings of its
//! endpoints. `files` opens the files that a scenario names. `resolve` applies a scheme to the result, and `explain`
//! prints the ledger.
#![forbid(unsafe_code)]

mod builtin;
mod call;
mod channel;
mod daemon;
mod decided;
mod document;
pub mod elements;
mod error;
mod explain;
mod files;
mod flow_names;
mod flows;
mod impairments;
mod interface_name;
mod lab;
mod measurement;
mod mobility;
mod netem;
mod nodes;
mod one_line;
mod place;
mod quantities;
mod queue;
mod quic;
mod rate_variation;
mod reader;
pub mod reading;
mod resolve;
mod scenario;
mod script;
mod sessions;
mod sides;
mod snoop;
mod spec;
mod stations;
mod tcp;
mod tcp_effect;
mod tcp_keys;
mod today;
mod traffic;
pub mod tunnel;
pub mod units;
mod values;
mod variation;

pub use builtin::builtin_names;
pub use error::{Error, Place, Problem, Spot, did_you_mean};
pub use files::read_limited;
pub use interface_name::check_interface_name;
pub use lab::{Endpoints, KernelSettings, LabSpec};
pub use measurement::{Alternative, Measurement};
pub use one_line::one_line;
pub use quantities::Numbers;
pub use scenario::{Scenario, Source};
pub use sides::{PATIENCE, SideSettings, SplitSettings};
pub use tcp_effect::Idle;
pub use traffic::Traffic;
pub use values::ElnSource;
