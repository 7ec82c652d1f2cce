//! Links of bundles: packets are routed over the first one, and an element at its end may use the others.

use lasthop_proto::link::hybrid::Terms;
use lasthop_sim::network::{ElementSpec, LinkId, NodeId};

use super::{Plan, Point};

impl Plan<'_> {
    /// Returns the points of the other links that an element at `point` uses, in the order of its ports.
    pub fn side_points(&self, point: Point) -> Vec<Point> {
        let links = self.elements_at(point).flat_map(|spec| self.network.more_links(spec));
        links.filter_map(|link| self.point_of(self.node(point), *link)).collect()
    }

    /// Returns the terms on which an element at `point` uses the links of its bundle, starting with its own.
    pub fn terms(&self, point: Point) -> Vec<Terms> {
        self.elements_at(point).flat_map(|spec| self.network.terms(spec)).copied().collect()
    }

    fn elements_at(&self, point: Point) -> impl Iterator<Item = &ElementSpec> {
        let here = (self.node(point), LinkId(point / 2));
        self.network.elements.iter().filter(move |spec| (spec.node, spec.link) == here)
    }

    /// Returns whether packets are routed over the link at `point`, in contrast to further links of a bundle.
    pub fn is_routed(&self, point: Point) -> bool {
        !self.network.side_links().contains(&LinkId(point / 2))
    }

    /// Returns a node's end of a link.
    pub(super) fn point_of(&self, node: NodeId, link: LinkId) -> Option<Point> {
        self.points_of(node).find(|point| point / 2 == link.0)
    }
}
