//! What a host that moves asks of routes and links: they lead to one of its stations at a time, and stations keep, forward or lose what comes
//! for it while it is elsewhere.

mod arrivals;
mod moves;
mod ways;

use std::collections::{BTreeSet, VecDeque};

use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::time::{Duration, Instant};

use self::arrivals::Arrivals;
use super::{Fabric, LegId, Receiver};
use crate::element::Role;
use crate::endpoint::index as endpoint;
use crate::link::{Direction, Frame, Waiting};
use crate::measure::MobilityReport;
use crate::network::{HandoffKind, LinkId, Mobility, Network, NodeId, Rate};
use crate::routes::{Destination, Hop, Routes, Spot, Table};
use crate::trace::{DropReason, What};

/// As many of the packets that came last the host tells the new station, which sends what follows them.
const TOLD: usize = 3;

/// Tells packets of a flow from each other, but for copies.
type Key = (u32, Side, u32, u32, u32);

/// A base station of the host.
struct Post {
    router: NodeId,
    table: Table,
    /// The router, as routes know it.
    destination: Destination,
    /// The direction of its link towards the host.
    down: LegId,
    /// Where the way to the host begins when it is here.
    direct: Hop,
    /// The endpoint index of a tunnel that ends here.
    address: usize,
    /// What is kept for the host while it is not here.
    kept: VecDeque<Frame>,
    room: Waiting,
    /// Where the host went from here, once this station knows.
    successor: Option<usize>,
    /// How often the host has left.
    left: u64,
    /// Whether what waits in front of the link is as it came, so that another station can send it.
    plain: bool,
    /// Whether a relay here is who gets what is for the host.
    relays: bool,
}

/// A router from which several ways lead to stations.
struct Fork {
    /// The legs, and the hops onto them.
    ways: Vec<(LegId, Hop)>,
    /// The station that is here.
    post: Option<usize>,
    table: Table,
}

/// The host that moves, its stations, and what was measured.
pub struct Roaming {
    plan: Mobility,
    posts: Vec<Post>,
    forks: Vec<Fork>,
    /// Routes while the host is at each station.
    sets: Vec<Routes>,
    /// The host, as routes know it, and its own table, if it has one.
    host: Destination,
    own_table: Option<Table>,
    /// The endpoints of flows that the host has a part in: its own, and their peers.
    ends: Vec<(usize, NodeId, NodeId)>,
    peers: Vec<NodeId>,
    /// Where the host is; nowhere during a handoff.
    attached: Option<usize>,
    /// Where it was last.
    served: usize,
    /// Where it is going, during a handoff.
    heading: usize,
    /// Where routes lead.
    routed: usize,
    /// The packets that it got last.
    heard: VecDeque<Key>,
    /// What was lost during this handoff, unless the new station has a copy.
    gone: BTreeSet<Key>,
    /// What the station that the host goes to has had to drop during this handoff, since the last that the host has.
    evicted: Vec<Key>,
    arrivals: Arrivals,
    /// Of each leg: delay, rate, and the node at its far end.
    wires: Vec<(Duration, Rate, NodeId)>,
    report: MobilityReport,
}

