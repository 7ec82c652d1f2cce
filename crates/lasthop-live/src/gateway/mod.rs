//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet: no I/O, no clock |
//! | [`split`] | transparent split connections |

pub mod engine;
pub mod split;
