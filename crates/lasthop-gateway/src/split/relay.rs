//! Relay of all connections of one gateway: one thread, one epoll instance, non-blocking sockets.
//!
//! Events are edge-triggered: each socket's readiness is stored until a call returns `EAGAIN`.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lasthop_proto::random::{Root, Stream};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;
use socket2::{Socket, TcpKeepalive};
use tracing::{debug, warn};

use super::admission::{Admission, Room};
use super::conduit::{Conduit, Leg, Pool, Progress};
use super::counters::{End, SplitCounters};
use super::opening::Ends;
use super::quiet::Quiet;
use super::resets::{Half, Resets};
use super::{Side, SplitConfig, SplitError, socket};
use crate::family::Family;

/// Interval of checks of `stop` and of deadlines.
const TICK: Duration = Duration::from_millis(100);
/// Time for which new connections are forwarded unsplit after descriptors or memory ran out.
const EXHAUSTED: Duration = Duration::from_secs(1);
/// Number of connections accepted before open ones get their turn.
const ACCEPT_TURN: usize = 64;
/// Descriptors for everything but connections: pipes, listeners, and other files of the program.
const SPARE_DESCRIPTORS: u64 = 256;

/// Relay of split connections. See the [module](super).
pub struct SplitProxy {
    config: SplitConfig,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    /// True while connections are accepted. If the relay is full, new ones wait in the kernel's queue.
    accepting: bool,
    /// Time before which no connection is accepted because descriptors ran out.
    accept_after: Instant,
    /// Descriptor reserved for the far half of the next connection, so that an accepted connection can be opened.
    spare: Option<OwnedFd>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: Vec<Token>,
    pool: Pool,
    counters: Arc<SplitCounters>,
    admission: Arc<Admission>,
    resets: Resets,
    /// Random stream that samples goodputs beyond the capacity of a reservoir.
    sample: Stream,
}

struct Listener {
    socket: Socket,
    /// Index in [`SplitConfig::rules`].
    rule: usize,
    opener: Side,
    pending: bool,
}

/// Slot for a connection. The generation distinguishes its events from those of previous connections.
#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

struct Connection {
    ends: Ends,
    /// Index of the connection's rule in [`SplitConfig::rules`].
    rule: usize,
    client: Leg,
    server: Leg,
    up: Conduit,
    down: Conduit,
    phase: Phase,
    quiet: Quiet,
    /// True if the connection is in [`SplitProxy::ready`].
    queued: bool,
}

impl Connection {
    /// Sets the idle time after which the kernel probes both ends.
    fn set_keepalive(&self, time: Duration) {
        for leg in [&self.client, &self.server] {
            // Fails on a closed socket, which needs no probe.
            let _ = leg.socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The far side has not answered yet.
    Connecting {
        until: Instant,
    },
    Open,
    /// Both ends have sent everything; the last bytes are being delivered.
    Closing {
        until: Instant,
    },
}

/// Source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token {
    generation: u32,
    index: u32,
    end: Source,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Listener,
    Client,
    Server,
}

impl Token {
    fn data(self) -> EventData {
        EventData::new_u64(u64::from(self.generation) << 32 | u64::from(self.index) << 2 | self.end as u64)
    }

