//! A worker as its supervisor sees it: a process, what it says, and when it was heard of last.

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

/// A worker that was silent for so long hangs. Below the 200 ms after which a sender at the earliest repeats itself: what it
/// repeats then passes already, and does not end in a queue that is given up.
pub const SILENCE: Duration = Duration::from_millis(150);
/// A silent worker that the kernel runs, or would if there were a processor for it, may just be slow; not for so long.
pub const BUSY: Duration = Duration::from_secs(1);
/// How often one is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A worker may take so long until it beats for the first time.
pub const START: Duration = Duration::from_secs(5);

/// How long a worker may take to end by itself.
const END: Duration = Duration::from_millis(500);

/// How to start a worker: a program whose standard input is its end of a [`Channel`].
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A worker, and when it was heard of last.
pub struct Worker {
    /// The process.
    pub child: Child,
    /// What the kernel says about it.
    stat: Option<File>,
    /// To it.
    pub channel: Channel,
    /// When it was started.
    pub started: Instant,
    /// When it was heard of last.
    pub heard: Instant,
    /// Until then its silence is forgiven.
    excused: Instant,
    /// How far it is.
    pub phase: Phase,
    /// Why it refused its last order.
    pub refused: Option<String>,
}

/// How far a worker is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has not said yet that it takes packets.
    Starting,
    /// It takes packets.
    Working,
    /// It works, and takes a new configuration at the moment.
    Changing,
    /// It is gone, or must go.
    Lost(String),
}

impl Worker {
    /// Starts one, with its first order.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub fn spawn(program: &WorkerProgram, order: &impl Serialize) -> Result<Self, SystemError> {
        let (channel, theirs) = Channel::pair().map_err(system("cannot make a socket pair"))?;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().map_err(system("cannot start the worker"))?;
        // Before it becomes another user's, whose processes may be hidden.
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

    /// Reads what it says; `take` is given what it says of itself.
    pub fn listen<S: DeserializeOwned>(&mut self, mut take: impl FnMut(S)) {
        // What waited while this process did not run counts as heard now: it is no fault of the worker's.
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
                        self.phase = Phase::Lost("it ended".to_owned());
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

    /// When its silence becomes too long.
    pub fn deadline(&self) -> Instant {
        match self.phase {
            Phase::Starting => self.started + START,
            Phase::Working | Phase::Changing => self.excused.max(self.heard + SILENCE),
            Phase::Lost(_) => self.started,
        }
    }

    /// Whether its silence is forgiven for a while, because it is busy: it is at work, or waits for a processor. To kill it would
    /// cost the packets that wait for it, and help nobody.
    pub fn is_excused(&mut self, now: Instant) -> bool {
        let busy = matches!(self.phase, Phase::Working | Phase::Changing)
            && now < self.heard + BUSY
            && self.stat.as_ref().and_then(state) == Some('R');
        if busy {
            self.excused = now + LOOK;
        }
        busy
    }

    /// Ends it, and says how it ended.
    pub fn kill(&mut self) -> String {
        // It may have ended by itself.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(syscalls::SIGNAL) => {
                    "it made a system call that no worker makes: a fault, or an attack".to_owned()
                }
                Some(signal) => format!("signal {signal}"),
                None => status.to_string(),
            },
            Err(error) => error.to_string(),
        }
    }
}

/// Waits until a worker that was told to end has ended, or ends it.
pub fn let_end(mut child: Child) {
    let end = Instant::now() + END;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    // It has ended, or must.
    let _ = child.kill();
    let _ = child.wait();
}

/// What a process does whose `/proc/PID/stat` this is, in the kernel's letters: `R` for one that runs or could.
fn state(stat: &File) -> Option<char> {
    let mut bytes = [0; 512];
    let len = stat.read_at(&mut bytes, 0).ok()?;
    // Behind its name, which may hold anything.
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
