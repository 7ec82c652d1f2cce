//! All connections of one gateway: one thread, one epoll, sockets that never block.
//!
//! Events are edge-triggered: each socket remembers what it last was ready for, until a call says otherwise.

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

/// How often `stop` and deadlines are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long new connections are forwarded unsplit after that descriptors or memory ran out.
const EXHAUSTED: Duration = Duration::from_secs(1);
/// Connections accepted before those that are open have their turn.
const ACCEPT_TURN: usize = 64;
/// Descriptors for all but connections: pipes, listeners, what the program has open besides.
const SPARE_DESCRIPTORS: u64 = 256;

/// A relay for split connections. See the [module](super).
pub struct SplitProxy {
    config: SplitConfig,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    /// False: full. New connections wait in the kernel's queue.
    accepting: bool,
    /// No more descriptors until then.
    accept_after: Instant,
    /// A descriptor for the far half of the next connection, so that none is accepted that cannot be opened.
    spare: Option<OwnedFd>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: Vec<Token>,
    pool: Pool,
    counters: Arc<SplitCounters>,
    admission: Arc<Admission>,
    resets: Resets,
    /// Which goodputs are kept where there are many.
    sample: Stream,
}

struct Listener {
    socket: Socket,
    /// Its place in [`SplitConfig::rules`].
    rule: usize,
    opener: Side,
    pending: bool,
}

/// A place for a connection. The generation tells events of the one that is there from events of its predecessors.
#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

struct Connection {
    ends: Ends,
    /// Its rule's place in [`SplitConfig::rules`].
    rule: usize,
    client: Leg,
    server: Leg,
    up: Conduit,
    down: Conduit,
    phase: Phase,
    quiet: Quiet,
    /// In [`SplitProxy::ready`].
    queued: bool,
}

impl Connection {
    /// After how long a silence the kernel asks the ends whether they are still there.
    fn set_keepalive(&self, time: Duration) {
        for leg in [&self.client, &self.server] {
            // Of a socket that is over there is nothing to ask.
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
    /// Both ends have sent all; the last bytes are being delivered.
    Closing {
        until: Instant,
    },
}

/// Whose event it is.
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
    /// Listens, in the calling thread's network namespace. Connections come once the rules are installed.
    ///
    /// # Errors
    ///
    /// [`SplitError`]: what is impossible, or missing: `CAP_NET_ADMIN`, a congestion control, file descriptors, a free port.
    pub fn bind(config: SplitConfig) -> Result<Self, SplitError> {
        config.validate()?;
        if std::fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies").is_ok_and(|text| text.trim() == "2") {
            let problem =
                "2: connections begin with cookies that no rule can tell; sysctl -w net.ipv4.tcp_syncookies=1";
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

    /// Who is let in, for the thread that decides on new connections.
    pub fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.admission)
    }

    /// What has been done so far, for other threads.
    pub fn counters(&self) -> Arc<SplitCounters> {
        Arc::clone(&self.counters)
    }

    /// Relays until `stop` is true, which is noticed within 100 ms; then resets the connections that are left. Remove the
    /// rules before, or new connections find nobody.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait for events.
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
            debug!(side = %leg.side, ?error, connecting, "a connection died");
            // Only a connection that was open can be reset: its opening comes with the same event.
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

    /// Moves what can be moved, and takes note of the end.
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
                debug!(%error, "a connection died");
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

    /// Both ends have sent all. The sockets stay until their peers have got it, so that what they report is whole, a late
    /// reset is seen, and the connection counts as long as it takes memory.
    fn close(&mut self, token: Token) {
        let patience = self.config.close_timeout;
        let Some(connection) = slot_connection(&mut self.slots, token) else { return };
        if socket::report(&connection.client.socket).closed && socket::report(&connection.server.socket).closed {
            self.end(token.index, End::Complete);
        } else if connection.phase == Phase::Open {
            connection.phase = Phase::Closing { until: Instant::now() + patience };
        }
    }

    /// Acts on the deadlines that have passed.
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

    /// Takes what waits, while there is room.
    fn accept(&mut self) {
        if Instant::now() < self.accept_after {
            return;
        }
        for which in 0..self.listeners.len() {
            for _ in 0..ACCEPT_TURN {
                let room = self.slots.len() - self.free.len() < self.config.max_connections as usize;
                if !room && self.accepting && self.listeners[which].pending {
                    self.counters.full();
                    debug!(connections = self.config.max_connections, "full: new connections wait");
                }
                self.accepting = room;
                if !room || !self.listeners[which].pending {
                    break;
                }
                let spare = self.spare.take().map_or_else(|| self.epoll.try_clone(), Ok);
                let listener = &mut self.listeners[which];
                let accepted = spare.and_then(|spare| {
                    let accepted = listener.socket.accept();
                    // One that was accepted needs it.
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
                        warn!(%error, "cannot accept a split connection: new connections are forwarded unsplit for now");
                        self.accepting = false;
                        self.accept_after = Instant::now() + TICK;
                        self.admission.pause(Instant::now() + EXHAUSTED);
                        return;
                    }
                    Err(error) => debug!(%error, "accept"),
                }
            }
        }
    }

    /// Opens the far side of a connection that `address` opened.
    fn open(&mut self, client: Socket, address: SocketAddr, rule: usize, opener: Side) {
        self.counters.accepted();
        let refused = |counters: &SplitCounters, error: io::Error| {
            debug!(%error, client = %address, "can't open the far side");
            counters.ended(End::Refused);
        };
        let ends = match ends(&client, address) {
            Ok(ends) => ends,
            Err(error) => return refused(&self.counters, error),
        };
        // Without a queue nobody lets in, and no address is translated before.
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
            warn!(%error, "epoll");
            self.end(index, End::Refused);
        }
    }

    /// Forgets a connection, if there is one at `index`: unless it is complete, both ends get a reset.
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
                // The one that has reset the connection itself knows.
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

/// Between whom a connection is that was accepted.
fn ends(client: &Socket, address: SocketAddr) -> io::Result<Ends> {
    client.set_nonblocking(true)?;
    let server = client.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
    if server.ip().is_loopback() {
        // Not brought by the rules: the far side would be the relay itself.
        return Err(Errno::ADDRNOTAVAIL.into());
    }
    Ok(Ends { client: address, server })
}

/// How many connections there is room for, as the kernel has it.
fn room(config: &SplitConfig, listeners: &[Listener]) -> Room {
    let sysctl = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?.trim().parse().ok();
    let backlog = listeners.iter().map(|listener| socket::report(&listener.socket).backlog).min().unwrap_or(0);
    let backlog = sysctl("tcp_max_syn_backlog").map_or(backlog, |most: u32| backlog.min(most));
    // A SYN's answer is repeated after 1 s, 2 s, 4 s and so on.
    let retries = sysctl("tcp_synack_retries").unwrap_or(5).min(8);
    Room {
        connections: config.max_connections,
        of_client: config.max_of_client,
        // The kernel becomes choosy when half of it is in use.
        opening: backlog / 2,
        patience: Duration::from_secs((2 << retries) + 1),
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// Makes sure that the process may open two sockets for each connection, and a pipe for each direction that is blocked.
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
