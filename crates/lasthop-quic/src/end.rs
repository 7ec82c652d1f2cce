//! One end of a QUIC connection as a node.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lasthop_proto::event::Event;
use lasthop_proto::host_queue::{HostQueue, Queued, Room};
use lasthop_proto::node::{Disposition, Node, Port, Why};
use lasthop_proto::packet::{Body, Cause, Ecn, FlowId, HeaderForm, Integrity, Packet, Side};
use lasthop_proto::random::Stream;
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{HeaderAccounting, Switch};
use lasthop_proto::time::{Duration, Instant};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    EcnCodepoint, Endpoint, EndpointConfig, ServerConfig, TimeSource, ValidationTokenConfig, VarInt,
};

use crate::carried::{CONNECTION_ID_LEN, Carried, Handshake, SentSoFar};
use crate::clock::Clock;
use crate::config::{LARGEST_UDP_PAYLOAD, QuicConfig};
use crate::session::{Plain, TokenKey};
use crate::work::Work;

/// Length of the IPv4 and UDP headers of each datagram.
pub const UDP_HEADERS: u16 = 28;

/// Memory that a UDP socket's datagrams may take in the host's queue, in bytes (`net.core.wmem_default`). A full socket
/// blocks its program (`sock_wait_for_wmem`), so that a host drops none of its own datagrams.
const SOCKET_BUFFER: u64 = 212_992;
/// Memory of a datagram of up to 1,472 bytes, in bytes (`SKB_TRUESIZE`: 2,048 bytes of data, 256 of descriptor).
const DATAGRAM_MEMORY: u64 = 2304;

/// Initial parameters of an end.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Flow of the end.
    pub flow: FlowId,
    /// Side of the end; the initiator is the client.
    pub side: Side,
    /// Configuration of both ends.
    pub config: QuicConfig,
    /// Inclusion of the IPv4 and UDP headers in packet lengths.
    pub headers: HeaderAccounting,
    /// Source of the end's random numbers, independent of the other end's.
    pub random: Stream,
    /// On if the end reports its congestion window.
    pub watch: Switch,
}

/// One end of a QUIC connection, with the application on top of it.
pub struct QuicEnd {
    flow: FlowId,
    side: Side,
    header_len: u16,
    watch: Switch,
    config: QuicConfig,
    clock: Clock,
    endpoint: Endpoint,
    connecting: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
    work: Work,
    sent: SentSoFar,
    /// Datagrams that the end sends without a connection.
    responses: VecDeque<Vec<u8>>,
    /// Memory for the next datagram.
    spare: Vec<u8>,
    events: VecDeque<Event>,
    deadline: Option<Instant>,
    now: Instant,
    number: u32,
    /// Number of stream bytes that were retransmitted.
    resent: u64,
    congestion_events: u64,
    cwnd: u64,
    window: (u32, u32),
    /// On if the connection has ended at this end.
    over: Switch,
    /// Datagrams in the queue of its host.
    host_queue: HostQueue,
    /// Time at which the host's queue has capacity again, while a datagram may wait.
    room: Room,
}

impl QuicEnd {
    /// Returns the end that `setup` describes; the initiator waits for [`QuicEnd::connect`].
    pub fn new(setup: Setup) -> Self {
        let Setup { flow, side, config, headers, mut random, watch } = setup;
        let mut seed = [0; 32];
        seed.fill_with(|| random.below(256) as u8);
        let key = Arc::new(TokenKey(random.below(u64::MAX)));
        let first = Identifiers(random.clone()).generate_cid();
        let mut endpoint = EndpointConfig::new(key.clone());
        endpoint.rng_seed(Some(seed)).cid_generator(move || Box::new(Identifiers(random.clone())));
        // Advertised limit. It is refused only outside of UDP's sizes; the default is then advertised.
        let _ = endpoint.max_udp_payload_size(LARGEST_UDP_PAYLOAD);
        let transport = Arc::new(config.transport());
        let plain = Arc::new(Plain);
        let (connecting, server) = match side {
            Side::Initiator => {
                let mut client = ClientConfig::new(plain);
                client.transport_config(transport).initial_dst_cid_provider(Arc::new(move || first));
                (Some(client), None)
            }
            Side::Acceptor => {
                let mut server = ServerConfig::new(plain, key);
                let mut tokens = ValidationTokenConfig::default();
                tokens.sent(0);
                server.transport_config(transport).time_source(Arc::new(NoTime)).validation_token_config(tokens);
                (None, Some(Arc::new(server)))
            }
        };
        Self {
            flow,
            side,
            header_len: if headers == HeaderAccounting::Full { UDP_HEADERS } else { 0 },
            watch,
            config,
            clock: Clock::new(),
            endpoint: Endpoint::new(Arc::new(endpoint), server, true, None),
            connecting,
            connection: None,
            work: Work::new(config.task),
            sent: SentSoFar::default(),
            responses: VecDeque::new(),
            spare: Vec::new(),
            events: VecDeque::new(),
            deadline: None,
            now: Instant::ZERO,
            number: 0,
            resent: 0,
            congestion_events: 0,
            cwnd: 0,
            window: (0, 0),
            over: Switch::Off,
            host_queue: HostQueue::default(),
            room: Room::Now,
        }
    }

