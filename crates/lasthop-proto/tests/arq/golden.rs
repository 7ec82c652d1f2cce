//! Timelines derived from the rules in `docs/models/arq.md`. The hop takes 50 ms in each direction for any frame.
//! Unless stated otherwise the timer is 600 ms and a frame is NACKed once.
//!
//! A line is `time end what`: the frame that end `a` or `b` sends, and `out` for a packet that it delivers. `nack` and
//! `timer` after a frame state the reason for a retransmission.

use std::collections::BTreeMap;

use lasthop_proto::link::arq::{ArqConfig, Header, Protocol, Timer};
use lasthop_proto::packet::Packet;
use lasthop_proto::time::Duration;

use super::link::*;

pub const SR: Protocol = Protocol::SelectiveRepeat;
pub const GBN: Protocol = Protocol::GoBackN;

/// Returns a channel of 50 ms that loses the listed transmissions: the frame, and the number of its first transmissions
/// that are lost.
pub fn losing(mut losses: BTreeMap<&'static str, u32>) -> impl FnMut(usize, &Packet) -> Vec<Duration> {
    move |_, packet| match Header::of(packet).and_then(|header| losses.get_mut(describe(header).as_str())) {
        Some(left) if *left > 0 => {
            *left -= 1;
            vec![]
        }
        _ => vec![millis(50)],
    }
}

pub fn link<const N: usize>(config: ArqConfig, losses: [(&'static str, u32); N]) -> Link<'static> {
    Link::new(config, losing(BTreeMap::from(losses)))
}

/// Offers end `a` packets 0, 1, ... 10 ms apart, and runs for 10 s.
pub fn send(link: &mut Link<'_>, count: u32) {
    let start = link.now;
    for number in 0..count {
        link.run_until(start + millis(10) * u64::from(number));
        link.offer(0, packet(number));
    }
    link.run_until(start + millis(10_000));
}

#[track_caller]
pub fn expect(link: &Link<'_>, expected: &str) {
    let expected: Vec<_> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(link.trace, expected, "\n{}", link.trace.join("\n"));
}

#[track_caller]
pub fn check<const N: usize>(config: ArqConfig, losses: [(&'static str, u32); N], count: u32, expected: &str) {
    let mut link = link(config, losses);
    send(&mut link, count);
    expect(&link, expected);
    assert!(link.is_idle());
}

#[test]
fn nothing_lost() {
    check(config(SR), [], 2, "0 a data 0\n 10 a data 1\n 50 b out 0\n 50 b ack 1\n 60 b out 1\n 60 b ack 2");
}

/// Frame 2 shows at 70 ms that 1 is missing; the repair arrives a round trip later and releases the held frames.
#[test]
fn one_loss() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        30 a data 3
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack
        170 b out 1
        170 b out 2
        170 b out 3
        170 b ack 4";
    check(config(SR), [("data 1", 1)], 4, expected);
}

/// One NACK for each.
#[test]
fn two_losses_in_a_window() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2 lost
        30 a data 3
        50 b out 0
        50 b ack 1
        80 b nack 1
        80 b nack 2
        130 a data 1 nack
        130 a data 2 nack
        180 b out 1
        180 b ack 2
        180 b out 2
        180 b out 3
        180 b ack 4";
    check(config(SR), [("data 1", 1), ("data 2", 1)], 4, expected);
}

/// The repair of 120 ms has its own timer, until 720. The frames behind the hole are not acknowledged: their timers
/// expire too.
#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        30 a data 3
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack lost
        620 a data 2 timer
        630 a data 3 timer
        720 a data 1 timer
        770 b out 1
        770 b out 2
        770 b out 3
        770 b ack 4";
    check(config(SR), [("data 1", 2)], 4, expected);
}

/// 200 ms after each NACK the frame is still missing.
#[test]
fn lost_retransmissions_are_asked_for_again() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        30 a data 3
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack lost
        270 b nack 1
        320 a data 1 nack lost
        470 b nack 1
        520 a data 1 nack
        570 b out 1
        570 b out 2
        570 b out 3
        570 b ack 4";
    check(ArqConfig { nack_again: Some(millis(200)), ..config(SR) }, [("data 1", 3)], 4, expected);
}

/// The next acknowledgment covers it.
#[test]
fn a_lost_ack_is_made_up_for_by_the_next() {
    let expected = "0 a data 0\n 10 a data 1\n 50 b out 0\n 50 b ack 1 lost\n 60 b out 1\n 60 b ack 2";
    check(config(SR), [("ack 1", 1)], 2, expected);
}

/// The timer retransmits the frame; the duplicate is answered, not delivered.
#[test]
fn the_last_ack_lost() {
    let expected = "
        0 a data 0
        50 b out 0
        50 b ack 1 lost
        600 a data 0 timer
        650 b ack 1";
    check(config(SR), [("ack 1", 1)], 1, expected);
}

/// The timers of the missing frame, 610, and of the held one, 620, have the effect of the lost NACK.
#[test]
fn a_lost_nack() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        50 b out 0
        50 b ack 1
        70 b nack 1 lost
        610 a data 1 timer
        620 a data 2 timer
        660 b out 1
        660 b out 2
        660 b ack 3
        670 b ack 3";
    check(config(SR), [("data 1", 1), ("nack 1", 1)], 3, expected);
}

