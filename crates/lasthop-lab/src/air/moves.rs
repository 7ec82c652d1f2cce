//! A moving host on the emulated links: the cell that carries frames, the stations' agents that handle packets for the
//! host, and the routes of the nodes' kernels. The simulator's code decides on events and packets
//! ([`lasthop_sim::handoff`]).

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use lasthop_proto::packet::{Cause, FlowId, Packet};
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::element::StateAtHandoff;
use lasthop_sim::endpoint_index;
use lasthop_sim::handoff::{Away, Copied, Course, Ground, HandoffKind, Itinerary, Mobility, Stations, Towards, Ways};
use lasthop_sim::link::Frame;
use lasthop_sim::measure::MobilityReport;
use lasthop_sim::network::{NodeId, NodeKind};
use lasthop_sim::pool::Handle;
use lasthop_sim::trace::DropReason;
use lasthop_wire::{Ip, redirect};

use super::{Air, Gate};
use crate::elements::{Blueprint, ETHERNET, IPV4};
use crate::plan::{Plan, Point};
use crate::routes::{Change, Out};

/// Changes a route of a node's kernel.
pub type SetRoute = Box<dyn FnMut(&Change) -> io::Result<()> + Send>;

/// Results of the handoffs.
pub struct Moves {
    /// Effects at receivers, and losses.
    pub report: MobilityReport,
    /// Data that crossed the cell of each station.
    pub crossed: Vec<Crossed>,
}

/// Data that arrived at an end of a flow while the host was at one of its stations.
pub struct Crossed {
    /// Index of the endpoint; each flow has two.
    pub end: usize,
    /// Points on the path of the data.
    pub path: Vec<Point>,
    /// Amount in bytes of data, or in datagrams.
    pub units: u64,
}

/// A station's role in handoffs, implemented here. The router's kernel sends it packets without a direct route.
struct Agent {
    node: NodeId,
    /// Station at this node, if any.
    station: Option<usize>,
    /// Points for copies with multicast.
    ways: Vec<Point>,
    /// Next point towards each other node.
    towards: BTreeMap<usize, Point>,
}

/// The moving host and its stations.
pub(super) struct Roaming {
    /// Schedule of the moves; `None` while it runs.
    itinerary: Option<Itinerary>,
    plan: Mobility,
    stations: Stations,
    ways: Ways,
    /// Addresses of the host, and those of all other nodes.
    own: Vec<Ipv4Addr>,
    others: Vec<Ipv4Addr>,
    routers: Vec<NodeId>,
    /// Each station's end of its cell.
    cells: Vec<Point>,
    agents: Vec<Agent>,
    /// Number of points. The agents' ports follow.
    points: usize,
    /// Node of each point.
    nodes: Vec<NodeId>,
    /// Ends of the host's flows, with their nodes.
    ends: BTreeMap<usize, NodeId>,
    blueprints: BTreeMap<Point, Blueprint>,
    /// Current routes of the nodes.
    routes: BTreeMap<(usize, Ipv4Addr), Out>,
    set_route: SetRoute,
    failure: Option<io::Error>,
    /// Amount of data by end and station.
    crossed: BTreeMap<(usize, usize), u64>,
}

impl Roaming {
    /// Creates the moving host at its first station; `None` if no host moves.
    pub(super) fn new(plan: &Plan<'_>, root: Root, blueprints: Vec<(Point, Blueprint)>) -> Option<Box<Self>> {
        let network = plan.network;
        let mobility = network.mobility.clone()?;
        let ways = Ways::of_legs(network)?;
        let forks = match mobility.kind {
            HandoffKind::Multicast => ways.forks(network),
            HandoffKind::Hard | HandoffKind::Hierarchical | HandoffKind::Forwarding => Vec::new(),
        };
        let agent = |node: NodeId| {
            let fork = forks.iter().find(|fork| fork.node == node);
            Agent {
                node,
                station: ways.routers().iter().position(|router| *router == node),
                ways: fork.iter().flat_map(|fork| &fork.ways).map(|(leg, _)| leg.0 as usize).collect(),
                towards: plan.next_hops(node),
            }
        };
        let nodes = || (0..network.nodes.len()).map(NodeId);
        Some(Box::new(Self {
            itinerary: Some(Itinerary::new(mobility.clone(), root)),
            stations: Stations::new(network, &ways)?,
            own: plan.moving_addresses(),
            others: nodes().filter(|node| *node != mobility.host).flat_map(|node| plan.addresses_of(node)).collect(),
            routers: nodes().filter(|node| network.nodes[node.0].kind == NodeKind::Router).collect(),
            cells: plan.cells(),
            agents: plan.agents().into_iter().map(agent).collect(),
            points: plan.points(),
            nodes: (0..plan.points()).map(|point| plan.node(point)).collect(),
            ends: ways.ends().iter().map(|end| (end.index, end.node)).collect(),
            blueprints: blueprints.into_iter().collect(),
            routes: BTreeMap::new(),
            set_route: Box::new(|_| Ok(())),
            failure: None,
            crossed: BTreeMap::new(),
            plan: mobility,
            ways,
        }))
    }

