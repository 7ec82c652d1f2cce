//! Routing: from each node, the first hop of a path with the fewest links to each host at the end of a flow. Of several such
//! paths, it is the one that a breadth-first search over the links in their order finds first. Only routers forward: no path
//! leads through a host with several links.
//!
//! A node with a single link and no element has no table: all other nodes are behind that link. So the leaves of a
//! tree, most nodes of a large topology, use a few bytes each.

use std::collections::VecDeque;

use crate::leg::LegId;
use crate::link::Direction;
use crate::network::{LinkId, Network, NodeId, NodeKind};

/// Next hop of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// A link.
    Leg(LegId),
    /// The element in front of a link.
    Element(u32),
    /// An endpoint on the node itself.
    Here,
    /// None: the destination is unreachable.
    Nowhere,
    /// Special handling of packets for a moving host.
    Roaming(Spot),
}

/// Place with special routing to a moving host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// The station of this number, where the host is absent.
    Station(u16),
    /// The router of this number among those that send copies several ways.
    Fork(u16),
    /// The end of the tunnel to the station of this number.
    Exit(u16),
    /// The host.
    Home,
}

/// Start of the row of a node with a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table(usize);

/// Place in each row of a host at the end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination(usize);

#[derive(Clone, Copy)]
enum Row {
    Table(Table),
    /// All other nodes, if reachable, are behind this hop.
    Leaf(Hop),
}

/// Next hops, by node and destination.
#[derive(Clone)]
pub struct Routes {
    hops: Vec<Hop>,
    rows: Vec<Row>,
    /// Destinations by node; `None` if no flow ends there.
    destinations: Vec<Option<Destination>>,
    /// Number of destinations, and of hops in each row.
    width: usize,
    /// Component of each node. Nodes with the same number can reach each other.
    islands: Vec<usize>,
}

impl Routes {
    /// Computes the routes of `network`. `through` lists the element in front of each leg.
    pub fn new(network: &Network, through: &[Option<usize>]) -> Self {
        Self::without(network, through, &network.side_links())
    }

    /// Computes the routes without the links `idle`: those of a moving host, except to its current station.
    pub fn without(network: &Network, through: &[Option<usize>], idle: &[LinkId]) -> Self {
        let nodes = network.nodes.len();
        let mut destinations = vec![None; nodes];
        let mut width = 0;
        let ends = network.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        // Tunnels end at the stations of a moving host.
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
            Self { hops: Vec::new(), rows: Vec::with_capacity(nodes), destinations, width, islands: map.islands() };
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

    /// Returns the table of a node that forwards or has an element.
    pub fn table(&self, node: NodeId) -> Option<Table> {
        match self.rows[node.0] {
            Row::Table(table) => Some(table),
            Row::Leaf(_) => None,
        }
    }

    /// Returns the host as a destination, if a flow ends there.
    pub fn destination(&self, host: NodeId) -> Option<Destination> {
        self.destinations[host.0]
    }

    /// Returns the next hop of forwarded packets.
    #[inline]
    pub fn next(&self, from: Table, to: Destination) -> Hop {
        self.hops[from.0 + to.0]
    }

    /// Returns the only next hop of packets that a node forwards, besides `back`, from where they came; `None` if there
    /// are several, or none.
    pub fn only(&self, from: Table, back: Hop) -> Option<Hop> {
        let mut ahead = self.hops[from.0..from.0 + self.width].iter().filter(|hop| **hop != back);
        let only = *ahead.next()?;
        ahead.all(|hop| *hop == only).then_some(only)
    }

    /// Changes the next hop from `from` to `to`.
    pub fn set(&mut self, from: Table, to: Destination, hop: Hop) {
        self.hops[from.0 + to.0] = hop;
    }

    /// Copies the hops of `other`, reusing memory.
    pub fn copy_from(&mut self, other: &Self) {
        self.hops.clone_from(&other.hops);
        self.rows.clone_from(&other.rows);
    }

    /// Returns the next hop from any node to a host at the end of a flow.
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

/// Returns the links on the path of packets from one node to another, in order, each with its direction (0: down, 1: up);
/// empty if there is no path.
pub fn way(network: &Network, from: NodeId, to: NodeId) -> Vec<(LinkId, usize)> {
    let map = Map::new(network, &vec![None; network.links.len() * 2], &network.side_links());
    let mut search = Search::new(network.nodes.len());
    let (mut at, mut way) = (from, Vec::new());
    while at != to {
        let mut next = None;
        search.from(&map, at.0, |reached, hop| {
            if reached == to.0 {
                next = Some(hop);
            }
        });
        let Some(Hop::Leg(leg)) = next else { return Vec::new() };
        let (link, direction) = (LinkId(leg.0 as usize / 2), leg.0 as usize % 2);
        way.push((link, direction));
        at = network.links[link.0].ends[1 - direction];
    }
    way
}

/// A link, seen from one of its ends.
#[derive(Clone, Copy)]
struct Way {
    to: usize,
    hop: Hop,
}

/// Links of each node, in the network's order.
struct Map {
    ways: Vec<Way>,
    /// Index of each node's first link, followed by the total number of entries.
    begin: Vec<usize>,
    /// True for nodes that forward packets to others.
    is_router: Vec<bool>,
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
        let is_router = network.nodes.iter().map(|node| node.kind == NodeKind::Router).collect();
        Self { ways, begin, is_router }
    }

    fn ways(&self, node: usize) -> &[Way] {
        &self.ways[self.begin[node]..self.begin[node + 1]]
    }

    /// Returns the component of each node.
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

/// A breadth-first search that reuses its memory.
struct Search {
    /// Number of the last search that reached each node.
    reached: Vec<usize>,
    searches: usize,
    frontier: VecDeque<(usize, Hop)>,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Self { reached: vec![0; nodes], searches: 0, frontier: VecDeque::new() }
    }

    /// Calls `tell` with each node that is reachable from `node`, nearest first, and the first hop to it.
    fn from(&mut self, map: &Map, node: usize, mut tell: impl FnMut(usize, Hop)) {
        self.searches += 1;
        self.reached[node] = self.searches;
        tell(node, Hop::Here);
        self.frontier.push_back((node, Hop::Here));
        while let Some((at, first)) = self.frontier.pop_front() {
            if at != node && !map.is_router[at] {
                continue;
            }
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
