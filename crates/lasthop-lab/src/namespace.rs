//! Network namespaces by name, made and removed with iproute2: the commands are those that operators know.
//!
//! Names are `lh-PID-NUMBER-...`: PID says whose they are, so that what a killed process left behind can be told from what is
//! in use; NUMBER tells the labs of one process apart.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::error::LabError;

/// Where iproute2 keeps named namespaces.
const FOLDER: &str = "/run/netns";
const PREFIX: &str = "lh-";

/// A named network namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it, for `setns`.
    pub fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// Runs `work` on a thread of its own inside this namespace. Sockets that it makes stay there, wherever they are used.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be entered, or `work` fails.
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

    /// Carries out lines of `ip` commands inside; the first that fails ends it.
    ///
    /// # Errors
    ///
    /// When one fails; the message names the line.
    pub fn ip(&self, lines: &[String]) -> Result<(), LabError> {
        if lines.is_empty() {
            return Ok(());
        }
        self.batch("ip", lines)
    }

    /// Runs `tc` commands, one a line.
    ///
    /// # Errors
    ///
    /// When one fails; the message names the line.
    pub fn tc(&self, lines: &[String]) -> Result<(), LabError> {
        if lines.is_empty() { Ok(()) } else { self.batch("tc", lines) }
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
    /// When one cannot be set.
    pub fn sysctls(&self, values: &[(&str, String)]) -> Result<(), LabError> {
        // The kernel shows each thread the parameters of its own namespace.
        self.within(|| {
            values.iter().try_for_each(|(key, value)| {
                let path = Path::new("/proc/sys").join(key);
                std::fs::write(&path, value).map_err(|error| LabError::File { path, error })
            })
        })
    }
}

/// The namespaces of one lab: gone when this is dropped, also when a panic unwinds.
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
    /// Makes one whose name ends in `name`.
    ///
    /// # Errors
    ///
    /// When `ip` is missing or may not.
    pub fn add(&mut self, name: &str) -> Result<Namespace, LabError> {
        let name = format!("{}{name}", self.prefix);
        // Noted first: half of it may be there when the command fails.
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
                tracing::warn!("{error}; `lasthop lab clean` removes it later");
            }
        }
    }
}

/// A namespace of a lab, and the process that made it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Leftover {
    /// Its name.
    pub name: String,
    /// The process.
    pub pid: u32,
}

impl Leftover {
    fn parse(name: &str) -> Option<Self> {
        let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some(Self { name: name.to_owned(), pid: pid.parse().ok()? })
    }

    /// Whether a process of that number lives: then the namespace is in use.
    pub fn in_use(&self) -> bool {
        Path::new("/proc").join(self.pid.to_string()).exists()
    }
}

/// All namespaces of labs, those in use included.
pub fn all() -> Vec<Leftover> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.filter_map(|entry| Leftover::parse(entry.file_name().to_str()?)).collect();
    all.sort();
    all
}

/// What dead processes left behind.
pub fn leftovers() -> Vec<Leftover> {
    all().into_iter().filter(|leftover| !leftover.in_use()).collect()
}

/// Removes what dead processes left behind; says what that was.
///
/// # Errors
///
/// Without root, and when one cannot be removed.
pub fn clean() -> Result<Vec<Leftover>, LabError> {
    require_root()?;
    let leftovers = leftovers();
    leftovers.iter().try_for_each(|leftover| netns("delete", &leftover.name))?;
    Ok(leftovers)
}

/// Refuses to go on without root.
///
/// # Errors
///
/// Without root.
pub fn require_root() -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(LabError::NotRoot) }
}

fn netns(verb: &str, name: &str) -> Result<(), LabError> {
    run("ip", &["netns", verb, name], "").map_err(|message| message.at(&format!("ip netns {verb} {name}"), &[]))
}

/// Why `ip` or `tc` failed.
enum Refusal {
    NotStarted(std::io::Error),
    Said(String),
}

impl Refusal {
    /// The error of `command`, which was given `lines`: iproute2 says "Command failed -:LINE".
    fn at(self, command: &str, lines: &[String]) -> LabError {
        let message = match self {
            Self::NotStarted(error) => return LabError::NoCommand { command: command.to_owned(), error },
            Self::Said(message) => message,
        };
        let line = message.split("Command failed -:").nth(1).and_then(|rest| rest.trim().parse::<usize>().ok());
        let line = line.and_then(|line| lines.get(line.checked_sub(1)?));
        let first = message.lines().next().unwrap_or("it gave no reason").trim().to_owned();
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
        // Out of reach of the terminal's Ctrl-C, which must not interrupt the clean-up.
        .process_group(0)
        .spawn()
        .map_err(Refusal::NotStarted)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that failed early does not read it all; its status says so.
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
        for other in ["lh17-x", "lh--x", "lh-x-17", "blue", "lh-17", "lh-99999999999-x", ""] {
            assert_eq!(found(other), None, "{other}");
        }
        assert!(Leftover { name: String::new(), pid: std::process::id() }.in_use());
    }

    #[test]
    fn a_refusal_names_the_line() {
        let lines = ["link set a up".to_owned(), "link set b up".to_owned()];
        let said = "Cannot find device \"b\"\nCommand failed -:2\n".to_owned();
        let error = Refusal::Said(said).at("ip -n x -batch -", &lines).to_string();
        assert_eq!(error, "`ip -n x -batch - <<< link set b up` failed: Cannot find device \"b\"");
    }
}
