//! lasthop's own TCP on real packets: [`Connection`](lasthop_proto::tcp::Connection) behind a TUN device, for the
//! schemes that no kernel implements, and for our own Reno, NewReno and SACK.
//!
//! A [`Host`] has its own addresses in the network behind the device. The kernel of the namespace in which it was
//! opened is the other end of that network, or forwards to it. SMART and ELN use experimental options (RFC 6994).
//!
//! | module | contents |
//! |---|---|
//! | `stack` | the host without its device: packets in, packets out |
//! | `end` | one end of a connection, and its application |
//! | [`pattern`] | the bytes that are transferred |
//! | `air` | a lossy link in front of the device |
//! | `icmp` | messages that report a smaller path MTU |

mod air;
mod end;
mod icmp;
mod outcome;
pub mod pattern;
mod stack;
#[cfg(test)]
mod stack_tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::tcp::config::{Switch, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_sys::clock::Clock;
use lasthop_wire::Route;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tun_rs::{DeviceBuilder, SyncDevice};

use self::air::Air;
use self::end::{App, Ticket};
use self::stack::{Out, Stack};

pub use self::end::Payload;
pub use self::outcome::{Ending, Outcome};

/// Maximum number of packets read from the device before timers and requests are handled.
const BATCH: usize = 64;

/// Addresses of a host, and the link between it and its device.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Name of the host. With the same name and seed, its ticks have the same phases as in the simulator.
    pub name: String,
    /// Name of the TUN device, which is created in the calling thread's network namespace.
    pub device: String,
    /// IPv4 address of the kernel on the device, with its prefix length. The kernel reaches those of the host's
    /// addresses that are in this network; others need routes.
    pub kernel_v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address of the kernel on the device, with its prefix length.
    pub kernel_v6: Option<(Ipv6Addr, u8)>,
    /// Addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Maximum packet size, in bytes.
    pub mtu: u16,
    /// Seed of initial sequence numbers, tick phases and losses.
    pub seed: u64,
    /// Error models for packets from the device and to the device.
    pub errors: [ErrorSpec; 2],
    /// Indicates whether changes of the congestion window are reported as events.
    pub watch: Switch,
}

/// Error of a host.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum HostError {
    #[error("TUN device {name}: {source}; requires root (CAP_NET_ADMIN) and /dev/net/tun")]
    Device { name: String, source: io::Error },
    #[error("cannot start the host's thread: {0}")]
    Thread(io::Error),
    #[error("{0} is not an address of this host; addresses are set when the host is opened")]
    NotOurs(SocketAddr),
    #[error("{0} and {1} have different address families; use IPv4 or IPv6 for both")]
    Families(SocketAddr, SocketAddr),
    #[error("a connection from {0} to {1} already exists; use another local port")]
    Busy(SocketAddr, SocketAddr),
    #[error("the host has its maximum of {0} connections; wait for some to close")]
    Full(usize),
    #[error("the host no longer exists: its device was removed, or it was dropped")]
    Gone,
}

/// Parameters of a transfer from this host.
#[derive(Clone, Debug)]
pub struct Sending {
    /// TCP configuration of this end.
    pub config: Arc<TcpConfig>,
    /// Local end: an address of the host, and a port.
    pub local: SocketAddr,
    /// Remote end, which accepts connections.
    pub remote: SocketAddr,
    /// Number of bytes to send, from the start of [`pattern`].
    pub bytes: u64,
    /// Indicates whether the connection is closed afterwards; the transfer then ends when that is acknowledged too.
    /// Otherwise the connection stays open until the host is dropped.
    pub close: Switch,
    /// Time after which the transfer is aborted.
    pub limit: Duration,
}

/// Parameters of a transfer to this host: one connection is accepted.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// TCP configuration of this end.
    pub config: Arc<TcpConfig>,
    /// Local end: an address of the host, and a port. Several receivers may wait at the same local end; each new
    /// connection goes to the one that has waited longest. A connection has the configuration of the receiver that was
    /// first when its SYN arrived.
    pub local: SocketAddr,
    /// Remote end to accept; `None` accepts any.
    pub remote: Option<SocketAddr>,
    /// Number of bytes that complete the transfer; `None`: complete when the peer closes.
    pub bytes: Option<u64>,
    /// Data to expect.
    pub payload: Payload,
    /// Counter of the bytes that arrive in order, updated during the transfer.
    pub meter: Option<Arc<AtomicU64>>,
    /// Time after which the transfer is aborted, including the wait for a connection.
    pub limit: Duration,
}

/// Request to the thread.
enum Request {
    Begin(Ticket, Job, Answers),
    Abort(Ticket),
}

