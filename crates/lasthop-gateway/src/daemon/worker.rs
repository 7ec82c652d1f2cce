//! Process that handles the packets: one packet path and one engine in one thread. Its supervisor sends it the
//! configuration, and kills it if its heartbeat stops.

use std::io;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use lasthop_daemon::channel::{Channel, Incoming};
use lasthop_daemon::recording::RecordTo;
use lasthop_daemon::signals::follow_supervisor;
use lasthop_daemon::system_error::{SystemError, system};
use lasthop_sys::nfqueue::{BindError, Buffer, Queue};
use lasthop_sys::poll::wait;
use lasthop_sys::privileges::{self, Work, not_held};
use lasthop_sys::raw::Sender;
use lasthop_sys::{process, syscalls};
use rustix::event::{PollFd, PollFlags};
use rustix::thread::CapabilitySet;

use crate::configuration::Gateway;
use crate::daemon::bridge::{BridgeError, BridgePath};
use crate::daemon::order::{Notice, Order};
use crate::daemon::path::{BEAT, Beneath, Core, Heart, PacketPath};
use crate::daemon::queue::{FirstSender, QueuePath, Senders};
use crate::daemon::relay::{Gate, Relay};
use crate::daemon::snapshot::{RelaySnapshot, Snapshot};
use crate::daemon::tape::Tape;
use crate::engine::recording::engine::RecordedEngine;
use crate::engine::recording::recorder::Recorder;
use crate::settings;
use crate::split::{SplitError, SplitProxy};

/// Number of beats between snapshots.
const ROUNDS_PER_SNAPSHOT: u32 = 25;
/// Interval of checks of the interfaces, which may come, leave, and get new indices, for paths without notifications
/// too.
const LOOKUP: Duration = Duration::from_secs(1);
/// Time to wait for the first configuration.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nice value.
const PRIORITY: i32 = -10;

/// Reason for a worker's failure.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
    /// The supervisor sent no configuration.
    #[error("no configuration received; only `lasthop gateway run` starts this command")]
    NoConfig,
    /// The queue cannot be bound.
    #[error(transparent)]
    Queue(#[from] BindError),
    /// Raw sockets cannot be opened.
    #[error("cannot open raw sockets: {error}{}", optional("; ", .not_held))]
    Raw {
        /// Error returned by the kernel.
        error: io::Error,
        /// Missing capabilities.
        not_held: Option<String>,
    },
    /// TCP cannot be taken from the bridge.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The relay hangs.
    #[error("the relay of split connections does not respond")]
    Relay,
    /// Connections cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Another system error.
    #[error(transparent)]
    System(#[from] SystemError),
}

fn optional(before: &str, text: &Option<String>) -> String {
    text.as_ref().map(|text| format!("{before}{text}")).unwrap_or_default()
}

fn no_raw_sockets(error: io::Error) -> WorkerError {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    WorkerError::Raw { not_held: if is_denied { not_held(needed) } else { None }, error }
}

/// End of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The supervisor requested it.
    Wanted,
    /// The worker failed, and has informed the supervisor.
    Told,
}

/// Handles packets until the supervisor closes `channel`. Appends the engine's decisions to the file `record`.
///
/// # Errors
///
/// Returns an error if it fails and cannot inform a supervisor.
pub fn run(channel: OwnedFd, record: Option<RecordTo>) -> Result<Ending, WorkerError> {
    let mut channel = Channel::new(channel);
    match Worker::start(&mut channel, record).and_then(|mut worker| worker.work(&mut channel)) {
        Ok(()) => Ok(Ending::Wanted),
        Err(error) => match channel.send(&Notice::Failed { message: error.to_string() }) {
            Ok(()) => Ok(Ending::Told),
            Err(_) => Err(error),
        },
    }
}

struct Worker {
    core: Core,
    path: Box<dyn PacketPath>,
}

/// Next step of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Continue,
    End,
}

