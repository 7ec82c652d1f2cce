//! RFC 6675 segment by segment. Every expected sequence is derived from the text, with the endpoint of
//! [`util::golden::lab`]: a flight of 8, `cwnd` = `ssthresh` = 8 segments, timeout 1 s, a round-trip time of 100 ms.

use crate::util;

use lasthop_proto::packet::{Body, Flags, SackBlock, Side};
use lasthop_proto::tcp::config::{Recovery, SackAlgorithm, Switch, TcpConfig};
use util::golden::*;
use util::*;

fn rfc6675() -> TcpConfig {
    lab(Recovery::SACK).with(|c| classic(c).sack_algorithm = SackAlgorithm::Rfc6675)
}

/// §5 (1): the third duplicate (4). (4.2) `cwnd` = 4; (4.3) 1; (4.4) `pipe` = 1 (retransmitted) + 5 to 8 = 5. 5:
/// `pipe` 4. 6, 7, 8: 3 each time, so rule 2 of NextSeg sends 9, 10, 11. (A) the acknowledgment of all 8 ends
/// recovery.
#[test]
fn one_loss() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Third duplicate (5): `pipe` = 1 (retransmitted) + 3 (IsLost: 4, 5 above it are 2 SMSS, not more) + 6, 7, 8 = 5.
/// 6: now 3 is lost, `pipe` = 1 + 7, 8 = 3, so rule 1: 3. 7: `pipe` = 1, 3 (retransmitted), 8 = 3, so 9. 8: 1, 3, 9,
/// so 10. 200: acknowledged up to 2: 3, 9, 10 are 3, so 11. All 8: recovery ends, 9 to 11 in flight (12); 9's (13),
/// 10's (14). 300: 12's acknowledgment is the fourth, `cwnd` 5.
#[test]
fn two_losses() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s 9 10
         200: 11 12 13 14
         300: 15 16 17 18 19
         400: 20",
    );
}

/// Third duplicate (6): IsLost(1), as three runs are above it; `pipe` = 1 + 3 + 5 + 7, 8 = 5. 7: above 3 are 4, 6,
/// 7, more than 2 SMSS: lost; above 5 only 6, 7: `pipe` = 1 + 5 + 8 = 3, so 3. 8: 5 is lost, `pipe` = 1, 3 = 2, so 5
/// and 9. 200: up to 2: the retransmissions of 5 and 3, 9: 3, so 10. Up to 4: 5, 9, 10: 11. All 8: 9 to 11 in flight
/// (12); 9's (13).
#[test]
fn three_losses() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1), (3, 1), (5, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s 5s 9
         200: 10 11 12 13
         300: 14 15 16 17 18
         400: 19 20",
    );
}

/// Third duplicate (7): 5, 6, 7 above make 1 to 4 lost. `pipe` = 1 (retransmitted) + 8 = 2, so 2 and 3 are sent at once
/// (step C). 8: `pipe` = 1, 2, 3, so 4. 200: each partial acknowledgment leaves 3: 9, 10, 11. All 8: 12.
#[test]
fn four_losses() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 2s 3s 4s
         200: 9 10 11 12
         300: 13 14 15 16 17
         400: 18 19 20",
    );
}

/// HighRxt rules out rules 1 and 3, and nothing was acknowledged since the retransmission, so HighACK is not above
/// RescueRxt: no rescue either. §6 lets the timer restart with the retransmission; RFC 6298 §5 requires it one RTO
/// after.
#[test]
fn a_lost_retransmission() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14
         300: 15 16 17
         400: 18 19 20
         1100: 1t",
    );
}

