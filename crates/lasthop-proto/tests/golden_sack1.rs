//! "Sack1" (Fall and Floyd, "Simulation-based Comparisons of Tahoe, Reno, and SACK TCP", 1996, section 4; ns-2) segment
//! by segment, with the endpoint of [`util::golden::lab`]: a flight of 8, `cwnd` = `ssthresh` = 8 segments, timeout 1
//! s, a round-trip time of 100 ms.
//!
//! The rules: the third duplicate retransmits the first hole, halves `cwnd`, and sets `pipe` to the outstanding
//! segments less three; each further duplicate subtracts 1 from `pipe`, each partial acknowledgment 2; each segment
//! sent adds 1. While `pipe` < `cwnd`: the next hole below the highest SACKed segment that was not retransmitted,
//! otherwise new data. Recovery ends when all data that was outstanding at its beginning is acknowledged.

use crate::util;

use lasthop_proto::tcp::config::{Recovery, SackAlgorithm, TcpConfig};
use util::golden::*;
use util::*;

fn sack1() -> TcpConfig {
    lab(Recovery::SACK).with(|c| classic(c).sack_algorithm = SackAlgorithm::Sack1)
}

/// Third duplicate (4): `pipe` = 8 - 3 = 5, `cwnd` = 4, 1. 5: `pipe` 4. 6, 7, 8: 3 each time, so one new segment each
/// (9, 10, 11). At 200 all 8 are acknowledged: `cwnd` 4 with three in flight.
#[test]
fn one_loss() {
    sends(sack1(), 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Third duplicate (5): `pipe` 5, 1. 6: 4. 7: 3, so the hole 3. 8: 3, no hole left, so 9. At 200 the partial
/// acknowledgment of 1 and 2 subtracts 2: 10 and 11. That of 3 covers all 8: recovery ends, `cwnd` 4 with three in
/// flight (12), then 9's (13). Congestion avoidance: the fourth acknowledgment (12's) makes `cwnd` 5.
#[test]
fn two_losses() {
    sends(sack1(), 20, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s 9
         200: 10 11 12 13
         300: 14 15 16 17 18
         400: 19 20",
    );
}

/// Third duplicate (6): `pipe` 5, 1. 7: 4. 8: 3, so 3. 200: partial up to 2, `pipe` 2: the hole 5, then 9. Partial up
/// to 4, `pipe` 2: 10 and 11. 300: all 8.
#[test]
fn three_losses() {
    sends(sack1(), 20, |pair| pair.lose(&[(1, 1), (3, 1), (5, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s
         200: 5s 9 10 11
         300: 12 13 14 15
         400: 16 17 18 19 20",
    );
}

/// Third duplicate (7): `pipe` 5, 1. 8: 4. 200: partial, `pipe` 2: 2 and 3. 300: partial, `pipe` 2: 4 and 9; partial,
/// `pipe` 2: 10 and 11. 400: all 8.
#[test]
fn four_losses() {
    sends(sack1(), 20, |pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 2s 3s
         300: 4s 9 10 11
         400: 12 13 14 15
         500: 16 17 18 19 20",
    );
}

/// Each hole is retransmitted once; a lost retransmission waits for the timer, 1 s after it was sent (ns-2 and 4.4BSD
/// restart it then).
#[test]
fn a_lost_retransmission() {
    sends(sack1(), 20, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14
         300: 15 16 17
         400: 18 19 20
         1100: 1t",
    );
}

/// 3, retransmitted as a hole, is lost: the partial acknowledgment at 200 sends 10 and 11 (`pipe` 4), the duplicate
/// from 9 one more (12), and so on with 10, 11, 12 at 300 and 13, 14, 15 at 400. The timer restarts with the partial
/// acknowledgment. On expiry the scoreboard is cleared: `ssthresh` is half of 13 (3 to 15), 3 covers all.
#[test]
fn a_lost_retransmission_of_a_hole() {
    sends(sack1(), 15, |pair| pair.lose(&[(1, 1), (3, 1), (3, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s 9
         200: 10 11 12
         300: 13 14 15
         1200: 3t",
    );
}

/// The duplicates from 6, 7, 8 are left. `pipe` = 8 - 3 regardless: the SACK information of the lost ones is not
/// counted.
#[test]
fn lost_duplicates_that_leave_three() {
    sends(sack1(), 17, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 9 10 11 12
         300: 13 14 15 16 17",
    );
}

/// "Needs 3 duplicates": the SACK blocks of two do not suffice.
#[test]
fn lost_duplicates_that_leave_two() {
    sends(sack1(), 14, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5])).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         1100: 9 10
         1200: 11 12 13 14",
    );
}

/// The acknowledgment of the late segment ends recovery. The duplicate caused by the retransmission carries no new SACK
/// information.
#[test]
fn reordering_beyond_the_threshold() {
    sends(sack1(), 17, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         110: 12
         200: 13 14 15
         210: 16 17",
    );
}

/// 2 and 3 overtake 1.
#[test]
fn reordering_below_the_threshold() {
    let late = |pair: Pair| {
        let pair = pair.treat(1, 1, Fate::Late(millis(1)));
        (4..=8).fold(pair, |pair, number| pair.treat(number, 1, Fate::Late(millis(2))))
    };
    sends(sack1(), 17, late).expect(
        "0: 1 2 3 4 5 6 7 8
         101: 9 10 11
         102: 12 13 14 15 16 17",
    );
}
