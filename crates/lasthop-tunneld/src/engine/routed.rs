//! IP packets of a TUN device: selection of the peer, and validation of source addresses.

use std::net::SocketAddr;

use lasthop_proto::time::Instant;
use lasthop_tunnel::PeerId;
use lasthop_wire::protocol::UDP;

use super::{Engine, link_of};
use crate::inner::fit::{Oversize, clamp, oversize};
use crate::inner::look::{View, look};
use crate::inner::packet::Packet;

impl Engine {
    /// Handles a packet from the device; `port` is that of this end's socket.
    pub(super) fn take_routed(&mut self, now: Instant, port: u16, packet: &mut [u8]) {
        let Some(view) = look(packet) else {
            self.counters.unroutable += 1;
            return;
        };
        let owner = self.tunnel.route(view.addresses.1);
        let Some(id) = owner else {
            self.counters.unroutable += 1;
            return;
        };
        if let Some(to) = self.own_datagram(port, packet, &view) {
            if self.counters.looped == 0 {
                tracing::warn!(%to, "the tunnel's own datagrams are routed into it: `allowed` of a peer contains their destination address");
            }
            self.counters.looped += 1;
            return;
        }
        let Some(link) = link_of(&mut self.links, id) else { return };
        let mtu = link.mtu(now);
        link.counters.sent.count(packet.len());
        if packet.len() > usize::from(mtu) {
            link.counters.oversize += 1;
            match oversize(packet, &view, mtu) {
                Oversize::Parts(parts) => {
                    for part in parts {
                        if let Some(view) = look(&part) {
                            link.offer(now, Packet::outgoing(&part, &view, &mut self.flows), Some((&part, &view)));
                        }
                    }
                }
                Oversize::Answer(answer) => {
                    if let Some(answer) = Packet::arrived(&answer) {
                        self.deliver(answer);
                    }
                    return;
                }
                Oversize::Drop => return,
            }
        } else {
            clamp(packet, &view, mtu);
            link.offer(now, Packet::outgoing(packet, &view, &mut self.flows), Some((packet, &view)));
        }
        if !self.tunnel.is_up(now, id) {
            self.wake(now, id);
        }
    }

    /// Returns the destination of a packet that is one of this end's own datagrams, to a peer or to a caller.
    fn own_datagram(&self, port: u16, packet: &[u8], view: &View) -> Option<SocketAddr> {
        let [source, destination] = view.ports(packet).filter(|_| view.protocol == UDP)?;
        let to = SocketAddr::new(view.addresses.1, destination);
        let is_known = || {
            self.addressed.contains(&to)
                || self.links().any(|link| {
                    link.path_to(to).is_some() || link.plan.paths.iter().any(|path| path.endpoint == Some(to))
                })
        };
        (source == port && is_known()).then_some(to)
    }

    /// Passes a packet from a peer to the device, unless its source does not belong to the peer.
    pub(super) fn hand_on_routed(&mut self, now: Instant, id: PeerId, mut packet: Packet) {
        let view = look(packet.bytes()).filter(|view| self.tunnel.permits(id, view.addresses.0));
        let Some(link) = link_of(&mut self.links, id) else { return };
        let Some(view) = view else {
            link.counters.foreign += 1;
            return;
        };
        link.on_received(now, packet.bytes().len(), Some(packet.bytes()));
        let mtu = link.mtu(now);
        packet.clamp(0..packet.bytes().len(), &view, mtu);
        self.deliver(packet);
    }
}
