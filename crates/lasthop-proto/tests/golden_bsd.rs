//! 4.4BSD-Lite Reno (preset `bsd-lite`) segment by segment: the behaviour of its source, with each of its four quirks
//! on and off. The flight is 8 segments of 1000 bytes unless stated otherwise, the round-trip time 100 ms.

use crate::util::golden::{bsd, sends};
use crate::util::*;
use lasthop_proto::tcp::config::{
    ClassicRecovery, Clock, Deflation, DelayedAck, Growth, ImpureDuplicates, PartialDeflation, Preset, Recovery,
    RecoveryGuard, Switch, TcpConfig,
};

/// The third duplicate: `ssthresh` = ⌊8 / 2⌋, `cwnd` = 4 + 3, one segment is retransmitted and no other (`goto drop`).
/// The others make it 8, 9, 10, 11: 9, 10, 11. The acknowledgment of all 8 sets `cwnd` = 4 and then opens it as any
/// other: `cwnd` <= `ssthresh`, so 5 (12, 13). From there mss²/cwnd: 5200 (14), 5392 (15), 5577 (16); 5756 (17), 5929
/// (18), 6097 (19, 20), 6261 (21), 6420 (22).
#[test]
fn fast_retransmit_and_growth() {
    sends(bsd(Recovery::RENO, 8), 23, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15 16
         300: 17 18 19 20 21 22
         400: 23",
    );
}

/// Quirk 1: a further mss / 8 = 125 with each step above `ssthresh`: 5325 (14), 5637 (15), 5939 (16); 6232 (17, 18),
/// 6517 (19), 6795 (20), 7067 (21, 22), 7333 (23).
#[test]
fn quirk_1_an_eighth_more() {
    let config = bsd(Recovery::RENO, 8).with(|c| classic(c).growth = Growth::BsdLite);
    sends(config, 23, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10 11
         200: 12 13 14 15 16
         300: 17 18 19 20 21 22 23",
    );
}

/// Quirk 2: a flight of 4 makes exactly three duplicates: `ssthresh` 2, `cwnd` 5, which the acknowledgment does not
/// deflate: 5 + mss²/cwnd. Without the quirk `cwnd` = 2, opened to 3; then 3333 and 3633.
#[test]
fn quirk_2_no_deflation_after_three() {
    let config = bsd(Recovery::RENO, 4).with(|c| classic(c).deflation = Deflation::AboveThreshold);
    sends(config, 9, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4
         100: 1f
         200: 5 6 7 8 9",
    );
    sends(bsd(Recovery::RENO, 4), 9, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4
         100: 1f
         200: 5 6 7
         300: 8 9",
    );
    // With a fourth duplicate the quirk has no effect: `ssthresh` = ⌊5 / 2⌋ = 2, `cwnd` 5, 6 (one more: 6), then 2 + 1.
    let config = bsd(Recovery::RENO, 5).with(|c| classic(c).deflation = Deflation::AboveThreshold);
    sends(config, 8, |pair| pair.lose(&[(1, 1)])).expect(
        "0: 1 2 3 4 5
         100: 1f 6
         200: 7 8",
    );
}

