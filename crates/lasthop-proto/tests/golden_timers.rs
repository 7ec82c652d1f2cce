//! The retransmission timer, and the windows at the start and after a pause: RFC 6298, RFC 6928, RFC 5681 §4.1, and
//! 4.4BSD's ticks.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::packet::Side;
use lasthop_proto::tcp::config::{DelayedAck, Preset, Recovery, RttRule, Switch, TcpConfig};

fn run(mut pair: Pair, segments: u32) -> Pair {
    pair.send_segments(segments);
    pair.finish();
    pair
}

/// A pair with an initial window of one segment, 400 ms each way.
fn slow_path(timestamps: Switch) -> Pair {
    let config = lab_with_window(Recovery::NEW_RENO, 1).with(|c| c.common.timestamps = timestamps);
    Pair::of(config).with_delay(millis(400))
}

/// RFC 6298 §2.2: the handshake took R = 800: SRTT = 800, RTTVAR = 400, RTO = 800 + 4·400 = 2400. §5.5: doubled with
/// each timeout. Karn (§3): the acknowledgment of the retransmission at 8000 is no sample, so 2 starts with the
/// backed-off value, 9600.
#[test]
fn karns_rule() {
    run(slow_path(Switch::Off).lose(&[(1, 1), (1, 2), (2, 1)]), 2).expect(
        "0: 1
         2400: 1t
         7200: 1t
         8000: 2
         17600: 2t",
    );
}

/// With timestamps the acknowledgment of the retransmission is a sample (RFC 6298 §3): §2.3: RTTVAR = 3/4·400, SRTT =
/// 800, RTO = 800 + 4·300 = 2000. It replaces the backed-off value (§5, note after 5.7).
#[test]
fn timestamps_make_karns_rule_needless() {
    run(slow_path(Switch::On).lose(&[(1, 1), (1, 2), (2, 1)]), 2).expect(
        "0: 1
         2400: 1t
         7200: 1t
         8000: 2
         10000: 2t",
    );
}

/// The handshake and the acknowledgments of 1 and 2 are samples of 800 each: RTTVAR = 400, 300, 225. The last one, at
/// 1600, restarts the timer (§5.3), with RTO = 800 + 4·225 = 1700.
#[test]
fn steady_samples_tighten_the_timeout() {
    run(slow_path(Switch::Off).lose(&[(3, 1)]), 3).expect(
        "0: 1
         800: 2 3
         3300: 3t",
    );
}

/// §2.4: at least one second, although SRTT + 4·RTTVAR is 300. §2.5: at most sixty seconds.
#[test]
fn bounds() {
    let config = lab(Recovery::NEW_RENO).with(|c| c.common.max_retries = 8);
    let pair = Pair::of(config).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    run(pair, 1).expect(
        "0: 1
         1000: 1t
         3000: 1t
         7000: 1t
         15000: 1t
         31000: 1t
         63000: 1t
         123000: 1t
         183000: 1t",
    );
}

/// 4.4BSD: a sample of one tick makes 3 ticks of 500 ms. The first data leaves 150 ms into the run: ticks at 500,
/// 1000, 1500. Each timeout doubles it, up to a factor of 64 and 128 ticks; after twelve tries the connection is
/// dropped.
#[test]
fn bsd_ticks() {
    let pair = Pair::of(TcpConfig::preset(Preset::BsdLite).with(|c| c.common.mss = 1000))
        .judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    let pair = run(pair, 1);
    let tries: Vec<_> = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).map(|sent| sent.at).collect();
    let mut expected = vec![ms(150), ms(1500)];
    for ticks in [6, 12, 24, 48, 96, 128, 128, 128, 128, 128, 128] {
        expected.push(*expected.last().unwrap() + millis(500) * ticks);
    }
    assert_eq!(tries, expected);
    let aborted = pair.events.iter().find(|(_, _, event)| *event == Event::Aborted).unwrap();
    assert_eq!(aborted.0, *expected.last().unwrap() + millis(64_000));
}

/// "Real timeouts come after 1.0-1.5 s": 3 ticks, the first of which is shortened by the phase.
#[test]
fn a_bsd_timeout_takes_two_to_three_ticks() {
    for (start, timeout) in [(0, 1500), (1, 1499), (250, 1250), (499, 1001), (500, 1500)] {
        let config = TcpConfig::preset(Preset::BsdLite).with(|c| c.common.mss = 1000);
        let mut pair = Pair::of(config).lose(&[(1, 1)]);
        pair.connect();
        pair.run_until(ms(1000 + start));
        pair.client().write(1000);
        pair.finish();
        pair.expect(&format!("0: 1\n{timeout}: 1t"));
    }
}

fn first_flight(config: TcpConfig) -> usize {
    let mut pair = Pair::of(config);
    pair.send_segments(100);
    pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).count()
}

