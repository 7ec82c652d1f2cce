//! Messages from the supervisor to its worker.

use serde::{Deserialize, Serialize};

use crate::daemon::snapshot::Snapshot;
use crate::plan::Plan;

/// Message from the worker.
pub type Notice = lasthop_daemon::channel::Notice<Snapshot>;

/// Message to the worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Apply this plan.
    Configure(Box<Plan>),
    /// Notify the peers that this end closes, and exit.
    Close,
}
