//! BBR version 1 on paths with one bottleneck.

use lasthop_proto::tcp::congestion::control::{Episode, Phase};
use lasthop_proto::tcp::congestion::{ControlRule, Start};
use lasthop_proto::time::{Duration, Instant};

use super::driver::{ms, start};
use super::path::{Path, Policer};

fn on(mbps: f64, rtt: u64, buffer: f64) -> Path {
    Path::new(ControlRule::BBR.build(&start()), mbps, ms(rtt), buffer)
}

/// A flow's sequence of phases, with the start time of each.
fn phases(path: &mut Path, span: Duration) -> Vec<(Instant, Phase)> {
    let until = path.now + span;
    let mut seen = vec![(path.now, path.phase())];
    while path.now < until {
        path.step();
        if path.phase() != seen.last().expect("one at least").1 {
            seen.push((path.now, path.phase()));
        }
    }
    seen
}

/// The first rate is one window per round-trip time, times 2/ln 2, less one percent.
#[test]
fn the_first_rate_is_the_window_in_a_round_trip() {
    let path = on(10.0, 100, 100.0);
    let rate = path.control.pacing().expect("paced").rate as f64;
    let expected = 10.0 * 1448.0 / 0.1 * 739.0 / 256.0 * 0.99;
    assert!((rate / expected - 1.0).abs() < 1e-3, "{rate} instead of {expected}");
    // Without a round-trip time, one millisecond is used.
    let control = ControlRule::BBR.build(&start());
    let rate = control.pacing().expect("paced").rate as f64;
    assert!((rate / (expected * 100.0) - 1.0).abs() < 1e-3, "{rate}");
}

#[test]
fn startup_finds_the_rate_and_leaves_a_full_pipe_after_three_rounds() {
    for (mbps, rtt) in [(1.0, 50), (10.0, 20), (50.0, 60), (100.0, 150)] {
        let mut path = on(mbps, rtt, 10_000.0);
        path.run_until(Duration::from_secs(20), |path| path.phase() == Phase::Drain);
        assert!((path.rate_ratio() - 1.0).abs() < 0.02, "{mbps} Mbps, {rtt} ms: {}", path.rate_ratio());
        let at = path.now.as_secs_f64() * 1000.0 / rtt as f64;
        // The rate doubles each round until it reaches the path's; then three rounds follow, stretched by a growing
        // queue.
        let rounds = (mbps * 1e6 / 8.0 / 1448.0 * rtt as f64 / 1000.0 / 10.0).log2().max(0.0);
        assert!(at > rounds + 3.0 && at < rounds + 18.0, "{mbps} Mbps, {rtt} ms: {at} round trips, {rounds} doublings");
    }
}

#[test]
fn drain_ends_when_the_queue_is_gone() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run_until(Duration::from_secs(5), |path| path.phase() == Phase::Drain);
    let queued = path.in_flight();
    // 2 BDP and more in flight.
    assert!(f64::from(queued) > 1.8 * path.rate * 0.05, "{queued}");
    path.run_until(Duration::from_secs(2), |path| path.phase() != Phase::Drain);
    let bdp = path.rate * 0.05;
    assert!(f64::from(path.in_flight()) <= bdp + 10.0, "{} of {bdp}", path.in_flight());
}

#[test]
fn probe_bw_cycles_through_eight_round_trips() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run(Duration::from_secs(3));
    let seen = phases(&mut path, Duration::from_secs(6));
    let ups: Vec<f64> = seen.iter().filter(|(_, phase)| *phase == Phase::Up).map(|(at, _)| at.as_secs_f64()).collect();
    assert!(ups.len() > 10, "{seen:?}");
    for pair in ups.windows(2) {
        let cycle = (pair[1] - pair[0]) / 0.05;
        // Up until there is a queue of a quarter, down until it is empty, six cruises.
        assert!((7.0..10.5).contains(&cycle), "{cycle} round trips");
    }
    for trio in seen.windows(2) {
        if trio[0].1 == Phase::Up {
            assert_eq!(trio[1].1, Phase::Down);
        }
    }
    assert!((path.rate_ratio() - 1.0).abs() < 0.02, "{}", path.rate_ratio());
    let rate = path.control.pacing().expect("paced").rate as f64 / path.model().rate as f64;
    let gain = match path.phase() {
        Phase::Up => 1.25,
        Phase::Down => 0.75,
        _ => 1.0,
    };
    assert!((rate / (0.99 * gain) - 1.0).abs() < 0.01, "{rate} in {:?}", path.phase());
}

/// The first phase is random: any but the one below the rate.
#[test]
fn the_first_phase_is_drawn() {
    let first = |seed| {
        let mut path = Path::new(ControlRule::BBR.build(&Start { seed, ..start() }), 20.0, ms(50), 1000.0);
        path.run_until(Duration::from_secs(5), |path| path.phase() == Phase::Drain);
        path.run_until(Duration::from_secs(5), |path| path.phase() != Phase::Drain);
        path.phase()
    };
    let drawn: Vec<Phase> = (0..40).map(first).collect();
    assert!(drawn.contains(&Phase::Up) && drawn.contains(&Phase::Cruise) && !drawn.contains(&Phase::Down), "{drawn:?}");
    assert_eq!(drawn, (0..40).map(first).collect::<Vec<_>>());
}

