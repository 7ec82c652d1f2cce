//! Network namespaces: threads and programs in them.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::signals::release_in;

/// Moves the calling thread, and threads that it starts later, to a new network namespace, which disappears with the
/// last of them. Open sockets stay in their namespace.
///
/// # Errors
///
/// Returns an error if the process lacks permission.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: only the network namespace becomes separate, on which no memory depends; descriptors stay shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread to the network namespace of the descriptor `namespace`.
///
/// # Errors
///
/// Returns an error if the process lacks permission, or if it is not a network namespace.
pub fn enter(namespace: impl AsFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs `command` in a network namespace, with an empty signal mask. The kernel sends it `signal` when the calling
/// thread ends.
pub fn run_in(command: &mut Command, namespace: OwnedFd, signal: Signal) {
    release_in(command);
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        enter(&namespace)
    };
    // SAFETY: between fork and exec it makes two system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

/// File that replaces another one for a program ([`run_beside`]).
#[derive(Clone, Debug)]
pub struct Substitute {
    /// Path of the replacement.
    pub source: CString,
    /// Path of the replaced file, which must exist.
    pub target: CString,
}

/// Runs `command` like [`run_in`], in a mount namespace of its own in which `/sys` shows the network namespace's
/// devices and files are replaced.
pub fn run_beside(command: &mut Command, namespace: OwnedFd, signal: Signal, files: Vec<Substitute>) {
    run_in(command, namespace, signal);
    let prepare = move || {
        // SAFETY: the forked process has one thread, and only its mount namespace becomes separate.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        // Changes in this mount namespace must not propagate to others.
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        // May fail in a container; programs then see the old `/sys`.
        let _ = mount(c"lasthop", c"/sys", c"sysfs", MountFlags::empty(), None::<&CStr>);
        files.iter().try_for_each(|file| Ok(mount_bind(&file.source, &file.target)?))
    };
    // SAFETY: between fork and exec it makes system calls, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_no_namespace_is_refused() {
        assert!(enter(File::open("/dev/null").unwrap()).is_err());
        let mut command = Command::new("/bin/true");
        run_in(&mut command, File::open("/dev/null").unwrap().into(), Signal::TERM);
        assert!(command.status().is_err());
    }
}
