//! The event loop of a run.

mod handoffs;
mod measuring;
mod quic;
mod sinks;

use lasthop_proto::node::{Node, pump_into};
use lasthop_proto::packet::{Body, FlowId, Side};
use lasthop_proto::random::Root;
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Clock, Switch, TcpConfig};
use lasthop_proto::tcp::{Setup, TickPhase};
use lasthop_proto::time::{Duration, Instant};
use lasthop_quic::QuicEnd;

use self::sinks::{FromElement, FromEndpoint};
use crate::datagrams::Source;
use crate::element::Site;
use crate::endpoint::{Endpoint, index as endpoint};
use crate::fabric::{Fabric, Receiver, Tap, capture_points};
use crate::leg::LegId;
use crate::measure::Report;
use crate::meter::Meter;
use crate::network::{App, ElementSpec, FlowSpec, Network, NodeId};
use crate::overflow::Overflow;
use crate::pool::Handle;
use crate::scheduler::{Alarms, NEVER};
use crate::sessions::{Fresh, Sessions};
use crate::trace::{FlowInfo, Record, Trace};

/// Extent of the record of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// Counts only.
    Off,
    /// All packets and events.
    On,
    /// Packets and events of one flow, and control frames of link protocols, which belong to no flow.
    Flow(FlowId),
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Measurements.
    pub report: Report,
    /// Recorded packets and events; empty with [`Recording::Off`].
    pub trace: Trace,
}

/// A run in progress.
pub struct Simulation {
    fabric: Fabric,
    /// Wake-up times of endpoints, elements and sources, in this order.
    alarms: Alarms,
    endpoints: Vec<Endpoint>,
    elements: Vec<Box<dyn Node<()>>>,
    /// Indicates for each element whether it needs the length of its queue.
    asking: Vec<bool>,
    /// Indicates for each element whether it needs the length of its queue before each packet.
    watching: Vec<bool>,
    sources: Vec<Source>,
    sessions: Sessions,
    /// The moving host, if any. Its alarm is the last.
    mover: Option<Box<handoffs::Mover>>,
    limit: Instant,
    /// Time from which no event is processed: just after the limit, or zero once every flow has finished.
    stop: Instant,
    unfinished: usize,
    /// Time of the last event, or the limit if there are no more.
    now: Instant,
    /// Leg of the last event; greater than any leg if it was on none.
    last: LegId,
    /// Leg with the most frames when the run was abandoned, and the time.
    overflow: Option<(LegId, Instant)>,
}

/// Runs `network` once with the randomness of `seed`.
pub fn run(network: &Network, seed: u64, recording: Recording) -> Outcome {
    let mut simulation = Simulation::new(network, seed, recording);
    while simulation.advance(u32::MAX) {}
    simulation.finish(network)
}

/// Number of events processed between cancellation checks (well under 1 ms).
pub const EVENTS_BETWEEN_QUESTIONS: u32 = 4096;

/// Number of events between checks of the number of frames. An event can add a window of 65,535 frames.
const EVENTS_BETWEEN_LOOKS: u32 = 8;

/// Number of datagrams without events that take as long as one event.
const DATAGRAMS_AN_EVENT: u64 = 8;

/// Maximum interval for which datagrams without events are sent at once.
const AHEAD: Duration = Duration::from_micros(100);

/// Runs as [`run`], but checks `go_on` regularly. Returns `None` if it was cancelled.
pub fn run_while(network: &Network, seed: u64, recording: Recording, go_on: impl Fn() -> bool) -> Option<Outcome> {
    let mut simulation = Simulation::new(network, seed, recording);
    while go_on() {
        if !simulation.advance(EVENTS_BETWEEN_QUESTIONS) {
            return Some(simulation.finish(network));
        }
    }
    None
}

impl Simulation {
    /// Creates a run.
    pub fn new(network: &Network, seed: u64, recording: Recording) -> Self {
        Self::with_meter(network, seed, recording, None)
    }

