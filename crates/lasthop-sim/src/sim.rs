//! One run of a network: the event loop.

use lasthop_proto::event::Event;
use lasthop_proto::link::arq::Arq;
use lasthop_proto::node::{Node, Port, Sink, pump_into};
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::pep::eln::{ElnMarker, ElnMarkerConfig};
use lasthop_proto::pep::snoop::Snoop;
use lasthop_proto::pep::split::SplitRelay;
use lasthop_proto::random::Root;
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Clock, Switch, TcpConfig};
use lasthop_proto::tcp::{Setup, TickPhase};
use lasthop_proto::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::fabric::{Fabric, LegId, Receiver, capture_points, endpoint};
use crate::measure::{Report, Reporter};
use crate::network::{Element, ElementSpec, FlowSpec, Network, NodeId};
use crate::pool::Handle;
use crate::scheduler::{NEVER, Tournament};
use crate::trace::{FlowInfo, Trace, What};

/// Whether a run keeps a record of every packet and event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// Counts only.
    Off,
    /// Everything.
    On,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// What was recorded; empty without [`Recording::On`].
    pub trace: Trace,
}

/// A network at work.
pub struct Simulation {
    fabric: Fabric,
    /// When to wake each endpoint, and after them each element.
    alarms: Tournament,
    endpoints: Vec<Endpoint>,
    elements: Vec<Box<dyn Node<()>>>,
    limit: Instant,
    unfinished: usize,
    #[cfg(debug_assertions)]
    now: Instant,
}

/// Runs `network` once with the randomness of `seed`.
pub fn run(network: &Network, seed: u64, recording: Recording) -> Outcome {
    let mut simulation = Simulation::new(network, seed, recording);
    while simulation.step() {}
    simulation.finish(network)
}

impl Simulation {
    /// A run that has not begun.
    pub fn new(network: &Network, seed: u64, recording: Recording) -> Self {
        let root = Root(seed);
        let trace = (recording == Recording::On).then(|| Trace {
            points: capture_points(network),
            flows: network.flows.iter().enumerate().map(|(index, flow)| flow_info(index, flow)).collect(),
            records: Vec::new(),
        });
        let watch = if trace.is_some() { Switch::On } else { Switch::Off };
        let mut endpoints = Vec::with_capacity(network.flows.len() * 2);
        for (index, flow) in network.flows.iter().enumerate() {
            for (side, node) in [(Side::Initiator, flow.from), (Side::Acceptor, flow.to)] {
                let config = flow.tcp[side.index()].clone();
                let phase = tick_phase(root, network, node, &config);
                let iss = Seq(flow.iss[side.index()]);
                let setup = Setup { flow: FlowId(index as u32), side, config, iss, phase, watch };
                endpoints.push(Endpoint::new(setup, flow.app, flow.start));
            }
        }
        let elements: Vec<_> = network.elements.iter().map(|spec| element(spec, root, network, watch)).collect();
        let mut alarms = Tournament::new(endpoints.len() + elements.len());
        for (index, endpoint) in endpoints.iter().enumerate() {
            if let Some(at) = endpoint.poll_start() {
                alarms.set(index as u32, at);
            }
        }
        Self {
            fabric: Fabric::new(network, root, trace),
            alarms,
            unfinished: endpoints.len(),
            endpoints,
            elements,
            limit: network.limit,
            #[cfg(debug_assertions)]
            now: Instant::ZERO,
        }
    }

    /// Acts on the next event; false when there is none, the limit is reached, or every flow has finished.
    #[inline]
    pub fn step(&mut self) -> bool {
        let (arrival, alarm) = (self.fabric.agenda.first(), self.alarms.first());
        let now = arrival.at.min(alarm.at);
        if now > self.limit || now == NEVER || self.unfinished == 0 {
            return false;
        }
        #[cfg(debug_assertions)]
        {
            assert!(now >= self.now, "time ran backwards");
            self.now = now;
        }
        if arrival.at <= alarm.at {
            if let Some((receiver, handle)) = self.fabric.advance(now, LegId(arrival.source)) {
                self.deliver(now, receiver, handle);
            }
        } else {
            self.wake(now, alarm.source);
        }
        while let Some((receiver, handle)) = self.fabric.handoffs.pop_front() {
            self.deliver(now, receiver, handle);
        }
        true
    }

    fn wake(&mut self, now: Instant, source: u32) {
        let index = source as usize;
        // Filed far away first: pumping may only move it closer.
        self.alarms.set(source, NEVER);
        match index.checked_sub(self.endpoints.len()) {
            None => {
                self.endpoints[index].handle_timeout(now);
                self.pump_endpoint(now, index);
            }
            Some(element) => {
                self.elements[element].handle_timeout(now);
                self.pump_element(now, element);
            }
        }
    }

    #[inline(always)]
    fn deliver(&mut self, now: Instant, receiver: Receiver, handle: Handle) {
        match receiver {
            Receiver::Endpoint(index) => {
                self.endpoints[index].take_packet(now, self.fabric.pool.get(handle));
                self.fabric.pool.discard(handle);
                self.pump_endpoint(now, index);
            }
            Receiver::Element(index, port) => {
                let packet = self.fabric.pool.take(handle);
                self.elements[index].handle_packet(now, port, packet);
                self.pump_element(now, index);
            }
        }
    }

