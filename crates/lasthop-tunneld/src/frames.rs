//! Wire format of the link's frames, between the session's header and its tag. Numbers are big-endian. Symbol and
//! packet numbers are truncated, and the receiver expands them relative to the number that it expects.
//!
//! | frame | bytes |
//! |---|---|
//! | data | class 1 (0, 1, 2), symbol 4, chain 1, packet |
//! | repair | 128 + count − 1: 1, first symbol 3, key 1, coded chains 1 and packets |
//! | feedback | 16 to 23: 1, largest packet 4, delay in µs 3, first missing symbol 4, delivered 4, useful 4, then fields selected by the three lowest bits: |
//! | | bit 0: 16 bytes for packets before the largest (absent: all arrived); bit 1: 16 bytes for symbols after the missing one (absent: none arrived); |
//! | | bit 2, to ends that can read it: 4 bytes, number of packets marked CE (absent: 0) |
//! | | then, with several paths: path 1, time of arrival of the largest packet in µs 4, distance of the 16 bytes from it 2 (absent: 0) |
//! | floor | 32: 1, symbol 4 |
//! | probe | 33: 1 |
//! | unrepaired packet | 34: 1, packet |

use lasthop_proto::link::hybrid::{
    Class, Feedback, Frame, Label, PacketNumber, PathId, Symbol, WINDOW, Window, expand,
};
use lasthop_proto::time::Duration;

use crate::inner::packet::{Packet, Vector};

/// Number of bytes before a packet, or before a combination of packets.
pub const DATA: usize = 6;

const FEEDBACK: u8 = 16;
const SOME_MISSING: u8 = 1;
const SOME_BEYOND: u8 = 2;
const SOME_MARKED: u8 = 4;
const FLOOR: u8 = 32;
const PROBE: u8 = 33;
const BARE: u8 = 34;
const REPAIR: u8 = 0x80;
/// Maximum delay, in µs: the field has 24 bits.
const LONGEST_DELAY: u64 = (1 << 24) - 1;

/// Reference numbers for the expansion of truncated numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Near {
    /// Last symbol of the other end.
    pub symbol: Symbol,
    /// Next symbol of this end.
    pub own_symbol: Symbol,
}

/// Packet numbers of this end on a path, as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// Next packet number.
    pub next: PacketNumber,
    /// First packet number since the other end last restarted; feedback on earlier packets is invalid.
    pub offset: u64,
}

/// Returns the packet in a frame, if it has one.
pub fn packet_mut(frame: &mut [u8]) -> Option<&mut [u8]> {
    match *frame.first()? {
        0..=2 => frame.get_mut(DATA..),
        BARE => frame.get_mut(1..),
        _ => None,
    }
}

/// Appends a frame to `to`.
pub fn write(frame: &Frame<Packet>, to: &mut Vec<u8>) {
    match frame {
        Frame::Data(Symbol(symbol), label, packet) => {
            to.push(label.class as u8);
            to.extend_from_slice(&(*symbol as u32).to_be_bytes());
            to.push(label.chain);
            to.extend_from_slice(packet.bytes());
        }
        Frame::Repair(window, key, sum) => {
            to.push(REPAIR | window.count.wrapping_sub(1) & !REPAIR);
            to.extend_from_slice(&(window.first.0 as u32).to_be_bytes()[1..]);
            to.push(*key);
            sum.write(to);
        }
        Frame::Feedback(feedback) => write_feedback(feedback, to),
        Frame::Floor(Symbol(symbol)) => {
            to.push(FLOOR);
            to.extend_from_slice(&(*symbol as u32).to_be_bytes());
        }
        Frame::Probe => to.push(PROBE),
        Frame::Bare(packet) => {
            to.push(BARE);
            to.extend_from_slice(packet.bytes());
        }
    }
}

