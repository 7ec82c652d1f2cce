//! Sources whose datagrams affect only the queue that they cross. The fabric sends for them, without events.

use lasthop_proto::packet::FlowId;
use lasthop_proto::time::Instant;

use super::{Carrier, Fabric, Far};
use crate::datagrams::{CrossedDirection, DatagramSource};
use crate::leg::LegId;
use crate::link::DuplexDirection;
use crate::network::Network;
use crate::routes::Hop;
use crate::scheduler::NEVER;

impl Fabric {
    /// Takes charge of a source whose datagrams affect only the queue of a single leg. Returns the source if they
    /// affect more, or if every packet is recorded.
    pub fn take_charge(&mut self, network: &Network, source: DatagramSource) -> Option<DatagramSource> {
        let Hop::Leg(id) = self.first_hops[source.endpoint()] else { return Some(source) };
        let (link, direction) = (&network.links[id.0 as usize / 2], id.0 as usize % 2);
        let leg = &mut self.legs[id.0 as usize];
        let ends_here = link.ends[1 - direction] == self.hosts[source.endpoint() ^ 1];
        let unseen = self.roaming.is_none()
            && !self.tap.records()
            && !leg.errors.strike()
            && !matches!(leg.far, Far::Element(..));
        match &leg.carrier {
            Carrier::Own(_) if ends_here && unseen => {
                let Some(wire) = DuplexDirection::new(&link.directions[direction], link.delay) else {
                    return Some(source);
                };
                let mut crossed = CrossedDirection::new(wire, source);
                if self.tap.meter.is_some() {
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
            Carrier::Own(_) | Carrier::Managed(_) | Carrier::Shared { .. } | Carrier::Cut(_) => None,
        })
    }

    /// Returns the bytes known to have arrived of the flow's datagrams, if the fabric operates its source.
    pub fn arrived_of(&self, flow: FlowId) -> u64 {
        self.crossings().filter_map(|wire| wire.arrived_of(flow)).sum()
    }

    /// Returns whether the fabric operates any source.
    pub fn is_crossed(&self) -> bool {
        !self.crossed.is_empty()
    }

    /// Returns the time of the next datagram of a source that the fabric operates.
    pub fn next_datagram(&self) -> Instant {
        self.crossings().map(CrossedDirection::poll_deadline).min().unwrap_or(NEVER)
    }

    /// Sends the datagrams that were due before `now` at sources that the fabric operates.
    pub fn catch_up(&mut self, now: Instant) {
        for index in 0..self.crossed.len() {
            self.catch_up_on(now, self.crossed[index]);
        }
    }

    /// Sends the datagrams that were due before `now` at the source of a leg, if the leg has a source.
    pub(super) fn catch_up_on(&mut self, now: Instant, leg: LegId) {
        if let Carrier::Crossed(wire) = &mut self.legs[leg.0 as usize].carrier {
            self.datagrams += wire.catch_up(now);
        }
    }
}
