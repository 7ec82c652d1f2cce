//! Which way a packet goes: from each node, the first hop of a shortest path to each host that a flow ends at.
//!
//! A node with a single link and nothing on it has no table: all but itself lies behind that link. So a tree's leaves, which
//! are most of a large topology, cost a few bytes each.

use std::collections::VecDeque;

use crate::leg::LegId;
use crate::link::Direction;
use crate::network::{LinkId, Network, NodeId, NodeKind};

/// Where a node sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// Onto a link.
    Leg(LegId),
    /// To the element in front of a link.
    Element(u32),
    /// To an endpoint on the node itself.
    Here,
    /// Nowhere: the destination cannot be reached.
    Nowhere,
    /// Where the way to a host that moves is not that of a packet to any other.
    Roaming(Spot),
}

/// A place on the way to a host that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// At the station of that number, which the host is not at.
    Station(u16),
    /// At a router from which copies go several ways: its number among such.
    Fork(u16),
    /// At the end of the tunnel to the station of that number.
    Exit(u16),
    /// At the host.
    Home,
}

/// A node that has a table: where its row begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table(usize);

/// A host that a flow ends at: its place in each row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination(usize);

#[derive(Clone, Copy)]
enum Row {
    Table(Table),
    /// All but the node itself lies behind this hop, as far as it can be reached.
    Leaf(Hop),
}

/// Next hops, by node and destination.
#[derive(Clone)]
pub struct Routes {
    hops: Vec<Hop>,
    rows: Vec<Row>,
    /// By node; `None` where no flow ends.
    destinations: Vec<Option<Destination>>,
    /// Nodes with the same number can reach each other.
    islands: Vec<usize>,
}

impl Routes {
    /// `through` tells, for each leg, which element stands in front of it.
    pub fn new(network: &Network, through: &[Option<usize>]) -> Self {
        Self::without(network, through, &[])
    }

    /// The same while the links `idle` join nothing: those of a host that moves, but the one at whose end it is.
    pub fn without(network: &Network, through: &[Option<usize>], idle: &[LinkId]) -> Self {
        let nodes = network.nodes.len();
        let mut destinations = vec![None; nodes];
        let mut width = 0;
        let ends = network.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        // Tunnels end at the stations of a host that moves.
        let stations = network.mobility.iter().flat_map(|mobility| mobility.routers(network));
        for end in ends.chain(stations) {
            destinations[end.0].get_or_insert_with(|| {
                width += 1;
                Destination(width - 1)
            });
        }
        let mut forwards: Vec<_> = network.nodes.iter().map(|node| node.kind == NodeKind::Router).collect();
        for spec in &network.elements {
            forwards[spec.node.0] = true;
        }
        let map = Map::new(network, through, idle);
        let mut routes =
            Self { hops: Vec::new(), rows: Vec::with_capacity(nodes), destinations, islands: map.islands() };
        let mut search = Search::new(nodes);
        for (node, forwards) in forwards.into_iter().enumerate() {
            let row = match map.ways(node) {
                [way] if !forwards => Row::Leaf(way.hop),
                _ => {
                    let begin = routes.hops.len();
                    routes.hops.resize(begin + width, Hop::Nowhere);
                    let row = &mut routes.hops[begin..];
                    let destinations = &routes.destinations;
                    search.from(&map, node, |reached, hop| {
                        if let Some(Destination(column)) = destinations[reached] {
                            row[column] = hop;
                        }
                    });
                    Row::Table(Table(begin))
                }
            };
            routes.rows.push(row);
        }
        routes
    }

    /// The table of a node that forwards or has an element.
    pub fn table(&self, node: NodeId) -> Option<Table> {
        match self.rows[node.0] {
            Row::Table(table) => Some(table),
            Row::Leaf(_) => None,
        }
    }

    /// The host as a destination, if a flow ends there.
    pub fn destination(&self, host: NodeId) -> Option<Destination> {
        self.destinations[host.0]
    }

    /// The next hop, where packets pass.
    #[inline]
    pub fn next(&self, from: Table, to: Destination) -> Hop {
        self.hops[from.0 + to.0]
    }

