//! Both ends over UDP. The loops wait for datagrams and for what is due, in one thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time;

use lasthop_proto::time::{Duration, Instant};
use lasthop_sys::clock::Clock;
use lasthop_sys::datagrams::Datagrams;
use lasthop_sys::poll::wait;
use rustix::event::{PollFd, PollFlags};

use crate::client::{Client, ClientConfig, Failure, Measured, Progress};
use crate::end::Datagram;
use crate::key::{KEY, Key};
use crate::server::{Event, Server, ServerConfig};

/// UDP's port that is used where none is given.
pub const PORT: u16 = 4105;
/// How soon the end is noticed, and how often progress is told.
const LONGEST_WAIT: time::Duration = time::Duration::from_millis(50);
/// Packets that are sent before what came is looked at.
const MOST_AT_ONCE: u32 = 2048;
/// Clocks begin here: no time before is needed.
const ORIGIN: Duration = Duration::from_secs(1000);

/// Why it did not work.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No socket at that address.
    #[error("cannot take datagrams at {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// No way to the other end.
    #[error("{address}: {error}")]
    Unreachable {
        /// Its address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The other end's machine says that nobody listens.
    #[error("{address}: nobody listens there; start `lasthop probe serve` on it")]
    Refused {
        /// Its address.
        address: SocketAddr,
    },
    /// It did not come to an end.
    #[error("{address}: {failure}")]
    Failed {
        /// The other end's address.
        address: SocketAddr,
        /// Why.
        failure: Failure,
    },
    /// Something of this machine.
    #[error("cannot wait for datagrams: {0}")]
    Wait(io::Error),
}

/// The kernel's clock, from [`ORIGIN`] on.
struct Now(Clock);

impl Now {
    fn get(&self) -> Instant {
        self.0.now() + ORIGIN
    }

    /// How long it is until `at`.
    fn until(&self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.get()).as_nanos())
    }
}

fn wait_for(sockets: &[&Datagrams], patience: time::Duration) -> Result<(), ProbeError> {
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
    wait(&mut fds, patience.min(LONGEST_WAIT)).map_err(ProbeError::Wait)
}

/// Measures the path to the other end, until it is done or `tell` says that it is to stop.
///
/// # Errors
///
/// [`ProbeError`], each in one line.
pub fn measure(config: ClientConfig, mut tell: impl FnMut(Progress) -> Stop) -> Result<Measured, ProbeError> {
    let address = config.server;
    let unreachable = |error| ProbeError::Unreachable { address, error };
    let mut socket = Datagrams::connect(address).map_err(unreachable)?;
    let clock = Now(Clock::start());
    let mut client = Client::new(config);
    let mut told = time::Instant::now();
    // Once both ends have met, an error of the network is a loss like others.
    let mut met = false;
    loop {
        for _ in 0..MOST_AT_ONCE {
            let now = clock.get();
            let Some(transmit) = client.poll_transmit(now) else { break };
            match socket.send(transmit.to, transmit.dscp << 2, &transmit.bytes) {
                Err(error) if !met && !is_refusal(&error) => return Err(unreachable(error)),
                // A refusal is told again by what is received.
                _ => {}
            }
        }
        if let Some(outcome) = client.outcome() {
            return match outcome {
                Ok(()) => Ok(client.measured(clock.get())),
                Err(failure) => Err(ProbeError::Failed { address, failure }),
            };
        }
        wait_for(&[&socket], clock.until(client.deadline()))?;
        loop {
            let received = socket.receive(|arrived| {
                // Read for each, since its age is as of now.
                let now = clock.get();
                met = true;
                let at = Instant::from_nanos(now.as_nanos().saturating_sub(arrived.age));
                let datagram = Datagram { at, from: arrived.from, dscp: arrived.class >> 2, bytes: arrived.bytes };
                client.handle(now, &datagram);
            });
            match received {
                Ok(true) => {}
                Err(error) if is_refusal(&error) && !met => return Err(ProbeError::Refused { address }),
                Ok(false) | Err(_) => break,
            }
        }
        client.set_overruns(socket.overruns());
        if told.elapsed() >= LONGEST_WAIT {
            told = time::Instant::now();
            if tell(client.progress(clock.get())) == Stop::Now {
                client.stop(clock.get());
            }
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Yes.
    NotYet,
    /// No.
    Now,
}

/// A server with its sockets, one for each family of addresses.
pub struct Listener {
    sockets: Vec<Datagrams>,
    addresses: Vec<SocketAddr>,
}

impl Listener {
    /// Takes datagrams at `address`, or at all of this machine's addresses.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Bind`].
    pub fn bind(address: Option<SocketAddr>) -> Result<Self, ProbeError> {
        let bind = |address| Datagrams::bind(address).map_err(|error| ProbeError::Bind { address, error });
        let mut sockets = vec![bind(address.unwrap_or((Ipv4Addr::UNSPECIFIED, PORT).into()))?];
        if address.is_none() {
            // A machine may be without IPv6.
            sockets.extend(bind((Ipv6Addr::UNSPECIFIED, PORT).into()).ok());
        }
        let addresses = sockets.iter().filter_map(|socket| socket.local_address().ok()).collect();
        Ok(Self { sockets, addresses })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Answers callers, with a secret drawn for this run alone, until `tell` says that it is to stop.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Wait`].
    pub fn serve(
        mut self,
        key: Key,
        secret: [u8; KEY],
        config: ServerConfig,
        mut tell: impl FnMut(Option<Event>) -> Stop,
    ) -> Result<(), ProbeError> {
        let clock = Now(Clock::start());
        let mut server = Server::new(key, secret, config);
        loop {
            let mut idle = false;
            for _ in 0..MOST_AT_ONCE {
                let Some(transmit) = server.poll_transmit(clock.get()) else {
                    idle = true;
                    break;
                };
                let own = self.addresses.iter().position(|own| own.is_ipv4() == transmit.to.is_ipv4());
                if let Some(socket) = own.and_then(|own| self.sockets.get_mut(own)) {
                    // What cannot be sent is lost, and measured as that.
                    let _ = socket.send(transmit.to, transmit.dscp << 2, &transmit.bytes);
                }
            }
            let mut stop = tell(None);
            while let Some(event) = server.poll_event() {
                if tell(Some(event)) == Stop::Now {
                    stop = Stop::Now;
                }
            }
            if stop == Stop::Now {
                server.stop();
                while let Some(transmit) = server.poll_transmit(clock.get()) {
                    for socket in &mut self.sockets {
                        let _ = socket.send(transmit.to, 0, &transmit.bytes);
                    }
                }
                return Ok(());
            }
            let until = server.deadline().filter(|_| idle).map_or(LONGEST_WAIT, |at| clock.until(at));
            wait_for(&self.sockets.iter().collect::<Vec<_>>(), until)?;
            for socket in &mut self.sockets {
                // An error here is of one datagram.
                let _ = socket.receive(|arrived| {
                    let now = clock.get();
                    let at = Instant::from_nanos(now.as_nanos().saturating_sub(arrived.age));
                    let datagram = Datagram { at, from: arrived.from, dscp: arrived.class >> 2, bytes: arrived.bytes };
                    server.handle(now, &datagram);
                });
            }
            server.set_overruns(self.sockets.iter().map(Datagrams::overruns).fold(0, u32::wrapping_add));
        }
    }
}
