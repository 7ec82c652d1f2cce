//! Split connection (\[a\] §III-C): the base station terminates the connections of both sides and joins them.
//!
//! With [`Handover::Shared`], data is handed over by pointer: bytes stay in the receive buffer of the leg on which they
//! arrived until the other leg's peer has acknowledged them. The window advertised to the fast side is therefore the
//! free part of that buffer. With [`Handover::Moved`], data is moved from socket to socket, as in the gateway.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

use crate::event::Event;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Flags, FlowId, Packet, Side};
use crate::seq::Seq;
use crate::tcp::config::{Switch, TcpConfig};
use crate::tcp::{Connection, Setup, State, TickPhase};
use crate::time::{Duration, Instant};

/// Maximum number of connections relayed at once; packets of further ones pass through unchanged.
const MAX_CONNECTIONS: usize = 16_384;

/// Size of a socket without its buffers, in bytes: addresses, sequence numbers, windows, timers, options.
const SOCKET_STATE: u64 = 512;

/// Transfer of bytes from one leg to the other, and their buffering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handover {
    /// One buffer of this size, in bytes, for each direction of a connection, in which bytes stay until the other leg's
    /// peer has acknowledged them (\[a\] §IV-C).
    Shared(u32),
    /// Bytes move into the other leg's send buffer as soon as it has capacity, and are thereby read. Each leg's buffers
    /// are those of its configuration.
    Moved,
}

impl Handover {
    /// Returns the maximum number of bytes of a direction that were received from one end and not acknowledged by the
    /// other: `from` is the leg on which they arrive, `to` the other.
    pub fn most_held(self, from: &TcpConfig, to: &TcpConfig) -> u64 {
        match self {
            Self::Shared(buffer) => u64::from(buffer),
            Self::Moved => u64::from(from.receiver.receive_buffer) + u64::from(to.common.send_buffer),
        }
    }

    /// Returns the configuration of a leg. With [`Handover::Shared`] its buffers are the relay's.
    fn leg(self, config: Arc<TcpConfig>) -> Arc<TcpConfig> {
        match self {
            Self::Shared(buffer) => Arc::new(TcpConfig::clone(&config).with(|c| {
                c.common.send_buffer = buffer;
                c.receiver.receive_buffer = buffer;
            })),
            Self::Moved => config,
        }
    }
}

/// The two connections that replace a flow.
#[derive(Clone, Debug)]
struct Relayed {
    /// Legs towards [`Port::WIRED`] and [`Port::WIRELESS`].
    legs: [Connection; 2],
    /// Bytes handed to the other leg, by the leg on which data arrives.
    passed: [u64; 2],
    /// Bytes of `passed` that were read: with [`Handover::Shared`], when the other leg's peer has acknowledged them.
    read: [u64; 2],
    /// Deadline under which the flow is filed.
    filed: Option<Instant>,
    /// Time to forget the flow after both legs are closed. Until then stray segments must not pass through to an end
    /// whose sequence numbers they do not fit.
    forget_at: Option<Instant>,
}

