//! Loop of every worker: it opens resources, drops permissions, and handles packets until its supervisor ends it. The
//! supervisor sends it orders, and kills it if its heartbeat stops.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use lasthop_sys::poll::wait;
use lasthop_sys::privileges::{self, Tasks};
use lasthop_sys::{process, syscalls};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::{Channel, Incoming, Notice, Speaker};
use crate::recording::{RecordFile, RecordTo};
use crate::signals::follow_supervisor;
use crate::system_error::{SystemError, system};

/// Interval between checks of the interfaces, which may appear, disappear, or get new indices.
const LOOK_UP: Duration = Duration::from_secs(1);
/// Time to wait for the first order.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nice value.
const PRIORITY: i32 = -10;

/// The supervisor sent no order.
#[derive(Debug, thiserror::Error)]
#[error("no configuration received; only `{command}` starts this command")]
pub struct NoOrder {
    command: &'static str,
}

/// End of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The supervisor requested it.
    Wanted,
    /// The worker failed, and has informed the supervisor.
    Told,
}

/// Outcome of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The order was executed, and the supervisor waits for a confirmation.
    Executed,
    /// The order was refused for this reason, without effect.
    Refused(String),
    /// The order was executed, and the supervisor does not wait.
    Unanswered,
    /// The worker is to end.
    End,
}

/// Heartbeat to the supervisor.
#[derive(Debug)]
pub struct Heart {
    interval: Duration,
    next: Instant,
    speaker: Speaker,
}

impl Heart {
    /// Sends a heartbeat if one is due.
    pub fn beat(&mut self) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + self.interval;
            // A supervisor that does not read has more serious problems than this beat.
            let _ = self.speaker.send(&Notice::<()>::Beat);
        }
    }
}

/// Work of one daemon's worker: its resources, and their reactions to events of the loop.
pub trait Work: Sized {
    /// Resources that are opened with the supervisor's permissions.
    type Resources;
    /// Message from the supervisor.
    type Order: DeserializeOwned;
    /// Report to the supervisor.
    type Snapshot: Serialize;
    /// Reason for a failure.
    type Error: Display + From<NoOrder> + From<SystemError>;

    /// Command that starts workers, for messages.
    const COMMAND: &'static str;
    /// Interval of heartbeats: several within the silence after which the supervisor considers the process dead.
    const BEAT: Duration;
    /// Number of beats between reports.
    const BEATS_PER_SNAPSHOT: u32;

    /// Opens the resources that the first order needs. Returns `None` if that order does not start work.
    ///
    /// # Errors
    ///
    /// Returns an error if the order is invalid or a resource is not available.
    fn open(order: Self::Order) -> Result<Option<(Self::Resources, Tasks)>, Self::Error>;

    /// Starts all threads, and prepares to handle packets. The process keeps only the permissions that its tasks need.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot be started, or the order cannot be executed.
    fn start(resources: Self::Resources, record: Option<RecordFile>, heart: Heart) -> Result<Self, Self::Error>;

    /// Returns the heartbeat. Methods that handle many packets call it from time to time.
    fn heart(&mut self) -> &mut Heart;

