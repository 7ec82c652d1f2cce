//! Sequences derived from the rules of docs/models/wireless-chain.md.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::node::{Output, pump};
use crate::packet::{Segment, Side};

const CONFIG: RadioConfig = RadioConfig {
    end: End::Far,
    exchange: Duration::from_millis(100),
    threshold: 5,
    header: 4,
    message: 20,
    connections: 2,
};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Returns a segment of 1000 bytes of the flow, whose first byte is `number` times 1000.
fn segment(flow: u32, number: u32) -> Packet {
    let segment = Segment { seq: Seq(number * 1000), flags: Flags::ACK, ..Segment::default() };
    Packet { flow: FlowId(flow), header_len: 40, len: 1000, body: Body::Tcp(segment), ..Packet::default() }
}

#[derive(Default, Debug)]
struct Said {
    passed: Vec<(Port, Packet)>,
    queues: Vec<u16>,
    missing: Vec<(u32, Side, u32, u32)>,
    judged: Vec<(u32, LossCause)>,
}

fn said(radio: &mut Radio, now: Instant) -> Said {
    let mut said = Said::default();
    pump(radio, now, |output| match output {
        Output::Event(_, Event::LossJudged { seq, cause, .. }) => said.judged.push((seq.0 / 1000, cause)),
        Output::Event(..) => {}
        Output::Transmit(port, why, packet) => match (why, Header::of(&packet)) {
            (Why::Control, Some(Header::Queue(waiting))) => said.queues.push(waiting),
            (Why::Control, Some(Header::Missing(range))) => {
                assert_eq!((port, packet.header_len, packet.priority), (Port::WIRELESS, 20, Priority::Urgent));
                said.missing.push((packet.flow.0, packet.from, range.left.0 / 1000, range.right.0 / 1000));
            }
            _ => said.passed.push((port, packet)),
        },
    });
    said
}

fn give(radio: &mut Radio, port: Port, packet: Packet) -> Said {
    radio.handle_packet(at(1), port, packet);
    said(radio, at(1))
}

/// Returns a segment as the near end sent it with the number `hop`.
fn numbered(hop: u16, packet: Packet) -> Packet {
    let mut packet = Packet { header_len: packet.header_len + 4, ..packet };
    Header::Data(hop).put(&mut packet.link);
    packet
}

fn queue(waiting: u16) -> Packet {
    Packet { link: Header::Queue(waiting).into(), body: Body::Control, ..Packet::default() }
}

/// Packets are numbered, and arrive unchanged. The queue is reported every 100 ms, once more after the last packet, and
/// then no more.
#[test]
fn the_near_end_numbers_and_tells_of_its_queue() {
    let mut near = Radio::new(RadioConfig { end: End::Near, ..CONFIG });
    let mut far = Radio::new(CONFIG);
    for number in 0..3 {
        let sent = give(&mut near, Port::WIRED, segment(1, number)).passed;
        assert_eq!((sent[0].0, Header::of(&sent[0].1)), (Port::WIRELESS, Some(Header::Data(number as u16))));
        assert_eq!(sent[0].1.wire_len(), 1044);
        assert_eq!(give(&mut far, Port::WIRELESS, sent[0].1).passed, [(Port::WIRED, segment(1, number))]);
    }
    let mut told = Vec::new();
    for waiting in [7, 3, 0, 9] {
        let Some(deadline) = near.poll_deadline() else { break };
        near.see_queue(waiting);
        near.handle_timeout(deadline);
        told.extend(said(&mut near, deadline).queues.into_iter().map(|queue| (deadline, queue)));
    }
    assert_eq!(told, [(at(101), 7), (at(201), 3), (at(301), 0)]);
}

/// A jump beyond any window is not a hole but another stream under the same name, which is tracked from there.
#[test]
fn a_stream_far_away_begins_anew() {
    let mut far = Radio::new(CONFIG);
    give(&mut far, Port::WIRELESS, numbered(0, segment(1, 0)));
    // The first segment ended at byte 1000; 2^30 bytes further is within segment 1,073,742.
    let found = give(&mut far, Port::WIRELESS, numbered(2, segment(1, 1_073_743)));
    assert_eq!((found.judged, found.missing), (vec![], vec![]));
    let found = give(&mut far, Port::WIRELESS, numbered(4, segment(1, 1_073_745)));
    assert_eq!(found.judged, [(1_073_744, LossCause::Corruption)]);
}

