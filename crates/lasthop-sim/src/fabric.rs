//! Everything between the nodes: links, routes, what hangs where, and the taps that see each packet.

use std::collections::VecDeque;

use lasthop_proto::node::Port;
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::time::Instant;

use crate::link::{Accepted, Arrival, Direction, Frame, Link};
use crate::measure::{FlowReport, LossLedger, PathReport};
use crate::network::{LinkId, Network, NodeId, NodeKind};
use crate::pool::{Handle, PacketPool};
use crate::scheduler::{Scheduler, SourceId};
use crate::trace::{CapturePoint, DropReason, Trace, What};

/// One direction of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leg {
    pub link: LinkId,
    pub direction: Direction,
}

impl Leg {
    /// Index among event sources: two per link.
    #[inline]
    pub fn source(self) -> SourceId {
        SourceId((self.link.0 * 2 + self.direction.index()) as u32)
    }

    /// The leg with that index.
    #[inline]
    pub fn from_source(source: SourceId) -> Self {
        let direction = if source.0.is_multiple_of(2) { Direction::Down } else { Direction::Up };
        Self { link: LinkId(source.0 as usize / 2), direction }
    }

    /// Capture point at the sending end.
    fn near(self) -> u16 {
        (self.link.0 * 2 + self.direction.index()) as u16
    }

    /// Capture point at the receiving end.
    fn far(self) -> u16 {
        (self.link.0 * 2 + 1 - self.direction.index()) as u16
    }
}

/// Where a leg ends, or where a router sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Far {
    /// At a host: the packet's flow says which endpoint.
    Host,
    /// At a router without an element on this link.
    Router(NodeId),
    /// At an element's wireless port.
    Element(usize),
}

/// Who gets a packet next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiver {
    /// The endpoint of that index: two per flow.
    Endpoint(usize),
    /// The element of that index.
    Element(usize, Port),
}

#[derive(Clone, Copy)]
struct ElementPlace {
    router: NodeId,
    leg: Leg,
}

/// Links, routes and taps.
pub struct Fabric {
    links: Vec<Link>,
    far: Vec<Far>,
    /// Per router and host: for each link of the network, nothing; routes are by node and flow side.
    routes: Vec<Vec<Option<Leg>>>,
    hosts: Vec<[NodeId; 2]>,
    elements: Vec<ElementPlace>,
    /// Element on the router's end of a leg, if any: a router sends through it.
    through: Vec<Option<usize>>,
    pub pool: PacketPool,
    pub handoffs: VecDeque<(Receiver, Handle)>,
    pub paths: Vec<[PathReport; 2]>,
    pub flows: Vec<FlowReport>,
    pub ledger: LossLedger,
    pub frames: u64,
    pub trace: Option<Trace>,
}

impl Fabric {
    pub fn new(network: &Network, root: Root, trace: Option<Trace>) -> Self {
        let links = network.links.iter().map(|spec| Link::new(spec, root)).collect();
        let mut through = vec![None; network.links.len() * 2];
        let mut elements = Vec::new();
        for (index, spec) in network.elements.iter().enumerate() {
            let away = if network.links[spec.link.0].ends[0] == spec.router { Direction::Down } else { Direction::Up };
            let leg = Leg { link: spec.link, direction: away };
            through[leg.source().0 as usize] = Some(index);
            elements.push(ElementPlace { router: spec.router, leg });
        }
        let mut far = Vec::new();
        for (index, link) in network.links.iter().enumerate() {
            for direction in [Direction::Down, Direction::Up] {
                let back = Leg {
                    link: LinkId(index),
                    direction: if direction == Direction::Down { Direction::Up } else { Direction::Down },
                };
                let node = link.ends[1 - direction.index()];
                far.push(match (through[back.source().0 as usize], network.nodes[node.0].kind) {
                    (Some(element), _) => Far::Element(element),
                    (None, NodeKind::Host) => Far::Host,
                    (None, NodeKind::Router) => Far::Router(node),
                });
            }
        }
        Self {
            links,
            far,
            routes: network.nodes.iter().enumerate().map(|(node, _)| routes(network, NodeId(node))).collect(),
            hosts: network.flows.iter().map(|flow| [flow.from, flow.to]).collect(),
            elements,
            through,
            pool: PacketPool::default(),
            handoffs: VecDeque::new(),
            paths: vec![Default::default(); network.links.len()],
            flows: vec![FlowReport::default(); network.flows.len()],
            ledger: LossLedger::default(),
            frames: 0,
            trace,
        }
    }

