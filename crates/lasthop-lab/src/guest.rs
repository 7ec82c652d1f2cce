//! Programs in a lab: they start in a host's namespace, where the scenario's hosts have names, and end with the lab.

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{thread, time};

use lasthop_sys::namespace::{Substitute, run_beside};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::error::LabError;
use super::hold::Place;
use super::namespace::Namespace;

/// Interval of polling.
const LOOK: time::Duration = time::Duration::from_millis(20);
/// Time within which a server must listen.
const LISTENS_WITHIN: time::Duration = time::Duration::from_secs(5);
/// Time between SIGTERM and SIGKILL.
pub const PATIENCE: time::Duration = time::Duration::from_secs(5);

/// End of a program, as reported by a shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Exited with this status.
    Status(u8),
    /// Killed by this signal.
    Signal(i32),
}

impl Ended {
    pub(super) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Status(code as u8),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }

    /// Returns the exit status as in a shell: 128 plus the signal's number.
    pub const fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
}

/// Files that replace those of the machine for programs in a lab.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    substitutes: Vec<Substitute>,
}

impl Files {
    /// Writes the files of a lab with these nodes into `folder`, which is removed when this is dropped.
    ///
    /// # Errors
    ///
    /// Returns errors of writing.
    pub fn write(folder: PathBuf, places: &[Place], outside: bool) -> Result<Self, LabError> {
        fs::create_dir_all(&folder).map_err(|error| LabError::File { path: folder.clone(), error })?;
        let mut files = Self { folder, substitutes: Vec::new() };
        files.add("hosts", "/etc/hosts", &hosts(places, &fs::read_to_string("/etc/hosts").unwrap_or_default()))?;
        if outside && let Some(servers) = name_servers() {
            files.add("resolv.conf", "/etc/resolv.conf", &servers)?;
        }
        Ok(files)
    }

    fn add(&mut self, name: &str, target: &str, text: &str) -> Result<(), LabError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| LabError::File { path: path.clone(), error })?;
        // A missing file cannot be replaced. Links are followed, as a program would.
        let target = fs::canonicalize(target).ok().and_then(|target| CString::new(target.as_os_str().as_bytes()).ok());
        let source = CString::new(path.as_os_str().as_bytes()).ok();
        self.substitutes.extend(source.zip(target).map(|(source, target)| Substitute { source, target }));
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the scenario's nodes by name, followed by the machine's own file.
fn hosts(places: &[Place], own: &str) -> String {
    let mut text = "# Hosts of the lab (lasthop lab exec), followed by this machine's.\n".to_owned();
    for Place { node, address, .. } in places {
        let _ = writeln!(text, "{address} {node}");
    }
    text + own
}

/// Returns name servers that can be reached from another namespace; `None` if the machine's own file suffices.
fn name_servers() -> Option<String> {
    let local = |text: &str| {
        let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
        let mut servers = servers.map(str::trim);
        servers.all(|server| server.starts_with("127.") || server == "::1")
    };
    let own = fs::read_to_string("/etc/resolv.conf").ok()?;
    // The servers that systemd's resolver uses.
    let behind = || fs::read_to_string("/run/systemd/resolve/resolv.conf").ok().filter(|text| !local(text));
    if local(&own) { behind() } else { None }
}

/// Starts a program in a namespace. It is killed with this process, even if that is killed.
///
/// # Errors
///
/// Returns errors of the system. `NotFound` and `PermissionDenied` refer to the program.
pub fn start(mut command: Command, namespace: &Namespace, files: &Files) -> io::Result<Child> {
    let inside =
        File::open(namespace.path()).map_err(|error| io::Error::other(format!("{}: {error}", namespace.name())))?;
    run_beside(&mut command, inside.into(), Signal::KILL, files.substitutes.clone());
    command.spawn()
}

