//! The two-ended link on real packets: packets from a TUN device are sent over UDP to the other end, with repair.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | configuration with its keys read and its names resolved |
//! | [`inner`] | packets of the inner network: inspection, and handling of those that are too big |
//! | [`comparison`] | comparison with unrepaired flows |
//! | [`frames`] | wire format of the link's frames |
//! | [`link`] | one peer: repair, numbers, path |
//! | [`recording`] | recording of the links' inputs and decisions, and replay by the simulator's node |
//! | [`engine`] | all peers: packets and datagrams in, packets and datagrams out, without I/O |
//! | [`bridge`] | frames of a bridge: the device, programs at interfaces, the packet socket |
//! | [`ethernet`] | wire format of the tunnel's Ethernet frames |
//! | [`device`] | the TUN device with its addresses and routes |
//! | [`offload`] | segmentation and merging for the device |
//! | [`socket`] | datagrams in batches |
//! | [`daemon`] | processes: packets, supervision, control, metrics |
//! | [`check`] | checks of the machine |
//! | [`secrets`] | key files |
#![cfg(target_os = "linux")]

pub mod bridge;
pub mod check;
pub mod comparison;
pub mod daemon;
pub mod device;
pub mod engine;
pub mod ethernet;
pub mod frames;
pub mod inner;
pub mod link;
pub mod offload;
pub mod plan;
mod readiness;
pub mod recording;
pub mod secrets;
pub mod socket;
pub mod sockets;

/// Name of the daemon in messages.
pub(crate) const WHO: &str = "tunnel";
