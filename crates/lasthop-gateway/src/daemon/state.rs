//! State that the supervisor shares with the threads that report it and send requests.

use std::time::Instant;

use lasthop_daemon::shared::Shared;

use crate::configuration::Gateway;
use crate::daemon::snapshot::Snapshot;

/// State of the gateway.
#[derive(Clone, Debug)]
pub struct State {
    /// Current configuration.
    pub gateway: Gateway,
    /// Start time of the daemon.
    pub started: Instant,
    /// Process of the worker, once it processes packets.
    pub worker: Option<u32>,
    /// Number of workers started after the first.
    pub restarts: u64,
    /// Number of configurations applied after the first.
    pub reloads: u64,
    /// State of the rules.
    pub rules: RulesState,
    /// Latest report of the worker.
    pub snapshot: Snapshot,
}

/// State of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesState {
    /// True if all rules are present.
    pub in_place: bool,
    /// Number of times that rules were restored.
    pub restored: u64,
    /// Reason why they cannot be restored.
    pub problem: Option<String>,
}

impl Default for RulesState {
    fn default() -> Self {
        Self { in_place: true, restored: 0, problem: None }
    }
}

/// State as shared between threads.
pub type SharedState = Shared<State>;
