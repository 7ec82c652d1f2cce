use super::*;
use crate::packet::{Ecn, Options, Timestamps};
use crate::seq::Seq;

const MSS: u32 = 1448;

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// Returns a data segment with timestamps: 52 bytes of headers.
fn data(number: u32, len: u32, flags: Flags) -> Packet {
    let options = Options { timestamps: Some(Timestamps { val: 7, ecr: 8 }), ..Options::default() };
    let seq = Seq(number * MSS);
    let segment = Segment { seq, ack: Seq(1), window: 500, flags: Flags::ACK.with(flags), options };
    Packet { len, header_len: 52, body: Body::Tcp(segment), ..Packet::default() }
}

fn full(number: u32) -> Packet {
    data(number, MSS, Flags::default())
}

/// Returns lengths and numbers of segments of what TCP gets.
fn lengths(merged: [Option<Merged>; 2]) -> alloc::vec::Vec<(u32, u32)> {
    merged.iter().flatten().map(|merged| (merged.packet.len, merged.segments)).collect()
}

fn gro(timeout: u64) -> Gro {
    Gro::new(Duration::from_micros(timeout), Duration::from_millis(4))
}

/// A poll without timeout ends when nothing more arrives at the same time.
#[test]
fn packets_of_one_poll_become_one() {
    let mut gro = gro(0);
    for number in 0..3 {
        assert!(lengths(gro.take(at(10), &full(number))).is_empty());
    }
    let due = gro.poll_deadline().unwrap();
    assert_eq!(due, Instant::from_nanos(10_001));
    assert!(gro.take_due(at(10)).is_none());
    let merged = gro.take_due(due).unwrap();
    assert_eq!((merged.packet.len, merged.size, merged.segments), (3 * MSS, MSS, 3));
    assert_eq!(merged.packet.tcp().unwrap().seq, Seq(0));
    assert_eq!(gro.poll_deadline(), None);
}

/// 52 + 45 · 1448 = 65,212 bytes; another segment would exceed 65,535.
#[test]
fn a_merged_packet_holds_45_segments() {
    let mut gro = gro(0);
    let given: alloc::vec::Vec<_> = (0..46).flat_map(|number| lengths(gro.take(at(10), &full(number)))).collect();
    assert_eq!(given, [(45 * MSS, 45)]);
    assert_eq!(gro.take_due(at(20)).unwrap().segments, 1);
}

/// The timer runs from the last packet; a poll in another jiffy releases what is held, with what the poll has added.
#[test]
fn a_timeout_bridges_gaps_within_a_jiffy() {
    let mut gro = gro(50);
    assert!(lengths(gro.take(at(3_900), &full(0))).is_empty());
    assert!(lengths(gro.take(at(3_940), &full(1))).is_empty());
    assert_eq!(gro.poll_deadline(), Some(at(3_990)));
    assert!(lengths(gro.take(at(3_980), &full(2))).is_empty());
    assert_eq!(lengths(gro.take(at(4_010), &full(3))), [(4 * MSS, 4)]);
    assert!(lengths(gro.take(at(4_020), &full(4))).is_empty());
    assert_eq!(gro.take_due(at(4_070)).unwrap().segments, 1);
}

#[test]
fn ends_of_writes_and_short_segments_end_a_merged_one() {
    for last in [data(1, MSS, Flags::PSH), data(1, MSS, Flags::FIN), data(1, 100, Flags::default())] {
        let mut gro = gro(0);
        assert!(lengths(gro.take(at(10), &full(0))).is_empty());
        let merged = gro.take(at(10), &last);
        assert_eq!(lengths(merged), [(MSS + last.len, 2)]);
        let flags = merged[0].unwrap().packet.tcp().unwrap().flags;
        assert_eq!(flags, last.tcp().unwrap().flags);
        assert_eq!(gro.poll_deadline(), None);
    }
    // A lone segment with PSH is not held, a longer one than the first is not added.
    let mut gro = gro(0);
    assert_eq!(lengths(gro.take(at(10), &data(0, MSS, Flags::PSH))), [(MSS, 1)]);
    assert!(lengths(gro.take(at(10), &data(1, 100, Flags::default()))).is_empty());
    let next = Packet { len: 101, ..data(1, 0, Flags::default()) };
    let next = with(next, |segment| segment.seq += 100);
    assert_eq!(lengths(gro.take(at(10), &next)), [(100, 1)]);
}

fn with(mut packet: Packet, change: impl FnOnce(&mut Segment)) -> Packet {
    if let Body::Tcp(segment) = &mut packet.body {
        change(segment);
    }
    packet
}

#[test]
fn what_differs_is_not_merged() {
    let pure = with(Packet { len: 0, ..full(1) }, |_| {});
    let others = [
        with(full(2), |_| {}),
        with(full(1), |segment| segment.ack = Seq(2)),
        with(full(1), |segment| segment.window = 501),
        with(full(1), |segment| segment.options.timestamps = Some(Timestamps { val: 9, ecr: 8 })),
        with(full(1), |segment| segment.flags = segment.flags.with(Flags::CWR)),
        Packet { ecn: Ecn::Ce, ..full(1) },
    ];
    for other in others {
        let mut gro = gro(0);
        gro.take(at(10), &full(0));
        assert_eq!(lengths(gro.take(at(10), &other)), [(MSS, 1)], "{other:?}");
        assert_eq!(gro.take_due(at(11)).unwrap().packet, other);
    }
    let mut gro = gro(0);
    gro.take(at(10), &full(0));
    assert_eq!(lengths(gro.take(at(10), &pure)), [(MSS, 1), (0, 1)], "an acknowledgment follows the data before it");
    // A checksum that fails leaves the held data alone.
    gro.take(at(12), &full(0));
    let damaged = Packet { integrity: Integrity::PayloadDamaged, ..full(1) };
    assert_eq!(lengths(gro.take(at(12), &damaged)), [(MSS, 1)]);
    assert!(gro.poll_deadline().is_some());
}
