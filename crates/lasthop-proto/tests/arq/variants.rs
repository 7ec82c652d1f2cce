//! [`golden`](super::golden) for go-back-N, stop-and-wait, given-up frames and immediate delivery.

use lasthop_proto::link::arq::{ArqConfig, Delivery, Protocol, Timer};

use super::golden::*;
use super::link::*;

/// Frames 2 and 3 are discarded, and requested with 1 by one NACK.
#[test]
fn go_back_n_one_loss() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        30 a data 3
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack
        120 a data 2 nack
        120 a data 3 nack
        170 b out 1
        170 b ack 2
        170 b out 2
        170 b ack 3
        170 b out 3
        170 b ack 4";
    check(config(GBN), [("data 1", 1)], 4, expected);
}

/// Going back has restarted all timers: they expire together, and it goes back once.
#[test]
fn go_back_n_lost_retransmission() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack lost
        120 a data 2 nack
        720 a data 1 timer
        720 a data 2 timer
        770 b out 1
        770 b ack 2
        770 b out 2
        770 b ack 3";
    check(config(GBN), [("data 1", 2)], 3, expected);
}

#[test]
fn go_back_n_asks_again() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        50 b out 0
        50 b ack 1
        70 b nack 1
        120 a data 1 nack lost
        120 a data 2 nack
        270 b nack 1
        320 a data 1 nack
        320 a data 2 nack
        370 b out 1
        370 b ack 2
        370 b out 2
        370 b ack 3";
    check(ArqConfig { nack_again: Some(millis(200)), ..config(GBN) }, [("data 1", 2)], 3, expected);
}

/// A second gap, after the first is filled, has its own NACK: 1 is lost, and 2 in its retransmission.
#[test]
fn go_back_n_one_nack_for_each_gap() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2 lost
        30 a data 3
        50 b out 0
        50 b ack 1
        80 b nack 1
        130 a data 1 nack
        130 a data 2 nack lost
        130 a data 3 nack
        180 b out 1
        180 b ack 2
        180 b nack 2
        230 a data 2 nack
        230 a data 3 nack
        280 b out 2
        280 b ack 3
        280 b out 3
        280 b ack 4";
    check(config(GBN), [("data 1", 1), ("data 2", 2)], 4, expected);
}

/// One frame per round trip, regardless of the configured window; only the timer detects a loss.
#[test]
fn stop_and_wait() {
    let expected = "
        0 a data 0
        50 b out 0
        50 b ack 1
        100 a data 1 lost
        700 a data 1 timer
        750 b out 1
        750 b ack 2
        800 a data 2
        850 b out 2
        850 b ack 3";
    check(config(Protocol::StopAndWait), [("data 1", 1)], 3, expected);
}

/// Frame 0 was retransmitted once, at 110, and is not acknowledged by 710.
#[test]
fn a_frame_is_given_up() {
    let config = ArqConfig { max_retransmissions: Some(1), ..config(SR) };
    let expected = "
        0 a data 0 lost
        10 a data 1
        60 b nack 0
        110 a data 0 nack lost
        610 a data 1 timer
        710 a skip 1
        760 b out 1
        760 b ack 2";
    let mut link = link(config, [("data 0", 2)]);
    send(&mut link, 2);
    expect(&link, expected);
    assert_eq!((link.ends[0].given_up(), link.is_idle()), (1, true));
}

/// Before the skip of 710 would be repeated at 1310, frame 1 is given up as well: its retransmission was at 610.
#[test]
fn a_lost_skip_is_made_up_for_by_the_next() {
    let config = ArqConfig { max_retransmissions: Some(1), ..config(SR) };
    let expected = "
        0 a data 0 lost
        10 a data 1
        60 b nack 0
        110 a data 0 nack lost
        610 a data 1 timer
        710 a skip 1 lost
        1210 a skip 2
        1260 b out 1
        1260 b ack 2";
    let mut link = link(config, [("data 0", 2), ("skip 1", 1)]);
    send(&mut link, 2);
    expect(&link, expected);
    assert_eq!((link.ends[0].given_up(), link.is_idle()), (2, true));
}

