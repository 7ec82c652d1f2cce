//! What other threads ask of a daemon.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

/// A wish of the control socket's, and where its outcome goes.
pub type ReloadRequest = SyncSender<Result<(), String>>;

/// How other threads ask for a reload.
#[derive(Clone, Debug)]
pub struct Wishes {
    requests: SyncSender<ReloadRequest>,
    wake: Arc<UnixStream>,
    who: &'static str,
}

impl Wishes {
    /// What goes to `requests`, and whom a byte to `wake` wakes; messages call the daemon `who`.
    pub fn new(requests: SyncSender<ReloadRequest>, wake: Arc<UnixStream>, who: &'static str) -> Self {
        Self { requests, wake, who }
    }

    /// Asks for a reload, and waits for its outcome.
    ///
    /// # Errors
    ///
    /// Why it was refused.
    pub fn reload(&self, patience: Duration) -> Result<(), String> {
        let (reply, outcome) = mpsc::sync_channel(1);
        self.requests.try_send(reply).map_err(|_| format!("the {} is busy", self.who))?;
        // A full pipe wakes just as well.
        let _ = io::Write::write(&mut &*self.wake, &[0]);
        outcome.recv_timeout(patience).unwrap_or_else(|_| Err(format!("the {} did not answer", self.who)))
    }
}
