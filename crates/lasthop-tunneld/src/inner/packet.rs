//! Packets as the link carries them and the code combines them.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use lasthop_proto::link::hybrid::{Class, Coded, Gf, Item, Label, TcpSight, Traffic};
use lasthop_proto::packet::{Ecn, Side};
use lasthop_wire::{View as TcpView, ecn, mark_congestion, offer_window, parse};

use super::fit::{clamp, is_syn};
use super::frame::{self, ETHERNET, LENGTH, TAGS, length};
use super::look::{Flows, View, look};

/// IP packet, or frame with its length. Clones share the bytes.
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
    /// Creates a packet to be sent; `view` is the result of [`look`] for it.
    pub fn outgoing(bytes: &[u8], view: &View, flows: &mut Flows) -> Self {
        Self { bytes: bytes.into(), flow: flows.number(view, bytes), traffic: view.traffic(bytes) }
    }

    /// Creates a packet from a frame to be sent, in which [`frame::ip`] found the given IP packet; `None` if it is not
    /// a frame, or too long.
    pub fn outgoing_frame(bytes: &[u8], ip: Option<&(Range<usize>, View)>, flows: &mut Flows) -> Option<Self> {
        let carried = frame::carried(bytes)?;
        let (flow, traffic) = match ip {
            Some((range, view)) => {
                let packet = bytes.get(range.clone())?;
                (flows.number(view, packet), view.traffic(packet))
            }
            None if frame::is_arp(bytes) => (flows.number_without_ip(&bytes[..ETHERNET]), Traffic::Datagram),
            // Not known to be sensitive to delay.
            None => (flows.number_without_ip(&bytes[..ETHERNET]), Traffic::Stream),
        };
        Some(Self { bytes: carried.into(), flow, traffic })
    }

    /// Returns the packet with this flow and class.
    pub fn told(self, flow: u32, traffic: Traffic) -> Self {
        Self { flow, traffic, ..self }
    }

    /// Moves the packet to the class that is not repaired.
    pub fn make_bare(&mut self) {
        self.traffic = Traffic::Bare;
    }

    /// Creates a packet from received bytes; `None` if they are incomplete.
    pub fn arrived(bytes: &[u8]) -> Option<Self> {
        if frame::is_frame(bytes) {
            frame::frame(bytes)?;
        } else {
            look(bytes)?;
        }
        Some(Self { bytes: bytes.into(), flow: 0, traffic: Traffic::Datagram })
    }

    /// Returns the packet's bytes, starting at the IP header or at the length of the frame.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Changes the packet from offset `at` of its IP header; clones that share its bytes keep theirs.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut [u8])) {
        if let Some(bytes) = Rc::get_mut(&mut self.bytes) {
            change(&mut bytes[at..]);
        } else {
            let mut bytes = self.bytes.to_vec();
            change(&mut bytes[at..]);
            self.bytes = bytes.into();
        }
    }

    /// Reduces the MSS option of a SYN, the IP packet in `range`, as [`clamp`] does.
    pub fn clamp(&mut self, range: Range<usize>, view: &View, mtu: u16) {
        if is_syn(&self.bytes[range.clone()], view) {
            self.change(range.start, |bytes| clamp(&mut bytes[..range.len()], view, mtu));
        }
    }

    /// Returns the offset of the IP packet and its parsed headers, if it is a TCP segment.
    fn segment(&self) -> Option<(usize, TcpView)> {
        let at = self.ip()?;
        Some((at, parse(&self.bytes[at..])?))
    }

    /// Returns the offset of the IP packet, if there is one.
    fn ip(&self) -> Option<usize> {
        match frame::frame(&self.bytes) {
            Some(frame) => frame::ip(frame).map(|(range, _)| LENGTH + range.start),
            None => Some(0),
        }
    }

    /// Returns the packet's ECN field.
    pub fn ecn(&self) -> Ecn {
        self.ip().map_or(Ecn::NotEct, |at| ecn(&self.bytes[at..]))
    }
}

/// Identity of a TCP connection: its ends, in an order that does not depend on the direction, and its VLAN tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Connection {
    ends: [SocketAddr; 2],
    tags: [u8; TAGS],
}

impl Item for Packet {
    type Coded = Vector;
    type Connection = Connection;

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
        self.change(at, mark_congestion);
        true
    }

    fn is_marked(&self) -> bool {
        self.ecn() == Ecn::Ce
    }

    fn tcp(&self) -> Option<TcpSight<Connection>> {
        let (at, view) = self.segment()?;
        let (source, destination) = (view.route.source, view.route.destination);
        let (ends, side) = if source <= destination {
            ([source, destination], Side::Initiator)
        } else {
            ([destination, source], Side::Acceptor)
        };
        let mut tags = [0; TAGS];
        // The tags lie between the addresses and the EtherType that precedes the IP packet.
        let between = self.bytes.get(LENGTH + ETHERNET - 2..at.saturating_sub(2)).unwrap_or_default();
        tags.iter_mut().zip(between).for_each(|(tag, byte)| *tag = *byte);
        Some(TcpSight {
            connection: Connection { ends, tags },
            side,
            segment: view.segment,
            len: view.payload_len as u32,
        })
    }

    fn set_window(&mut self, window: u16) {
        if let Some((at, view)) = self.segment() {
            self.change(at, |packet| offer_window(packet, &view, window));
        }
    }

    fn encode(&self, label: Label) -> Vector {
        Vector(Form::Packet(label.chain, Rc::clone(&self.bytes)))
    }

    fn decode(coded: &Vector) -> Option<(Self, Label)> {
        let (chain, bytes) = match &coded.0 {
            Form::Packet(chain, bytes) => (*chain, &bytes[..]),
            Form::Sum(sum) => sum.split_first().map(|(chain, bytes)| (*chain, bytes))?,
        };
        // A combination is as long as its longest packet.
        let bytes = bytes.get(..length(bytes)?)?;
        // A packet in a chain is ordered. The original class of other packets no longer matters.
        let class = if chain > 0 { Class::Ordered } else { Class::RealTime };
        Some((Self::arrived(bytes)?, Label { class, chain }))
    }
}