#[test]
fn probe_rtt_comes_every_ten_seconds_and_restores_the_window() {
    let mut path = on(20.0, 50, 10_000.0);
    let mut at = Vec::new();
    for _ in 0..3 {
        path.run_until(Duration::from_secs(12), |path| path.phase() == Phase::ProbeRtt);
        at.push(path.now.as_secs_f64());
        assert_eq!(path.control.window(), 4);
        let entered = path.now;
        path.run_until(Duration::from_secs(1), |path| path.phase() != Phase::ProbeRtt);
        // The data in flight drains for at most a round trip, then 200 ms and a round follow.
        let lasted = path.now.since(entered);
        assert!(lasted >= ms(200) && lasted <= ms(350), "{lasted}");
        let bdp = path.rate * 0.05;
        assert!(f64::from(path.control.window()) > 1.5 * bdp, "{} of {bdp}", path.control.window());
    }
    // Ten seconds after the last minimum of the round-trip time, the next one ten after the end of the last.
    assert!(at[1] - at[0] > 10.0 && at[1] - at[0] < 10.6, "{at:?}");
    assert!(at[2] - at[1] > 10.0 && at[2] - at[1] < 10.6, "{at:?}");
}

/// At a random loss rate of p the rate stays near (1 - p) of the path's, up to 1.25 (1 - p) = 1: 20 %.
#[test]
fn random_loss_costs_no_more_than_itself() {
    for (loss, least) in [(0.0, 0.95), (0.01, 0.93), (0.03, 0.90), (0.1, 0.80)] {
        let mut path = on(20.0, 50, 100.0);
        path.loss = loss;
        path.run(Duration::from_secs(5));
        let share = path.share(Duration::from_secs(30));
        assert!(share > least && share <= 1.0, "{loss}: {share}");
    }
}

#[test]
fn the_window_before_recovery_comes_back_after_it() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run(Duration::from_secs(3));
    path.run_until(Duration::from_secs(2), |path| path.phase() == Phase::Cruise);
    let before = path.control.window();
    path.loss = 1.0;
    path.run(ms(5));
    path.loss = 0.0;
    path.run(ms(300));
    assert!(path.control.window().abs_diff(before) <= 4, "{} instead of {before}", path.control.window());
}

#[test]
fn a_timeout_does_not_forget_the_path() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run(Duration::from_secs(3));
    let before = path.control.window();
    path.loss = 1.0;
    path.run(ms(400));
    path.loss = 0.0;
    path.run(Duration::from_secs(1));
    assert!(path.control.window().abs_diff(before) <= 8, "{} instead of {before}", path.control.window());
    assert!((path.rate_ratio() - 1.0).abs() < 0.05, "{}", path.rate_ratio());
}

/// A policer lets a burst pass and drops the traffic above 5 Mbps on a path of 20. After two intervals with a fifth
/// lost at the same rate, BBR sends at that rate, with hardly any loss.
#[test]
fn a_policer_is_recognised() {
    let mut path = on(20.0, 40, 1000.0);
    let rate = 5e6 / 8.0 / 1448.0;
    path.policer = Some(Policer { rate, burst: 150.0, tokens: 150.0, at: Instant::ZERO });
    path.run(Duration::from_secs(4));
    let (lost, sent) = (path.lost, path.sent);
    path.run(Duration::from_secs(1));
    let share = path.model().rate as f64 / (rate * 1448.0);
    assert!((0.9..1.1).contains(&share), "{share} of the policer's rate");
    let lost = (path.lost - lost) as f64 / (path.sent - sent) as f64;
    assert!(lost < 0.1, "{lost} lost");
}

#[test]
fn the_window_is_never_below_four_on_a_slow_path() {
    let mut path = on(0.1, 20, 100.0);
    path.run(Duration::from_secs(30));
    assert!(path.control.window() >= 4);
    assert!((path.rate_ratio() - 1.0).abs() < 0.05, "{}", path.rate_ratio());
    let share = path.share(Duration::from_secs(30));
    assert!(share > 0.95, "{share}");
}

#[test]
fn a_rate_ten_times_higher_is_found_and_ten_times_lower_too() {
    let mut path = on(10.0, 40, 10_000.0);
    path.run(Duration::from_secs(4));
    path.set_mbps(100.0);
    // 1.25 a cycle: log(10)/log(1.25) = 10.3 cycles of 8 round trips.
    path.run(Duration::from_secs(6));
    assert!((path.rate_ratio() - 1.0).abs() < 0.02, "{}", path.rate_ratio());
    path.set_mbps(10.0);
    path.run(Duration::from_secs(12));
    assert!((path.rate_ratio() - 1.0).abs() < 0.02, "{}", path.rate_ratio());
}

/// Acknowledgments in bunches of 20 ms, as with a radio's time slots: the window allows for them, without a stall.
#[test]
fn bunched_acknowledgments_do_not_stall_it() {
    let mut path = on(20.0, 20, 10_000.0);
    path.slot = ms(20);
    path.run(Duration::from_secs(4));
    let share = path.share(Duration::from_secs(5));
    assert!(share > 0.95, "{share}");
}

#[test]
fn idleness_spares_probe_rtt() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run(Duration::from_secs(3));
    path.app = Some(0.0);
    path.run(Duration::from_secs(12));
    assert_eq!(path.in_flight(), 0);
    // The first segments after the idle time measure the expired minimum: no window of four is needed.
    path.app = None;
    let seen = phases(&mut path, Duration::from_secs(3));
    assert!(seen.iter().all(|(_, phase)| *phase != Phase::ProbeRtt), "{seen:?}");
}

#[test]
fn an_undone_recovery_keeps_the_window() {
    let mut path = on(20.0, 50, 10_000.0);
    path.run(Duration::from_secs(3));
    let before = path.control.window();
    path.control.on_episode(path.now, Episode::Undone);
    assert_eq!(path.control.window(), before);
    assert!(path.control.governs_recovery());
}
