//! Explicit Loss Notification ([a] §III-B) segment by segment, with the endpoint of [`util::golden::lab`]: a flight of
//! 8, `cwnd` = `ssthresh` = 8 segments, timeout 1 s, a round-trip time of 100 ms.
//!
//! The rules: acknowledgments whose next expected segment was lost to corruption carry a mark. On a marked third
//! duplicate (E2E-ELN) or first (E2E-ELN-RXMT) that segment is retransmitted, once, and the congestion window does not
//! change. Only one loss is signalled at a time: a segment corrupted while another is missing gets no mark, and needs
//! duplicates of its own. Timeouts, and losses without the mark, are handled as in NewReno.

use crate::util;

use lasthop_proto::tcp::config::{Recovery, SackAlgorithm, Switch, TcpConfig};
use util::golden::*;
use util::*;

fn eln() -> TcpConfig {
    lab(Recovery::ELN)
}

fn eln_rxmt() -> TcpConfig {
    lab(Recovery::ELN_RXMT)
}

/// `cwnd` stays 8, so no more data is sent before the acknowledgment of all 8.
#[test]
fn one_loss() {
    sends(eln(), 16, |pair| pair.damage(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1e
         200: 9 10 11 12 13 14 15 16",
    );
    sends(eln_rxmt(), 16, |pair| pair.damage(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1e
         200: 9 10 11 12 13 14 15 16",
    );
}

/// Purpose of E2E-ELN-RXMT: windows too small for three duplicates. A flight of 2 makes one.
#[test]
fn one_loss_in_a_small_window() {
    sends(lab_with_window(Recovery::ELN, 2), 4, |pair| pair.damage(&[(1, 1)])).expect(
        "0: 1 2
         1000: 1t
         1100: 3 4",
    );
    sends(lab_with_window(Recovery::ELN_RXMT, 2), 4, |pair| pair.damage(&[(1, 1)])).expect(
        "0: 1 2
         100: 1e
         200: 3 4",
    );
}

/// 200: the acknowledgment up to 2 is new and sends 9 and 10 (`cwnd` is still 8). 3 was corrupted while 1 was missing,
/// so its loss was not signalled: its two duplicates have no mark and are too few. The timer restarted at 200; `cwnd`
/// = 1.
#[test]
fn two_losses() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 12, |pair| pair.damage(&[(1, 1), (3, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             200: 9 10
             1200: 3t
             1300: 11 12",
        );
    }
}

/// After the timeout, slow start goes back over the data sent: 5 and 6 (`cwnd` 2), then 11 and 12.
#[test]
fn three_losses() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 12, |pair| pair.damage(&[(1, 1), (3, 1), (5, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             200: 9 10
             1200: 3t
             1300: 5t 6t
             1400: 11 12",
        );
    }
}

/// After 1, one new segment is sent and one duplicate arrives. Timeout: 2; 3, 4; 5, 6 (`cwnd` 3) and 10 to 12 (`cwnd`
/// 4).
#[test]
fn four_losses() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 12, |pair| pair.damage(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             200: 9
             1200: 2t
             1300: 3t 4t
             1400: 5t 6t 10 11 12",
        );
    }
}

