//! Data volumes of paths, and their limits.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::{PathId, Tier};
use lasthop_proto::time::Instant;
use lasthop_tunnel::{PeerId, SocketId};

use super::Engine;

impl Engine {
    /// Counts a datagram of the session to or from `address`, with `payload` bytes.
    pub(super) fn count_volume(&mut self, address: SocketAddr, socket: SocketId, payload: usize) {
        let path = self.links.iter_mut().flatten().find_map(|link| Some((link.path_by(address, socket)?, link)));
        if let Some((path, link)) = path {
            link.count_volume(path, payload);
        }
    }

    /// Limits a path to a peer to a tier and those after it, because of its data volume.
    pub fn limit(&mut self, now: Instant, peer: &str, path: PathId, tier: Tier) {
        let mut places = self.links.iter_mut().zip(0..).filter_map(|(link, id)| Some((link.as_mut()?, PeerId(id))));
        let Some((link, id)) = places.find(|(link, _)| link.plan.name == peer) else { return };
        if link.limit(now, path, tier) {
            tracing::warn!(peer, path = link.path_name(path), ?tier, "path limited because of its data volume");
            let terms = link.own_terms(path);
            self.tunnel.announce(now, id, path, terms);
        }
    }
}
