//! Process that handles packets: one device, one socket and one engine in one thread. Its supervisor sends it orders,
//! and starts another one when it ends.

mod path;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use lasthop_daemon::recording::{RecordFile, RecordTo};
use lasthop_daemon::system_error::{SystemError, system};
pub use lasthop_daemon::worker::Ending;
use lasthop_daemon::worker::{self, Heart, NoOrder, Outcome, Work};
use lasthop_proto::link::hybrid::PathId;
use lasthop_sys::clock::BootClock;
use lasthop_sys::privileges::Tasks;

use crate::bridge::BridgeError;
use crate::daemon::order::Order;
use crate::daemon::snapshot::Snapshot;
use crate::device::DeviceError;
use crate::engine::Engine;
use crate::plan::{Plan, Way};
use crate::recording;
use path::PacketPath;

/// Reason for a worker's failure.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The supervisor sent no order.
    #[error(transparent)]
    NoOrder(#[from] NoOrder),
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

/// Handles packets until the supervisor closes `channel`. Appends the links' decisions to the file `record`.
///
/// # Errors
///
/// Returns an error if it fails and cannot inform a supervisor.
pub fn run(channel: OwnedFd, record: Option<RecordTo>) -> Result<Ending, WorkerError> {
    worker::run::<Worker>(channel, record)
}

struct Worker {
    heart: Heart,
    path: Box<dyn PacketPath>,
    engine: Engine,
    clock: BootClock,
}

/// Resources of a worker before its start.
struct Resources {
    plan: Box<Plan>,
    path: Box<dyn PacketPath>,
    seed: [u8; 32],
}

impl Work for Worker {
    type Resources = Resources;
    type Order = Order;
    type Snapshot = Snapshot;
    type Error = WorkerError;

    const COMMAND: &'static str = "lasthop tunnel run";
    const BEAT: Duration = Duration::from_millis(25);
    const BEATS_PER_SNAPSHOT: u32 = 10;

    fn open(order: Order) -> Result<Option<(Resources, Tasks)>, WorkerError> {
        let Order::Configure(mut plan) = order else { return Ok(None) };
        path::refresh(&mut plan)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| system("cannot get random bytes")(error.into()))?;
        let entropy = getrandom::u32().map_err(|error| system("cannot get random bytes")(error.into()))?;
        let path = path::open(&plan, entropy)?;
        let tasks = Tasks { splits: false, bridges: matches!(plan.way, Way::Bridged(_)) };
        Ok(Some((Resources { plan, path, seed }, tasks)))
    }

    fn start(resources: Resources, record: Option<RecordFile>, heart: Heart) -> Result<Self, WorkerError> {
        let (Resources { plan, path, seed }, clock) = (resources, BootClock);
        let recorder = record.and_then(|file| recording::start(file, &plan.way));
        let engine = Engine::new(&plan, seed, clock.now(), recorder).map_err(WorkerError::Peers)?;
        Ok(Self { heart, path, engine, clock })
    }

    fn heart(&mut self) -> &mut Heart {
        &mut self.heart
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        self.path.descriptors()
    }

    fn patience(&self) -> Option<Duration> {
        self.engine.poll_deadline().map(|at| self.clock.until(at))
    }

    fn handle(&mut self, [packets, datagrams]: [bool; 2]) -> Result<(), WorkerError> {
        let Self { heart, path, engine, clock } = self;
        if datagrams {
            path.take_datagrams(engine, *clock).map_err(system("cannot read datagrams"))?;
            heart.beat();
        }
        if packets {
            path.take_packets(engine, *clock).map_err(system("cannot read from the device"))?;
            heart.beat();
        }
        let now = clock.now();
        engine.handle_timeout(now, wall());
        path.beat(engine).map_err(system("cannot update the heartbeat of the BPF programs"))?;
        path.give(engine, now);
        Ok(())
    }

    fn on_beat(&mut self) -> Result<(), WorkerError> {
        self.path.look_after();
        Ok(())
    }

    fn look_up(&mut self) -> Result<(), WorkerError> {
        let Self { path, engine, clock, .. } = self;
        Ok(path.look_up(engine, clock.now()).map_err(system("cannot continue"))?)
    }

    fn obey(&mut self, order: Order) -> Result<Outcome, WorkerError> {
        let plan = match order {
            Order::Configure(plan) => plan,
            Order::Limit { peer, path, terms } => {
                self.engine.limit(self.clock.now(), &peer, PathId(path), terms.tier);
                return Ok(Outcome::Unanswered);
            }
            Order::Close => return Ok(Outcome::End),
        };
        // Routes first: if other routes conflict, the change fails without effect.
        match self.path.reconfigure(&plan) {
            Ok(()) => {
                let changed = self.engine.adopt(self.clock.now(), &plan).map_err(WorkerError::Peers)?;
                if let Some(public_key) = changed {
                    tracing::info!(%public_key, "private key changed: peers need this public key");
                }
                Ok(Outcome::Executed)
            }
            Err(message) => Ok(Outcome::Refused(message)),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        Snapshot::of(&mut self.engine, self.clock.now(), self.path.unsent())
    }

    fn finish(&mut self) -> Result<(), WorkerError> {
        self.engine.close(self.clock.now());
        self.path.give(&mut self.engine, self.clock.now());
        Ok(())
    }
}

/// Returns the time of day, in nanoseconds since 1970.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
