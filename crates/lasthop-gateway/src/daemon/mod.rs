//! Processes of the gateway and their interfaces; `lasthop-daemon` contains the parts common to all daemons.
//!
//! | module | contents |
//! |---|---|
//! | [`worker`] | process that handles packets |
//! | `path` | interface of all packet paths |
//! | `queue` | routed packets: from netfilter's queue, and back |
//! | [`bridge`] | TCP and QUIC from a bridge, and back |
//! | `nat` | source addresses of sent packets if the machine translates addresses |
//! | `parked` | packets held back in the kernel's queue |
//! | `held_datagrams` | datagrams of QUIC held in the kernel's queue |
//! | `overdue` | removal of packets that have waited in that queue for too long |
//! | [`passage`], `trial`, `way_out` | whether other programs' rules let the gateway's own packets pass; suspension of treatment if not |
//! | [`suspects`] | names of chains that may drop the gateway's packets |
//! | `relay` | interface to the relay of split connections |
//! | [`tape`] | headers of the last packets that crossed the hop |
//! | [`supervisor`] | process that restarts the worker and maintains the rules |
//! | `guard` | restores rules that other programs remove |
//! | [`snapshot`] | state of a worker |
//! | [`order`] | messages from the supervisor to its worker |
//! | [`control`] | answers on the control socket |
//! | [`metrics`] | metrics for Prometheus |
//! | [`check`] | checks of the machine |
//! | `rehearsal` | test of the gateway in a copy of the machine's rules, for `check` |

pub mod bridge;
pub mod check;
pub mod control;
mod guard;
mod held_datagrams;
pub mod metrics;
mod nat;
pub mod order;
mod overdue;
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
