//! The mechanisms of `lasthop-proto` on real packets, on Linux.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the kernel's monotonic clock as the mechanisms' time |
//! | [`gateway`] | a daemon that treats the TCP connections it forwards |
//! | [`lab`] | a scenario on real packets, in network namespaces |
#![cfg(target_os = "linux")]

pub mod clock;
pub mod gateway;
pub mod lab;
