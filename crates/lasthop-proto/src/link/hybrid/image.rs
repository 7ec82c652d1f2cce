//! The simulator's packets as vectors for the code: everything that distinguishes them, in a fixed number of bytes.

use core::fmt;
use core::num::NonZeroU8;

use super::code::{Coded, Gf};
use super::frame::{Class, Item, Label, TcpSight, Traffic};
use crate::packet::{
    AckCongestionOption, Body, Cause, ECN_COUNTER_KINDS, Ecn, EcnCounters, Flags, FlowId, HeaderForm, Image, Options,
    Packet, SackBlock, SackBlocks, Segment, Side, Timestamps,
};
use crate::seq::Seq;

/// Length up to which images of most packets are used: those of segments without SACK blocks take 41 bytes.
const COMMON: usize = 48;

impl Coded for Image {
    fn zero() -> Self {
        Self([0; Self::LENGTH])
    }

    fn add_scaled(&mut self, factor: Gf, other: &Self) {
        let (to, rest) = self.0.split_at_mut(COMMON);
        let (from, more) = other.0.split_at(COMMON);
        factor.add_scaled(to, from);
        if more != [0; Self::LENGTH - COMMON] {
            factor.add_scaled(rest, more);
        }
    }
}

/// Types of packets.
const TCP: u8 = 1;
const DATAGRAM: u8 = 2;
const QUIC: u8 = 3;
const MEDIA: u8 = 4;
const QUIC_LONG: u8 = 5;

/// Bits besides the flags that indicate which options are present.
const MSS: u16 = 1 << 9;
const SCALE: u16 = 1 << 10;
const SACK_PERMITTED: u16 = 1 << 11;
const ELN: u16 = 1 << 12;
const SMART: u16 = 1 << 13;
const TIMESTAMPS: u16 = 1 << 14;
const ACK_CONGESTION: u16 = 1 << 15;

/// Bit of the byte with the number of blocks: the order of the counters of accurate ECN, whose number, plus one, is in
/// the three bits below it.
const ECT1_FIRST: u8 = 1 << 6;

/// Writes into an image from the front.
struct Writer {
    image: Image,
    at: usize,
}

impl Writer {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(place) = self.image.0.get_mut(self.at..self.at + N) {
            place.copy_from_slice(&bytes);
        }
        self.at += N;
    }
}

/// Reads an image from the front.
struct Reader<'a> {
    image: &'a Image,
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.image.0.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        self.at += N;
        bytes.unwrap_or([0; N])
    }

    fn byte(&mut self) -> u8 {
        u8::from_be_bytes(self.take())
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }
}

/// Writes a segment. Inline, so that the compiler knows the position of each field and omits checks.
#[inline(always)]
fn put_segment(to: &mut Writer, segment: &Segment) {
    let options = &segment.options;
    let when = |there: bool, bit: u16| if there { bit } else { 0 };
    let bits = segment.flags.0 & Flags::ALL.0
        | when(options.mss.is_some(), MSS)
        | when(options.window_scale.is_some(), SCALE)
        | when(options.sack_permitted, SACK_PERMITTED)
        | when(options.eln, ELN)
        | when(options.smart.is_some(), SMART)
        | when(options.timestamps.is_some(), TIMESTAMPS)
        | when(options.ack_congestion.is_some(), ACK_CONGESTION);
    to.put(segment.seq.0.to_be_bytes());
    to.put(segment.ack.0.to_be_bytes());
    to.put(segment.window.to_be_bytes());
    to.put(bits.to_be_bytes());
    to.put(options.mss.unwrap_or(0).to_be_bytes());
    to.put([options.window_scale.unwrap_or(0)]);
    // No ratio is 0.
    to.put([match options.ack_congestion {
        Some(AckCongestionOption::Ratio(ratio)) => ratio.get(),
        Some(AckCongestionOption::Permitted) | None => 0,
    }]);
    to.put(options.smart.unwrap_or(Seq(0)).0.to_be_bytes());
    let stamps = options.timestamps.unwrap_or_default();
    to.put(stamps.val.to_be_bytes());
    to.put(stamps.ecr.to_be_bytes());
    let blocks = options.sack.as_slice();
    let shape = options.ecn_counters.map_or(0, |counters| {
        let order = if counters.kind() == ECN_COUNTER_KINDS[0] { 0 } else { ECT1_FIRST };
        order | (counters.count() as u8 + 1) << 3
    });
    to.put([blocks.len() as u8 | shape]);
    for block in blocks {
        to.put(block.left.0.to_be_bytes());
        to.put(block.right.0.to_be_bytes());
    }
    // A TCP header with four blocks has space for one counter.
    for (_, value) in options.ecn_counters.into_iter().flat_map(EcnCounters::fields) {
        let [_, high, middle, low] = value.to_be_bytes();
        to.put([high, middle, low]);
    }
}

