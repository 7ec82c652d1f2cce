//! The lab: a scenario on real packets. A network namespace for each node, TCP of the kernel or of lasthop at the hosts,
//! kernel forwarding at the routers, and between them links that the simulator's own state machines emulate, with its errors from the same seeds.
//!
//! | module | holds |
//! |---|---|
//! | [`namespace`] | namespaces by name, and removing them whatever happens |
//! | [`plan`] | from a network to devices, addresses and routes; what the lab cannot do |
//! | [`air`], [`emulator`] | the links: state machines and their thread; a host that moves |
//! | [`routes`] | routes of kernels that change with such a host |
//! | [`kernel`] | what of the scenario's TCP a kernel has |
//! | [`lateness`] | how well the links kept time |
//! | [`ends`], [`kernel_tcp`], [`own_tcp`], [`transfer`] | the flows |
//! | [`quic`] | flows over QUIC |
//! | [`counts`], [`capture`] | what is told from the packets; pcapng |
//! | [`monitor`] | what crosses the links over time |
//! | [`hold`] | a lab for other programs' packets |
//! | [`exec`], [`guest`], [`outside`] | a lab for one command, programs in it, its route to the outside |
//! | [`station`], [`elements`] | what a scheme does at the base station: the gateway, and at the emulated links |
//! | [`host`] | lasthop's own TCP on a TUN device |
#![cfg(target_os = "linux")]

pub mod air;
pub mod capture;
pub mod counts;
pub mod elements;
pub mod emulator;
pub mod ends;
mod error;
pub mod exec;
pub mod guest;
pub mod hold;
pub mod host;
pub mod kernel;
pub mod kernel_tcp;
pub mod lateness;
pub mod monitor;
pub mod namespace;
pub mod outside;
pub mod own_tcp;
pub mod plan;
pub mod quic;
pub mod routes;
mod run;
pub mod scheduling;
pub mod station;
pub mod transfer;

pub use capture::Captures;
pub use error::LabError;
pub use run::{Experiment, Outcome, Watch, run};
