//! What the supervisor shares with the threads that report on it and ask of it.

use std::time::Instant;

use lasthop_daemon::shared::Shared;

use crate::configuration::Gateway;
use crate::daemon::snapshot::Snapshot;

/// What the supervisor knows and others report.
#[derive(Clone, Debug)]
pub struct State {
    /// The configuration in force.
    pub gateway: Gateway,
    /// When the daemon started.
    pub started: Instant,
    /// The worker's process, once it takes packets.
    pub worker: Option<u32>,
    /// Workers that were started after the first.
    pub restarts: u64,
    /// Configurations that were taken after the first.
    pub reloads: u64,
    /// What is known of the rules.
    pub rules: RulesState,
    /// The newest that the worker told about itself.
    pub snapshot: Snapshot,
}

/// What is known of the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesState {
    /// Whether all of them are there.
    pub in_place: bool,
    /// How often they were put back.
    pub restored: u64,
    /// Why they cannot be put back.
    pub problem: Option<String>,
}

impl Default for RulesState {
    fn default() -> Self {
        Self { in_place: true, restored: 0, problem: None }
    }
}

/// The state, as threads share it.
pub type SharedState = Shared<State>;