    /// Creates a run that also measures delays and waiting times ([`Report::delays`], [`FlowReport::delays`],
    /// [`PathReport::queueing`]).
    ///
    /// [`FlowReport::delays`]: crate::measure::FlowReport::delays
    /// [`PathReport::queueing`]: crate::measure::PathReport::queueing
    pub fn metered(network: &Network, seed: u64, recording: Recording) -> Self {
        Self::with_meter(network, seed, recording, Some(Box::new(Meter::new(network))))
    }

    fn with_meter(network: &Network, seed: u64, recording: Recording, meter: Option<Box<Meter>>) -> Self {
        let root = Root(seed);
        let trace = (recording != Recording::Off).then(|| Trace {
            points: capture_points(network),
            flows: network.flows.iter().enumerate().map(|(index, flow)| flow_info(index, flow)).collect(),
            records: Vec::new(),
        });
        let watch = if trace.is_some() { Switch::On } else { Switch::Off };
        let setup = |id: FlowId, side: Side| {
            let flow = &network.flows[id.0 as usize];
            let config = flow.tcp[side.index()].clone();
            let node = if side == Side::Initiator { flow.from } else { flow.to };
            let phase = tick_phase(root, &network.nodes[node.0].name, &config);
            Setup { flow: id, side, config, iss: Seq(flow.iss[side.index()]), phase, watch }
        };
        let mut endpoints = Vec::with_capacity(network.flows.len() * 2);
        for (index, flow) in network.flows.iter().enumerate() {
            for side in [Side::Initiator, Side::Acceptor] {
                let id = FlowId(index as u32);
                let quic = quic::quic_end(root, flow, id, side, watch).map(Box::new);
                endpoints.push(Endpoint::new(setup(id, side), flow.app, flow.start, quic));
            }
        }
        let only = match recording {
            Recording::Flow(flow) => Some(flow),
            Recording::Off | Recording::On => None,
        };
        let mut fabric = Fabric::new(network, root, Tap::new(trace, meter, only));
        let sources = network.flows.iter().enumerate().filter_map(|(index, flow)| {
            match Source::of(flow, FlowId(index as u32), root)? {
                Source::OnOff(source) => {
                    fabric.take_charge(network, *source).map(|source| Source::OnOff(Box::new(source)))
                }
                call @ Source::Call(_) => Some(call),
            }
        });
        let sources: Vec<_> = sources.collect();
        let sessions = Sessions::new(network, root, setup);
        let build = |spec: &ElementSpec| {
            let more: Vec<_> =
                network.more_links(spec).iter().map(|link| network.rate_from(spec.node, *link)).collect();
            spec.element.build(&Site {
                node: &network.nodes[spec.node.0].name,
                rate: network.rate_from(spec.node, spec.link),
                more: &more,
                terms: network.terms(spec),
                medium: &network.links[spec.link.0].medium,
                root,
                watch,
            })
        };
        let elements: Vec<_> = network.elements.iter().map(build).collect();
        let mover = handoffs::Mover::new(network, root, watch, fabric.roaming_flows());
        let nodes = endpoints.len() + elements.len() + sources.len();
        let mut alarms = Alarms::new(nodes + usize::from(mover.is_some()));
        if let Some(mover) = &mover {
            alarms.set(nodes as u32, mover.next());
        }
        let starts = sources.iter().map(Source::poll_deadline);
        for (source, at) in (endpoints.len() + elements.len()..).zip(starts) {
            alarms.set(source as u32, at);
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            if let Some(at) = endpoint.poll_start() {
                alarms.set(index as u32, at);
            }
        }
        for (at, flow) in sessions.starts() {
            alarms.set(endpoint(flow, Side::Initiator) as u32, at);
        }
        // Sessions never finish. Flows that only accompany others do not count, unless there are no others.
        let counts = |flow: &FlowSpec| !flow.app.is_endless();
        let counted = 2 * network.flows.iter().filter(|flow| counts(flow)).count();
        let endless = !sessions.is_empty() || counted == 0 && !network.flows.is_empty();
        let unfinished = counted + usize::from(endless);
        Self {
            fabric,
            alarms,
            unfinished,
            endpoints,
            elements,
            asking: network.elements.iter().map(|spec| spec.element.asks_for_queue()).collect(),
            watching: network.elements.iter().map(|spec| spec.element.watches_queue()).collect(),
            sources,
            sessions,
            mover,
            limit: network.limit,
            stop: if unfinished == 0 { Instant::ZERO } else { (network.limit + Duration::from_nanos(1)).min(NEVER) },
            now: Instant::ZERO,
            last: LegId::BEHIND_ALL,
            overflow: None,
        }
    }