    /// Opens the connection as the initiator, whose application starts as soon as possible.
    pub fn connect(&mut self, now: Instant) {
        self.now = now;
        if let Some(client) = self.connecting.take() {
            match self.endpoint.connect(self.clock.outer(now), client, PEER, "lasthop") {
                Ok((handle, connection)) => self.connection = Some((handle, Box::new(connection))),
                Err(_) => self.end(Event::Aborted),
            }
        }
        self.settle();
    }

    /// Returns the number of application bytes that arrived.
    pub const fn received(&self) -> u64 {
        self.work.received
    }

    /// Returns the number of stream bytes that this end sent more than once.
    pub const fn resent(&self) -> u64 {
        self.resent
    }

    /// Returns whether this end has sent and received everything.
    pub fn through(&self) -> bool {
        let side = match self.side {
            Side::Initiator => quinn_proto::Side::Client,
            Side::Acceptor => quinn_proto::Side::Server,
        };
        self.work.through(side)
    }

    /// Returns the smoothed round-trip time (RFC 9002 §5.3), or `None` before the handshake is complete.
    pub fn rtt(&self) -> Option<Duration> {
        let (_, connection) = self.connection.as_ref().filter(|(_, connection)| !connection.is_handshaking())?;
        Some(Duration::from_nanos(u64::try_from(connection.rtt().as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns whether this end has nothing left to do: it has finished, or the connection has ended.
    pub fn finished(&self) -> bool {
        self.through() || self.over.is_on()
    }

    /// Returns the configuration of both ends.
    pub const fn config(&self) -> &QuicConfig {
        &self.config
    }

    fn end(&mut self, event: Event) {
        if !self.over.is_on() {
            self.over = Switch::On;
            self.events.push_back(event);
        }
    }

    /// Exchanges events between endpoint, connection and application until there are none left.
    fn settle(&mut self) {
        let Some((handle, mut connection)) = self.connection.take() else { return };
        loop {
            let mut quiet = true;
            while let Some(event) = connection.poll_endpoint_events() {
                quiet = false;
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                quiet = false;
                self.on_event(&mut connection, event);
            }
            if quiet {
                break;
            }
        }
        self.report(&connection);
        self.connection = Some((handle, connection));
    }

    fn on_event(&mut self, connection: &mut Connection, event: quinn_proto::Event) {
        match event {
            quinn_proto::Event::Connected => {
                self.events.push_back(Event::Established);
                if self.side == Side::Initiator {
                    self.work.begin(connection);
                }
            }
            quinn_proto::Event::ConnectionLost { reason } => self.end(match reason {
                ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_) => Event::Closed,
                _ => Event::Aborted,
            }),
            quinn_proto::Event::Stream(event) => {
                if let Some(stream) = self.work.on_event(connection, event) {
                    self.sent.forget(stream.into());
                }
                if self.side == Side::Initiator && self.through() && !connection.is_closed() {
                    connection.close(self.clock.outer(self.now), VarInt::from_u32(0), Bytes::new());
                    self.end(Event::Closed);
                }
            }
            quinn_proto::Event::HandshakeDataReady
            | quinn_proto::Event::DatagramReceived
            | quinn_proto::Event::DatagramsUnblocked => {}
        }
    }

    /// Reports changes in congestion control.
    fn report(&mut self, connection: &Connection) {
        // quinn counts each loss and mark; those within a recovery do not reduce the window. All counts are copied at once,
        // so they are read only if the window was reduced.
        let cwnd = connection.congestion_state().window();
        if cwnd < self.cwnd {
            let congestion_events = connection.stats().path.congestion_events;
            if congestion_events > self.congestion_events {
                self.events.push_back(Event::RecoveryEntered { seq: Seq(self.number) });
            }
            self.congestion_events = congestion_events;
        }
        self.cwnd = cwnd;
        if self.watch.is_on() {
            let metrics = connection.congestion_state().metrics();
            let bytes = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            let window = (bytes(metrics.congestion_window), bytes(metrics.ssthresh.unwrap_or(u64::MAX)));
            if window != self.window {
                self.window = window;
                self.events.push_back(Event::Window { cwnd: window.0, ssthresh: window.1 });
            }
        }
    }

    /// Reads the time of the next timer, after everything was sent that sets timers.
    fn refresh(&mut self) {
        let timeout = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.deadline = timeout.map(|at| self.clock.inner(at));
    }

    /// Passes a datagram to quinn.
    fn take(&mut self, now: Instant, ecn: Ecn, payload: Bytes) {
        let at = self.clock.outer(now);
        let mut response = Vec::new();
        let event = self.endpoint.handle(at, PEER, None, codepoint(ecn), BytesMut::from(payload), &mut response);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                // One flow is one connection: a late repetition of a first packet finds it, or is refused.
                if self.connection.is_some() {
                    self.endpoint.ignore(incoming);
                    return;
                }
                match self.endpoint.accept(incoming, at, &mut response, None) {
                    Ok((handle, connection)) => self.connection = Some((handle, Box::new(connection))),
                    Err(error) => self.respond(error.response.map(|transmit| transmit.size), response),
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.respond(Some(transmit.size), response),
            None => {}
        }
    }

    fn respond(&mut self, size: Option<usize>, mut response: Vec<u8>) {
        if let Some(size) = size {
            response.truncate(size);
            self.responses.push_back(response);
        }
    }

    /// Returns the cause of a datagram with these contents. Data is retransmitted only when acknowledgments show its
    /// loss: quinn's probes (RFC 9002 §6.2.4) carry new data, or none.
    fn cause(&mut self, carried: Carried) -> Cause {
        self.resent += carried.resent;
        match carried {
            Carried { resent: 1.., .. } => Cause::SackHole,
            Carried { handshake: Handshake::Part, .. } => Cause::Handshake,
            Carried { fresh: 1.., .. } => Cause::New,
            Carried { .. } => Cause::Ack,
        }
    }

    /// Returns the next datagram of the connection, with its ECN mark.
    fn transmit(&mut self, now: Instant) -> Option<(Vec<u8>, Ecn)> {
        if let Some(response) = self.responses.pop_front() {
            return Some((response, Ecn::NotEct));
        }
        let (_, connection) = self.connection.as_mut()?;
        let mut datagram = std::mem::take(&mut self.spare);
        datagram.reserve_exact(usize::from(self.config.udp_payload));
        let Some(transmit) = connection.poll_transmit(self.clock.outer(now), 1, &mut datagram) else {
            datagram.clear();
            self.spare = datagram;
            return None;
        };
        datagram.truncate(transmit.size);
        Some((datagram, ecn(transmit.ecn)))
    }
}

impl Node<Bytes> for QuicEnd {
    fn handle_packet(&mut self, now: Instant, _port: Port, packet: Packet<Bytes>) -> Disposition {
        self.now = now;
        // UDP's checksum fails.
        if packet.integrity == Integrity::Intact {
            self.take(now, packet.ecn, packet.payload);
            self.settle();
        }
        Disposition::Absorbed
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        let Some((_, connection)) = &mut self.connection else { return };
        connection.handle_timeout(self.clock.outer(now));
        self.settle();
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<Bytes>) -> Option<(Port, Why)> {
        self.now = now;
        self.room = self.host_queue.room(now, SOCKET_BUFFER * u64::from(self.config.udp_payload) / DATAGRAM_MEMORY);
        let next = if self.room == Room::Now { self.transmit(now) } else { None };
        let Some((datagram, ecn)) = next else {
            self.refresh();
            return None;
        };
        let carried = self.sent.read(&datagram);
        *place = Packet {
            flow: self.flow,
            from: self.side,
            cause: self.cause(carried),
            ecn,
            header_len: self.header_len,
            len: datagram.len() as u32,
            body: Body::Quic {
                number: self.number,
                data: (carried.fresh + carried.resent) as u32,
                form: HeaderForm::of(&datagram),
            },
            payload: Bytes::from(datagram),
            ..Packet::default()
        };
        self.number = self.number.wrapping_add(1);
        Some((Port::ONLY, Why::Own))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        // quinn may request a time that has already been reached.
        let deadline = match (self.room, self.deadline) {
            (Room::At(at), Some(deadline)) => Some(deadline.min(at)),
            (Room::At(at), None) => Some(at),
            (Room::Now | Room::Unknown, deadline) => deadline,
        };
        deadline.map(|at| at.max(self.now + Duration::from_nanos(1)))
    }

    fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        self.host_queue.add(now, queued);
    }

    fn handle_departure(&mut self, now: Instant, bytes: u32) {
        self.now = now;
        self.host_queue.remove(bytes);
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.events.pop_front().map(|event| (self.flow, event))
    }
}

/// Address at which each end sees the other: there is one path, so it identifies nothing.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);

const fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

const fn ecn(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// Generator of connection identifiers, which are drawn in sequence.
struct Identifiers(Stream);

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CONNECTION_ID_LEN];
        bytes.fill_with(|| self.0.below(256) as u8);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_LEN
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Date for address validation tokens, none of which are issued.
struct NoTime;

#[allow(clippy::disallowed_types, reason = "quinn's type; it is always the same moment")]
impl TimeSource for NoTime {
    fn now(&self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH
    }
}
