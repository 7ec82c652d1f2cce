//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet: no I/O, no clock |
//! | [`nfqueue`] | packets from the kernel and verdicts back |
//! | [`raw`] | packets that the gateway sends by itself |

pub mod engine;
pub mod nfqueue;
pub mod raw;
