//! Paths of packets while a host is at each of its stations, and distances between these and its peers.

use lasthop_proto::time::Duration;

use super::{Course, HandoffKind, Mobility};
use crate::fabric::leg_of;
use crate::leg::LegId;
use crate::network::{Network, NodeId, Rate};
use crate::routes::{Hop, Routes};

/// An end of a flow of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Index of the endpoint; each flow has two.
    pub index: usize,
    /// Node of this end.
    pub node: NodeId,
    /// Node of the other end.
    pub peer: NodeId,
}

/// A router from which paths lead to several stations, or which is a station.
pub struct Fork {
    /// The router.
    pub node: NodeId,
    /// Legs towards stations, and the hops onto them.
    pub ways: Vec<(LegId, Hop)>,
    /// Station at this router, if any.
    pub station: Option<usize>,
}

/// Routes for each station of a moving host.
pub struct Ways {
    plan: Mobility,
    /// Routes while the host is at each station.
    sets: Vec<Routes>,
    /// Routers of the stations.
    routers: Vec<NodeId>,
    /// Leg that each element precedes.
    elements: Vec<LegId>,
    /// Delay, rate and far node of each leg.
    wires: Vec<(Duration, Rate, NodeId)>,
    ends: Vec<End>,
}

impl Ways {
    /// Returns the paths of the moving host of `network`; `None` if no host moves. `through` lists the element in front
    /// of each leg.
    pub(crate) fn new(network: &Network, through: &[Option<usize>]) -> Option<Self> {
        let plan = network.mobility.clone()?;
        let sets = (0..plan.stations.len()).map(|at| Routes::without(network, through, &plan.others(at))).collect();
        let ends = network.flows.iter().enumerate().flat_map(|(index, flow)| {
            [
                End { index: 2 * index, node: flow.from, peer: flow.to },
                End { index: 2 * index + 1, node: flow.to, peer: flow.from },
            ]
        });
        let wires = network
            .links
            .iter()
            .flat_map(|link| [0, 1].map(|way: usize| (link.delay, link.directions[way].rate, link.ends[1 - way])));
        Some(Self {
            sets,
            routers: plan.routers(network).collect(),
            elements: network.elements.iter().map(|spec| leg_of(network, spec)).collect(),
            wires: wires.collect(),
            ends: ends.filter(|end| [end.node, end.peer].contains(&plan.host)).collect(),
            plan,
        })
    }

    /// Returns the paths of the moving host of `network`, for a caller without elements.
    pub fn of_legs(network: &Network) -> Option<Self> {
        Self::new(network, &vec![None; 2 * network.links.len()])
    }

    /// Returns the moving host.
    pub(crate) fn host(&self) -> NodeId {
        self.plan.host
    }

    /// Returns the routers of the stations.
    pub fn routers(&self) -> &[NodeId] {
        &self.routers
    }

    /// Returns the ends of the host's flows: its own, and those of its peers.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    pub(crate) fn set(&self, station: usize) -> &Routes {
        &self.sets[station]
    }

    /// Returns the next leg from a node to a host or station while the host is at `station`.
    pub fn next(&self, station: usize, from: NodeId, to: NodeId) -> Option<LegId> {
        match self.sets[station].first(from, to) {
            Hop::Leg(leg) => Some(leg),
            Hop::Element(element) => Some(self.elements[element as usize]),
            Hop::Here | Hop::Nowhere | Hop::Roaming(_) => None,
        }
    }

    /// Returns the legs from `from` to a host or station.
    pub fn between(&self, station: usize, from: NodeId, to: NodeId) -> Vec<LegId> {
        let (mut legs, mut at) = (Vec::new(), from);
        while let Some(leg) = self.next(station, at, to) {
            legs.push(leg);
            at = self.wires[leg.0 as usize].2;
        }
        legs
    }

    /// Returns the leg from a station towards the station that routes lead to, if it is on the path of one of the
    /// host's peers to that station. Packets that take the leg are only forwarded, even if the host was here before.
    pub fn onward(&self, station: usize, routed: usize) -> Option<LegId> {
        let (router, host) = (self.routers[station], self.plan.host);
        let mut peers = self.ends.iter().map(|end| end.node).filter(|node| *node != host);
        let passes = station != routed && peers.any(|peer| self.nodes(routed, peer, host).contains(&router));
        self.next(routed, router, host).filter(|_| passes)
    }

    /// Returns the delay from the host at `station` to each end.
    pub fn lags(&self, station: usize) -> Vec<(usize, Duration)> {
        let lag = |end: &End| {
            let own = end.node == self.plan.host;
            (end.index, if own { Duration::ZERO } else { self.delay(station, self.plan.host, end.node) })
        };
        self.ends.iter().map(lag).collect()
    }

    /// Returns the time from the host's arrival at another station to the change of routes.
    pub fn route_update(&self, course: Course) -> Duration {
        if let Some(given) = self.plan.route_update {
            return given;
        }
        let [old, new] = [course.from, course.to].map(|station| self.routers[station]);
        let far = |peer: NodeId| match self.plan.kind {
            HandoffKind::Hierarchical => {
                let shared = self.nodes(course.to, old, peer);
                let meets = self.nodes(course.to, new, peer).into_iter().find(|node| shared.contains(node));
                self.delay(course.to, new, meets.unwrap_or(peer))
            }
            HandoffKind::Hard | HandoffKind::Forwarding | HandoffKind::Multicast => self.delay(course.to, new, peer),
        };
        let peers = self.ends.iter().filter(|end| end.node != self.plan.host);
        peers.map(|end| far(end.node)).max().unwrap_or_default()
    }

    /// Returns the time that `bytes` take from one station to another over the wire. With 0 bytes, it is the sum of the
    /// links' delays.
    pub fn wire_time(&self, course: Course, bytes: u64) -> Duration {
        let legs = self.between(course.from, self.routers[course.from], self.routers[course.to]);
        let slowest = legs.iter().map(|leg| self.wires[leg.0 as usize].1.0).min();
        let nanos = slowest.map_or(0, |rate| (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate)));
        self.delay_of(&legs) + Duration::from_nanos(nanos as u64)
    }

    /// Returns the routers from which paths lead to stations in several directions, or which are stations.
    pub fn forks(&self, network: &Network) -> Vec<Fork> {
        let fork = |node: usize| {
            let node = NodeId(node);
            self.sets[0].table(node).filter(|_| node != self.plan.host)?;
            let mut ways: Vec<(LegId, Hop)> = Vec::new();
            for router in self.routers.iter().filter(|router| **router != node) {
                if let Some(leg) = self.next(0, node, *router) {
                    let way = (leg, self.sets[0].first(node, *router));
                    if !ways.contains(&way) {
                        ways.push(way);
                    }
                }
            }
            let station = self.routers.iter().position(|router| *router == node);
            (station.is_some() || ways.len() > 1).then_some(Fork { node, ways, station })
        };
        (0..network.nodes.len()).filter_map(fork).collect()
    }

    fn delay(&self, station: usize, from: NodeId, to: NodeId) -> Duration {
        self.delay_of(&self.between(station, from, to))
    }

    fn delay_of(&self, legs: &[LegId]) -> Duration {
        legs.iter().fold(Duration::ZERO, |sum, leg| sum + self.wires[leg.0 as usize].0)
    }

    fn nodes(&self, station: usize, from: NodeId, to: NodeId) -> Vec<NodeId> {
        let nodes = self.between(station, from, to).into_iter().map(|leg| self.wires[leg.0 as usize].2);
        std::iter::once(from).chain(nodes).collect()
    }
}
