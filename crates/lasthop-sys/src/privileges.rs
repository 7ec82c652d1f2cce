//! Permissions that the worker gives up permanently once everything that needs them is open.

use std::io;

use rustix::process::{Gid, Signal, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// User that the worker becomes if it exists.
const USER: &str = "lasthop";
/// User otherwise: `nobody`.
const NOBODY: Unprivileged = Unprivileged { user: 65534, group: 65534 };

/// Describes the capabilities in `needed` that this thread lacks, to explain a denied operation. `None` if it has all
/// of them.
pub fn not_held(needed: CapabilitySet) -> Option<String> {
    let held = capabilities(None).map_or(CapabilitySet::all(), |sets| sets.effective);
    let names: Vec<_> = (needed - held).iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    match &names[..] {
        [] => None,
        [name] => Some(format!("{name} is not held")),
        [names @ .., last] => Some(format!("{} and {last} are not held", names.join(", "))),
    }
}

/// Tasks of a worker, which determine the permissions that it keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tasks {
    /// Indicates that the worker opens connections with addresses of other hosts, from any port.
    pub splits: bool,
    /// Indicates that the worker updates the heartbeat for BPF programs, attaches them to new ports, and binds open sockets
    /// to new interfaces.
    pub bridges: bool,
}

impl Tasks {
    /// Returns the capabilities that the tasks need.
    fn needs(self) -> CapabilitySet {
        // For verdicts, marks and foreign addresses; and for raw packets.
        let always = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        if self.splits { always | CapabilitySet::NET_BIND_SERVICE } else { always }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unprivileged {
    user: u32,
    group: u32,
}

/// Gives up all permissions that `tasks` do not need: the process changes to another user without supplementary
/// groups, keeps no other capability, and cannot gain any by executing a program. It dies with its parent.
///
/// The process must have a single thread, because permissions belong to threads.
///
/// # Errors
///
/// Returns an error if the system refuses to remove permissions. If it refuses the change of user, as for root in a
/// container, the process keeps its user, and logs this.
pub fn drop_rights(tasks: Tasks) -> io::Result<()> {
    // Reads `/proc/self/auxv` on first use, which only root may read later.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let has = capabilities(None)?;
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            match remove_capability_from_bounding_set(capability) {
                // This kernel does not have the capability.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // A kernel without ambient capabilities grants none.
    let _ = clear_ambient_capability_set();
    if geteuid().is_root() {
        // The parent has the same permissions as this process so far, and must be able to kill another user's process.
        let missing = not_held(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL);
        let outcome = missing.map_or_else(|| become_user(user()), |missing| Err(io::Error::other(missing)));
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot change the worker's user; it remains root, without root's capabilities");
        }
    }
    let kept = has.permitted & tasks.needs();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })?;
    set_no_new_privs(true)?;
    // The change of user has reset this. If the parent has already ended, the end of its channel reports it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Changes the user and keeps the permitted capabilities.
fn become_user(Unprivileged { user, group }: Unprivileged) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    set_keep_capabilities(false)?;
    Ok(())
}

fn user() -> Unprivileged {
    std::fs::read_to_string("/etc/passwd").ok().and_then(|text| find(&text, USER)).unwrap_or(NOBODY)
}

/// Returns the named user from the text of a `passwd(5)` file, unless it is root.
fn find(passwd: &str, name: &str) -> Option<Unprivileged> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let (is_it, mut rest) = (fields.next() == Some(name), fields.skip(1));
        let (user, group) = (rest.next()?.parse().ok()?, rest.next()?.parse().ok()?);
        (is_it && user != 0 && group != 0).then_some(Unprivileged { user, group })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_named() {
        assert_eq!(not_held(CapabilitySet::empty()), None);
        std::thread::spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            set_capabilities(None, sets).unwrap();
            assert_eq!(not_held(CapabilitySet::NET_RAW).unwrap(), "CAP_NET_RAW is not held");
            let two = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
            assert_eq!(not_held(two).unwrap(), "CAP_NET_ADMIN and CAP_NET_RAW are not held");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn users_are_found_by_name_and_root_is_none() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n\ngarbage\nlasthop-x:x:7:7::/:\nlasthop:x:998:997::/:/usr/sbin/nologin\n";
        assert_eq!(find(passwd, "lasthop"), Some(Unprivileged { user: 998, group: 997 }));
        for passwd in
            ["", "lasthop", "lasthop:x:0:998::/:", "lasthop:x:998:0::/:", "lasthop:x:many:1::/:", "x:lasthop:1:1"]
        {
            assert_eq!(find(passwd, "lasthop"), None, "{passwd}");
        }
    }
}
