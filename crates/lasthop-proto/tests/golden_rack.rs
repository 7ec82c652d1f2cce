//! RACK-TLP segment by segment, with Linux's rules: a first flight of 10, and a timeout of srtt + 200 ms. In tests with
//! a serialization delay, segments are 1000 bytes on the wire and take 1 ms: the SACK of the k-th of the first flight
//! is 64 bytes and arrives at 100.064 + k. Otherwise events are 100 ms apart, as in the other golden tests.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::{Event, Spurious};
use lasthop_proto::packet::{Body, Cause, Flags, SackBlock, Side};
use lasthop_proto::tcp::config::{
    Clock, ControlRule, HystartRule, Recovery, RttRule, SendAutotune, Switch, TcpConfig, WindowReduction,
};
use lasthop_proto::time::Duration;

fn reno() -> TcpConfig {
    lab(Recovery::Rack).with(|c| {
        modern(c).congestion = ControlRule::RENO;
        modern(c).window_reduction = WindowReduction::Linux;
        c.common.timestamps = Switch::On;
        c.common.rtt_rule = RttRule::Linux;
        c.common.rto_min = millis(200);
        c.common.clock = Clock::Fine;
        c.common.initial_window = 10;
    })
}

/// Threshold 7 of 10: 10 * 717 / 1024.
fn cubic() -> TcpConfig {
    reno().with(|c| {
        modern(c).congestion = ControlRule::cubic(HystartRule::Linux);
        c.common.mss = 948;
    })
}

fn wire(pair: Pair) -> Pair {
    pair.with_time_per_byte(Duration::from_nanos(1000))
}

fn undone(pair: &Pair, why: Spurious) -> usize {
    pair.count_events(|event| *event == Event::Undone { why })
}

