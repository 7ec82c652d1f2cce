//! Routes and links of a moving host: they lead to one of its stations at a time.

mod moves;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::time::Instant;

use super::{Fabric, LegId, Receiver};
use crate::endpoint::index as endpoint;
use crate::handoff::{Away, Copied, Fork, Stations, Towards, Ways};
use crate::link::{Direction, Frame};
use crate::measure::MobilityReport;
use crate::network::{HandoffKind, LinkId, Network, NodeId};
use crate::routes::{Destination, Hop, Routes, Spot, Table};
use crate::trace::{DropReason, What};

/// A base station of the host.
struct Post {
    table: Table,
    /// Destination of the router in the routes.
    destination: Destination,
    /// Link of the station in the direction of the host.
    down: LegId,
    /// First hop to the host while attached here.
    direct: Hop,
    /// Endpoint index of the tunnels that end here.
    address: usize,
}

/// The moving host and its stations.
pub struct Roaming {
    stations: Stations,
    ways: Ways,
    posts: Vec<Post>,
    /// Routers that send packets several ways with multicast, and their tables.
    forks: Vec<(Fork, Table)>,
    /// Destination of the host in the routes, and its own table, if it has one.
    host: Destination,
    own_table: Option<Table>,
}

impl Roaming {
    /// Creates the state of the moving host of `network`, at its first station. `through` lists the element in front of
    /// each leg. Returns `None` if no host moves.
    pub fn new(network: &Network, through: &[Option<usize>]) -> Option<Box<Self>> {
        let plan = network.mobility.as_ref()?;
        let ways = Ways::new(network, through)?;
        let first = ways.set(0);
        let post = |(index, (link, router)): (usize, (&LinkId, NodeId))| {
            let down = if network.links[link.0].ends[0] == router { Direction::Down } else { Direction::Up };
            let down = LegId::new(*link, down);
            Some(Post {
                table: first.table(router)?,
                destination: first.destination(router)?,
                down,
                direct: through[down.0 as usize].map_or(Hop::Leg(down), |element| Hop::Element(element as u32)),
                address: 2 * network.flows.len() + index,
            })
        };
        let posts = plan.stations.iter().zip(plan.routers(network)).enumerate().map(post);
        let with_table = |fork: Fork| first.table(fork.node).map(|table| (fork, table));
        let forks = match plan.kind {
            HandoffKind::Multicast => ways.forks(network).into_iter().filter_map(with_table).collect(),
            HandoffKind::Hard | HandoffKind::Hierarchical | HandoffKind::Forwarding => Vec::new(),
        };
        Some(Box::new(Self {
            posts: posts.collect::<Option<Vec<_>>>()?,
            forks,
            host: first.destination(plan.host)?,
            own_table: first.table(plan.host),
            stations: Stations::new(network, &ways)?,
            ways,
        }))
    }

    /// Returns the routes at the start of the run.
    pub fn first(&self) -> Routes {
        self.ways.set(0).clone()
    }

    /// Returns the routes to the host's current or last station.
    pub fn settled(&self) -> &Routes {
        self.ways.set(self.stations.served())
    }

    fn station_hop(&self, station: usize) -> Hop {
        let routed = self.stations.routed();
        if self.stations.is_direct(station) {
            self.posts[station].direct
        } else if self.ways.onward(station, routed).is_some() {
            self.ways.set(routed).first(self.ways.routers()[station], self.ways.host())
        } else {
            Hop::Roaming(Spot::Station(station as u16))
        }
    }

    /// Writes the current routes into `routes`.
    fn lead(&self, routes: &mut Routes) {
        routes.copy_from(self.ways.set(self.stations.routed()));
        for (index, post) in self.posts.iter().enumerate() {
            routes.set(post.table, self.host, self.station_hop(index));
            routes.set(post.table, post.destination, Hop::Roaming(Spot::Exit(index as u16)));
        }
        for (index, (_, table)) in self.forks.iter().enumerate() {
            routes.set(*table, self.host, Hop::Roaming(Spot::Fork(index as u16)));
        }
        if let Some(table) = self.own_table {
            routes.set(table, self.host, Hop::Roaming(Spot::Home));
        }
    }
}

/// Returns whether arrivals at `host` are tracked: it moves, or has a flow with the host that does.
pub(super) fn watches(network: &Network, host: NodeId) -> bool {
    network.mobility.as_ref().is_some_and(|mobility| {
        let pairs = network.flows.iter().map(|flow| [flow.from, flow.to]);
        host == mobility.host || pairs.into_iter().any(|pair| pair.contains(&host) && pair.contains(&mobility.host))
    })
}

