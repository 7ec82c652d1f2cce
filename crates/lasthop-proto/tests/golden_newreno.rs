//! NewReno (RFC 6582) segment by segment. Every expected sequence is derived from the text, with the endpoint of
//! [`util::golden::lab`]: a flight of 8, `cwnd` = `ssthresh` = 8 segments, timeout 1 s, a round-trip time of 100 ms.

use crate::util;

use lasthop_proto::tcp::config::{PartialAckTimer, Recovery, RecoveryGuard, Switch, TcpConfig};
use util::golden::*;
use util::*;

fn newreno() -> TcpConfig {
    lab(Recovery::NEW_RENO)
}

/// As Reno; the first acknowledgment is a full one. §3.2 step 3, first choice: `cwnd` = min(4, FlightSize + 1) = 4.
#[test]
fn one_loss() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// `recover` = 8, `cwnd` 7, 8, 9 (sends 9), 10 (sends 10). At 200 the acknowledgment up to 2 is partial: 3 is
/// retransmitted, `cwnd` = 10 - 2 + 1 = 9 with 3 to 10 in flight, so a new segment is sent (11). The duplicates from 9
/// and 10 make `cwnd` 10 and 11: 12, 13. At 300 everything up to 10 is acknowledged, a full acknowledgment: `cwnd` =
/// min(4, 3 + 1).
#[test]
fn two_losses() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p 11 12 13
         300: 14 15 16 17
         400: 18 19 20",
    );
}

/// 100: `cwnd` 7, 8, 9 (sends 9). 200: partial up to 2, 9 - 2 + 1 = 8 with 7 in flight (10); duplicate from 9 (11).
/// 300: partial up to 4, 9 - 2 + 1 = 8 with 7 in flight (12); duplicates from 10 and 11 (13, 14). 400: full.
#[test]
fn three_losses() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1), (3, 1), (5, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9
         200: 3p 10 11
         300: 5p 12 13 14
         400: 15 16 17 18
         500: 19 20",
    );
}

/// One hole per round trip. 100: `cwnd` 7, 8. 200: partial, 8 - 1 + 1 with 7 in flight (9). 300: the same (10), then
/// the duplicate from 9 (11). 400: 9 - 1 + 1 = 9 with 8 in flight (12), duplicates from 10 and 11 (13, 14). 500: full.
#[test]
fn four_losses() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 2p 9
         300: 3p 10 11
         400: 4p 12 13 14
         500: 15 16 17 18
         600: 19 20",
    );
}

/// A lost retransmission is retransmitted only by the timer: one RTO after the retransmission of 1 (RFC 6298 §5).
#[test]
fn a_lost_retransmission() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14
         300: 15 16 17
         400: 18 19 20
         1100: 1t",
    );
}

/// 3, retransmitted on the partial acknowledgment, is lost again; the first partial acknowledgment restarted the timer
/// (§3.2 step 3). `cwnd` was 11 after 13.
#[test]
fn a_lost_retransmission_on_a_partial_acknowledgment() {
    sends(newreno(), 20, |pair| pair.lose(&[(1, 1), (3, 1), (3, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p 11 12 13
         300: 14 15 16
         400: 17 18 19
         500: 20
         1200: 3t",
    );
}

/// Three duplicates are left; see Reno. The acknowledgment at 200 is full and nothing is in flight: `cwnd` = min(4,
/// max(0, 1) + 1) = 2. Slow start from there, as `cwnd` < `ssthresh`: 3 and 4.
#[test]
fn lost_duplicates_that_leave_three() {
    sends(newreno(), 14, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 9 10
         300: 11 12 13 14",
    );
}

#[test]
fn lost_duplicates_that_leave_two() {
    sends(newreno(), 14, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5])).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         1100: 9 10
         1200: 11 12 13 14",
    );
}

