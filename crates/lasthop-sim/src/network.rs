//! Configuration of the network to simulate: hosts, routers, links, elements and flows.

use std::sync::Arc;

pub use lasthop_proto::channel::DamagedFrames;
use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::link::hybrid::Terms;
use lasthop_proto::packet::{FlowId, Side};
pub use lasthop_proto::queue::{QueueLimit, QueueSpec};
pub use lasthop_proto::rate::Rate;
use lasthop_proto::tcp::config::{EcnMode, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};

pub use lasthop_quic::{
    CongestionControl, Exchange, LARGEST_UDP_PAYLOAD, QuicConfig, SMALLEST_UDP_PAYLOAD, Task, UDP_HEADERS,
};

use crate::apps::{CallConfig, OnOffConfig, WebConfig};
use crate::element::AnyElement;
pub use crate::handoff::{HandoffKind, LinkSession, Mobility, Moves, SoftState};
pub use crate::link_spec::{CellLink, DirectionSpec, Impairments, LinkId, LinkSpec, Medium, NodeId, WifiLink};
use crate::routes;

/// A network to simulate. Packets are routed over the fewest links, and over the first link of each bundle.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// Hosts and routers.
    pub nodes: Vec<NodeSpec>,
    /// Links between nodes.
    pub links: Vec<LinkSpec>,
    /// Groups of links between the same two routers.
    pub bundles: Vec<Bundle>,
    /// Elements on ports of nodes. Of several on the same port, the first is nearest to the node.
    pub elements: Vec<ElementSpec>,
    /// Flows between hosts.
    pub flows: Vec<FlowSpec>,
    /// Web sessions over some of the flows.
    pub sessions: Vec<SessionSpec>,
    /// The host that moves among base stations, if any. Packets to and from it take one of its links.
    pub mobility: Option<Mobility>,
    /// Latest end of the run. The run ends earlier if every flow has finished.
    pub limit: Instant,
}

/// Links between the same two routers. Packets are routed over the first one; an element at its end may use the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// Links, at least one.
    pub links: Vec<LinkId>,
    /// Terms on which an element uses each link.
    pub terms: Vec<Terms>,
}

impl Network {
    /// Returns the links of bundles over which no packets are routed.
    pub fn side_links(&self) -> Vec<LinkId> {
        self.bundles.iter().flat_map(|bundle| bundle.links.iter().skip(1).copied()).collect()
    }

    /// Returns the links that an element uses besides its own: those of its bundle, if it uses several.
    pub fn more_links(&self, spec: &ElementSpec) -> &[LinkId] {
        self.bundle(spec).map_or(&[], |bundle| &bundle.links[1..])
    }

    /// Returns the terms on which an element uses the links of its bundle, starting with its own.
    pub fn terms(&self, spec: &ElementSpec) -> &[Terms] {
        self.bundle(spec).map_or(&[], |bundle| &bundle.terms)
    }

    /// Returns the bundle whose links an element uses, if it uses several.
    fn bundle(&self, spec: &ElementSpec) -> Option<&Bundle> {
        let own = |bundle: &&Bundle| spec.element.uses_bundle() && bundle.links.first() == Some(&spec.link);
        self.bundles.iter().find(own)
    }

    /// Returns the rate of a link in the direction away from one of its ends.
    pub fn rate_from(&self, node: NodeId, link: LinkId) -> Rate {
        let link = &self.links[link.0];
        link.directions[usize::from(link.ends[0] != node)].rate
    }

    /// Returns whether a queue removes acknowledgments that later ones replace.
    pub fn filters(&self) -> bool {
        self.links.iter().flat_map(|link| &link.directions).any(|direction| direction.queue.filters())
    }

    /// Returns whether an element recreates acknowledgments that a return link removed.
    pub fn reconstructs(&self) -> bool {
        self.elements.iter().any(|spec| spec.element.reconstructs())
    }

    /// Returns whether the delay of a link varies: by a process, its rate, aggregation, or the turnaround of a radio.
    pub fn varies(&self) -> bool {
        let turns = |link: &LinkSpec| matches!(link.medium, Medium::HalfDuplex { turnaround, .. } if turnaround > Duration::ZERO);
        let varies = |link: &LinkSpec| {
            link.directions.iter().any(|direction| direction.variation.varies() || direction.impairments.vary())
        };
        self.links.iter().any(|link| turns(link) || varies(link))
    }

    /// Returns the links on the path of packets from one node to another, in order, each with its direction (0: down, 1:
    /// up); empty if there is no path.
    pub fn way(&self, from: NodeId, to: NodeId) -> Vec<(LinkId, usize)> {
        routes::way(self, from, to)
    }

    /// Returns whether a link on the path between two nodes has an error model, in either direction.
    pub fn is_lossy_between(&self, from: NodeId, to: NodeId) -> bool {
        let is_lossy = |link: &LinkSpec| link.directions.iter().any(|direction| direction.errors != ErrorSpec::None);
        self.way(from, to).into_iter().any(|(link, _)| is_lossy(&self.links[link.0]))
    }

