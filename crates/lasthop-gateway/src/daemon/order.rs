//! Messages from the supervisor to its worker.

use serde::{Deserialize, Serialize};

/// Message to the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Apply this configuration.
    Configure {
        /// Name of the file, for messages.
        file: String,
        /// Text of the configuration, already validated.
        text: String,
    },
    /// State of the rules for the relay: without them, new connections must pass. Not answered.
    Rules {
        /// True if the rules are in place.
        in_place: bool,
    },
    /// Stop treating packets and send those that are held back, before the end.
    Release,
}
