//! SRP, a split connection whose wireless half is not TCP (Yavatkar and Bhagwat, *Improving End-to-End Performance of
//! TCP over Mobile Internetworks*, 1994): selective repeat over datagrams between the base station and the mobile host.
//!
//! Each end of the hop is an [`SrpEnd`]. It terminates the TCP connections of its own side ([`Port::WIRED`]) and
//! carries their bytes over the hop ([`Port::WIRELESS`]) in datagrams, which the selective repeat of
//! [`crate::link::arq`] numbers, acknowledges and retransmits separately for each connection. `docs/models/srp.md`
//! explains the rules.

mod message;
mod session;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

pub use self::message::{Message, SessionHeader};
use self::session::{Session, Start};
use crate::event::Event;
use crate::link::arq::{ArqConfig, Delivery, Header, Protocol, Timer};
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::headers::{LinkHeader, LinkProtocol};
use crate::packet::{Body, Cause, Flags, FlowId, Integrity, Packet, Priority};
use crate::tcp::TickPhase;
use crate::tcp::config::TcpConfig;
use crate::time::{Duration, Instant};

/// Maximum number of connections at once; packets of further ones pass through unchanged.
const MAX_CONNECTIONS: usize = 16_384;

/// Parameters of both ends, which must agree.
#[derive(Clone, PartialEq, Debug)]
pub struct SrpConfig {
    /// Maximum number of a connection's unacknowledged datagrams: 1 to 32,768.
    pub window: u16,
    /// Bytes of IP, UDP and SRP headers in each datagram.
    pub header: u16,
    /// Retransmission timer.
    pub timer: Timer,
    /// Time after which the receiver requests a datagram again that is still missing; `None` requests it once.
    pub nack_again: Option<Duration>,
    /// Maximum number of bytes of a connection's direction that wait at the far end of the hop, and in a datagram.
    pub buffer: u32,
}

impl SrpConfig {
    /// Returns the parameters of the underlying selective repeat. It never gives up, since nothing else would
    /// retransmit.
    fn repeat(&self) -> ArqConfig {
        ArqConfig {
            protocol: Protocol::SelectiveRepeat,
            window: self.window,
            header: self.header,
            timer: self.timer,
            nack_again: self.nack_again,
            max_retransmissions: None,
            delivery: Delivery::InOrder,
            queue: message::MOST_WAITING,
        }
    }
}

/// One end of the hop.
#[derive(Clone, Debug)]
pub struct SrpEnd {
    config: SrpConfig,
    tcp: Arc<TcpConfig>,
    phase: TickPhase,
    /// Number of the next session that begins here.
    next: u16,
    sessions: BTreeMap<FlowId, Session>,
    timers: BTreeSet<(Instant, FlowId)>,
    /// Connections that may have output.
    ready: VecDeque<FlowId>,
    out: VecDeque<(Port, Why, Packet)>,
    events: VecDeque<(FlowId, Event)>,
}