    /// An endpoint sends.
    #[inline(always)]
    pub fn send_from_endpoint(&mut self, now: Instant, scheduler: &mut Scheduler, packet: Packet) {
        let host = self.hosts[packet.flow.0 as usize][packet.from.index()];
        let handle = self.pool.put(packet);
        self.forward(now, scheduler, host, handle);
    }

    /// An element sends out of `port`.
    pub fn send_from_element(
        &mut self,
        now: Instant,
        scheduler: &mut Scheduler,
        element: usize,
        port: Port,
        packet: Packet,
    ) {
        let ElementPlace { router, leg } = self.elements[element];
        let handle = self.pool.put(packet);
        if port == Port::WIRELESS {
            self.transmit(now, scheduler, leg, handle);
        } else {
            self.forward(now, scheduler, router, handle);
        }
    }

    /// A node passes a packet on: onto a link, or to the element in front of it.
    #[inline(always)]
    fn forward(&mut self, now: Instant, scheduler: &mut Scheduler, node: NodeId, handle: Handle) {
        let packet = self.pool.get(handle);
        let ends = self.hosts.get(packet.flow.0 as usize);
        let leg = ends.and_then(|ends| self.routes[node.0][ends[packet.from.peer().index()].0]);
        let Some(leg) = leg else {
            self.pool.discard(handle);
            return;
        };
        match self.through[leg.source().0 as usize] {
            Some(element) => self.handoffs.push_back((Receiver::Element(element, Port::WIRED), handle)),
            None => self.transmit(now, scheduler, leg, handle),
        }
    }

    #[inline]
    fn transmit(&mut self, now: Instant, scheduler: &mut Scheduler, leg: Leg, handle: Handle) {
        let packet = self.pool.get(handle);
        if packet.cause.is_source_retransmission() || packet.cause.is_local_retransmission() {
            self.ledger.resend(packet);
        }
        if let Some(trace) = &mut self.trace {
            trace.record(now, leg.near(), packet.flow, What::Sent(*packet));
        }
        let link = &mut self.links[leg.link.0];
        match link.enqueue(now, leg.direction, Frame::new(handle, packet)) {
            Accepted::Queued => self.paths[leg.link.0][leg.direction.index()].carry(packet),
            Accepted::Next(at) => {
                self.paths[leg.link.0][leg.direction.index()].carry(packet);
                let source = Leg { link: leg.link, direction: link.source_direction(leg.direction) };
                scheduler.wake_by(source.source(), at);
            }
            Accepted::Dropped => self.drop(now, leg, handle, DropReason::Queue),
        }
    }

    fn drop(&mut self, now: Instant, leg: Leg, handle: Handle, reason: DropReason) {
        let packet = self.pool.take(handle);
        self.paths[leg.link.0][leg.direction.index()].lose(reason);
        self.record(now, leg.near(), packet.flow, What::Dropped(packet, reason));
        if reason == DropReason::Channel {
            self.ledger.lose(&packet);
        }
    }

