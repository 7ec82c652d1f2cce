//! `kind = "drop"`: drops every n-th packet towards the link.

use lasthop_proto::event::Event;
use lasthop_proto::node::{Disposition, Node, Port, Why};
use lasthop_proto::packet::{FlowId, Packet};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Instant;
use lasthop_sim::Bytes;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;
use crate::values::Whole;

pub(super) static KIND: Kind = Kind { name: "drop", keys: &[Keys::NAMES], rows: Keys::ROWS, ends: Ends::One, read };

keys! {
    /// Keys of the element.
    pub(crate) Keys {
        /// {} | drop: drops one of this number of packets towards the link, 1 to 1000000
        every: Whole<1, 1_000_000> = Whole(100);
    }
}

/// An element that drops packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    every: u32,
}

impl Drop {
    const fn node<P>(self) -> Dropper<P> {
        Dropper { period: self.every, left: self.every, output: None }
    }
}

fn read(reader: &Reader<'_>, _: &TcpSpec) -> Result<AnyPart, Error> {
    let Whole(every) = reader.value(Keys::every)?;
    Ok(AnyPart::new(Drop { every }))
}

impl Part for Drop {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(*self)
    }
}

impl Element for Drop {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Marker
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        Box::new(self.node())
    }

    fn build_on_bytes(&self, _: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        Some(Box::new(self.node()))
    }

    fn describe(&self) -> String {
        format!("drops one of {} packets towards the link", self.every)
    }
}

/// State machine of the element, for packets with or without bytes.
struct Dropper<P> {
    period: u32,
    /// Number of packets towards the link up to the next one to drop.
    left: u32,
    output: Option<(Port, Packet<P>)>,
}

impl<P> Node<P> for Dropper<P> {
    fn handle_packet(&mut self, _: Instant, port: Port, packet: Packet<P>) -> Disposition {
        if port == Port::WIRED {
            self.left -= 1;
            if self.left == 0 {
                self.left = self.period;
                return Disposition::Dropped;
            }
        }
        self.output = Some((port.across(), packet));
        Disposition::Forwarded
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, packet) = self.output.take()?;
        *place = packet;
        Some((port, Why::Given))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_packet_towards_the_link_is_dropped() {
        let mut node = Dropper::<()> { period: 3, left: 3, output: None };
        let mut take = |port| {
            let disposition = node.handle_packet(Instant::ZERO, port, Packet::default());
            let sent = node.poll_transmit(Instant::ZERO, &mut Packet::default());
            assert_eq!(sent.is_some(), disposition == Disposition::Forwarded);
            sent.map(|(port, _)| port)
        };
        assert_eq!(
            [Port::WIRED; 4].map(&mut take),
            [Some(Port::WIRELESS), Some(Port::WIRELESS), None, Some(Port::WIRELESS)]
        );
        assert_eq!([Port::WIRELESS; 4].map(take), [Some(Port::WIRED); 4]);
    }
}
