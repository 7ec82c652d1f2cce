//! The gateway's processes, and what they do besides deciding; what any daemon needs is in `lasthop-daemon`.
//!
//! | module | holds |
//! |---|---|
//! | [`worker`] | the process that handles packets |
//! | `path` | what every way to packets has in common |
//! | `queue` | routed packets: from netfilter's queue, and back |
//! | [`bridge`] | TCP out of a bridge and back into it |
//! | `nat` | the addresses that packets leave with, where the machine translates |
//! | `relay` | split connections beside the packets |
//! | [`tape`] | the heads of the packets that crossed the hop last |
//! | [`supervisor`] | the process that keeps a worker alive, and the rules with it |
//! | `guard` | the rules, kept in place against other programs |
//! | [`snapshot`] | what a worker has done |
//! | [`order`] | what the supervisor says to it |
//! | [`control`] | what is answered on the control socket |
//! | [`metrics`] | the figures for Prometheus |
//! | [`check`] | what a machine lacks |

pub mod bridge;
pub mod check;
pub mod control;
mod guard;
pub mod metrics;
mod nat;
pub mod order;
mod path;
mod queue;
mod relay;
pub mod snapshot;
mod state;
pub mod supervisor;
pub mod tape;
pub mod worker;
