//! What there is to simulate, as plain data: hosts, routers, links, elements and flows.

use std::sync::Arc;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::packet::{FlowId, Side};
pub use lasthop_proto::queue::{QueueLimit, QueueSpec};
use lasthop_proto::tcp::config::{EcnMode, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};

pub use lasthop_quic::{
    CongestionControl, Exchange, LARGEST_UDP_PAYLOAD, QuicConfig, SMALLEST_UDP_PAYLOAD, Task, UDP_HEADERS,
};

use crate::apps::{CallConfig, OnOffConfig, WebConfig};
use crate::element::AnyElement;
pub use crate::handoff::{HandoffKind, LinkSession, Mobility, Moves, SoftState};
pub use crate::link_spec::{DamagedFrames, DirectionSpec, Impairments, LinkId, LinkSpec, Medium, NodeId, Rate};

/// Everything that a run simulates. Hosts, routers and links form a tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// Hosts and routers.
    pub nodes: Vec<NodeSpec>,
    /// What joins them.
    pub links: Vec<LinkSpec>,
    /// What sits on nodes' ports. Of several on the same port, the first is nearest the node.
    pub elements: Vec<ElementSpec>,
    /// Who talks to whom.
    pub flows: Vec<FlowSpec>,
    /// Who browses the web, over which of the flows.
    pub sessions: Vec<SessionSpec>,
    /// The host that moves among base stations, if one does. Without its links but one, the links form a tree.
    pub mobility: Option<Mobility>,
    /// The run ends here at the latest; earlier when every flow has finished.
    pub limit: Instant,
}

impl Network {
    /// What a link carries away from one of its ends.
    pub fn rate_from(&self, node: NodeId, link: LinkId) -> Rate {
        let link = &self.links[link.0];
        link.directions[usize::from(link.ends[0] != node)].rate
    }

    /// Whether a queue takes out acknowledgments that later ones make superfluous.
    pub fn filters(&self) -> bool {
        self.links.iter().flat_map(|link| &link.directions).any(|direction| direction.queue.filters())
    }

    /// Whether an element makes acknowledgments that a return link took.
    pub fn reconstructs(&self) -> bool {
        self.elements.iter().any(|spec| spec.element.reconstructs())
    }

    /// Whether the delay of a link varies: by a process, with its rate, by aggregation, or by turning a radio round.
    pub fn varies(&self) -> bool {
        let turns = |link: &LinkSpec| matches!(link.medium, Medium::HalfDuplex { turnaround, .. } if turnaround > Duration::ZERO);
        let varies = |link: &LinkSpec| {
            link.directions.iter().any(|direction| direction.variation.varies() || direction.impairments.vary())
        };
        self.links.iter().any(|link| turns(link) || varies(link))
    }

    /// Links on the way from one node to another, in order, each with the direction in which it is crossed (0: down, 1: up); none where no
    /// way leads there.
    pub fn way(&self, from: NodeId, to: NodeId) -> Vec<(LinkId, usize)> {
        let mut came_by: Vec<Option<LinkId>> = vec![None; self.nodes.len()];
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.ends.contains(&node)) {
                let other = if link.ends[0] == node { link.ends[1] } else { link.ends[0] };
                if other != from && came_by[other.0].is_none() {
                    came_by[other.0] = Some(LinkId(index));
                    open.push(other);
                }
            }
        }
        let (mut at, mut way) = (to, Vec::new());
        while let Some(link) = came_by[at.0].filter(|_| at != from) {
            let direction = usize::from(self.links[link.0].ends[0] == at);
            way.push((link, direction));
            at = self.links[link.0].ends[direction];
        }
        way.reverse();
        way
    }

    /// Whether a link on the way between two nodes loses or damages frames of itself, in either direction.
    pub fn is_lossy_between(&self, from: NodeId, to: NodeId) -> bool {
        let is_lossy = |link: &LinkSpec| link.directions.iter().any(|direction| direction.errors != ErrorSpec::None);
        self.way(from, to).into_iter().any(|(link, _)| is_lossy(&self.links[link.0]))
    }

    /// Whether a link may deliver a frame twice.
    pub fn duplicates(&self) -> bool {
        self.links.iter().flat_map(|link| &link.directions).any(|direction| direction.impairments.duplicates > 0.0)
    }

    /// Whether an element says of lost segments what took them.
    pub fn judges_losses(&self) -> bool {
        self.elements.iter().any(|spec| spec.element.judges_losses())
    }

    /// Whether a packet may be marked (RFC 3168): a queue marks, and the host that opens a flow, or the relay of a split
    /// connection, offers ECN.
    pub fn may_mark(&self) -> bool {
        let marks = |link: &LinkSpec| link.directions.iter().any(|direction| direction.queue.marks());
        let offers = |config: &TcpConfig| config.ecn == EcnMode::On;
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
    /// Its name in the scenario.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node does with packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Ends flows.
    Host,
    /// Forwards them.
    Router,
}

