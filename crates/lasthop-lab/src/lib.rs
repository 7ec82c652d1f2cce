//! The lab: a scenario on real packets. It has a network namespace for each node, TCP of the kernel or of lasthop at
//! the hosts, kernel forwarding at the routers, and links emulated by the simulator's state machines, with errors from
//! the same seeds.
//!
//! | module | contents |
//! |---|---|
//! | [`namespace`] | namespaces by name, and their reliable removal |
//! | [`plan`] | from a network to devices, addresses and routes; limits of the lab |
//! | [`air`], [`emulator`] | the links: state machines and their thread; a moving host |
//! | [`routes`] | routes of kernels that change with such a host |
//! | [`kernel`] | support for the scenario's TCP in the kernel |
//! | [`lateness`] | timing accuracy of the links |
//! | [`ends`], [`kernel_tcp`], [`own_tcp`], [`transfer`] | the flows |
//! | [`quic`], [`datagrams`], [`udp`] | flows over QUIC, flows of datagrams, and their sockets |
//! | [`counts`], [`capture`] | counts inferred from packets; pcapng |
//! | [`monitor`] | traffic on the links over time |
//! | [`hold`] | a lab for other programs' packets |
//! | [`exec`], [`guest`], [`outside`] | a lab for one command, programs in it, its route to the outside |
//! | [`station`], [`elements`] | a scheme's base station: the gateway, and elements at the emulated links |
//! | [`host`] | lasthop's own TCP on a TUN device |
#![cfg(target_os = "linux")]

pub mod air;
pub mod capture;
pub mod counts;
pub mod datagrams;
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
pub mod offloads;
pub mod outside;
pub mod own_tcp;
pub mod plan;
pub mod quic;
pub mod routes;
mod run;
pub mod scheduling;
pub mod station;
pub mod transfer;
pub mod udp;

pub use capture::Captures;
pub use error::LabError;
pub use run::{Experiment, Outcome, Watch, run};
