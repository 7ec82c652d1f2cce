//! A packet as the link carries it, and as the code sees it.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Range;
use std::rc::Rc;

use lasthop_proto::link::hybrid::{Class, Coded, Gf, Item, Label, Traffic};
use lasthop_proto::packet::Ecn;

use super::frame::{self, ETHERNET, LENGTH};
use super::look::{View, length, look};

/// An IP packet, or a frame with its length in front. Clones share its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    bytes: Rc<[u8]>,
    flow: u32,
    traffic: Traffic,
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes)", self.bytes.len())
    }
}

impl Packet {
    /// A packet to be sent, of which `view` is what [`look`] says.
    pub fn outgoing(bytes: &[u8], view: &View, keys: &impl BuildHasher) -> Self {
        Self { bytes: bytes.into(), flow: view.flow(bytes, keys), traffic: view.traffic(bytes) }
    }

    /// A frame to be sent, in which [`frame::ip`] found that packet; none if it is none, or too long.
    pub fn outgoing_frame(bytes: &[u8], ip: Option<&(Range<usize>, View)>, keys: &impl BuildHasher) -> Option<Self> {
        let carried = frame::carried(bytes)?;
        let (flow, traffic) = match ip {
            Some((range, view)) => {
                let packet = bytes.get(range.clone())?;
                (view.flow(packet, keys), view.traffic(packet))
            }
            None if frame::is_arp(bytes) => (keys.hash_one(&bytes[..ETHERNET]) as u32, Traffic::Datagram),
            // Nothing is known to be in a hurry.
            None => (keys.hash_one(&bytes[..ETHERNET]) as u32, Traffic::Stream),
        };
        Some(Self { bytes: carried.into(), flow, traffic })
    }

    /// The same, of that flow and kind.
    pub fn told(self, flow: u32, traffic: Traffic) -> Self {
        Self { flow, traffic, ..self }
    }

    /// One that is to go unrepaired.
    pub fn bare(self) -> Self {
        Self { traffic: Traffic::Bare, ..self }
    }

    /// A packet that came, if it is a whole one.
    pub fn arrived(bytes: &[u8]) -> Option<Self> {
        if frame::is_frame(bytes) {
            frame::frame(bytes)?;
        } else {
            look(bytes)?;
        }
        Some(Self { bytes: bytes.into(), flow: 0, traffic: Traffic::Datagram })
    }

    /// From the IP header on, or from the length of the frame on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the IP packet in it begins, if there is one.
    fn ip(&self) -> Option<usize> {
        match frame::frame(&self.bytes) {
            Some(frame) => frame::ip(frame).map(|(range, _)| LENGTH + range.start),
            None => Some(0),
        }
    }

    /// What its header says of congestion.
    pub fn ecn(&self) -> Ecn {
        self.ip().map_or(Ecn::NotEct, |at| Ecn::from_bits(ecn_bits(&self.bytes[at..])))
    }
}

/// What an IP packet's header says of congestion: the low two bits of its class.
pub(super) fn ecn_bits(packet: &[u8]) -> u8 {
    match packet {
        [first, class, ..] if first >> 4 == 6 => class >> 4 & 3,
        [_, service, ..] => service & 3,
        _ => 0,
    }
}

impl Item for Packet {
    type Coded = Vector;

    fn flow(&self) -> u32 {
        self.flow
    }

    fn bytes(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn mark(&mut self) -> bool {
        let Some(at) = self.ip().filter(|_| self.ecn().is_capable()) else { return false };
        if let Some(bytes) = Rc::get_mut(&mut self.bytes) {
            lasthop_wire::mark_congestion(&mut bytes[at..]);
        } else {
            let mut bytes = self.bytes.to_vec();
            lasthop_wire::mark_congestion(&mut bytes[at..]);
            self.bytes = bytes.into();
        }
        true
    }

    fn is_marked(&self) -> bool {
        self.ecn() == Ecn::Ce
    }

    fn encode(&self, label: Label) -> Vector {
        Vector(Form::Packet(label.chain, Rc::clone(&self.bytes)))
    }

    fn decode(coded: &Vector) -> Option<(Self, Label)> {
        let (chain, bytes) = match &coded.0 {
            Form::Packet(chain, bytes) => (*chain, &bytes[..]),
            Form::Sum(sum) => sum.split_first().map(|(chain, bytes)| (*chain, bytes))?,
        };
        // The sum is as long as the longest packet in it.
        let bytes = bytes.get(..length(bytes)?)?;
        // What waits for an earlier packet is ordered; how all else was sent is past.
        let class = if chain > 0 { Class::Ordered } else { Class::RealTime };
        Some((Self::arrived(bytes)?, Label { class, chain }))
    }
}

/// A vector over GF(256): a packet with its chain in front, or a sum of such. Zeros at its end do not count.
#[derive(Clone)]
pub struct Vector(Form);

#[derive(Clone)]
enum Form {
    /// Not a copy: most packets are never part of a sum.
    Packet(u8, Rc<[u8]>),
    Sum(Vec<u8>),
}

impl Vector {
    /// A sum that came.
    pub fn sum(bytes: &[u8]) -> Self {
        Self(Form::Sum(bytes.to_vec()))
    }