    #[inline]
    fn pump_endpoint(&mut self, now: Instant, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let deadline =
            pump_into(&mut endpoint.connection, now, &mut FromEndpoint { fabric: &mut self.fabric, now, index });
        if let Some(at) = endpoint.poll_start().or(deadline) {
            self.alarms.wake_by(index as u32, at);
        }
        if endpoint.finishes() {
            self.unfinished -= 1;
        }
    }

    fn pump_element(&mut self, now: Instant, index: usize) {
        let element = &mut *self.elements[index];
        let deadline = pump_into(element, now, &mut FromElement { fabric: &mut self.fabric, now, index });
        if let Some(at) = deadline {
            self.alarms.wake_by((self.endpoints.len() + index) as u32, at);
        }
    }

    /// The endpoint of a flow, to look at between steps.
    pub fn endpoint(&self, flow: FlowId, side: Side) -> &Endpoint {
        &self.endpoints[endpoint(flow, side)]
    }

    /// What the run of `network` came to.
    pub fn finish(self, network: &Network) -> Outcome {
        let mut fabric = self.fabric;
        fabric.ledger.settle(&mut fabric.flows);
        let mut received = Vec::with_capacity(fabric.flows.len());
        for (index, report) in fabric.flows.iter_mut().enumerate() {
            let [initiator, acceptor] = [&self.endpoints[2 * index], &self.endpoints[2 * index + 1]];
            report.received = acceptor.connection.received();
            report.start = initiator.start();
            report.end = acceptor.last_delivery;
            received.push(report.received);
            report.complete = initiator.finished() && acceptor.through();
        }
        for (index, bytes) in received.into_iter().enumerate() {
            fabric.credit(FlowId(index as u32), network, bytes);
        }
        let end = fabric.flows.iter().map(|flow| flow.end).max().unwrap_or_default();
        let links = fabric.paths();
        let report = Report { flows: fabric.flows, links, end, frames: fabric.frames };
        Outcome { report, trace: fabric.trace.unwrap_or_default() }
    }
}

/// Where an endpoint's output goes.
struct FromEndpoint<'a> {
    fabric: &'a mut Fabric,
    now: Instant,
    index: usize,
}

impl Sink<()> for FromEndpoint<'_> {
    #[inline(always)]
    fn place(&mut self) -> &mut Packet {
        self.fabric.pool.place()
    }

    #[inline(always)]
    fn transmit(&mut self, _port: Port) {
        self.fabric.send_from_endpoint(self.now, self.index);
    }

    #[inline(never)]
    fn event(&mut self, flow: FlowId, event: Event) {
        let side = if self.index.is_multiple_of(2) { Side::Initiator } else { Side::Acceptor };
        self.fabric.flows[self.index / 2].count(Reporter::Endpoint, &event);
        let point = self.fabric.endpoint_point(flow, side);
        self.fabric.record(self.now, point, flow, What::Event(event));
    }
}

/// Where an element's output goes.
struct FromElement<'a> {
    fabric: &'a mut Fabric,
    now: Instant,
    index: usize,
}

impl Sink<()> for FromElement<'_> {
    fn place(&mut self) -> &mut Packet {
        self.fabric.pool.place()
    }

    fn transmit(&mut self, port: Port) {
        self.fabric.send_from_element(self.now, self.index, port);
    }

    fn event(&mut self, flow: FlowId, event: Event) {
        if let Some(report) = self.fabric.flows.get_mut(flow.0 as usize) {
            report.count(Reporter::Element, &event);
        }
        let point = self.fabric.element_point(self.index);
        self.fabric.record(self.now, point, flow, What::Event(event));
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
        ports: [port, 5001],
        iss: flow.iss,
    }
}

/// A host's ticks start at a random phase, the same for all of its connections.
fn tick_phase(root: Root, network: &Network, node: NodeId, config: &TcpConfig) -> TickPhase {
    let name = &network.nodes[node.0].name;
    let draw = |which: &str, period: Duration| {
        let phase = root.stream(&format!("hosts/{name}/ticks/{which}")).below(period.as_nanos());
        Duration::from_nanos(phase)
    };
    let (slow, fast) = match config.clock {
        Clock::Ticks { slow, fast } => (slow, fast),
        Clock::Fine => (config.rtt_granularity, config.rtt_granularity),
    };
    match config.tick_phase {
        Some(phase) => TickPhase { slow: phase, fast: phase },
        None => TickPhase { slow: draw("slow", slow), fast: draw("fast", fast) },
    }
}

fn element(spec: &ElementSpec, root: Root, network: &Network, watch: Switch) -> Box<dyn Node<()>> {
    match &spec.element {
        Element::Snoop(config) => Box::new(Snoop::<()>::new(config.clone())),
        Element::Arq(config) => Box::new(Arq::<()>::new(config.clone())),
        Element::ElnMarker => Box::new(ElnMarker::<()>::new(ElnMarkerConfig::default())),
        Element::Split { buffer, wired, wireless } => {
            let phase = tick_phase(root, network, spec.node, wireless);
            Box::new(SplitRelay::new(*buffer, wired.clone(), wireless.clone(), phase, watch))
        }
    }
}
