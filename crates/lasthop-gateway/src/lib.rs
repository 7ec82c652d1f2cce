//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet, without I/O and clock |
//! | [`split`] | split connections: the relay |
//! | [`family`] | the two versions of IP |
//! | [`configuration`] | the file of settings, read into checked types |
//! | [`settings`] | what the configuration means to engine and relay |
//! | [`firewall`] | the netfilter rules that lead packets here |
//! | [`daemon`] | the processes: packets in and out, supervision, control, metrics |
#![cfg(target_os = "linux")]

pub mod configuration;
pub mod daemon;
pub mod engine;
pub mod family;
pub mod firewall;
pub mod settings;
pub mod split;
