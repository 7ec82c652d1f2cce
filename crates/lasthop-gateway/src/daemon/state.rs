//! What the supervisor shares with the threads that report on it and ask of it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::configuration::Gateway;
use crate::daemon::guard::RulesState;
use crate::daemon::snapshot::Snapshot;

/// What the supervisor knows and others report.
#[derive(Clone, Debug)]
pub struct State {
    /// The configuration in force.
    pub gateway: Gateway,
    /// When the daemon started.
    pub started: Instant,
    /// The worker's process, when there is one.
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

/// A state that threads share.
#[derive(Clone, Debug)]
pub struct SharedState(Arc<Mutex<State>>);

impl SharedState {
    /// Shares it.
    pub fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// The state, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Every change to it is a single assignment: a thread that panicked left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wish of the control socket's, and where its outcome goes.
pub(super) type ReloadRequest = SyncSender<Result<(), String>>;

/// How other threads ask for a reload.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    requests: SyncSender<ReloadRequest>,
    wake: Arc<UnixStream>,
}

impl Wishes {
    /// What goes to `requests`, and whom a byte to `wake` wakes.
    pub fn new(requests: SyncSender<ReloadRequest>, wake: Arc<UnixStream>) -> Self {
        Self { requests, wake }
    }

    /// Asks for a reload, and waits for its outcome.
    pub fn reload(&self, patience: Duration) -> Result<(), String> {
        let (reply, outcome) = mpsc::sync_channel(1);
        self.requests.try_send(reply).map_err(|_| "the gateway is busy".to_owned())?;
        // A full pipe wakes just as well.
        let _ = io::Write::write(&mut &*self.wake, &[0]);
        outcome.recv_timeout(patience).unwrap_or_else(|_| Err("the gateway did not answer".to_owned()))
    }
}