/// The SACKs of 2 and 3 send 11 and 12. That of 4 is the third: no wait, 1 is lost. PRR: 8 in flight above 7, so
/// ceil(7 * d / 10) may have been sent when d are delivered: 1 for 4's, 2 for 5's, 3 for 6's, still 3 for 7's. With
/// 8's 7 are in flight, the threshold; 9's and 10's, and those of 11 and 12 a round trip later, send one each.
#[test]
fn one_loss_of_ten() {
    let pair = sends(cubic(), 18, |pair| wire(pair).lose(&[(1, 1)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         102.064: 11
         103.064: 12
         104.064: 1s
         105.064: 13
         106.064: 14
         109.064: 15
         110.064: 16
         203.128: 17
         204.128: 18",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// 5's SACK is the third: 5 are in flight, the threshold; the first retransmission is sent regardless. 6's reduces that
/// to 5 again; 7's leaves 4, so 2 can be sent.
#[test]
fn two_losses_of_ten() {
    sends(reno().with(|c| c.common.mss = 948), 10, |pair| wire(pair).lose(&[(1, 1), (2, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         105.064: 1s
         107.064: 2s",
    );
}

/// 7's SACK is the third and shows all four losses: 3 in flight, below the threshold of 5. Segment conservation: one
/// segment out for each SACK.
#[test]
fn four_losses_of_ten() {
    sends(reno().with(|c| c.common.mss = 948), 10, |pair| wire(pair).lose(&[(1, 1), (2, 1), (3, 1), (4, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         107.064: 1s
         108.064: 2s
         109.064: 3s
         110.064: 4s",
    );
}

/// As with one loss, but the retransmission of 104.064 is lost too. 13 left after it, and its SACK shows the loss: no
/// timeout.
#[test]
fn a_lost_retransmission() {
    let pair = sends(cubic(), 18, |pair| wire(pair).lose(&[(1, 1), (1, 2)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         102.064: 11
         103.064: 12
         104.064: 1s
         105.064: 13
         106.064: 14
         109.064: 15
         110.064: 16
         203.128: 17
         204.128: 18
         206.128: 1s",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// One segment is outstanding, so the probe would wait 2 srtt + 200 ms; the timeout of 300 ms after the last
/// acknowledgment is earlier, and a probe is sent in its place.
#[test]
fn a_lost_tail_of_one() {
    let pair = sends(reno(), 10, |pair| pair.lose(&[(10, 1)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         400: 10b",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// 2 srtt after the last acknowledgment the last segment is retransmitted. Its SACK shows that 9, sent 400 ms ago, is
/// lost.
#[test]
fn a_lost_tail_of_two() {
    let pair = sends(reno(), 10, |pair| pair.lose(&[(9, 1), (10, 1)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         300: 10b
         400: 9s",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// One probe only: the timeout runs from it. 9 is retransmitted, and its acknowledgment sends 10.
#[test]
fn a_lost_probe() {
    let pair = sends(reno(), 10, |pair| pair.lose(&[(9, 1), (10, 1), (10, 2)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         300: 10b
         600: 9t
         700: 10t",
    );
    assert_eq!(pair.timeouts(), 1);
}

#[test]
fn without_probes_the_timeout_comes() {
    sends(reno().with(|c| modern(c).tlp = Switch::Off), 10, |pair| pair.lose(&[(10, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         400: 10t",
    );
}

/// 1 arrives 10 ms late, and was retransmitted: the acknowledgment of all ten echoes the timestamp of the first
/// transmission. The window is 10 again, and grows by one; 11 to 14 are in flight.
#[test]
fn a_late_segment_is_undone_by_timestamps() {
    let pair = sends(reno(), 20, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 11 12 1s 13 14
         110: 15 16 17 18 19 20",
    );
    assert_eq!(undone(&pair, Spurious::Timestamps), 1);
    let pair = sends(reno().with(|c| modern(c).undo = Switch::Off), 20, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT));
    assert_eq!(undone(&pair, Spurious::Timestamps), 0);
}

/// The network reordered segments and lost none. The sender remembers that (Linux `tcp_check_sack_reordering`),
/// although the acknowledgment that showed it left no SACK block standing. 15, as late, is given a quarter of the
/// round-trip time, 25 ms.
#[test]
fn after_a_late_segment_the_next_one_is_waited_for() {
    let pair = sends(reno(), 24, |pair| pair.treat(1, 1, LATE_BY_A_FLIGHT).treat(15, 1, LATE_BY_A_FLIGHT));
    let again: Vec<_> = pair.sent_by(Side::Initiator).filter(|sent| sent.cause == Cause::SackHole).collect();
    assert_eq!(again.iter().map(|sent| (sent.seq - 1) / 1000 + 1).collect::<Vec<_>>(), [1]);
    assert_eq!(undone(&pair, Spurious::Timestamps), 1);
}

/// Without timestamps the peer's report of a duplicate of 1 reverts the reduction, even after the end of recovery.
#[test]
fn a_late_segment_is_undone_by_a_duplicate_sack() {
    let config = reno().with(|c| c.common.timestamps = Switch::Off);
    let mut pair = Pair::of(config).treat(1, 1, LATE_BY_A_FLIGHT);
    pair.send_segments(14);
    pair.finish();
    assert_eq!(undone(&pair, Spurious::Duplicates), 0);
    let (reduced, _) = pair.client().window();
    let mut packet = pair.forge(Side::Initiator, Flags::ACK, 1, 14_001, 0);
    let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
    let left = pair.iss[0] + 1;
    segment.options.sack.push(SackBlock { left, right: left + 1000 });
    pair.inject(Side::Initiator, packet);
    assert_eq!(undone(&pair, Spurious::Duplicates), 1);
    let (window, ssthresh) = pair.client().window();
    assert!(window >= 10_000 && window > reduced, "{window} after {reduced}");
    assert_eq!(ssthresh, u32::MAX, "there was none");
}

/// The path stalls until 600. The probe is new data (11). The timeout runs 300 ms from there; 1 is retransmitted. At
/// 700 the acknowledgment of the first 1 echoes its timestamp: nothing was lost. Each of eleven acknowledgments sends
/// two.
#[test]
fn a_stall_is_no_loss() {
    let stall = |sent: &Sent| {
        let until = ms(750);
        if sent.len > 0 && sent.at < until { Fate::Late(until.since(sent.at)) } else { Fate::Arrive }
    };
    let expected = "0: 1 2 3 4 5 6 7 8 9 10
         200: 11
         500: 1t
         700: 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30";
    let pair = sends(reno(), 30, |pair| pair.judged_by(stall));
    pair.expect(expected);
    assert_eq!((pair.timeouts(), undone(&pair, Spurious::Timestamps)), (1, 1));
    // Without timestamps the acknowledgment of 2, which was sent once, shows it.
    let pair = sends(reno().with(|c| c.common.timestamps = Switch::Off), 30, |pair| pair.judged_by(stall));
    pair.expect(expected);
    assert_eq!((pair.timeouts(), undone(&pair, Spurious::Frto)), (1, 1));
    let neither = reno().with(|c| {
        c.common.timestamps = Switch::Off;
        modern(c).frto = Switch::Off;
    });
    assert_eq!(undone(&sends(neither, 30, |pair| pair.judged_by(stall)), Spurious::Frto), 0);
}

/// The first of 60 segments is lost, and so is every retransmission but the last. The send buffer limits the data sent
/// meanwhile: two windows of 10 segments are 46,080 bytes of memory, which 32 segments of 1,448 bytes fill. A buffer of
/// fixed size allows more.
#[test]
fn a_buffer_that_tunes_itself_holds_data_back_in_a_long_recovery() {
    let ahead = |send_autotune| {
        let config = cubic().with(|c| {
            c.common.mss = 1448;
            modern(c).send_autotune = send_autotune;
            c.common.send_buffer = 4 << 20;
        });
        let lost: Vec<_> = (1..=12).map(|transmission| (1, transmission)).collect();
        let pair = sends(config, 60, |pair| wire(pair).lose(&lost));
        let data: Vec<_> = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).collect();
        let last_of_first = data.iter().filter(|sent| sent.seq == 1).map(|sent| sent.at).max().unwrap();
        data.iter().filter(|sent| sent.at < last_of_first).map(|sent| (sent.seq + sent.len - 1) / 1448).max().unwrap()
    };
    assert_eq!(ahead(SendAutotune::Linux), 32);
    assert!(ahead(SendAutotune::Off) > 32);
}
