//! 4.4BSD's handling of windows that change between acknowledgments, and the deflation of the inflated window, segment
//! by segment. The round-trip time is 100 ms; data sent at 0 arrives at 50.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::packet::Side;
use lasthop_proto::tcp::config::{Deflation, ImpureDuplicates, PartialDeflation, Recovery, RecoveryGuard, Switch};

/// The acknowledgment of 1 leaves before 1 is read: 59,000 are free. Those of 3 to 6, which wait for 2, announce the
/// read. The first of these changes the window, so three duplicates are left to start the fast retransmit. 2 completes
/// 2 to 6: 55,000 are free until the read, which moves the edge by more than two segments and is announced. If data is
/// read first, all announce 60,000.
#[test]
fn acknowledgments_that_leave_before_the_read() {
    let windows = |ack_before_read| {
        let config = lab_with_window(Recovery::NEW_RENO, 6).with(|c| c.receiver.ack_before_read = ack_before_read);
        let pair = sends(config, 6, |pair| pair.lose(&[(2, 1)]));
        let first = pair.first_data();
        let acks = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack() && sent.at >= first);
        let windows: Vec<_> = acks.map(|sent| ((sent.ack - 1) / 1000, u32::from(sent.segment.window))).collect();
        pair.expect("0: 1 2 3 4 5 6\n100: 2f");
        windows
    };
    let late = [(1, 59_000), (1, 60_000), (1, 60_000), (1, 60_000), (1, 60_000), (6, 55_000), (6, 60_000)];
    assert_eq!(windows(Switch::On), late);
    assert_eq!(windows(Switch::Off), [1, 1, 1, 1, 1, 6].map(|ack| (ack, 60_000)));
}

/// In a flight of 5 whose second segment is lost, three acknowledgments repeat 1. If the first of them changes the
/// window, two duplicates are left, which is too few: the timer, restarted at 100, repairs the loss.
#[test]
fn a_window_that_moved_costs_a_duplicate() {
    let config =
        |ack_before_read| lab_with_window(Recovery::NEW_RENO, 5).with(|c| c.receiver.ack_before_read = ack_before_read);
    sends(config(Switch::Off), 5, |pair| pair.lose(&[(2, 1)])).expect("0: 1 2 3 4 5\n100: 2f");
    sends(config(Switch::On), 5, |pair| pair.lose(&[(2, 1)])).expect("0: 1 2 3 4 5\n1100: 2t");
}

/// 4 is lost, 7 and 8 are late by 5 ms, and the acknowledgment that 3 caused is late by 1 ms. At 100 those of 5 (the
/// first to acknowledge 3) and 6 arrive: one duplicate. At 101 the old one arrives, with the window before the read: no
/// duplicate. At 105 two more. 4.4BSD counts from zero again: two.
#[test]
fn an_acknowledgment_between_duplicates_restarts_their_count() {
    let story = |impure_duplicates| {
        let config = lab_with_window(Recovery::NEW_RENO, 8).with(|c| {
            c.receiver.ack_before_read = Switch::On;
            classic(c).impure_duplicates = impure_duplicates;
        });
        let faults = |pair: Pair| {
            let pair = pair.lose(&[(4, 1)]).treat(7, 1, Fate::Late(millis(5))).treat(8, 1, Fate::Late(millis(5)));
            pair.judged_by(|sent| {
                let third = sent.from == Side::Acceptor && sent.is_pure_ack() && sent.transmission == 3;
                if third { Fate::Late(millis(1)) } else { Fate::Arrive }
            })
        };
        sends(config, 8, faults).story()
    };
    assert_eq!(story(ImpureDuplicates::Ignored), "0: 1 2 3 4 5 6 7 8\n105: 4f");
    assert_eq!(story(ImpureDuplicates::RestartCount), "0: 1 2 3 4 5 6 7 8\n1100: 4t");
}

/// `cwnd` = 4 + 3 and two more duplicates' inflation beyond 8: 9 and 10. The partial acknowledgment of 1 and 2 at 200
/// leaves 10 - 2 + 1 = 9 by RFC 6582, with two duplicates on top (11, 12, 13). With `to-ssthresh` it leaves 4, and the
/// two duplicates make 6, with 8 in flight. The full one sets 4 and opens it to 5 in either case.
#[test]
fn a_partial_acknowledgment_leaves_the_threshold() {
    let config =
        |partial_deflation| bsd(Recovery::NEW_RENO, 8).with(|c| classic(c).partial_deflation = partial_deflation);
    sends(config(PartialDeflation::ToThreshold), 18, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p
         300: 11 12 13 14 15
         400: 16 17 18",
    );
    sends(config(PartialDeflation::ByAcked), 18, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p 11 12 13
         300: 14 15 16 17 18",
    );
}

