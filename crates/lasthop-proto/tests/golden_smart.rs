//! SMART ([a] §III-B, after Keshav and Morgan) segment by segment, with the endpoint of [`util::golden::lab`]: a flight
//! of 8, `cwnd` = `ssthresh` = 8 segments, timeout 1 s, a round-trip time of 100 ms.
//!
//! The rules: each acknowledgment names the segment that caused it; a segment below the highest one named that was not
//! named itself is declared lost at once, and is retransmitted unless that happened within the last round-trip time;
//! the window is halved once per window of data; a loss that no acknowledgment shows waits for the timer. Segments
//! named do not count as in flight.

use crate::util;

use lasthop_proto::tcp::config::{ClassicRecovery, Recovery, Switch, TcpConfig};
use util::golden::*;
use util::*;

/// The fine-grained round-trip time is configured, between one and two of the real ones.
fn smart() -> TcpConfig {
    lab(Recovery::SMART).with(|c| {
        c.receiver.smart_acks = Switch::On;
        classic(c).smart_rtt = Some(millis(150));
    })
}

/// 2 arrives: 1 is lost, at the first duplicate. `cwnd` = 4. Of the 8 in flight 2 to 6 have arrived when 6's duplicate
/// sends 9; 7 and 8 send 10 and 11. At 200 all 8 are acknowledged: 9 to 11 are in flight.
#[test]
fn one_loss() {
    sends(smart(), 12, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         200: 12",
    );
}

/// 2 shows the loss of 1, 4 that of 3: both are retransmitted in the same round trip, and the window is halved once.
/// With 2, 4, 5, 6, 7 arrived 3 of 8 are in flight when 9 is sent; 8: 10. 200: up to 2 acknowledged, 3, 9, 10 in
/// flight: 11. All 8: 9 to 11.
#[test]
fn two_losses() {
    sends(smart(), 12, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 3m 9 10
         200: 11 12",
    );
}

/// 200: 3, 5, 9 in flight: 10. Then 5, 9, 10: 11. Then 9, 10, 11: 12.
#[test]
fn three_losses() {
    sends(smart(), 12, |pair| pair.lose(&[(1, 1), (3, 1), (5, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 3m 5m 9
         200: 10 11 12",
    );
}

/// The first duplicate (5's) shows all four losses. With 8's, 4 are in flight.
#[test]
fn four_losses() {
    sends(smart(), 12, |pair| pair.lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 2m 3m 4m
         200: 9 10 11 12",
    );
}

/// The retransmission of 1 is lost. At 200, acknowledgments name 9 to 11, but 1 was retransmitted 100 ms ago, within
/// the round-trip time. At 300 that was 200 ms ago, so it is retransmitted again. The window was already halved in this
/// window of data.
#[test]
fn a_lost_retransmission_while_acknowledgments_come() {
    sends(smart(), 17, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         200: 12 13 14
         300: 1m 15 16 17",
    );
}

/// Without a round-trip time the sender cannot tell when a retransmission is overdue: "no detection of lost
/// retransmissions". The timer, restarted when 1 was retransmitted, repairs it.
#[test]
fn a_lost_retransmission_without_a_round_trip_time() {
    let mut pair = Pair::of(smart().with(|c| classic(c).smart_rtt = None)).lose(&[(1, 1), (1, 2)]);
    pair.send_segments(17);
    pair.finish();
    pair.expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         200: 12 13 14
         300: 15 16 17
         1100: 1t",
    );
}

/// Without further data no acknowledgment shows the loss of the retransmission: the timer expires one timeout after it
/// was sent.
#[test]
fn a_lost_retransmission_at_the_end() {
    sends(smart(), 11, |pair| pair.lose(&[(1, 1), (1, 2)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         1100: 1t",
    );
}

/// An acknowledgment names one segment only. If those of 2 to 7 are lost, 8's makes all segments below it look lost.
/// The first retransmission fills the hole; the others cause duplicates that name no outstanding segment.
#[test]
fn lost_acknowledgments_look_like_lost_segments() {
    sends(smart(), 12, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5, 6])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 2m 3m 4m 5m 6m 7m
         200: 9 10 11 12",
    );
}

#[test]
fn all_acknowledgments_lost() {
    sends(smart(), 10, |pair| pair.lose(&[(1, 1)]).lose_acks(&[1, 2, 3, 4, 5, 6, 7])).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         1100: 9 10",
    );
}

/// There is no reordering threshold: any reordered segment is declared lost.
#[test]
fn reordering() {
    sends(smart(), 12, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT)).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         110: 12",
    );
    // 1 arrives a millisecond after 2 to 8: 1 is retransmitted, and the halved window applies from then on. The
    // acknowledgment of all 8 arrives at 101.
    sends(smart(), 12, |pair| pair.treat(1, 1, Fate::Late(millis(1)))).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1m 9 10 11
         101: 12",
    );
}

/// No acknowledgment shows the loss of the last segment.
#[test]
fn a_lost_tail() {
    sends(smart(), 8, |pair| pair.lose(&[(8, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         1100: 8t",
    );
}

/// With a peer without SMART, such as a kernel, recovery is identical to NewReno's, instead of a timeout.
#[test]
fn a_peer_without_smart() {
    for losses in [&[(1, 1)][..], &[(1, 1), (3, 1), (5, 1)], &[(4, 1), (4, 2)], &[(8, 1)]] {
        let [with, without] = [ClassicRecovery::Smart, ClassicRecovery::NewReno].map(|recovery| {
            let client = smart().with(|c| classic(c).recovery = recovery);
            let mut pair = Pair::between(client, lab(Recovery::NEW_RENO)).lose(losses);
            pair.send_segments(30);
            pair.finish();
            assert_eq!(pair.ends[1].received(), 30_000);
            pair.story()
        });
        assert_eq!(with, without);
    }
}
