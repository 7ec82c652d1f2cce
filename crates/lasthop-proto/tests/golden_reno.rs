//! Reno (RFC 5681 §3.2) segment by segment. Every expected sequence is derived from the text, with the endpoint of
//! [`util::golden::lab`]: a flight of 8, `cwnd` = `ssthresh` = 8 segments, timeout 1 s, a round-trip time of 100 ms.

use crate::util;

use lasthop_proto::tcp::config::{Recovery, RecoveryGuard, Switch, TcpConfig};
use util::golden::*;
use util::*;

/// RFC 5681 has no guard against a second fast retransmit.
fn reno() -> TcpConfig {
    lab(Recovery::RENO).with(|c| classic(c).recovery_guard = RecoveryGuard::None)
}

/// Steps 2 and 3: the third of the seven duplicates (from 2, 3, 4) sets `ssthresh` = FlightSize / 2 = 4 and `cwnd` =
/// 4 + 3, and retransmits 1. Step 4: the four others make `cwnd` 8, 9, 10, 11; step 5: from 9 on that is one new
/// segment each (9, 10, 11). Step 6: the acknowledgment of everything up to 8 sets `cwnd` = 4, so with 9, 10, 11 in
/// flight one more is sent, and one for each acknowledgment of those. §3.1: after 4 segments acknowledged `cwnd` is 5
/// (12's acknowledgment sends 16 and 17).
#[test]
fn one_loss() {
    sends(reno(), 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Six duplicates: `cwnd` 7 (1 retransmitted), 8, 9 (sends 9), 10 (sends 10). The acknowledgment up to 2 is new, so it
/// ends the recovery (step 6): `cwnd` = 4 with 8 segments in flight. 9 and 10 make two duplicates, no third: RFC 6298
/// §5.3 restarted the timer at 200, it expires at 1200; FlightSize is 8, `ssthresh` 4, `cwnd` 1. Slow start: 1, 2, and
/// 4 two each.
#[test]
fn two_losses() {
    sends(reno(), 16, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         1200: 3t
         1300: 11 12
         1400: 13 14 15 16",
    );
}

/// Five duplicates: 7, 8, 9 (sends 9). At 200 the acknowledgment up to 2, then one duplicate from 9. The timeout finds
/// 7 segments in flight: `ssthresh` = 3.5. Going back over the data sent: 3, then 5 and 6 (`cwnd` 2). 5 fills the last
/// hole, everything up to 9 is acknowledged, `cwnd` 3; 6 arrived before, so it makes one duplicate. The next
/// acknowledgment makes `cwnd` 4 > `ssthresh`, the others only slide.
#[test]
fn three_losses() {
    sends(reno(), 16, |pair| pair.lose(&[(1, 1), (3, 1), (5, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9
         1200: 3t
         1300: 5t 6t
         1400: 10 11 12
         1500: 13 14 15 16",
    );
}

/// Four duplicates: 7 (1 retransmitted), 8: no window left. The acknowledgment of 1 ends recovery with 7 in flight, and
/// there are no further duplicates. Timeout: `ssthresh` = 3.5; 2, then 3 and 4, then 3's acknowledgment sends 5 and 6
/// (`cwnd` 3) and 4's, which covers all up to 8, makes `cwnd` 4: 9 to 12.
#[test]
fn four_losses() {
    sends(reno(), 16, |pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         1200: 2t
         1300: 3t 4t
         1400: 5t 6t 9 10 11 12
         1500: 13 14 15 16",
    );
}

/// Duplicates continue as long as new segments do (steps 4 and 5: `cwnd` 12, 13, ...). No rule lets Reno retransmit 1
/// again before the timer, and that not "less than one RTO after the previous transmission of that segment" (RFC 6298
/// §5): 100 + 1000.
#[test]
fn a_lost_retransmission() {
    sends(reno(), 20, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14
         300: 15 16 17
         400: 18 19 20
         1100: 1t",
    );
}

/// The first four of the duplicates from 2 to 8 are lost. The remaining three retransmit 1; `cwnd` = 7 < 8. All 8 are
/// acknowledged at 200: `cwnd` = 4, nothing in flight.
#[test]
fn lost_duplicates_that_leave_three() {
    sends(reno(), 17, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 9 10 11 12
         300: 13 14 15 16 17",
    );
}

/// Two duplicates are below the threshold. The timer runs from the first segment (RFC 6298 §5.1); `ssthresh` = 4.
#[test]
fn lost_duplicates_that_leave_two() {
    sends(reno(), 14, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5])).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         1100: 9 10
         1200: 11 12 13 14",
    );
}

/// Acknowledgments are cumulative: those of 4 and 8 suffice. §3.1: with the second all 8·1000 bytes of `cwnd` are
/// acknowledged, which makes it 9.
#[test]
fn lost_acknowledgments_of_data() {
    sends(reno(), 17, |pair| pair.lose_acks(&[1, 2, 3, 5, 6, 7])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 9 10 11 12 13 14 15 16 17",
    );
}

/// 1 is reordered by more than three segments and declared lost. Its arrival ends recovery (step 6). The retransmission
/// makes one duplicate at 200, which has no effect.
#[test]
fn reordering_beyond_the_threshold() {
    sends(reno(), 17, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         110: 12
         200: 13 14 15
         210: 16 17",
    );
}

/// 2 and 3 overtake 1: two duplicates, no retransmission, and `cwnd` is unchanged.
#[test]
fn reordering_below_the_threshold() {
    let late = |pair: Pair| {
        let pair = pair.treat(1, 1, Fate::Late(millis(1)));
        (4..=8).fold(pair, |pair, number| pair.treat(number, 1, Fate::Late(millis(2))))
    };
    sends(reno(), 17, late).expect(
        "0: 1 2 3 4 5 6 7 8
         101: 9 10 11
         102: 12 13 14 15 16 17",
    );
}

/// RFC 3042: the first and second duplicate send 9 and 10. RFC 5681 §3.2 step 2: these must not count, so `ssthresh` =
/// 8 / 2. With 10 in flight `cwnd` = 7 allows more only when the seventh duplicate makes it 11. At 200: duplicates from
/// 9 and 10 (12, 13), the acknowledgment up to 10 (`cwnd` 4: 14), that of 11 (15).
#[test]
fn limited_transmit() {
    let config = reno().with(|c| classic(c).limited_transmit = Switch::On);
    sends(config, 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 9l 10l 1f 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Purpose of RFC 3042: a flight of 3 gives two duplicates only; the two new segments that they send cause the third.
/// FlightSize without them is 3, `ssthresh` = max(1.5, 2).
#[test]
fn limited_transmit_saves_a_small_window() {
    let config = |limited_transmit| {
        lab_with_window(Recovery::RENO, 3).with(|c| {
            classic(c).limited_transmit = limited_transmit;
            classic(c).recovery_guard = RecoveryGuard::None;
        })
    };
    sends(config(Switch::On), 8, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3
         100: 4l 5l
         200: 1f 6
         300: 7 8",
    );
    // Without limited transmit the timer repairs the loss.
    sends(config(Switch::Off), 5, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3
         1000: 1t
         1100: 4 5",
    );
}

/// Two losses far enough apart that the second has its own three duplicates: two fast retransmits and two halvings, the
/// reason for RFC 6582. Flight 10: `ssthresh` 5, `cwnd` 8 ... 13 with eight duplicates (11, 12, 13). The acknowledgment
/// up to 2 makes `cwnd` 5 with 11 in flight; 11, 12, 13 make three duplicates: FlightSize 11, `ssthresh` 5.5, `cwnd`
/// 8.5.
#[test]
fn a_second_fast_retransmit_in_one_window() {
    let config = lab_with_window(Recovery::RENO, 10).with(|c| classic(c).recovery_guard = RecoveryGuard::None);
    sends(config.clone(), 13, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13
         200: 3f",
    );
    // RFC 6582 §3.2 step 1 forbids it: 3 lies below `recover`.
    let config = config.with(|c| classic(c).recovery_guard = RecoveryGuard::Careful);
    sends(config, 13, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13
         1200: 3t",
    );
}
