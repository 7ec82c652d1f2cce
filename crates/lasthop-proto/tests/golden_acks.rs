//! Timing and content of acknowledgments: RFC 5681 §4.2, RFC 1122 §4.2.3.2, 4.4BSD and ns-2, RFC 2018 §4, RFC 7323 §4
//! and §5. 50 ms each way, so data sent at 0 arrives at 50.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::packet::{Body, Flags, SackBlock, Side, Timestamps};
use lasthop_proto::tcp::config::{DelayedAck, Nagle, PawsRule, Preset, Recovery, Switch, TcpConfig};

fn flight(delayed_ack: DelayedAck, segments: u32) -> Pair {
    Pair::of(lab_with_window(Recovery::NEW_RENO, segments).with(|c| c.receiver.delayed_ack = delayed_ack))
}

fn every_second() -> DelayedAck {
    DelayedAck::EverySecond { timeout: millis(200) }
}

/// Runs for 400 ms: long enough for every acknowledgment of the flight, too short for a timeout.
fn answers(mut pair: Pair, segments: u32) -> Pair {
    pair.send_segments(segments);
    pair.run_until(pair.first_data() + millis(400));
    pair
}

#[test]
fn without_delay_each_segment_is_acknowledged() {
    answers(flight(DelayedAck::Off, 4), 4).expect_acks("50: 1 2 3 4");
}

/// RFC 5681 §4.2: an acknowledgment for at least every second full-sized segment, and within 500 ms (here 200).
#[test]
fn every_second_segment() {
    assert_eq!(TcpConfig::preset(Preset::Rfc).receiver.delayed_ack, every_second());
    answers(flight(every_second(), 1), 1).expect_acks("250: 1");
    answers(flight(every_second(), 2), 2).expect_acks("50: 2");
    answers(flight(every_second(), 5), 5).expect_acks("50: 2 4\n250: 5");
}

/// RFC 5681 §4.2: segments out of order, and those that fill all or part of a gap, are acknowledged at once.
#[test]
fn gaps_are_answered_at_once() {
    // 1 waits; 3 and 4 arrive out of order.
    answers(flight(every_second(), 4).lose(&[(2, 1)]), 4).expect_acks("50: 1 1");
    // 2 is late and fills the gap. 3 is the first of a pair and would have waited otherwise.
    answers(flight(every_second(), 4).treat(2, 1, Fate::Late(millis(10))), 4).expect_acks("50: 1 1\n60: 4");
    // 2 fills part of the gap, 4 the rest.
    let pair = flight(every_second(), 5).treat(2, 1, Fate::Late(millis(10))).treat(4, 1, Fate::Late(millis(20)));
    answers(pair, 5).expect_acks("50: 1 1\n60: 3\n70: 5");
}

/// A duplicate segment is acknowledged at once: the first acknowledgment may be lost.
#[test]
fn duplicates_are_answered_at_once() {
    answers(flight(every_second(), 1).treat(1, 1, Fate::Twice), 1).expect_acks("50: 1");
    answers(flight(every_second(), 2).treat(2, 1, Fate::Twice), 2).expect_acks("50: 2 2");
}

/// 4.4BSD: when the window can move by two segments, otherwise at the next tick of the global 200 ms clock. Data leaves
/// at 150 and arrives at 200: on a tick, so the next is at 400.
#[test]
fn bsd_every_second_segment_or_the_next_tick() {
    let bsd = DelayedAck::WindowUpdate;
    let config = |segments| {
        let lab = lab_with_window(Recovery::NEW_RENO, segments);
        lab.with(|c| {
            c.receiver.delayed_ack = bsd;
            c.common.clock = TcpConfig::preset(Preset::BsdLite).common.clock;
        })
    };
    answers(Pair::of(config(1)), 1).expect_acks("250: 1");
    answers(Pair::of(config(5)), 5).expect_acks("50: 2 4\n250: 5");
    answers(Pair::of(config(4)).lose(&[(2, 1)]), 4).expect_acks("50: 1 1");
    // The window does not move if the application does not read: only the ticks acknowledge.
    let mut pair = Pair::of(config(5));
    pair.reading = [true, false];
    answers(pair, 5).expect_acks("250: 5");
    // In a buffer of less than four segments, half of it is enough.
    let mut pair = Pair::between(config(3), config(3).with(|c| c.receiver.receive_buffer = 1900));
    pair.connect();
    pair.client().write(1900);
    pair.flush();
    pair.run_until(pair.first_data() + millis(60));
    pair.expect_acks("50: 1");
}

/// ns-2's `TCPSink/DelAck`: like every second segment, but a copy of the last segment in order waits like a new one.
#[test]
fn ns2_delayed_acknowledgments() {
    let ns2 = DelayedAck::Ns2 { timeout: millis(100) };
    answers(flight(ns2, 5), 5).expect_acks("50: 2 4\n150: 5");
    answers(flight(ns2, 2).treat(2, 1, Fate::Twice), 2).expect_acks("50: 2\n150: 2");
    answers(flight(ns2, 4).lose(&[(2, 1)]), 4).expect_acks("50: 1 1");
}