fn write_feedback(feedback: &Feedback, to: &mut Vec<u8>) {
    let missing = if feedback.received == u128::MAX { 0 } else { SOME_MISSING };
    let beyond = if feedback.beyond == 0 { 0 } else { SOME_BEYOND };
    let micros = (feedback.delay.as_nanos() / 1000).min(LONGEST_DELAY) as u32;
    let marked = if feedback.marked == 0 { 0 } else { SOME_MARKED };
    to.push(FEEDBACK | missing | beyond | marked);
    to.extend_from_slice(&(feedback.largest.0 as u32).to_be_bytes());
    to.extend_from_slice(&micros.to_be_bytes()[1..]);
    to.extend_from_slice(&(feedback.floor.0 as u32).to_be_bytes());
    to.extend_from_slice(&feedback.delivered.to_be_bytes());
    to.extend_from_slice(&feedback.useful.to_be_bytes());
    if missing != 0 {
        to.extend_from_slice(&feedback.received.to_be_bytes());
    }
    if beyond != 0 {
        to.extend_from_slice(&feedback.beyond.to_be_bytes());
    }
    if marked != 0 {
        to.extend_from_slice(&feedback.marked.to_be_bytes());
    }
    let Feedback { path: PathId(path), arrived, back, .. } = feedback;
    if (*path, *arrived, *back) != (0, 0, 0) {
        to.push(*path);
        to.extend_from_slice(&arrived.to_be_bytes());
        to.extend_from_slice(&back.to_be_bytes());
    }
}

/// Cursor over the remaining bytes.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn three(&mut self) -> Option<u32> {
        let [a, b, c] = self.take()?;
        Some(u32::from_be_bytes([0, a, b, c]))
    }
}

/// Parses a frame; `None` if it is incomplete, or contains an invalid packet. `own` returns this end's numbers on a path,
/// if there is one with that number.
pub fn read(bytes: &[u8], near: Near, own: impl FnOnce(PathId) -> Option<Own>) -> Option<Frame<Packet>> {
    let mut from = Reader(bytes);
    let [kind] = from.take()?;
    if let Some(class) = Class::from_byte(kind) {
        let symbol = Symbol(expand(from.word()?, near.symbol.0));
        let [chain] = from.take()?;
        return Some(Frame::Data(symbol, Label { class, chain }, Packet::arrived(from.0)?));
    }
    if kind & REPAIR != 0 {
        let first = Symbol(expand_three(from.three()?, near.symbol.0));
        let [key] = from.take()?;
        let count = (kind & !REPAIR) + 1;
        const { assert!(WINDOW == 128) };
        return (!from.0.is_empty()).then(|| Frame::Repair(Window { first, count }, key, Vector::sum(from.0)));
    }
    let frame = match kind {
        FLOOR => Frame::Floor(Symbol(expand(from.word()?, near.symbol.0))),
        PROBE => Frame::Probe,
        BARE => return Some(Frame::Bare(Packet::arrived(from.0)?)),
        FEEDBACK..=23 => Frame::Feedback(read_feedback(kind, &mut from, near, own)?),
        _ => return None,
    };
    // Trailing bytes belong to a later version.
    Some(frame)
}

fn read_feedback(
    kind: u8,
    from: &mut Reader<'_>,
    near: Near,
    own: impl FnOnce(PathId) -> Option<Own>,
) -> Option<Feedback> {
    let largest = from.word()?;
    let delay = Duration::from_micros(from.three()?.into());
    let floor = Symbol(expand(from.word()?, near.own_symbol.0));
    let (delivered, useful) = (from.word()?, from.word()?);
    let received = if kind & SOME_MISSING != 0 { u128::from_be_bytes(from.take()?) } else { u128::MAX };
    let beyond = if kind & SOME_BEYOND != 0 { u128::from_be_bytes(from.take()?) } else { 0 };
    let marked = if kind & SOME_MARKED != 0 { from.word()? } else { 0 };
    let (path, arrived, back) = match from.take() {
        Some([path, a, b, c, d, e, f]) => (PathId(path), u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f])),
        None => (PathId::FIRST, 0, 0),
    };
    let own = own(path)?;
    let largest = PacketNumber(expand(largest, own.next.0).checked_sub(own.offset)?);
    Some(Feedback { path, largest, delay, back, received, floor, beyond, delivered, useful, marked, arrived })
}