/// The tail is lost, so nothing can SACK above it. Third duplicate (4): `pipe` = 1 + 5 to 8. With 6's SACK it falls to
/// 3, but all data is sent, and the rescue of rule 4 must wait: HighACK is not above RescueRxt, which (4.3) set to 1.
/// At 200 up to 7 is acknowledged, HighACK = 7: the rescue retransmits 8.
#[test]
fn rescue_of_a_lost_tail() {
    sends(rfc6675(), 8, |pair| pair.lose(&[(1, 1), (8, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 8s",
    );
}

/// A single rescue per entry into recovery: if it is lost, only the timer is left. It restarted with the acknowledgment
/// at 200.
#[test]
fn one_rescue_only() {
    sends(rfc6675(), 8, |pair| pair.lose(&[(1, 1), (8, 1), (8, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 8s
         1200: 8t",
    );
}

/// Rule 3: without new data, a hole that IsLost does not prove precedes any rescue. 1 and 6 are lost. Third duplicate
/// (4): 1, `pipe` = 1 + 5 to 8 = 5. 5: 4. 7: `pipe` = 1 + 6 + 8 = 3; 6 has one SACKed segment above it, not lost, but
/// rule 3 returns it. 8: `pipe` = 1 + 6 twice (not lost, and retransmitted) = 3, nothing is left to send. 200: up to 5
/// is acknowledged, which is above RescueRxt, `pipe` is 2, and 6 is the highest outstanding and not SACKed: rule 4
/// returns it again, though its retransmission has just arrived.
#[test]
fn an_unproven_hole_when_nothing_new_is_left() {
    sends(rfc6675(), 8, |pair| pair.lose(&[(1, 1), (6, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 6s
         200: 6s",
    );
}

/// §5 (2): the first duplicate that arrives (6's) SACKs 2 to 6: IsLost(1) at once. FlightSize 8: `cwnd` 4; `pipe` = 1 +
/// 7, 8 = 3, so 9. 7: 10. 8: 11.
#[test]
fn lost_duplicates_are_made_up_for_by_sack() {
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
    // A single duplicate is enough: 8's SACKs 2 to 8, `pipe` = 1, so 9, 10, 11.
    sends(rfc6675(), 20, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5, 6])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

#[test]
fn all_duplicates_lost() {
    sends(rfc6675(), 14, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5, 6, 7])).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         1100: 9 10
         1200: 11 12 13 14",
    );
}

#[test]
fn reordering_beyond_the_threshold() {
    sends(rfc6675(), 17, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         110: 12
         200: 13 14 15
         210: 16 17",
    );
}

/// §5 (3): one new segment on the first and second duplicate. Their bytes do not count into FlightSize (RFC 5681 §3.2
/// step 2). Third: RecoveryPoint = 10, `pipe` = 1 + 5 to 10 = 7; 8's duplicate leaves 1, 9, 10: 11.
#[test]
fn limited_transmit() {
    let config = rfc6675().with(|c| classic(c).limited_transmit = Switch::On);
    sends(config, 20, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 9l 10l 1f 11
         200: 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Injects an acknowledgment of the acceptor for everything before segment `next`, with a SACK block from `left` up to
/// before `right`, and with `len` bytes of the acceptor's data.
fn acknowledge(pair: &mut Pair, next: u32, (left, right): (u32, u32), len: u32) {
    let mut packet = pair.forge(Side::Initiator, Flags::ACK, 1, 1 + (next - 1) * 1000, len);
    let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
    let edge = |number: u32| pair.iss[0] + (1 + (number - 1) * 1000);
    segment.options.sack.push(SackBlock { left: edge(left), right: edge(right) });
    segment.window = 60_000;
    pair.inject(Side::Initiator, packet);
}

/// §2: an acknowledgment with new SACK information is a duplicate, "even if it carries new data, changes the advertised
/// window, or moves the cumulative acknowledgment point".
#[test]
fn acknowledgments_with_data_or_progress_count_as_duplicates() {
    let mut pair = Pair::of(rfc6675()).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    pair.send_segments(8);
    // Up to 1 is acknowledged, 2 is missing, 3 to 5 arrived: IsLost(2) by three segments, on the first such
    // acknowledgment. With 7 in flight, `cwnd` is 3.5; `pipe` = 2 + 6, 7, 8 = 4.
    acknowledge(&mut pair, 2, (3, 6), 0);
    assert_eq!(pair.story(), "0: 1 2 3 4 5 6 7 8 2f");

    let mut pair = Pair::of(rfc6675()).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    pair.send_segments(8);
    for right in [3, 4] {
        acknowledge(&mut pair, 1, (2, right), 0);
        assert_eq!(pair.story(), "0: 1 2 3 4 5 6 7 8");
    }
    acknowledge(&mut pair, 1, (2, 5), 10);
    assert_eq!(pair.story(), "0: 1 2 3 4 5 6 7 8 1f");
    // An acknowledgment without new SACK information is not a duplicate, even if it looks like one.
    acknowledge(&mut pair, 1, (2, 5), 0);
    acknowledge(&mut pair, 1, (2, 5), 0);
    assert_eq!(pair.story(), "0: 1 2 3 4 5 6 7 8 1f");
}

/// §5.1: after a timeout in recovery no new recovery begins before RecoveryPoint is acknowledged; after one outside
/// recovery it may.
#[test]
fn no_recovery_after_a_timeout_before_the_recovery_point() {
    let deaf = || {
        let mut pair = Pair::of(rfc6675()).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
        pair.send_segments(8);
        pair
    };
    let mut pair = deaf();
    acknowledge(&mut pair, 1, (2, 6), 0);
    pair.run_until(pair.first_data() + millis(1000));
    pair.expect("0: 1 2 3 4 5 6 7 8 1f\n 1000: 1t");
    // RFC 2018 §8: the timeout cleared the scoreboard, so this is new information; IsLost(1).
    acknowledge(&mut pair, 1, (2, 6), 0);
    pair.expect("0: 1 2 3 4 5 6 7 8 1f\n 1000: 1t");

    let mut pair = deaf();
    pair.run_until(pair.first_data() + millis(1000));
    acknowledge(&mut pair, 1, (2, 6), 0);
    pair.expect("0: 1 2 3 4 5 6 7 8\n 1000: 1t 1f");
}
