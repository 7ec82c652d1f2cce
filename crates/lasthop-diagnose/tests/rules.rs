//! One rule a test: a few packets of one connection, and the verdict on them.

use std::net::SocketAddr;

use lasthop_diagnose::loss::Needless;
use lasthop_diagnose::{Direction, Options, Report, diagnose};
use lasthop_proto::packet::{Flags, Options as TcpOptions, SackBlock, SackBlocks, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Route, build};

/// First sequence numbers of client and server.
const FIRST: [u32; 2] = [1000, 5000];
const DATA: Flags = Flags::ACK.with(Flags::PSH);

/// A packet; sequence numbers are relative, 1 is the first byte.
#[derive(Clone, Copy)]
struct Packet {
    from: usize,
    seq: u32,
    ack: u32,
    len: usize,
    flags: Flags,
    stamps: Option<(u32, u32)>,
    sack: Option<(u32, u32)>,
    id: u16,
    ttl: u8,
}

const CLIENT: Packet =
    Packet { from: 0, seq: 1, ack: 1, len: 0, flags: Flags::ACK, stamps: None, sack: None, id: 0, ttl: 64 };
const SERVER: Packet = Packet { from: 1, ..CLIENT };

/// A capture of raw IP packets. Times are microseconds.
struct Capture(Vec<u8>);

