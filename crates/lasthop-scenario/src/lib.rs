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
//! Internally, `lasthop-settings` parses the text into a tree of values with their places, and reads it by key. `tcp`,
//! `nodes`, `flows`, `channel`, `stations` and `snoop` read one part of the scenario each. `modern` combines the
//! defaults of modern Linux with the scenario's settings of its endpoints. `files` opens the files that a scenario
//! names. `resolve` applies a scheme to the result, and `explain` prints the ledger.
#![forbid(unsafe_code)]

// A macro of another crate would keep the compiler from reporting keys that nothing reads.
#[path = "../../lasthop-settings/src/keys.rs"]
#[macro_use]
mod keys;

mod builtin;
mod bundle_links;
mod bundles;
mod call;
mod cell;
mod channel;
mod customer;
mod decided;
pub mod elements;
mod explain;
mod files;
mod flow_names;
mod flows;
mod impairments;
mod key_tables;
mod lab;
mod link_trace;
mod measurement;
mod mobility;
mod modern;
mod netem;
mod nodes;
mod place;
mod quantities;
mod queue;
mod quic;
mod rate_variation;
mod resolve;
mod scenario;
mod script;
mod sessions;
mod shared_keys;
mod spec;
mod stations;
mod tcp;
mod tcp_effect;
mod tcp_keys;
mod traffic;
mod variation;
mod wifi;

use lasthop_settings::{document, key, reader, sides, snoop, values};

pub use builtin::builtin_names;
pub use customer::Customer;
pub use flows::default_dscp;
pub use key_tables::key_table;
pub use lab::{Endpoints, KernelSettings, LabSpec};
pub use lasthop_settings::{
    Error, PATIENCE, Place, Problem, SideSettings, SplitSettings, Spot, check_interface_name, did_you_mean, one_line,
    read_limited, reading, tunnel, units,
};
pub use measurement::{Alternative, Measurement};
pub use quantities::Numbers;
pub use scenario::{Scenario, Source};
pub use tcp_effect::Idle;
pub use traffic::Traffic;
pub use values::ElnSource;