/// Something that sits between a node and one of its links.
#[derive(Clone, PartialEq, Debug)]
pub struct ElementSpec {
    /// The node: a router, or for one end of a link protocol also a host.
    pub node: NodeId,
    /// The link: the element's wireless side. Its wired side is the node.
    pub link: LinkId,
    /// What it is.
    pub element: AnyElement,
}

/// A flow between two hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSpec {
    /// Its name in the scenario.
    pub name: String,
    /// The host that opens it.
    pub from: NodeId,
    /// The host that accepts it.
    pub to: NodeId,
    /// When it starts.
    pub start: Instant,
    /// What it does.
    pub app: App,
    /// The two endpoints: `from`'s, `to`'s.
    pub tcp: [Arc<TcpConfig>; 2],
    /// First sequence numbers of the two endpoints.
    pub iss: [u32; 2],
}

/// What a flow's application does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum App {
    /// The initiator sends so many bytes.
    Transfer {
        /// Payload bytes.
        bytes: u64,
        /// Whether it closes the connection behind them; without, the transfer is over when all bytes are acknowledged.
        close: Switch,
    },
    /// Opens a connection and sends nothing.
    Idle,
    /// The initiator sends datagrams while it is on and nothing while it is off. Never over; keeps no run alive.
    OnOff(OnOffConfig),
    /// The initiator sends a call's packets. Never over; keeps no run alive.
    Call(CallConfig),
    /// One direction of a pair of connections of a web session, opened anew for each transfer.
    Web,
    /// A QUIC connection. The endpoints' TCP configuration says no more than whether headers count.
    Quic(QuicConfig),
}

impl App {
    /// Whether it has a beginning and an end that measures count: a transfer, or what QUIC transfers.
    pub const fn is_transfer(&self) -> bool {
        matches!(self, Self::Transfer { .. } | Self::Quic(_))
    }

    /// Its QUIC connection, if it has one.
    pub const fn quic(&self) -> Option<&QuicConfig> {
        match self {
            Self::Quic(config) => Some(config),
            Self::Transfer { .. } | Self::Idle | Self::OnOff(_) | Self::Call(_) | Self::Web => None,
        }
    }

    /// Whether it goes on to the end of the run, and keeps none going.
    pub const fn is_endless(&self) -> bool {
        matches!(self, Self::OnOff(_) | Self::Call(_) | Self::Web)
    }

    /// The side at which what the flow delivers is counted: the initiator gets the responses to its requests, in all else the
    /// acceptor gets what the initiator sends.
    pub const fn counted_at(&self) -> Side {
        match self {
            Self::Quic(QuicConfig { task: Task::Exchange(_), .. }) => Side::Initiator,
            _ => Side::Acceptor,
        }
    }
}

/// A user who browses the web: flows with [`App::Web`], told what to transfer.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionSpec {
    /// Its name in the scenario.
    pub name: String,
    /// When the user begins. A session never ends: its run does at the limit.
    pub start: Instant,
    /// How the pages are fetched.
    pub web: WebConfig,
    /// Whether a flow on which a SYN was lost once begins all later transfers with a window of one segment, as ns-2's
    /// agents do.
    pub syn_loss_memory: Switch,
    /// Per pair of connections: the flow of the requests, and that of the replies.
    pub pairs: Vec<[FlowId; 2]>,
}
