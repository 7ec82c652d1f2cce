//! The integration tests of this crate, in one program, so that it is linked once.

mod sample;
#[path = "sample/study.rs"]
mod study;

mod captures;
mod diagrams;
mod figures;
mod studies;
mod sweeps;
mod traces;