/// A hole that was not signalled is handled as in NewReno. Flight 10, 1 and 4 corrupted. 200: up to 3 is acknowledged:
/// 3 new segments. Their duplicates have no mark; the third halves the window.
#[test]
fn a_second_loss_with_enough_duplicates() {
    for recovery in [Recovery::ELN, Recovery::ELN_RXMT] {
        sends(lab_with_window(recovery, 10), 13, |pair| pair.damage(&[(1, 1), (4, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8 9 10
             100: 1e
             200: 11 12 13
             300: 4f",
        );
    }
}

/// Consecutive losses, each of them signalled: the window never shrinks.
#[test]
fn a_loss_after_the_repair_of_another() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 24, |pair| pair.damage(&[(1, 1), (9, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             200: 9 10 11 12 13 14 15 16 17
             300: 9e
             400: 18 19 20 21 22 23 24",
        );
    }
    sends(lab_with_window(Recovery::ELN_RXMT, 2), 4, |pair| pair.damage(&[(1, 1), (3, 1)])).expect(
        "0: 1 2
         100: 1e
         200: 3 4
         300: 3e",
    );
}

/// Each hole is retransmitted once on its mark; the loss of the retransmission is left to the timer, which restarted
/// with it. The timeout halves the window as usual.
#[test]
fn a_lost_retransmission() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 10, |pair| pair.damage(&[(1, 1)]).lose(&[(1, 2)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             1100: 1t
             1200: 9 10",
        );
    }
}

/// Three duplicates left, then two, then one, then none.
#[test]
fn lost_duplicates() {
    let lost = |count: u32| move |pair: Pair| pair.damage(&[(1, 1)]).lose_acks(&(1..=count).collect::<Vec<_>>());
    let in_time = "0: 1 2 3 4 5 6 7 8
                   100: 1e
                   200: 9 10 11 12";
    let too_late = "0: 1 2 3 4 5 6 7 8
                    1000: 1t
                    1100: 9 10
                    1200: 11 12";
    sends(eln(), 12, lost(4)).expect(in_time);
    sends(eln(), 12, lost(5)).expect(too_late);
    sends(eln_rxmt(), 12, lost(6)).expect(in_time);
    sends(eln_rxmt(), 12, lost(7)).expect(too_late);
}

/// A segment that is reordered, or lost without a corrupted frame, causes no mark: NewReno's fast retransmit and half
/// the window.
#[test]
fn reordering_and_congestion_are_not_corruption() {
    for config in [eln(), eln_rxmt()] {
        sends(config.clone(), 17, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1f 9 10 11
             110: 12
             200: 13 14 15
             210: 16 17",
        );
        sends(config.clone(), 20, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1f 9 10
             200: 3p 11 12 13
             300: 14 15 16 17
             400: 18 19 20",
        );
    }
}

/// 1 is corrupted, 3 lost without a corrupted frame. 1 is retransmitted on its mark; 3's two duplicates at 300 have
/// none, so even E2E-ELN-RXMT waits for a third.
#[test]
fn corruption_then_congestion() {
    for config in [eln(), eln_rxmt()] {
        sends(config, 12, |pair| pair.damage(&[(1, 1)]).lose(&[(3, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e
             200: 9 10
             1200: 3t
             1300: 11 12",
        );
    }
}

/// SACK and ELN combined ([a] future work): SACK's recovery, but a loss marked as corruption does not reduce the
/// window.
fn sack_eln(sack_algorithm: SackAlgorithm) -> TcpConfig {
    lab(Recovery::SACK).with(|c| {
        c.common.sack_eln = Switch::On;
        classic(c).sack_algorithm = sack_algorithm;
    })
}

/// Sack1: the third duplicate (4): `pipe` = 5, only 1. 5: `pipe` 4, `cwnd` still 8: 9 to 12. 6, 7, 8: one each. RFC
/// 6675: the third duplicate: `pipe` = 1 + 5 to 8 = 5: 9 to 11 at once, then one for each of 5 to 8. At 200 all 8 are
/// acknowledged, with 7 in flight.
#[test]
fn sack_and_corruption() {
    for algorithm in [SackAlgorithm::Sack1, SackAlgorithm::Rfc6675] {
        sends(sack_eln(algorithm), 20, |pair| pair.damage(&[(1, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1e 9 10 11 12 13 14 15
             200: 16 17 18 19 20",
        );
        // Without a mark the loss is handled like any other.
        sends(sack_eln(algorithm), 20, |pair| pair.lose(&[(1, 1)])).expect(
            "0: 1 2 3 4 5 6 7 8
             100: 1f 9 10 11
             200: 12 13 14 15
             300: 16 17 18 19 20",
        );
    }
}

/// In slow start `ssthresh` is far above `cwnd`, in congestion avoidance below it: in both cases `cwnd` has the same
/// value after recovery as before.
#[test]
fn sack_and_corruption_leave_the_window_alone() {
    for algorithm in [SackAlgorithm::Sack1, SackAlgorithm::Rfc6675] {
        for initial_ssthresh in [Some(1_000_000), Some(2000)] {
            let config = sack_eln(algorithm).with(|c| c.common.initial_ssthresh = initial_ssthresh);
            let pair = sends(config, 8, |pair| pair.damage(&[(1, 1)]));
            assert_eq!(pair.ends[0].window(), (8000, initial_ssthresh.unwrap()), "{algorithm:?}");
        }
    }
}

/// 1 is corrupted, 3 lost without a corrupted frame. The marked third duplicate (5) does not reduce the window; 6:
/// `pipe` 4: 3, 9, 10, 11; 7: 12; 8: 13. The partial acknowledgment at 200 has no mark, so the loss counts as
/// congestion: FlightSize 11 (3 to 13), `cwnd` 5.5; `pipe` 6. All 8: 9 to 13 in flight, one for each acknowledgment.
#[test]
fn sack_and_corruption_then_congestion() {
    sends(sack_eln(SackAlgorithm::Sack1), 18, |pair| pair.damage(&[(1, 1)]).lose(&[(3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1e 3s 9 10 11 12 13
         200: 14 15 16 17 18",
    );
}
