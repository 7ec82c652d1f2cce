//! Sources whose datagrams make no difference but to the queue that they cross: the fabric sends for them, without events.

use lasthop_proto::packet::FlowId;
use lasthop_proto::time::Instant;

use super::{Carrier, Fabric, Far};
use crate::datagrams::{CrossedDirection, DatagramSource};
use crate::link::DuplexDirection;
use crate::network::Network;
use crate::routes::Hop;
use crate::scheduler::NEVER;

impl Fabric {
    /// Takes charge of a source whose datagrams make no difference but to the queue of the one leg that they cross; gives it
    /// back if they do, or if every packet is recorded.
    pub fn take_charge(&mut self, network: &Network, source: DatagramSource) -> Option<DatagramSource> {
        let Hop::Leg(id) = self.first_hops[source.endpoint()] else { return Some(source) };
        let (link, direction) = (&network.links[id.0 as usize / 2], id.0 as usize % 2);
        let leg = &mut self.legs[id.0 as usize];
        let ends_here = link.ends[1 - direction] == self.hosts[source.endpoint() ^ 1];
        let unseen = self.roaming.is_none()
            && self.trace.is_none()
            && !leg.errors.strike()
            && !matches!(leg.far, Far::Element(_));
        match &leg.carrier {
            Carrier::Own(_) if ends_here && unseen => {
                let Some(wire) = DuplexDirection::new(&link.directions[direction], link.delay) else {
                    return Some(source);
                };
                let mut crossed = CrossedDirection::new(wire, source);
                if self.meter.is_some() {
                    crossed.measure();
                }
                leg.carrier = Carrier::Crossed(Box::new(crossed));
                self.crossed.push(id);
                None
            }
            _ => Some(source),
        }
    }

    pub(super) fn crossings(&self) -> impl Iterator<Item = &CrossedDirection> {
        self.crossed.iter().filter_map(|leg| match &self.legs[leg.0 as usize].carrier {
            Carrier::Crossed(wire) => Some(&**wire),
            Carrier::Own(_) | Carrier::Managed(_) | Carrier::Shared(..) | Carrier::Channel(..) | Carrier::Cut(_) => {
                None
            }
        })
    }

    /// Bytes of the flow's datagrams that are known to have arrived, where its source is in charge of the fabric.
    pub fn arrived_of(&self, flow: FlowId) -> u64 {
        self.crossings().filter_map(|wire| wire.arrived_of(flow)).sum()
    }

    /// Whether sources are in its charge.
    pub fn is_crossed(&self) -> bool {
        !self.crossed.is_empty()
    }

    /// When the next datagram of a source in its charge is due.
    pub fn next_datagram(&self) -> Instant {
        self.crossings().map(CrossedDirection::next_at).min().unwrap_or(NEVER)
    }

    /// Lets the sources in its charge send what was due before `now`.
    pub fn catch_up(&mut self, now: Instant) {
        for leg in &self.crossed {
            if let Carrier::Crossed(wire) = &mut self.legs[leg.0 as usize].carrier {
                self.datagrams += wire.catch_up(now);
            }
        }
    }
}