impl SrpEnd {
    /// Returns an end without connections; `tcp` configures those with its own side.
    pub fn new(config: SrpConfig, tcp: Arc<TcpConfig>, phase: TickPhase) -> Self {
        Self {
            tcp: Arc::new(TcpConfig::clone(&tcp).with(|c| c.receiver.receive_buffer = config.buffer)),
            config,
            phase,
            next: 0,
            sessions: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns an end as a trait object.
    pub fn boxed(config: SrpConfig, tcp: Arc<TcpConfig>, phase: TickPhase) -> Box<dyn Node<()>> {
        Box::new(Self::new(config, tcp, phase))
    }

    /// Returns the number of connections that end here now.
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the maximum, over the connections, of the bytes that arrived over the hop and wait for its own side. At
    /// most [`SrpConfig::buffer`].
    pub fn most_waiting(&self) -> u64 {
        self.sessions.values().map(Session::waiting).max().unwrap_or_default()
    }

    /// Returns the maximum, over the connections, of the number of unacknowledged datagrams. At most the window and a
    /// few without payload.
    pub fn most_unacknowledged(&self) -> usize {
        self.sessions.values().map(Session::unacknowledged).max().unwrap_or_default()
    }

    fn begin(&mut self, flow: FlowId, start: Start) {
        let session = Session::new(flow, start, &self.config, &self.tcp, self.phase);
        self.remove(flow);
        self.sessions.insert(flow, session);
    }

    fn remove(&mut self, flow: FlowId) {
        if let Some(session) = self.sessions.remove(&flow)
            && let Some(filed) = session.filed
        {
            self.timers.remove(&(filed, flow));
        }
    }

    fn on_own_side(&mut self, now: Instant, packet: Packet) -> Disposition {
        let flow = packet.flow;
        if let (Some(tcp), false) = (packet.tcp(), self.sessions.contains_key(&flow)) {
            let opens = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK);
            if opens && self.sessions.len() < MAX_CONNECTIONS {
                self.begin(flow, Start::Here { number: self.next, from: packet.from });
                self.next = self.next.wrapping_add(1);
            }
        }
        match self.sessions.get_mut(&flow) {
            Some(session) if packet.tcp().is_some() => {
                session.take_segment(now, packet);
                self.work(now, flow);
                Disposition::Absorbed
            }
            _ => self.pass(Port::WIRELESS, packet),
        }
    }

    fn on_hop(&mut self, now: Instant, mut packet: Packet) -> Disposition {
        let flow = packet.flow;
        let Some(header) = packet.link.read(LinkProtocol::SRP) else {
            // Raw segments of a connection that ends here are strays.
            let stray = packet.tcp().is_some() && self.sessions.contains_key(&flow);
            return if stray { Disposition::Dropped } else { self.pass(Port::WIRED, packet) };
        };
        let Some(SessionHeader(number)) = SessionHeader::from_bytes(header) else { return Disposition::Dropped };
        packet.link.pop();
        if packet.integrity != Integrity::Intact {
            return Disposition::Dropped;
        }
        let known = self.sessions.get(&flow).map(|session| session.number);
        if opens(&packet) && known.is_none_or(|known| is_newer(number, known)) {
            if known.is_none() && self.sessions.len() >= MAX_CONNECTIONS {
                return Disposition::Dropped;
            }
            self.begin(flow, Start::There { number, from: packet.from });
        } else if known.is_none() {
            return self.answer_forgotten(number, &packet);
        } else if known != Some(number) {
            return Disposition::Dropped;
        }
        if let Some(session) = self.sessions.get_mut(&flow) {
            session.take_datagram(now, packet);
        }
        self.work(now, flow);
        Disposition::Absorbed
    }

    /// Answers a datagram of a connection that has ended here, if the other end does not know that its last datagrams
    /// arrived. They did: a session sends only its first datagram before that is acknowledged.
    fn answer_forgotten(&mut self, number: u16, packet: &Packet) -> Disposition {
        if let Some(Header::Data(datagram)) = Header::of(packet)
            && datagram > 0
        {
            let mut link = Header::Ack(datagram.wrapping_add(1)).into();
            SessionHeader(number).put(&mut link);
            let answer = Packet {
                flow: packet.flow,
                from: packet.from.peer(),
                priority: Priority::Urgent,
                cause: Cause::LinkControl,
                header_len: self.config.header,
                body: Body::Control,
                link,
                ..Packet::default()
            };
            self.out.push_back((Port::WIRELESS, Why::Control, answer));
        }
        Disposition::Absorbed
    }

    fn pass(&mut self, port: Port, packet: Packet) -> Disposition {
        self.out.push_back((port, Why::Given, packet));
        Disposition::Forwarded
    }

    /// Lets a connection proceed, and files its deadline.
    fn work(&mut self, now: Instant, flow: FlowId) {
        let Some(session) = self.sessions.get_mut(&flow) else { return };
        session.work(now, &mut self.out);
        self.ready.push_back(flow);
    }

    fn refile(&mut self, now: Instant, flow: FlowId) {
        let Some(session) = self.sessions.get_mut(&flow) else { return };
        if session.is_over() && session.forget_at.is_none() {
            session.forget_at = Some(now + self.tcp.common.time_wait.max(Duration::from_nanos(1)));
        }
        let deadline = session.poll_deadline();
        if deadline != session.filed {
            if let Some(filed) = session.filed {
                self.timers.remove(&(filed, flow));
            }
            if let Some(deadline) = deadline {
                self.timers.insert((deadline, flow));
            }
            session.filed = deadline;
        }
    }
}

/// Returns whether a session's number comes after another's.
const fn is_newer(number: u16, than: u16) -> bool {
    let ahead = number.wrapping_sub(than);
    ahead != 0 && ahead < 1 << 15
}

/// Returns whether the datagram is the first of a session.
fn opens(packet: &Packet) -> bool {
    let mut inner = packet.link;
    inner.pop();
    let first = Header::of(packet) == Some(Header::Data(0));
    first && inner.read(LinkProtocol::SRP).and_then(Message::from_bytes) == Some(Message::Open)
}

impl Node<()> for SrpEnd {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet) -> Disposition {
        if port == Port::WIRED { self.on_own_side(now, packet) } else { self.on_hop(now, packet) }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, flow)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(session) = self.sessions.get_mut(&flow) {
                session.filed = None;
                session.handle_timeout(now);
                if session.forget_at.is_some_and(|at| at <= now) {
                    self.sessions.remove(&flow);
                }
            }
            self.work(now, flow);
        }
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        loop {
            if let Some((port, why, packet)) = self.out.pop_front() {
                *place = packet;
                return Some((port, why));
            }
            let flow = *self.ready.front()?;
            if let Some(session) = self.sessions.get_mut(&flow) {
                if session.leg.poll_transmit(now, place).is_some() {
                    return Some((Port::WIRED, Why::Own));
                }
                // A reset of the own side may require a transmission.
                session.work(now, &mut self.out);
                if !self.out.is_empty() {
                    continue;
                }
            }
            self.ready.pop_front();
            self.refile(now, flow);
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        if let Some(&flow) = self.ready.front()
            && let Some(session) = self.sessions.get_mut(&flow)
        {
            while let Some(event) = session.poll_event() {
                self.events.push_back((flow, event));
            }
        }
        self.events.pop_front()
    }

    fn forget(&mut self, flow: FlowId) {
        self.remove(flow);
    }
}