/// Vector over GF(256): a packet preceded by its chain, or a combination of such vectors. Trailing zeros are ignored.
#[derive(Clone)]
pub struct Vector(Form);

#[derive(Clone)]
enum Form {
    /// Shared bytes, not a copy: most packets are never combined.
    Packet(u8, Rc<[u8]>),
    Sum(Vec<u8>),
}

impl Vector {
    /// Creates a vector from a received combination.
    pub fn sum(bytes: &[u8]) -> Self {
        Self(Form::Sum(bytes.to_vec()))
    }

    /// Appends the vector's bytes to `to`.
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
            Packet::outgoing_frame(&frame, frame::ip(&frame).as_ref(), &mut Flows::default()).unwrap()
        })
    }

    #[test]
    fn the_packet_in_a_frame_is_marked() {
        let [mut one, _] = frames([&[1, 2, 3], &[]]);
        let before = one.bytes().to_vec();
        assert!(one.ecn() == Ecn::Ect0 && one.mark() && one.ecn() == Ecn::Ce);
        assert_eq!((one.bytes().len(), one.bytes()[17], before[17]), (before.len(), 3, 2));
        // Other protocols than IP cannot be marked.
        let mut other = Packet::outgoing_frame(&[3; 60], None, &mut Flows::default()).unwrap();
        assert!(!other.mark());
    }

    /// Returns a TCP segment from the first end to the second, with a window of 1000 and five bytes of data.
    fn segment([source, destination]: [&str; 2]) -> Vec<u8> {
        let route = lasthop_wire::Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        let segment = lasthop_proto::packet::Segment {
            window: 1000,
            flags: lasthop_proto::packet::Flags::ACK,
            ..lasthop_proto::packet::Segment::default()
        };
        lasthop_wire::build(route, &segment, b"hello").unwrap()
    }

    #[test]
    fn a_window_is_written_with_its_checksum_into_packets_and_frames() {
        for ends in [["10.0.0.1:80", "10.0.0.2:5000"], ["[fd00::1]:80", "[fd00::2]:5000"]] {
            let bytes = segment(ends);
            let kind: &[u8] = if ends[0].starts_with('[') { &[0x86, 0xdd] } else { &[8, 0] };
            // After a tag, with padding.
            let frame = [&[2; 12][..], &[0x81, 0, 0, 5], kind, &bytes, &[0; 9]].concat();
            let mut flows = Flows::default();
            let framed = Packet::outgoing_frame(&frame, frame::ip(&frame).as_ref(), &mut flows).unwrap();
            for (mut packet, at) in [(Packet::arrived(&bytes).unwrap(), 0), (framed, 20)] {
                let before = packet.clone();
                packet.set_window(77);
                assert_eq!(packet.tcp().unwrap().segment.window, 77);
                assert_eq!(before.tcp().unwrap().segment.window, 1000);
                let view = parse(&packet.bytes()[at..]).unwrap();
                let whole = lasthop_wire::checksums(&packet.bytes()[at..], &view, lasthop_wire::Checksum::Complete);
                assert_eq!(whole, lasthop_wire::Checksums::Hold);
                // Two words changed; the length did not.
                assert_eq!(packet.bytes().len(), before.bytes().len());
                let changed = packet.bytes().iter().zip(before.bytes()).filter(|(one, other)| one != other).count();
                assert!(changed <= 4, "{changed}");
            }
        }
    }

    #[test]
    fn a_connection_is_the_same_from_both_ends() {
        let of = |ends| Packet::arrived(&segment(ends)).unwrap().tcp().unwrap();
        let (there, back) = (of(["10.0.0.1:80", "10.0.0.2:80"]), of(["10.0.0.2:80", "10.0.0.1:80"]));
        assert_eq!((there.connection, there.side), (back.connection, back.side.peer()));
        assert_ne!(there.connection, of(["10.0.0.1:80", "10.0.0.2:81"]).connection);
        assert_eq!(there.len, 5);
        // Other protocols have no window and stay unchanged.
        let mut other = packet(&[0; 30]);
        other.set_window(1);
        assert_eq!((other.tcp(), other), (None, packet(&[0; 30])));
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
            // As sent over the hop.
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