/// 4.4BSD 1; ns-2's `windowInit_` 2 as in the second study; RFC 6928 §2: min(10·MSS, max(2·MSS, 14600)).
#[test]
fn initial_windows() {
    assert_eq!(first_flight(TcpConfig::preset(Preset::BsdLite)), 1);
    assert_eq!(first_flight(TcpConfig::preset(Preset::Ns2)), 2);
    assert_eq!(first_flight(TcpConfig::preset(Preset::Rfc)), 10);
    assert_eq!(first_flight(TcpConfig::preset(Preset::Rfc).with(|c| c.common.mss = 536)), 10);
    assert_eq!(first_flight(TcpConfig::preset(Preset::Rfc).with(|c| c.common.mss = 2000)), 7);
    assert_eq!(first_flight(TcpConfig::preset(Preset::Rfc).with(|c| c.common.mss = 8960)), 2);
}

/// Slow start (RFC 5681 §3.1): one segment more per acknowledgment, so 1, 2, 4, 8 when each segment is acknowledged.
#[test]
fn slow_start() {
    let config = lab_with_window(Recovery::NEW_RENO, 1).with(|c| c.common.initial_ssthresh = Some(u32::MAX));
    run(Pair::of(config.clone()), 15).expect(
        "0: 1
         100: 2 3
         200: 4 5 6 7
         300: 8 9 10 11 12 13 14 15",
    );
    // One acknowledgment of two segments counts as one (equation 2: min(N, SMSS)). That of a single segment is 200 ms
    // late.
    let config = config.with(|c| c.receiver.delayed_ack = DelayedAck::EverySecond { timeout: millis(200) });
    run(Pair::of(config), 12).expect(
        "0: 1
         300: 2 3
         400: 4 5 6
         500: 7 8 9
         600: 10 11 12",
    );
}

/// RFC 5681 §3.1: from `ssthresh` on, one segment more per `cwnd` acknowledged.
#[test]
fn congestion_avoidance() {
    run(Pair::of(lab_with_window(Recovery::NEW_RENO, 3)), 18).expect(
        "0: 1 2 3
         100: 4 5 6 7
         200: 8 9 10 11 12
         300: 13 14 15 16 17 18",
    );
}

/// RFC 5681 §4.1: after more than a timeout without a transmission, the restart window is min(IW, cwnd). 30 segments
/// from a window of 8 make it 11 (8 + 9 + 10 acknowledged). 4.4BSD restarts with one segment.
#[test]
fn idle_restart() {
    let flight_after = |config: TcpConfig, pause: u64| {
        let mut pair = Pair::of(config);
        pair.send_segments(30);
        pair.finish();
        let last = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).last().unwrap().at;
        pair.run_until(last + millis(pause));
        pair.forget();
        pair.client().write(30_000);
        pair.flush();
        pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).count()
    };
    let on = lab(Recovery::NEW_RENO);
    let off = on.clone().with(|c| c.common.idle_restart = Switch::Off);
    assert_eq!(flight_after(on.clone(), 999), 11);
    assert_eq!(flight_after(on, 1001), 8);
    assert_eq!(flight_after(off, 100_000), 11);
    let bsd = TcpConfig::preset(Preset::BsdLite).with(|c| {
        c.common.mss = 1000;
        c.common.send_buffer = 60_000;
        c.receiver.receive_buffer = 60_000;
    });
    assert_eq!(flight_after(bsd, 10_000), 1);
}

/// RFC 5681 §3.1: `ssthresh` "is held constant" when a retransmission times out again: half of 8, not of less.
#[test]
fn ssthresh_is_set_once_per_segment() {
    let pair = Pair::of(lab(Recovery::NEW_RENO)).lose(&[(1, 1), (1, 2)]).lose_acks(&[1, 2, 3, 4, 5, 6, 7]);
    run(pair, 30).expect(
        "0: 1 2 3 4 5 6 7 8
         1000: 1t
         3000: 1t
         3100: 9 10
         3200: 11 12 13 14
         3300: 15 16 17 18 19
         3400: 20 21 22 23 24 25
         3500: 26 27 28 29 30",
    );
}

/// RFC 6298 §5.2 and §5.3: the timer stops when all data is acknowledged and restarts with every new acknowledgment.
#[test]
fn the_timer_restarts_with_progress() {
    // 2 is lost; 1's acknowledgment at 100 restarts the timer.
    run(Pair::of(lab_with_window(Recovery::NEW_RENO, 2)).lose(&[(2, 1)]), 2).expect("0: 1 2\n1100: 2t");
    let pair = run(Pair::of(lab_with_window(Recovery::NEW_RENO, 2)), 2);
    assert_eq!(pair.timeouts(), 0);
}

/// The presets select the rules.
#[test]
fn presets() {
    let rule = |preset| TcpConfig::preset(preset).common.rtt_rule;
    assert_eq!(
        [rule(Preset::BsdLite), rule(Preset::Ns2), rule(Preset::Rfc)],
        [RttRule::Bsd, RttRule::Ns2, RttRule::Rfc6298]
    );
    let initial = |preset| TcpConfig::preset(preset).common.rto_initial;
    assert_eq!(
        [initial(Preset::BsdLite), initial(Preset::Ns2), initial(Preset::Rfc)],
        [millis(6000), millis(3000), millis(1000)]
    );
}
