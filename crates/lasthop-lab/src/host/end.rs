//! One end of a connection on the wire: the state machine, its application, and measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, pump};
use lasthop_proto::packet::{Body, Flags, FlowId, Integrity, Packet, Segment, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Setup, State, TickPhase};
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Route, View};

use super::outcome::{Ending, Outcome};
use super::pattern;

/// Time for which an end without anything left to report is kept: in TIME-WAIT, or until the peer closes too.
const LINGER: Duration = Duration::from_secs(60);

/// Application at an end.
#[derive(Clone, Debug)]
pub(super) enum App {
    /// Sends the pattern, and closes afterwards if `close` is on.
    Send { bytes: u64, close: Switch },
    /// Receives `bytes`, or until the peer closes, and then closes. Adds the bytes received to the meter.
    Receive { bytes: Option<u64>, payload: Payload, meter: Option<Arc<AtomicU64>> },
}

/// Data that a receiver expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Bytes of [`pattern`](super::pattern), which are checked.
    Pattern,
    /// Any bytes.
    Any,
}

/// Identity of the caller that requested the end and receives its outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(pub u64);

/// Parameters of a new end.
pub(super) struct Birth {
    /// Route from the end to its peer.
    pub route: Route,
    pub app: App,
    pub config: Arc<TcpConfig>,
    pub iss: Seq,
    pub phase: TickPhase,
    /// Maximum bytes of options and payload for the interface.
    pub mss: u32,
    pub watch: Switch,
}

/// Cause of the last change of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mover {
    Packet,
    Timer,
    User(Ending),
}

/// An end and its state.
pub(super) struct End {
    connection: Connection,
    route: Route,
    app: App,
    iss: Seq,
    /// Initial sequence number of the peer, once its SYN has arrived.
    irs: Option<Seq>,
    config: Arc<TcpConfig>,
    /// `None` until a receiver takes the connection, and after its outcome is reported.
    pub ticket: Option<Ticket>,
    /// Time when the transfer is aborted.
    pub limit: Option<Instant>,
    /// Time when the end is removed in any state.
    forget_at: Option<Instant>,
    deadline: Option<Instant>,
    mover: Mover,
    established: bool,
    aborted: Option<Ending>,
    outcome: Outcome,
}

impl End {
    /// Creates an end that opens the connection.
    pub fn active(now: Instant, birth: Birth) -> Self {
        let mut end = Self::new(now, birth, Side::Initiator);
        end.connection.connect();
        if let App::Send { bytes, close } = end.app {
            end.connection.write(bytes);
            if close.is_on() {
                end.connection.close();
            }
        }
        end
    }

    /// Creates an end that waits for the SYN that it is about to receive.
    pub fn passive(now: Instant, birth: Birth) -> Self {
        let mut end = Self::new(now, birth, Side::Acceptor);
        end.connection.listen();
        end
    }

    fn new(now: Instant, birth: Birth, side: Side) -> Self {
        let Birth { route, app, config, iss, phase, mss, watch } = birth;
        let mut connection =
            Connection::new(Setup { flow: FlowId(0), side, config: config.clone(), iss, phase, watch });
        connection.fit_path(now, mss);
        Self {
            connection,
            outcome: Outcome::new(route.source, route.destination, now),
            route,
            app,
            iss,
            irs: None,
            config,
            ticket: None,
            limit: None,
            forget_at: None,
            deadline: None,
            mover: Mover::User(Ending::Aborted),
            established: false,
            aborted: None,
        }
    }

    /// Returns whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Assigns an incoming connection to a receiver.
    pub fn adopt(&mut self, ticket: Ticket, app: App, limit: Instant) {
        self.ticket = Some(ticket);
        self.app = app;
        self.limit = Some(limit);
    }

