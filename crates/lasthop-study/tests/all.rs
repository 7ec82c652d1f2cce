//! The integration tests of this crate, in one program, so that it is linked once.

mod common;

mod auto_rate;
mod calls;
mod snoop;
mod studies;
mod two_ended;