fn take_segment(from: &mut Reader<'_>) -> Option<Segment> {
    let (seq, ack, window, bits) = (Seq(from.word()), Seq(from.word()), from.short(), from.short());
    let has = |bit: u16| bits & bit != 0;
    let (mss, scale, ratio, smart) = (from.short(), from.byte(), from.byte(), Seq(from.word()));
    let ratio = NonZeroU8::new(ratio).map_or(AckCongestionOption::Permitted, AckCongestionOption::Ratio);
    let stamps = Timestamps { val: from.word(), ecr: from.word() };
    let shape = from.byte();
    let blocks = shape & 7;
    let counters = usize::from(shape >> 3 & 7);
    if blocks > 4 || counters > 4 || shape > 2 * ECT1_FIRST {
        return None;
    }
    let mut sack = SackBlocks::NONE;
    for _ in 0..blocks {
        sack.push(SackBlock { left: Seq(from.word()), right: Seq(from.word()) });
    }
    let mut values = [0; 3];
    let values = &mut values[..counters.saturating_sub(1)];
    for value in &mut *values {
        let [high, middle, low] = from.take();
        *value = u32::from_be_bytes([0, high, middle, low]);
    }
    let kind = ECN_COUNTER_KINDS[usize::from(shape & ECT1_FIRST != 0)];
    let options = Options {
        mss: has(MSS).then_some(mss),
        window_scale: has(SCALE).then_some(scale),
        sack_permitted: has(SACK_PERMITTED),
        eln: has(ELN),
        smart: has(SMART).then_some(smart),
        ack_congestion: has(ACK_CONGESTION).then_some(ratio),
        ecn_counters: if counters > 0 { EcnCounters::new(kind, values) } else { None },
        timestamps: has(TIMESTAMPS).then_some(stamps),
        sack,
    };
    Some(Segment { seq, ack, window, flags: Flags(bits & Flags::ALL.0), options })
}

/// A payload type that a two-ended link can carry, with its representation for the code.
pub trait Carried: Clone + Default {
    /// A packet, or a combination of packets.
    type Coded: Coded;

    /// Key of a TCP connection.
    type Connection: Ord + Clone + fmt::Debug;

    /// Returns the packet as a vector, together with its frame's label.
    fn encode(packet: &Packet<Self>, label: Label) -> Self::Coded;

    /// Returns the packet that a code restored; `None` if it is invalid.
    fn decode(coded: &Self::Coded) -> Option<(Packet<Self>, Label)>;

    /// Splits a combination into the parts that a frame carries: headers, for a [`Body::Coded`], and payload.
    fn part(coded: Self::Coded) -> (Image, Self);

    /// Joins the parts of [`Self::part`].
    fn join(image: Image, payload: Self) -> Self::Coded;

    /// Returns the TCP segment in a packet.
    fn tcp(packet: &Packet<Self>) -> Option<TcpSight<Self::Connection>>;

    /// Writes another window into the TCP segment in a packet.
    fn set_window(packet: &mut Packet<Self>, window: u16);

    /// Returns whether the packet is to be sent without repair, for comparison. Simulations compare runs instead.
    fn is_bare(_: &Packet<Self>) -> bool {
        false
    }
}