/// No later frame shows the gap.
#[test]
fn the_last_frame_lost() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        50 b out 0
        50 b ack 1
        610 a data 1 timer
        660 b out 1
        660 b ack 2";
    check(config(SR), [("data 1", 1)], 2, expected);
}

#[test]
fn numbers_wrap() {
    for (protocol, expected) in [
        (
            SR,
            "0 a data 65534\n 10 a data 65535 lost\n 20 a data 0\n 30 a data 1\n 50 b out 0\n 50 b ack 65535
            70 b nack 65535\n 120 a data 65535 nack\n 170 b out 1\n 170 b out 2\n 170 b out 3\n 170 b ack 2",
        ),
        (
            GBN,
            "0 a data 65534\n 10 a data 65535 lost\n 20 a data 0\n 30 a data 1\n 50 b out 0\n 50 b ack 65535
            70 b nack 65535\n 120 a data 65535 nack\n 120 a data 0 nack\n 120 a data 1 nack
            170 b out 1\n 170 b ack 0\n 170 b out 2\n 170 b ack 1\n 170 b out 3\n 170 b ack 2",
        ),
    ] {
        let mut link = link(config(protocol), [("data 65535", 1)]);
        link.channel = Box::new(|_, _| vec![millis(0)]);
        for number in 0..65534 {
            link.offer(0, packet(number));
            link.run_until(link.now);
        }
        assert!(link.is_idle());
        link.trace.clear();
        link.channel = Box::new(losing(BTreeMap::from([("data 65535", 1)])));
        send(&mut link, 4);
        expect(&link, expected);
        assert!(link.is_idle());
    }
}

/// Two in flight, one waits, the fourth is dropped.
#[test]
fn packets_wait_for_the_window() {
    let mut link = link(ArqConfig { window: 2, queue: 1, ..config(SR) }, []);
    (0..4).for_each(|number| link.offer(0, packet(number)));
    assert_eq!((link.ends[0].unacknowledged(), link.ends[0].waiting(), link.ends[0].dropped()), (2, 1, 1));
    link.run_until(ms(1000));
    let expected = "
        0 a data 0
        0 a data 1
        50 b out 0
        50 b ack 1
        50 b out 1
        50 b ack 2
        100 a data 2
        150 b out 2
        150 b ack 3";
    expect(&link, expected);
}

/// Each direction has its own numbers.
#[test]
fn both_directions() {
    let mut link = link(config(SR), []);
    link.offer(0, packet(0));
    link.offer(1, packet(7));
    link.offer(1, packet(8));
    link.run_until(ms(1000));
    let expected = "
        0 a data 0
        0 b data 0
        0 b data 1
        50 b out 0
        50 b ack 1
        50 a out 7
        50 a ack 1
        50 a out 8
        50 a ack 2";
    expect(&link, expected);
}

/// 1 s before the first sample (RFC 6298 §2.1); the second expiry comes 2 s later. Frame 1 gives a sample of 100 ms:
/// SRTT 100, RTTVAR 50, so that frame 2 is retransmitted after 300 ms.
#[test]
fn the_estimated_timer() {
    let mut link =
        link(ArqConfig { timer: Timer::Estimated { min: millis(20) }, ..config(SR) }, [("data 0", 2), ("data 2", 1)]);
    link.offer(0, packet(0));
    link.run_until(ms(4000));
    link.offer(0, packet(1));
    link.run_until(ms(5000));
    link.offer(0, packet(2));
    link.run_until(ms(6000));
    let expected = "
        0 a data 0 lost
        1000 a data 0 timer lost
        3000 a data 0 timer
        3050 b out 0
        3050 b ack 1
        4000 a data 1
        4050 b out 1
        4050 b ack 2
        5000 a data 2 lost
        5300 a data 2 timer
        5350 b out 2
        5350 b ack 3";
    expect(&link, expected);
}

/// The frames were sent with 1 s. The acknowledgment of 100 ms makes that 300 ms for subsequent transmissions: the
/// repair of 120 expires first.
#[test]
fn an_estimate_holds_from_the_next_sending_on() {
    let timer = Timer::Estimated { min: millis(20) };
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack lost
        420 a data 1 timer
        470 b out 1
        470 b out 2
        470 b ack 3";
    check(ArqConfig { timer, ..config(SR) }, [("data 1", 2)], 3, expected);
}
