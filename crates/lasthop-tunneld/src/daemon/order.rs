//! Messages from the supervisor to its worker.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// Message to the worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Apply this plan.
    Configure(Box<Plan>),
    /// Notify the peers that this end closes, and exit.
    Close,
}