/// RFC 2018 §4: the first block holds the segment that caused the acknowledgment, the others repeat the most recent
/// ones, up to the configured number.
#[test]
fn sack_blocks() {
    let mut pair = Pair::of(lab_with_window(Recovery::SACK, 12)).lose(&[(1, 1), (3, 1), (5, 1), (8, 1), (10, 1)]);
    pair.send_segments(12);
    pair.run_until(pair.first_data() + millis(60));
    let blocks = |sent: &Sent| {
        let number = |block: &SackBlock| ((block.left.0 - 1) / 1000 + 1, (block.right.0 - 1) / 1000);
        sent.segment.options.sack.as_slice().iter().map(number).collect::<Vec<_>>()
    };
    let acks: Vec<_> = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack()).map(blocks).collect();
    let expected: [&[(u32, u32)]; 7] = [
        &[(2, 2)],
        &[(4, 4), (2, 2)],
        &[(6, 6), (4, 4), (2, 2)],
        &[(6, 7), (4, 4), (2, 2)],
        &[(9, 9), (6, 7), (4, 4)],
        &[(11, 11), (9, 9), (6, 7)],
        &[(11, 12), (9, 9), (6, 7)],
    ];
    assert_eq!(acks, expected);
}

/// A copy of out-of-order data moves its block to the front again; blocks are dropped once they are acknowledged in
/// sequence.
#[test]
fn sack_blocks_move() {
    let pair = Pair::of(lab_with_window(Recovery::SACK, 6)).lose(&[(3, 1)]);
    let mut pair = pair.treat(1, 1, Fate::Late(millis(2))).treat(5, 1, Fate::Late(millis(1)));
    pair.send_segments(6);
    pair.run_until(pair.first_data() + millis(60));
    let blocks = |sent: &Sent| {
        let number = |block: &SackBlock| ((block.left.0 - 1) / 1000 + 1, (block.right.0 - 1) / 1000);
        let sack: Vec<_> = sent.segment.options.sack.as_slice().iter().map(number).collect();
        ((sent.ack - 1) / 1000, sack)
    };
    let acks: Vec<_> = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack()).map(blocks).collect();
    // 2, 4, 6; then 5 joins 4 and 6; then 1 joins 2, which the acknowledgment covers.
    let expected = [
        (0, vec![(2, 2)]),
        (0, vec![(4, 4), (2, 2)]),
        (0, vec![(6, 6), (4, 4), (2, 2)]),
        (0, vec![(4, 6), (2, 2)]),
        (2, vec![(4, 6)]),
    ];
    assert_eq!(acks, expected);
}

/// RFC 7323 §4.3: the echo is that of the earliest segment that the acknowledgment answers, so that the sender's
/// samples include the delay.
#[test]
fn the_echo_of_a_delayed_acknowledgment() {
    let config = lab(Recovery::NEW_RENO).with(|c| {
        c.receiver.delayed_ack = every_second();
        c.common.timestamps = Switch::On;
        c.common.nagle = Nagle::Off;
    });
    let mut pair = Pair::of(config);
    pair.send_segments(1);
    pair.run_until(ms(160));
    pair.client().write(1000);
    pair.run_until(ms(300));
    let sent: Vec<_> = pair
        .trace
        .iter()
        .filter(|sent| sent.len > 0)
        .map(|sent| sent.segment.options.timestamps.unwrap().val)
        .collect();
    let ack = pair.trace.last().unwrap();
    assert_eq!((ack.at, ack.ack), (ms(210), 2001));
    assert_eq!(ack.segment.options.timestamps.unwrap().ecr, sent[0]);
    assert_eq!(sent[1] - sent[0], 10);
}

/// RFC 7323 §4.3: above a gap, the echo is that of the last segment in order; the segment that fills the gap is echoed.
#[test]
fn the_echo_across_a_gap() {
    let config = lab_with_window(Recovery::NEW_RENO, 4).with(|c| c.common.timestamps = Switch::On);
    let mut pair = Pair::of(config).lose(&[(2, 1)]);
    pair.send_segments(4);
    pair.finish();
    let value = |sent: &Sent| sent.segment.options.timestamps.unwrap();
    let data: Vec<_> = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).map(value).collect();
    let acks = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack());
    let echoes: Vec<_> = acks.map(|sent| value(sent).ecr).collect();
    let copy = data[4].val;
    assert!(copy > data[0].val);
    assert_eq!(echoes, [data[0].val, data[0].val, data[0].val, copy]);
}