    /// Sends what is for `to` another way from `from` on.
    pub fn set(&mut self, from: Table, to: Destination, hop: Hop) {
        self.hops[from.0 + to.0] = hop;
    }

    /// The same routes as `other`, in the room of these.
    pub fn copy_from(&mut self, other: &Self) {
        self.hops.clone_from(&other.hops);
        self.rows.clone_from(&other.rows);
    }

    /// The next hop from any node to a host that a flow ends at.
    pub fn first(&self, from: NodeId, to: NodeId) -> Hop {
        match (self.rows[from.0], self.destinations[to.0]) {
            (_, None) => Hop::Nowhere,
            (Row::Table(table), Some(to)) => self.next(table, to),
            (Row::Leaf(_), Some(_)) if from == to => Hop::Here,
            (Row::Leaf(hop), Some(_)) if self.islands[from.0] == self.islands[to.0] => hop,
            (Row::Leaf(_), Some(_)) => Hop::Nowhere,
        }
    }
}

/// A link as seen from one of its ends.
#[derive(Clone, Copy)]
struct Way {
    to: usize,
    hop: Hop,
}

/// The links at each node, in the network's order.
struct Map {
    ways: Vec<Way>,
    /// Where each node's begin; one more than there are nodes.
    begin: Vec<usize>,
}

impl Map {
    fn new(network: &Network, through: &[Option<usize>], idle: &[LinkId]) -> Self {
        let links = || network.links.iter().enumerate().filter(|(index, _)| !idle.contains(&LinkId(*index)));
        let mut begin = vec![0; network.nodes.len() + 1];
        for end in links().flat_map(|(_, link)| link.ends) {
            begin[end.0 + 1] += 1;
        }
        for node in 1..begin.len() {
            begin[node] += begin[node - 1];
        }
        let mut free = begin.clone();
        let mut ways = vec![Way { to: 0, hop: Hop::Nowhere }; (network.links.len() - idle.len()) * 2];
        for (index, link) in links() {
            for (near, far, direction) in
                [(link.ends[0], link.ends[1], Direction::Down), (link.ends[1], link.ends[0], Direction::Up)]
            {
                let leg = LegId::new(LinkId(index), direction);
                let hop = match through[leg.0 as usize] {
                    Some(element) => Hop::Element(element as u32),
                    None => Hop::Leg(leg),
                };
                ways[free[near.0]] = Way { to: far.0, hop };
                free[near.0] += 1;
            }
        }
        Self { ways, begin }
    }

    fn ways(&self, node: usize) -> &[Way] {
        &self.ways[self.begin[node]..self.begin[node + 1]]
    }

    /// Numbers of the parts that hang together, by node.
    fn islands(&self) -> Vec<usize> {
        let nodes = self.begin.len() - 1;
        let mut islands = vec![usize::MAX; nodes];
        for first in 0..nodes {
            let mut open = vec![first];
            while let Some(at) = open.pop() {
                if islands[at] == usize::MAX {
                    islands[at] = first;
                    open.extend(self.ways(at).iter().map(|way| way.to));
                }
            }
        }
        islands
    }
}

/// A breadth-first search, with room that is used again.
struct Search {
    /// The search that reached each node last.
    reached: Vec<usize>,
    searches: usize,
    frontier: VecDeque<(usize, Hop)>,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Self { reached: vec![0; nodes], searches: 0, frontier: VecDeque::new() }
    }

    /// Tells each node that can be reached from `node`, nearest first, and the first hop to it.
    fn from(&mut self, map: &Map, node: usize, mut tell: impl FnMut(usize, Hop)) {
        self.searches += 1;
        self.reached[node] = self.searches;
        tell(node, Hop::Here);
        self.frontier.push_back((node, Hop::Here));
        while let Some((at, first)) = self.frontier.pop_front() {
            for way in map.ways(at) {
                if self.reached[way.to] != self.searches {
                    self.reached[way.to] = self.searches;
                    let hop = if at == node { way.hop } else { first };
                    tell(way.to, hop);
                    self.frontier.push_back((way.to, hop));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
