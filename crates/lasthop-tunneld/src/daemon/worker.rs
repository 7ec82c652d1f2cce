//! Process that handles packets: one device, one socket and one engine in one thread. Its supervisor sends it orders,
//! and starts another one when it ends.

mod path;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use lasthop_daemon::channel::{Channel, Incoming};
use lasthop_daemon::recording::RecordTo;
use lasthop_daemon::signals::follow_supervisor;
use lasthop_daemon::system_error::{SystemError, system};
use lasthop_sys::clock::BootClock;
use lasthop_sys::poll::wait;
use lasthop_sys::privileges::{self, Work};
use lasthop_sys::{process, syscalls};
use rustix::event::{PollFd, PollFlags};

use crate::bridge::BridgeError;
use crate::daemon::order::{Notice, Order};
use crate::daemon::snapshot::Snapshot;
use crate::device::DeviceError;
use crate::engine::Engine;
use crate::plan::{Plan, Way};
use crate::recording;
use path::PacketPath;

/// Interval of heartbeats: several within the silence after which the supervisor considers the process dead.
const BEAT: Duration = Duration::from_millis(25);
/// Number of beats between snapshots.
const BEATS_PER_SNAPSHOT: u32 = 10;
/// Time to wait for the first order.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of beats between checks of the interfaces.
const BEATS_PER_LOOKUP: u32 = 40;
/// Nice value.
const PRIORITY: i32 = -10;

/// Reason for a worker's failure.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The supervisor sent no order.
    #[error("no configuration received; only `lasthop tunnel run` starts this command")]
    NoOrder,
    /// The peers cannot be applied.
    #[error("{0}")]
    Peers(String),
    /// The device cannot be created.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Frames cannot be taken.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The socket cannot be bound.
    #[error("listen {address}: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Error returned by the kernel.
        error: io::Error,
    },
    /// Another system error.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// End of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The supervisor requested it.
    Wanted,
    /// The worker failed, and has informed the supervisor.
    Told,
}

/// Handles packets until the supervisor closes `channel`. Appends the links' decisions to the file `record`.
///
/// # Errors
///
/// Returns an error if it fails and cannot inform a supervisor.
pub fn run(channel: OwnedFd, record: Option<RecordTo>) -> Result<Ending, WorkerError> {
    let mut channel = Channel::new(channel);
    match Worker::start(&mut channel, record).and_then(|worker| worker.work(&mut channel)) {
        Ok(()) => Ok(Ending::Wanted),
        Err(error) => match channel.send(&Notice::Failed { message: error.to_string() }) {
            Ok(()) => Ok(Ending::Told),
            Err(_) => Err(error),
        },
    }
}

struct Worker {
    path: Box<dyn PacketPath>,
    engine: Engine,
    clock: BootClock,
}

/// Next step of the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    End,
}

impl Worker {
    fn start(channel: &mut Channel, record: Option<RecordTo>) -> Result<Self, WorkerError> {
        // The device must not outlive this process, nor this process its supervisor.
        follow_supervisor()?;
        let mut plan = first_order(channel)?;
        process::keep_freed_memory();
        path::refresh(&mut plan)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| system("cannot get random bytes")(error.into()))?;
        let entropy = getrandom::u32().map_err(|error| system("cannot get random bytes")(error.into()))?;
        let clock = BootClock;
        let path = path::open(&plan, entropy)?;
        let record = record.and_then(RecordTo::open);
        // Packets wait for this process. It also works without permission to raise its priority.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        let work = Work { splits: false, bridges: matches!(plan.way, Way::Bridged(_)) };
        // While there is one thread.
        privileges::drop_rights(work).map_err(system("cannot drop privileges"))?;
        let recorder = record.and_then(|file| recording::start(file, &plan.way));
        let engine = Engine::new(&plan, seed, clock.now(), recorder).map_err(WorkerError::Peers)?;
        if let Err(error) = syscalls::confine(work) {
            tracing::warn!(%error, "cannot install the seccomp filter; the worker runs without it");
        }
        Ok(Self { path, engine, clock })
    }

    fn work(self, channel: &mut Channel) -> Result<(), WorkerError> {
        let Self { mut path, mut engine, clock } = self;
        let _ = channel.send(&Notice::Configured);
        let (mut next_beat, mut beats) = (Instant::now(), 0_u32);
        loop {
            if Instant::now() >= next_beat {
                next_beat = Instant::now() + BEAT;
                let _ = channel.send(&Notice::Beat);
                path.look_after();
                if beats.is_multiple_of(BEATS_PER_SNAPSHOT) {
                    let snapshot = Snapshot::of(&mut engine, clock.now(), path.unsent());
                    let _ = channel.send(&Notice::Snapshot(Box::new(snapshot)));
                }
                if beats.is_multiple_of(BEATS_PER_LOOKUP) {
                    path.look_up().map_err(system("cannot continue"))?;
                }
                beats = beats.wrapping_add(1);
            }
            let beat = next_beat.saturating_duration_since(Instant::now());
            let patience = engine.poll_deadline().map_or(beat, |at| beat.min(clock.until(at)));
            let [inner, outer] = path.descriptors();
            let mut fds = [channel.as_fd(), inner, outer].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            wait(&mut fds, patience).map_err(system("cannot wait for packets"))?;
            let [ordered, packets, datagrams] = fds.map(|fd| !fd.revents().is_empty());
            if datagrams {
                path.take_datagrams(&mut engine, clock).map_err(system("cannot read datagrams"))?;
            }
            if packets {
                path.take_packets(&mut engine, clock).map_err(system("cannot read from the device"))?;
            }
            let now = clock.now();
            engine.handle_timeout(now, wall());
            path.beat(&engine).map_err(system("cannot update the heartbeat of the BPF programs"))?;
            path.give(&mut engine, now);
            if ordered && obey(channel, &mut engine, &mut *path, clock)? == Next::End {
                engine.close(clock.now());
                path.give(&mut engine, clock.now());
                return Ok(());
            }
        }
    }
}

fn obey(
    channel: &mut Channel,
    engine: &mut Engine,
    path: &mut dyn PacketPath,
    clock: BootClock,
) -> Result<Next, WorkerError> {
    match channel.receive::<Order>().map_err(system("cannot read from the supervisor"))? {
        Incoming::Nothing => Ok(Next::Continue),
        Incoming::End | Incoming::Message(Order::Close) => Ok(Next::End),
        Incoming::Message(Order::Configure(plan)) => {
            // Routes first: if other routes conflict, the change fails without effect.
            let notice = match path.reconfigure(&plan) {
                Ok(()) => {
                    engine.configure(clock.now(), &plan.peers).map_err(WorkerError::Peers)?;
                    // The client that requested the reload must find the new state in its next request.
                    let snapshot = Snapshot::of(engine, clock.now(), path.unsent());
                    let _ = channel.send(&Notice::Snapshot(Box::new(snapshot)));
                    Notice::Configured
                }
                Err(message) => Notice::Refused { message },
            };
            let _ = channel.send(&notice);
            Ok(Next::Continue)
        }
    }
}

fn first_order(channel: &mut Channel) -> Result<Box<Plan>, WorkerError> {
    wait(&mut [PollFd::new(channel, PollFlags::IN)], PATIENCE).map_err(system("cannot wait for a configuration"))?;
    match channel.receive::<Order>() {
        Ok(Incoming::Message(Order::Configure(plan))) => Ok(plan),
        _ => Err(WorkerError::NoOrder),
    }
}

/// Returns the time of day, in nanoseconds since 1970.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