    fn parse(data: EventData) -> Self {
        let bits = data.u64();
        let end = match bits & 3 {
            0 => Source::Listener,
            1 => Source::Client,
            _ => Source::Server,
        };
        Self { generation: (bits >> 32) as u32, index: (bits as u32) >> 2, end }
    }
}

impl SplitProxy {
    /// Opens the listeners in the calling thread's network namespace. Connections arrive once the rules are installed.
    ///
    /// # Errors
    ///
    /// Returns a [`SplitError`] if the configuration is invalid, or `CAP_NET_ADMIN`, a congestion control, descriptors
    /// or a free port are missing.
    pub fn bind(config: SplitConfig) -> Result<Self, SplitError> {
        config.validate()?;
        if std::fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies").is_ok_and(|text| text.trim() == "2") {
            let problem = "2: rules cannot match connections that start with a SYN cookie; run `sysctl -w net.ipv4.tcp_syncookies=1`";
            return Err(SplitError::Config { key: "net.ipv4.tcp_syncookies", problem: problem.into() });
        }
        socket::find_black_holes();
        reserve_descriptors(config.max_connections)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| SplitError::system("epoll")(e.into()))?;
        let mut listeners = Vec::new();
        for &loopback in socket::loopbacks(config.families) {
            for (rule, opener) in (0..config.rules.len()).flat_map(|rule| [(rule, Side::Wired), (rule, Side::Wireless)])
            {
                let socket = socket::listen(&config, rule, opener, loopback)?;
                let token = Token { generation: 0, index: listeners.len() as u32, end: Source::Listener };
                epoll::add(&epoll, &socket, token.data(), EventFlags::IN | EventFlags::ET)
                    .map_err(|error| SplitError::system("epoll")(error.into()))?;
                listeners.push(Listener { socket, rule, opener, pending: true });
            }
        }
        let admission = Arc::new(Admission::new(room(&config, &listeners)));
        Ok(Self {
            pool: Pool::new(config.transfer_buffer as usize, config.transfer),
            resets: Resets::open(config.marks),
            config,
            epoll,
            listeners,
            accepting: true,
            accept_after: Instant::now(),
            spare: None,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            counters: Arc::default(),
            admission,
            sample: Root(0).stream("relay/sample"),
        })
    }

    /// Returns the admission table, for the thread that decides on new connections.
    pub fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.admission)
    }

    /// Returns the counters, for other threads.
    pub fn counters(&self) -> Arc<SplitCounters> {
        Arc::clone(&self.counters)
    }

    /// Relays until `stop` is true, with a delay of up to 100 ms, then resets the remaining connections. Remove the
    /// rules first; otherwise new connections find no listener.
    ///
    /// # Errors
    ///
    /// Returns an error if waiting for events fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), SplitError> {
        let mut events = [MaybeUninit::uninit(); 256];
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.counters.turned();
            let busy =
                !self.ready.is_empty() || (self.accepting && self.listeners.iter().any(|listener| listener.pending));
            let wait = if busy { Timespec::default() } else { tick };
            match epoll::wait(&self.epoll, &mut events, Some(&wait)) {
                Ok((events, _)) => {
                    for event in events {
                        self.handle_event(Token::parse(event.data), event.flags);
                    }
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(SplitError::system("epoll_wait")(error.into())),
            }
            for token in std::mem::take(&mut self.ready) {
                if let Some(connection) = self.connection(token) {
                    connection.queued = false;
                }
                self.advance(token);
            }
            if swept.elapsed() >= TICK {
                swept = Instant::now();
                self.sweep(swept);
                self.resets.send(swept);
            }
            self.accept();
        }
        for index in 0..self.slots.len() {
            self.end(index as u32, End::Aborted);
        }
        Ok(())
    }

    fn handle_event(&mut self, token: Token, flags: EventFlags) {
        if token.end == Source::Listener {
            if let Some(listener) = self.listeners.get_mut(token.index as usize) {
                listener.pending = true;
            }
            return;
        }
        let Some(connection) = self.connection(token) else { return };
        let (leg, out) = match token.end {
            Source::Client => (&mut connection.client, &mut connection.up),
            _ => (&mut connection.server, &mut connection.down),
        };
        leg.readable |= flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP);
        leg.writable |= flags.contains(EventFlags::OUT);
        if flags.contains(EventFlags::PRI) {
            out.copy();
        }
        if flags.contains(EventFlags::ERR) {
            let error = leg.socket.take_error().ok().flatten();
            let connecting = matches!(connection.phase, Phase::Connecting { .. }) && token.end == Source::Server;
            debug!(side = %leg.side, ?error, connecting, "connection failed");
            // Only an open connection can be reset: the event may report its opening at the same time.
            let answered = !connecting || error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset);
            return self.end(token.index, if answered { End::Aborted } else { End::Refused });
        }
        if let Phase::Connecting { .. } = connection.phase
            && token.end == Source::Server
            && flags.contains(EventFlags::OUT)
        {
            connection.phase = Phase::Open;
            let family = Family::of(connection.ends.server.ip());
            self.counters.answered(family);
        }
        self.advance(token);
    }

    /// Moves as much as possible, and handles the end of the connection.
    fn advance(&mut self, token: Token) {
        let Some(connection) = slot_connection(&mut self.slots, token) else { return };
        if let Phase::Connecting { .. } = connection.phase {
            return;
        }
        let Connection { client, server, up, down, .. } = &mut *connection;
        let (mut to_server, mut to_client) = (0, 0);
        let result = up
            .pump(client, server, &mut self.pool, &mut to_server)
            .and_then(|up| Ok((up, down.pump(server, client, &mut self.pool, &mut to_client)?)));
        self.counters.moved(server.side, to_server);
        self.counters.moved(client.side, to_client);
        if to_server + to_client > 0
            && let Some(time) = connection.quiet.moved(Instant::now())
        {
            connection.set_keepalive(time);
        }
        match result {
            Err(error) => {
                debug!(%error, "connection failed");
                self.end(token.index, End::Aborted);
            }
            Ok((Progress::Finished, Progress::Finished)) => self.close(token),
            Ok((Progress::Turn, _) | (_, Progress::Turn)) if !connection.queued => {
                connection.queued = true;
                self.ready.push(token);
            }
            Ok(_) => {}
        }
    }

    /// Handles a connection on which both ends have sent everything. The sockets stay open until their peers have
    /// received it, so that the reports are complete, a late reset is seen, and the connection counts as long as it
    /// uses memory.
    fn close(&mut self, token: Token) {
        let patience = self.config.close_timeout;
        let Some(connection) = slot_connection(&mut self.slots, token) else { return };
        if socket::report(&connection.client.socket).closed && socket::report(&connection.server.socket).closed {
            self.end(token.index, End::Complete);
        } else if connection.phase == Phase::Open {
            connection.phase = Phase::Closing { until: Instant::now() + patience };
        }
    }

    /// Handles expired deadlines.
    fn sweep(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            let Some(connection) = self.slots[index].connection.as_mut() else { continue };
            match connection.phase {
                Phase::Connecting { until } if now >= until => self.end(index as u32, End::Refused),
                Phase::Closing { until } if now >= until => self.end(index as u32, End::Complete),
                Phase::Open => {
                    if let Some(time) = connection.quiet.lasts(now, self.config.keepalive) {
                        connection.set_keepalive(time);
                    }
                }
                _ => {}
            }
        }
    }

    /// Accepts waiting connections while the limit permits.
    fn accept(&mut self) {
        if Instant::now() < self.accept_after {
            return;
        }
        for which in 0..self.listeners.len() {
            for _ in 0..ACCEPT_TURN {
                let room = self.slots.len() - self.free.len() < self.config.max_connections as usize;
                if !room && self.accepting && self.listeners[which].pending {
                    self.counters.full();
                    debug!(connections = self.config.max_connections, "connection limit reached; new connections wait");
                }
                self.accepting = room;
                if !room || !self.listeners[which].pending {
                    break;
                }
                let spare = self.spare.take().map_or_else(|| self.epoll.try_clone(), Ok);
                let listener = &mut self.listeners[which];
                let accepted = spare.and_then(|spare| {
                    let accepted = listener.socket.accept();
                    // An accepted connection uses the spare descriptor.
                    self.spare = accepted.is_err().then_some(spare);
                    accepted
                });
                match accepted {
                    Ok((client, address)) => {
                        let (rule, opener) = (listener.rule, listener.opener);
                        if let Some(address) = address.as_socket() {
                            self.open(client, address, rule, opener);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => listener.pending = false,
                    Err(error) if is_exhausted(&error) => {
                        warn!(%error, "cannot accept a split connection; new connections temporarily pass unsplit");
                        self.accepting = false;
                        self.accept_after = Instant::now() + TICK;
                        self.admission.pause(Instant::now() + EXHAUSTED);
                        return;
                    }
                    Err(error) => debug!(%error, "cannot accept a split connection"),
                }
            }
        }
    }

    /// Opens the far side of a connection from `address`.
    fn open(&mut self, client: Socket, address: SocketAddr, rule: usize, opener: Side) {
        self.counters.accepted();
        let refused = |counters: &SplitCounters, error: io::Error| {
            debug!(%error, client = %address, "cannot connect to the destination");
            counters.ended(End::Refused);
        };
        let ends = match ends(&client, address) {
            Ok(ends) => ends,
            Err(error) => return refused(&self.counters, error),
        };
        // Without a queue connections are not admitted, and no address is translated first.
        let called = self.admission.accepted(ends).or(self.config.queue.is_none().then_some(ends.server));
        let side = self.config.rules[rule].side(opener.other());
        let server = called
            .ok_or_else(|| Errno::ADDRNOTAVAIL.into())
            .and_then(|server| socket::connect(&self.config, side, Ends { server, ..ends }));
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                self.admission.ended(Instant::now(), ends);
                return refused(&self.counters, error);
            }
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let now = Instant::now();
        let until = now + self.config.connect_timeout;
        let leg = |socket, side| Leg { socket, side, readable: false, writable: false };
        let slot = &mut self.slots[index as usize];
        let connection = slot.connection.insert(Box::new(Connection {
            ends,
            rule,
            client: leg(client, opener),
            server: leg(server, opener.other()),
            up: Conduit::new(&self.pool),
            down: Conduit::new(&self.pool),
            phase: Phase::Connecting { until },
            quiet: Quiet::new(now),
            queued: false,
        }));
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::PRI | EventFlags::ET;
        let token = |end| Token { generation: slot.generation, index, end }.data();
        if let Err(error) = epoll::add(&self.epoll, &connection.client.socket, token(Source::Client), interest)
            .and_then(|()| epoll::add(&self.epoll, &connection.server.socket, token(Source::Server), interest))
        {
            warn!(%error, "cannot watch a split connection with epoll; it is refused");
            self.end(index, End::Refused);
        }
    }

    /// Removes the connection at `index`, if there is one. Unless it is complete, both ends get a reset.
    fn end(&mut self, index: u32, end: End) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(connection) = slot.connection.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        let now = Instant::now();
        for (Leg { socket, side, .. }, half) in [(connection.client, Half::Near), (connection.server, Half::Far)] {
            let report = socket::report(&socket);
            self.counters.report(side, report);
            if side == Side::Wireless {
                self.counters.measured(connection.rule, report, &mut self.sample);
            }
            match end {
                End::Complete => socket::close(socket),
                // The end that reset the connection needs no reset.
                _ if report.closed => {}
                _ => self.resets.repeat(now, &socket, half),
            }
        }
        self.admission.ended(now, connection.ends);
        self.counters.ended(end);
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        slot_connection(&mut self.slots, token)
    }
}

