//! Planning of namespaces, devices, addresses and routes for a network, and the limits of the lab.

mod bundles;
mod checks;
mod moves;
mod mptcp;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::scheme::{LocalDetection, Scheme};
use lasthop_proto::tcp::config::{AckCongestion, Recovery, TcpConfig};
use lasthop_scenario::elements::{Snoop, Split};
use lasthop_scenario::{Endpoints, KernelSettings, LabSpec};
use lasthop_sim::element::{AnyElement, Role};
use lasthop_sim::network::{App, ElementSpec, FlowSpec, LinkId, Network, NodeId, NodeKind, UDP_HEADERS};
use lasthop_wire::Route;

use super::datagrams;
use super::error::LabError;
use super::kernel;

/// Port of acceptors, as in the simulator's captures.
const ACCEPTOR_PORT: u16 = 5001;
/// Port of acceptors over QUIC: that of HTTP/3.
const QUIC_PORT: u16 = 443;
/// Port of a call's acceptor: that of RTP.
const CALL_PORT: u16 = 5004;
const FIRST_INITIATOR_PORT: u16 = 40_000;
/// Bytes of the Ethernet header.
const ETHERNET: u64 = 14;
/// Capacity of a host's own queue in the lab, in full packets: more than sockets put there.
const HOST_QUEUE: u64 = 10_000;
/// Bytes of timestamps in each segment.
const TIMESTAMPS: u32 = 12;
/// Bytes of IPv4 and TCP header.
const HEADERS: u32 = 40;
/// Maximum bytes of TCP options.
const OPTIONS: u32 = 40;

/// TCP implementation of a host in a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostTcp {
    /// The kernel's TCP.
    Kernel,
    /// The kernel's Multipath TCP.
    Mptcp,
    /// lasthop's TCP, which is the simulator's.
    Own,
}

impl HostTcp {
    /// Returns the implementation's name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Mptcp => "mptcp",
            Self::Own => "own",
        }
    }
}

/// One end of a link, seen from its node: point 2k is the first end of link k, 2k + 1 the second. These are the numbers
/// of captures.
pub type Point = usize;

/// Plan of a lab for a network.
#[derive(Clone, Copy)]
pub struct Plan<'n> {
    /// Network to emulate.
    pub network: &'n Network,
    /// Scheme to run.
    pub scheme: &'n Scheme,
    /// Settings of the lab.
    pub lab: &'n LabSpec,
}

impl<'n> Plan<'n> {
    /// Checks that the lab can run `network`.
    ///
    /// # Errors
    ///
    /// Returns an error that names an unsupported feature.
    pub fn new(network: &'n Network, scheme: &'n Scheme, lab: &'n LabSpec) -> Result<Self, LabError> {
        Self { network, scheme, lab }.check_flows()?;
        Self::for_others(network, scheme, lab)
    }

    /// Checks that the lab can emulate `network` for other programs; the flows of `network` do not run.
    ///
    /// # Errors
    ///
    /// Returns an error if the network contains an element that the lab cannot emulate.
    pub fn for_others(network: &'n Network, scheme: &'n Scheme, lab: &'n LabSpec) -> Result<Self, LabError> {
        let plan = Self { network, scheme, lab };
        plan.check_links()?;
        plan.check_elements()?;
        Ok(plan)
    }

    /// Returns the scenario's choice of TCP for `node`.
    fn endpoints(&self, node: NodeId) -> Endpoints {
        // Hosts come first among the nodes.
        self.lab.endpoints.get(node.0).copied().unwrap_or(Endpoints::Auto)
    }

    /// Returns the TCP implementation of a host; `None` if no flow ends there. Routers may be ends of datagrams.
    pub fn host_tcp(&self, node: NodeId) -> Option<HostTcp> {
        if self.network.nodes[node.0].kind == NodeKind::Router {
            return None;
        }
        let config = self.tcp(node)?;
        Some(match self.endpoints(node) {
            Endpoints::Own => HostTcp::Own,
            Endpoints::Auto if kernel::beyond(config, self.lab).is_some() => HostTcp::Own,
            Endpoints::Auto | Endpoints::Kernel if self.is_mptcp() => HostTcp::Mptcp,
            Endpoints::Auto | Endpoints::Kernel => HostTcp::Kernel,
        })
    }