/// A transfer to start.
enum Job {
    Send(Sending),
    Receive(Receiving),
}

/// Channels for the answers to a request.
struct Answers {
    /// Reports whether the transfer has started.
    begun: mpsc::Sender<Result<(), HostError>>,
    /// Reports the outcome.
    outcome: mpsc::Sender<Outcome>,
}

/// Connection from callers to the thread, which ends when the last one is dropped.
struct Line {
    requests: mpsc::Sender<Request>,
    wake: OwnedFd,
    tickets: AtomicU64,
}

impl Line {
    fn ask(&self, request: Request) {
        // If the thread has ended, the caller detects this when it waits for the answer.
        let _ = self.requests.send(request);
        self.wake();
    }

    fn wake(&self) {
        // This can only fail if the counter is full, and then the thread is about to wake anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }
}

/// TUN device of a host that has not started. Packets that arrive on it wait for [`Host::start`].
pub struct Device {
    config: HostConfig,
    device: SyncDevice,
}

impl Device {
    /// Creates the device in the calling thread's network namespace and configures it.
    pub fn open(config: HostConfig) -> Result<Self, HostError> {
        let device =
            open_device(&config).map_err(|source| HostError::Device { name: config.device.clone(), source })?;
        Ok(Self { config, device })
    }
}

/// A host with lasthop's TCP, which runs in its own thread until it is dropped. Open connections are then reset.
pub struct Host {
    line: Arc<Line>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A transfer in progress.
pub struct Transfer {
    line: Arc<Line>,
    ticket: Ticket,
    outcome: mpsc::Receiver<Outcome>,
}

impl Host {
    /// Creates the device in the calling thread's network namespace and starts the host. Outcomes have times of
    /// `clock`; hosts whose outcomes are compared share a clock.
    pub fn open(config: HostConfig, clock: Clock) -> Result<Self, HostError> {
        Self::start(Device::open(config)?, clock)
    }

    /// Starts a host on its device.
    pub fn start(Device { config, device }: Device, clock: Clock) -> Result<Self, HostError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .and_then(|wake| Ok((wake.try_clone().map_err(|_| rustix::io::Errno::MFILE)?, wake)))
            .map_err(|errno| HostError::Thread(errno.into()))?;
        let (requests, queue) = mpsc::channel();
        let (stop, stopped) = mpsc::channel();
        let driver = Driver {
            stack: Stack::new(&config),
            air: [Air::new(&config.errors[0], config.seed, "in"), Air::new(&config.errors[1], config.seed, "out")],
            waiting: BTreeMap::new(),
            out: Vec::new(),
            device,
            clock,
        };
        let thread = std::thread::Builder::new().name(config.device);
        let thread = thread.spawn(move || driver.run(&queue, &stopped, &wake.0)).map_err(HostError::Thread)?;
        let line = Arc::new(Line { requests, wake: wake.1, tickets: 0.into() });
        Ok(Self { line, stop: Some(stop), thread: Some(thread) })
    }

    /// Sends the data, and waits for the outcome.
    pub fn send(&self, sending: Sending) -> Result<Outcome, HostError> {
        self.start_sending(sending)?.wait()
    }

    /// Accepts a connection and receives, and waits for the outcome.
    pub fn receive(&self, receiving: Receiving) -> Result<Outcome, HostError> {
        self.start_receiving(receiving)?.wait()
    }

    /// Starts to send: the SYN is sent.
    pub fn start_sending(&self, sending: Sending) -> Result<Transfer, HostError> {
        self.begin(Job::Send(sending))
    }

    /// Starts to wait for a connection: a SYN that arrives from now on is answered.
    pub fn start_receiving(&self, receiving: Receiving) -> Result<Transfer, HostError> {
        self.begin(Job::Receive(receiving))
    }

    fn begin(&self, job: Job) -> Result<Transfer, HostError> {
        let (begun, has_begun) = mpsc::channel();
        let (answer, outcome) = mpsc::channel();
        let ticket = self.line.ticket();
        self.line.ask(Request::Begin(ticket, job, Answers { begun, outcome: answer }));
        has_begun.recv().unwrap_or(Err(HostError::Gone))?;
        Ok(Transfer { line: self.line.clone(), ticket, outcome })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop = None;
        self.line.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already printed its message.
            let _ = thread.join();
        }
    }
}

impl Transfer {
    /// Waits until the transfer has ended, at its limit at the latest.
    pub fn wait(self) -> Result<Outcome, HostError> {
        self.outcome.recv().map_err(|_| HostError::Gone)
    }

