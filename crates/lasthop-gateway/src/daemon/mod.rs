//! The gateway's processes, and what they do besides deciding; what any daemon needs is in `lasthop-daemon`.
//!
//! | module | holds |
//! |---|---|
//! | [`worker`] | the process that handles packets |
//! | `path` | what every way to packets has in common |
//! | `queue` | routed packets: from netfilter's queue, and back |
//! | [`bridge`] | TCP out of a bridge and back into it |
//! | `nat` | the addresses that packets leave with, where the machine translates |
//! | `parked` | packets that are held back in the kernel's queue |
//! | [`passage`], `trial`, `way_out` | whether the gateway's own packets pass other programs' rules, and that others pass where not |
//! | [`suspects`] | the chains that may stop the gateway's packets, by name |
//! | `relay` | split connections beside the packets |
//! | [`tape`] | the heads of the packets that crossed the hop last |
//! | [`supervisor`] | the process that keeps a worker alive, and the rules with it |
//! | `guard` | the rules, kept in place against other programs |
//! | [`snapshot`] | what a worker has done |
//! | [`order`] | what the supervisor says to it |
//! | [`control`] | what is answered on the control socket |
//! | [`metrics`] | the figures for Prometheus |
//! | [`check`] | what a machine lacks |
//! | `rehearsal` | the gateway in a copy of the machine's rules, for `check` |

pub mod bridge;
pub mod check;
pub mod control;
mod guard;
pub mod metrics;
mod nat;
pub mod order;
mod parked;
pub mod passage;
mod path;
mod queue;
mod rehearsal;
mod relay;
pub mod snapshot;
mod state;
pub mod supervisor;
pub mod suspects;
pub mod tape;
mod trial;
mod way_out;
pub mod worker;
