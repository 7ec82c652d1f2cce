//! Waiting for descriptors.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};

/// Waits for an event on one of `fds`, at most for `patience`.
pub fn wait(fds: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
