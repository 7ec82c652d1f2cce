//! A worker from the perspective of its supervisor: a process, its messages, and the time of the last one.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lasthop_sys::syscalls;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::{Channel, Incoming, Notice};
use crate::system_error::{SystemError, system};

/// Time without a message after which a worker is considered hung. It is below 200 ms, the minimum retransmission
/// timeout of a sender: the retransmission then passes, and is not lost in a queue that is being closed.
pub const SILENCE: Duration = Duration::from_millis(150);
/// Maximum silence of a worker that is running or runnable, and may just be slow.
pub const BUSY: Duration = Duration::from_secs(1);
/// Interval of checks of a busy worker.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time until the first heartbeat of a worker.
pub const START: Duration = Duration::from_secs(5);

/// Maximum time for a worker to exit voluntarily.
const END: Duration = Duration::from_millis(500);

/// Command of a worker: a program whose standard input is its end of a [`Channel`].
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments.
    pub arguments: Vec<OsString>,
}

/// A worker, and the time of its last message.
pub struct Worker {
    /// The process.
    pub child: Child,
    /// `/proc/PID/stat` of the worker.
    stat: Option<File>,
    /// Channel to the worker.
    pub channel: Channel,
    /// Start time of the worker.
    pub started: Instant,
    /// Time of the worker's last message.
    pub heard: Instant,
    /// End of the time in which the worker's silence is excused.
    excused: Instant,
    /// State of the worker's life cycle.
    pub phase: Phase,
    /// Reason why the worker refused its last order.
    pub refused: Option<String>,
}

/// Life cycle of a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The worker has not reported yet that it processes packets.
    Starting,
    /// The worker processes packets.
    Working,
    /// The worker processes packets, and is applying a new configuration.
    Changing,
    /// The worker has ended, or must be ended.
    Lost(String),
}

impl Worker {
    /// Starts a worker with its first order.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn spawn(program: &WorkerProgram, order: &impl Serialize) -> Result<Self, SystemError> {
        let (channel, theirs) = Channel::pair().map_err(system("cannot create a socket pair"))?;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().map_err(system("cannot start the worker"))?;
        // Before the process changes its user: processes of other users may be hidden.
        let stat = File::open(format!("/proc/{}/stat", child.id())).ok();
        let now = Instant::now();
        let worker = Self {
            child,
            stat,
            channel,
            started: now,
            heard: now,
            excused: now,
            phase: Phase::Starting,
            refused: None,
        };
        worker.channel.send(order).map_err(system("cannot send the configuration to the worker"))?;
        Ok(worker)
    }

    /// Handles the worker's messages; `take` receives its reports.
    pub fn listen<S: DeserializeOwned>(&mut self, mut take: impl FnMut(S)) {
        // Messages that waited while this process did not run count as just received, because the worker is not to
        // blame.
        for _ in 0..1000 {
            match self.channel.receive::<Notice<S>>() {
                Ok(Incoming::Message(notice)) => {
                    self.heard = Instant::now();
                    match notice {
                        Notice::Beat => {}
                        Notice::Configured => self.phase = Phase::Working,
                        Notice::Refused { message } => (self.refused, self.phase) = (Some(message), Phase::Working),
                        Notice::Failed { message } => self.phase = Phase::Lost(message),
                        Notice::Snapshot(snapshot) => take(*snapshot),
                    }
                }
                Ok(Incoming::Nothing) => return,
                Ok(Incoming::End) => {
                    if !matches!(self.phase, Phase::Lost(_)) {
                        self.phase = Phase::Lost("it exited".to_owned());
                    }
                    return;
                }
                Err(error) => {
                    self.phase = Phase::Lost(error.to_string());
                    return;
                }
            }
        }
    }

    /// Returns the time at which the worker's silence becomes too long.
    pub fn deadline(&self) -> Instant {
        match self.phase {
            Phase::Starting => self.started + START,
            Phase::Working | Phase::Changing => self.excused.max(self.heard + SILENCE),
            Phase::Lost(_) => self.started,
        }
    }

    /// Returns whether the worker's silence is excused for a while because it is running or runnable. Killing it would
    /// lose the packets that wait for it, without benefit.
    pub fn is_excused(&mut self, now: Instant) -> bool {
        let busy = matches!(self.phase, Phase::Working | Phase::Changing)
            && now < self.heard + BUSY
            && self.stat.as_ref().and_then(state) == Some('R');
        if busy {
            self.excused = now + LOOK;
        }
        busy
    }

    /// Ends the worker, and describes its end.
    pub fn kill(&mut self) -> String {
        // It may have ended already.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(syscalls::SIGNAL) => "forbidden system call (seccomp): a bug or an attack".to_owned(),
                Some(signal) => format!("signal {signal}"),
                None => status.to_string(),
            },
            Err(error) => error.to_string(),
        }
    }
}

/// Waits until a worker that was told to end has ended, and kills it after a timeout.
pub fn let_end(mut child: Child) {
    let end = Instant::now() + END;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Has no effect if it has ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns a process's state from its `/proc/PID/stat`, as the kernel's letter: `R` for running or runnable.
fn state(stat: &File) -> Option<char> {
    let mut bytes = [0; 512];
    let len = stat.read_at(&mut bytes, 0).ok()?;
    // The state follows the name, which may contain any character.
    let end = bytes[..len].windows(2).rposition(|pair| pair == b") ")?;
    bytes[..len].get(end + 2).map(|&letter| char::from(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_a_process_does() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut idle = Command::new("sleep").arg("60").spawn().unwrap();
        let stat = |child: &Child| File::open(format!("/proc/{}/stat", child.id())).unwrap();
        let stats = [stat(&busy), stat(&idle)];
        let find = |stat: &File, wanted| {
            (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                state(stat) == Some(wanted)
            })
        };
        let found = (find(&stats[0], 'R'), find(&stats[1], 'S'));
        for child in [&mut busy, &mut idle] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!((found, state(&stats[1])), ((true, true), None));
    }
}