impl Capture {
    fn new() -> Self {
        let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101];
        Self(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// With a handshake: the server is `rtt` away, the client 100 µs.
    fn open(rtt: u32) -> Self {
        let mut capture = Self::new();
        let syn = Packet { seq: 0, ack: 0, flags: Flags::SYN, ..CLIENT };
        capture.put(0, syn);
        capture.put(rtt, Packet { from: 1, flags: Flags::SYN.with(Flags::ACK), ack: 1, ..syn });
        capture.put(rtt + 100, CLIENT);
        capture
    }

    fn put(&mut self, at: u32, packet: Packet) {
        let end = |number: usize| -> SocketAddr { format!("10.0.0.{}:{}", number + 1, 100 + number).parse().unwrap() };
        let Packet { from, seq, ack, len, flags, stamps, sack, id, ttl } = packet;
        let (own, other) = (FIRST[from], FIRST[1 - from]);
        let mut blocks = SackBlocks::NONE;
        if let Some((left, right)) = sack {
            blocks.push(SackBlock { left: Seq(other.wrapping_add(left)), right: Seq(other.wrapping_add(right)) });
        }
        let syn = flags.has(Flags::SYN);
        let options = TcpOptions {
            mss: syn.then_some(1460),
            window_scale: syn.then_some(7),
            sack_permitted: syn,
            timestamps: stamps.map(|(val, ecr)| Timestamps { val, ecr }),
            sack: blocks,
            ..TcpOptions::default()
        };
        let segment = Segment {
            seq: Seq(own.wrapping_add(seq)),
            ack: Seq(other.wrapping_add(ack)),
            window: 1000,
            flags,
            options,
        };
        let route = Route { source: end(from), destination: end(1 - from) };
        let mut ip = build(route, &segment, &vec![0; len]).unwrap();
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[8] = ttl;
        let len = ip.len() as u32;
        for word in [1_700_000_000 + at / 1_000_000, at % 1_000_000, len, len] {
            self.0.extend(word.to_le_bytes());
        }
        self.0.extend(ip);
    }

    fn report(&self) -> Report {
        diagnose(&self.0[..], &Options::default()).unwrap()
    }

    /// Returns the direction from the client or the server.
    fn sent_by(&self, from: usize) -> Direction {
        let report = self.report();
        let port = 100 + from as u16;
        report.flows[0].directions.iter().find(|direction| direction.from.port() == port).unwrap().clone()
    }
}

fn counts(direction: &Direction) -> (u64, u64, u64) {
    (direction.causes.lost, direction.resent.needless, direction.reordered)
}

fn why(direction: &Direction) -> Vec<Option<Needless>> {
    direction.losses.iter().map(|loss| loss.needless).collect()
}

/// A round trip of 4.8 s, a retransmission after 2.9 s, the acknowledgment 1 s later: it answers the first transmission.
#[test]
fn the_handshake_shows_the_round_trip() {
    let mut capture = Capture::open(4_800_000);
    let data = Packet { len: 40, flags: DATA, ..CLIENT };
    capture.put(5_000_000, data);
    capture.put(9_200_000, data);
    capture.put(10_200_000, Packet { ack: 41, ..SERVER });
    assert_eq!(counts(&capture.sent_by(0)), (0, 1, 0));
}

/// The minimum of few samples may come from a stall: an acknowledgment after 61 ms of 96 answers a retransmission.
#[test]
fn few_samples_are_not_believed_to_a_quarter() {
    let mut capture = Capture::open(96_000);
    capture.put(100_000, Packet { len: 1000, flags: DATA, ..CLIENT });
    capture.put(310_000, Packet { len: 1000, flags: DATA, ..CLIENT });
    capture.put(371_000, Packet { ack: 1001, ..SERVER });
    assert_eq!(counts(&capture.sent_by(0)), (1, 0, 0));
}

/// The packet that fills the gap comes in half a round trip, and its timestamp is newer than that of the packet which showed the gap.
#[test]
fn a_newer_timestamp_proves_a_retransmission() {
    for (stamp, expected) in [(60, (1, 0, 0)), (39, (0, 0, 1))] {
        let mut capture = Capture::open(80_000);
        let data = Packet { len: 1000, ..SERVER };
        capture.put(100_000, Packet { stamps: Some((30, 1)), ..data });
        capture.put(110_000, Packet { seq: 2001, stamps: Some((40, 1)), ..data });
        capture.put(140_000, Packet { seq: 1001, stamps: Some((stamp, 1)), ..data });
        capture.put(140_100, Packet { ack: 3001, ..CLIENT });
        assert_eq!(counts(&capture.sent_by(1)), expected, "stamp {stamp}");
    }
}

/// The sender waited for 300 ms by its timestamps, the capture saw both within 2 ms: the first transmission was delayed before the capture.
#[test]
fn a_delay_before_the_capture_explains_a_timeout() {
    let sent = |clock: fn(u32) -> u32, delay: u32| {
        let mut capture = Capture::new();
        for second in 0..8 {
            let data = Packet { seq: 1 + second * 100, len: 100, flags: DATA, ..SERVER };
            capture.put(second * 1_000_000, Packet { stamps: Some((clock(second * 1000), 1)), ..data });
            capture.put(second * 1_000_000 + 50_000, Packet { ack: 101 + second * 100, ..CLIENT });
        }
        let data = Packet { seq: 801, len: 100, flags: DATA, ..SERVER };
        capture.put(8_000_000 + delay, Packet { stamps: Some((clock(8000), 1)), ..data });
        capture.put(8_300_000, Packet { stamps: Some((clock(8300), 1)), ..data });
        capture.sent_by(1)
    };
    for clock in [|milliseconds| milliseconds, |milliseconds| milliseconds / 10] {
        let direction = sent(clock, 298_000);
        assert_eq!((counts(&direction), why(&direction)), ((0, 1, 0), vec![Some(Needless::SentTooSoon)]));
        assert_eq!(counts(&sent(clock, 0)), (1, 0, 0));
    }
}

/// A packet is repeated after a round trip, and once more 30 ms later: that says nothing about the first repeat, unless selective acknowledgments show a hole
/// after it.
#[test]
fn nothing_is_known_within_a_round_trip() {
    let sent = |sack: Option<(u32, u32)>| {
        let mut capture = Capture::open(200_000);
        let data = Packet { len: 1000, flags: DATA, ..CLIENT };
        capture.put(210_000, data);
        capture.put(211_000, Packet { seq: 1001, ..data });
        capture.put(390_000, data);
        if sack.is_some() {
            capture.put(411_000, Packet { sack, ..SERVER });
        }
        capture.put(420_000, data);
        capture.sent_by(0)
    };
    assert_eq!(why(&sent(None)), [None, Some(Needless::SentTooSoon)]);
    assert_eq!(why(&sent(Some((1001, 2001)))), [None, None]);
}

/// At the client, which delays its acknowledgment: the server repeats after 100 ms and is answered at once.
#[test]
fn a_delayed_acknowledgment_is_no_loss() {
    let sent = |answer: u32| {
        let mut capture = Capture::open(100_000);
        let data = Packet { len: 417, flags: DATA, ..SERVER };
        capture.put(640_000, data);
        capture.put(741_000, data);
        capture.put(741_000 + answer, Packet { ack: 418, ..CLIENT });
        capture.sent_by(1)
    };
    assert_eq!(why(&sent(40)), [Some(Needless::AcknowledgmentDelayed)]);
    assert_eq!(why(&sent(40_000)), [None]);
}

/// Without D-SACK and timestamps: each of two retransmissions is answered by a duplicate acknowledgment, unless that repeats one at once, as load balancers do.
#[test]
fn duplicate_acknowledgments_answer_retransmissions() {
    for (late, expected) in [(20_000, (0, 1, 0)), (100, (1, 0, 0))] {
        let mut capture = Capture::open(50_000);
        let data = Packet { len: 1000, flags: DATA, ..CLIENT };
        capture.put(100_000, data);
        capture.put(400_000, data);
        capture.put(460_000, Packet { ack: 1001, ..SERVER });
        capture.put(460_000 + late, Packet { ack: 1001, ..SERVER });
        assert_eq!(counts(&capture.sent_by(0)), expected, "{late} µs late");
    }
}

/// A duplicate acknowledgment that answers a keep-alive says nothing.
#[test]
fn an_answered_keep_alive_is_no_duplicate() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 1000, flags: DATA, ..CLIENT };
    capture.put(100_000, data);
    capture.put(400_000, data);
    capture.put(460_000, Packet { ack: 1001, ..SERVER });
    capture.put(900_000, Packet { seq: 1000, ..CLIENT });
    capture.put(950_000, Packet { ack: 1001, ..SERVER });
    assert_eq!(counts(&capture.sent_by(0)), (1, 0, 0));
}

