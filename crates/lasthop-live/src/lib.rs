//! The mechanisms of `lasthop-proto` on real packets, on Linux.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the kernel's monotonic clock as the mechanisms' time |
//! | [`logs`] | what daemons write about themselves |
//! | [`gateway`] | a daemon that treats the TCP connections it forwards |
//! | [`host`] | lasthop's own TCP on a TUN device |
//! | [`packet_socket`] | Ethernet frames in and out |
//! | [`lab`] | a scenario on real packets, in network namespaces |
#![cfg(target_os = "linux")]

pub mod clock;
pub mod gateway;
pub mod host;
pub mod lab;
pub mod logs;
pub mod packet_socket;