    /// Lets the link that is first in the queue act; returns who gets what arrived, if it is for a node.
    #[inline]
    pub fn advance(&mut self, now: Instant, scheduler: &mut Scheduler, source: SourceId) -> Option<(Receiver, Handle)> {
        let leg = Leg::from_source(source);
        let link = &mut self.links[leg.link.0];
        let arrival = link.advance(now, leg.direction, &mut self.pool);
        scheduler.refile_first(source, link.next_event(leg.direction));
        let (direction, handle) = match arrival? {
            Arrival::Delivered(direction, handle) => (direction, handle),
            Arrival::Lost(direction, handle) => {
                self.frames += 1;
                self.drop(now, Leg { link: leg.link, direction }, handle, DropReason::Channel);
                return None;
            }
        };
        let leg = Leg { link: leg.link, direction };
        self.frames += 1;
        let packet = self.pool.get(handle);
        if let Some(trace) = &mut self.trace {
            trace.record(now, leg.far(), packet.flow, What::Received(*packet));
        }
        match self.far[leg.source().0 as usize] {
            Far::Host => Some((Receiver::Endpoint(endpoint(packet.flow, packet.from.peer())), handle)),
            Far::Element(element) => Some((Receiver::Element(element, Port::WIRELESS), handle)),
            Far::Router(router) => {
                self.forward(now, scheduler, router, handle);
                None
            }
        }
    }

    /// Books `bytes` that a flow delivered with every link that they crossed.
    pub fn credit(&mut self, flow: FlowId, network: &Network, bytes: u64) {
        let [mut at, to] = self.hosts[flow.0 as usize];
        while let Some(leg) = self.routes[at.0][to.0] {
            self.paths[leg.link.0][leg.direction.index()].useful += bytes;
            at = network.links[leg.link.0].ends[1 - leg.direction.index()];
        }
    }

    pub fn record(&mut self, time: Instant, point: u16, flow: FlowId, what: What) {
        if let Some(trace) = &mut self.trace {
            trace.record(time, point, flow, what);
        }
    }

    /// Capture point of an endpoint: its host's first link.
    pub fn endpoint_point(&self, flow: FlowId, side: Side) -> u16 {
        let [from, to] = self.hosts[flow.0 as usize];
        let (here, there) = if side == Side::Initiator { (from, to) } else { (to, from) };
        self.routes[here.0][there.0].map_or(0, Leg::near)
    }

    /// Capture point of an element: its router's end of the link.
    pub fn element_point(&self, element: usize) -> u16 {
        self.elements[element].leg.near()
    }
}

/// Index of an endpoint.
#[inline]
pub fn endpoint(flow: FlowId, side: Side) -> usize {
    flow.0 as usize * 2 + side.index()
}

/// The first leg from `node` to every node of the tree.
fn routes(network: &Network, node: NodeId) -> Vec<Option<Leg>> {
    let mut routes = vec![None; network.nodes.len()];
    let mut reached = vec![false; network.nodes.len()];
    reached[node.0] = true;
    let mut frontier = VecDeque::from([node]);
    while let Some(at) = frontier.pop_front() {
        for (index, link) in network.links.iter().enumerate() {
            let hops = [(link.ends[0], link.ends[1], Direction::Down), (link.ends[1], link.ends[0], Direction::Up)];
            for (near, far, direction) in hops {
                if near == at && !reached[far.0] {
                    reached[far.0] = true;
                    routes[far.0] = routes[at.0].or(Some(Leg { link: LinkId(index), direction }));
                    frontier.push_back(far);
                }
            }
        }
    }
    routes
}

/// Capture points of a network, in the order that [`Leg`] numbers them.
pub fn capture_points(network: &Network) -> Vec<CapturePoint> {
    let degree = |node: NodeId| network.links.iter().flat_map(|link| link.ends).filter(|&end| end == node).count();
    let name = |node: NodeId, link: &str| {
        let host = &network.nodes[node.0].name;
        let name = if degree(node) == 1 { host.clone() } else { format!("{host}:{link}") };
        CapturePoint { name }
    };
    network.links.iter().flat_map(|link| link.ends.map(|node| name(node, &link.name))).collect()
}
