//! One end of a flow: a TCP or QUIC connection and the application on top of it, or a sink of datagrams.

use bytes::Bytes;
use lasthop_proto::node::{Node, Port};
use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::tcp::{Connection, Setup, State};
use lasthop_proto::time::Instant;
use lasthop_quic::QuicEnd;

use crate::apps::CallLog;
use crate::network::App;

/// Index of an endpoint: two per flow.
#[inline]
pub fn index(flow: FlowId, side: Side) -> usize {
    flow.0 as usize * 2 + side.index()
}

/// What the application does, as far as an end has to know: [`App`] says more, and an idle connection is to stay small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// The initiator sends so many bytes, and may close the connection behind them.
    Transfer { bytes: u64, close: Switch },
    /// Transfers over one connection after the other.
    Web,
    /// What its connection knows.
    Quic,
    /// Nothing, or datagrams.
    Endless,
}

/// What an end waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// That so many bytes are acknowledged, where they are sent, or have arrived, where they go.
    Bytes(u64),
    /// The end of a transfer that closes its connection, which is behind ESTABLISHED: that the FIN is acknowledged, or has come.
    Close,
    /// That the peer's stream has ended.
    PeerClosed,
}

/// An endpoint at work.
pub struct Endpoint {
    /// The connection; where QUIC runs it stays closed.
    pub connection: Connection,
    /// The end of a QUIC connection that this is instead.
    pub quic: Option<Box<QuicEnd>>,
    /// What arrived of the call that this end listens to.
    pub call: Option<Box<CallLog>>,
    side: Side,
    work: Work,
    start: Instant,
    started: bool,
    /// Bytes that arrived over earlier connections, or in datagrams.
    earlier: u64,
    goal: Goal,
    /// Whether [`Endpoint::finishes`] has said so.
    done: bool,
    /// When the last byte so far was delivered to the application here.
    pub last_delivery: Instant,
}

impl Endpoint {
    /// The endpoint that `setup` describes, running `app` from `start` on; over `quic`, where that is what `app` says.
    pub fn new(setup: Setup, app: App, start: Instant, quic: Option<Box<QuicEnd>>) -> Self {
        let side = setup.side;
        let mut connection = Connection::new(setup);
        if side == Side::Acceptor && quic.is_none() {
            connection.listen();
        }
        let call = match (app, side) {
            (App::Call(config), Side::Acceptor) => Some(Box::new(CallLog::new(config, start))),
            _ => None,
        };
        let (work, goal) = match app {
            App::Transfer { bytes, close } => {
                (Work::Transfer { bytes, close }, if close.is_on() { Goal::Close } else { Goal::Bytes(bytes) })
            }
            // A session asks for its transfers one by one.
            App::Web => (Work::Web, Goal::Bytes(0)),
            App::Quic(_) => (Work::Quic, Goal::PeerClosed),
            App::Idle | App::OnOff(_) | App::Call(_) => (Work::Endless, Goal::PeerClosed),
        };
        Self {
            connection,
            quic,
            call,
            side,
            work,
            start,
            started: side == Side::Acceptor || app.is_endless(),
            earlier: 0,
            goal,
            done: app.is_endless(),
            last_delivery: start,
        }
    }

    /// A web session transfers `bytes` over a fresh connection, which `setup` describes: the initiator opens it.
    pub fn begin(&mut self, setup: Setup, bytes: u64) {
        self.earlier += self.connection.received();
        self.connection = Connection::new(setup);
        self.goal = Goal::Bytes(bytes);
        self.done = false;
        match self.side {
            Side::Initiator => {
                self.connection.connect();
                self.connection.write(bytes);
            }
            Side::Acceptor => self.connection.listen(),
        }
    }

    /// Application bytes that arrived here.
    pub fn received(&self) -> u64 {
        let quic = self.quic.as_ref().map_or(0, |quic| quic.received());
        self.earlier + self.connection.received() + quic
    }

    /// Takes datagrams with `bytes` of payload in all, the last of which arrived at `now`.
    pub fn take_datagrams(&mut self, now: Instant, bytes: u64) {
        self.earlier += bytes;
        self.last_delivery = now;
    }

    /// Takes one that arrived as a packet.
    pub fn take_datagram(&mut self, now: Instant, packet: &Packet) {
        if let (Body::Media { number }, Some(call)) = (packet.body, &mut self.call) {
            call.take(now, number);
        }
        self.take_datagrams(now, u64::from(packet.len));
    }

    /// Takes a segment of the connection's, and lets the application read and answer.
    #[inline(always)]
    pub fn take_segment(&mut self, now: Instant, packet: &Packet) {
        self.connection.take_packet(now, packet);
        let readable = self.connection.readable();
        if readable > 0 {
            self.connection.read(readable);
            self.last_delivery = now;
        }
        if self.side == Side::Acceptor && self.connection.state() == State::CloseWait {
            self.connection.close();
        }
    }

    /// Wakes the QUIC connection that this is an end of, and opens it when it is time.
    pub fn handle_quic_timeout(&mut self, now: Instant) {
        let opens = !self.started && now >= self.start;
        self.started |= opens;
        let Some(quic) = &mut self.quic else { return };
        if opens {
            quic.connect(now);
        }
        quic.handle_timeout(now);
    }

    /// Takes a datagram of the QUIC connection that this is an end of.
    pub fn take_quic(&mut self, now: Instant, packet: Packet<Bytes>) {
        let Some(quic) = &mut self.quic else { return };
        let before = quic.received();
        quic.handle_packet(now, Port::ONLY, packet);
        if quic.received() > before {
            self.last_delivery = now;
        }
    }

    /// Wakes the connection, and starts the application when it is time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.started && now >= self.start {
            self.started = true;
            self.connection.connect();
            if let Work::Transfer { bytes, close } = self.work {
                self.connection.write(bytes);
                if close.is_on() {
                    self.connection.close();
                }
            }
        }
        self.connection.handle_timeout(now);
    }

    /// When the flow starts.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// When to be woken to start; `None` once it has.
    #[inline]
    pub fn poll_start(&self) -> Option<Instant> {
        (!self.started).then_some(self.start)
    }

    /// Whether this end has nothing left to do: all that it sends is acknowledged and all that it expects has arrived, or
    /// the connection is gone.
    pub fn finished(&self) -> bool {
        let through = match self.work {
            Work::Endless => true,
            Work::Quic => self.quic.as_ref().is_none_or(|quic| quic.finished()),
            Work::Transfer { .. } | Work::Web => self.through() || self.connection.state() == State::Closed,
        };
        self.started && through
    }

    /// Whether it has finished since this was last asked.
    #[inline]
    pub fn finishes(&mut self) -> bool {
        let under_way = self.connection.state() == State::Established && (self.goal == Goal::Close || !self.through());
        if self.done || under_way {
            return false;
        }
        self.done = self.finished();
        self.done
    }

    /// Whether it had finished when [`Endpoint::finishes`] was last asked.
    pub const fn has_finished(&self) -> bool {
        self.done
    }

    /// Whether it is an end of a web session's connections.
    pub const fn browses(&self) -> bool {
        matches!(self.work, Work::Web)
    }

    /// Whether a transfer is over for this end, and not just the connection.
    pub fn through(&self) -> bool {
        if let Some(quic) = &self.quic {
            return quic.through();
        }
        let (connection, sends) = (&self.connection, self.side == Side::Initiator);
        match self.goal {
            Goal::Bytes(bytes) => bytes == if sends { connection.acked() } else { connection.received() },
            Goal::Close if sends => connection.all_acked(),
            Goal::Close | Goal::PeerClosed => connection.peer_closed(),
        }
    }
}
