//! Tests of the list of explicit drops, frame by frame.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Channel, Drop, DropFrame, ErrorSpec, Fate};
use crate::packet::{Body, Cause, Flags, FlowId, Integrity, LinkHeaders, Packet, Priority, Segment, Side};
use crate::random::Root;
use crate::seq::Seq;
use crate::time::Instant;

const MSS: u32 = 1000;

fn channel(drops: &[(Option<u32>, DropFrame)]) -> Channel {
    let drops = drops.iter().map(|&(flow, frame)| Drop { flow: flow.map(FlowId), frame }).collect();
    Channel::new(&ErrorSpec::List(Arc::new(drops)), Root(1).stream("unused"))
}

fn data(segment: u32, transmission: u32) -> DropFrame {
    DropFrame::Data { segment, transmission }
}

/// Returns a TCP segment of flow `flow`.
fn tcp(flow: u32, seq: u32, len: u32, flags: Flags) -> Packet {
    Packet {
        flow: FlowId(flow),
        from: Side::Initiator,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        ecn: Default::default(),
        cause: Cause::New,
        super_segment: 0,
        header_len: 40,
        len,
        body: Body::Tcp(Segment { seq: Seq(seq), flags, ..Segment::default() }),
        link: LinkHeaders::NONE,
        payload: (),
    }
}

/// Returns whether the channel drops `packet`.
fn drops(channel: &mut Channel, packet: &Packet) -> bool {
    match channel.judge(packet, Instant::ZERO, Instant::ZERO) {
        Fate::Delivered => false,
        Fate::Lost => true,
        Fate::Damaged | Fate::Late(_) | Fate::Marked => panic!("a list knows losses only"),
    }
}

/// Returns which of the full data segments of flow 0 at `seqs`, in this order, are dropped: their indices in `seqs`.
fn dropped(channel: &mut Channel, seqs: &[u32]) -> Vec<usize> {
    let is_dropped = |&(_, &seq): &(usize, &u32)| drops(channel, &tcp(0, seq, MSS, Flags::ACK));
    seqs.iter().enumerate().filter(is_dropped).map(|(i, _)| i).collect()
}

#[test]
fn segments_count_in_the_order_in_which_they_first_pass() {
    let mut channel = channel(&[(Some(0), data(2, 1)), (Some(0), data(3, 1)), (Some(0), data(4, 2))]);
    // The 2nd segment by sequence number was lost before it arrived here: it passes as the 4th, and its own
    // retransmission is the 4th segment's second transmission.
    let seqs = [5000, 7000, 8000, 5000, 6000, 9000, 6000, 6000];
    assert_eq!(dropped(&mut channel, &seqs), [1, 2, 6]);
}

#[test]
fn each_transmission_of_a_segment_counts() {
    let mut channel = channel(&[(Some(0), data(1, 1)), (Some(0), data(1, 2)), (Some(0), data(1, 4))]);
    assert_eq!(dropped(&mut channel, &[100, 1100, 100, 100, 1100, 100, 100]), [0, 2, 5]);
}

#[test]
fn sequence_numbers_wrap() {
    let start = 0_u32.wrapping_sub(2 * MSS + 500);
    let seqs: Vec<u32> = (0..5).map(|i| start.wrapping_add(i * MSS)).collect();
    assert!(seqs[2] > seqs[3], "the third segment straddles the wrap");
    let mut channel = channel(&[(Some(0), data(1, 2)), (Some(0), data(3, 2)), (Some(0), data(4, 1))]);
    let order = [seqs[0], seqs[1], seqs[2], seqs[3], seqs[4], seqs[2], seqs[0], seqs[3]];
    assert_eq!(dropped(&mut channel, &order), [3, 5, 6]);
}

#[test]
fn a_sequence_number_that_comes_round_again_is_another_segment() {
    let mut channel = channel(&[(Some(0), data(1, 2)), (Some(0), data(6, 1))]);
    // Quarters of the sequence space: the fifth has the number of the first, but is no retransmission of it.
    let quarter = 1 << 30;
    assert_eq!(dropped(&mut channel, &[0, quarter, 2 * quarter, 3 * quarter, 0, quarter]), [5]);
}

#[test]
fn segments_before_the_first_seen_count_too() {
    let mut channel = channel(&[(Some(0), data(2, 1)), (Some(0), data(2, 2))]);
    assert_eq!(dropped(&mut channel, &[500, 500_u32.wrapping_sub(MSS), 500, 500_u32.wrapping_sub(MSS)]), [1, 3]);
}

