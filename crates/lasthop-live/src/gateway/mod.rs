//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | what becomes of each packet: no I/O, no clock |
//! | [`nfqueue`] | packets from the kernel and verdicts back |
//! | [`raw`] | packets that the gateway sends by itself |
//! | [`firewall`] | the netfilter rules that lead packets here |
//! | [`worker`] | the process that handles packets |
//! | [`supervisor`] | the process that keeps a worker alive, and the rules with it |
//! | [`check`] | what a machine lacks |
//! | [`control`] | the socket on which the supervisor answers |
//! | [`metrics`] | its figures for Prometheus |
//! | [`channel`] | what the two say to each other |

pub mod channel;
pub mod check;
pub mod control;
pub mod engine;
pub mod firewall;
pub mod metrics;
pub mod nfqueue;
pub mod raw;
pub mod supervisor;
pub mod worker;