    /// Returns the time of the next step.
    pub(super) fn next(&self) -> Option<Instant> {
        self.itinerary.as_ref()?.next()
    }

    pub(super) fn finish(self) -> Moves {
        let path = |end: usize, station: usize| {
            let end = self.ways.ends().iter().find(|known| known.index == end);
            let legs = end.map(|end| self.ways.between(station, end.peer, end.node)).unwrap_or_default();
            legs.into_iter().map(|leg| leg.0 as usize).collect()
        };
        let crossed = self.crossed.iter();
        let crossed = crossed.map(|(&(end, station), &units)| Crossed { end, path: path(end, station), units });
        Moves { report: self.stations.report(), crossed: crossed.collect() }
    }

    /// Returns the station whose cell a point belongs to, and the direction of frames from there.
    fn cell_at(&self, point: Point) -> Option<(usize, Towards)> {
        let station = self.cells.iter().position(|cell| cell / 2 == point / 2)?;
        Some((station, if self.cells[station] == point { Towards::Host } else { Towards::Station }))
    }

    /// Returns the next hop from a router to the host; `None` if there is no route.
    fn way(&self, router: NodeId) -> Option<Out> {
        let agent = self.agents.iter().find(|agent| agent.node == router);
        match agent.map(|agent| agent.station) {
            Some(_) if self.plan.kind == HandoffKind::Multicast => Some(Out::Agent),
            Some(Some(station)) if self.stations.is_direct(station) => Some(Out::Link(self.cells[station])),
            Some(Some(station)) => {
                let onward = self.ways.onward(station, self.stations.routed());
                Some(onward.map_or(Out::Agent, |leg| Out::Link(leg.0 as usize)))
            }
            Some(None) => Some(Out::Agent),
            None => {
                let leg = self.ways.next(self.stations.routed(), router, self.plan.host)?;
                Some(Out::Link(leg.0 as usize))
            }
        }
    }

    /// Updates the routes in the kernels.
    fn lead(&mut self) {
        let down = self.routers.iter().filter_map(|router| Some((*router, &self.own, self.way(*router)?)));
        let up = Out::Link(self.cells[self.stations.served()] ^ 1);
        let all = down.chain([(self.plan.host, &self.others, up)]);
        let all = all.flat_map(|(node, to, out)| to.iter().map(move |to| Change { node, to: *to, out }));
        for change in all.collect::<Vec<_>>() {
            let before = self.routes.insert((change.node.0, change.to), change.out);
            if before != Some(change.out)
                && let Err(error) = (self.set_route)(&change)
            {
                let what = format!("a route of node {} to {}: {error}", change.node.0, change.to);
                self.failure.get_or_insert(io::Error::new(error.kind(), what));
            }
        }
    }

    /// Returns the host's address for a station's address used in a tunnel.
    pub(super) fn home_of(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let stations = 0..self.cells.len();
        let homes = stations.flat_map(|station| self.own.iter().map(move |own| (Plan::care_of(station, *own), *own)));
        homes.into_iter().find(|(care_of, _)| *care_of == address).map(|(_, own)| own)
    }

