//! Measurement of the path between two ends.
//!
//! [`Client`] and [`Server`] are state machines: a driver passes them datagrams and the time, and sends their output.
//! [`estimate`] derives numbers from the packets sent and received; it knows neither protocol nor clock. `live` runs
//! both ends over UDP. `docs/probe.md` describes what is measured and how.
#![forbid(unsafe_code)]

pub mod client;
mod end;
pub mod estimate;
mod key;
#[cfg(target_os = "linux")]
pub mod live;
pub mod moving;
mod order;
mod plan;
pub mod report;
mod server;
mod sink;
mod source;
mod wire;

pub use client::{Client, ClientConfig, Failure};
pub use end::{Datagram, Transmit};
pub use key::{KEY, Key, KeyError};
pub use order::LADDER;
pub use server::{Event, MOST_SESSIONS, Server, ServerConfig};