impl Worker {
    fn start(channel: &mut Channel, record: Option<RecordTo>) -> Result<Self, WorkerError> {
        // Only the supervisor removes the rules, so the worker must not outlive it.
        follow_supervisor()?;
        let (gateway, text) = first_configuration(channel)?;
        // Keep freed memory for reuse: returning pages to the kernel and faulting them in again would cost more time
        // than all other work for a packet.
        process::keep_freed_memory();
        let path = open_path(&gateway)?;
        // Packets wait for this process. It also works without permission to raise its priority.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        let split = settings::split(&gateway);
        let proxy = split.clone().map(SplitProxy::bind).transpose()?;
        let record = record.and_then(RecordTo::open);
        let tape = gateway
            .limits
            .link
            .map(Tape::new)
            .transpose()
            .map_err(system("cannot allocate the memory for limits.link"))?;
        let seed = seed().map_err(system("/dev/urandom"))?;
        let work = Work { splits: proxy.is_some(), bridges: gateway.bridge.is_some() };
        // While there is one thread.
        privileges::drop_rights(work).map_err(system("cannot drop privileges"))?;
        let relay = proxy.zip(split).map(|(proxy, config)| Relay::start(proxy, config, &gateway));
        let relay = relay.transpose().map_err(system("cannot start a thread"))?;
        let recorder = record.and_then(|file| Recorder::start(file, &text, seed));
        // After all threads have started.
        if let Err(error) = syscalls::confine(work) {
            tracing::warn!(%error, "cannot install the seccomp filter; the worker runs without it");
        }
        let engine = RecordedEngine::new(&gateway, seed, recorder);
        let beneath = settings::beneath(&gateway).map(|config| Beneath::new(config, seed));
        let heart = Heart::new(channel.speaker().map_err(system("cannot open a channel to the supervisor"))?);
        Ok(Self { core: Core::new(heart, engine, beneath, relay, tape, (gateway, text)), path })
    }

