//! A modern sender and a peer without SACK, segment by segment: duplicates replace SACK reports (Linux
//! `tcp_add_reno_sack`, RFC 6582). Flights as in `golden_rack.rs`; acknowledgments are 52 bytes.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::tcp::config::{
    Clock, ControlRule, HystartRule, Preset, Recovery, RttRule, SenderConfig, Switch, TcpConfig, WindowReduction,
};
use lasthop_proto::time::Duration;

/// A first flight of 10, threshold 7 of 10.
fn cubic() -> TcpConfig {
    lab(Recovery::Rack).with(|c| {
        modern(c).congestion = ControlRule::cubic(HystartRule::Linux);
        c.common.mss = 948;
        modern(c).window_reduction = WindowReduction::Linux;
        c.common.timestamps = Switch::On;
        c.common.rtt_rule = RttRule::Linux;
        c.common.rto_min = millis(200);
        c.common.clock = Clock::Fine;
        c.common.initial_window = 10;
    })
}

fn sends_blindly(config: &TcpConfig, segments: u32, path: impl FnOnce(Pair) -> Pair) -> Pair {
    let peer = config.clone().with(|c| c.sender = SenderConfig::new(Preset::Rfc, Recovery::NEW_RENO));
    let mut pair = path(Pair::between(config.clone(), peer).with_time_per_byte(Duration::from_nanos(1000)));
    pair.connect();
    pair.send_segments(segments);
    pair.finish();
    assert_eq!(pair.ends[0].acked(), u64::from(segments * config.common.mss));
    assert!(pair.trace.iter().all(|sent| sent.segment.options.sack.is_empty()));
    pair
}

/// The duplicates of 2 and 3 send 11 and 12. That of 4 is the third: 1 is lost. The window is reduced as with SACK,
/// which carries no more information here.
#[test]
fn one_loss_of_ten() {
    let pair = sends_blindly(&cubic(), 18, |pair| pair.lose(&[(1, 1)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         102.052: 11
         103.052: 12
         104.052: 1s
         105.052: 13
         106.052: 14
         109.052: 15
         110.052: 16
         203.104: 17
         204.104: 18",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// 5's duplicate is the third. A round trip later, the acknowledgment of 1 alone shows that 2 is lost, and so on: one
/// per round trip, without a timeout.
#[test]
fn three_losses_of_ten() {
    let pair = sends_blindly(&cubic(), 10, |pair| pair.lose(&[(1, 1), (2, 1), (5, 1)]));
    pair.expect(
        "0: 1 2 3 4 5 6 7 8 9 10
         106.052: 1s
         207.104: 2s
         308.156: 5s",
    );
    assert_eq!(pair.timeouts(), 0);
}

/// The sender sends no probe, because its acknowledgment would carry no information: the timeout of srtt + 200 ms
/// repairs the tail.
#[test]
fn a_lost_tail() {
    let pair = sends_blindly(&cubic(), 10, |pair| pair.lose(&[(10, 1)]));
    assert_eq!(pair.timeouts(), 1);
    let last = pair.trace.iter().rfind(|sent| sent.len > 0).unwrap();
    assert_eq!((last.number, last.transmission), (10, 2));
}

/// RFC 6582 §4, first pitfall: three segments above a repaired hole arrived twice. Their duplicates acknowledge all of
/// the recovery, which lasts until data beyond it is acknowledged; they start no second recovery.
#[test]
fn duplicates_of_repairs_begin_no_recovery() {
    let pair = sends_blindly(&cubic(), 10, |pair| {
        let twice = |pair: Pair, number| pair.treat(number, 1, Fate::Twice);
        [4, 5, 6, 7].into_iter().fold(pair.lose(&[(1, 1)]), twice)
    });
    assert_eq!(pair.count_events(|event| matches!(event, Event::RecoveryEntered { .. })), 1);
    assert_eq!(pair.timeouts(), 0);
}

/// The configured congestion control stays in use.
#[test]
fn bbr_paces_without_sack() {
    let config = TcpConfig::preset(Preset::Linux618Bbr).with(|c| c.common.clock = Clock::Fine);
    let pair = sends_blindly(&config, 400, |pair| {
        pair.judged_by(|sent| match (sent.number % 40, sent.transmission) {
            (7, 1) => Fate::Lose,
            _ => Fate::Arrive,
        })
    });
    // 1460 bytes of payload and headers take 1.5 ms each: 0.6 s for 400 of them, plus some round trips of 100 ms.
    assert!(pair.now < ms(4000), "{}", pair.now);
}
