//! One end of a flow: a TCP or QUIC connection and its application, or a sink of datagrams.

use bytes::Bytes;
use lasthop_proto::node::{Node, Port};
use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::tcp::info::Fields;
use lasthop_proto::tcp::{Connection, Setup, State};
use lasthop_proto::time::Instant;
use lasthop_quic::QuicEnd;

use crate::apps::CallLog;
use crate::network::App;

/// Returns the index of an endpoint; each flow has two.
#[inline]
pub fn index(flow: FlowId, side: Side) -> usize {
    flow.0 as usize * 2 + side.index()
}

/// Activity of the application, reduced to the parts that the endpoint needs. Smaller than [`App`], to keep idle
/// connections small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Transfers `bytes` from the initiator, and closes the connection afterwards if `close` is on.
    Transfer { bytes: u64, close: Switch },
    /// Transfers over one connection after another.
    Web,
    /// Runs the task of the endpoint's QUIC connection.
    Quic,
    /// Does nothing, or exchanges datagrams.
    Endless,
}

/// Condition for the end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// This number of bytes is acknowledged (at the sender) or has arrived (at the receiver).
    Bytes(u64),
    /// The connection has been closed: the FIN is acknowledged or has arrived. The state is then beyond ESTABLISHED.
    Close,
    /// The peer's stream has ended.
    PeerClosed,
}

/// An endpoint and its state.
pub struct Endpoint {
    /// The TCP connection; it stays closed if the endpoint runs QUIC.
    pub connection: Connection,
    /// The end of a QUIC connection, if the endpoint runs QUIC.
    pub quic: Option<Box<QuicEnd>>,
    /// Log of the call, at its receiver.
    pub call: Option<Box<CallLog>>,
    side: Side,
    work: Work,
    start: Instant,
    started: bool,
    /// Bytes that arrived over earlier connections or in datagrams.
    earlier: u64,
    goal: Goal,
    /// Indicates whether [`Endpoint::finishes`] has returned true.
    done: bool,
    /// Time of the last delivery to the application.
    pub last_delivery: Instant,
}

impl Endpoint {
    /// Creates the endpoint that `setup` describes, running `app` starting at `start`; `quic` is given if `app` runs
    /// over QUIC.
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
            // A session requests its transfers one by one.
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

    /// Transfers `bytes` of a web session over a new connection, which `setup` describes and the initiator opens.
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

    /// Returns the number of application bytes that arrived here.
    pub fn received(&self) -> u64 {
        let quic = self.quic.as_ref().map_or(0, |quic| quic.received());
        self.earlier + self.connection.received() + quic
    }

    /// Takes datagrams with `bytes` of payload in total, the last of which arrived at `now`.
    pub fn take_datagrams(&mut self, now: Instant, bytes: u64) {
        self.earlier += bytes;
        self.last_delivery = now;
    }

    /// Takes a datagram that arrived as a packet.
    pub fn take_datagram(&mut self, now: Instant, packet: &Packet) {
        if let (Body::Media { number }, Some(call)) = (packet.body, &mut self.call) {
            call.take(now, number);
        }
        self.take_datagrams(now, u64::from(packet.len));
    }

    /// Takes a TCP segment and lets the application read and reply.
    #[inline(always)]
    pub fn take_segment(&mut self, now: Instant, packet: &Packet) {
        self.connection.take_packet(now, packet);
        self.read(now);
    }

    /// Lets the application read and reply.
    #[inline(always)]
    fn read(&mut self, now: Instant) {
        let readable = self.connection.readable();
        if readable > 0 {
            self.connection.read(readable);
            self.last_delivery = now;
        }
        if self.side == Side::Acceptor && self.connection.state() == State::CloseWait {
            self.connection.close();
        }
    }

    /// Handles the timeout of the QUIC connection, and opens it at the start time.
    pub fn handle_quic_timeout(&mut self, now: Instant) {
        let opens = !self.started && now >= self.start;
        self.started |= opens;
        let Some(quic) = &mut self.quic else { return };
        if opens {
            quic.connect(now);
        }
        quic.handle_timeout(now);
    }

    /// Takes a datagram of the QUIC connection.
    pub fn take_quic(&mut self, now: Instant, packet: Packet<Bytes>) {
        let Some(quic) = &mut self.quic else { return };
        let before = quic.received();
        quic.handle_packet(now, Port::ONLY, packet);
        if quic.received() > before {
            self.last_delivery = now;
        }
    }

    /// Handles the timeout of the connection, and starts the application at its start time.
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
        if self.connection.readable() > 0 {
            // Held by receive offload until now.
            self.read(now);
        }
    }

    /// Returns the state of the TCP connection; `None` if the flow does not use TCP.
    pub fn tcp_info(&self) -> Option<Fields> {
        matches!(self.work, Work::Transfer { .. } | Work::Web).then(|| self.connection.info().fields())
    }

    /// Returns the start time of the flow.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Returns the start time until the application has started, `None` afterwards.
    #[inline]
    pub fn poll_start(&self) -> Option<Instant> {
        (!self.started).then_some(self.start)
    }

    /// Returns whether this end has nothing left to do: all that it sends is acknowledged and all that it expects has
    /// arrived, or the connection is closed.
    pub fn finished(&self) -> bool {
        let through = match self.work {
            Work::Endless => true,
            Work::Quic => self.quic.as_ref().is_none_or(|quic| quic.finished()),
            Work::Transfer { .. } | Work::Web => self.through() || self.connection.state() == State::Closed,
        };
        self.started && through
    }

    /// Returns whether the endpoint has finished since the last call.
    #[inline]
    pub fn finishes(&mut self) -> bool {
        let under_way = self.connection.state() == State::Established && (self.goal == Goal::Close || !self.through());
        if self.done || under_way {
            return false;
        }
        self.done = self.finished();
        self.done
    }

    /// Returns whether the endpoint had finished at the last call of [`Endpoint::finishes`].
    pub const fn has_finished(&self) -> bool {
        self.done
    }

    /// Returns whether the endpoint is an end of a web session's connections.
    pub const fn browses(&self) -> bool {
        matches!(self.work, Work::Web)
    }

    /// Returns whether the transfer has completed for this end, unlike a connection that merely closed.
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