impl Roaming {
    /// The host of `network` that moves, at its first station. `through` tells, for each leg, which element stands in front of it.
    pub fn new(network: &Network, through: &[Option<usize>]) -> Option<Box<Self>> {
        let plan = network.mobility.clone()?;
        let sets: Vec<_> =
            (0..plan.stations.len()).map(|at| Routes::without(network, through, &plan.others(at))).collect();
        let first = sets.first()?;
        let host = first.destination(plan.host)?;
        let own_table = first.table(plan.host);
        let ends: Vec<_> = (0..).zip(&network.flows).collect();
        let ends = ends.into_iter().flat_map(|(index, flow): (usize, _)| {
            [(2 * index, flow.from, flow.to), (2 * index + 1, flow.to, flow.from)]
        });
        let ends: Vec<_> = ends.filter(|(_, own, peer)| [*own, *peer].contains(&plan.host)).collect();
        let peers = ends.iter().filter(|end| end.1 != plan.host).map(|end| end.1).collect();
        let post = |(index, (link, router)): (usize, (&LinkId, NodeId))| {
            let down = if network.links[link.0].ends[0] == router { Direction::Down } else { Direction::Up };
            let down = LegId::new(*link, down);
            let roles = || {
                let here = network.elements.iter().filter(|spec| spec.link == *link && spec.node == router);
                here.map(|spec| spec.element.role())
            };
            Some(Post {
                router,
                table: first.table(router)?,
                destination: first.destination(router)?,
                down,
                direct: through[down.0 as usize].map_or(Hop::Leg(down), |element| Hop::Element(element as u32)),
                address: 2 * network.flows.len() + index,
                kept: VecDeque::new(),
                room: Waiting::new(plan.buffer),
                successor: None,
                left: 0,
                plain: !roles().any(|role| matches!(role, Role::Relay | Role::LinkEnd)),
                relays: roles().any(|role| role == Role::Relay),
            })
        };
        let posts =
            plan.stations.iter().zip(plan.routers(network)).enumerate().map(post).collect::<Option<Vec<_>>>()?;
        let arrivals = Arrivals::new(ends.iter().map(|end| end.0));
        let wires = network
            .links
            .iter()
            .flat_map(|link| [0, 1].map(|way: usize| (link.delay, link.directions[way].rate, link.ends[1 - way])));
        let mut roaming = Self {
            posts,
            forks: Vec::new(),
            sets,
            host,
            own_table,
            ends,
            peers,
            attached: Some(0),
            served: 0,
            heading: 0,
            routed: 0,
            heard: VecDeque::with_capacity(TOLD + 1),
            gone: BTreeSet::new(),
            evicted: Vec::new(),
            arrivals,
            wires: wires.collect(),
            report: MobilityReport::default(),
            plan,
        };
        if roaming.plan.kind == HandoffKind::Multicast {
            roaming.forks = roaming.forks(network);
        }
        Some(Box::new(roaming))
    }

    /// The routers from which ways lead to stations in several directions, or at which one is.
    fn forks(&self, network: &Network) -> Vec<Fork> {
        let fork = |node: usize| {
            let node = NodeId(node);
            let table = self.sets[0].table(node).filter(|_| node != self.plan.host)?;
            let mut ways: Vec<(LegId, Hop)> = Vec::new();
            for post in self.posts.iter().filter(|post| post.router != node) {
                let hop = self.sets[0].first(node, post.router);
                let leg = match hop {
                    Hop::Leg(leg) => leg,
                    Hop::Element(element) => super::leg_of(network, &network.elements[element as usize]),
                    Hop::Here | Hop::Nowhere | Hop::Roaming(_) => continue,
                };
                if !ways.contains(&(leg, hop)) {
                    ways.push((leg, hop));
                }
            }
            let post = self.posts.iter().position(|post| post.router == node);
            (post.is_some() || ways.len() > 1).then_some(Fork { ways, post, table })
        };
        (0..network.nodes.len()).filter_map(fork).collect()
    }

    /// Routes at the beginning.
    pub fn first(&self) -> Routes {
        self.sets[0].clone()
    }

    /// Routes as they are when the host stays where it was last.
    pub fn settled(&self) -> &Routes {
        &self.sets[self.served]
    }

    /// Whether what is for the host passes through the station while it is elsewhere, for nobody has told the station.
    fn is_unaware(&self, station: usize) -> bool {
        let unaware = matches!(self.plan.kind, HandoffKind::Hard | HandoffKind::Hierarchical);
        self.attached.is_none() && self.served == station && unaware
    }

    fn station_hop(&self, station: usize) -> Hop {
        if self.attached == Some(station) || self.is_unaware(station) {
            self.posts[station].direct
        } else {
            Hop::Roaming(Spot::Station(station as u16))
        }
    }

    /// Makes `routes` lead where they lead now.
    fn lead(&self, routes: &mut Routes) {
        routes.copy_from(&self.sets[self.routed]);
        for (index, post) in self.posts.iter().enumerate() {
            routes.set(post.table, self.host, self.station_hop(index));
            routes.set(post.table, post.destination, Hop::Roaming(Spot::Exit(index as u16)));
        }
        for (index, fork) in self.forks.iter().enumerate() {
            routes.set(fork.table, self.host, Hop::Roaming(Spot::Fork(index as u16)));
        }
        if let Some(table) = self.own_table {
            routes.set(table, self.host, Hop::Roaming(Spot::Home));
        }
    }

