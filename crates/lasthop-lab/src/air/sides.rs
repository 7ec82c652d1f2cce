//! Elements that use several links: those of a bundle, each with a port.

use std::collections::BTreeMap;

use lasthop_proto::node::Port;

use crate::plan::{Plan, Point};

/// Links that elements use besides their own.
#[derive(Default)]
pub(super) struct Sides {
    /// Near ends of these links by the element's point, in the order of its ports after [`Port::WIRELESS`].
    exits: BTreeMap<Point, Vec<Point>>,
    /// The element's point and port, by the near end of the link.
    entrances: BTreeMap<Point, (Point, Port)>,
}

impl Sides {
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let mut sides = Self::default();
        for (point, _) in plan.emulated() {
            let exits = plan.side_points(point);
            let ports = (Port::WIRELESS.0 + 1..).map(Port);
            sides.entrances.extend(exits.iter().zip(ports).map(|(&exit, port)| (exit, (point, port))));
            sides.exits.insert(point, exits);
        }
        sides
    }

    /// Returns the near end of the link at a port of the element at `point`.
    pub(super) fn exit(&self, point: Point, port: Port) -> Point {
        let side = port.0.checked_sub(Port::WIRELESS.0 + 1);
        side.and_then(|side| self.exits.get(&point)?.get(usize::from(side)).copied()).unwrap_or(point)
    }

    /// Returns the point of the element that takes the frames which arrive at `point`, and their port. Without such an
    /// element, returns the point itself.
    pub(super) fn entrance(&self, point: Point) -> (Point, Port) {
        self.entrances.get(&point).copied().unwrap_or((point, Port::WIRELESS))
    }
}

#[cfg(test)]
#[path = "sides_tests.rs"]
mod tests;
