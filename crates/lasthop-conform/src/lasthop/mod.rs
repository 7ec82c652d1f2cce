//! lasthop's TCP as a stack under test.

mod info;
mod settings;
mod socket;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lasthop_proto::event::Event;
use lasthop_proto::node::Node;
use lasthop_proto::packet::{Flags, FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Preset, Switch};
use lasthop_proto::tcp::rtt::TickPhase;
use lasthop_proto::tcp::{Connection, Setup, State};
use lasthop_proto::time::{Duration, Instant};

use self::socket::{Entry, Kind, Live, Options};
#[cfg(all(feature = "kernel", target_os = "linux"))]
pub(crate) use self::wire::{from_packet, to_packet};
use crate::stack::{Errno, Host, Need, Readiness, Segment, Shutdown, Socket, Stack, WriteFlags};

/// Distance of the initial sequence numbers of a host's connections.
const ISS_STEP: u32 = 0x0123_4567;

/// Parameters of a host that no script sets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Settings of connections.
    pub preset: Preset,
    /// Ticks of the kernel's clock per second, instead of the preset's.
    pub hz: Option<u32>,
    /// Time of the first tick after the start.
    pub phase: Duration,
}

impl Model {
    /// Returns the model of a preset. Its clock ticks between whole multiples of 4 ms, where events of scripts are.
    pub fn new(preset: Preset) -> Self {
        Self { preset, hz: None, phase: Duration::from_millis(2) }
    }

    /// Returns whether the host behaves like Linux where sockets, not segments, are concerned.
    fn is_linux(&self) -> bool {
        matches!(self.preset, Preset::Linux618 | Preset::Linux618Bbr)
    }
}

/// A host whose connections are [`Connection`]s.
pub struct Lasthop {
    model: Model,
    host: Host,
    sockets: Vec<Entry>,
    /// Sockets of connections by local and remote port.
    ports: BTreeMap<(u16, u16), usize>,
    /// Segments that belong to no socket: resets.
    stray: VecDeque<Segment>,
    connections: u32,
}

