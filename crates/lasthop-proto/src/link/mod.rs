//! Protocols of one link, run by its two ends.

pub mod access;
pub mod aggregation;
pub mod arq;
pub mod cell;
pub mod hybrid;
pub mod radio;
pub mod wifi;
pub mod window;
