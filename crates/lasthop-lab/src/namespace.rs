//! Network namespaces by name, created and removed with iproute2, whose commands operators know.
//!
//! Names are `lh-PID-NUMBER-...`. PID is the owner, which distinguishes leftovers of a killed process from namespaces
//! in use; NUMBER distinguishes the labs of one process. A lab with a name ([`Name`]) uses `lh-NAME-...`, and a file
//! that its process keeps locked.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::fs::{FlockOperation, flock};

use super::error::LabError;

/// Folder of iproute2's named namespaces.
const FOLDER: &str = "/run/netns";
const PREFIX: &str = "lh-";

/// A named network namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Returns the namespace's name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace's file, for `setns`.
    pub fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// Runs `work` on a new thread inside this namespace. Sockets created there stay in the namespace, wherever they
    /// are used.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace cannot be entered, or if `work` fails.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
        let enter = || {
            let path = self.path();
            let file = File::open(&path).map_err(|error| LabError::File { path: path.clone(), error })?;
            let what = || format!("cannot enter network namespace {}", self.name);
            lasthop_sys::namespace::enter(file).map_err(LabError::system(what()))?;
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join().unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Runs `ip` commands inside, one per line, until the first that fails.
    ///
    /// # Errors
    ///
    /// Returns an error if one fails; the message contains its line.
    pub fn ip(&self, lines: &[String]) -> Result<(), LabError> {
        if lines.is_empty() {
            return Ok(());
        }
        self.batch("ip", lines)
    }

    /// Runs `tc` commands, one per line.
    ///
    /// # Errors
    ///
    /// Returns an error if one fails; the message contains its line.
    pub fn tc(&self, lines: &[String]) -> Result<(), LabError> {
        if lines.is_empty() { Ok(()) } else { self.batch("tc", lines) }
    }

    /// Sets the time for which a device's receive offload waits for another packet, in nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be set.
    pub fn set_flush_timeout(&self, device: &str, nanos: u64) -> Result<(), LabError> {
        // The file of a device exists in a mount of sysfs that belongs to its namespace, as `ip netns exec` has it.
        let file = format!("/sys/class/net/{device}/gro_flush_timeout");
        let command = format!("ip netns exec {} tee {file}", self.name);
        let arguments = ["netns", "exec", &self.name, "tee", &file];
        run("ip", &arguments, &format!("{nanos}\n")).map_err(|message| message.at(&command, &[]))
    }

    fn batch(&self, program: &str, lines: &[String]) -> Result<(), LabError> {
        let command = format!("{program} -n {} -batch -", self.name);
        let text = lines.join("\n") + "\n";
        run(program, &["-n", &self.name, "-batch", "-"], &text).map_err(|message| message.at(&command, lines))
    }

    /// Sets kernel parameters, each a path below `/proc/sys` and a value.
    ///
    /// # Errors
    ///
    /// Returns an error if one cannot be set.
    pub fn sysctls(&self, values: &[(&str, String)]) -> Result<(), LabError> {
        // A thread sees the parameters of its own namespace.
        self.within(|| {
            values.iter().try_for_each(|(key, value)| {
                let path = Path::new("/proc/sys").join(key);
                std::fs::write(&path, value).map_err(|error| LabError::File { path, error })
            })
        })
    }
}

/// Folder of the lock files of named labs.
const LOCKS: &str = "/run/lasthop-lab";

/// Name of a lab, reserved for this process until this is dropped.
#[derive(Debug)]
pub struct Name {
    name: String,
    /// Locked file that contains the process's number.
    _lock: File,
}

