//! The gateway: its treatment of forwarded TCP connections, and the daemon around it.
//!
//! | module | contents |
//! |---|---|
//! | [`engine`] | decisions on packets, without I/O and clock |
//! | [`split`] | relay of split connections |
//! | [`family`] | IP versions |
//! | [`configuration`] | configuration file, parsed into checked types |
//! | [`settings`] | conversion of the configuration for engine and relay |
//! | [`firewall`] | netfilter rules that direct packets to the gateway |
//! | [`daemon`] | processes: packet I/O, supervision, control, metrics |
#![cfg(target_os = "linux")]

// A macro of another crate would keep the compiler from reporting keys that nothing reads.
#[path = "../../lasthop-settings/src/keys.rs"]
#[macro_use]
mod keys;

pub mod configuration;
pub mod daemon;
pub mod engine;
pub mod family;
pub mod firewall;
pub mod settings;
pub mod split;