impl Lasthop {
    /// Returns a host of a model.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            host: Host::default(),
            sockets: Vec::new(),
            ports: BTreeMap::new(),
            stray: VecDeque::new(),
            connections: 0,
        }
    }

    fn connection(&mut self, now: Instant, side: Side, options: &Options) -> Connection {
        self.connections += 1;
        let config = settings::config(&self.model, &self.host).with(|config| options.apply(config));
        let mut connection = Connection::new(Setup {
            flow: FlowId(self.connections),
            side,
            config: Arc::new(config),
            iss: Seq(ISS_STEP.wrapping_mul(self.connections)),
            phase: TickPhase { slow: self.model.phase, fast: self.model.phase },
            watch: Switch::Off,
        });
        connection.fit_path(Instant::ZERO, settings::path_mss(&self.host));
        options.set_on(now, &mut connection, settings::unsent_limit(&self.host));
        connection
    }

    fn entry(&mut self, socket: Socket) -> Result<&mut Entry, Errno> {
        self.sockets.get_mut(socket.0).filter(|entry| !entry.is_closed).ok_or(Errno::BadFile)
    }

    fn live(&mut self, socket: Socket) -> Result<&mut Live, Errno> {
        match &mut self.entry(socket)?.kind {
            Kind::Connection(live) => Ok(live),
            _ => Err(Errno::NotConnected),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Live> {
        self.sockets.iter().filter_map(|entry| match &entry.kind {
            Kind::Connection(live) => Some(&**live),
            _ => None,
        })
    }

    /// Returns the listening socket at `port`.
    fn listener(&self, port: u16) -> Option<usize> {
        self.sockets.iter().position(|entry| {
            !entry.is_closed && matches!(entry.kind, Kind::Listener(_)) && entry.port.is_none_or(|own| own == port)
        })
    }

    /// Handles what a connection reports, and hands an established one to its listener.
    fn settle(&mut self, at: usize, by_timer: bool) {
        let is_linux = self.model.is_linux();
        let Some(Entry { kind: Kind::Connection(live), .. }) = self.sockets.get_mut(at) else { return };
        let mut is_new = false;
        while let Some((_, event)) = live.connection.poll_event() {
            match event {
                Event::Established => is_new = true,
                Event::Aborted => live.on_abort(by_timer, is_linux),
                _ => {}
            }
        }
        let listener = live.listener.filter(|_| is_new);
        live.is_established |= is_new;
        live.note_state();
        if let Some(Entry { kind: Kind::Listener(ready), .. }) = listener.and_then(|at| self.sockets.get_mut(at)) {
            ready.push_back(at);
        }
    }

    /// Answers a segment that belongs to no connection.
    fn handle_stray(&mut self, now: Instant, segment: &Segment) {
        let ports = (segment.local_port, segment.remote_port);
        let listener = self.listener(segment.local_port);
        let flags = Flags(segment.flags);
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        let mut connection =
            self.connection(now, Side::Acceptor, &listener.map(|at| self.sockets[at].options).unwrap_or_default());
        if listener.is_some() {
            connection.listen();
        }
        connection.take_packet(now, &wire::to_packet(segment, connection.flow(), Side::Initiator));
        let is_open = !matches!(connection.state(), State::Closed | State::Listen);
        if let (Some(listener), true, true) = (listener, opens, is_open) {
            let options = self.sockets[listener].options;
            let mut live = Live::new(connection, ports);
            live.listener = Some(listener);
            self.sockets.push(Entry { kind: Kind::Connection(Box::new(live)), options, ..Entry::default() });
            self.ports.insert(ports, self.sockets.len() - 1);
            return;
        }
        let mut place = Packet::default();
        while connection.poll_transmit(now, &mut place).is_some() {
            self.stray.extend(wire::from_packet(&place, ports));
        }
        self.connections -= 1;
    }
}

impl Stack for Lasthop {
    fn name(&self) -> String {
        "lasthop".to_owned()
    }

    fn lacks(&self, need: &Need<'_>) -> Option<String> {
        match *need {
            Need::Setting(name, value) => settings::lacks(&self.model, name, value),
            Need::SetOption(name) => socket::lacks_set(name),
            Need::GetOption(name) => socket::lacks_get(name),
            Need::Info(field) => info::lacks(field),
            Need::TcpOption(_) => None,
            Need::CallFlag("MSG_PEEK" | "MSG_MORE" | "MSG_EOR") => None,
            Need::CallFlag(flag) => Some(format!("flag {flag}")),
            Need::State(state) => socket::state(state).is_none().then(|| format!("state {state}")),
        }
    }

    fn start(&mut self, host: &Host) {
        *self = Self { host: host.clone(), ..Self::new(self.model) };
    }

    fn change_setting(&mut self, name: &str, value: &str) {
        self.host.settings.insert(name.to_owned(), value.to_owned());
        if let Some(option) = settings::ecn_option(name, value) {
            for entry in &mut self.sockets {
                if let Kind::Connection(live) = &mut entry.kind {
                    live.connection.set_ecn_option(option);
                }
            }
        }
    }

    fn open(&mut self) -> Socket {
        self.sockets.push(Entry::default());
        Socket(self.sockets.len() - 1)
    }

    fn bind(&mut self, socket: Socket, port: u16) -> Result<(), Errno> {
        self.entry(socket)?.port = Some(port);
        Ok(())
    }

    fn listen(&mut self, _now: Instant, socket: Socket) -> Result<(), Errno> {
        let entry = self.entry(socket)?;
        match entry.kind {
            Kind::Fresh => entry.kind = Kind::Listener(VecDeque::new()),
            Kind::Listener(_) => {}
            Kind::Connection(_) => return Err(Errno::Invalid),
        }
        Ok(())
    }

    fn accept(&mut self, _now: Instant, socket: Socket) -> Result<Socket, Errno> {
        match &mut self.entry(socket)?.kind {
            Kind::Listener(ready) => ready.pop_front().map(Socket).ok_or(Errno::Again),
            _ => Err(Errno::Invalid),
        }
    }

    fn connect(&mut self, now: Instant, socket: Socket, ports: (u16, u16)) -> Result<(), Errno> {
        let entry = self.entry(socket)?;
        match &mut entry.kind {
            Kind::Listener(_) => Err(Errno::IsConnected),
            Kind::Connection(live) => live.connect_again(),
            Kind::Fresh => {
                let options = entry.options;
                let mut connection = self.connection(now, Side::Initiator, &options);
                connection.connect();
                let live = Live::new(connection, ports);
                self.entry(socket)?.kind = Kind::Connection(Box::new(live));
                self.ports.insert(ports, socket.0);
                Err(Errno::InProgress)
            }
        }
    }

    fn write(&mut self, now: Instant, socket: Socket, bytes: u64, flags: WriteFlags) -> Result<u64, Errno> {
        let taken = self.live(socket)?.write(now, bytes, flags);
        self.settle(socket.0, false);
        taken
    }

    fn read(&mut self, _now: Instant, socket: Socket, bytes: u64, peek: bool) -> Result<u64, Errno> {
        self.live(socket)?.read(bytes, peek)
    }

    fn shutdown(&mut self, _now: Instant, socket: Socket, how: Shutdown) -> Result<(), Errno> {
        let result = self.live(socket)?.shutdown(how);
        self.settle(socket.0, false);
        result
    }

    fn close(&mut self, now: Instant, socket: Socket) -> Result<(), Errno> {
        let is_linux = self.model.is_linux();
        let entry = self.entry(socket)?;
        entry.is_closed = true;
        let linger = entry.options.linger;
        match &mut entry.kind {
            Kind::Connection(live) if live.connection.state() == State::SynSent => {
                let ports = live.ports;
                entry.kind = Kind::Fresh;
                self.ports.remove(&ports);
            }
            Kind::Connection(live) => live.close(now, linger, is_linux),
            Kind::Fresh => {}
            Kind::Listener(ready) => {
                // Connections that nobody accepted, and those of which the handshake is incomplete, are reset.
                let ready: Vec<usize> = ready.drain(..).collect();
                for at in ready {
                    if let Some(Entry { kind: Kind::Connection(live), .. }) = self.sockets.get_mut(at) {
                        live.connection.abort();
                    }
                }
            }
        }
        self.settle(socket.0, false);
        Ok(())
    }

    fn set_option(&mut self, now: Instant, socket: Socket, name: &str, value: i64) -> Result<(), Errno> {
        let unsent = settings::unsent_limit(&self.host);
        self.entry(socket)?.set_option(now, name, value, unsent)
    }

    fn option(&mut self, _now: Instant, socket: Socket, name: &str) -> Result<Option<i64>, Errno> {
        self.entry(socket)?.option(name)
    }

    fn readiness(&self, socket: Socket) -> Readiness {
        self.sockets.get(socket.0).map(Entry::readiness).unwrap_or_default()
    }

    fn info(&self, now: Instant, socket: Socket, field: &str) -> Option<i64> {
        match &self.sockets.get(socket.0)?.kind {
            Kind::Connection(live) => info::value(live, now, field),
            Kind::Listener(_) => info::of_listener(field),
            Kind::Fresh => None,
        }
    }

    fn count(&self, state: &str) -> usize {
        let Some(states) = socket::state(state) else { return 0 };
        self.all().filter(|live| states.contains(&live.connection.state())).count()
    }

    fn drop_connections(&mut self, state: &str) {
        let Some(states) = socket::state(state) else { return };
        let is_dropped = |entry: &Entry| match &entry.kind {
            Kind::Connection(live) => states.contains(&live.connection.state()),
            _ => false,
        };
        let dropped: Vec<usize> = (0..self.sockets.len()).filter(|at| is_dropped(&self.sockets[*at])).collect();
        self.ports.retain(|_, at| !dropped.contains(at));
        for at in dropped {
            self.sockets[at] = Entry { is_closed: true, ..Entry::default() };
        }
    }

    fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        let ports = (segment.local_port, segment.remote_port);
        let at = self.ports.get(&ports).copied();
        let live = at.and_then(|at| match &mut self.sockets[at].kind {
            Kind::Connection(live) if live.connection.state() != State::Closed => Some((at, live)),
            _ => None,
        });
        match live {
            Some((at, live)) => {
                let side = live.side.peer();
                live.connection.take_packet(now, &wire::to_packet(segment, live.connection.flow(), side));
                self.settle(at, false);
            }
            None => self.handle_stray(now, segment),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for at in 0..self.sockets.len() {
            if let Kind::Connection(live) = &mut self.sockets[at].kind {
                live.connection.handle_timeout(now);
                self.settle(at, true);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if let Some(segment) = self.stray.pop_front() {
            return Some(segment);
        }
        let mut place = Packet::default();
        for at in 0..self.sockets.len() {
            let Kind::Connection(live) = &mut self.sockets[at].kind else { continue };
            if live.connection.poll_transmit(now, &mut place).is_some() {
                let segment = wire::from_packet(&place, live.ports);
                self.settle(at, false);
                return segment;
            }
        }
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.all().filter_map(|live| live.connection.poll_deadline()).min()
    }
}