impl Relayed {
    /// Hands over received data, frees data that the other leg has taken over, and passes on the end of the stream.
    fn join(&mut self, now: Instant, handover: Handover) {
        for (from, to) in [(0, 1), (1, 0)] {
            let received = self.legs[from].received();
            let fresh = received - self.passed[from];
            if fresh > 0 {
                self.passed[from] += match handover {
                    Handover::Shared(_) => {
                        self.legs[to].write(fresh);
                        fresh
                    }
                    Handover::Moved => self.legs[to].offer(now, fresh),
                };
            }
            let taken = match handover {
                Handover::Shared(_) => self.legs[to].acked(),
                Handover::Moved => self.passed[from],
            };
            if taken > self.read[from] {
                self.legs[from].read(taken - self.read[from]);
                self.read[from] = taken;
            }
            if self.legs[from].peer_closed() && self.passed[from] == received {
                self.legs[to].close();
            }
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.legs.iter().filter_map(Node::poll_deadline).chain(self.forget_at).min()
    }

    fn over(&self) -> bool {
        self.legs.iter().all(|leg| leg.state() == State::Closed)
    }
}

/// Relay for every connection opened through it.
#[derive(Clone, Debug)]
pub struct SplitRelay {
    configs: [Arc<TcpConfig>; 2],
    handover: Handover,
    phase: TickPhase,
    watch: Switch,
    flows: BTreeMap<FlowId, Relayed>,
    timers: BTreeSet<(Instant, FlowId)>,
    /// Flows that may have output.
    ready: VecDeque<FlowId>,
    bypass: VecDeque<(Port, Packet)>,
    events: VecDeque<(FlowId, Event)>,
}

impl SplitRelay {
    /// Returns a relay; `wired` and `wireless` configure the legs that face [`Port::WIRED`] and [`Port::WIRELESS`].
    pub fn new(
        handover: Handover,
        wired: Arc<TcpConfig>,
        wireless: Arc<TcpConfig>,
        phase: TickPhase,
        watch: Switch,
    ) -> Self {
        Self {
            configs: [handover.leg(wired), handover.leg(wireless)],
            handover,
            phase,
            watch,
            flows: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            bypass: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the number of connections relayed now.
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether a flow is relayed. Packets of other flows pass through unchanged, except a SYN that opens one.
    pub fn relays(&self, flow: FlowId) -> bool {
        self.flows.contains_key(&flow)
    }

    /// Opens a relayed connection when a SYN has arrived at `port` from `from`: accepts it there, and opens the other
    /// leg at once.
    fn open(&mut self, flow: FlowId, port: Port, from: Side) {
        let leg = |index: usize, side: Side| {
            Connection::new(Setup {
                flow,
                side,
                config: self.configs[index].clone(),
                iss: Seq(0),
                phase: self.phase,
                // Studies examine the window on the lossy side.
                watch: if index == usize::from(Port::WIRELESS.0) { self.watch } else { Switch::Off },
            })
        };
        let arrived = usize::from(port.0.min(1));
        let mut legs =
            if arrived == 0 { [leg(0, from.peer()), leg(1, from)] } else { [leg(0, from), leg(1, from.peer())] };
        legs[arrived].listen();
        legs[1 - arrived].connect();
        self.flows.insert(flow, Relayed { legs, passed: [0; 2], read: [0; 2], filed: None, forget_at: None });
    }

    fn after(&mut self, now: Instant, flow: FlowId) {
        let Some(relayed) = self.flows.get_mut(&flow) else { return };
        relayed.join(now, self.handover);
        self.ready.push_back(flow);
    }

    fn refile(&mut self, now: Instant, flow: FlowId) {
        let Some(relayed) = self.flows.get_mut(&flow) else { return };
        if relayed.over() && relayed.forget_at.is_none() {
            relayed.forget_at = Some(now + self.configs[0].common.time_wait.max(Duration::from_nanos(1)));
        }
        let deadline = relayed.poll_deadline();
        if deadline != relayed.filed {
            if let Some(filed) = relayed.filed {
                self.timers.remove(&(filed, flow));
            }
            if let Some(deadline) = deadline {
                self.timers.insert((deadline, flow));
            }
            relayed.filed = deadline;
        }
    }
}

impl Node<()> for SplitRelay {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet) -> Disposition {
        let across = port.across();
        let flow = packet.flow;
        if !self.flows.contains_key(&flow) {
            let opens = packet.tcp().is_some_and(|tcp| tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK));
            if !opens || self.flows.len() >= MAX_CONNECTIONS {
                self.bypass.push_back((across, packet));
                return Disposition::Forwarded;
            }
            self.open(flow, port, packet.from);
        }
        if let Some(relayed) = self.flows.get_mut(&flow)
            && packet.tcp().is_some()
        {
            relayed.legs[usize::from(port.0.min(1))].handle_packet(now, Port::ONLY, packet);
            self.after(now, flow);
            Disposition::Absorbed
        } else {
            self.bypass.push_back((across, packet));
            Disposition::Forwarded
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, flow)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(relayed) = self.flows.get_mut(&flow) {
                relayed.filed = None;
                for leg in &mut relayed.legs {
                    leg.handle_timeout(now);
                }
                if relayed.forget_at.is_some_and(|at| at <= now) {
                    self.flows.remove(&flow);
                }
            }
            self.after(now, flow);
        }
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        if let Some((port, packet)) = self.bypass.pop_front() {
            *place = packet;
            return Some((port, Why::Given));
        }
        while let Some(&flow) = self.ready.front() {
            if let Some(relayed) = self.flows.get_mut(&flow) {
                for (port, leg) in [Port::WIRED, Port::WIRELESS].into_iter().zip(&mut relayed.legs) {
                    if leg.poll_transmit(now, place).is_some() {
                        return Some((port, Why::Own));
                    }
                }
            }
            self.ready.pop_front();
            self.refile(now, flow);
        }
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        if let Some(&flow) = self.ready.front()
            && let Some(relayed) = self.flows.get_mut(&flow)
        {
            for index in [0, 1] {
                while let Some(event) = relayed.legs[index].poll_event() {
                    if event.1 == Event::Aborted {
                        relayed.legs[1 - index].abort();
                    }
                    self.events.push_back(event);
                }
            }
        }
        self.events.pop_front()
    }

    /// Counts, for each open connection, the bytes that one end has handed over and the other has not received, and the
    /// two sockets.
    fn hard_state(&self) -> u64 {
        let open = self.flows.values().filter(|relayed| !relayed.over());
        let held = |relayed: &Relayed| {
            let [wired, wireless] = &relayed.legs;
            let held = |from: &Connection, to: &Connection| from.received().saturating_sub(to.acked());
            held(wired, wireless) + held(wireless, wired)
        };
        open.map(|relayed| held(relayed) + 2 * SOCKET_STATE).sum()
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(relayed) = self.flows.remove(&flow)
            && let Some(filed) = relayed.filed
        {
            self.timers.remove(&(filed, flow));
        }
    }
}
