//! The gateway's processes, and what they do besides deciding.
//!
//! | module | holds |
//! |---|---|
//! | [`worker`] | the process that handles packets |
//! | `path` | what every way to packets has in common |
//! | `queue` | routed packets: from netfilter's queue, and back |
//! | [`bridge`] | TCP out of a bridge and back into it |
//! | `nat` | the addresses that packets leave with, where the machine translates |
//! | `relay` | split connections beside the packets |
//! | [`supervisor`] | the process that keeps a worker alive, and the rules with it |
//! | [`channel`] | what the two say to each other |
//! | `guard` | the rules, kept in place against other programs |
//! | [`snapshot`] | what a worker has done |
//! | [`control`] | the socket on which the supervisor answers |
//! | `groups` | whose users may ask there |
//! | [`metrics`] | its figures for Prometheus |
//! | [`check`] | what a machine lacks |
//! | [`logs`] | what daemons write about themselves |

pub mod bridge;
pub mod channel;
pub mod check;
mod child;
mod clients;
pub mod control;
mod finding;
mod groups;
mod guard;
pub mod logs;
pub mod metrics;
mod nat;
mod path;
mod queue;
mod relay;
pub mod snapshot;
mod state;
pub mod supervisor;
mod system_error;
pub mod worker;
