//! The integration tests of this crate, in one program, so that it is linked once.

mod net;
mod quiet;
#[path = "../../lasthop-sys/tests/skip/mod.rs"]
mod skip;

mod host;
mod lab;
mod moves;
mod offloads;
mod quic;