    /// Processes up to `most` events. Returns false if there are no more, the limit is reached, or every flow has
    /// finished.
    pub fn advance(&mut self, most: u32) -> bool {
        if self.fabric.is_crossed() {
            return self.advance_crossed(most);
        }
        // No iterator with a closure: in this loop, which dominates the run time, the closure would not be inlined.
        let mut left = most;
        while left > 0 {
            let events = left.min(EVENTS_BETWEEN_LOOKS);
            left -= events;
            for _ in 0..events {
                if !self.step() {
                    return false;
                }
            }
            if self.fabric.overflows() {
                return self.give_up();
            }
        }
        true
    }

    /// Abandons a run with too many frames. Returns false.
    #[cold]
    fn give_up(&mut self) -> bool {
        self.overflow.get_or_insert((self.fabric.fullest(), self.now));
        self.stop = Instant::ZERO;
        false
    }

    /// Returns the reason why the run of `network` was abandoned, if it was.
    pub fn overflow(&self, network: &Network) -> Option<Overflow> {
        let (leg, at) = self.overflow?;
        Some(Overflow { link: network.links[leg.0 as usize / 2].name.clone(), at })
    }

    /// Implements [`Self::advance`] with datagrams that cause no events, which count as work too: a fast source can
    /// send a billion of them between two events, or in a run without events.
    fn advance_crossed(&mut self, most: u32) -> bool {
        let most = u64::from(most);
        let (mut events, before) = (0, self.fabric.datagrams);
        while events + (self.fabric.datagrams - before) / DATAGRAMS_AN_EVENT < most {
            events += 1;
            if self.fabric.overflows() {
                return self.give_up();
            }
            let next = self.fabric.agenda.first().at.min(self.alarms.first().at).min(self.limit);
            if self.unfinished > 0 && self.now + AHEAD < next {
                let ahead = self.now.max(self.fabric.next_datagram()) + AHEAD;
                if ahead < next {
                    self.fabric.catch_up(ahead);
                    self.now = ahead;
                    continue;
                }
            }
            if !self.step() {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn step(&mut self) -> bool {
        let (arrival, alarm) = (self.fabric.agenda.first(), self.alarms.first());
        let now = arrival.at.min(alarm.at);
        if now >= self.stop {
            return self.ends();
        }
        debug_assert!(now >= self.now, "time ran backwards");
        self.now = now;
        if arrival.at <= alarm.at {
            self.last = LegId(arrival.source);
            if let Some((receiver, handle)) = self.fabric.advance(now, LegId(arrival.source)) {
                self.deliver(now, receiver, handle);
            }
        } else {
            self.last = LegId::BEHIND_ALL;
            self.wake(now, alarm.source);
        }
        while let Some((receiver, handle)) = self.fabric.handoffs.pop_front() {
            self.deliver(now, receiver, handle);
        }
        true
    }

    /// Ends the run. Returns false.
    #[cold]
    fn ends(&mut self) -> bool {
        if self.unfinished > 0 {
            (self.now, self.last) = (self.limit, LegId::BEHIND_ALL);
        }
        false
    }

    fn wake(&mut self, now: Instant, source: u32) {
        let index = source as usize;
        // Filed first: pumping can only make the alarm earlier.
        if !self.alarms.ring(now, source) {
            return;
        }
        match index.checked_sub(self.endpoints.len()) {
            None => {
                if !self.sessions.is_empty() {
                    self.begin_session(now, index);
                }
                if self.endpoints[index].quic.is_some() {
                    self.endpoints[index].handle_quic_timeout(now);
                    return self.pump_quic(now, index);
                }
                self.endpoints[index].handle_timeout(now);
                self.pump_endpoint(now, index);
            }
            Some(element) if element < self.elements.len() => {
                if self.asking[element] {
                    self.elements[element].see_queue(self.fabric.waiting(now, element));
                }
                self.elements[element].handle_timeout(now);
                self.pump_element(now, element);
            }
            Some(other) if other - self.elements.len() < self.sources.len() => {
                self.send_datagram(now, other - self.elements.len());
            }
            Some(_) => self.move_host(now),
        }
    }

    #[inline(always)]
    fn deliver(&mut self, now: Instant, receiver: Receiver, handle: Handle) {
        if self.fabric.tap.meter.is_some() {
            self.measure_delivery(now, receiver, handle);
        }
        match receiver {
            Receiver::Departure(index, bytes) => self.depart(now, index, bytes),
            Receiver::Endpoint(index) if self.fabric.pool.get(handle).tcp().is_none() => {
                self.deliver_datagram(now, index, handle);
            }
            Receiver::Endpoint(index) => {
                self.endpoints[index].take_segment(now, self.fabric.pool.get(handle));
                self.fabric.pool.discard(handle);
                self.pump_endpoint(now, index);
            }
            Receiver::Element(index, port) => {
                let packet = self.fabric.pool.take(handle);
                if self.watching[index] {
                    self.elements[index].see_queue(self.fabric.waiting(now, index));
                }
                self.elements[index].handle_packet(now, port, packet);
                self.pump_element(now, index);
            }
        }
    }

    /// Records that bytes of an endpoint left its host's queue.
    #[inline(never)]
    fn depart(&mut self, now: Instant, index: usize, bytes: u32) {
        let endpoint = &mut self.endpoints[index];
        if let Some(quic) = &mut endpoint.quic {
            quic.handle_departure(now, bytes);
            return self.pump_quic(now, index);
        }
        endpoint.connection.handle_departure(now, bytes);
        self.pump_endpoint(now, index);
    }

    #[inline(never)]
    fn deliver_datagram(&mut self, now: Instant, index: usize, handle: Handle) {
        let packet = self.fabric.pool.get(handle);
        if matches!(packet.body, Body::Quic { .. }) {
            return self.deliver_quic(now, index, handle);
        }
        self.endpoints[index].take_datagram(now, packet);
        self.fabric.pool.discard(handle);
        self.pump_endpoint(now, index);
    }

    #[inline]
    fn pump_endpoint(&mut self, now: Instant, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let asks = endpoint.connection.bounds_host_queue();
        let sink = &mut FromEndpoint { fabric: &mut self.fabric, now, index, asks };
        let deadline = pump_into(&mut endpoint.connection, now, sink);
        let deadline = endpoint.poll_start().or(deadline).unwrap_or(NEVER);
        if endpoint.connection.ignores_early_timeouts() {
            self.alarms.expect_by(index as u32, deadline);
        } else {
            self.alarms.wake_by(index as u32, deadline);
        }
        if endpoint.finishes() {
            self.finished(now, index);
        }
    }

    /// Handles an endpoint that has finished.
    #[cold]
    fn finished(&mut self, now: Instant, index: usize) {
        if self.sessions.is_empty() {
            return self.count_finished();
        }
        let flow = FlowId(index as u32 / 2);
        if self.endpoints[index].browses() && !self.has_arrived(flow) {
            return;
        }
        if self.endpoints[endpoint(flow, Side::Initiator)].connection.syn_retries() > 0 {
            self.sessions.syn_lost(flow);
        }
        match self.sessions.next(now, flow) {
            Some(transfers) => self.begin_transfers(now, transfers),
            None => self.count_finished(),
        }
    }

    fn count_finished(&mut self) {
        self.unfinished -= 1;
        if self.unfinished == 0 {
            self.stop = Instant::ZERO;
        }
    }

    /// Returns whether a web session's transfer over `flow` has ended: it is acknowledged and has also arrived, since a
    /// relay acknowledges data before it delivers it; or it was aborted.
    fn has_arrived(&self, flow: FlowId) -> bool {
        let [initiator, acceptor] = [Side::Initiator, Side::Acceptor].map(|side| &self.endpoints[endpoint(flow, side)]);
        initiator.has_finished() && (acceptor.has_finished() || !initiator.through())
    }

    /// Starts the session whose first transfer uses the flow of that endpoint, if it has not begun.
    fn begin_session(&mut self, now: Instant, index: usize) {
        if let Some(transfer) = self.sessions.begin(FlowId(index as u32 / 2), now) {
            self.begin_transfers(now, vec![transfer]);
        }
    }

    fn begin_transfers(&mut self, now: Instant, transfers: Vec<Fresh>) {
        for Fresh { flow, setups: [initiator, acceptor], bytes } in transfers {
            self.measure_round_trip(endpoint(flow, Side::Initiator));
            self.elements.iter_mut().for_each(|element| element.forget(flow));
            self.endpoints[endpoint(flow, Side::Acceptor)].begin(acceptor, bytes);
            let index = endpoint(flow, Side::Initiator);
            self.endpoints[index].begin(initiator, bytes);
            self.pump_endpoint(now, index);
        }
    }

    /// Sends the datagram of a source that is due.
    fn send_datagram(&mut self, now: Instant, index: usize) {
        let source = &mut self.sources[index];
        *self.fabric.pool.place() = source.take();
        self.fabric.send_from_endpoint(now, source.endpoint());
        self.alarms.set((self.endpoints.len() + self.elements.len() + index) as u32, source.poll_deadline());
    }

    fn pump_element(&mut self, now: Instant, index: usize) {
        let element = &mut *self.elements[index];
        let deadline = pump_into(element, now, &mut FromElement { fabric: &mut self.fabric, now, index });
        if let Some(at) = deadline {
            self.alarms.wake_by((self.endpoints.len() + index) as u32, at);
        }
    }

    /// Returns an endpoint of a flow, for inspection between steps.
    pub fn endpoint(&self, flow: FlowId, side: Side) -> &Endpoint {
        &self.endpoints[endpoint(flow, side)]
    }

    /// Returns the current simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the current number of records.
    pub fn recorded(&self) -> usize {
        self.fabric.tap.trace.as_ref().map_or(0, |trace| trace.records.len())
    }

    /// Moves the records since the last call into `records`, replacing its contents.
    pub fn take_records(&mut self, records: &mut Vec<Record>) {
        records.clear();
        if let Some(trace) = &mut self.fabric.tap.trace {
            std::mem::swap(&mut trace.records, records);
        }
    }

    /// Returns the capture points and flows of a recorded run, without records.
    pub fn trace_head(&self) -> Trace {
        let head =
            |trace: &Trace| Trace { points: trace.points.clone(), flows: trace.flows.clone(), records: Vec::new() };
        self.fabric.tap.trace.as_ref().map(head).unwrap_or_default()
    }

    /// Ends the run of `network` and returns its outcome.
    pub fn finish(mut self, network: &Network) -> Outcome {
        let overflow = self.overflow(network).map(Box::new);
        self.measure_last_round_trips();
        let ended = self.now;
        let sessions = self.sessions.reports();
        let booked: Vec<u64> = (0..network.flows.len()).map(|flow| self.booked(FlowId(flow as u32))).collect();
        let Self { mut fabric, mut endpoints, .. } = self;
        for arrived in fabric.settle(self.now, self.last) {
            let acceptor = &mut endpoints[endpoint(arrived.flow, Side::Acceptor)];
            if let Some(last) = arrived.last {
                acceptor.take_datagrams(last, arrived.bytes);
            }
        }
        let mut received = Vec::with_capacity(fabric.flows.len());
        for (index, report) in fabric.flows.iter_mut().enumerate() {
            report.sent = fabric.tap.meter.as_ref().map(|meter| meter.sent(index));
            report.delays = fabric.tap.meter.as_ref().map(|meter| Box::new(meter.of_flow(index)));
            let [initiator, acceptor] = [&endpoints[2 * index], &endpoints[2 * index + 1]];
            report.tcp_info = fabric.tap.meter.as_ref().and_then(|_| initiator.tcp_info()).map(Box::new);
            let side = network.flows[index].app.counted_at();
            let receiver = &endpoints[2 * index + side.index()];
            report.received = receiver.received();
            report.start = initiator.start();
            report.end = receiver.last_delivery;
            let ends = [initiator, acceptor].into_iter().filter_map(|end| end.quic.as_deref());
            report.sender.quic_resent_bytes = ends.map(QuicEnd::resent).sum();
            received.push((side, report.received));
            report.call = acceptor.call.as_ref().map(|call| Box::new(call.report(self.now)));
            report.complete = network.flows[index].app.is_endless() || initiator.finished() && acceptor.through();
        }
        for (index, (side, bytes)) in received.into_iter().enumerate() {
            fabric.credit(FlowId(index as u32), side, network, bytes - booked[index]);
        }
        let end = fabric.flows.iter().map(|flow| flow.end).max().unwrap_or_default();
        let links = fabric.paths(ended);
        let mobility = fabric.roaming_report();
        let delays = fabric.tap.meter.as_ref().map(|meter| meter.of_all());
        let flows = fabric.flows;
        let report = Report { flows, sessions, links, mobility, end, ended, frames: fabric.frames, overflow, delays };
        Outcome { report, trace: fabric.tap.trace.unwrap_or_default() }
    }
}

fn flow_info(index: usize, flow: &FlowSpec) -> FlowInfo {
    let address = |node: NodeId| {
        let [high, low] = (node.0 as u16 + 1).to_be_bytes();
        [10, 0, high, low]
    };
    let port = 40_000_u16.wrapping_add(index as u16);
    FlowInfo {
        name: flow.name.clone(),
        addresses: [address(flow.from), address(flow.to)],
        ports: [
            port,
            match flow.app {
                // Ports of HTTP/3 and RTP.
                App::Quic(_) => 443,
                App::Call(_) => 5004,
                _ => 5001,
            },
        ],
        iss: flow.iss,
    }
}

/// Returns the start of the ticks of the node of that name: a random phase under `root`, the same for all of its
/// connections.
pub fn tick_phase(root: Root, name: &str, config: &TcpConfig) -> TickPhase {
    let draw = |which: &str, period: Duration| {
        let phase = root.stream(&format!("hosts/{name}/ticks/{which}")).below(period.as_nanos());
        Duration::from_nanos(phase)
    };
    let (slow, fast) = match config.common.clock {
        Clock::Ticks { slow, fast } => (slow, fast),
        Clock::Fine => (config.common.rtt_granularity, config.common.rtt_granularity),
        // The outer levels of the timer wheel count from the start of the host.
        Clock::Jiffies { jiffy, .. } => (jiffy * 4096, jiffy),
    };
    match config.common.tick_phase {
        Some(phase) => TickPhase { slow: phase, fast: phase },
        None => TickPhase { slow: draw("slow", slow), fast: draw("fast", fast) },
    }
}
