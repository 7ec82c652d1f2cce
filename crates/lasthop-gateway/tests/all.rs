//! The integration tests of this crate, in one program, so that it is linked once.

#[path = "../../../fuzz/src/hostile/mod.rs"]
#[allow(dead_code, missing_docs)]
mod hostile;
mod split_lab;

mod attacks;
mod base_station;
mod configuration;
mod split;
mod split_speed;
