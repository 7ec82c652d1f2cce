//! A two-ended link whose packets contain bytes, for the lab.

use lasthop_proto::event::Event;
use lasthop_proto::link::hybrid::{Bundle, Carried, Coded, Gf, HopConfig, Image, Label, TcpSight, node};
use lasthop_proto::node::{Disposition, Node, Port, Why};
use lasthop_proto::packet::{FlowId, Packet};
use lasthop_proto::time::Instant;
use lasthop_sim::Bytes;

/// One end that carries packets with bytes, and codes over headers and bytes.
pub(super) struct OnBytes(node::TwoEnded<Octets>);

impl OnBytes {
    pub(super) fn new(config: HopConfig, bundle: &Bundle, past: Vec<FlowId>) -> Self {
        Self(node::TwoEnded::new(config).over(bundle).passing(past))
    }
}

impl Node<Bytes> for OnBytes {
    fn handle_packet(&mut self, now: Instant, port: Port, mut packet: Packet<Bytes>) -> Disposition {
        let bytes = std::mem::take(&mut packet.payload);
        self.0.handle_packet(now, port, packet.with_payload(Octets(bytes)))
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<Bytes>) -> Option<(Port, Why)> {
        let mut packet = Packet::default();
        let sent = self.0.poll_transmit(now, &mut packet)?;
        let Octets(bytes) = std::mem::take(&mut packet.payload);
        *place = packet.with_payload(bytes);
        Some(sent)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.0.poll_deadline()
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.0.poll_event()
    }
}

/// Bytes of a packet.
#[derive(Clone, PartialEq, Default, Debug)]
struct Octets(Bytes);

/// Bytes of the length field in front of a packet's bytes.
const LENGTH: usize = 4;

/// A vector over GF(256): headers, followed by the number of bytes and the bytes. Shorter ones are padded with zeros.
#[derive(Clone, PartialEq, Debug)]
struct Combination {
    image: Image,
    bytes: Vec<u8>,
}

impl Coded for Combination {
    fn zero() -> Self {
        Self { image: Image::zero(), bytes: Vec::new() }
    }

    fn add_scaled(&mut self, factor: Gf, other: &Self) {
        self.image.add_scaled(factor, &other.image);
        if self.bytes.len() < other.bytes.len() {
            self.bytes.resize(other.bytes.len(), 0);
        }
        factor.add_scaled(&mut self.bytes, &other.bytes);
    }
}

impl Carried for Octets {
    type Coded = Combination;
    type Connection = FlowId;

    fn encode(packet: &Packet<Self>, label: Label) -> Combination {
        let Self(bytes) = &packet.payload;
        // Frames are shorter than 64 KiB.
        let len = (bytes.len() as u32).to_be_bytes();
        Combination { image: Image::of(packet, label), bytes: [&len, &bytes[..]].concat() }
    }

    fn decode(coded: &Combination) -> Option<(Packet<Self>, Label)> {
        let (packet, label) = coded.image.packet()?;
        let (len, bytes) = coded.bytes.split_at_checked(LENGTH)?;
        let len = usize::try_from(u32::from_be_bytes(len.try_into().ok()?)).ok()?;
        let payload = Self(Bytes::copy_from_slice(bytes.get(..len)?));
        Some((packet.with_payload(payload), label))
    }

    fn part(coded: Combination) -> (Image, Self) {
        (coded.image, Self(coded.bytes.into()))
    }

    fn join(image: Image, Self(bytes): Self) -> Combination {
        Combination { image, bytes: bytes.into() }
    }

    fn tcp(packet: &Packet<Self>) -> Option<TcpSight<FlowId>> {
        packet.tcp_sight()
    }

    fn set_window(packet: &mut Packet<Self>, window: u16) {
        packet.offer_window(window);
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::link::hybrid::Class;
    use lasthop_proto::packet::{Body, Cause};

    use super::*;

    fn packet(number: u32, bytes: &[u8]) -> Packet<Octets> {
        let cause = Cause::LinkRepair;
        let body = Body::Datagram { number };
        Packet::<()> { cause, len: bytes.len() as u32, body, ..Packet::default() }
            .with_payload(Octets(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn packets_of_different_lengths_survive_being_combined() {
        let label = Label { class: Class::RealTime, chain: 7 };
        let packets = [packet(1, b""), packet(2, b"short"), packet(3, &[9; 1500])];
        let coded = packets.each_ref().map(|packet| Octets::encode(packet, label));
        for (missing, expected) in packets.iter().enumerate() {
            let mut sum = Combination::zero();
            let factors = [Gf(3), Gf(200), Gf(1)];
            for (coded, factor) in coded.iter().zip(factors) {
                sum.add_scaled(factor, coded);
            }
            // As received in a frame.
            let (image, payload) = Octets::part(sum);
            let mut left = Octets::join(image, payload);
            for (index, (coded, factor)) in coded.iter().zip(factors).enumerate() {
                if index != missing {
                    left.add_scaled(factor, coded);
                }
            }
            left.scale(factors[missing].inverse());
            assert_eq!(Octets::decode(&left), Some((expected.clone(), label)));
        }
    }

    #[test]
    fn a_length_that_is_not_there_is_no_packet() {
        let label = Label { class: Class::Ordered, chain: 0 };
        let good = Octets::encode(&packet(1, b"abc"), label);
        assert!(Octets::decode(&good).is_some());
        for bytes in [&b""[..], b"\0\0\0", b"\0\0\0\x04abc", b"\xff\xff\xff\xffabc"] {
            let bad = Combination { bytes: bytes.to_vec(), ..good.clone() };
            assert_eq!(Octets::decode(&bad), None, "{bytes:?}");
        }
    }
}
