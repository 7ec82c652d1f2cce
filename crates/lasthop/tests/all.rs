//! The integration tests of this crate, in one program, so that it is linked once.

mod common;
#[path = "common/network.rs"]
mod network;
#[path = "common/running.rs"]
mod running;
#[path = "../../lasthop-sys/tests/skip/mod.rs"]
mod skipping;
#[path = "common/end.rs"]
mod tunnel_end;

mod advise;
mod attacks;
mod commands;
mod conform;
mod convert;
mod determinism;
mod diagnose;
mod documents;
mod errors;
mod fit;
mod gateway;
mod gateway_bridge;
mod gateway_faults;
mod gateway_firewall;
mod gateway_firewalls;
mod gateway_load;
mod gateway_quic;
mod gateway_split;
mod interrupts;
mod lab;
mod lab_bundles;
mod lab_exec;
mod link_to_cure;
mod measurements;
mod packaging;
mod pipes;
mod probe;
mod quic;
mod replay;
mod reproduce;
mod serve;
mod status;
mod structure;
mod sweeps;
mod tables;
mod traces;
mod tunnel;
mod tunnel_bridge;
mod tunnel_bridge_paths;
mod tunnel_keys;
mod tunnel_live;
mod tunnel_paths;