    /// Returns the descriptors to wait on.
    fn descriptors(&self) -> [BorrowedFd<'_>; 2];

    /// Returns the time until the next deadline; `None` without one.
    fn patience(&self) -> Option<Duration>;

    /// Handles descriptors that are ready, in the order of [`Work::descriptors`], and deadlines that have passed.
    ///
    /// # Errors
    ///
    /// Returns an error if packets cannot be received.
    fn handle(&mut self, ready: [bool; 2]) -> Result<(), Self::Error>;

    /// Maintains the resources, at the interval of heartbeats.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be used any longer.
    fn on_beat(&mut self) -> Result<(), Self::Error>;

    /// Checks the interfaces. Called before the first packet is handled, and then every second.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be used any longer.
    fn look_up(&mut self) -> Result<(), Self::Error>;

    /// Executes an order.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker cannot continue.
    fn obey(&mut self, order: Self::Order) -> Result<Outcome, Self::Error>;

    /// Returns the report.
    fn snapshot(&mut self) -> Self::Snapshot;

    /// Handles the last packets.
    ///
    /// # Errors
    ///
    /// Returns an error if packets cannot be received.
    fn finish(&mut self) -> Result<(), Self::Error>;
}

/// Handles packets until the supervisor closes `channel`. Decisions are appended to the file `record`.
///
/// # Errors
///
/// Returns an error if the work fails and the supervisor cannot be informed.
pub fn run<W: Work>(channel: OwnedFd, record: Option<RecordTo>) -> Result<Ending, W::Error> {
    let mut channel = Channel::new(channel);
    match start::<W>(&mut channel, record).and_then(|work| repeat(work, &mut channel)) {
        Ok(()) => Ok(Ending::Wanted),
        Err(error) => match channel.send(&Notice::<()>::Failed { message: error.to_string() }) {
            Ok(()) => Ok(Ending::Told),
            Err(_) => Err(error),
        },
    }
}

fn start<W: Work>(channel: &mut Channel, record: Option<RecordTo>) -> Result<W, W::Error> {
    // Only the supervisor removes what it has installed, and devices must not outlive both processes.
    follow_supervisor()?;
    let no_order = || NoOrder { command: W::COMMAND };
    let order = first_order(channel)?.ok_or_else(no_order)?;
    // Keep freed memory for reuse: returning pages to the kernel and faulting them in again would cost more time than
    // all other work for a packet.
    process::keep_freed_memory();
    let (resources, tasks) = W::open(order)?.ok_or_else(no_order)?;
    let record = record.and_then(RecordTo::open);
    let speaker = channel.speaker().map_err(system("cannot open a channel to the supervisor"))?;
    let heart = Heart { interval: W::BEAT, next: Instant::now(), speaker };
    // Packets wait for this process. It also works without permission to raise its priority.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    // While there is one thread.
    privileges::drop_rights(tasks).map_err(system("cannot drop privileges"))?;
    let work = W::start(resources, record, heart)?;
    // After all threads have started.
    if let Err(error) = syscalls::confine(tasks) {
        tracing::warn!(%error, "cannot install the seccomp filter; the worker runs without it");
    }
    Ok(work)
}

/// Returns the first order; `None` if none arrives in time.
fn first_order<O: DeserializeOwned>(channel: &mut Channel) -> Result<Option<O>, SystemError> {
    wait(&mut [PollFd::new(channel, PollFlags::IN)], PATIENCE).map_err(system("cannot wait for a configuration"))?;
    match channel.receive() {
        Ok(Incoming::Message(order)) => Ok(Some(order)),
        _ => Ok(None),
    }
}

fn repeat<W: Work>(mut work: W, channel: &mut Channel) -> Result<(), W::Error> {
    work.look_up()?;
    let _ = channel.send(&Notice::<()>::Configured);
    let mut next_beat = Instant::now();
    let mut next_look_up = next_beat + LOOK_UP;
    let mut beats = 0_u32;
    loop {
        work.heart().beat();
        let now = Instant::now();
        if now >= next_beat {
            next_beat = now + W::BEAT;
            work.on_beat()?;
            if beats.is_multiple_of(W::BEATS_PER_SNAPSHOT) {
                report(&mut work, channel);
            }
            beats = beats.wrapping_add(1);
            if now >= next_look_up {
                next_look_up = now + LOOK_UP;
                work.look_up()?;
            }
        }
        let patience = next_beat.saturating_duration_since(Instant::now());
        let patience = work.patience().map_or(patience, |until| patience.min(until));
        let [ordered, ready @ ..] = ready(channel, &work, patience).map_err(system("cannot wait for packets"))?;
        work.handle(ready)?;
        if ordered && obey(&mut work, channel)? == Outcome::End {
            return work.finish();
        }
    }
}

/// Waits for an event, at most for `patience`. Returns whether an order waits, and which of the descriptors are ready.
fn ready<W: Work>(channel: &Channel, work: &W, patience: Duration) -> io::Result<[bool; 3]> {
    let [first, second] = work.descriptors();
    let mut fds = [channel.as_fd(), first, second].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    wait(&mut fds, patience)?;
    Ok(fds.map(|fd| !fd.revents().is_empty()))
}

fn obey<W: Work>(work: &mut W, channel: &mut Channel) -> Result<Outcome, W::Error> {
    let outcome = match channel.receive().map_err(system("cannot read from the supervisor"))? {
        Incoming::Nothing => Outcome::Unanswered,
        Incoming::End => Outcome::End,
        Incoming::Message(order) => work.obey(order)?,
    };
    let notice = match &outcome {
        Outcome::Executed => {
            // A client that requested a reload must find the new state in its next request.
            report(work, channel);
            Some(Notice::<()>::Configured)
        }
        Outcome::Refused(message) => Some(Notice::Refused { message: message.clone() }),
        Outcome::Unanswered | Outcome::End => None,
    };
    if let Some(notice) = notice {
        let _ = channel.send(&notice);
    }
    Ok(outcome)
}

/// Sends a report. A supervisor that does not read misses it.
fn report<W: Work>(work: &mut W, channel: &Channel) {
    let _ = channel.send(&Notice::Snapshot(Box::new(work.snapshot())));
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
