//! Protocols of one link: what its two ends do to bring packets over it.

pub mod aggregation;
pub mod arq;
pub mod headers;
pub mod hybrid;
pub mod radio;
