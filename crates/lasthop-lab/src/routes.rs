//! Routes of the nodes' kernels that change while a lab runs.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use lasthop_scenario::KernelSettings;
use lasthop_sim::network::{NodeId, NodeKind};
use lasthop_sys::netlink::Socket;
use lasthop_sys::routes::{HostRoute, Interface, RouteTcp, direct};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use super::error::LabError;
use super::namespace::Namespace;
use super::plan::{Plan, Point};

/// Output of packets at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out {
    /// The link at this point.
    Link(Point),
    /// The node's agent.
    Agent,
}

/// Change of a node's route to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Node with the route.
    pub node: NodeId,
    /// Destination address.
    pub to: Ipv4Addr,
    /// New output.
    pub out: Out,
}

/// Access to the routes of all nodes' kernels.
pub struct Switchboard {
    nodes: Vec<Kernel>,
}

struct Kernel {
    socket: Socket,
    /// Device and neighbour of each point.
    links: BTreeMap<Point, (Interface, Ipv4Addr)>,
    agent: Option<Interface>,
    source: Option<Ipv4Addr>,
    tcp: Option<RouteTcp>,
}

impl Switchboard {
    /// Opens the kernels of nodes whose devices exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the devices cannot be read.
    pub fn open(plan: &Plan<'_>, namespaces: &[Namespace]) -> Result<Self, LabError> {
        let open = |(index, namespace): (usize, &Namespace)| {
            let node = NodeId(index);
            namespace.within(|| {
                let what = || LabError::system(format!("cannot read the devices of {}", namespace.name()));
                let ask = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(|error| what()(error.into()))?;
                let interface = |name: &str| match name_to_index(&ask, name) {
                    Ok(number) => Ok(Interface(number)),
                    Err(error) => Err(what()(error.into())),
                };
                let link = |point: Point| {
                    let neighbour = Plan::address(plan.node(point ^ 1));
                    Ok::<_, LabError>((point, (interface(&Plan::device(point))?, neighbour)))
                };
                let has_agent = plan.agents().contains(&node);
                Ok(Kernel {
                    socket: Socket::open(None).map_err(what())?,
                    links: plan.points_of(node).map(link).collect::<Result<_, _>>()?,
                    agent: has_agent.then(|| interface(Plan::AGENT_DEVICE)).transpose()?,
                    source: (!plan.is_own(node)).then(|| Plan::address(node)),
                    tcp: tcp(plan, node),
                })
            })
        };
        Ok(Self { nodes: namespaces.iter().enumerate().map(open).collect::<Result<_, _>>()? })
    }

    /// Applies a change.
    ///
    /// # Errors
    ///
    /// Returns errors of the kernel.
    pub fn set(&mut self, change: &Change) -> io::Result<()> {
        let Some(kernel) = self.nodes.get_mut(change.node.0) else { return Ok(()) };
        let way = match change.out {
            Out::Link(point) => kernel.links.get(&point).map(|(interface, via)| (*interface, Some(*via))),
            Out::Agent => kernel.agent.map(|interface| (interface, None)),
        };
        let Some((interface, via)) = way else { return Err(io::ErrorKind::NotFound.into()) };
        let Kernel { source, tcp, .. } = *kernel;
        direct(&mut kernel.socket, &HostRoute { to: change.to, via, interface, source, tcp })
    }
}

/// Returns the scenario's TCP settings for routes, which are equal to those of the initial routes.
fn tcp(plan: &Plan<'_>, node: NodeId) -> Option<RouteTcp> {
    let is_host = plan.network.nodes[node.0].kind == NodeKind::Host;
    let told = is_host && !plan.is_own(node) && plan.lab.settings == KernelSettings::Scenario;
    let config = plan.tcp(node).filter(|_| told)?;
    let rto_min = std::time::Duration::from_nanos(config.common.rto_min.as_nanos());
    Some(RouteTcp { rto_min, initial_window: config.common.initial_window })
}
