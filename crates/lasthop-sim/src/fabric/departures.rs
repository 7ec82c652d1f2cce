//! Departures from a host's queue, reported to sockets that limit their backlog in it.
//!
//! A wire without queue management knows at once when a frame will begin transmission. Other carriers report it when it
//! happens.

use lasthop_proto::host_queue::{Departure, Queued};
use lasthop_proto::packet::FlowId;
use lasthop_proto::time::Instant;

use super::{Carrier, Fabric, Receiver};
use crate::endpoint::index as endpoint;
use crate::leg::LegId;
use crate::link::Frame;
use crate::network::{App, FlowSpec, Network, NodeId, NodeKind};
use crate::routes::Hop;

/// Returns whether each end of a flow limits its backlog in its host's queue.
pub(super) fn asks(flow: &FlowSpec) -> [bool; 2] {
    match flow.app {
        App::Quic(_) => [true; 2],
        App::Transfer { .. } | App::Web | App::Idle => flow.tcp.each_ref().map(|tcp| tcp.bounds_host_queue()),
        App::OnOff(_) | App::Call(_) => [false; 2],
    }
}

impl Fabric {
    /// Makes the carriers of hosts with such sockets report departures.
    pub(super) fn watch_departures(&mut self, network: &Network) {
        let asks = |node: NodeId| self.hosts.iter().zip(&self.asks).any(|(host, asks)| *asks && *host == node);
        let watched = |id: &LegId| {
            let near = network.links[id.0 as usize / 2].ends[id.0 as usize % 2];
            network.nodes[near.0].kind == NodeKind::Host && asks(near)
        };
        let legs: Vec<_> = (0..self.legs.len() as u32).map(LegId).filter(watched).collect();
        for id in legs {
            self.legs[id.0 as usize].carrier.keep_begun(&mut self.media);
        }
        for leg in &mut self.legs {
            leg.keeps = leg.carrier.keeps(&self.media);
        }
    }

    /// Returns the time at which the packet that an endpoint has just sent, with `bytes` of payload, begins
    /// transmission. A packet that goes to an element does not wait in the host's queue.
    pub fn queued(&mut self, now: Instant, endpoint: usize, bytes: u32) -> Queued {
        let Hop::Leg(id) = self.first_hops[endpoint] else { return Queued::NOT };
        let known = |start: Option<Instant>| start.filter(|start| *start > now).map_or(Departure::Now, Departure::At);
        let departure = match &self.legs[id.0 as usize].carrier {
            Carrier::Own(wire) => known(wire.last_start()),
            Carrier::Crossed(wire) => known(wire.last_start()),
            Carrier::Managed(_) | Carrier::Shared { .. } => Departure::Unknown,
            Carrier::Cut(_) => Departure::Now,
        };
        Queued { departure, bytes }
    }

    /// Reports the frames that began transmission on the carrier of a leg, including those of other legs that share the
    /// carrier.
    #[inline]
    pub(super) fn report_begun(&mut self, id: LegId) {
        if self.departing > 0 && self.legs[id.0 as usize].keeps.begun {
            self.take_begun(id);
        }
    }

    /// Implements [`Self::report_begun`] for carriers that keep such frames.
    #[inline(never)]
    fn take_begun(&mut self, id: LegId) {
        while let Some((leg, frame)) = self.legs[id.0 as usize].carrier.take_begun(&mut self.media, id) {
            self.departing -= 1;
            self.report_departure(leg, frame);
        }
    }

    /// Reports that a frame left its sender's queue at the host, if it waited there.
    pub(super) fn report_departure(&mut self, id: LegId, frame: Frame) {
        if frame.payload() == 0 || matches!(self.legs[id.0 as usize].carrier, Carrier::Own(_) | Carrier::Crossed(_)) {
            return;
        }
        let packet = self.pool.get(frame.handle());
        if packet.flow != FlowId::NONE {
            let sender = endpoint(packet.flow, packet.from);
            if self.asks[sender] && self.first_hops[sender] == Hop::Leg(id) {
                self.handoffs.push_back((Receiver::Departure(sender, frame.payload()), frame.handle()));
            }
        }
    }
}

#[cfg(test)]
#[path = "departures_tests.rs"]
mod tests;
