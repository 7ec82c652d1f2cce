//! State that the supervisor shares with the threads that report it.

use std::time::Instant;

use lasthop_daemon::shared::Shared;
use lasthop_settings::tunnel::Tunnel;

use crate::daemon::snapshot::Snapshot;

/// State of the tunnel.
pub struct State {
    /// Current configuration.
    pub tunnel: Tunnel,
    /// Start time of the daemon.
    pub started: Instant,
    /// Process of the worker, once it processes packets.
    pub worker: Option<u32>,
    /// Number of workers started after the first.
    pub restarts: u64,
    /// Number of configurations applied after the first.
    pub reloads: u64,
    /// Latest report of the worker.
    pub snapshot: Snapshot,
}

/// State as shared between threads.
pub type SharedState = Shared<State>;