    /// Returns the error of the last step, if any.
    fn outcome(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Returns source and destination of an IPv4 packet.
fn ends(packet: &[u8]) -> Option<[Ipv4Addr; 2]> {
    let Ip::V4(ip) = Ip::new_checked(packet)? else { return None };
    Some([ip.source(), ip.destination()])
}

/// Returns the destination address of an Ethernet frame's packet.
fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    ends(frame.get(ETHERNET..)?).map(|[_, destination]| destination)
}

impl Air {
    /// Sets the function that changes routes of the nodes' kernels, and sets the initial routes.
    ///
    /// # Errors
    ///
    /// Returns errors of `set_route`.
    pub fn with_routes(mut self, set_route: SetRoute) -> io::Result<Self> {
        if let Some(roaming) = &mut self.roaming {
            roaming.set_route = set_route;
            roaming.routes.clear();
            roaming.lead();
            roaming.outcome()?;
        }
        Ok(self)
    }

    /// Carries out the steps that are due.
    pub(super) fn move_host(&mut self, now: Instant) -> io::Result<()> {
        let itinerary = self.roaming.as_mut().and_then(|roaming| roaming.itinerary.take());
        let Some(mut itinerary) = itinerary else { return Ok(()) };
        itinerary.act(now, self);
        let Some(roaming) = &mut self.roaming else { return Ok(()) };
        roaming.itinerary = Some(itinerary);
        roaming.outcome()
    }

    /// Returns the inner form of a packet in a tunnel; `None` outside of tunnels.
    pub(super) fn unwrapped(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let roaming = self.roaming.as_ref()?;
        let [_, destination] = ends(packet)?;
        let home = roaming.home_of(destination)?;
        let mut packet = packet.to_vec();
        redirect(&mut packet, home);
        Some(packet)
    }

    /// Takes a frame that a router's kernel handed to its agent. Returns false if `port` is not an agent's.
    pub(super) fn take_at_agent(&mut self, now: Instant, port: usize, bytes: &[u8]) -> bool {
        let Some(roaming) = &self.roaming else { return false };
        let Some(number) = port.checked_sub(roaming.points) else { return false };
        let Some(Agent { node, station, .. }) = roaming.agents.get(number) else { return true };
        let (node, station) = (*node, *station);
        let tunnelled = destination(bytes).and_then(|address| roaming.home_of(address));
        let mut bytes = bytes.to_vec();
        if let Some(home) = tunnelled {
            redirect(&mut bytes[ETHERNET..], home);
        } else if roaming.plan.kind == HandoffKind::Multicast {
            self.multiply(now, number, &bytes);
        }
        let Some(station) = station else { return true };
        let packet = self.read(&bytes[ETHERNET..]);
        let frame = self.store(packet, &bytes, None);
        let Some(roaming) = &mut self.roaming else { return true };
        if roaming.plan.kind == HandoffKind::Multicast {
            if roaming.stations.take_copy(station, frame, &mut self.pool) == Copied::Sent {
                self.give(now, node, frame.handle());
            }
        } else if roaming.stations.is_direct(station) {
            self.give(now, node, frame.handle());
        } else {
            self.take_away(now, station, frame);
        }
        true
    }

    /// Handles a packet for the host at a station where it is absent.
    fn take_away(&mut self, now: Instant, station: usize, frame: Frame) {
        let Some(roaming) = &mut self.roaming else { return };
        match roaming.stations.take(station, frame) {
            Away::Kept => {}
            Away::To(next) => self.tunnel(now, Course { from: station, to: next }, frame),
            Away::Lost => {
                let cell = roaming.cells[station];
                self.links[cell / 2].report[cell % 2].frames += 1;
                self.lose_at_handoff(cell, frame.handle());
            }
        }
    }

    /// Sends copies of a frame from a router to all stations, except towards its source.
    fn multiply(&mut self, now: Instant, agent: usize, bytes: &[u8]) {
        let Some(Agent { ways, towards, .. }) = self.roaming.as_ref().and_then(|roaming| roaming.agents.get(agent))
        else {
            return;
        };
        // The low half of a source's address is its number plus one.
        let source = bytes.get(ETHERNET..).and_then(ends).map(|[source, _]| source.to_bits() as u16);
        let back = source.map(usize::from).and_then(|number| towards.get(&number.checked_sub(1)?)).copied();
        let ways: Vec<Point> = ways.iter().copied().filter(|way| Some(*way) != back).collect();
        for (index, way) in ways.into_iter().enumerate() {
            let mut bytes = bytes.to_vec();
            address(&mut bytes, way ^ 1);
            let mut packet = self.read(&bytes[ETHERNET..]);
            // The copies count as one forwarded packet.
            if index == 0 {
                self.counts.sent(way, &mut packet);
            }
            self.put(now, way, packet, &bytes);
        }
    }

