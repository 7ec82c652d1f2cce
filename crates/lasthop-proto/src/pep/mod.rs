//! TCP-aware hops (RFC 3135's term: performance-enhancing proxy).

mod cache;
pub mod eln;
pub(crate) mod flow_table;
mod hop_window;
pub mod quic;
pub mod reconstruct;
mod repair;
#[cfg(test)]
mod rig;
mod sender_room;
mod sendings;
pub mod snoop;
mod snoop_config;
pub mod split;
pub mod srp;
pub mod tracking;