    /// Waits up to `patience` for the outcome. `None` if the transfer has not ended.
    pub fn wait_for(&self, patience: std::time::Duration) -> Result<Option<Outcome>, HostError> {
        match self.outcome.recv_timeout(patience) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(HostError::Gone),
        }
    }

    /// Resets the connection. The outcome describes the transfer until then.
    pub fn abort(&self) {
        self.line.ask(Request::Abort(self.ticket));
    }
}

fn open_device(config: &HostConfig) -> io::Result<SyncDevice> {
    let mut builder = DeviceBuilder::new().name(&config.device).mtu(config.mtu);
    if let Some((address, prefix)) = config.kernel_v4 {
        builder = builder.ipv4(address, prefix, None::<Ipv4Addr>);
    }
    if let Some((address, prefix)) = config.kernel_v6 {
        builder = builder.ipv6(address, prefix);
    }
    let device = builder.build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// State of the host's thread.
struct Driver {
    stack: Stack,
    /// Links from the device, and to the device.
    air: [Air; 2],
    /// Channels of the callers that wait for an outcome.
    waiting: BTreeMap<Ticket, mpsc::Sender<Outcome>>,
    out: Out,
    device: SyncDevice,
    clock: Clock,
}

impl Driver {
    fn run(mut self, queue: &mpsc::Receiver<Request>, stopped: &mpsc::Receiver<()>, wake: &OwnedFd) {
        // For precise timers; by default the kernel adds 50 µs.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; 65536];
        while let Err(mpsc::TryRecvError::Empty) = stopped.try_recv() {
            while let Ok(request) = queue.try_recv() {
                self.serve(request);
            }
            let now = self.clock.now();
            if self.stack.poll_deadline().is_some_and(|at| at <= now) {
                self.stack.handle_timeout(now, &mut self.out);
            }
            self.flush();
            self.answer();
            self.sleep(wake);
            if let Err(error) = self.take_packets(&mut buffer) {
                tracing::warn!(%error, "the TUN device failed; the host stops");
                break;
            }
        }
        self.stack.abort_all(self.clock.now(), &mut self.out);
        self.flush();
        self.answer();
    }

    fn serve(&mut self, request: Request) {
        let now = self.clock.now();
        let (ticket, job, answers) = match request {
            Request::Begin(ticket, job, answers) => (ticket, job, answers),
            Request::Abort(ticket) => return self.stack.abort(now, ticket, &mut self.out),
        };
        let begun = match job {
            Job::Send(Sending { config, local, remote, bytes, close, limit }) => {
                let route = Route { source: local, destination: remote };
                let opening = (route, App::Send { bytes, close }, config);
                self.stack.open(now, ticket, opening, now + limit, &mut self.out)
            }
            Job::Receive(Receiving { config, local, remote, bytes, payload, meter, limit }) => {
                let app = App::Receive { bytes, payload, meter };
                self.stack.listen(now, ticket, (local, remote, app, config), now + limit)
            }
        };
        if begun.is_ok() {
            self.waiting.insert(ticket, answers.outcome);
        }
        // The caller may have stopped waiting.
        let _ = answers.begun.send(begun);
    }

    /// Writes the stack's packets to the device. Packets that it does not accept are lost, as in a full queue.
    fn flush(&mut self) {
        for mut packet in self.out.drain(..) {
            if self.air[1].carry(self.clock.now(), &mut packet)
                && let Err(error) = self.device.send(&packet)
            {
                tracing::trace!(%error, "cannot write a packet to the TUN device");
            }
        }
    }

    fn answer(&mut self) {
        for (ticket, outcome) in self.stack.take_outcomes() {
            if let Some(waiting) = self.waiting.remove(&ticket) {
                let _ = waiting.send(outcome);
            }
        }
    }

    /// Waits for a packet, a request or the next deadline.
    fn sleep(&self, wake: &OwnedFd) {
        let deadline = self.stack.poll_deadline();
        let timeout = deadline.and_then(|at| Timespec::try_from(self.clock.until(at)).ok());
        let mut fds = [PollFd::new(&self.device, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        // A signal ends the wait early, which is harmless.
        let _ = poll(&mut fds, timeout.as_ref());
        let mut counter = [0; 8];
        let _ = rustix::io::read(wake, &mut counter);
    }

    fn take_packets(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..BATCH {
            let len = match self.device.recv(buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let now = self.clock.now();
            let packet = &mut buffer[..len];
            if self.air[0].carry(now, packet) {
                self.stack.handle_packet(now, packet, &mut self.out);
                self.flush();
            }
        }
        Ok(())
    }
}