impl Fabric {
    /// Places the moving host at its first station.
    pub(super) fn settle_down(&mut self, network: &Network) {
        let Some(roaming) = self.roaming.take() else { return };
        for &link in &network.mobility.as_ref().map(|mobility| mobility.others(0)).unwrap_or_default() {
            for direction in Direction::BOTH {
                self.close(LegId::new(link, direction));
            }
        }
        roaming.lead(&mut self.routes);
        self.roaming = Some(roaming);
    }

    /// Forwards a frame for the moving host at one of the places with special routing.
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
                match roaming.stations.take(station, frame) {
                    Away::Kept => {}
                    Away::To(next) => self.tunnel(now, station, next, frame),
                    Away::Lost => self.miss_at(now, station, frame),
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

    /// Copies a frame from a router to all stations except where it came from.
    fn multiply(&mut self, now: Instant, fork: usize, frame: Frame, from: Option<LegId>) {
        let Some(roaming) = &self.roaming else { return };
        let back = from.map(LegId::opposite);
        let (Fork { ways, station, .. }, _) = &roaming.forks[fork];
        let hops: Vec<Hop> = ways.iter().filter(|(leg, _)| Some(*leg) != back).map(|(_, hop)| *hop).collect();
        let station = *station;
        for hop in hops {
            let copy = *self.pool.get(frame.handle());
            *self.pool.place() = copy;
            let handle = self.pool.commit(frame.to()).handle();
            if let Some(meter) = &mut self.tap.meter {
                meter.copy(frame.handle(), handle);
            }
            self.send(now, hop, frame.copied(handle), None);
        }
        match station {
            Some(station) => self.receive_copy(now, station, frame),
            None => self.pool.discard(frame.handle()),
        }
    }

    /// Processes a copy of a packet for the host at a station.
    fn receive_copy(&mut self, now: Instant, station: usize, frame: Frame) {
        let Some(roaming) = &mut self.roaming else { return };
        if roaming.stations.take_copy(station, frame, &mut self.pool) == Copied::Sent {
            let hop = roaming.posts[station].direct;
            self.send(now, hop, frame, None);
        }
    }

    /// Counts a frame on a link whose far end the host has left, and drops it.
    #[cold]
    pub(super) fn miss(&mut self, now: Instant, id: LegId, frame: Frame) {
        self.legs[id.0 as usize].report.frames += 1;
        self.lose_at_handoff(now, id, frame);
    }

    fn miss_at(&mut self, now: Instant, station: usize, frame: Frame) {
        let Some(roaming) = &self.roaming else { return };
        let down = roaming.posts[station].down;
        if self.tap.records() {
            self.record_packet(now, down.near(), frame.handle(), What::Sent);
        }
        self.miss(now, down, frame);
    }

    /// Drops a frame that is lost because the host has moved.
    pub(super) fn lose_at_handoff(&mut self, now: Instant, id: LegId, frame: Frame) {
        if let Some(roaming) = &mut self.roaming {
            let down = roaming.posts.iter().any(|post| post.down == id);
            let towards = if down { Towards::Host } else { Towards::Station };
            roaming.stations.lose(self.pool.get(frame.handle()), towards);
        }
        self.drop(now, id, frame.handle(), DropReason::Handoff);
    }

    /// Records the arrival of a packet at the moving host, or at a host that has a flow with it.
    #[inline(never)]
    pub(super) fn notice(&mut self, now: Instant, frame: Frame) {
        let Some(roaming) = &mut self.roaming else { return };
        roaming.stations.arrive(now, frame.to(), self.pool.get(frame.handle()));
    }

    /// Returns the results of the handoffs; `None` without a moving host.
    pub fn roaming_report(&self) -> Option<MobilityReport> {
        Some(self.roaming.as_ref()?.stations.report())
    }

    /// Returns the flows of which the moving host is an end.
    pub fn roaming_flows(&self) -> Vec<FlowId> {
        let Some(roaming) = &self.roaming else { return Vec::new() };
        roaming.stations.own_ends().iter().map(|end| FlowId(*end as u32 / 2)).collect()
    }

    /// Credits `bytes` that a flow delivered to that side to every link between its ends.
    pub fn credit_path(&mut self, flow: FlowId, to: Side, bytes: u64) {
        let ends = [self.host(flow, to.peer()), self.host(flow, to)];
        let Some(roaming) = &self.roaming else { return };
        for leg in roaming.ways.between(roaming.stations.served(), ends[0], ends[1]) {
            self.legs[leg.0 as usize].report.useful += bytes;
        }
    }
}