    fn work(&mut self, channel: &mut Channel) -> Result<(), WorkerError> {
        self.look_up()?;
        let _ = channel.send(&Notice::Configured);
        let mut next_round = Instant::now();
        let mut next_lookup = next_round + LOOKUP;
        let mut rounds = 0_u32;
        loop {
            let now = Instant::now();
            if now >= next_round {
                next_round = now + BEAT;
                if self.core.relay.as_mut().is_some_and(Relay::hangs) {
                    return Err(WorkerError::Relay);
                }
                self.path.watch(&mut self.core);
                self.path.beat().map_err(system("cannot send a heartbeat"))?;
                rounds = rounds.wrapping_add(1);
                if rounds % ROUNDS_PER_SNAPSHOT == 1 {
                    let _ = channel.send(&Notice::Snapshot(Box::new(self.snapshot())));
                }
                if now >= next_lookup {
                    next_lookup = now + LOOKUP;
                    self.look_up()?;
                }
            }
            self.core.heart.beat();
            let patience = next_round.saturating_duration_since(now);
            let patience = self.core.poll_deadline().map_or(patience, |at| patience.min(self.core.clock.until(at)));
            let changes = self.path.changes();
            let first = 1 + usize::from(changes.is_some());
            let all = iter::once(channel.as_fd()).chain(changes).chain(self.path.packets());
            let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            wait(&mut fds, patience).map_err(system("cannot wait for packets"))?;
            let ready = |fds: &[PollFd<'_>]| fds.iter().any(|fd| !fd.revents().is_empty());
            let (ordered, changed, arrived) = (ready(&fds[..1]), ready(&fds[1..first]), ready(&fds[first..]));
            if changed {
                self.look_up()?;
            }
            if arrived {
                self.path.take_packets(&mut self.core).map_err(system("cannot read packets"))?;
            }
            if self.core.poll_deadline().is_some_and(|at| at <= self.core.clock.now()) {
                self.core.handle_timeout();
                self.path.inject(&mut self.core);
            }
            if ordered && self.obey(channel)? == Next::End {
                return Ok(self.path.finish(&mut self.core).map_err(system("cannot read packets"))?);
            }
        }
    }

    fn look_up(&mut self) -> Result<(), WorkerError> {
        Ok(self.path.look_up(&mut self.core).map_err(system("cannot check interfaces"))?)
    }

    fn obey(&mut self, channel: &mut Channel) -> Result<Next, WorkerError> {
        match channel.receive::<Order>().map_err(system("cannot read from the supervisor"))? {
            Incoming::Nothing => Ok(Next::Continue),
            Incoming::End => Ok(Next::End),
            Incoming::Message(Order::Configure { file, text }) => {
                let gateway = Gateway::parse(&file, &text)?;
                self.path.reconfigure(&gateway).map_err(system("cannot list interfaces"))?;
                self.look_up()?;
                self.core.reconfigure(&gateway, &text);
                Ok(self.carried_out(channel))
            }
            Incoming::Message(Order::Rules { in_place }) => {
                let gate = if in_place { Gate::Open } else { Gate::Closed };
                self.core.relay.iter_mut().for_each(|relay| relay.set_gate(gate));
                Ok(Next::Continue)
            }
            Incoming::Message(Order::Release) => {
                self.core.release();
                Ok(self.carried_out(channel))
            }
        }
    }

    fn carried_out(&mut self, channel: &Channel) -> Next {
        self.path.inject(&mut self.core);
        let _ = channel.send(&Notice::Configured);
        Next::Continue
    }

    fn snapshot(&mut self) -> Snapshot {
        let (counters, mut arms) = (self.core.engine.counters(), self.core.engine.arms());
        if let Some(relay) = &self.core.relay {
            relay.treated(&mut arms);
        }
        let beneath = self.core.beneath.as_mut().map(|beneath| beneath.engine.counters());
        let split = self.core.relay.as_ref().map(|relay| RelaySnapshot::new(relay.snapshot(), beneath.as_ref()));
        let now = self.core.clock.now();
        let tape = self.core.tape.as_mut().map(|tape| {
            // Includes all packets counted so far.
            tape.flush(now);
            tape.number()
        });
        let (untreated, suspensions) = self.path.untreated();
        Snapshot { tape, untreated, suspensions, ..Snapshot::new(self.core.counters, &counters, &arms, split) }
    }
}

/// Opens the packet path: the bridge, or the queue.
fn open_path(gateway: &Gateway) -> Result<Box<dyn PacketPath>, WorkerError> {
    if let Some(bridge) = &gateway.bridge {
        return Ok(Box::new(BridgePath::open(bridge, gateway.limits.flows)?));
    }
    let sender = Sender::new(gateway.mark).map_err(no_raw_sockets)?;
    let split = settings::split(gateway);
    let home =
        split.map(|split| Sender::new(gateway.mark | split.marks.deliver)).transpose().map_err(no_raw_sockets)?;
    let mut buffer = Buffer::default();
    let queue = Queue::bind(gateway.queue, &mut buffer)?;
    let first = home.is_some().then(|| FirstSender::new(gateway.mark)).transpose().map_err(no_raw_sockets)?;
    let path = QueuePath::new(gateway, queue, Senders { out: sender, home, first }, buffer)
        .map_err(system("cannot list interfaces"))?;
    Ok(Box::new(path))
}

/// Returns an unpredictable number.
fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn first_configuration(channel: &mut Channel) -> Result<(Gateway, String), WorkerError> {
    wait(&mut [PollFd::new(channel, PollFlags::IN)], PATIENCE).map_err(system("cannot wait for a configuration"))?;
    match channel.receive::<Order>() {
        Ok(Incoming::Message(Order::Configure { file, text })) => Ok((Gateway::parse(&file, &text)?, text)),
        _ => Err(WorkerError::NoConfig),
    }
}
