//! Process that handles the packets: one packet path and one engine in one thread. Its supervisor sends it the
//! configuration, and kills it if its heartbeat stops.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use lasthop_daemon::recording::{RecordFile, RecordTo};
use lasthop_daemon::system_error::{SystemError, system};
pub use lasthop_daemon::worker::Ending;
use lasthop_daemon::worker::{self, Heart, NoOrder, Outcome, Work};
use lasthop_sys::nfqueue::{BindError, Buffer, Queue};
use lasthop_sys::privileges::{Tasks, not_held};
use lasthop_sys::raw::Sender;
use rustix::thread::CapabilitySet;

use crate::configuration::Gateway;
use crate::daemon::bridge::programs::Protocols;
use crate::daemon::bridge::{BridgeError, BridgePath};
use crate::daemon::order::Order;
use crate::daemon::path::{BEAT, Beneath, Core, PacketPath, Waiting};
use crate::daemon::queue::{FirstSender, QueuePath, Senders};
use crate::daemon::relay::{Gate, Relay};
use crate::daemon::snapshot::{RelaySnapshot, Snapshot};
use crate::daemon::tape::Tape;
use crate::engine::recording::engine::RecordedEngine;
use crate::engine::recording::recorder::Recorder;
use crate::settings;
use crate::split::{SplitConfig, SplitError, SplitProxy};

/// Reason for a worker's failure.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
    /// The supervisor sent no configuration.
    #[error(transparent)]
    NoConfig(#[from] NoOrder),
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

/// Handles packets until the supervisor closes `channel`. Appends the engine's decisions to the file `record`.
///
/// # Errors
///
/// Returns an error if it fails and cannot inform a supervisor.
pub fn run(channel: OwnedFd, record: Option<RecordTo>) -> Result<Ending, WorkerError> {
    worker::run::<Worker>(channel, record)
}

struct Worker {
    core: Core,
    path: Box<dyn PacketPath>,
}

/// Resources of a worker before its start.
struct Resources {
    gateway: Gateway,
    /// Text of the configuration file.
    text: String,
    path: Box<dyn PacketPath>,
    /// Listeners for split connections, if a rule splits.
    proxy: Option<(SplitProxy, SplitConfig)>,
    tape: Option<Tape>,
    seed: u64,
}

impl Work for Worker {
    type Resources = Resources;
    type Order = Order;
    type Snapshot = Snapshot;
    type Error = WorkerError;

    const COMMAND: &'static str = "lasthop gateway run";
    const BEAT: Duration = BEAT;
    const BEATS_PER_SNAPSHOT: u32 = 25;

    fn open(order: Order) -> Result<Option<(Resources, Tasks)>, WorkerError> {
        let Order::Configure { file, text } = order else { return Ok(None) };
        let gateway = Gateway::parse(&file, &text)?;
        let path = open_path(&gateway)?;
        let split = settings::split(&gateway);
        let proxy = split.map(|split| Ok::<_, SplitError>((SplitProxy::bind(split.clone())?, split))).transpose()?;
        let tape = gateway.limits.link.map(Tape::new).transpose();
        let tape = tape.map_err(system("cannot allocate the memory for limits.link"))?;
        let seed = seed().map_err(system("/dev/urandom"))?;
        let tasks = Tasks { splits: proxy.is_some(), bridges: gateway.bridge.is_some() };
        Ok(Some((Resources { gateway, text, path, proxy, tape, seed }, tasks)))
    }

    fn start(resources: Resources, record: Option<RecordFile>, heart: Heart) -> Result<Self, WorkerError> {
        let Resources { gateway, text, path, proxy, tape, seed } = resources;
        let relay = proxy.map(|(proxy, config)| Relay::start(proxy, config, &gateway));
        let relay = relay.transpose().map_err(system("cannot start a thread"))?;
        let recorder = record.and_then(|file| Recorder::start(file, &text, seed));
        let engine = RecordedEngine::new(&gateway, seed, recorder);
        let beneath = settings::beneath(&gateway).map(|config| Beneath::new(config, seed));
        Ok(Self { core: Core::new(heart, engine, beneath, relay, tape, (gateway, text)), path })
    }

    fn heart(&mut self) -> &mut Heart {
        &mut self.core.heart
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        self.path.descriptors()
    }

    fn patience(&self) -> Option<Duration> {
        self.core.poll_deadline().map(|at| self.core.clock.until(at))
    }

    fn handle(&mut self, ready: [bool; 2]) -> Result<(), WorkerError> {
        let Waiting { packets, changes } = self.path.waiting(ready);
        if changes {
            self.look_up()?;
        }
        if packets {
            self.path.take_packets(&mut self.core).map_err(system("cannot read packets"))?;
        }
        if self.core.poll_deadline().is_some_and(|at| at <= self.core.clock.now()) {
            self.core.handle_timeout();
            self.path.inject(&mut self.core);
        }
        Ok(())
    }

    fn on_beat(&mut self) -> Result<(), WorkerError> {
        if self.core.relay.as_mut().is_some_and(Relay::hangs) {
            return Err(WorkerError::Relay);
        }
        self.path.watch(&mut self.core);
        Ok(self.path.beat().map_err(system("cannot send a heartbeat"))?)
    }

    fn look_up(&mut self) -> Result<(), WorkerError> {
        Ok(self.path.look_up(&mut self.core).map_err(system("cannot check interfaces"))?)
    }

    fn obey(&mut self, order: Order) -> Result<Outcome, WorkerError> {
        match order {
            Order::Configure { file, text } => {
                let gateway = Gateway::parse(&file, &text)?;
                self.path.reconfigure(&gateway).map_err(system("cannot list interfaces"))?;
                self.look_up()?;
                self.core.reconfigure(&gateway, &text);
            }
            Order::Rules { in_place } => {
                let gate = if in_place { Gate::Open } else { Gate::Closed };
                self.core.relay.iter_mut().for_each(|relay| relay.set_gate(gate));
                return Ok(Outcome::Unanswered);
            }
            Order::Release => self.core.release(),
        }
        self.path.inject(&mut self.core);
        Ok(Outcome::Executed)
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

    fn finish(&mut self) -> Result<(), WorkerError> {
        Ok(self.path.finish(&mut self.core).map_err(system("cannot read packets"))?)
    }
}

/// Opens the packet path: the bridge, or the queue.
fn open_path(gateway: &Gateway) -> Result<Box<dyn PacketPath>, WorkerError> {
    if let Some(bridge) = &gateway.bridge {
        let protocols = if settings::has_quic(gateway) { Protocols::TcpAndUdp } else { Protocols::Tcp };
        return Ok(Box::new(BridgePath::open(bridge, gateway.limits.flows, protocols)?));
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
