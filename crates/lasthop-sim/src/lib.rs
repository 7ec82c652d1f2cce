//! The deterministic simulator: it owns time and randomness, wires nodes to links and to each other, and measures.
//!
//! A [`network::Network`] says what there is; [`Simulation`](sim::Simulation) runs it once for a seed.
#![forbid(unsafe_code)]

pub mod network;
pub mod trace;