impl Name {
    /// Reserves the given name, or the first free one of `lab`, `lab2`, `lab3`, ...
    ///
    /// # Errors
    ///
    /// Returns an error if another process has the name, or if it is invalid. Valid names are a lower-case letter
    /// followed by at most 11 lower-case letters, digits and underscores.
    pub fn take(given: Option<&str>) -> Result<Self, LabError> {
        const MOST: u32 = 1000;
        let Some(name) = given else {
            let names = (1..MOST).map(|number| if number == 1 { "lab".to_owned() } else { format!("lab{number}") });
            for name in names {
                if let Some(taken) = Self::lock(&name)? {
                    return Ok(taken);
                }
            }
            return Err(LabError::Name { name: "lab".to_owned(), what: "all lab names are in use".to_owned() });
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.len() > 12 || !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) {
            let what = "invalid name; give a lower-case letter followed by up to 11 lower-case letters, digits and underscores";
            return Err(LabError::Name { name: name.to_owned(), what: what.to_owned() });
        }
        Self::lock(name)?.ok_or_else(|| {
            let by = owner(name).map_or(String::new(), |pid| format!(" (process {pid})"));
            let what = format!("this lab is already open{by}; give another name, or close that lab");
            LabError::Name { name: name.to_owned(), what }
        })
    }

    /// Locks the name's file; `None` if another process has locked it.
    fn lock(name: &str) -> Result<Option<Self>, LabError> {
        let path = lock_of(name);
        let fail = |error| LabError::File { path: path.clone(), error };
        std::fs::create_dir_all(LOCKS).map_err(fail)?;
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(&path).map_err(fail)?;
        // A process that only checks the lock holds it for a moment.
        const TRIES: u32 = 5;
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
        let mut tries = 0;
        loop {
            tries += 1;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if tries < TRIES => thread::sleep(PAUSE),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(fail(error.into())),
            }
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
        Ok(Some(Self { name: name.to_owned(), _lock: file }))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

fn lock_of(name: &str) -> PathBuf {
    Path::new(LOCKS).join(format!("{name}.lock"))
}

/// Returns the process that locked a name last.
fn owner(name: &str) -> Option<u32> {
    std::fs::read_to_string(lock_of(name)).ok()?.trim().parse().ok()
}

/// Returns whether a process has the name.
fn is_locked(name: &str) -> bool {
    let Ok(file) = File::open(lock_of(name)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
}

/// The namespaces of one lab. They are removed when this is dropped, also by a panic.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
    made: Vec<String>,
}

impl Default for Namespaces {
    fn default() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { prefix: format!("{PREFIX}{}-{number}-", std::process::id()), made: Vec::new() }
    }
}

impl Namespaces {
    /// Creates the set for a named lab, and removes leftovers of a process that had the name before.
    ///
    /// # Errors
    ///
    /// Returns an error if these cannot be removed.
    pub fn named(name: &Name) -> Result<Self, LabError> {
        let left = all().into_iter().filter(|leftover| leftover.lab.as_deref() == Some(name.as_str()));
        left.into_iter().try_for_each(|leftover| netns("delete", &leftover.name))?;
        Ok(Self { prefix: format!("{PREFIX}{}-", name.as_str()), made: Vec::new() })
    }

    /// Creates a namespace whose name ends in `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if `ip` is missing or lacks permission.
    pub fn add(&mut self, name: &str) -> Result<Namespace, LabError> {
        let name = format!("{}{name}", self.prefix);
        // Recorded first: the command may fail after creating a part of it.
        self.made.push(name.clone());
        netns("add", &name)?;
        Ok(Namespace { name })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in self.made.iter().rev() {
            if Path::new(FOLDER).join(name).exists()
                && let Err(error) = netns("delete", name)
            {
                tracing::warn!("{error}; remove it with `lasthop lab clean`");
            }
        }
    }
}

/// A namespace of a lab, and the process that created it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Leftover {
    /// Name of the namespace.
    pub name: String,
    /// Number of the process; 0 if unknown.
    pub pid: u32,
    /// Name of the lab, if it has one.
    pub lab: Option<String>,
}