impl<P> Packet<P> {
    /// Returns the TCP segment in the packet's headers.
    pub fn tcp_sight(&self) -> Option<TcpSight<FlowId>> {
        let Body::Tcp(segment) = self.body else { return None };
        Some(TcpSight { connection: self.flow, side: self.from, segment, len: self.len })
    }

    /// Sets the window in the packet's headers.
    pub fn offer_window(&mut self, window: u16) {
        if let Body::Tcp(segment) = &mut self.body {
            segment.window = window;
        }
    }
}

/// The simulator's packets consist of their headers.
impl Carried for () {
    type Coded = Image;
    type Connection = FlowId;

    fn encode(packet: &Packet, label: Label) -> Image {
        Image::of(packet, label)
    }

    fn decode(coded: &Image) -> Option<(Packet, Label)> {
        coded.packet()
    }

    fn part(coded: Image) -> (Image, ()) {
        (coded, ())
    }

    fn join(image: Image, (): ()) -> Image {
        image
    }

    fn tcp(packet: &Packet) -> Option<TcpSight<FlowId>> {
        packet.tcp_sight()
    }

    fn set_window(packet: &mut Packet, window: u16) {
        packet.offer_window(window);
    }
}

impl<P: Carried> Item for Packet<P> {
    type Coded = P::Coded;
    type Connection = P::Connection;

    fn flow(&self) -> u32 {
        self.flow.0 << 1 | self.from.index() as u32
    }

    fn bytes(&self) -> u32 {
        self.wire_len()
    }

    fn traffic(&self) -> Traffic {
        if P::is_bare(self) {
            return Traffic::Bare;
        }
        match &self.body {
            Body::Tcp(segment)
                if self.len == 0 && !segment.flags.meets(Flags::SYN.with(Flags::FIN).with(Flags::RST)) =>
            {
                Traffic::Acknowledgment
            }
            Body::Tcp(_) | Body::Quic { .. } => Traffic::Stream,
            Body::Media { .. } => Traffic::Call,
            Body::Datagram { .. } | Body::Control | Body::Coded(_) | Body::Report(_) => Traffic::Datagram,
        }
    }

    fn mark(&mut self) -> bool {
        if self.ecn.is_capable() {
            self.ecn = Ecn::Ce;
        }
        self.ecn.is_capable()
    }

    fn is_marked(&self) -> bool {
        self.ecn == Ecn::Ce
    }

    fn tcp(&self) -> Option<TcpSight<P::Connection>> {
        P::tcp(self)
    }

    fn set_window(&mut self, window: u16) {
        P::set_window(self, window);
    }

    fn encode(&self, label: Label) -> P::Coded {
        P::encode(self, label)
    }

    fn decode(coded: &P::Coded) -> Option<(Self, Label)> {
        P::decode(coded)
    }
}

impl Image {
    /// Returns the headers of a packet, together with its frame's label.
    pub fn of<P>(packet: &Packet<P>, label: Label) -> Self {
        let mut to = Writer { image: Self::zero(), at: 0 };
        let kind = match packet.body {
            Body::Tcp(_) => TCP,
            Body::Datagram { .. } => DATAGRAM,
            Body::Media { .. } => MEDIA,
            Body::Quic { form: HeaderForm::Short, .. } => QUIC,
            Body::Quic { form: HeaderForm::Long, .. } => QUIC_LONG,
            // No such packet passes from end to end.
            Body::Control | Body::Coded(_) | Body::Report(_) => 0,
        };
        let first = label.class as u8 | (packet.from.index() as u8) << 2 | packet.ecn.bits() << 3 | kind << 5;
        to.put([first, label.chain]);
        to.put(packet.flow.0.to_be_bytes());
        to.put(packet.header_len.to_be_bytes());
        to.put(packet.len.to_be_bytes());
        match &packet.body {
            Body::Tcp(segment) => put_segment(&mut to, segment),
            Body::Datagram { number } | Body::Media { number } => to.put(number.to_be_bytes()),
            Body::Quic { number, data, .. } => {
                to.put(number.to_be_bytes());
                to.put(data.to_be_bytes());
            }
            Body::Control | Body::Coded(_) | Body::Report(_) => {}
        }
        to.image
    }

