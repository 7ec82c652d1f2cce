//! Appropriate byte counting (RFC 3465) segment by segment, with the endpoint of [`util::golden::lab`] in slow start: a
//! round-trip time of 100 ms, every second segment acknowledged.

use crate::util;

use lasthop_proto::tcp::config::{DelayedAck, Growth, Recovery, TcpConfig};
use util::golden::*;
use util::*;

fn slow_start(growth: Growth, window: u32) -> TcpConfig {
    lab(Recovery::NEW_RENO).with(|c| {
        c.common.initial_window = window;
        c.common.initial_ssthresh = Some(60_000);
        c.receiver.delayed_ack = DelayedAck::EverySecond { timeout: millis(200) };
        classic(c).growth = growth;
    })
}

/// Acknowledgments of 2 and 4 arrive at 100. §2.2 with L = 2: each opens the window by the two segments that it covers,
/// `cwnd` = 6 and 8, which sends 5 to 8 and 9 to 12; those of 6, 8, 10 and 12 make it 16.
#[test]
fn the_window_grows_by_what_is_acknowledged() {
    sends(slow_start(Growth::Rfc3465, 4), 28, |pair| pair).expect(
        "0: 1 2 3 4
         100: 5 6 7 8 9 10 11 12
         200: 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28",
    );
}

/// RFC 5681: one segment for each acknowledgment, `cwnd` = 5 and 6, then 9.
#[test]
fn without_it_by_how_many_acknowledgments_come() {
    sends(slow_start(Growth::Rfc5681, 4), 19, |pair| pair).expect(
        "0: 1 2 3 4
         100: 5 6 7 8 9 10
         200: 11 12 13 14 15 16 17 18 19",
    );
}

/// §2.3: after a timeout L = 1. The first of three segments is lost, two duplicates are too few, and the timer expires
/// 1 s later. One acknowledgment then covers all three segments: `cwnd` = 1 + 1. With L = 2 it would be 3.
#[test]
fn after_a_timeout_one_segment_an_acknowledgment() {
    sends(slow_start(Growth::Rfc3465, 3), 6, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3
         1000: 1t
         1100: 4 5
         1200: 6",
    );
}