    /// Takes a segment that arrived for this end.
    pub fn take(&mut self, now: Instant, view: &View, payload: &[u8], integrity: Integrity) {
        self.mover = Mover::Packet;
        if integrity == Integrity::PayloadDamaged {
            self.outcome.damaged += 1;
            if self.irs.is_none() || payload.is_empty() {
                return;
            }
        } else if self.irs.is_none() && view.segment.flags.has(Flags::SYN) {
            self.irs = Some(view.segment.seq);
        }
        let packet = Packet {
            integrity,
            ecn: view.ecn,
            header_len: view.header_len as u16,
            len: payload.len() as u32,
            body: Body::Tcp(view.segment),
            ..Packet::default()
        };
        let (acked, received) = (self.connection.acked(), self.connection.received());
        if integrity == Integrity::Intact && !payload.is_empty() {
            self.check(received, view.segment.seq, payload);
        }
        self.connection.take_packet(now, &packet);
        self.read(now, acked, received);
    }

    /// Reads what has arrived. `acked` and `received` are the numbers of bytes acknowledged and received before.
    fn read(&mut self, now: Instant, acked: u64, received: u64) {
        let readable = self.connection.readable();
        if readable > 0 {
            self.connection.read(readable);
        }
        let progress = match &self.app {
            App::Send { .. } => self.connection.acked() > acked,
            App::Receive { meter, .. } => {
                let fresh = self.connection.received() - received;
                if let Some(meter) = meter {
                    meter.fetch_add(fresh, Ordering::Relaxed);
                }
                fresh > 0
            }
        };
        if progress {
            self.outcome.end = now;
        }
        if self.connection.state() == State::CloseWait {
            self.connection.close();
        }
    }

    /// Compares the data that arrived in the window with the pattern.
    fn check(&mut self, received: u64, seq: Seq, payload: &[u8]) {
        let App::Receive { payload: Payload::Pattern, .. } = self.app else { return };
        let offset = i64::from(seq.0.wrapping_sub(self.rcv_nxt().0) as i32);
        // Data before the window was checked when it first arrived; data beyond it is not accepted.
        let skip = usize::try_from(-offset).unwrap_or(0).min(payload.len());
        let fresh = &payload[skip..];
        if fresh.is_empty() || offset + skip as i64 > i64::from(self.config.receiver.receive_buffer) {
            return;
        }
        let position = received.saturating_add_signed(offset + skip as i64);
        if self.outcome.mismatch.is_none() {
            self.outcome.mismatch = pattern::mismatch(position, fresh);
        }
    }

    /// Returns whether the connection only waits for stray segments.
    pub fn is_spent(&self) -> bool {
        self.ticket.is_none() && self.connection.state() == State::TimeWait
    }

    /// Returns whether `segment` reopens the connection, which is in TIME-WAIT: a SYN beyond all data of the old one
    /// (RFC 9293 §3.10.7.4, after RFC 1122 §4.2.2.13).
    pub fn gives_way_to(&self, segment: &Segment) -> bool {
        let flags = segment.flags;
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        opens && self.is_spent() && segment.seq.gt(self.rcv_nxt())
    }

    /// Returns the sequence number after the peer's SYN and data.
    fn rcv_nxt(&self) -> Seq {
        self.irs.unwrap_or_default() + 1 + self.connection.received() as u32
    }

    /// Limits segments to `mss` bytes of options and payload, as the path requires.
    pub fn fit_path(&mut self, now: Instant, mss: u32) {
        self.connection.fit_path(now, mss);
    }

    /// Returns whether `seq` may be outstanding: an ICMP message must quote such a number to be accepted (RFC 5927
    /// §4.1).
    pub fn is_outstanding(&self, seq: Seq) -> bool {
        let una = self.iss.0.wrapping_add(1).wrapping_add(self.connection.acked() as u32);
        let under_way = self.connection.unacked().min(u64::from(self.config.common.send_buffer));
        u64::from(seq.0.wrapping_sub(una)) < under_way
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.mover = Mover::Timer;
        let (acked, received) = (self.connection.acked(), self.connection.received());
        self.connection.handle_timeout(now);
        if self.connection.readable() > 0 {
            // Held by receive offload until now.
            self.read(now, acked, received);
        }
        if self.limit.is_some_and(|at| at <= now) && self.ticket.is_some() {
            self.abort(Ending::OutOfTime);
        }
    }