/// With a short queue the channel lost the segment, which is reported towards the sender. With a long one a queue
/// dropped it, which is not reported.
#[test]
fn what_is_missing_is_judged_by_the_neighbours_queue() {
    for (waiting, cause) in
        [(None, LossCause::Corruption), (Some(4), LossCause::Corruption), (Some(5), LossCause::Congestion)]
    {
        let mut far = Radio::new(CONFIG);
        if let Some(waiting) = waiting {
            assert!(give(&mut far, Port::WIRELESS, queue(waiting)).passed.is_empty());
        }
        give(&mut far, Port::WIRELESS, numbered(0, segment(1, 0)));
        // Numbers 1 and 2, segments 1 and 2, did not arrive.
        let found = give(&mut far, Port::WIRELESS, numbered(3, segment(1, 3)));
        assert_eq!(found.judged, [(1, cause)]);
        let told = [(1, Side::Acceptor, 1, 3)];
        assert_eq!(found.missing, if cause == LossCause::Corruption { &told[..] } else { &[] });
        // Each hole is found once.
        assert!(give(&mut far, Port::WIRELESS, numbered(4, segment(1, 4))).judged.is_empty());
    }
}

/// A hole without a missing number stems from an earlier hop; a missing number without a hole may be a datagram's, or
/// another flow's.
#[test]
fn only_what_this_hop_lost_is_judged() {
    let mut far = Radio::new(CONFIG);
    for (hop, flow, number, judged) in [
        (0, 1, 0, 0),
        (1, 2, 0, 0),
        // Lost before this hop.
        (2, 1, 2, 0),
        // Number 3 was not flow 2's.
        (4, 2, 1, 0),
        // It was flow 1's: segment 3.
        (5, 1, 4, 1),
        // A retransmission fills no hole twice, and causes none.
        (7, 1, 3, 0),
        (8, 1, 5, 0),
    ] {
        let found = give(&mut far, Port::WIRELESS, numbered(hop, segment(flow, number)));
        assert_eq!(found.judged.len(), judged, "number {hop}");
    }
    assert_eq!(far.connections(), 2);
    give(&mut far, Port::WIRELESS, numbered(9, segment(3, 0)));
    assert_eq!(far.connections(), 2, "no more than the limit");
}

/// Reports of other radios, acknowledgments and unnumbered packets pass both ends.
#[test]
fn all_else_passes() {
    let report = Packet {
        flow: FlowId(1),
        body: Body::Control,
        link: Header::Missing(SackBlock { left: Seq(1), right: Seq(2) }).into(),
        ..Packet::default()
    };
    let mut far = Radio::new(CONFIG);
    assert_eq!(give(&mut far, Port::WIRED, report).passed, [(Port::WIRELESS, report)]);
    let mut near = Radio::new(RadioConfig { end: End::Near, ..CONFIG });
    assert_eq!(give(&mut near, Port::WIRELESS, report).passed, [(Port::WIRED, report)]);
    assert_eq!(give(&mut far, Port::WIRELESS, segment(1, 0)).passed, [(Port::WIRED, segment(1, 0))]);
}

proptest! {
    /// For any input: numbers wrap, memory stays bounded, each packet passes once, and received data is never reported
    /// missing.
    #[test]
    fn packets_pass_once_and_memory_is_bounded(
        steps in prop::collection::vec((any::<u16>(), 0u32..4, 0u32..50, 0u16..12, any::<bool>()), 1..200),
        start in any::<u16>(),
    ) {
        let mut far = Radio::new(CONFIG);
        let mut number = start;
        for (hop, flow, segment_number, waiting, wild) in steps {
            number = if wild { hop } else { number.wrapping_add(1) };
            give(&mut far, Port::WIRELESS, queue(waiting));
            let given = segment(flow, segment_number);
            let found = give(&mut far, Port::WIRELESS, numbered(number, given));
            prop_assert_eq!(&found.passed[..], &[(Port::WIRED, given)][..]);
            prop_assert!(found.missing.len() <= 1 && found.judged.len() <= 1);
            prop_assert!(found.missing.iter().all(|&(_, _, left, right)| left < right && right == segment_number));
            prop_assert!(far.missing.len() <= MOST_MISSING && far.connections() <= 2);
        }
    }

    /// A parsed header is written back to the same bytes.
    #[test]
    fn headers_are_read_as_written(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
        if let Some(header) = Header::from_bytes(&bytes) {
            let (written, len) = header.bytes();
            prop_assert_eq!(&written[..len], &bytes[..]);
        }
    }
}
