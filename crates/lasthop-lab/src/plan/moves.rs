//! Parts of a lab for a moving host: a device at each of its stations whose role the emulated links implement,
//! addresses for the tunnels between stations, and unsupported features.

use std::net::Ipv4Addr;

use lasthop_scenario::elements::Snoop;
use lasthop_sim::element::Role;
use lasthop_sim::handoff::Ways;
use lasthop_sim::network::{HandoffKind, LinkId, Mobility, NodeId, NodeKind, SoftState};

use super::{Plan, Point};
use crate::error::LabError;

/// Number of the routing table for packets from a station's agent, and of the rule that selects it.
const TABLE: u32 = 100;

impl<'n> Plan<'n> {
    /// Device of an agent, inside the router's namespace.
    pub const AGENT_DEVICE: &'static str = "handoff";

    /// Returns the moves of a host, if one moves.
    pub fn mobility(&self) -> Option<&'n Mobility> {
        self.network.mobility.as_ref()
    }

    /// Returns the links that are unused before the first handoff.
    pub(super) fn idle(&self) -> Vec<LinkId> {
        self.mobility().map(|mobility| mobility.others(0)).unwrap_or_default()
    }

    pub(super) fn check_mobility(&self) -> Result<(), LabError> {
        let Some(mobility) = self.mobility() else { return Ok(()) };
        let refuse = |what, instead| Err(LabError::Unsupported { what, name: self.scheme.name.to_owned(), instead });
        let at_stations = self.gateways().into_iter().filter(|(point, _)| self.cells().contains(point));
        for (_, element) in at_stations {
            if element.role() == Role::Relay {
                let instead = "the kernel's connections cannot move; set lab.endpoints = \"own\", or use `lasthop run`";
                return refuse("split connections of a mobile host", instead);
            }
            if element.get::<Snoop>().is_some() && mobility.soft_state == SoftState::Mirrored {
                let instead = "gateways do not mirror their caches; use \"lost\", or `lasthop run`";
                return refuse("mobility.soft_state = \"mirrored\"", instead);
            }
        }
        Ok(())
    }

    /// Returns each station's end of its link to the host.
    pub fn cells(&self) -> Vec<Point> {
        let mobility = self.mobility().into_iter();
        let cell = |mobility: &'n Mobility, link| self.point_at(mobility.routers(self.network), link);
        mobility.flat_map(|mobility| mobility.stations.iter().map(move |link| cell(mobility, link))).collect()
    }

    fn point_at(&self, mut routers: impl Iterator<Item = NodeId>, link: &LinkId) -> Point {
        let first = 2 * link.0;
        if routers.any(|router| router == self.node(first)) { first } else { first + 1 }
    }

    /// Returns the routers with an agent: those of the stations, in their order, and with multicast those that send
    /// copies in several directions.
    pub fn agents(&self) -> Vec<NodeId> {
        let Some(mobility) = self.mobility() else { return Vec::new() };
        let mut agents: Vec<NodeId> = mobility.routers(self.network).collect();
        if mobility.kind == HandoffKind::Multicast {
            let forks = Ways::of_legs(self.network).map(|ways| ways.forks(self.network)).unwrap_or_default();
            agents.extend(forks.iter().filter(|fork| fork.station.is_none()).map(|fork| fork.node));
        }
        agents
    }

    /// Returns the number of devices of the emulated links: one for each end of a link, followed by one for each agent.
    pub fn ports(&self) -> usize {
        self.points() + self.agents().len()
    }

    /// Returns the port of the agent at a router.
    pub(super) fn agent_port(&self, node: NodeId) -> Option<usize> {
        let agent = self.agents().into_iter().position(|agent| agent == node)?;
        Some(self.points() + agent)
    }

    /// Returns all devices of a node that are connected to the emulated links.
    pub fn devices_of(&self, node: NodeId) -> Vec<String> {
        let agent = self.agent_port(node).map(|_| Self::AGENT_DEVICE.to_owned());
        self.points_of(node).map(Self::device).chain(agent).collect()
    }

    /// Returns the addresses of the moving host.
    pub fn moving_addresses(&self) -> Vec<Ipv4Addr> {
        let host = self.mobility().map(|mobility| mobility.host);
        host.into_iter().flat_map(|host| self.addresses_of(host)).collect()
    }

    /// Returns the addresses of a node.
    pub fn addresses_of(&self, node: NodeId) -> Vec<Ipv4Addr> {
        [Some(Self::address(node)), self.second_address(node)].into_iter().flatten().collect()
    }

    /// Returns the address that replaces the host's in packets in a tunnel to a station: 10.2.0.1 for 10.0.0.N at the
    /// first. So tunnels are ordinary routes, and add no header.
    pub fn care_of(station: usize, address: Ipv4Addr) -> Ipv4Addr {
        let [ten, kind, ..] = address.octets();
        let [high, low] = (station as u16 + 1).to_be_bytes();
        Ipv4Addr::new(ten, kind + 2, high, low)
    }

    /// Returns `ip` commands that create the agents' devices, for the links' namespace. `namespaces` lists the names of
    /// the nodes' namespaces.
    pub(super) fn agent_devices(&self, namespaces: &[&str]) -> Vec<String> {
        let mtu = self.mtu();
        let make = |(index, node): (usize, NodeId)| {
            let (near, far) = (Self::AGENT_DEVICE, Self::far_device(self.points() + index));
            let (node, address) = (namespaces[node.0], Self::hardware_address(self.points() + index));
            [
                format!("link add {far} mtu {mtu} type veth peer name {near} address {address} mtu {mtu} netns {node}"),
                format!("link set {far} up"),
            ]
        };
        self.agents().into_iter().enumerate().flat_map(make).collect()
    }

    /// Returns `ip` commands for tunnels through a node, and for an agent at it. Packets from a station's agent, or
    /// from the router itself, go into the cell regardless of routes.
    pub(super) fn agent_lines(&self, node: NodeId) -> Vec<String> {
        let Some(mobility) = self.mobility().filter(|_| self.network.nodes[node.0].kind == NodeKind::Router) else {
            return Vec::new();
        };
        let device = Self::AGENT_DEVICE;
        let mut lines = Vec::new();
        let neighbour = |address: Ipv4Addr| {
            // The other end accepts all frames.
            format!("neigh add {address} lladdr {} dev {device} nud permanent", Self::hardware_address(self.ports()))
        };
        if self.agent_port(node).is_some() {
            lines.push(format!("link set {device} up"));
            lines.extend(self.moving_addresses().into_iter().map(neighbour));
        }
        let hops = self.next_hops(node);
        for (station, router) in mobility.routers(self.network).enumerate() {
            for address in self.moving_addresses() {
                let care_of = Self::care_of(station, address);
                if router == node {
                    let cell = self.cells()[station];
                    let (via, link) = (Self::address(mobility.host), Self::device(cell));
                    lines.push(neighbour(care_of));
                    lines.push(format!("route add {care_of}/32 dev {device}"));
                    lines.push(format!("route add {address}/32 via {via} dev {link} onlink table {TABLE}"));
                } else if let Some(&point) = hops.get(&router.0) {
                    let (via, link) = (Self::address(self.node(point ^ 1)), Self::device(point));
                    lines.push(format!("route add {care_of}/32 via {via} dev {link} onlink"));
                }
            }
            if router == node {
                // Packets that the gateway originates belong in this cell as well.
                lines.extend([device, "lo"].map(|from| format!("rule add iif {from} lookup {TABLE} pref {TABLE}")));
            }
        }
        lines
    }

    /// Returns kernel parameters of a node: replies may leave through another cell, or link of a bundle, than that of the
    /// request.
    pub(super) fn moving_sysctls(&self) -> Vec<(&'static str, String)> {
        let keys =
            ["net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter", "net/ipv4/conf/default/send_redirects"];
        let keys = keys.into_iter().filter(|_| self.mobility().is_some() || self.is_mptcp());
        keys.map(|key| (key, "0".to_owned())).collect()
    }
}
