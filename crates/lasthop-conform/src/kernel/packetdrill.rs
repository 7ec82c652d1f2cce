//! Runs of scripts on the kernel by packetdrill.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lasthop_sys::namespace;

/// Number of attempts: a busy machine misses the times of a script now and then.
const ATTEMPTS: u8 = 3;

/// Maximum duration of an attempt.
const LONGEST: Duration = Duration::from_secs(300);

/// Interval at which the end of an attempt is looked for.
const INTERVAL: Duration = Duration::from_millis(5);

/// Maximum length of a message, in characters.
const MOST_MESSAGE: usize = 300;

/// Symbols that public suites leave to the caller: Fast Open cookies of their common key, and names of control
/// messages.
const DEFINED: [&str; 4] = [
    "TFO_COOKIE=3021b9d889017eeb",
    "TFO_COOKIE_ZERO=b7c12350a90dc8f5",
    "CMSG_LEVEL_IP=SOL_IP",
    "CMSG_TYPE_RECVERR=IP_RECVERR",
];

/// Result of a script on the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelVerdict {
    /// True if the script passed.
    pub is_passed: bool,
    /// First lines of packetdrill's message otherwise.
    pub message: String,
}

/// packetdrill, with the environment that it needs.
pub struct Packetdrill {
    program: PathBuf,
    tools: PathBuf,
}

impl Packetdrill {
    /// Prepares runs of `program` with connections under `congestion`. A new network namespace may refuse to change
    /// the default congestion control, so it becomes a property of the route that packetdrill adds: its calls of `ip`
    /// go through a script in a temporary folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be written.
    pub fn new(program: PathBuf, congestion: &str) -> io::Result<Self> {
        let tools = std::env::temp_dir().join(format!("lasthop-conform-{}", std::process::id()));
        // A folder that exists may be another user's, who could replace the script that root runs.
        fs::DirBuilder::new().mode(0o700).create(&tools)?;
        let wrapper = tools.join("ip");
        let text = format!(
            "#!/bin/sh\nPATH=\"${{PATH#*:}}\"\ncase \"$*\" in\n*\"route add\"*) exec ip \"$@\" congctl {congestion} ;;\nesac\nexec ip \"$@\"\n"
        );
        fs::write(&wrapper, text)?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))?;
        Ok(Self { program, tools })
    }

    /// Runs a script in a new network namespace, which the calling thread enters.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace cannot be made or the program cannot be started.
    pub fn run(&self, script: &Path) -> io::Result<KernelVerdict> {
        let mut verdict = self.attempt(script)?;
        for _ in 1..ATTEMPTS {
            if verdict.is_passed {
                break;
            }
            verdict = self.attempt(script)?;
        }
        Ok(verdict)
    }

    fn attempt(&self, script: &Path) -> io::Result<KernelVerdict> {
        namespace::enter_new()?;
        // Without effect on scripts that do not use it.
        let _ = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        let old = std::env::var_os("PATH").unwrap_or_default();
        let mut path = self.tools.clone().into_os_string();
        path.push(":");
        path.push(old);
        let folder = script.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut command = Command::new(&self.program);
        for symbol in DEFINED {
            command.args(["-D", symbol]);
        }
        command.arg(script.file_name().unwrap_or_default()).current_dir(folder).env("PATH", path);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(stderr) = stderr {
                let _ = stderr.take(64 * 1024).read_to_string(&mut text);
            }
            text
        });
        let is_passed = wait(&mut child)?;
        let text = reader.join().unwrap_or_default();
        Ok(KernelVerdict { is_passed, message: message(&text) })
    }
}

impl Drop for Packetdrill {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.tools);
    }
}

/// Waits for the end of `child`, and ends it after the maximum duration. Returns whether it succeeded.
fn wait(child: &mut Child) -> io::Result<bool> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begun.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Returns the lines of a message that say what differs.
fn message(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("sysctl:"));
    lines.collect::<Vec<_>>().join(" ").chars().take(MOST_MESSAGE).collect()
}
