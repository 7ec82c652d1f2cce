//! Program that runs beside a test.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Maximum wait for events that must happen, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Program that runs until it is dropped.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for the program to end; returns its exit status, or `None` if it does not end.
    pub fn status(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Returns its first line on standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Waits for a line on standard error that contains `word`.
    pub fn says(&mut self, word: &str) -> String {
        let mut lines = BufReader::new(self.0.stderr.as_mut().unwrap()).lines();
        lines.find_map(|line| line.ok().filter(|line| line.contains(word))).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program with a supervisor, namespaces or rules needs the chance to remove them.
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::INT);
        if self.status().is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