    /// Aborts the connection.
    pub fn abort(&mut self, ending: Ending) {
        self.mover = Mover::User(ending);
        self.connection.abort();
        self.aborted.get_or_insert(ending);
    }

    /// Drains the connection: passes each packet with its payload to `send`.
    pub fn pump(&mut self, now: Instant, scratch: &mut Vec<u8>, mut send: impl FnMut(&Packet, &[u8])) {
        let Self { connection, outcome, iss, app, established, aborted, mover, .. } = self;
        let acked = connection.acked();
        let una = iss.0.wrapping_add(1).wrapping_add(acked as u32);
        self.deadline = pump(connection, now, |output| match output {
            Output::Transmit(_, _, packet) => {
                outcome.count_packet(&packet, packet.cause);
                scratch.clear();
                scratch.resize(packet.len as usize, 0);
                if let (App::Send { .. }, Some(segment)) = (&*app, packet.tcp()) {
                    pattern::fill(acked + u64::from(segment.seq.0.wrapping_sub(una)), scratch);
                }
                send(&packet, scratch);
            }
            Output::Event(_, event) => {
                outcome.count_event(now, event);
                match event {
                    Event::Established => *established = true,
                    Event::Aborted => {
                        aborted.get_or_insert(match *mover {
                            Mover::Packet => Ending::Reset,
                            Mover::Timer => Ending::GaveUp,
                            Mover::User(ending) => ending,
                        });
                    }
                    _ => {}
                }
            }
        });
        if self.connection.state() == State::TimeWait && self.ticket.is_none() && self.forget_at.is_none() {
            self.forget_at = Some(now + LINGER);
        }
    }

    /// Returns the end of the transfer, if it has ended.
    fn ending(&self) -> Option<Ending> {
        let connection = &self.connection;
        let through = match self.app {
            App::Send { close: Switch::On, .. } => connection.all_acked(),
            App::Send { bytes, close: Switch::Off } => connection.acked() == bytes,
            App::Receive { bytes: None, .. } => connection.peer_closed(),
            App::Receive { bytes: Some(bytes), .. } => connection.received() >= bytes,
        };
        if through {
            return Some(Ending::Complete);
        }
        self.aborted.or_else(|| (connection.state() == State::Closed).then_some(Ending::Reset))
    }

    /// Returns the outcome once, after the transfer has ended, if a caller waits for it.
    pub fn poll_outcome(&mut self, now: Instant) -> Option<(Ticket, Outcome)> {
        let ticket = self.ticket?;
        let ending = self.ending()?;
        self.ticket = None;
        self.limit = None;
        self.forget_at = Some(now + LINGER);
        Some((ticket, self.report(ending)))
    }

    /// Returns the outcome so far, with the given ending.
    pub fn report(&mut self, ending: Ending) -> Outcome {
        let fresh = Outcome::new(self.route.source, self.route.destination, self.outcome.start);
        let outcome = std::mem::replace(&mut self.outcome, fresh);
        let (received, acked) = (self.connection.received(), self.connection.acked());
        let tcp_info = Some(Box::new(self.connection.info().fields()));
        Outcome { ending, received, acked, tcp_info, ..outcome }
    }

    /// Returns whether the end can be removed. Later segments then find no connection.
    pub fn is_over(&self, now: Instant) -> bool {
        let lingered = self.forget_at.is_some_and(|at| at <= now);
        self.ticket.is_none() && (lingered || self.connection.state() == State::Closed)
    }

    /// Returns the next deadline.
    pub fn poll_deadline(&self) -> Option<Instant> {
        [self.deadline, self.limit, self.forget_at].into_iter().flatten().min()
    }
}