impl Leftover {
    fn parse(name: &str) -> Option<Self> {
        let (whose, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let is_name = whose.starts_with(|c: char| c.is_ascii_lowercase());
        let (pid, lab) =
            if is_name { (owner(whose).unwrap_or(0), Some(whose.to_owned())) } else { (whose.parse().ok()?, None) };
        Some(Self { name: name.to_owned(), pid, lab })
    }

    /// Returns whether the lab is in use: a process with that number exists, or a process has the name.
    pub fn in_use(&self) -> bool {
        match &self.lab {
            Some(name) => is_locked(name),
            None => Path::new("/proc").join(self.pid.to_string()).exists(),
        }
    }
}

/// Returns all namespaces of labs, including those in use.
pub fn all() -> Vec<Leftover> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.filter_map(|entry| Leftover::parse(entry.file_name().to_str()?)).collect();
    all.sort();
    all
}

/// Returns the namespaces left by processes that have ended.
pub fn leftovers() -> Vec<Leftover> {
    all().into_iter().filter(|leftover| !leftover.in_use()).collect()
}

/// Removes and returns the namespaces left by processes that have ended.
///
/// # Errors
///
/// Returns an error without root, and if one cannot be removed.
pub fn clean() -> Result<Vec<Leftover>, LabError> {
    require_root()?;
    let leftovers = leftovers();
    leftovers.iter().try_for_each(|leftover| netns("delete", &leftover.name))?;
    Ok(leftovers)
}

/// Checks that the process runs as root.
///
/// # Errors
///
/// Returns an error without root.
pub fn require_root() -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(LabError::NotRoot) }
}

fn netns(verb: &str, name: &str) -> Result<(), LabError> {
    run("ip", &["netns", verb, name], "").map_err(|message| message.at(&format!("ip netns {verb} {name}"), &[]))
}

/// Reason why `ip` or `tc` failed.
enum Refusal {
    NotStarted(std::io::Error),
    Said(String),
}

impl Refusal {
    /// Returns the error of `command`, whose input was `lines`. iproute2 prints "Command failed -:LINE".
    fn at(self, command: &str, lines: &[String]) -> LabError {
        let message = match self {
            Self::NotStarted(error) => return LabError::NoCommand { command: command.to_owned(), error },
            Self::Said(message) => message,
        };
        let line = message.split("Command failed -:").nth(1).and_then(|rest| rest.trim().parse::<usize>().ok());
        let line = line.and_then(|line| lines.get(line.checked_sub(1)?));
        let first = message.lines().next().unwrap_or("no error message").trim().to_owned();
        let command = line.map_or_else(|| command.to_owned(), |line| format!("{command} <<< {line}"));
        LabError::Command { command, message: first }
    }
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<(), Refusal> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // In a group of its own: Ctrl-C at the terminal must not interrupt the clean-up.
        .process_group(0)
        .spawn()
        .map_err(Refusal::NotStarted)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that failed early does not read all of it; its status reports the failure.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Refusal::NotStarted)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Refusal::Said(String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let found = |name: &str| Leftover::parse(name).map(|leftover| leftover.pid);
        assert_eq!(found("lh-17-0-node-mobile"), Some(17));
        assert_eq!(found(&format!("{}links", Namespaces::default().prefix)), Some(std::process::id()));
        for other in ["lh17-x", "lh--x", "lh-X-17", "blue", "lh-17", "lh-99999999999-x", ""] {
            assert_eq!(found(other), None, "{other}");
        }
        assert!(Leftover { name: String::new(), pid: std::process::id(), lab: None }.in_use());
        let named = Leftover::parse("lh-nobodys_lab-node-x").unwrap();
        assert_eq!((named.lab.as_deref(), named.pid, named.in_use()), (Some("nobodys_lab"), 0, false));
    }

    #[test]
    fn a_refusal_names_the_line() {
        let lines = ["link set a up".to_owned(), "link set b up".to_owned()];
        let said = "Cannot find device \"b\"\nCommand failed -:2\n".to_owned();
        let error = Refusal::Said(said).at("ip -n x -batch -", &lines).to_string();
        assert_eq!(error, "`ip -n x -batch - <<< link set b up` failed: Cannot find device \"b\"");
    }
}
