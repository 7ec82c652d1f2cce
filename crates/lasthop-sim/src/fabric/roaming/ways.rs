//! How far it is between the stations of a host that moves and its peers, and who carried what between them.

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::time::Duration;

use crate::fabric::{Fabric, LegId};
use crate::network::{HandoffKind, NodeId};

impl Fabric {
    /// For each endpoint that is looked at, how long what the host sends is on the way to it.
    pub(super) fn own_lags(&self) -> Vec<(usize, Duration)> {
        let Some(roaming) = &self.roaming else { return Vec::new() };
        let lag = |&(index, own, _): &(usize, NodeId, NodeId)| {
            let delay = if own == roaming.plan.host { Duration::ZERO } else { self.delay(roaming.plan.host, own) };
            (index, delay)
        };
        roaming.ends.iter().map(lag).collect()
    }

    /// How long after the host's arrival at `new` routes have changed.
    pub fn route_update(&self, old: usize, new: usize) -> Duration {
        let Some(roaming) = &self.roaming else { return Duration::ZERO };
        if let Some(given) = roaming.plan.route_update {
            return given;
        }
        let [old, new] = [old, new].map(|station| roaming.posts[station].router);
        let far = |peer: &NodeId| match roaming.plan.kind {
            HandoffKind::Hierarchical => {
                let shared: Vec<NodeId> = self.nodes_between(old, *peer);
                let meets = self.nodes_between(new, *peer).into_iter().find(|node| shared.contains(node));
                self.delay(new, meets.unwrap_or(*peer))
            }
            HandoffKind::Hard | HandoffKind::Forwarding | HandoffKind::Multicast => self.delay(new, *peer),
        };
        roaming.peers.iter().map(far).max().unwrap_or_default()
    }

    /// How long `bytes` take from one station to another over the wire; zero bytes take the links' delays.
    pub fn wire_time(&self, old: usize, new: usize, bytes: u64) -> Duration {
        let Some(roaming) = &self.roaming else { return Duration::ZERO };
        let legs = self.legs_between(roaming.posts[old].router, roaming.posts[new].router);
        let slowest = legs.iter().map(|leg| roaming.wires[leg.0 as usize].1.0).min();
        let nanos = slowest.map_or(0, |rate| (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate)));
        self.delay_of(&legs) + Duration::from_nanos(nanos as u64)
    }

    fn delay(&self, from: NodeId, to: NodeId) -> Duration {
        self.delay_of(&self.legs_between(from, to))
    }

    fn delay_of(&self, legs: &[LegId]) -> Duration {
        let Some(roaming) = &self.roaming else { return Duration::ZERO };
        legs.iter().fold(Duration::ZERO, |sum, leg| sum + roaming.wires[leg.0 as usize].0)
    }

    /// The legs on the way from `from` to a host or station.
    fn legs_between(&self, from: NodeId, to: NodeId) -> Vec<LegId> {
        let Some(roaming) = &self.roaming else { return Vec::new() };
        let (mut legs, mut at) = (Vec::new(), from);
        while let Some(leg) = self.leg_of_hop(roaming.settled().first(at, to)) {
            legs.push(leg);
            at = roaming.wires[leg.0 as usize].2;
        }
        legs
    }

    fn nodes_between(&self, from: NodeId, to: NodeId) -> Vec<NodeId> {
        let Some(roaming) = &self.roaming else { return Vec::new() };
        let nodes = self.legs_between(from, to).into_iter().map(|leg| roaming.wires[leg.0 as usize].2);
        std::iter::once(from).chain(nodes).collect()
    }

    /// Books `bytes` that a flow delivered to that side with every link between its ends.
    pub fn credit_path(&mut self, flow: FlowId, to: Side, bytes: u64) {
        let ends = [self.host(flow, to.peer()), self.host(flow, to)];
        for leg in self.legs_between(ends[0], ends[1]) {
            self.legs[leg.0 as usize].report.useful += bytes;
        }
    }
}