/// Three packets, the first is repeated. The receiver then acknowledges them one by one: it got the first before the others. If it acknowledges all at once, it
/// waited for the retransmission.
#[test]
fn acknowledgments_in_order_show_that_nothing_was_lost() {
    for (acks, expected) in [([1001, 2001, 3001], (0, 1, 0)), ([3001, 3001, 3001], (1, 0, 0))] {
        let mut capture = Capture::open(50_000);
        let data = Packet { len: 1000, flags: DATA, ..CLIENT };
        for number in 0..3 {
            capture.put(100_000 + number * 100, Packet { seq: 1 + number * 1000, ..data });
        }
        capture.put(700_000, data);
        for (number, ack) in (0..).zip(acks) {
            capture.put(900_000 + number * 100, Packet { ack, ..SERVER });
        }
        assert_eq!(counts(&capture.sent_by(0)), expected, "{acks:?}");
    }
}

/// The same bytes are lost, repaired, and repeated once more; one D-SACK reports more bytes than the second retransmission has.
#[test]
fn a_report_of_duplicate_data_names_one_retransmission() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 500, flags: DATA, ..CLIENT };
    capture.put(100_000, data);
    capture.put(400_000, data);
    capture.put(700_000, data);
    capture.put(760_000, Packet { ack: 501, sack: Some((0, 501)), ..SERVER });
    assert_eq!(counts(&capture.sent_by(0)), (1, 1, 0));
}

/// Two packets are repeated in one within 0.3 ms: a copy that an interface joined has their timestamp, and the first one's identification.
#[test]
fn a_joined_copy_has_the_identification_of_the_first() {
    let sent = |stamp: u32, id: u16| {
        let mut capture = Capture::open(50_000);
        for number in 0..20 {
            let data = Packet { seq: 1 + number * 100, len: 100, id: 10 + number as u16, ..CLIENT };
            capture.put(100_000 + number * 100, Packet { stamps: Some((7, 1)), ..data });
        }
        capture.put(102_100, Packet { seq: 1801, len: 200, id, stamps: Some((stamp, 1)), ..CLIENT });
        let copies = capture.report().copies;
        (copies, capture.sent_by(0).resent.retransmissions)
    };
    assert_eq!(sent(7, 28), (1, 0));
    assert_eq!((sent(8, 28).0, sent(7, 40).0), (0, 0));
}

