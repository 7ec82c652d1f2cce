//! The gateway: what it does to the TCP connections that it forwards, and the daemon around it.
//!
//! What becomes of each packet, without I/O and clock:
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | the treatment of all connections through one gateway |
//! | [`rules`] | what an engine is told: which connections, which treatment |
//! | [`counters`] | what it reports |
//! | [`ab`] | the comparison of treated and untreated connections |
//! | [`recording`] | what an engine was told and decided, in a file, and again |
//! | [`split`] | split connections: a relay, and the rules that lead to it |
//!
//! The daemon:
//!
//! | module | holds |
//! |---|---|
//! | [`nfqueue`] | packets from the kernel and verdicts back |
//! | [`bridge`] | TCP out of a bridge and back into it |
//! | [`links`] | the interfaces towards the lossy hops, as they come, change and go |
//! | [`raw`] | packets that the gateway sends by itself |
//! | `nat` | the addresses that they leave with, where the machine translates |
//! | [`settings`] | what the configuration means to engine and relay |
//! | [`firewall`] | the netfilter rules that lead packets here |
//! | [`worker`] | the process that handles packets |
//! | [`privileges`], [`syscalls`] | the rights that it gives up |
//! | [`supervisor`] | the process that keeps a worker alive, and the rules with it |
//! | [`channel`] | what the two say to each other |
//! | `guard` | the rules, kept in place against other programs |
//! | `routes` | by which interface a packet would leave |
//! | `netlink` | what is asked of the kernel over netlink |
//! | [`snapshot`] | what a worker has done |
//! | [`control`] | the socket on which the supervisor answers |
//! | `groups` | whose users may ask there |
//! | [`metrics`] | its figures for Prometheus |
//! | [`check`] | what a machine lacks |

pub mod ab;
pub mod bridge;
pub mod channel;
pub mod check;
mod child;
mod clients;
pub mod control;
pub mod counters;
pub mod engine;
mod finding;
pub mod firewall;
mod flow;
mod flows;
mod groups;
mod guard;
mod held;
pub mod links;
pub mod metrics;
mod nat;
mod netlink;
pub mod nfqueue;
mod observe;
mod offloaded;
mod path;
pub mod privileges;
pub mod raw;
pub mod recording;
mod relay;
mod routes;
pub mod rules;
pub mod settings;
pub mod snapshot;
pub mod split;
mod state;
pub mod supervisor;
pub mod syscalls;
mod system_error;
mod treatment;
mod verdict;
pub mod worker;
