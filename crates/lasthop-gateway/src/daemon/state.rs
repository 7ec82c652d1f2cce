//! State that the supervisor shares with the threads that report it and send requests.

use lasthop_daemon::shared::Shared;
use lasthop_daemon::supervision;
use serde::{Deserialize, Serialize};

use crate::configuration::Gateway;
use crate::daemon::snapshot::Snapshot;

/// State of the gateway.
pub type State = supervision::State<Gateway, Snapshot, RulesState>;

/// State as shared between threads.
pub type SharedState = Shared<State>;

/// State of the rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RulesState {
    /// True if all rules are present.
    pub in_place: bool,
    /// Number of times that rules were restored.
    pub restored: u64,
    /// Reason why the rules cannot be restored.
    pub problem: Option<String>,
}

impl Default for RulesState {
    fn default() -> Self {
        Self { in_place: true, restored: 0, problem: None }
    }
}
