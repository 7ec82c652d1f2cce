//! Helpers of the command's tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// Scenario that runs in a millisecond and has occasional errors.
pub const TINY: &str = r#"title = "Tiny"
runs = 2

[hosts.server]
[hosts.phone]
[routers.tower]

[links.internet]
between = ["server", "tower"]
rate = "10 Mbps"
delay = "5 ms"

[links.radio]
between = ["tower", "phone"]
rate = "2 Mbps"
delay = "2 ms"
errors = { model = "uniform", frame_loss = "3 %" }

[flows.download]
from = "server"
to = "phone"
size = "100 KiB"

[base_station]
router = "tower"
link = "radio"
"#;

/// Folder with the scenario in it.
pub struct Bench(TempDir);

impl Bench {
    pub fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.put("tiny.toml", TINY);
        bench
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn put(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns a file's bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// Runs `lasthop` in the folder, with arguments separated by spaces; `'` quotes arguments with spaces.
    pub fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs `lasthop` in the folder with exactly these arguments.
    pub fn run_all(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
        command.args(arguments).current_dir(self.path()).timeout(std::time::Duration::from_secs(60));
        command.output().unwrap()
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"));
        command.args(split(arguments)).current_dir(self.path()).timeout(std::time::Duration::from_secs(60));
        command
    }

    /// Returns standard output of a command that must succeed.
    pub fn stdout(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "lasthop {arguments}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, arguments: &str) -> serde_json::Value {
        let text = self.stdout(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("lasthop {arguments}: {error}: {text}"))
    }
}

pub fn split(arguments: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for character in arguments.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => parts.push(String::new()),
            other => parts.last_mut().unwrap().push(other),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the keys of a JSON object, in order.
pub fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
