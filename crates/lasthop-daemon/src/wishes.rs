//! Reload requests from other threads.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

/// Reload request: the channel for its outcome.
pub type ReloadRequest = SyncSender<Result<(), String>>;

/// Sender of reload requests.
#[derive(Clone, Debug)]
pub struct Wishes {
    requests: SyncSender<ReloadRequest>,
    wake: Arc<UnixStream>,
    who: &'static str,
}

impl Wishes {
    /// Creates a sender to `requests`; a byte to `wake` wakes their receiver. `who` identifies the daemon in messages.
    pub fn new(requests: SyncSender<ReloadRequest>, wake: Arc<UnixStream>, who: &'static str) -> Self {
        Self { requests, wake, who }
    }

    /// Requests a reload, and waits for its outcome.
    ///
    /// # Errors
    ///
    /// Returns the reason for a refusal.
    pub fn reload(&self, patience: Duration) -> Result<(), String> {
        let (reply, outcome) = mpsc::sync_channel(1);
        self.requests.try_send(reply).map_err(|_| format!("the {} is busy", self.who))?;
        // A full pipe wakes the receiver as well.
        let _ = io::Write::write(&mut &*self.wake, &[0]);
        outcome.recv_timeout(patience).unwrap_or_else(|_| Err(format!("the {} did not answer", self.who)))
    }
}