/// The acknowledgment that would have caused the retransmission of 3 is lost (the seventh: six duplicates at 50, then
/// those of 1, 9 and 10 at 150). The duplicates from 9 and 10 acknowledge up to 2 as well: the first of them is the
/// partial acknowledgment, the second inflates. `cwnd` = 10 - 2 + 1 = 9 with 8 in flight (11), then 10 (12).
#[test]
fn a_lost_partial_acknowledgment() {
    sends(newreno(), 12, |pair| pair.lose(&[(1, 1), (3, 1)]).lose_acks(&[7])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p 11 12",
    );
}

#[test]
fn reordering_beyond_the_threshold() {
    sends(newreno(), 17, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         110: 12
         200: 13 14 15
         210: 16 17",
    );
}

/// See Reno: segments sent by limited transmit do not count for `ssthresh`; `recover` is 10 here, so the acknowledgment
/// up to 10 is full.
#[test]
fn limited_transmit() {
    let config = newreno().with(|c| classic(c).limited_transmit = Switch::On);
    sends(config, 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 9l 10l 1f 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// §4: "impatient" restarts the timer with the first partial acknowledgment only, here at 200. With a timeout of 320 ms
/// it expires at 520, before the fifth hole is repaired. "Slow-but-steady" restarts it with each.
///
/// Flight 10, 1 to 5 lost: `cwnd` 8, 9, 10 (five duplicates). 200: 10 - 1 + 1 with 9 in flight (11). 300: the same
/// (12), then the duplicate from 11 (13). 400: 11 with 10 in flight (14), two duplicates (15, 16). 500: 13 with 12
/// (17), three (18 to 20). 520, impatient: `ssthresh` 8, `cwnd` 1, 5 again; at 600 the retransmission of 500 is
/// acknowledged with all up to 16: back to slow start from 17, though 17 to 20 are in flight: `cwnd` 2 (17, 18), 3 (19,
/// 20).
#[test]
fn impatient_and_slow_but_steady() {
    let config = |partial_ack_timer| {
        lab_with_window(Recovery::NEW_RENO, 10).with(|c| {
            classic(c).partial_ack_timer = partial_ack_timer;
            c.common.rto_min = millis(320);
        })
    };
    let losses = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    sends(config(PartialAckTimer::Impatient), 20, |pair| pair.lose(&losses)).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f
         200: 2p 11
         300: 3p 12 13
         400: 4p 14 15 16
         500: 5p 17 18 19 20
         520: 5t
         600: 17t 18t 19t 20t",
    );
    sends(config(PartialAckTimer::SlowButSteady), 20, |pair| pair.lose(&losses)).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f
         200: 2p 11
         300: 3p 12 13
         400: 4p 14 15 16
         500: 5p 17 18 19 20",
    );
}

/// §3.2 step 4: a timeout sets `recover`, so that duplicates caused by the go-back start no fast retransmit. Flight 12,
/// 1 to 4 lost, all eight duplicates lost: timeout, `ssthresh` 6. 1; 2 and 3; then 4, 5 (`cwnd` 3) and 6, 7 (`cwnd` 4).
/// 4 fills the hole, up to 12 is acknowledged, `cwnd` 5: 13 to 17. 5, 6, 7 had arrived before: three duplicates.
#[test]
fn duplicates_after_a_timeout_mean_nothing() {
    let config =
        |recovery_guard| lab_with_window(Recovery::NEW_RENO, 12).with(|c| classic(c).recovery_guard = recovery_guard);
    let faults = |pair: Pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)]).lose_acks(&[1, 2, 3, 4, 5, 6, 7, 8]);
    sends(config(RecoveryGuard::Careful), 17, faults).expect(
        "0: 1 2 3 4 5 6 7 8 9 10 11 12
         1000: 1t
         1100: 2t 3t
         1200: 4t 5t 6t 7t
         1300: 13 14 15 16 17",
    );
    // Without the guard (quirk 4) they do, and the acknowledgments of 13 to 16 are then partial ones.
    sends(config(RecoveryGuard::None), 17, faults).expect(
        "0: 1 2 3 4 5 6 7 8 9 10 11 12
         1000: 1t
         1100: 2t 3t
         1200: 4t 5t 6t 7t
         1300: 13 14 15 16 17 13f
         1400: 14p 15p 16p 17p",
    );
}
