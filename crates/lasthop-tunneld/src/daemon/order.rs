//! What the supervisor says to its worker.

use serde::{Deserialize, Serialize};

use crate::daemon::snapshot::Snapshot;
use crate::plan::Plan;

/// What the worker says.
pub type Notice = lasthop_daemon::channel::Notice<Snapshot>;

/// To the worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Work by this from now on.
    Configure(Box<Plan>),
    /// Tell the peers that this end goes away, and end.
    Close,
}