    /// Sends a stored frame from one station to another.
    fn tunnel(&mut self, now: Instant, course: Course, frame: Frame) {
        let Some(roaming) = &self.roaming else { return };
        let node = roaming.ways.routers()[course.from];
        if let Some(stored) = self.frames.get_mut(frame.handle().0 as usize)
            && let Some(to) = destination(&stored.bytes)
        {
            redirect(&mut stored.bytes[ETHERNET..], Plan::care_of(course.to, to));
        }
        self.give(now, node, frame.handle());
    }

    /// Delivers a stored frame to the kernel of a router, as if from its agent.
    fn give(&mut self, now: Instant, node: NodeId, handle: Handle) {
        let Some(roaming) = &self.roaming else { return };
        let port = roaming.agents.iter().position(|agent| agent.node == node).map(|agent| roaming.points + agent);
        self.pool.discard(handle);
        if let (Some(port), Some(stored)) = (port, self.frames.get(handle.0 as usize)) {
            let mut bytes = stored.bytes.clone();
            address(&mut bytes, port);
            self.turned.push_back((now, port, bytes));
        }
    }

    /// Handles a frame for a cell whose other end, the host or the station, is absent.
    pub(super) fn miss(&mut self, now: Instant, point: Point, frame: Frame) {
        let cell = self.roaming.as_ref().and_then(|roaming| roaming.cell_at(point));
        // A gateway continues its repairs for a while, since it is not informed of the move. They have no recipient.
        let is_repair = self.pool.get(frame.handle()).cause.is_local_retransmission();
        match cell {
            // It was already on its way when the kernel's route changed.
            Some((station, Towards::Host)) if self.elements[point].is_none() && !is_repair => {
                self.take_away(now, station, frame);
            }
            _ => {
                self.links[point / 2].report[point % 2].frames += 1;
                self.lose_at_handoff(point, frame.handle());
            }
        }
    }

    /// Drops a frame from the node at `point` that is lost because the host has moved. A hop's repairs count as lost on
    /// the link only, since they are copies.
    pub(super) fn lose_at_handoff(&mut self, point: Point, handle: Handle) {
        let packet = self.pool.take(handle);
        if let Some(roaming) = self.roaming.as_mut().filter(|_| !packet.cause.is_local_retransmission())
            && let Some((_, towards)) = roaming.cell_at(point)
        {
            roaming.stations.lose(&packet, towards);
        }
        self.links[point / 2].report[point % 2].lose(DropReason::Handoff);
        let recorded = self.frames.get(handle.0 as usize).and_then(|stored| stored.recorded);
        self.mark(recorded, DropReason::Handoff);
    }

    /// Records the arrival of a packet at the node at `point`.
    pub(super) fn notice(&mut self, now: Instant, point: Point, packet: &Packet) {
        let Some(roaming) = self.roaming.as_mut().filter(|_| packet.flow != FlowId::NONE) else { return };
        let end = endpoint_index(packet.flow, packet.from.peer());
        if roaming.ends.get(&end) != roaming.nodes.get(point) {
            return;
        }
        let cause = if self.counts.was_repeated(packet) { Cause::FastRetransmit } else { packet.cause };
        let fresh = roaming.stations.arrive(now, end, &Packet { cause, ..*packet });
        *roaming.crossed.entry((end, roaming.stations.served())).or_default() += fresh;
    }

    /// Removes all frames from a station's cell.
    fn cut(&mut self, now: Instant, station: usize) {
        let Some(cell) = self.roaming.as_ref().map(|roaming| roaming.cells[station]) else { return };
        // As in the simulator, the direction towards the host is first.
        for point in [cell, cell ^ 1] {
            let cut = self.carriers[point].cut(&mut self.media, now);
            self.drop_managed(point);
            for frame in cut.sent {
                self.lose_at_handoff(point, frame.handle());
            }
            for frame in cut.waiting {
                self.links[point / 2].report[point % 2].withdraw(frame);
                self.put_aside(station, point, frame);
            }
        }
        self.links[cell / 2].gate = Gate::Closed;
    }

