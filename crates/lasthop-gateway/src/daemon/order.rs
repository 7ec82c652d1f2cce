//! What the supervisor says to its worker.

use serde::{Deserialize, Serialize};

use crate::daemon::snapshot::Snapshot;

/// What the worker says.
pub type Notice = lasthop_daemon::channel::Notice<Snapshot>;

/// To the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Work by this configuration from now on.
    Configure {
        /// The file's name, for messages.
        file: String,
        /// Its text, checked already.
        text: String,
    },
    /// What leads connections to the relay is there or not: without it, new connections are to pass. It is not answered.
    Rules {
        /// Whether it is.
        in_place: bool,
    },
    /// Treat nothing from now on, and send what is held back: the end is near.
    Release,
}
