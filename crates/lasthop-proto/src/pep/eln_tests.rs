//! Golden sequences: segments of 100 bytes, numbered from the initial sequence number, as in `snoop_tests.rs`.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::rig::{Loss, transfer};
use super::super::snoop::properties::{Step, run, step};
use super::*;
use crate::node::{Output, pump};
use crate::packet::{Side, Timestamps};
use crate::tcp::config::{Preset, Recovery, TcpConfig};
use crate::time::Duration;

const ISN: Seq = Seq(u32::MAX - 250);

fn seq(n: u32) -> Seq {
    ISN + n * 100
}

fn packet(from: Side, len: u32, segment: Segment) -> Packet {
    crate::pep::rig::packet(FlowId(0), from, len, segment)
}

/// Returns segment `n` of the host behind `port`.
fn data(port: Port, n: u32) -> (Port, Packet) {
    let from = if port == Port::WIRED { Side::Initiator } else { Side::Acceptor };
    (port, packet(from, 100, Segment { seq: seq(n), flags: Flags::ACK, ..Segment::default() }))
}

/// Returns an acknowledgment by the host behind `port` of all segments before `n`.
fn ack(port: Port, n: u32) -> (Port, Packet) {
    let from = if port == Port::WIRED { Side::Initiator } else { Side::Acceptor };
    (port, packet(from, 0, Segment { ack: seq(n), window: 5000, flags: Flags::ACK, ..Segment::default() }))
}

/// Passes a packet through the marker, and returns the output and the events.
fn pass(marker: &mut ElnMarker<()>, (port, packet): (Port, Packet)) -> (Packet, Vec<Event>) {
    marker.handle_packet(Instant::ZERO, port, packet);
    let (mut out, mut events) = (Vec::new(), Vec::new());
    pump(marker, Instant::ZERO, |output| match output {
        Output::Transmit(to, _, packet) => {
            assert_ne!(to, port);
            out.push(packet);
        }
        Output::Event(_, event) => events.push(event),
    });
    assert_eq!(out.len(), 1);
    (out[0], events)
}

fn is_marked(marker: &mut ElnMarker<()>, packet: (Port, Packet)) -> bool {
    let before = packet.1;
    let (after, events) = pass(marker, packet);
    let eln = after.tcp().is_some_and(|tcp| tcp.options.eln);
    assert_eq!(eln, matches!(events[..], [Event::ElnMarked { .. }]));
    assert_eq!(after.header_len, before.header_len + if eln { 4 } else { 0 });
    eln
}

fn marker() -> ElnMarker<()> {
    ElnMarker::new(ElnMarkerConfig::default())
}

#[test]
fn a_duplicate_for_what_was_forwarded_is_a_loss_of_the_hop() {
    let mut marker = marker();
    (0..4).for_each(|n| drop(pass(&mut marker, data(Port::WIRED, n))));
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 1)));
    assert!(is_marked(&mut marker, ack(Port::WIRELESS, 1)));
    assert!(is_marked(&mut marker, ack(Port::WIRELESS, 1)));
    // A new acknowledgment, a window update, and the last one: no duplicates.
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 2)));
    let mut update = ack(Port::WIRELESS, 2);
    if let Body::Tcp(segment) = &mut update.1.body {
        segment.window += 1;
    }
    assert!(!is_marked(&mut marker, update));
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 4)));
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 4)));
}

