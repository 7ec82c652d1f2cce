//! Reasons for a failure to bind a queue: the kernel returns the same error for different ones.

use std::fmt;
use std::io;

use rustix::thread::CapabilitySet;

use crate::privileges::not_held;

/// List of the bound queues in the kernel.
const QUEUES: &str = "/proc/net/netfilter/nfnetlink_queue";

/// Failure to bind a queue.
#[derive(Debug)]
pub struct BindError {
    queue: u16,
    error: io::Error,
    cause: Option<String>,
}

impl BindError {
    /// Determines the reason for the kernel's `error`.
    pub(super) fn of(queue: u16, error: io::Error) -> Self {
        let queues = std::fs::read_to_string(QUEUES).ok();
        let cause = cause(queue, &error, queues.as_deref(), not_held(CapabilitySet::NET_ADMIN));
        Self { queue, error, cause }
    }

    /// Returns the kernel's error number.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.error.raw_os_error()
    }
}

/// Determines the reason. `queues` is the kernel's list, if it supports netfilter queues; `not_held` names a missing
/// capability.
fn cause(queue: u16, error: &io::Error, queues: Option<&str>, not_held: Option<String>) -> Option<String> {
    let holder = queues.and_then(|queues| holder(queues, queue));
    match error.raw_os_error() {
        // EPERM: another socket uses the queue. EBUSY: this socket does.
        Some(libc::EPERM | libc::EBUSY) if holder.is_some() => holder.map(|port| {
            format!(
                "in use by the program with netlink port {port}; set `queue` to another number, or stop that program"
            )
        }),
        Some(libc::EPERM) => not_held,
        _ if queues.is_none() => Some("this kernel has no netfilter queues; run `modprobe nfnetlink_queue`".to_owned()),
        _ => None,
    }
}

/// Returns the process that uses a queue, if its netlink port is the process id.
pub(super) fn owner(queue: u16) -> Option<u32> {
    holder(&std::fs::read_to_string(QUEUES).ok()?, queue)?.parse().ok()
}

/// Returns the netlink port that uses this queue, usually a process id.
fn holder(queues: &str, queue: u16) -> Option<&str> {
    let mut lines = queues.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut columns| (columns.next()?.parse() == Ok(queue)).then(|| columns.next())?)
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, error, cause } = self;
        match cause {
            Some(cause) => write!(f, "netfilter queue {queue}: {cause} ({error})"),
            None => write!(f, "cannot bind netfilter queue {queue}: {error}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_has_different_causes() {
        const QUEUES: &str =
            "27000   4711     0 2 65531     0     0        0  1\n    5  99999     0 2 65531     0     0        0  1\n";
        let missing = || Some("CAP_NET_ADMIN is not held".to_owned());
        let said = |errno, queue, queues, not_held| {
            let error = io::Error::from_raw_os_error(errno);
            let cause = cause(queue, &error, queues, not_held);
            BindError { queue, error, cause }.to_string()
        };
        let taken = said(libc::EPERM, 27000, Some(QUEUES), None);
        assert!(taken.starts_with("netfilter queue 27000: in use by the program with netlink port 4711;"), "{taken}");
        assert!(said(libc::EPERM, 5, Some(QUEUES), missing()).contains("netlink port 99999"));
        for errno in [libc::EPERM, libc::EBUSY] {
            assert!(!taken.contains("CAP_") && said(errno, 27000, Some(QUEUES), None).contains("in use by"));
        }
        let rights = said(libc::EPERM, 7, Some(QUEUES), missing());
        assert_eq!(rights, "netfilter queue 7: CAP_NET_ADMIN is not held (Operation not permitted (os error 1))");
        // Unknown reasons are not guessed.
        let unknown = said(libc::EPERM, 7, Some(QUEUES), None);
        assert_eq!(unknown, "cannot bind netfilter queue 7: Operation not permitted (os error 1)");
        assert!(said(libc::EINVAL, 7, None, None).contains("modprobe nfnetlink_queue"));
        assert!(!said(libc::EINVAL, 7, Some(""), None).contains("modprobe"));
        assert!(!said(libc::EMFILE, 7, Some(QUEUES), missing()).contains("CAP_"));
    }
}