    /// Returns whether a host runs lasthop's TCP.
    pub fn is_own(&self, node: NodeId) -> bool {
        self.host_tcp(node) == Some(HostTcp::Own)
    }

    /// Returns all hosts with flows and all routers with relays by name, with their TCP implementations.
    pub fn ends(&self) -> Vec<(String, HostTcp)> {
        let nodes = self.network.nodes.iter().enumerate();
        let end = |index| self.host_tcp(NodeId(index)).or_else(|| self.relay_tcp(NodeId(index)));
        nodes.filter_map(|(index, node)| Some((node.name.clone(), end(index)?))).collect()
    }

    /// Returns the TCP implementation of a router's relay, if it has one.
    fn relay_tcp(&self, node: NodeId) -> Option<HostTcp> {
        let mut here = self.network.elements.iter().filter(|spec| spec.node == node);
        let relay = here.find(|spec| spec.element.role() == Role::Relay)?;
        Some(if self.is_emulated(&relay.element) { HostTcp::Own } else { HostTcp::Kernel })
    }

    /// Returns payload and TCP options of a full segment, as in `TCP_MAXSEG`: the kernel subtracts timestamps from it,
    /// whereas the scenario's `mss` is payload only.
    pub fn segment(&self, config: &TcpConfig) -> u32 {
        let timestamps = self.lab.settings == KernelSettings::Kernel || config.common.timestamps.is_on();
        config.common.mss + if timestamps { TIMESTAMPS } else { 0 }
    }

    /// Returns the MTU of all devices: that of Ethernet, unless segments are longer.
    pub fn mtu(&self) -> u32 {
        let over_tcp = self.network.flows.iter().filter(|flow| flow.app.quic().is_none());
        let ends = over_tcp.flat_map(|flow| flow.tcp.iter().zip([flow.from, flow.to]));
        let over_quic =
            self.network.flows.iter().filter_map(|flow| flow.app.quic()).map(|quic| u32::from(quic.udp_payload));
        let over_quic = over_quic.map(|payload| (payload + u32::from(UDP_HEADERS)).saturating_sub(HEADERS));
        // The scenario's `mss` is payload: lasthop's TCP needs space for any options in addition.
        let segment = |(config, node): (&Arc<TcpConfig>, NodeId)| {
            if self.is_own(node) { config.common.mss + OPTIONS } else { self.segment(config) }
        };
        let others = self.network.flows.iter().map(|flow| datagrams::longest(&flow.app).saturating_sub(HEADERS));
        let relays = self.emulated().filter_map(|(_, element)| element.endpoints());
        let relays = relays.flatten().map(|tcp| tcp.common.mss + OPTIONS);
        ends.map(segment).chain(relays).chain(over_quic).chain(others).max().unwrap_or_default().max(1500 - HEADERS)
            + HEADERS
    }