/// Quirk 3: the peer's window is 8 segments; 7 duplicates inflate `cwnd` to 11 beyond it. The acknowledgment that ends
/// recovery finds `snd_nxt` = `snd_max`, the window unchanged and `cwnd` >= `snd_wnd`: the short path. `cwnd` stays 11,
/// so a whole window is sent; and the 7 duplicates stay counted, so the third from the next loss is the tenth: no fast
/// retransmit. The timer: samples of one tick make 3 ticks, restarted at 200 (350 ms into the run), on the 500 ms ticks
/// 500, 1000, 1500: 1350 by this clock.
#[test]
fn quirk_3_header_prediction() {
    let window = |header_prediction| {
        bsd(Recovery::RENO, 8).with(|c| {
            c.receiver.receive_buffer = 8000;
            classic(c).header_prediction = header_prediction;
        })
    };
    sends(window(Switch::On), 16, |pair| pair.lose(&[(1, 1), (9, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 9 10 11 12 13 14 15 16
         1350: 9t",
    );
    // Without the quirk: `cwnd` 4, opened to 5. Of 9 to 13 the first is lost, 10 to 12 make three duplicates.
    let unguarded = window(Switch::Off).with(|c| classic(c).recovery_guard = RecoveryGuard::None);
    sends(unguarded, 13, |pair| pair.lose(&[(1, 1), (9, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f
         200: 9 10 11 12 13
         300: 9f",
    );
}

/// In a window larger than `cwnd`, header prediction does not apply: every acknowledgment takes the long path.
#[test]
fn header_prediction_leaves_a_large_window_alone() {
    let story = |header_prediction| {
        let config = bsd(Recovery::RENO, 8).with(|c| classic(c).header_prediction = header_prediction);
        sends(config, 30, |pair| pair.lose(&[(1, 1), (12, 1)])).story()
    };
    assert_eq!(story(Switch::On), story(Switch::Off));
}

/// Quirk 4: flight 10, `ssthresh` 5, `cwnd` 8 to 13 (11, 12, 13). The acknowledgment up to 2 ends the recovery; 11 to
/// 13 make three duplicates of 3. With the guard the timer repairs 3: restarted at 200, see quirk 3.
#[test]
fn quirk_4_no_guard() {
    let config = bsd(Recovery::RENO, 10).with(|c| classic(c).recovery_guard = RecoveryGuard::None);
    sends(config, 13, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13
         200: 3f",
    );
    sends(bsd(Recovery::RENO, 10), 13, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         100: 1f 11 12 13
         1350: 3t",
    );
}

/// The preset has all four quirks, and the other settings that docs/models/presets.md lists.
#[test]
fn the_preset() {
    let bsd = TcpConfig::preset(Preset::BsdLite);
    let sender = bsd.sender.classic().unwrap();
    assert_eq!((sender.growth, sender.deflation), (Growth::BsdLite, Deflation::AboveThreshold));
    assert_eq!((sender.header_prediction, sender.recovery_guard), (Switch::On, RecoveryGuard::None));
    assert_eq!((bsd.receiver.ack_before_read, sender.impure_duplicates), (Switch::On, ImpureDuplicates::RestartCount));
    assert_eq!((sender.partial_deflation, sender.eln_inflation), (PartialDeflation::ToThreshold, Switch::On));
    assert_eq!((sender.recovery, bsd.receiver.delayed_ack), (ClassicRecovery::Reno, DelayedAck::WindowUpdate));
    assert_eq!(bsd.common.clock, Clock::Ticks { slow: millis(500), fast: millis(200) });
    assert_eq!((bsd.common.initial_window, bsd.common.initial_ssthresh, bsd.common.max_cwnd), (1, Some(65535), 65535));
    assert_eq!(
        (bsd.common.rto_initial, bsd.common.rto_min, bsd.common.rto_max),
        (millis(6000), millis(1000), millis(64000))
    );
}

/// NewReno and SACK use the same windows. NewReno: as in the RFC; `recover` = 8. Partial deflation: `cwnd` 10 - 2 + 1.
/// The full acknowledgment at 300 sets 4 and opens it to 5: 14, 15.
#[test]
fn newreno_on_bsd_windows() {
    let config = bsd(Recovery::NEW_RENO, 8);
    sends(config, 18, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 9 10
         200: 3p 11 12 13
         300: 14 15 16 17 18",
    );
    // Sack1 leaves recovery with `cwnd` = 4 (see golden_sack1.rs), which the same acknowledgment opens to 5 (12, 13),
    // then 5200 (14), and at 300 5392 (15), 5577 (16), 5756 (17).
    let config = bsd(Recovery::SACK, 8);
    sends(config, 17, |pair| pair.lose(&[(1, 1), (3, 1)])).expect(
        "0: 1 2 3 4 5 6 7 8
         100: 1f 3s 9
         200: 10 11 12 13 14
         300: 15 16 17",
    );
}

/// Slow start with delayed acknowledgments: one more segment per acknowledgment, not per segment. 40 ms each way, so
/// the first data leaves 120 ms into the run. 1 arrives at 160 and is acknowledged by the fast tick at 200: `cwnd` 2
/// at 120. 2 and 3 move the window by two segments: acknowledged at once, `cwnd` 3 at 200. 4 and 5 at once (`cwnd` 4
/// at 280: 7, 8, 9), 6 by the tick at 400 (`cwnd` 5 at 320: 10, 11).
#[test]
fn slow_start_under_delayed_acknowledgments() {
    let mut pair = Pair::of(TcpConfig::preset(Preset::BsdLite)).with_delay(millis(40));
    pair.send_segments(11);
    pair.finish();
    pair.expect(
        "0: 1
         120: 2 3
         200: 4 5 6
         280: 7 8 9
         320: 10 11",
    );
}

/// The sender's silly-window rule: with segments of 1400 a buffer of 8192 bytes carries 5 and one of 32768
/// carries 23, since the rest is neither a full segment, nor the last data when idle, nor half the largest window.
#[test]
fn buffers_carry_whole_segments() {
    for (buffer, segments) in [(8192, 5), (32 * 1024, 23)] {
        let config = TcpConfig::preset(Preset::BsdLite).with(|c| {
            c.common.send_buffer = buffer;
            c.receiver.receive_buffer = buffer;
        });
        let mut pair = Pair::of(config).with_delay(millis(40));
        pair.send_segments(400);
        pair.finish();
        let data = || pair.trace.iter().filter(|sent| sent.len > 0);
        assert!(data().all(|sent| sent.len == 1400));
        let acked_by = |at| {
            let mut arrived = pair.arrived.iter().rev().filter(|(time, side, _)| *time <= at && side.index() == 0);
            arrived.next().map_or(1, |(_, _, packet)| packet.tcp().unwrap().ack.0)
        };
        let under_way = data().map(|sent| (sent.seq + sent.len - acked_by(sent.at)) / 1400).max();
        assert_eq!(under_way, Some(segments), "{buffer}");
    }
}
