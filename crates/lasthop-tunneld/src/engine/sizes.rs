//! MTUs of interfaces and paths.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::Instant;
use lasthop_tunnel::{PeerId, SocketId};

use super::{Engine, link_of};

impl Engine {
    /// Sets the MTU of the interface of a socket, in bytes.
    pub fn set_link_mtu(&mut self, now: Instant, socket: SocketId, mtu: u16) {
        self.link_mtus.insert(socket, mtu);
        for index in 0..self.links.len() {
            self.apply_link_mtus(now, PeerId(index as u32));
        }
        self.take_events(now);
    }

    /// Informs the paths to a peer of the MTUs of their interfaces.
    pub(super) fn apply_link_mtus(&mut self, now: Instant, id: PeerId) {
        let Self { links, link_mtus, tunnel, .. } = self;
        let Some(link) = link_of(links, id) else { return };
        for path in (0..link.plan.paths.len() as u8).map(PathId) {
            if let Some(mtu) = link_mtus.get(&link.socket(path).1) {
                tunnel.set_link_mtu(now, id, path, *mtu);
                link.set_link_mtu(path, *mtu);
            }
        }
    }

    /// Reports that the system refused a datagram of `size` bytes to `to` on a socket because it was too big.
    pub fn too_big(&mut self, now: Instant, (to, socket): (SocketAddr, SocketId), size: u16) {
        for (link, id) in self.links.iter().zip(0..) {
            let Some(link) = link else { continue };
            for ((path, plan), number) in link.paths().iter().zip(&link.plan.paths).zip(0..) {
                if path.address == Some(to) && plan.socket == socket.0 {
                    self.tunnel.too_big(now, PeerId(id), PathId(number), size);
                }
            }
        }
        self.take_events(now);
    }
}
