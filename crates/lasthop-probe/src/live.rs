//! Both ends over UDP. The loops wait for datagrams and deadlines in one thread.

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

/// Default UDP port.
pub const PORT: u16 = 4105;
/// Maximum wait, and thus the interval of progress calls and the delay until a stop is noticed.
const LONGEST_WAIT: time::Duration = time::Duration::from_millis(50);
/// Maximum number of packets sent before received ones are read.
const MOST_AT_ONCE: u32 = 2048;
/// Origin of the clocks, so that earlier times can be represented.
const ORIGIN: Duration = Duration::from_secs(1000);

/// Reason for which a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The socket could not be bound.
    #[error("cannot receive datagrams at {address}: {error}")]
    Bind {
        /// Local address.
        address: SocketAddr,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// The other end could not be reached.
    #[error("{address}: {error}")]
    Unreachable {
        /// Address of the other end.
        address: SocketAddr,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// The other end's host refused the datagrams (ICMP port unreachable).
    #[error("{address}: no server is listening; start `lasthop probe serve` there")]
    Refused {
        /// Address of the other end.
        address: SocketAddr,
    },
    /// The measurement failed.
    #[error("{address}: {failure}")]
    Failed {
        /// Address of the other end.
        address: SocketAddr,
        /// Reason.
        failure: Failure,
    },
    /// Waiting for datagrams failed on this machine.
    #[error("cannot wait for datagrams: {0}")]
    Wait(io::Error),
}

/// The kernel's clock, with an offset of [`ORIGIN`].
struct Now(Clock);

impl Now {
    fn get(&self) -> Instant {
        self.0.now() + ORIGIN
    }

    /// Returns the time from now until `at`.
    fn until(&self, at: Instant) -> time::Duration {
        time::Duration::from_nanos(at.since(self.get()).as_nanos())
    }
}

fn wait_for(sockets: &[&Datagrams], patience: time::Duration) -> Result<(), ProbeError> {
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
    wait(&mut fds, patience.min(LONGEST_WAIT)).map_err(ProbeError::Wait)
}

/// Measures the path to the other end, until the measurement is over or `tell` returns [`Stop::Now`].
///
/// # Errors
///
/// Returns a [`ProbeError`], which prints as one line.
pub fn measure(config: ClientConfig, mut tell: impl FnMut(Progress) -> Stop) -> Result<Measured, ProbeError> {
    let address = config.server;
    let unreachable = |error| ProbeError::Unreachable { address, error };
    let mut socket = Datagrams::connect(address).map_err(unreachable)?;
    let clock = Now(Clock::start());
    let mut client = Client::new(config);
    let mut told = time::Instant::now();
    // After the first datagram from the other end, network errors count as losses.
    let mut met = false;
    loop {
        for _ in 0..MOST_AT_ONCE {
            let now = clock.get();
            let Some(transmit) = client.poll_transmit(now) else { break };
            match socket.send(transmit.to, transmit.dscp << 2, &transmit.bytes) {
                Err(error) if !met && !is_refusal(&error) => return Err(unreachable(error)),
                // The next receive reports a refusal again.
                _ => {}
            }
        }
        if let Some(outcome) = client.outcome() {
            return match outcome {
                Ok(()) => Ok(client.measured(clock.get())),
                Err(failure) => Err(ProbeError::Failed { address, failure }),
            };
        }
        wait_for(&[&socket], clock.until(client.poll_deadline()))?;
        loop {
            let received = socket.receive(|arrived| {
                // The clock is read for each datagram, since its age refers to now.
                let now = clock.get();
                met = true;
                let at = Instant::from_nanos(now.as_nanos().saturating_sub(arrived.age));
                let datagram = Datagram { at, from: arrived.from, dscp: arrived.class >> 2, bytes: arrived.bytes };
                client.handle_datagram(now, &datagram);
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

/// Decision to continue or stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Continue.
    NotYet,
    /// Stop.
    Now,
}

/// Server with its sockets, one per address family.
pub struct Listener {
    sockets: Vec<Datagrams>,
    addresses: Vec<SocketAddr>,
}

impl Listener {
    /// Binds to `address`, or to all addresses of this machine.
    ///
    /// # Errors
    ///
    /// Returns [`ProbeError::Bind`] if no socket can be bound.
    pub fn bind(address: Option<SocketAddr>) -> Result<Self, ProbeError> {
        let bind = |address| Datagrams::bind(address).map_err(|error| ProbeError::Bind { address, error });
        let mut sockets = vec![bind(address.unwrap_or((Ipv4Addr::UNSPECIFIED, PORT).into()))?];
        if address.is_none() {
            // The machine may lack IPv6.
            sockets.extend(bind((Ipv6Addr::UNSPECIFIED, PORT).into()).ok());
        }
        let addresses = sockets.iter().filter_map(|socket| socket.local_address().ok()).collect();
        Ok(Self { sockets, addresses })
    }

    /// Returns the addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves callers until `tell` returns [`Stop::Now`]. `secret` is drawn for this run only.
    ///
    /// # Errors
    ///
    /// Returns [`ProbeError::Wait`] if waiting for datagrams fails.
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
                    // A datagram that cannot be sent is measured as lost.
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
            let until = server.poll_deadline().filter(|_| idle).map_or(LONGEST_WAIT, |at| clock.until(at));
            wait_for(&self.sockets.iter().collect::<Vec<_>>(), until)?;
            for socket in &mut self.sockets {
                // An error here concerns one datagram only.
                let _ = socket.receive(|arrived| {
                    let now = clock.get();
                    let at = Instant::from_nanos(now.as_nanos().saturating_sub(arrived.age));
                    let datagram = Datagram { at, from: arrived.from, dscp: arrived.class >> 2, bytes: arrived.bytes };
                    server.handle_datagram(now, &datagram);
                });
            }
            server.set_overruns(self.sockets.iter().map(Datagrams::overruns).fold(0, u32::wrapping_add));
        }
    }
}
