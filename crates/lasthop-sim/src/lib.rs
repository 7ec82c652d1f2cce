//! The deterministic simulator: it owns time and randomness, connects nodes and links, and measures.
//!
//! A [`network::Network`] describes the topology; [`run`] runs it once for a seed.
#![forbid(unsafe_code)]

pub mod apps;
pub mod datagrams;
pub mod element;
mod endpoint;
mod fabric;
pub mod handoff;
mod leg;
mod letters;
pub mod link;
mod link_spec;
pub mod measure;
mod meter;
pub mod network;
mod overflow;
pub mod pool;
mod routes;
mod scheduler;
mod sessions;
pub mod sim;
pub mod trace;

pub use bytes::Bytes;

pub use crate::endpoint::Endpoint;
pub use crate::leg::LegId;
pub use crate::overflow::{MOST_FRAMES, Overflow};
pub use crate::sim::{EVENTS_BETWEEN_QUESTIONS, Outcome, Recording, Simulation, run, run_while};

pub use endpoint::index as endpoint_index;