/// Returns the number closest to `near` whose low 24 bits are `low`.
const fn expand_three(low: u32, near: u64) -> u64 {
    // Sign extension from 24 bits.
    let ahead = ((low.wrapping_sub(near as u32) << 8) as i32) >> 8;
    match near.checked_add_signed(ahead as i64) {
        Some(number) => number,
        None => low as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { symbol: Symbol(0x1_0000_0005), own_symbol: Symbol(77) };

    /// Returns the numbers of two paths.
    fn own(PathId(path): PathId) -> Option<Own> {
        let offset = [0x2_0000_0000, 0x3_0000_0000].get(usize::from(path)).copied()?;
        Some(Own { next: PacketNumber(offset + 0x100), offset })
    }

    fn packet() -> Packet {
        let mut bytes = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        Packet::arrived(&bytes).unwrap()
    }

    fn frames() -> Vec<(Frame<Packet>, usize)> {
        let label = Label { class: Class::AtOnce, chain: 9 };
        let window = Window { first: Symbol(0xffff_fffe), count: 128 };
        let feedback = Feedback {
            largest: PacketNumber(0x2_0000_0050),
            delay: Duration::from_micros(77),
            received: u128::MAX,
            floor: Symbol(70),
            beyond: 0,
            delivered: 5,
            useful: 6,
            marked: 0,
            ..Feedback::default()
        };
        vec![
            (Frame::Data(Symbol(0x1_0000_0004), label, packet()), DATA + 24),
            (Frame::Repair(window, 3, Vector::sum(&[1, 2, 3])), DATA - 1 + 3),
            (Frame::Feedback(feedback), 20),
            (Frame::Feedback(Feedback { received: 5, ..feedback }), 36),
            (Frame::Feedback(Feedback { beyond: 5, received: 0, ..feedback }), 52),
            (Frame::Feedback(Feedback { marked: 9, ..feedback }), 24),
            (
                Frame::Feedback(Feedback {
                    path: PathId(1),
                    largest: PacketNumber(0x3_0000_0050),
                    arrived: u32::MAX,
                    back: 260,
                    ..feedback
                }),
                27,
            ),
            (Frame::Floor(Symbol(0x0_ffff_fff0)), 5),
            (Frame::Probe, 1),
            (Frame::Bare(packet()), 1 + 24),
        ]
    }

    #[test]
    fn frames_are_read_as_they_are_written() {
        for (frame, length) in frames() {
            let mut bytes = Vec::new();
            write(&frame, &mut bytes);
            assert_eq!(bytes.len(), length, "{frame:?}");
            let read_back = read(&bytes, NEAR, own).unwrap();
            match (&frame, read_back) {
                // The sender numbers its packets from 0; on the wire they have an offset.
                (Frame::Feedback(written), Frame::Feedback(read)) => {
                    assert_eq!(read, Feedback { largest: PacketNumber(0x50), ..*written });
                }
                (frame, read_back) => assert_eq!(*frame, read_back),
            }
            for end in 0..length {
                // A truncated combination is a valid combination.
                let part = read(&bytes[..end], NEAR, own);
                let is_valid = match &frame {
                    Frame::Repair(..) => true,
                    // Without all of the last fields, it is feedback on the first path.
                    Frame::Feedback(feedback) if feedback.path != PathId::FIRST => end >= length - 7,
                    _ => false,
                };
                assert!(part.is_none() || is_valid, "{end} bytes of {frame:?}");
            }
        }
        assert_eq!(read(&[3, 0, 0, 0, 0, 0], NEAR, own), None);
        assert_eq!(read(&[24; 60], NEAR, own), None);
    }

    #[test]
    fn what_is_said_of_packets_before_the_offset_is_not_heard() {
        let mut bytes = Vec::new();
        write(&Frame::Feedback(Feedback { largest: PacketNumber(0x1_ffff_ffff), ..Feedback::default() }), &mut bytes);
        assert_eq!(read(&bytes, NEAR, own), None);
    }

    proptest::proptest! {
        /// Arbitrary input parses to bounded values that can be written again.
        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            if let Some(frame) = read(&bytes, NEAR, own) {
                let mut written = Vec::new();
                write(&frame, &mut written);
                proptest::prop_assert!(written.len() <= bytes.len());
                if let Frame::Repair(window, ..) = frame {
                    proptest::prop_assert!((1..=128).contains(&window.count));
                }
            }
        }
    }

    #[test]
    fn three_bytes_tell_numbers_nearby() {
        for (number, near) in
            [(5_u64, 3_u64), (0xff_ffff, 0x100_0001), (0x100_0001, 0xff_ffff), (0, 9), (1 << 40, (1 << 40) + 5000)]
        {
            assert_eq!(expand_three(number as u32 & 0xff_ffff, near), number);
        }
    }
}
