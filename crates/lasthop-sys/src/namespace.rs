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

/// Moves the calling thread, and those that it starts from now on, to a new network namespace, which goes away with the
/// last of them. Sockets that are open stay where they are.
///
/// # Errors
///
/// Without the right to do so.
pub fn enter_new() -> io::Result<()> {
    // SAFETY: of all that threads share only the network namespace is parted, which no memory depends on; descriptors stay
    // shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread to the network namespace of which `namespace` is a descriptor.
///
/// # Errors
///
/// Without the right to do so, or when it is no network namespace's.
pub fn enter(namespace: impl AsFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs `command` in a network namespace, with an empty signal mask. The kernel sends it `signal` when the calling thread ends.
pub fn run_in(command: &mut Command, namespace: OwnedFd, signal: Signal) {
    release_in(command);
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        enter(&namespace)
    };
    // SAFETY: between fork and exec it makes two system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

/// A file that stands in the place of another for a program ([`run_beside`]).
#[derive(Clone, Debug)]
pub struct Substitute {
    /// The file that the program sees.
    pub source: CString,
    /// Where it sees it; there must be a file.
    pub target: CString,
}

/// Lets `command` run as [`run_in`] does, with a view of the file system of its own, in which `/sys` shows the namespace's devices and
/// files are substituted.
pub fn run_beside(command: &mut Command, namespace: OwnedFd, signal: Signal, files: Vec<Substitute>) {
    run_in(command, namespace, signal);
    let prepare = move || {
        // SAFETY: the program that follows has one thread, which parts with nothing but its view of the file system.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        // What changes in this view shows in no other.
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        // A container may have none, or not be allowed to; programs that look at it see the old one.
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
