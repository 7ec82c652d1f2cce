use std::sync::Arc;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::node::Node;
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::*;
use crate::element::{AnyElement, Element, Role, Site};
use crate::network::{
    App, DamagedFrames, DirectionSpec, ElementSpec, FlowSpec, Impairments, LinkSpec, Medium, NodeSpec, QueueLimit, Rate,
};

/// An element of which only the place matters.
#[derive(PartialEq, Debug)]
struct Nothing;

impl Element for Nothing {
    fn kind(&self) -> &'static str {
        "nothing"
    }

    fn role(&self) -> Role {
        Role::Marker
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        unimplemented!("no packet is sent")
    }

    fn describe(&self) -> String {
        String::new()
    }
}

/// A network as a graph: links, forwarding nodes, elements and flows.
#[derive(Clone, Debug)]
struct Shape {
    routers: Vec<bool>,
    links: Vec<[usize; 2]>,
    /// Link, and index of the link's end.
    elements: Vec<(usize, usize)>,
    flows: Vec<[usize; 2]>,
}

fn network(shape: &Shape) -> Network {
    let tcp = Arc::new(TcpConfig::preset(Preset::Rfc));
    let direction = || DirectionSpec {
        rate: Rate(1_000_000),
        queue: QueueLimit::Packets(10).into(),
        errors: ErrorSpec::None,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    };
    let kind = |&router: &bool| if router { NodeKind::Router } else { NodeKind::Host };
    Network {
        nodes: shape.routers.iter().map(|router| NodeSpec { name: "node".to_owned(), kind: kind(router) }).collect(),
        links: shape
            .links
            .iter()
            .map(|ends| LinkSpec {
                name: "link".to_owned(),
                ends: ends.map(NodeId),
                medium: Medium::Duplex,
                delay: Duration::ZERO,
                directions: [direction(), direction()],
            })
            .collect(),
        bundles: Vec::new(),
        elements: shape
            .elements
            .iter()
            .map(|&(link, end)| ElementSpec {
                node: NodeId(shape.links[link][end]),
                link: LinkId(link),
                element: AnyElement::new(Nothing),
            })
            .collect(),
        flows: shape
            .flows
            .iter()
            .map(|&[from, to]| FlowSpec {
                name: "flow".to_owned(),
                from: NodeId(from),
                to: NodeId(to),
                start: Instant::ZERO,
                app: App::Transfer { bytes: 1, close: Switch::On },
                tcp: [tcp.clone(), tcp.clone()],
                iss: [0, 0],
                dscp: 0,
            })
            .collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO,
    }
}

fn through(shape: &Shape) -> Vec<Option<usize>> {
    let mut through = vec![None; shape.links.len() * 2];
    for (index, &(link, end)) in shape.elements.iter().enumerate() {
        through[link * 2 + end] = Some(index);
    }
    through
}

/// Returns the first hops of shortest paths, found without tables. Of paths of equal length, it takes the one that a
/// breadth-first search over the links in order finds first.
fn first_hops(shape: &Shape, node: usize, through: &[Option<usize>]) -> Vec<Hop> {
    let mut hops = vec![Hop::Nowhere; shape.routers.len()];
    hops[node] = Hop::Here;
    let mut order = vec![node];
    for place in 0.. {
        let Some(&at) = order.get(place) else { break };
        if at != node && !shape.routers[at] {
            continue;
        }
        for (link, &ends) in shape.links.iter().enumerate() {
            for end in [0, 1] {
                let far = ends[1 - end];
                if ends[end] == at && !order.contains(&far) {
                    let leg = link * 2 + end;
                    let own = through[leg].map_or(Hop::Leg(LegId(leg as u32)), |index| Hop::Element(index as u32));
                    hops[far] = if at == node { own } else { hops[at] };
                    order.push(far);
                }
            }
        }
    }
    hops
}

/// Generates trees, forests, and graphs with cycles and parallel links. Routes support all of them.
fn shape() -> impl Strategy<Value = Shape> {
    (2..24_usize).prop_flat_map(|nodes| {
        let tree = (proptest::collection::vec(any::<proptest::sample::Index>(), nodes - 1), any::<bool>()).prop_map(
            move |(parents, whole)| {
                let links = parents.iter().enumerate().map(|(child, parent)| [parent.index(child + 1), child + 1]);
                links.filter(|[parent, _]| whole || *parent % 5 > 0).collect::<Vec<_>>()
            },
        );
        let any_graph = proptest::collection::vec([0..nodes, 0..nodes], 0..2 * nodes)
            .prop_map(|links| links.into_iter().filter(|[from, to]| from != to).collect::<Vec<_>>());
        let links = prop_oneof![2 => tree, 1 => any_graph];
        let elements = proptest::collection::vec((any::<proptest::sample::Index>(), 0..2_usize), 0..4);
        let routers = proptest::collection::vec(any::<bool>(), nodes);
        let flows = proptest::collection::vec([0..nodes, 0..nodes], 1..8);
        (routers, links, elements, flows).prop_map(|(routers, links, places, flows)| {
            let mut elements: Vec<_> = if links.is_empty() {
                Vec::new()
            } else {
                places.iter().map(|(link, end)| (link.index(links.len()), *end)).collect()
            };
            elements.sort_unstable();
            elements.dedup();
            Shape { routers, links, elements, flows }
        })
    })
}

proptest! {
    #[test]
    fn routes_are_the_first_hops_of_shortest_paths(shape in shape()) {
        let through = through(&shape);
        let routes = Routes::new(&network(&shape), &through);
        for node in 0..shape.routers.len() {
            let hops = first_hops(&shape, node, &through);
            for &to in shape.flows.iter().flatten() {
                // All that is connected to a host with one link is expected behind it, also if a host is in between.
                if hops[to] != Hop::Nowhere || routes.table(NodeId(node)).is_some() {
                    prop_assert_eq!(routes.first(NodeId(node), NodeId(to)), hops[to], "from {} to {}", node, to);
                }
            }
            let forwards = shape.routers[node] || shape.elements.iter().any(|&(link, end)| shape.links[link][end] == node);
            prop_assert!(!forwards || routes.table(NodeId(node)).is_some());
            let Some(table) = routes.table(NodeId(node)) else { continue };
            for &back in &hops {
                let mut ahead = Vec::new();
                for to in shape.flows.iter().flatten() {
                    if hops[*to] != back && !ahead.contains(&hops[*to]) {
                        ahead.push(hops[*to]);
                    }
                }
                let only = if let [only] = ahead[..] { Some(only) } else { None };
                prop_assert_eq!(routes.only(table, back), only, "from {}", node);
            }
        }
    }
}