/// The third copy of a SYN-ACK without identification comes after 100 ms, as that of the SYN did, the second after 50 ms exactly.
#[test]
fn copies_without_identification_take_as_long_as_others() {
    let mut capture = Capture::new();
    let syn = Packet { seq: 0, ack: 0, flags: Flags::SYN, id: 77, ..CLIENT };
    let answer = Packet { seq: 0, ack: 1, flags: Flags::SYN.with(Flags::ACK), id: 0, ..SERVER };
    for (number, ttl) in [64, 63, 62].into_iter().enumerate() {
        let at = number as u32 * 50_000;
        capture.put(at, Packet { ttl, ..syn });
    }
    for (number, ttl) in [64, 63, 62].into_iter().enumerate() {
        let at = 101_000 + number as u32 * 50_000;
        capture.put(at, Packet { ttl, ..answer });
    }
    assert_eq!(capture.report().copies, 4);
    let mut single = Capture::new();
    single.put(0, answer);
    single.put(50_000, Packet { ttl: 63, ..answer });
    single.put(100_000, Packet { ttl: 62, ..answer });
    assert_eq!(single.report().copies, 1);
}

/// The client resets the connection; the server has not heard of it and repeats a packet twice.
#[test]
fn what_follows_a_reset_is_needless() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 1000, flags: DATA, ..SERVER };
    capture.put(100_000, data);
    capture.put(100_100, Packet { seq: 1, flags: Flags::RST, ..CLIENT });
    capture.put(100_200, Packet { seq: 1001, ..data });
    capture.put(300_000, data);
    capture.put(700_000, Packet { seq: 1001, ..data });
    let direction = capture.sent_by(1);
    assert_eq!((counts(&direction), direction.resent.retransmissions), ((0, 2, 0), 2));
}

/// A packet with a damaged sequence number, and one with a damaged acknowledgment; the next ones continue the stream.
#[test]
fn a_stray_number_is_ignored() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 100, flags: DATA, ..CLIENT };
    capture.put(100_000, data);
    capture.put(110_000, Packet { seq: 2_400_000, ..data });
    capture.put(120_000, Packet { ack: 1_150_000_000, ..SERVER });
    capture.put(130_000, Packet { seq: 101, ..data });
    capture.put(180_000, Packet { ack: 201, ..SERVER });
    let direction = capture.sent_by(0);
    assert_eq!((counts(&direction), direction.unseen_bytes, direction.bytes), ((0, 0, 0), 0, 200));
}

/// Two packets beyond it in a row: the capture lacks what lies between.
#[test]
fn two_far_numbers_confirm_each_other() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 100, flags: DATA, ..CLIENT };
    capture.put(100_000, data);
    capture.put(110_000, Packet { seq: 3_000_001, ..data });
    capture.put(111_000, Packet { seq: 3_000_101, ..data });
    capture.put(112_000, Packet { seq: 3_000_201, ..data });
    capture.put(160_000, Packet { ack: 3_000_301, ..SERVER });
    let direction = capture.sent_by(0);
    assert_eq!((counts(&direction), direction.unseen_bytes), ((0, 0, 0), 3_000_000));
}

/// Pure acknowledgments whose length includes padding to 46 bytes; of a packet of five bytes one is padding.
#[test]
fn padding_is_no_data() {
    let mut capture = Capture::open(50_000);
    let padded = |seq: u32, ack: u32| Packet { seq, ack, len: 6, ..CLIENT };
    capture.put(51_000, padded(1, 1));
    capture.put(52_000, Packet { len: 500, flags: DATA, ..CLIENT });
    capture.put(150_000, Packet { ack: 501, len: 1000, flags: DATA, ..SERVER });
    capture.put(150_100, padded(501, 1001));
    capture.put(160_000, Packet { seq: 501, ack: 1001, len: 6, flags: DATA, ..CLIENT });
    capture.put(160_100, Packet { seq: 506, ack: 1001, len: 300, flags: DATA, ..CLIENT });
    capture.put(220_000, Packet { seq: 1001, ack: 806, ..SERVER });
    let direction = capture.sent_by(0);
    assert_eq!((counts(&direction), direction.resent.retransmissions, direction.bytes), ((0, 0, 0), 0, 805));
}

/// Six bytes of data that nothing contradicts are data, also when a later packet repeats and extends them.
#[test]
fn a_short_packet_that_is_repeated_is_data() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 6, ..CLIENT };
    capture.put(100_000, data);
    capture.put(400_000, Packet { len: 20, ..data });
    capture.put(450_000, Packet { ack: 21, ..SERVER });
    let direction = capture.sent_by(0);
    assert_eq!((counts(&direction), direction.bytes), ((1, 0, 0), 20));
}