/// Only ranges that radios report as corrupted are marked: other losses beyond may be congestion.
#[test]
fn a_marker_that_is_told_marks_what_it_is_told_of() {
    let told = |left: u32, right: u32| {
        let link = Header::Missing(SackBlock { left: seq(left), right: seq(right) }).into();
        (
            Port::WIRELESS,
            Packet { flow: FlowId(0), from: Side::Acceptor, body: Body::Control, link, ..Packet::default() },
        )
    };
    let config = ElnMarkerConfig { knowledge: ElnKnowledge::Told, ..ElnMarkerConfig::default() };
    let mut marker = ElnMarker::<()>::new(config);
    (0..9).for_each(|n| drop(pass(&mut marker, data(Port::WIRED, n))));
    for (left, right) in [(3, 4), (5, 5), (8, 40)] {
        let (port, packet) = told(left, right);
        assert_eq!(marker.handle_packet(Instant::ZERO, port, packet), Disposition::Absorbed);
    }
    // 1 was lost to congestion, 3 to corruption; 5 was reported with length 0, and 40 never passed.
    for (n, marked) in [(1, false), (3, true), (5, false), (8, false)] {
        assert!(!is_marked(&mut marker, ack(Port::WIRELESS, n)), "the first is no duplicate");
        assert_eq!(is_marked(&mut marker, ack(Port::WIRELESS, n)), marked, "{n}");
    }
    // A marker with own observation lets reports pass, as does any marker for packets from the wire.
    let (port, packet) = told(1, 2);
    assert_eq!(self::marker().handle_packet(Instant::ZERO, port, packet), Disposition::Forwarded);
    assert_eq!(marker.handle_packet(Instant::ZERO, Port::WIRED, packet), Disposition::Forwarded);
}

#[test]
fn a_duplicate_for_what_never_came_by_is_congestion_even_after_it_is_filled() {
    let mut marker = marker();
    [0, 2, 3].into_iter().for_each(|n| drop(pass(&mut marker, data(Port::WIRED, n))));
    (0..3).for_each(|_| assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 1))));
    pass(&mut marker, data(Port::WIRED, 1));
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 1)));
    // The next hole was lost on the hop.
    assert!(!is_marked(&mut marker, ack(Port::WIRELESS, 3)));
    assert!(is_marked(&mut marker, ack(Port::WIRELESS, 3)));
}

#[test]
fn gaps_in_data_from_the_mobile_host_are_losses_of_the_hop() {
    let mut marker = marker();
    [0, 1, 3].into_iter().for_each(|n| drop(pass(&mut marker, data(Port::WIRELESS, n))));
    // 1 was lost beyond the base station, 2 on the hop.
    assert!(!is_marked(&mut marker, ack(Port::WIRED, 1)));
    assert!(!is_marked(&mut marker, ack(Port::WIRED, 1)));
    assert!(is_marked(&mut marker, ack(Port::WIRED, 2)));
    assert!(is_marked(&mut marker, ack(Port::WIRED, 2)));
    // The list is trimmed by acknowledgments only.
    pass(&mut marker, data(Port::WIRELESS, 2));
    assert!(is_marked(&mut marker, ack(Port::WIRED, 2)));
    assert!(!is_marked(&mut marker, ack(Port::WIRED, 3)));
    // Old acknowledgments stay unmarked.
    assert!(!is_marked(&mut marker, ack(Port::WIRED, 2)));
}

#[test]
fn the_mark_makes_room_for_itself() {
    let mut marker = marker();
    (0..9).for_each(|n| drop(pass(&mut marker, data(Port::WIRED, n))));
    let mut full = ack(Port::WIRELESS, 1);
    if let Body::Tcp(segment) = &mut full.1.body {
        segment.options.timestamps = Some(Timestamps { val: 1, ecr: 1 });
        [2, 4, 6].into_iter().for_each(|n| segment.options.sack.push(SackBlock { left: seq(n), right: seq(n + 1) }));
        full.1.header_len = 40 + segment.options.wire_len();
    }
    pass(&mut marker, full);
    let (after, _) = pass(&mut marker, full);
    let options = after.tcp().map(|tcp| tcp.options).unwrap_or_default();
    assert!(options.eln && options.wire_len() <= 40);
    let lefts: Vec<_> = options.sack.as_slice().iter().map(|block| block.left).collect();
    assert_eq!(lefts, [seq(2), seq(4)]);
    assert_eq!(after.header_len, 40 + options.wire_len());
    // ns-2 counts no headers: none are added then.
    let mut bare = ack(Port::WIRELESS, 1);
    bare.1.header_len = 0;
    assert_eq!(pass(&mut marker, bare).0.header_len, 0);
}