    /// Returns the TCP configuration of a host's endpoints: the first flow's, which all share. `None` if only QUIC
    /// flows end there.
    pub fn tcp(&self, node: NodeId) -> Option<&'n TcpConfig> {
        self.network.flows.iter().filter(|flow| flow.app.quic().is_none()).find_map(|flow| {
            let side = [flow.from, flow.to].iter().position(|end| *end == node)?;
            Some(&*flow.tcp[side])
        })
    }

    /// Returns the kernel's name of the congestion control of a host's endpoints: the one in `[lab]` if given.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no such congestion control: it is never replaced by another.
    pub fn congestion(&self, config: &TcpConfig) -> Result<&'n str, LabError> {
        match self.lab.congestion.as_deref() {
            Some(name) => Ok(name),
            None => kernel::congestion(config).map_err(|what| LabError::NoKernelCongestion { what }),
        }
    }

    /// Returns whether a host's endpoints use selective acknowledgments.
    pub fn sack(&self, config: &TcpConfig) -> bool {
        self.lab.sack.map_or(config.sender.recovery().uses_sack() || self.has_masks(), |sack| sack.is_on())
    }

    /// Returns whether a kernel's SACK blocks can replace the SMART numbers that the scheme needs.
    fn says_it_by_sack(&self, config: &TcpConfig) -> bool {
        self.has_masks()
            && config.receiver.smart_acks.is_on()
            && config.common.ack_congestion == AckCongestion::Off
            && matches!(config.sender.recovery(), Recovery::RENO | Recovery::NEW_RENO)
    }

    /// Returns whether the base station reads from acknowledgments which data arrived above a hole. A kernel's SACK
    /// blocks contain this as well as SMART numbers do.
    fn has_masks(&self) -> bool {
        let mut snoops = self.gateways().into_iter().filter_map(|(_, element)| element.get::<Snoop>());
        snoops.any(|Snoop(config)| config.detection == LocalDetection::Smart)
    }

    /// Returns the number of capture points.
    pub fn points(&self) -> usize {
        2 * self.network.links.len()
    }

    /// Returns the node at a point.
    pub fn node(&self, point: Point) -> NodeId {
        self.network.links[point / 2].ends[point % 2]
    }

    /// Returns the points of a node.
    pub fn points_of(&self, node: NodeId) -> impl Iterator<Item = Point> + '_ {
        (0..self.points()).filter(move |&point| self.node(point) == node)
    }

    /// Returns the name of a capture point: `NODE` for a node with a single link, otherwise `NODE:LINK`.
    pub fn point_name(&self, point: Point) -> String {
        let node = self.node(point);
        let name = &self.network.nodes[node.0].name;
        match self.points_of(node).count() {
            1 => name.clone(),
            _ => format!("{name}:{}", self.network.links[point / 2].name),
        }
    }

    /// Returns the device at a point, inside the node's namespace.
    pub fn device(point: Point) -> String {
        format!("link{}", point / 2)
    }

    /// Device of lasthop's TCP, inside the namespace of its host.
    pub const OWN_DEVICE: &'static str = "lasthop";

    /// Returns the other end of the device at a point, inside the links' namespace.
    pub fn far_device(point: Point) -> String {
        format!("point{point}")
    }

    /// Returns the hardware address at a point, as in the simulator's captures.
    pub fn hardware_address(point: Point) -> String {
        Self::hardware_bytes(point).map(|byte| format!("{byte:02x}")).join(":")
    }

    /// Returns the hardware address at a point as bytes.
    pub fn hardware_bytes(point: Point) -> [u8; 6] {
        let [high, low] = (point as u16).to_be_bytes();
        [2, 0, 0, 0, high, low]
    }

    /// Returns a node's address, as in the simulator's captures.
    pub fn address(node: NodeId) -> Ipv4Addr {
        let [high, low] = (node.0 as u16 + 1).to_be_bytes();
        Ipv4Addr::new(10, 0, high, low)
    }

    /// Returns the address of a node's kernel for QUIC and datagrams. If lasthop's TCP has the node's address, the kernel
    /// needs one of its own.
    fn udp_address(&self, node: NodeId) -> Ipv4Addr {
        let [ten, _, high, low] = Self::address(node).octets();
        if self.is_own(node) { Ipv4Addr::new(ten, 1, high, low) } else { Self::address(node) }
    }

    /// Returns the second address of a node that has one.
    fn second_address(&self, node: NodeId) -> Option<Ipv4Addr> {
        let mut over_udp = self.network.flows.iter().filter(|flow| is_over_udp(&flow.app));
        let here = self.is_own(node) && over_udp.any(|flow| [flow.from, flow.to].contains(&node));
        here.then(|| self.udp_address(node))
    }

    /// Returns the two ends of a flow: initiator, acceptor.
    pub fn flow_sockets(&self, flow: FlowId, spec: &FlowSpec) -> [SocketAddrV4; 2] {
        let port = FIRST_INITIATOR_PORT + flow.0 as u16;
        let ends = [spec.from, spec.to];
        let addresses =
            if is_over_udp(&spec.app) { ends.map(|node| self.udp_address(node)) } else { ends.map(Self::address) };
        let acceptor = match spec.app {
            App::Quic(_) => QUIC_PORT,
            App::Call(_) => CALL_PORT,
            App::Transfer { .. } | App::OnOff(_) | App::Idle | App::Web => ACCEPTOR_PORT,
        };
        [SocketAddrV4::new(addresses[0], port), SocketAddrV4::new(addresses[1], acceptor)]
    }

    /// Returns the flow and the sending end of each route of a flow.
    pub fn routes(&self) -> BTreeMap<Route, (FlowId, Side)> {
        let mut routes = BTreeMap::new();
        for (index, spec) in self.network.flows.iter().enumerate() {
            let flow = FlowId(index as u32);
            let [source, destination] = self.flow_sockets(flow, spec).map(SocketAddr::V4);
            let route = Route { source, destination };
            routes.insert(route, (flow, Side::Initiator));
            routes.insert(route.reversed(), (flow, Side::Acceptor));
        }
        routes
    }

    /// Returns the point through which `from` sends to each other node, before any handoff.
    pub fn next_hops(&self, from: NodeId) -> BTreeMap<usize, Point> {
        let idle = [self.idle(), self.network.side_links()].concat();
        let mut hops: BTreeMap<usize, Point> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        let forwards = |node: NodeId| node == from || self.network.nodes[node.0].kind == NodeKind::Router;
        while let Some(at) = open.pop_front() {
            if !forwards(at) {
                continue;
            }
            for point in self.points_of(at).filter(|point| !idle.contains(&LinkId(point / 2))) {
                let far = self.node(point ^ 1);
                if far != from && !hops.contains_key(&far.0) {
                    let first = hops.get(&at.0).copied().unwrap_or(point);
                    hops.insert(far.0, first);
                    open.push_back(far);
                }
            }
        }
        hops
    }

    /// Returns the addresses of the hosts that are reached through a point.
    pub fn hosts_beyond(&self, point: Point) -> Vec<Ipv4Addr> {
        if self.cells().contains(&point) {
            return vec![Self::address(self.node(point ^ 1))];
        }
        let hops = self.next_hops(self.node(point));
        let beyond = hops.into_iter().filter(|(_, through)| *through == point).map(|(node, _)| NodeId(node));
        beyond.filter(|node| self.network.nodes[node.0].kind == NodeKind::Host).map(Self::address).collect()
    }

    /// Returns the points through which a flow's data leaves each node on its path, in order.
    pub fn path(&self, spec: &FlowSpec) -> Vec<Point> {
        let mut path = Vec::new();
        let mut at = spec.from;
        while at != spec.to && path.len() < self.network.nodes.len() {
            let Some(&point) = self.next_hops(at).get(&spec.to.0) else { break };
            path.push(point);
            at = self.node(point ^ 1);
        }
        path
    }

    /// Returns `ip` commands that create all veth pairs, for the links' namespace. `namespaces` lists the names of the
    /// nodes' namespaces.
    pub fn devices(&self, namespaces: &[&str]) -> Vec<String> {
        let mtu = self.mtu();
        let make = |point: Point| {
            let (near, far) = (Self::device(point), Self::far_device(point));
            let (node, address) = (namespaces[self.node(point).0], Self::hardware_address(point));
            [
                format!("link add {far} mtu {mtu} type veth peer name {near} address {address} mtu {mtu} netns {node}"),
                format!("link set {far} up"),
            ]
        };
        (0..self.points()).flat_map(make).chain(self.agent_devices(namespaces)).collect()
    }

    /// Returns `ip` commands that set a node's addresses, neighbours and routes. Neighbours are permanent, so that only
    /// the flows' packets cross the links. If lasthop's TCP is the host, its device already exists and the kernel has
    /// no address: it forwards between that device and the links, and does not answer itself.
    pub fn addresses(&self, node: NodeId) -> Vec<String> {
        let own = Self::address(node);
        let mut lines = vec!["link set lo up".to_owned()];
        let is_host = self.network.nodes[node.0].kind == NodeKind::Host;
        let is_own = self.is_own(node);
        if is_own {
            lines.push(format!("link set {} up", Self::OWN_DEVICE));
            lines.push(format!("route add {own}/32 dev {}", Self::OWN_DEVICE));
        }
        for (index, point) in self.points_of(node).enumerate() {
            let (device, far) = (Self::device(point), point ^ 1);
            let (neighbour, hardware) = (Self::address(self.node(far)), Self::hardware_address(far));
            lines.push(format!("link set {device} up"));
            if index == 0 && !is_own {
                lines.push(format!("addr add {own}/32 dev {}", if is_host { &device } else { "lo" }));
            }
            if let Some(second) = self.second_address(node).filter(|_| index == 0) {
                lines.push(format!("addr add {second}/32 dev {device}"));
            }
            lines.push(format!("neigh add {neighbour} lladdr {hardware} dev {device} nud permanent"));
        }
        let source = if is_own { String::new() } else { format!(" src {own}") };
        let metrics = if is_host && !is_own { self.route_metrics(node) } else { String::new() };
        for (to, point) in self.next_hops(node) {
            let to = NodeId(to);
            let by_line = self.line_addresses(to).into_iter();
            let by_line = by_line.map(|(line, address)| (address, self.line_point(node, point, line)));
            for (to, point) in self.addresses_of(to).into_iter().map(|address| (address, point)).chain(by_line) {
                let (via, device) = (Self::address(self.node(point ^ 1)), Self::device(point));
                lines.push(format!("route add {to}/32 via {via} dev {device} onlink{source}{metrics}"));
            }
        }
        lines.extend(self.agent_lines(node));
        lines.extend(self.line_commands(node));
        lines
    }

    /// Returns `tc` commands that expose the rates of a host's links to its sockets. A veth device accepts any packet
    /// at once, so the kernel could not limit the host's queue (TCP small queues, a UDP socket's send buffer), and the
    /// emulated link would drop packets that a real host holds back. Links count IP packets, so the Ethernet header is
    /// subtracted.
    pub fn host_queues(&self, node: NodeId) -> Vec<String> {
        if self.network.nodes[node.0].kind != NodeKind::Host || self.is_own(node) {
            return Vec::new();
        }
        // A token bucket has a constant rate. If the link's varies, only the emulated link limits the traffic.
        let constant = |point: &Point| !self.network.links[point / 2].directions[point % 2].impairments.rate.varies();
        let shaper = |point: Point| {
            let rate = self.network.links[point / 2].directions[point % 2].rate.0;
            let packet = u64::from(self.mtu()) + ETHERNET;
            // As much as is sent while a timer of the kernel is late.
            let burst = (rate / 8 / 1000).max(2 * packet);
            let limit = packet * HOST_QUEUE;
            let device = Self::device(point);
            if self.segments(node) {
                return Vec::from(Self::whole_queue(&device, rate, [burst, limit]));
            }
            vec![format!(
                "qdisc add dev {device} root stab overhead -{ETHERNET} linklayer ethernet tbf rate {rate}bit burst {burst} limit {limit}"
            )]
        };
        self.points_of(node).filter(constant).flat_map(shaper).collect()
    }

    /// Returns the parts of the scenario's TCP that a route can set.
    fn route_metrics(&self, node: NodeId) -> String {
        match self.tcp(node) {
            Some(config) if self.lab.settings == KernelSettings::Scenario => {
                let rto_min = config.common.rto_min.as_nanos().div_ceil(1_000_000).max(1);
                format!(" rto_min {rto_min}ms initcwnd {}", config.common.initial_window)
            }
            _ => String::new(),
        }
    }

    /// Returns kernel parameters that keep a namespace from sending unsolicited packets.
    pub fn quiet(&self) -> Vec<(&'static str, String)> {
        let keys = ["net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6"];
        let has_ipv6 = std::path::Path::new("/proc/sys/net/ipv6").exists();
        keys.into_iter().filter(|_| has_ipv6).map(|key| (key, "1".to_owned())).collect()
    }

    /// Returns kernel parameters of a node.
    pub fn sysctls(&self, node: NodeId) -> Vec<(&'static str, String)> {
        let mut values = self.quiet();
        if self.network.nodes[node.0].kind == NodeKind::Router || self.is_own(node) {
            values.push(("net/ipv4/ip_forward", "1".to_owned()));
            values.push(("net/ipv4/conf/all/send_redirects", "0".to_owned()));
        }
        values.extend(self.moving_sysctls());
        let Some(config) = self.tcp(node).filter(|_| !self.is_own(node)) else { return values };
        // Runs must not use metrics of earlier ones.
        values.push(("net/ipv4/tcp_no_metrics_save", "1".to_owned()));
        values.push(("net/ipv4/tcp_sack", u8::from(self.sack(config)).to_string()));
        values.extend(kernel::always(config));
        if self.lab.settings == KernelSettings::Scenario {
            values.extend(kernel::sysctls(config));
        }
        values
    }

    /// Returns the gateway's elements at the base station; with a moving host, at each of its stations.
    pub fn gateways(&self) -> Vec<(Point, &'n AnyElement)> {
        self.elements().filter(|(_, element)| !self.is_emulated(element)).collect()
    }

    /// Returns the elements that the emulated links implement at their ends.
    pub fn emulated(&self) -> impl Iterator<Item = (Point, &'n AnyElement)> + '_ {
        self.elements().filter(|(_, element)| self.is_emulated(element))
    }

    /// Returns the routers whose relays terminate connections, in the gateway or at an emulated link.
    pub fn relays(&self) -> Vec<NodeId> {
        let relays = self.elements().filter(|(_, element)| element.role() == Role::Relay);
        relays.map(|(point, _)| self.node(point)).collect()
    }

    /// Returns all elements except those that are part of another: the snoop beneath a relay belongs to the same
    /// gateway.
    fn elements(&self) -> impl Iterator<Item = (Point, &'n AnyElement)> + '_ {
        let point = |spec: &ElementSpec| self.points_of(spec.node).find(|point| point / 2 == spec.link.0);
        let repaired: Vec<_> = self.network.elements.iter().filter(|spec| is_repaired(&spec.element)).collect();
        let is_part = move |spec: &ElementSpec| {
            spec.element.get::<Snoop>().is_some()
                && repaired.iter().any(|relay| (relay.node, relay.link) == (spec.node, spec.link))
        };
        let whole = self.network.elements.iter().filter(move |spec| !is_part(spec));
        whole.filter_map(move |spec| Some((point(spec)?, &spec.element)))
    }

    /// Returns whether an element is not the gateway's: ELN markers, pacers, link protocols, and relays with lasthop's
    /// TCP.
    fn is_emulated(&self, element: &AnyElement) -> bool {
        match element.role() {
            Role::Marker | Role::Pacer | Role::LinkEnd => true,
            Role::Relay => self.lab.relays == Endpoints::Own || kernel::beyond_relays(element).is_some(),
            Role::Repair | Role::DatagramRepair => false,
        }
    }
}

/// Returns whether an application uses UDP.
const fn is_over_udp(app: &App) -> bool {
    matches!(app, App::Quic(_) | App::OnOff(_) | App::Call(_))
}

/// Returns whether an element is a relay beneath which the gateway repairs.
fn is_repaired(element: &AnyElement) -> bool {
    element.get::<Split>().is_some_and(|split| split.repair.is_on())
}
