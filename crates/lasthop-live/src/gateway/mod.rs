//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet: no I/O, no clock |

pub mod engine;