#[test]
fn surplus_gaps_never_make_congestion_pass_for_corruption() {
    let marks = |port: Port, back: Port| {
        let mut marker = ElnMarker::new(ElnMarkerConfig { gaps: 2, ..ElnMarkerConfig::default() });
        [0, 2, 4, 6, 8].into_iter().for_each(|n| drop(pass(&mut marker, data(port, n))));
        (1..8).map(|n| [n, n].map(|n| is_marked(&mut marker, ack(back, n)))[1]).collect::<Vec<_>>()
    };
    assert_eq!(marks(Port::WIRED, Port::WIRELESS), [false, true, false, false, false, false, false]);
    assert_eq!(marks(Port::WIRELESS, Port::WIRED), [true, false, true, false, false, false, false]);
}

#[test]
fn state_ends_with_the_connection_or_for_another() {
    let mut marker = ElnMarker::new(ElnMarkerConfig { connections: 1, ..ElnMarkerConfig::default() });
    let end = |port| {
        let (port, mut fin) = data(port, 1);
        fin.len = 0;
        if let Body::Tcp(segment) = &mut fin.body {
            segment.flags = Flags::ACK.with(Flags::FIN);
        }
        (port, fin)
    };
    let last = |port| {
        let (port, mut last) = ack(port, 1);
        if let Body::Tcp(segment) = &mut last.body {
            segment.ack += 1;
        }
        (port, last)
    };
    pass(&mut marker, data(Port::WIRED, 0));
    for packet in [end(Port::WIRED), last(Port::WIRELESS), end(Port::WIRELESS)] {
        pass(&mut marker, packet);
        assert_eq!(marker.connections(), 1);
    }
    pass(&mut marker, last(Port::WIRED));
    assert_eq!(marker.connections(), 0);
    pass(&mut marker, data(Port::WIRED, 0));
    let (port, other) = data(Port::WIRED, 0);
    let (_, events) = pass(&mut marker, (port, Packet { flow: FlowId(1 << 20), ..other }));
    assert_eq!((marker.connections(), &events[..]), (1, &[Event::Evicted][..]));
    let reset = packet(Side::Initiator, 0, Segment { flags: Flags::RST, ..Segment::default() });
    pass(&mut marker, (Port::WIRED, Packet { flow: FlowId(1 << 20), ..reset }));
    assert_eq!(marker.connections(), 0);
}

/// \[a\] §IV: a sender that is notified of corruption keeps its window, which matters most over a long path.
#[test]
fn marks_help_a_sender_that_heeds_them() {
    let mbps = |recovery| {
        let tcp = TcpConfig::new(Preset::BsdLite, recovery);
        let loss = Loss { mean_bytes: 65_536.0, burst: 1 };
        let outcome = transfer(marker(), tcp, Duration::from_millis(65), loss, 8_000_000, 1);
        assert!(outcome.marked > 0, "{outcome:?}");
        outcome.mbps
    };
    let (deaf, heeding) = (mbps(Recovery::NEW_RENO), mbps(Recovery::ELN_RXMT));
    assert!(heeding > deaf, "{deaf} {heeding}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_input_is_survived(
        connections in 0usize..4,
        gaps in 0usize..4,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let mut marker = ElnMarker::new(ElnMarkerConfig { connections, gaps, ..ElnMarkerConfig::default() });
        run(&mut marker, &steps, |marker, step, outputs| {
            assert!(marker.connections() <= connections);
            let packets = outputs.iter().filter(|output| matches!(output, Output::Transmit(..))).count();
            assert_eq!(packets, usize::from(matches!(step, Step::Packet(..))));
        });
    }
}