/// Nine bytes are sent twice, five more once, and all of them twice: five packets, of which four are repeated.
#[test]
fn a_retransmission_may_repeat_and_extend() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 9, flags: DATA, ..CLIENT };
    for (at, seq, len) in [(100, 1, 9), (400, 1, 9), (1000, 10, 5), (1500, 1, 14), (2700, 1, 14)] {
        capture.put(at * 1000, Packet { seq, len, ..data });
    }
    assert_eq!(counts(&capture.sent_by(0)), (4, 0, 0));
}

/// After an ICMP message about the path MTU a sender repeats at once, in smaller segments: the packet was lost.
#[test]
fn smaller_segments_repair_at_once() {
    let mut capture = Capture::open(200_000);
    let data = Packet { len: 1400, flags: DATA, ..CLIENT };
    capture.put(210_000, data);
    capture.put(230_000, Packet { len: 1200, ..data });
    capture.put(230_010, Packet { seq: 1201, len: 200, ..data });
    capture.put(440_000, Packet { ack: 1401, ..SERVER });
    assert_eq!(counts(&capture.sent_by(0)), (1, 0, 0));
}

/// A receiver that has acknowledged single packets at once does not delay an acknowledgment.
#[test]
fn a_prompt_receiver_does_not_delay_acknowledgments() {
    let mut capture = Capture::open(100_000);
    let data = Packet { len: 400, flags: DATA, ..SERVER };
    for number in 0..3 {
        capture.put(200_000 + number * 100_000, Packet { seq: 1 + number * 400, ..data });
        capture.put(200_050 + number * 100_000, Packet { ack: 401 + number * 400, ..CLIENT });
    }
    capture.put(600_000, Packet { seq: 1201, ..data });
    capture.put(800_000, Packet { seq: 1201, ..data });
    capture.put(800_050, Packet { ack: 1601, ..CLIENT });
    assert_eq!(counts(&capture.sent_by(1)), (1, 0, 0));
}

/// Acknowledgments one by one, after duplicate ones: a receiver that keeps nothing out of order, and a loss.
#[test]
fn duplicate_acknowledgments_contradict_the_order() {
    let mut capture = Capture::open(50_000);
    let data = Packet { len: 1000, flags: DATA, ..CLIENT };
    for number in 0..3 {
        capture.put(100_000 + number * 100, Packet { seq: 1 + number * 1000, ..data });
    }
    for number in 0..2 {
        capture.put(152_000 + number * 2000, Packet { ack: 1, ..SERVER });
    }
    capture.put(700_000, data);
    for (number, ack) in (0..).zip([1001, 2001, 3001]) {
        capture.put(760_000 + number * 100, Packet { ack, ..SERVER });
    }
    assert_eq!(counts(&capture.sent_by(0)), (1, 0, 0));
}

/// A server answers two SYNs, each with another number. Its data, or the client's acknowledgment, tells which one counts.
#[test]
fn the_sequence_numbers_of_the_data_count() {
    for answers in [[3_000_000, 0], [0, 3_000_000]] {
        let mut capture = Capture::new();
        for (number, seq) in (0..).zip(answers) {
            capture.put(number * 100_000, Packet { seq, flags: Flags::SYN.with(Flags::ACK), ..SERVER });
        }
        capture.put(1_100_000, Packet { len: 500, flags: DATA, ..CLIENT });
        for number in 0..4 {
            capture.put(1_200_000 + number * 10, Packet { seq: 1 + number * 1000, ack: 501, len: 1000, ..SERVER });
        }
        let direction = capture.sent_by(1);
        let counted = (counts(&direction), direction.resent.retransmissions, direction.bytes);
        assert_eq!(counted, ((0, 0, 0), 0, 4000), "{answers:?}");
    }
}

/// One packet repeats the data of two packets at once. It counts as one needless retransmission, not as two.
#[test]
fn a_needless_packet_counts_once() {
    let mut capture = Capture::open(200_000);
    let data = Packet { len: 400, flags: DATA, ..CLIENT };
    capture.put(210_000, data);
    capture.put(212_000, Packet { seq: 401, ..data });
    capture.put(240_000, Packet { len: 800, ..data });
    capture.put(250_000, Packet { len: 800, ..data });
    assert_eq!(counts(&capture.sent_by(0)), (0, 3, 0));
}