    /// Returns the packet with these headers and no payload, and its frame's label; `None` if it is invalid.
    pub fn packet(&self) -> Option<(Packet, Label)> {
        let mut from = Reader { image: self, at: 0 };
        let [first, chain] = from.take();
        let class = Class::from_byte(first & 3)?;
        let side = if first >> 2 & 1 == 0 { Side::Initiator } else { Side::Acceptor };
        let ecn = Ecn::from_bits(first >> 3);
        let (flow, header_len, len) = (FlowId(from.word()), from.short(), from.word());
        let body = match first >> 5 {
            TCP => Body::Tcp(take_segment(&mut from)?),
            DATAGRAM => Body::Datagram { number: from.word() },
            MEDIA => Body::Media { number: from.word() },
            QUIC => Body::Quic { number: from.word(), data: from.word(), form: HeaderForm::Short },
            QUIC_LONG => Body::Quic { number: from.word(), data: from.word(), form: HeaderForm::Long },
            _ => return None,
        };
        let cause = Cause::LinkRepair;
        let packet = Packet { flow, from: side, ecn, cause, header_len, len, body, ..Packet::default() };
        Some((packet, Label { class, chain }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive() {
        let mut sack = SackBlocks::NONE;
        (1..5).for_each(|n| sack.push(SackBlock { left: Seq(n * 0x0101_0101), right: Seq(!n) }));
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            eln: true,
            smart: Some(Seq(5)),
            ack_congestion: NonZeroU8::new(200).map(AckCongestionOption::Ratio),
            ecn_counters: EcnCounters::new(174, &[0xfe_fdfc]),
            timestamps: Some(Timestamps { val: 6, ecr: u32::MAX }),
            sack,
        };
        let full = Segment { seq: Seq(1), ack: Seq(u32::MAX), window: 65_535, flags: Flags::ALL, options };
        let bare = Segment { options: Options::default(), flags: Flags::ACK, ..full };
        let syn = Options { ack_congestion: Some(AckCongestionOption::Permitted), ..Options::default() };
        let counters = |kind, count: usize| Options {
            ecn_counters: EcnCounters::new(kind, &[1, 2, 0xff_ffff][..count]),
            ..Options::default()
        };
        let bodies = [
            Body::Tcp(full),
            Body::Tcp(bare),
            Body::Tcp(Segment { options: syn, ..bare }),
            Body::Tcp(Segment { options: counters(172, 3), ..bare }),
            Body::Tcp(Segment { options: counters(174, 0), ..bare }),
            Body::Datagram { number: 0x0102_0304 },
            Body::Quic { number: 9, data: u32::MAX, form: HeaderForm::Short },
            Body::Media { number: u32::MAX },
            Body::Quic { number: 9, data: 0, form: HeaderForm::Long },
        ];
        for (body, (from, ecn)) in bodies.into_iter().zip([
            (Side::Initiator, Ecn::NotEct),
            (Side::Acceptor, Ecn::Ect0),
            (Side::Initiator, Ecn::Ect1),
            (Side::Acceptor, Ecn::Ce),
            (Side::Acceptor, Ecn::NotEct),
            (Side::Initiator, Ecn::Ect0),
            (Side::Acceptor, Ecn::Ect1),
            (Side::Initiator, Ecn::Ce),
            (Side::Acceptor, Ecn::NotEct),
        ]) {
            let (flow, cause) = (FlowId(0x0a0b_0c0d), Cause::LinkRepair);
            let packet: Packet =
                Packet { flow, from, ecn, cause, header_len: 92, len: 1390, body, ..Packet::default() };
            for class in [Class::Ordered, Class::RealTime, Class::AtOnce] {
                let label = Label { class, chain: 200 };
                assert_eq!(Packet::decode(&packet.encode(label)), Some((packet, label)));
            }
        }
        assert_eq!(Packet::<()>::decode(&Image::zero()), None);
        assert_eq!(Packet::<()>::decode(&Image([255; Image::LENGTH])), None);
    }
}
