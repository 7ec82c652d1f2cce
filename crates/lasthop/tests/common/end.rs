//! Running end of the tunnel in a namespace.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::network::{Network, lasthop};

/// Returns key files of three ends, and their public keys.
pub fn keys() -> &'static (TempDir, [String; 3]) {
    static KEYS: OnceLock<(TempDir, [String; 3])> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let public = [0, 1, 2].map(|end| {
            let file = folder.path().join(format!("{end}.key"));
            let output = Command::new(lasthop()).args(["tunnel", "keygen"]).arg(file).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        });
        (folder, public)
    })
}

/// Running end.
pub struct End {
    pub child: Child,
    pub folder: TempDir,
}

impl End {
    pub fn start(network: &Network, namespace: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let end = Self::spawn(network, namespace, folder, text);
        end.await_status(|status| status["worker"]["pid"].is_u64());
        end
    }

    /// Starts an end that records the inputs and decisions of its links in `r.pcapng` of its folder.
    pub fn recorded(network: &Network, namespace: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.pcapng").display().to_string();
        let end = Self::spawn_with(network, namespace, folder, text, &["--record", &file]);
        end.await_status(|status| status["worker"]["pid"].is_u64());
        end
    }

    /// Replays the recording after the end has stopped; returns the figures of the replay, which must be identical.
    pub fn replayed(&self) -> Value {
        let file = self.folder.path().join("r.pcapng");
        let output = Command::new(lasthop()).args(["tunnel", "replay", "--json"]).arg(file).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{message}\n{}", self.log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn spawn(network: &Network, namespace: &str, folder: TempDir, text: &str) -> Self {
        Self::spawn_with(network, namespace, folder, text, &[])
    }

    fn spawn_with(network: &Network, namespace: &str, folder: TempDir, text: &str, arguments: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(folder.path().join("log")).unwrap();
        configure(folder.path(), text);
        let mut command = network.command(namespace, lasthop());
        command.args(["tunnel", "run"]).arg(folder.path().join("tunnel.toml")).args(arguments);
        command.stdin(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap(), folder }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub fn say(&self, what: &str) -> std::process::Output {
        let mut command = Command::new(lasthop());
        command.args(["tunnel", what, "--control"]).arg(self.folder.path().join("control.sock"));
        if what == "status" {
            command.arg("--json");
        }
        command.output().unwrap()
    }

    pub fn await_status(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let output = self.say("status");
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < end, "{status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the process that handles packets.
    pub fn worker(&self) -> Pid {
        let status = self.await_status(|status| status["worker"]["pid"].is_u64());
        Pid::from_raw(status["worker"]["pid"].as_i64().unwrap() as i32).unwrap()
    }

    pub fn kill(&mut self, signal: Signal) -> bool {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().success()
    }

    /// Starts another process with the same file.
    pub fn again(&mut self, network: &Network, namespace: &str) {
        let text = std::fs::read_to_string(self.folder.path().join("tunnel.toml")).unwrap();
        let log = File::options().append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = network.command(namespace, lasthop());
        command.args(["tunnel", "run"]).arg(self.folder.path().join("tunnel.toml")).stdin(Stdio::null()).stderr(log);
        assert!(text.contains("control"));
        self.child = command.spawn().unwrap();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn configure(folder: &Path, text: &str) {
    let control = folder.join("control.sock");
    std::fs::write(folder.join("tunnel.toml"), format!("control = '{}'\n{text}", control.display())).unwrap();
}
