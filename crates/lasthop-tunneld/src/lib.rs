//! The two-ended link on real packets: what comes from a TUN device goes over UDP to the other end, repaired on the way.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | a configuration with its keys read and its names resolved |
//! | [`inner`] | packets of the inner network: what they are, and what becomes of those that are too big |
//! | [`comparison`] | flows that go unrepaired, and what both arms come to |
//! | [`frames`] | the frames of the link in bytes |
//! | [`link`] | one peer: repair, numbers, path |
//! | [`recording`] | what links were told and decided, in a file, and the simulator's node on it |
//! | [`engine`] | all peers: packets and datagrams in, packets and datagrams out, without I/O |
//! | [`bridge`] | frames of a bridge: the device, programs at interfaces, the packet socket |
//! | [`ethernet`] | the tunnel's own frames in bytes |
//! | [`device`] | the TUN device with its addresses and routes |
//! | [`socket`] | datagrams in batches |
//! | [`daemon`] | the processes: packets, supervision, control, metrics |
//! | [`check`] | what a machine lacks |
//! | [`secrets`] | files of keys |
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
pub mod plan;
pub mod recording;
pub mod secrets;
pub mod socket;

/// What messages call the daemon.
pub(crate) const WHO: &str = "tunnel";
