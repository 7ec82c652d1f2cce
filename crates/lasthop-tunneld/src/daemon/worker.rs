//! The process that handles packets: one thread, one device, one socket, one engine. Its supervisor tells it what to do, and starts
//! another when it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use lasthop_daemon::channel::{Channel, Incoming};
use lasthop_daemon::signals::follow_supervisor;
use lasthop_daemon::system_error::{SystemError, system};
use lasthop_sys::clock::BootClock;
use lasthop_sys::poll::wait;
use lasthop_sys::privileges::{self, Work};
use lasthop_sys::{process, syscalls};
use rustix::event::{PollFd, PollFlags};

use crate::daemon::order::{Notice, Order};
use crate::daemon::snapshot::Snapshot;
use crate::device::{Device, DeviceError, Reader, Writer};
use crate::engine::Engine;
use crate::plan::{Own, Plan};
use crate::socket::{Batch, Inbox, Udp};

/// How often the loop says that it gets on: several times within the silence that the supervisor takes for death.
const BEAT: Duration = Duration::from_millis(25);
/// A snapshot goes every so many beats.
const BEATS_PER_SNAPSHOT: u32 = 10;
/// How long the first order may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Datagrams after which frames are sent: feedback tells of 128.
const STRIDE: usize = 64;
/// Readings of the device before the socket has its turn.
const READINGS: usize = 32;
/// As `nice` counts.
const PRIORITY: i32 = -10;

/// Why a worker ends.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The supervisor sent no order.
    #[error("no configuration came; this command is for the tunnel's own use")]
    NoOrder,
    /// Peers cannot be taken.
    #[error("{0}")]
    Peers(String),
    /// No device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No socket.
    #[error("listen {address}: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Something else in the system.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// How a worker ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The supervisor wanted it so.
    Wanted,
    /// It could not go on, and the supervisor knows why.
    Told,
}

/// Handles packets until the supervisor closes `channel`.
///
/// # Errors
///
/// When it cannot go on, and there is no supervisor to be told.
pub fn run(channel: OwnedFd) -> Result<Ending, WorkerError> {
    let mut channel = Channel::new(channel);
    match Worker::start(&mut channel).and_then(|worker| worker.work(&mut channel)) {
        Ok(()) => Ok(Ending::Wanted),
        Err(error) => match channel.send(&Notice::Failed { message: error.to_string() }) {
            Ok(()) => Ok(Ending::Told),
            Err(_) => Err(error),
        },
    }
}

struct Worker {
    device: Device,
    udp: Udp,
    engine: Engine,
    clock: BootClock,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    End,
}

impl Worker {
    fn start(channel: &mut Channel) -> Result<Self, WorkerError> {
        // The device goes with this process, and this process with its supervisor.
        follow_supervisor()?;
        let plan = first_order(channel)?;
        process::keep_freed_memory();
        let interface = match &plan.own {
            Own::Key(_) => None,
            Own::Name { interface, .. } => Some(interface.as_str()),
        };
        let listen = |error| WorkerError::Listen { address: plan.listen, error };
        let udp = Udp::bind(plan.listen, interface).map_err(listen)?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| system("cannot get randomness")(error.into()))?;
        let clock = BootClock;
        let engine = Engine::new(&plan, seed, clock.now()).map_err(WorkerError::Peers)?;
        let device = Device::open(&plan)?;
        // Packets wait for this process; where it may not go before others, it works all the same.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        let work = Work { splits: false, bridges: false };
        privileges::drop_rights(work).map_err(system("cannot give up rights"))?;
        if let Err(error) = syscalls::confine(work) {
            tracing::warn!(%error, "the worker keeps all system calls: the kernel takes no seccomp filter");
        }
        Ok(Self { device, udp, engine, clock })
    }

    fn work(self, channel: &mut Channel) -> Result<(), WorkerError> {
        let Self { mut device, udp, mut engine, clock } = self;
        let (mut inbox, mut reader, mut writer) = (Inbox::default(), Reader::default(), Writer::default());
        let mut batch = Batch::new(&udp);
        let _ = channel.send(&Notice::Configured);
        let (mut next_beat, mut beats) = (Instant::now(), 0_u32);
        loop {
            if Instant::now() >= next_beat {
                next_beat = Instant::now() + BEAT;
                let _ = channel.send(&Notice::Beat);
                if beats.is_multiple_of(BEATS_PER_SNAPSHOT) {
                    let snapshot = Snapshot::of(&mut engine, clock.now(), batch.unsent + writer.refused);
                    let _ = channel.send(&Notice::Snapshot(Box::new(snapshot)));
                }
                beats = beats.wrapping_add(1);
            }
            let beat = next_beat.saturating_duration_since(Instant::now());
            let patience = engine.deadline().map_or(beat, |at| beat.min(clock.until(at)));
            let mut fds =
                [channel.as_fd(), device.as_fd(), udp.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            wait(&mut fds, patience).map_err(system("cannot wait for packets"))?;
            let [ordered, packets, datagrams] = fds.map(|fd| !fd.revents().is_empty());
            if datagrams {
                inbox.fill(&udp).map_err(system("cannot read datagrams"))?;
                let (mut taken, mut now) = (0, clock.now());
                inbox.for_each(|datagram| {
                    engine.take_datagram(now, datagram.from, datagram.to, datagram.ecn, datagram.bytes);
                    taken += 1;
                    if taken % STRIDE == 0 {
                        now = clock.now();
                        engine.send(now, &mut batch);
                        writer.write(&device, |packet| engine.poll_packet(packet));
                    }
                });
            }
            if packets {
                let now = clock.now();
                for _ in 0..READINGS {
                    let count = reader.read(&device, |packet| engine.take_packet(now, packet));
                    if count.map_err(system("cannot read from the device"))? == 0 {
                        break;
                    }
                }
            }
            let now = clock.now();
            engine.handle_timeout(now, wall());
            engine.send(now, &mut batch);
            batch.flush();
            for (to, size) in std::mem::take(&mut batch.too_big) {
                engine.too_big(now, to, size);
            }
            writer.write(&device, |packet| engine.poll_packet(packet));
            if ordered && obey(channel, &mut engine, &mut device, clock)? == Next::End {
                engine.close(clock.now());
                engine.send(clock.now(), &mut batch);
                batch.flush();
                return Ok(());
            }
        }
    }
}

fn obey(
    channel: &mut Channel,
    engine: &mut Engine,
    device: &mut Device,
    clock: BootClock,
) -> Result<Next, WorkerError> {
    match channel.receive::<Order>().map_err(system("cannot read from the supervisor"))? {
        Incoming::Nothing => Ok(Next::Continue),
        Incoming::End | Incoming::Message(Order::Close) => Ok(Next::End),
        Incoming::Message(Order::Configure(plan)) => {
            // Routes first: they fail where others have such, and then all stays as it was.
            let notice = match device.route(&plan.routes) {
                Ok(()) => {
                    engine.configure(clock.now(), &plan.peers).map_err(WorkerError::Peers)?;
                    Notice::Configured
                }
                Err(error) => Notice::Refused { message: error.to_string() },
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

/// Nanoseconds since 1970.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