fn slot_connection(slots: &mut [Slot], token: Token) -> Option<&mut Connection> {
    let slot = slots.get_mut(token.index as usize)?;
    if slot.generation == token.generation { slot.connection.as_deref_mut() } else { None }
}

/// Returns the ends of an accepted connection.
fn ends(client: &Socket, address: SocketAddr) -> io::Result<Ends> {
    client.set_nonblocking(true)?;
    let server = client.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
    if server.ip().is_loopback() {
        // Not redirected by the rules: the far side would be the relay itself.
        return Err(Errno::ADDRNOTAVAIL.into());
    }
    Ok(Ends { client: address, server })
}

/// Returns the limits on connections, from the configuration and the kernel's settings.
fn room(config: &SplitConfig, listeners: &[Listener]) -> Room {
    let sysctl = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?.trim().parse().ok();
    let backlog = listeners.iter().map(|listener| socket::report(&listener.socket).backlog).min().unwrap_or(0);
    let backlog = sysctl("tcp_max_syn_backlog").map_or(backlog, |most: u32| backlog.min(most));
    // The SYN-ACK is retransmitted after 1 s, 2 s, 4 s and so on.
    let retries = sysctl("tcp_synack_retries").unwrap_or(5).min(8);
    Room {
        connections: config.max_connections,
        of_client: config.max_of_client,
        // The kernel becomes restrictive when half of the queue is in use.
        opening: backlog / 2,
        patience: Duration::from_secs((2 << retries) + 1),
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// Ensures that the process may open two sockets for each connection, and a pipe for each blocked direction.
fn reserve_descriptors(connections: u32) -> Result<(), SplitError> {
    let need = u64::from(connections) * 6 + SPARE_DESCRIPTORS;
    let enough = u64::from(connections) * 2 + SPARE_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = maximum.unwrap_or(u64::MAX);
    if limit < enough {
        return Err(SplitError::Descriptors { connections, need: enough, limit });
    }
    if current.is_none_or(|current| current >= need) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(need.min(limit)), maximum })
        .map_err(|error| SplitError::system("RLIMIT_NOFILE")(error.into()))
}