/// RFC 7323 §5 (PAWS): a segment whose timestamp is older than the last one in order is answered and dropped, unless it
/// is a reset. Timestamps wrap like sequence numbers.
#[test]
fn old_timestamps() {
    let config = lab(Recovery::NEW_RENO).with(|c| c.common.timestamps = Switch::On);
    let mut pair = Pair::of(config);
    pair.connect();
    let last = pair.trace.last().unwrap().segment.options.timestamps.unwrap().val;
    let mut with = |flags: Flags, val: u32, len: u32| {
        pair.forget();
        let received = pair.ends[1].received();
        let mut packet = pair.forge(Side::Acceptor, flags, 1 + received as u32, 1, len);
        let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
        segment.options.timestamps = Some(Timestamps { val, ecr: 0 });
        pair.inject(Side::Acceptor, packet);
        (pair.ends[1].received() - received, pair.trace.len())
    };
    assert_eq!(with(Flags::ACK, last - 1, 100), (0, 1));
    assert_eq!(with(Flags::ACK, last, 100), (100, 1));
    assert_eq!(with(Flags::ACK, last + 5, 100), (100, 1));
    assert_eq!(with(Flags::ACK, last + 4, 100), (0, 1));
    assert_eq!(with(Flags::ACK, last + 0x7fff_0000, 100), (100, 1));
    assert_eq!(with(Flags::ACK, last + 5, 100), (0, 1));
    assert_eq!(with(Flags::RST, 0, 0), (0, 0));
    assert_eq!(pair.states().1, lasthop_proto::tcp::State::Closed);
}

/// Linux reads its clock in milliseconds (`TCP_PAWS_WINDOW`): a timestamp one tick older is accepted, one two ticks
/// older is not. An accepted older timestamp does not move the echo back: after one tick less, two less than the newest
/// are still too old.
#[test]
fn old_timestamps_as_linux_has_them() {
    let config = lab(Recovery::Rack).with(|c| {
        c.common.timestamps = Switch::On;
        c.common.paws = PawsRule::Linux;
    });
    let mut pair = Pair::of(config);
    pair.connect();
    let last = pair.trace.last().unwrap().segment.options.timestamps.unwrap().val;
    let mut taken = |val: u32| {
        let received = pair.ends[1].received();
        let mut packet = pair.forge(Side::Acceptor, Flags::ACK, 1 + received as u32, 1, 100);
        let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
        segment.options.timestamps = Some(Timestamps { val, ecr: 0 });
        pair.inject(Side::Acceptor, packet);
        pair.ends[1].received() - received
    };
    assert_eq!(taken(last + 5), 100);
    assert_eq!(taken(last + 4), 100);
    assert_eq!(taken(last + 3), 0);
    assert_eq!(taken(last + 5), 100);
}

/// Reordered acknowledgments, three ticks older: Linux reads their reports (`tcp_disordered_ack`), and three show that
/// 1 is lost. RFC 7323 drops them.
#[test]
fn overtaken_duplicates() {
    let resent = |paws| {
        let config = lab_with_window(Recovery::Rack, 4).with(|c| {
            c.common.timestamps = Switch::On;
            c.common.mss = 988;
            c.common.paws = paws;
        });
        let mut pair = Pair::of(config).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
        pair.send_segments(4);
        pair.run_until(pair.first_data() + millis(10));
        let last = pair.trace.iter().rfind(|sent| sent.segment.options.timestamps.is_some()).unwrap();
        let newest = last.segment.options.timestamps.unwrap().val + 10;
        let mut report = |val: u32, segments: u32| {
            let mut packet = pair.forge(Side::Initiator, Flags::ACK, 1, 1, 0);
            let left = pair.iss[0] + 1 + 988;
            let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
            segment.options.timestamps = Some(Timestamps { val, ecr: 0 });
            segment.options.sack.push(SackBlock { left, right: left + segments * 988 });
            pair.inject(Side::Initiator, packet);
        };
        report(newest, 1);
        report(newest - 3, 2);
        report(newest - 3, 3);
        pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).count()
    };
    assert_eq!(resent(PawsRule::Linux), 5);
    assert_eq!(resent(PawsRule::Rfc7323), 4);
}

/// ELN: acknowledgments carry the mark only while the next expected segment is one that arrived corrupted.
#[test]
fn explicit_loss_notification() {
    let mut pair = Pair::of(lab_with_window(Recovery::ELN, 6)).damage(&[(2, 1)]).lose(&[(4, 1)]);
    pair.send_segments(6);
    pair.run_until(pair.first_data() + millis(160));
    let acks = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack());
    let marks: Vec<_> = acks.map(|sent| ((sent.ack - 1) / 1000, sent.segment.options.eln)).collect();
    // 1 arrives before 2; 3, 5, 6 out of order; the copy of 2 moves the acknowledgment to the gap at 4, which was lost
    // without a corrupted frame.
    assert_eq!(marks[..5], [(1, false), (1, true), (1, true), (1, true), (3, false)]);
}

/// SMART: the number of the segment that caused the acknowledgment.
#[test]
fn smart_numbers() {
    let config = lab_with_window(Recovery::SMART, 4).with(|c| c.receiver.smart_acks = Switch::On);
    let mut pair = Pair::of(config).lose(&[(2, 1)]);
    pair.send_segments(4);
    pair.run_until(pair.first_data() + millis(160));
    let acks = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack());
    let named: Vec<_> = acks.map(|sent| (sent.segment.options.smart.unwrap().0 - 1) / 1000 + 1).collect();
    assert_eq!(named, [1, 3, 4, 2]);
}
