//! The integration tests of this crate, in one program, so that it is linked once.

mod elements;

mod cross_traffic;
mod delays;
mod measured;
mod networks;
mod onward;
mod quic;