#[test]
fn only_pure_acknowledgments_count_as_such() {
    let mut channel = channel(&[(Some(0), DropFrame::Ack(1)), (Some(0), DropFrame::Ack(3))]);
    let others = [
        tcp(0, 1, 0, Flags::SYN),
        tcp(0, 1, 0, Flags::SYN.with(Flags::ACK)),
        tcp(0, 2, 0, Flags::FIN.with(Flags::ACK)),
        tcp(0, 2, 0, Flags::RST.with(Flags::ACK)),
        tcp(0, 2, MSS, Flags::ACK),
        tcp(0, 2, 0, Flags::default()),
    ];
    assert!(!others.iter().any(|packet| drops(&mut channel, packet)));
    let ack = tcp(0, 2, 0, Flags::ACK);
    let acks: Vec<bool> = (0..5).map(|_| drops(&mut channel, &ack)).collect();
    assert_eq!(acks, [true, false, true, false, false]);
}

#[test]
fn syns_and_their_answers_count_together() {
    let mut channel = channel(&[(Some(0), DropFrame::Syn(2)), (Some(0), DropFrame::Syn(0))]);
    let passing = [Flags::SYN, Flags::ACK, Flags::SYN.with(Flags::ACK), Flags::FIN.with(Flags::ACK), Flags::SYN];
    let fates = passing.map(|flags| drops(&mut channel, &tcp(0, 1, 0, flags)));
    assert_eq!(fates, [false, false, true, false, false]);
}

#[test]
fn only_payload_makes_a_data_segment() {
    let mut channel = channel(&[(Some(0), data(1, 1)), (Some(0), data(1, 2)), (Some(0), data(2, 1))]);
    assert!(!drops(&mut channel, &tcp(0, 99, 0, Flags::SYN)));
    assert!(!drops(&mut channel, &tcp(0, 100, 0, Flags::ACK)));
    // Data on a SYN begins one after it, like its retransmission without the SYN (RFC 7413).
    assert!(drops(&mut channel, &tcp(0, 99, MSS, Flags::SYN)));
    assert!(drops(&mut channel, &tcp(0, 100, MSS, Flags::ACK)));
    assert!(drops(&mut channel, &tcp(0, 100 + MSS, 10, Flags::FIN.with(Flags::ACK))));
}

#[test]
fn flows_count_apart() {
    let mut channel = channel(&[(None, data(2, 1)), (None, DropFrame::Ack(1)), (Some(7), data(3, 1))]);
    // Frames of both flows, interleaved.
    for i in 0..4 {
        assert_eq!(drops(&mut channel, &tcp(7, i * MSS, MSS, Flags::ACK)), i == 1 || i == 2, "flow 7, {i}");
        assert_eq!(drops(&mut channel, &tcp(8, i * MSS, MSS, Flags::ACK)), i == 1, "flow 8, {i}");
        assert_eq!(drops(&mut channel, &tcp(7, 0, 0, Flags::ACK)), i == 0, "ack of flow 7, {i}");
        assert_eq!(drops(&mut channel, &tcp(8, 0, 0, Flags::ACK)), i == 0, "ack of flow 8, {i}");
    }
}

#[test]
fn unlisted_flows_and_impossible_counts_pass() {
    let mut channel =
        channel(&[(Some(1), data(1, 1)), (None, data(0, 1)), (None, data(1, 0)), (None, DropFrame::Ack(0))]);
    assert!(dropped(&mut channel, &[0, 1000, 0]).is_empty());
    assert!(!drops(&mut channel, &tcp(0, 0, 0, Flags::ACK)));
    assert!(drops(&mut channel, &tcp(1, 0, MSS, Flags::ACK)));
}

#[test]
fn datagrams_count_by_their_number() {
    let mut channel = channel(&[(None, data(2, 1)), (None, data(2, 2))]);
    let mut datagram = |number| {
        let packet = Packet { body: Body::Datagram { number }, ..tcp(0, 0, 250, Flags::default()) };
        drops(&mut channel, &packet)
    };
    assert_eq!([10, 11, 12, 11, 11].map(&mut datagram), [false, true, false, true, false]);
}

#[test]
fn a_list_twice_the_same_drops_once() {
    let mut channel = channel(&[(None, data(1, 1)), (Some(0), data(1, 1)), (Some(0), data(1, 1))]);
    assert_eq!(dropped(&mut channel, &[0, 0, 0]), [0]);
}
