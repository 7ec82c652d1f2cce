//! Messages from the supervisor to its worker.

use lasthop_proto::link::hybrid::Terms;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, terms};

/// Message to the worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Apply this plan.
    Configure(Box<Plan>),
    /// Limit a path to a peer to a tier and those after it.
    Limit {
        /// Name of the peer.
        peer: String,
        /// Number of the path.
        path: u8,
        /// Terms with that tier.
        #[serde(with = "terms")]
        terms: Terms,
    },
    /// Notify the peers that this end closes, and exit.
    Close,
}