/// A server that runs alongside the command, as the other end of its traffic.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts a shell's command line in a namespace and waits until it listens there. Its output goes to standard
    /// error.
    ///
    /// # Errors
    ///
    /// Returns an error if it fails before it listens.
    pub fn start(host: &str, line: &str, namespace: &Namespace, files: &Files) -> Result<Self, LabError> {
        let before = listening(namespace)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(io::stderr());
        // In a group of its own: Ctrl-C is for the command, which may still need the server to shut down.
        command.process_group(0);
        let failed = |what: String| LabError::Server { host: host.to_owned(), line: line.to_owned(), what };
        let child = start(command, namespace, files).map_err(|error| failed(format!("cannot start ({error})")))?;
        let mut server = Self { child };
        let begun = time::Instant::now();
        while begun.elapsed() < LISTENS_WITHIN {
            if !listening(namespace)?.is_subset(&before) {
                return Ok(server);
            }
            match server.child.try_wait() {
                // It may have left a process running.
                Ok(Some(status)) if status.success() => return Ok(server),
                Ok(Some(status)) => return Err(failed(format!("exited before it listened on a port ({status})"))),
                _ => thread::sleep(LOOK),
            }
        }
        tracing::warn!("--serve {host}: no port is listening after {} s; continuing", LISTENS_WITHIN.as_secs());
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Terminates a program and its process group, and kills them after [`PATIENCE`].
fn end(child: &mut Child) {
    let Some(group) = Pid::from_raw(child.id() as i32) else { return };
    let is_over = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
    if is_over(child) {
        return;
    }
    let _ = kill_process_group(group, Signal::TERM);
    let begun = time::Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_over(child) {
            return;
        }
        thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Returns the listening sockets in a namespace: TCP sockets that accept connections, UDP sockets with a port.
fn listening(namespace: &Namespace) -> Result<BTreeSet<String>, LabError> {
    namespace.within(|| {
        let mut all = BTreeSet::new();
        for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
            // Without IPv6, two of the files are missing.
            let text = fs::read_to_string(Path::new("/proc/thread-self/net").join(table)).unwrap_or_default();
            for line in text.lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if let [_, local, _, now, ..] = fields[..]
                    && now == state
                {
                    all.insert(format!("{table} {local}"));
                }
            }
        }
        Ok(all)
    })
}

/// Ends all programs in these namespaces, which the command left running.
pub fn end_all(namespaces: &[&Namespace]) {
    let wanted: BTreeSet<u64> =
        namespaces.iter().filter_map(|namespace| Some(fs::metadata(namespace.path()).ok()?.ino())).collect();
    let begun = time::Instant::now();
    let mut signal = Signal::TERM;
    loop {
        let left = programs_in(&wanted);
        if left.is_empty() {
            return;
        }
        if begun.elapsed() > PATIENCE {
            signal = Signal::KILL;
        }
        for pid in left {
            let _ = kill_process(pid, signal);
        }
        // Killed programs take a moment to exit. A program that the kernel cannot end does not keep the lab.
        if begun.elapsed() > PATIENCE * 2 {
            return;
        }
        thread::sleep(LOOK);
    }
}

fn programs_in(namespaces: &BTreeSet<u64>) -> Vec<Pid> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let inside = numbers.filter(|pid| {
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
        *pid != own && namespace.is_ok_and(|namespace| namespaces.contains(&namespace.ino()))
    });
    inside.filter_map(|pid| Pid::from_raw(pid as i32)).collect()
}

/// Returns the command for a user's words.
pub fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().map_or_else(OsString::new, Clone::clone));
    command.args(words.iter().skip(1));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_a_shells() {
        let status = |line: &str| Ended::of(Command::new("sh").args(["-c", line]).status().unwrap());
        assert_eq!((status("exit 0"), status("exit 7")), (Ended::Status(0), Ended::Status(7)));
        assert_eq!(status("kill -SEGV $$"), Ended::Signal(11));
        assert_eq!((Ended::Signal(11).status(), Ended::Status(7).status()), (139, 7));
    }

    #[test]
    fn hosts_have_the_names_of_the_scenario_first() {
        let place = Place {
            node: "server".to_owned(),
            namespace: String::new(),
            address: [10, 0, 0, 1].into(),
            devices: Vec::new(),
        };
        let text = hosts(&[place], "127.0.0.1 localhost\n10.9.9.9 server\n");
        assert!(text.ends_with("10.0.0.1 server\n127.0.0.1 localhost\n10.9.9.9 server\n"), "{text}");
    }
}
