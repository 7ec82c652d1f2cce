//! Answers of a daemon as types, for the daemon and for its clients. A client reads missing values, which a daemon of
//! another version may not report, as zero, empty or `None`.

use serde::{Deserialize, Serialize};

/// Answer to a status request; `T` is specific to the daemon.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Status<T> {
    /// Version of the daemon.
    pub version: String,
    /// Time since its start, in seconds.
    pub uptime_seconds: f64,
    /// Worker of the daemon.
    pub worker: WorkerStatus,
    /// Number of configurations applied after the first.
    pub reloads: u64,
    /// State and statistics.
    #[serde(flatten)]
    pub more: T,
}

/// Worker of a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStatus {
    /// Process of the worker, once it processes packets.
    pub pid: Option<u32>,
    /// Number of workers started after the first.
    pub restarts: u64,
}
