//! The integration tests of this crate, in one program, so that it is linked once.

mod common;

mod attacks;
mod identity;
mod life;
mod path_attacks;
mod paths;