    /// Keeps `frame` at the station; gives it back where there is no room.
    fn keep(&mut self, station: usize, frame: Frame) -> Result<(), Frame> {
        let post = &mut self.posts[station];
        if !post.room.has_room(frame.bytes()) {
            return Err(frame);
        }
        post.room.add(frame.bytes());
        post.kept.push_back(frame);
        Ok(())
    }

    fn take_kept(&mut self, station: usize) -> Option<Frame> {
        let post = &mut self.posts[station];
        let frame = post.kept.pop_front()?;
        post.room.remove(frame.bytes());
        Some(frame)
    }

    fn hear(&mut self, packet: &Packet) {
        if self.plan.kind == HandoffKind::Multicast
            && let Some(key) = key(packet)
        {
            self.heard.push_back(key);
            if self.heard.len() > TOLD {
                self.heard.pop_front();
            }
        }
    }
}

/// Whether arrivals at the host are looked at: it moves, or has a flow with the one that does.
pub(super) fn watches(network: &Network, host: NodeId) -> bool {
    network.mobility.as_ref().is_some_and(|mobility| {
        let pairs = network.flows.iter().map(|flow| [flow.from, flow.to]);
        host == mobility.host || pairs.into_iter().any(|pair| pair.contains(&host) && pair.contains(&mobility.host))
    })
}

fn key(packet: &Packet) -> Option<Key> {
    let (number, ack) = match packet.body {
        Body::Tcp(segment) => (segment.seq.0, segment.ack.0),
        Body::Quic { number, .. } | Body::Datagram { number } | Body::Media { number } => (number, 0),
        Body::Control | Body::Coded(_) | Body::Report(_) => return None,
    };
    Some((packet.flow.0, packet.from, number, ack, packet.len))
}

impl Fabric {
    /// The host that moves is at its first station.
    pub(super) fn settle_down(&mut self, network: &Network) {
        let Some(roaming) = self.roaming.take() else { return };
        for &link in &network.mobility.as_ref().map(|mobility| mobility.others(0)).unwrap_or_default() {
            for direction in [Direction::Down, Direction::Up] {
                self.close(LegId::new(link, direction));
            }
        }
        roaming.lead(&mut self.routes);
        self.roaming = Some(roaming);
    }

    /// A frame for the host that moves is at a place of its own kind.
    #[cold]
    pub(super) fn roam(&mut self, now: Instant, spot: Spot, frame: Frame, from: Option<LegId>) {
        let Some(roaming) = &mut self.roaming else { return };
        match spot {
            Spot::Home => {
                self.notice(now, frame);
                self.handoffs.push_back((Receiver::Endpoint(frame.to()), frame.handle()));
            }
            Spot::Exit(station) => {
                if roaming.posts[usize::from(station)].address != frame.to() {
                    // Datagrams may end at a router.
                    return self.handoffs.push_back((Receiver::Endpoint(frame.to()), frame.handle()));
                }
                let packet = self.pool.get(frame.handle());
                let frame = frame.redirected(endpoint(packet.flow, packet.from.peer()));
                let hop = roaming.station_hop(usize::from(station));
                self.send(now, hop, frame, None);
            }
            Spot::Station(station) => {
                let station = usize::from(station);
                match roaming.posts[station].successor {
                    Some(next) => self.tunnel(now, station, next, frame),
                    // Until it hears of the new one, a station keeps what comes.
                    None if roaming.plan.kind == HandoffKind::Forwarding && roaming.posts[station].left > 0 => {
                        if let Err(frame) = roaming.keep(station, frame) {
                            self.miss_at(now, station, frame);
                        }
                    }
                    None => self.miss_at(now, station, frame),
                }
            }
            Spot::Fork(fork) => self.multiply(now, usize::from(fork), frame, from),
        }
    }

    /// Sends a frame from one station to another.
    fn tunnel(&mut self, now: Instant, station: usize, next: usize, frame: Frame) {
        let Some(roaming) = &self.roaming else { return };
        let frame = frame.redirected(roaming.posts[next].address);
        let hop = self.routes.next(roaming.posts[station].table, self.destinations[frame.to()]);
        self.send(now, hop, frame, None);
    }