/// A flight of 4 makes exactly three duplicates: `ssthresh` 2, `cwnd` 5, which 4.4BSD does not deflate. NewReno
/// inflates like Reno; Sack1 counts segments in the network and leaves recovery as if it had inflated.
#[test]
fn no_deflation_after_three_duplicates() {
    let config = |recovery, deflation| bsd(recovery, 4).with(|c| classic(c).deflation = deflation);
    let lose = |pair: Pair| pair.lose(&[(1, 1)]);
    sends(config(Recovery::RENO, Deflation::AboveThreshold), 9, lose).expect("0: 1 2 3 4\n100: 1f\n200: 5 6 7 8 9");
    sends(config(Recovery::RENO, Deflation::Always), 9, lose).expect("0: 1 2 3 4\n100: 1f\n200: 5 6 7\n300: 8 9");
    // NewReno sends new data on the third duplicate: 5. After it `cwnd` is 5200, or 3 and then 3333.
    sends(config(Recovery::NEW_RENO, Deflation::AboveThreshold), 9, lose).expect("0: 1 2 3 4\n100: 1f 5\n200: 6 7 8 9");
    sends(config(Recovery::NEW_RENO, Deflation::Always), 9, lose).expect("0: 1 2 3 4\n100: 1f 5\n200: 6 7 8\n300: 9");
    let config = bsd(Recovery::SACK, 4).with(|c| classic(c).deflation = Deflation::AboveThreshold);
    sends(config, 9, |pair| pair.lose(&[(1, 1)])).expect("0: 1 2 3 4\n100: 1f\n200: 5 6 7 8 9");
}

/// A recovery of 1 with 10 segments in flight: `ssthresh` 5, `cwnd` 8 to 14 (11 to 14). 11 is lost too. The
/// acknowledgment of all ten at 200 (`cwnd` 5, opened to 6: 15, 16) arrives before three duplicates: all data that was
/// in flight when the first recovery began is acknowledged. `ssthresh` = 3, `cwnd` 6, 7 (17), 8 (18). The guard of RFC
/// 6582 requires one byte more, so the timer repairs the loss: restarted at 200, at 1350 as in golden_bsd.rs.
#[test]
fn one_fast_retransmit_a_window() {
    let config = |recovery, recovery_guard| bsd(recovery, 10).with(|c| classic(c).recovery_guard = recovery_guard);
    let lose = |pair: Pair| pair.lose(&[(1, 1), (11, 1)]);
    sends(config(Recovery::RENO, RecoveryGuard::OncePerWindow), 18, lose).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13 14
         200: 15 16 11f
         300: 17 18",
    );
    let timer = "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13 14
         200: 15 16
         1350: 11t
         1450: 17 18";
    sends(config(Recovery::RENO, RecoveryGuard::Careful), 18, lose).expect(timer);
    // NewReno keeps its own rule.
    sends(config(Recovery::NEW_RENO, RecoveryGuard::OncePerWindow), 18, lose).expect(timer);
    // A loss of data that was in flight at the last recovery starts no other recovery.
    sends(config(Recovery::RENO, RecoveryGuard::OncePerWindow), 13, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13
         1350: 3t",
    );
}

/// ELN leaves the window of 8 unchanged. The duplicates after the retransmission show that segments have left the
/// network: four of seven where the third duplicate retransmits, six where the first does. Their inflation ends when 1
/// is acknowledged.
#[test]
fn duplicates_after_a_mark() {
    let config = |recovery, eln_inflation| lab(recovery).with(|c| classic(c).eln_inflation = eln_inflation);
    let story = |config| sends(config, 16, |pair| pair.damage(&[(1, 1)])).story();
    assert_eq!(story(config(Recovery::ELN, Switch::On)), "0: 1 2 3 4 5 6 7 8\n100: 1e 9 10 11 12\n200: 13 14 15 16");
    assert_eq!(
        story(config(Recovery::ELN_RXMT, Switch::On)),
        "0: 1 2 3 4 5 6 7 8\n100: 1e 9 10 11 12 13 14\n200: 15 16"
    );
    assert_eq!(story(config(Recovery::ELN, Switch::Off)), "0: 1 2 3 4 5 6 7 8\n100: 1e\n200: 9 10 11 12 13 14 15 16");
}

/// The deflation equals the inflation: `cwnd` 8 in congestion avoidance reaches 9 after a window of acknowledgments,
/// with or without inflation by duplicates in between.
#[test]
fn the_inflation_of_marked_duplicates_is_taken_back() {
    let window = |eln_inflation| {
        let config = lab(Recovery::ELN).with(|c| classic(c).eln_inflation = eln_inflation);
        let mut pair = Pair::of(config).damage(&[(1, 1)]);
        pair.send_segments(8);
        pair.finish();
        pair.ends[0].window().0
    };
    assert_eq!((window(Switch::On), window(Switch::Off)), (9000, 9000));
}