    /// Handles a frame that was queued for the cell when the host left.
    fn put_aside(&mut self, station: usize, point: Point, frame: Frame) {
        let packet = *self.pool.get(frame.handle());
        let Some(roaming) = &mut self.roaming else { return };
        if roaming.cells[station] != point || !roaming.stations.keep_waiting(station, frame, &packet) {
            return self.lose_at_handoff(point, frame.handle());
        }
        self.links[point / 2].report[point % 2].lose(DropReason::Handoff);
        self.counts.withdrawn(point, &packet);
        let recorded = self.frames.get(frame.handle().0 as usize).and_then(|stored| stored.recorded);
        self.mark(recorded, DropReason::Handoff);
    }
}

/// Addresses a frame to the device at a port.
fn address(frame: &mut [u8], port: usize) {
    let [near, far] = [port, port ^ 1].map(Plan::hardware_bytes);
    frame[..6].copy_from_slice(&near);
    frame[6..12].copy_from_slice(&far);
    frame[12..ETHERNET].copy_from_slice(&IPV4);
}

impl Ground for Air {
    fn leave(&mut self, now: Instant, heading: usize) {
        let Some(roaming) = &mut self.roaming else { return };
        if let Some(station) = roaming.stations.leave(heading) {
            roaming.lead();
            self.cut(now, station);
        }
    }

    fn served(&self) -> usize {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.served())
    }

    fn times_left(&self, station: usize) -> u64 {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.times_left(station))
    }

    fn hard_state(&self, station: usize) -> u64 {
        let Some(roaming) = &self.roaming else { return 0 };
        let cell = roaming.cells[station];
        let is_hard = |point: &Point| {
            let blueprint = roaming.blueprints.get(point);
            blueprint.is_some_and(|blueprint| blueprint.element().at_handoff() == StateAtHandoff::Hard)
        };
        let here = [cell, cell ^ 1].into_iter().filter(is_hard).filter_map(|point| self.elements[point].as_ref());
        here.map(|element| element.hard_state()).sum()
    }

    fn wire_time(&self, course: Course, bytes: u64) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.wire_time(course, bytes))
    }

    fn route_update(&self, course: Course) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.route_update(course))
    }

    fn attach(&mut self, now: Instant) {
        let Some(roaming) = self.roaming.as_deref_mut() else { return };
        let Roaming { stations, ways, cells, .. } = roaming;
        let cell = cells[stations.attach(now, |station| ways.lags(station))];
        roaming.lead();
        self.links[cell / 2].gate = Gate::Open;
    }

    fn move_state(&mut self, now: Instant, course: Course) {
        let Some(roaming) = &self.roaming else { return };
        let [from, to] = [course.from, course.to].map(|station| roaming.cells[station]);
        for (from, to) in [(from, to), (from ^ 1, to ^ 1)] {
            let Some(roaming) = &self.roaming else { return };
            let of = |point: Point| roaming.blueprints.get(&point).map(Blueprint::element);
            let goes_along = of(to).is_some_and(|element| {
                let same = of(from).is_some_and(|other| other.kind() == element.kind());
                same && roaming.plan.moves_state(element.at_handoff())
            });
            let anew = |point: Point| roaming.blueprints.get(&point).and_then(Blueprint::build);
            let (new_from, new_to) = (anew(from), anew(to));
            let old = std::mem::replace(&mut self.elements[from], new_from);
            self.elements[to] = if goes_along { old } else { new_to };
            if let Some(element) = &mut self.elements[to] {
                element.settle(to);
            }
            for point in [to, from] {
                self.through(now, point, |element, now, given| element.handle_timeout(now, given));
            }
        }
    }

    fn send_kept(&mut self, now: Instant) {
        let Some(roaming) = &mut self.roaming else { return };
        let node = roaming.ways.routers()[roaming.stations.served()];
        for frame in roaming.stations.take_fresh(&mut self.pool) {
            self.give(now, node, frame.handle());
        }
    }

    fn tell(&mut self, now: Instant, course: Course, left: u64) {
        let Some(roaming) = &mut self.roaming else { return };
        for frame in roaming.stations.tell(course, left) {
            self.tunnel(now, course, frame);
        }
    }

    fn reroute(&mut self, _: Instant, to: usize) {
        if let Some(roaming) = &mut self.roaming {
            roaming.stations.reroute(to);
            roaming.lead();
        }
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