    /// Sends a frame from a router towards all stations, but not back.
    fn multiply(&mut self, now: Instant, fork: usize, frame: Frame, from: Option<LegId>) {
        let Some(roaming) = &self.roaming else { return };
        let back = from.map(LegId::opposite);
        let Fork { ways, post, .. } = &roaming.forks[fork];
        let hops: Vec<Hop> = ways.iter().filter(|(leg, _)| Some(*leg) != back).map(|(_, hop)| *hop).collect();
        let post = *post;
        for hop in hops {
            let copy = *self.pool.get(frame.handle());
            *self.pool.place() = copy;
            let handle = self.pool.commit(frame.to()).handle();
            self.send(now, hop, frame.copied(handle), None);
        }
        match post {
            Some(station) => self.receive_copy(now, station, frame),
            None => self.pool.discard(frame.handle()),
        }
    }

    /// A copy of a packet for the host is at a station.
    fn receive_copy(&mut self, now: Instant, station: usize, frame: Frame) {
        let Some(roaming) = &mut self.roaming else { return };
        if roaming.attached == Some(station) {
            if roaming.posts[station].relays {
                roaming.hear(self.pool.get(frame.handle()));
            }
            let hop = roaming.posts[station].direct;
            return self.send(now, hop, frame, None);
        }
        let mut kept = roaming.keep(station, frame);
        while let Err(frame) = kept {
            let oldest = roaming.take_kept(station);
            // A frame that does not fit alone goes itself.
            let evicted = oldest.unwrap_or(frame);
            if roaming.attached.is_none()
                && roaming.heading == station
                && let Some(key) = key(self.pool.get(evicted.handle()))
            {
                // What came before a packet that the host has, it has as well, or never will.
                if roaming.heard.contains(&key) {
                    roaming.evicted.clear();
                } else {
                    roaming.evicted.push(key);
                }
            }
            self.pool.discard(evicted.handle());
            kept = if oldest.is_some() { roaming.keep(station, frame) } else { Ok(()) };
        }
    }

    /// A frame comes to a link at whose end the host is not.
    #[cold]
    pub(super) fn miss(&mut self, now: Instant, id: LegId, frame: Frame) {
        self.legs[id.0 as usize].report.frames += 1;
        self.lose_at_handoff(now, id, frame);
    }

    fn miss_at(&mut self, now: Instant, station: usize, frame: Frame) {
        let Some(roaming) = &self.roaming else { return };
        let down = roaming.posts[station].down;
        if self.trace.is_some() {
            self.record_packet(now, down.near(), frame.handle(), What::Sent);
        }
        self.miss(now, down, frame);
    }

    /// A frame is lost since the host has moved.
    pub(super) fn lose_at_handoff(&mut self, now: Instant, id: LegId, frame: Frame) {
        if let Some(roaming) = &mut self.roaming {
            let key = key(self.pool.get(frame.handle()));
            let down = roaming.posts.iter().any(|post| post.down == id);
            match key {
                Some(key) if down && roaming.plan.kind == HandoffKind::Multicast => {
                    roaming.gone.insert(key);
                }
                // What link protocols say to each other is no loss to anybody else.
                Some(_) => roaming.report.lost += 1,
                None => {}
            }
        }
        self.drop(now, id, frame.handle(), DropReason::Handoff);
    }

    /// A packet has come to the host that moves, or to one that has a flow with it.
    #[inline(never)]
    pub(super) fn notice(&mut self, now: Instant, frame: Frame) {
        let Some(roaming) = &mut self.roaming else { return };
        let packet = self.pool.get(frame.handle());
        let own = roaming.ends.iter().any(|end| end.0 == frame.to() && end.1 == roaming.plan.host);
        let relays = roaming.posts[roaming.served].relays;
        if own && !relays {
            roaming.hear(packet);
        }
        roaming.arrivals.take(now, frame.to(), packet, &mut roaming.report);
    }

    /// What the moves came to; `None` without a host that moves.
    pub fn roaming_report(&self) -> Option<MobilityReport> {
        let roaming = self.roaming.as_ref()?;
        let lost = roaming.report.lost + (roaming.gone.len() + roaming.evicted.len()) as u64;
        Some(MobilityReport { lost, ..roaming.report })
    }

    /// The flows of which the host is an end.
    pub fn roaming_flows(&self) -> Vec<FlowId> {
        let Some(roaming) = &self.roaming else { return Vec::new() };
        let own = roaming.ends.iter().filter(|end| end.1 == roaming.plan.host);
        own.map(|end| FlowId(end.0 as u32 / 2)).collect()
    }
}