/// The skip and the acknowledgment of the skip are lost: it is repeated on the timer, and answered each time.
#[test]
fn a_skip_is_repeated() {
    let config = ArqConfig { max_retransmissions: Some(0), ..config(SR) };
    let expected = "
        0 a data 0 lost
        600 a skip 1 lost
        1200 a skip 1
        1250 b ack 1 lost
        1800 a skip 1
        1850 b ack 1";
    check(config, [("data 0", 1), ("skip 1", 1), ("ack 1", 1)], 1, expected);
}

/// A repeated skip that the receiver has already passed is answered with the number that it expects.
#[test]
fn an_old_skip_is_answered() {
    let config = ArqConfig { max_retransmissions: Some(0), ..config(SR) };
    let expected = "
        0 a data 0 lost
        600 a skip 1
        650 b ack 1 lost
        700 a data 1
        750 b out 1
        750 b ack 2 lost
        1200 a skip 1
        1250 b ack 2";
    let mut link = link(config, [("data 0", 1), ("ack 1", 1), ("ack 2", 1)]);
    link.offer(0, packet(0));
    link.run_until(ms(700));
    link.offer(0, packet(1));
    link.run_until(ms(2000));
    expect(&link, expected);
    assert!(link.is_idle());
}

/// The answer to a skip is no sample of the link's round trip; the expiry doubles the timer like any other.
#[test]
fn a_frame_given_up_is_no_sample() {
    let timer = Timer::Estimated { min: millis(20) };
    let config = ArqConfig { max_retransmissions: Some(0), timer, ..config(SR) };
    let expected = "
        0 a data 0 lost
        1000 a skip 1
        1050 b ack 1
        2000 a data 1 lost
        4000 a skip 2
        4050 b ack 2";
    let mut link = link(config, [("data 0", 1), ("data 1", 1)]);
    link.offer(0, packet(0));
    link.run_until(ms(2000));
    link.offer(0, packet(1));
    link.run_until(ms(5000));
    expect(&link, expected);
}

/// Without retransmissions the NACK has no effect. Frame 1 is given up at 610, though it arrived, and is delivered
/// nevertheless.
#[test]
fn no_retransmission_permitted() {
    let config = ArqConfig { max_retransmissions: Some(0), ..config(SR) };
    let expected = "
        0 a data 0 lost
        10 a data 1
        60 b nack 0
        600 a skip 1
        610 a skip 2
        650 b out 1
        650 b ack 2
        660 b ack 2";
    check(config, [("data 0", 1)], 2, expected);
}

/// Only the frame gone back to counts: frame 1, sent three times, is not given up with frame 0. The skip is sent first.
#[test]
fn go_back_n_gives_up_one_frame() {
    let config = ArqConfig { max_retransmissions: Some(1), ..config(GBN) };
    let expected = "
        0 a data 0 lost
        10 a data 1
        60 b nack 0
        110 a data 0 nack lost
        110 a data 1 nack
        710 a skip 1
        710 a data 1 timer
        760 b ack 1
        760 b out 1
        760 b ack 2";
    let mut link = link(config, [("data 0", 2)]);
    send(&mut link, 2);
    expect(&link, expected);
    assert_eq!((link.ends[0].given_up(), link.is_idle()), (1, true));
}

/// Frames behind the hole are delivered as they arrive, the late one when it arrives; the acknowledgments are the same.
#[test]
fn immediate_delivery() {
    let expected = "
        0 a data 0
        10 a data 1 lost
        20 a data 2
        30 a data 3
        50 b out 0
        50 b ack 1
        70 b nack 1
        70 b out 2
        80 b out 3
        120 a data 1 nack
        170 b out 1
        170 b ack 4";
    check(ArqConfig { delivery: Delivery::Immediate, ..config(SR) }, [("data 1", 1)], 4, expected);
}