    /// Returns whether a link may deliver a frame twice.
    pub fn duplicates(&self) -> bool {
        self.links.iter().flat_map(|link| &link.directions).any(|direction| direction.impairments.duplicates > 0.0)
    }

    /// Returns whether an element reports the causes of losses.
    pub fn judges_losses(&self) -> bool {
        self.elements.iter().any(|spec| spec.element.judges_losses())
    }

    /// Returns whether packets may be marked (RFC 3168): a queue or element marks, and the initiator of a flow or the
    /// relay of a split connection offers ECN.
    pub fn may_mark(&self) -> bool {
        let marks = |link: &LinkSpec| link.directions.iter().any(|direction| direction.queue.marks());
        let offers =
            |config: &TcpConfig| matches!(config.common.ecn, EcnMode::On | EcnMode::Accurate | EcnMode::AccurateAccept);
        let relay =
            |spec: &ElementSpec| spec.element.endpoints().is_some_and(|ends| ends.into_iter().any(|end| offers(end)));
        let is_offered = || self.flows.iter().any(|flow| offers(&flow.tcp[0])) || self.elements.iter().any(relay);
        let inside = self.elements.iter().any(|spec| spec.element.marks());
        (inside || self.links.iter().any(marks)) && is_offered()
    }
}

/// A host or a router.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeSpec {
    /// Name in the scenario.
    pub name: String,
    /// Kind of node.
    pub kind: NodeKind,
}

/// Handling of packets by a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Ends flows.
    Host,
    /// Forwards packets.
    Router,
}

/// An element between a node and one of its links.
#[derive(Clone, PartialEq, Debug)]
pub struct ElementSpec {
    /// The node: a router, or also a host for an end of a link protocol.
    pub node: NodeId,
    /// The link, on the element's wireless side. The node is on its wired side.
    pub link: LinkId,
    /// Kind and parameters.
    pub element: AnyElement,
}

/// A flow between two hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSpec {
    /// Name in the scenario.
    pub name: String,
    /// Host that opens the flow.
    pub from: NodeId,
    /// Host that accepts the flow.
    pub to: NodeId,
    /// Start time.
    pub start: Instant,
    /// Application.
    pub app: App,
    /// Configurations of the two endpoints: `from`'s, `to`'s.
    pub tcp: [Arc<TcpConfig>; 2],
    /// Initial sequence numbers of the two endpoints.
    pub iss: [u32; 2],
    /// DSCP of the flow's packets (RFC 2474), in both directions.
    pub dscp: u8,
}

/// Application of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum App {
    /// Sends data from the initiator.
    Transfer {
        /// Payload bytes.
        bytes: u64,
        /// Indicates whether the application closes the connection afterwards. If not, the transfer ends when all bytes
        /// are acknowledged.
        close: Switch,
    },
    /// Opens a connection and sends nothing.
    Idle,
    /// Sends datagrams from the initiator during on periods. Never finishes, and does not keep a run going.
    OnOff(OnOffConfig),
    /// Sends a call's packets from the initiator. Never finishes, and does not keep a run going.
    Call(CallConfig),
    /// Serves as one direction of a pair of connections of a web session, reopened for each transfer.
    Web,
    /// Runs over a QUIC connection. The endpoints' TCP configuration only determines whether headers count.
    Quic(QuicConfig),
}

impl App {
    /// Returns whether the application has a beginning and an end: a TCP or QUIC transfer.
    pub const fn is_transfer(&self) -> bool {
        matches!(self, Self::Transfer { .. } | Self::Quic(_))
    }

    /// Returns the application's QUIC configuration, if it uses QUIC.
    pub const fn quic(&self) -> Option<&QuicConfig> {
        match self {
            Self::Quic(config) => Some(config),
            Self::Transfer { .. } | Self::Idle | Self::OnOff(_) | Self::Call(_) | Self::Web => None,
        }
    }

    /// Returns whether the application continues to the end of the run, without keeping the run going.
    pub const fn is_endless(&self) -> bool {
        matches!(self, Self::OnOff(_) | Self::Call(_) | Self::Web)
    }

    /// Returns the side at which delivered bytes are counted: the initiator for responses to its requests, otherwise
    /// the acceptor.
    pub const fn counted_at(&self) -> Side {
        match self {
            Self::Quic(QuicConfig { task: Task::Exchange(_), .. }) => Side::Initiator,
            _ => Side::Acceptor,
        }
    }
}

/// A user who browses the web over flows with [`App::Web`].
#[derive(Clone, PartialEq, Debug)]
pub struct SessionSpec {
    /// Name in the scenario.
    pub name: String,
    /// Start of the session. It never finishes; the run ends at its limit.
    pub start: Instant,
    /// Parameters of fetching pages.
    pub web: WebConfig,
    /// Indicates whether a flow that has lost a SYN starts all later transfers with a window of one segment, as ns-2's
    /// agents do.
    pub syn_loss_memory: Switch,
    /// Flows of each pair of connections: requests, replies.
    pub pairs: Vec<[FlowId; 2]>,
}