    /// Adds its bytes to the end of `to`.
    pub fn write(&self, to: &mut Vec<u8>) {
        match &self.0 {
            Form::Packet(chain, bytes) => {
                to.push(*chain);
                to.extend_from_slice(bytes);
            }
            Form::Sum(sum) => to.extend_from_slice(sum),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        let [mut one, mut two] = [self.bytes(), other.bytes()];
        let length = one.len().max(two.len());
        one.resize(length, 0);
        two.resize(length, 0);
        one == two
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vector")
    }
}

impl Coded for Vector {
    fn zero() -> Self {
        Self(Form::Sum(Vec::new()))
    }

    fn add_scaled(&mut self, factor: Gf, other: &Self) {
        if let Form::Packet(..) = self.0 {
            self.0 = Form::Sum(self.bytes());
        }
        let Form::Sum(sum) = &mut self.0 else { return };
        match &other.0 {
            Form::Packet(chain, bytes) => {
                sum.resize(sum.len().max(1 + bytes.len()), 0);
                factor.add_scaled(&mut sum[..1], &[*chain]);
                factor.add_scaled(&mut sum[1..], bytes);
            }
            Form::Sum(bytes) => {
                sum.resize(sum.len().max(bytes.len()), 0);
                factor.add_scaled(sum, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use proptest::prelude::*;

    use super::*;

    fn packet(body: &[u8]) -> Packet {
        let mut bytes = vec![0x45, 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend_from_slice(body);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        Packet::arrived(&bytes).unwrap()
    }

    #[test]
    fn a_mark_spares_those_that_share_the_bytes() {
        let mut one = packet(&[]);
        let other = one.clone();
        assert!(one.mark());
        assert_eq!((one.ecn(), other.ecn()), (Ecn::Ce, Ecn::Ect0));
        assert!(one.mark());
        let mut incapable = Packet::arrived(&[&[0x45, 0][..], &other.bytes()[2..]].concat()).unwrap();
        assert!(!incapable.mark());
    }

    fn frames(bodies: [&[u8]; 2]) -> [Packet; 2] {
        bodies.map(|body| {
            let frame = [&[2; 12][..], &[8, 0], packet(body).bytes()].concat();
            Packet::outgoing_frame(&frame, frame::ip(&frame).as_ref(), &RandomState::new()).unwrap()
        })
    }

    #[test]
    fn the_packet_in_a_frame_is_marked() {
        let [mut one, _] = frames([&[1, 2, 3], &[]]);
        let before = one.bytes().to_vec();
        assert!(one.ecn() == Ecn::Ect0 && one.mark() && one.ecn() == Ecn::Ce);
        assert_eq!((one.bytes().len(), one.bytes()[17], before[17]), (before.len(), 3, 2));
        // What is no IP takes no marks.
        let mut other = Packet::outgoing_frame(&[3; 60], None, &RandomState::new()).unwrap();
        assert!(!other.mark());
    }

    #[test]
    fn a_sum_gives_back_a_frame_whatever_its_length() {
        let [one, two] = frames([&[0; 10], &[7; 90]]);
        let label = Label { class: Class::Ordered, chain: 3 };
        let mut sum = Vector::zero();
        sum.add_scaled(Gf(5), &one.encode(label));
        sum.add_scaled(Gf(9), &two.encode(Label::default()));
        sum.add_scaled(Gf(9), &two.encode(Label::default()));
        sum.scale(Gf(5).inverse());
        let (found, told) = Packet::decode(&sum).unwrap();
        assert_eq!((found.bytes(), told), (one.bytes(), label));
    }

    proptest! {
        #[test]
        fn a_sum_gives_back_what_is_missing(
            one in proptest::collection::vec(any::<u8>(), 0..100), two in proptest::collection::vec(any::<u8>(), 0..100),
            chain in any::<u8>(), factors in [1_u8.., 1_u8..],
        ) {
            let class = if chain > 0 { Class::Ordered } else { Class::RealTime };
            let label = Label { class, chain };
            let [one, two] = [one, two].map(|body| packet(&body));
            let [a, b] = factors.map(Gf);
            let mut sum = Vector::zero();
            sum.add_scaled(a, &one.encode(label));
            sum.add_scaled(b, &two.encode(Label::default()));
            // As it goes over the hop.
            let mut bytes = Vec::new();
            sum.write(&mut bytes);
            let mut sum = Vector::sum(&bytes);
            sum.add_scaled(b, &two.encode(Label::default()));
            sum.scale(a.inverse());
            prop_assert_eq!(&sum, &one.encode(label));
            prop_assert_eq!(Packet::decode(&sum), Some((one, label)));
        }

        #[test]
        fn what_is_no_packet_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some((packet, _)) = Packet::decode(&Vector::sum(&bytes)) {
                prop_assert_eq!(length(packet.bytes()), Some(packet.bytes().len()));
            }
        }
    }
}
