//! Reno and CUBIC, step by step.

use lasthop_proto::tcp::congestion::control::{CaState, Episode, Reduction};
use lasthop_proto::tcp::congestion::{ControlRule, HystartRule, Start};
use lasthop_proto::time::Duration;

use super::driver::{Driver, ms, start};

const CUBIC: ControlRule = ControlRule::cubic(HystartRule::Off);
const CUBIC_9438: ControlRule = ControlRule::cubic_rfc9438(HystartRule::Off);

#[test]
fn slow_start_counts_segments_not_acknowledgments() {
    for rule in [ControlRule::RENO, CUBIC, CUBIC_9438] {
        let mut driver = Driver::new(rule);
        driver.pass(ms(100));
        for _ in 0..5 {
            driver.ack(2);
        }
        assert_eq!((driver.window(), driver.ssthresh()), (20, u32::MAX), "{rule:?}");
    }
}

#[test]
fn reno_grows_by_one_for_each_window_delivered() {
    let mut driver = Driver::new(ControlRule::RENO);
    driver.lose();
    // Half of ten; slow start ends exactly at the threshold.
    assert_eq!((driver.window(), driver.ssthresh()), (5, 5));
    driver.pass(ms(100));
    driver.ack(4);
    assert_eq!(driver.window(), 5);
    driver.ack(1);
    assert_eq!(driver.window(), 6);
    driver.ack(6);
    assert_eq!(driver.window(), 7);
    // A stretch acknowledgment of two windows counts as two steps at the rate of this window.
    driver.ack(7);
    driver.ack(8);
    assert_eq!(driver.window(), 9);
}

#[test]
fn slow_start_hands_on_what_it_does_not_use() {
    let mut driver = Driver::new(ControlRule::RENO);
    driver.lose();
    driver.control.set_window(4);
    driver.fill();
    // Threshold 5: one of four ends slow start, three are credit; two more complete the window's five.
    driver.ack(4);
    assert_eq!(driver.window(), 5);
    driver.ack(2);
    assert_eq!(driver.window(), 6);
}

#[test]
fn thresholds_are_never_below_two() {
    for rule in [ControlRule::RENO, CUBIC, CUBIC_9438] {
        let mut driver = Driver::new(rule);
        driver.control.set_window(1);
        driver.lose();
        assert_eq!((driver.window(), driver.ssthresh()), (2, 2), "{rule:?}");
    }
}

#[test]
fn windows_that_are_reduced_do_not_grow() {
    for rule in [ControlRule::RENO, CUBIC, CUBIC_9438] {
        for state in [CaState::Cwr, CaState::Recovery] {
            let mut driver = Driver::new(rule);
            driver.state = state;
            driver.ack(10);
            assert_eq!(driver.window(), 10, "{rule:?}");
        }
        let mut driver = Driver::new(rule);
        driver.state = CaState::Loss;
        driver.ack(10);
        assert_eq!(driver.window(), 20, "{rule:?}");
    }
}

#[test]
fn undoing_restores_window_and_threshold() {
    for (rule, reduced) in [(ControlRule::RENO, 20), (CUBIC, 28), (CUBIC_9438, 28)] {
        let mut driver = Driver::new(rule);
        driver.control.set_window(40);
        driver.lose();
        driver.tell(Episode::Undone);
        assert_eq!((driver.window(), driver.ssthresh()), (40, u32::MAX), "{rule:?}: the first threshold was infinite");
        driver.lose();
        driver.lose();
        driver.tell(Episode::Undone);
        assert_eq!((driver.window(), driver.ssthresh()), (reduced, reduced), "{rule:?}");
    }
}

#[test]
fn marks_are_not_undone() {
    for rule in [ControlRule::RENO, CUBIC, CUBIC_9438] {
        let mut driver = Driver::new(rule);
        driver.control.set_window(40);
        driver.tell(Episode::Reduce(Reduction::Ecn));
        let reduced = driver.ssthresh();
        driver.control.set_window(reduced);
        driver.tell(Episode::Undone);
        assert_eq!((driver.window(), driver.ssthresh()), (reduced, reduced), "{rule:?}");
    }
}

#[test]
fn a_second_timeout_keeps_the_threshold() {
    for (rule, threshold) in [(ControlRule::RENO, 5), (CUBIC, 7), (CUBIC_9438, 7)] {
        let mut driver = Driver::new(rule);
        driver.time_out(false);
        assert_eq!((driver.window(), driver.ssthresh()), (1, threshold), "{rule:?}");
        driver.time_out(true);
        assert_eq!((driver.window(), driver.ssthresh()), (1, threshold), "{rule:?}");
    }
}

#[test]
fn idleness_halves_once_for_each_timeout_beyond_the_first() {
    let after = |rule, idle| {
        let mut driver = Driver::new(rule);
        driver.control.set_window(100);
        driver.tell(Episode::IdleRestart { idle: ms(idle), rto: ms(200) });
        (driver.window(), driver.ssthresh())
    };
    // 201 ms are slightly more than one timeout, 401 ms more than two.
    for rule in [ControlRule::RENO, CUBIC] {
        assert_eq!(after(rule, 200), (100, u32::MAX));
        assert_eq!(after(rule, 201), (50, u32::MAX));
        assert_eq!(after(rule, 401), (25, u32::MAX));
        assert_eq!(after(rule, 601), (12, u32::MAX));
        assert_eq!(after(rule, 60_000), (10, u32::MAX), "not below the initial window");
    }
    // RFC 5681 §4.1 has no halving.
    assert_eq!(after(CUBIC_9438, 201).0, 10);
    // The threshold keeps three quarters of the former window.
    let mut driver = Driver::new(ControlRule::RENO);
    driver.control.set_window(100);
    driver.lose();
    driver.control.set_window(80);
    driver.tell(Episode::IdleRestart { idle: ms(900), rto: ms(200) });
    assert_eq!((driver.window(), driver.ssthresh()), (10, 60));
}

#[test]
fn half_of_what_is_not_used_goes() {
    let mut driver = Driver::new(ControlRule::RENO);
    driver.control.set_window(100);
    driver.tell(Episode::Unused { used: 4 });
    // The initial window counts as used: (100 + 10) / 2.
    assert_eq!(driver.window(), 55);
    driver.tell(Episode::Unused { used: 60 });
    assert_eq!(driver.window(), 55);
}

/// Packetdrill's `cubic-rto-ss-ca-cwnd-bump`, restated: round-trip time 100 ms; a timeout with a window of 10.
/// Threshold 10 * 717 / 1024 = 7. Slow start from 2 to 7. Without a remembered maximum, growth is then one segment for
/// 20, until Reno's window is one ahead: once more than 7 * 15 / 8 = 13 are delivered. That is checked at most every
/// 1/32 s, so the 14th and 15th segment, close behind the others, change nothing and the 16th makes the window 8.
#[test]
fn linux_cubic_after_a_timeout() {
    let mut driver = Driver::new(CUBIC);
    driver.pass(ms(200));
    driver.time_out(false);
    driver.pass(ms(100));
    driver.state = CaState::Loss;
    driver.ack(1);
    assert_eq!((driver.window(), driver.ssthresh()), (2, 7));
    driver.state = CaState::Open;
    for (wait, window) in [(100, 3), (2, 4), (98, 5), (2, 6), (2, 7)] {
        driver.pass(ms(wait));
        driver.ack(1);
        assert_eq!(driver.window(), window);
    }
    for wait in [2, 98, 2, 2, 2, 2, 2, 2, 98, 3, 2, 2, 2, 2, 2] {
        driver.pass(ms(wait));
        driver.ack(1);
        assert_eq!(driver.window(), 7);
    }
    driver.pass(ms(98));
    driver.ack(1);
    assert_eq!(driver.window(), 8);
}

/// Without a maximum, growth is at least one segment for 20 delivered: with a threshold above 40, where Reno's counter
/// steps once in 75 segments, the window grows by one after 20.
#[test]
fn linux_cubic_without_a_maximum_grows_five_percent_a_round() {
    let mut driver = Driver::new(CUBIC);
    driver.control.set_window(57);
    driver.time_out(false);
    driver.control.set_window(39);
    driver.fill();
    driver.pass(ms(100));
    for _ in 0..19 {
        driver.ack(1);
    }
    assert_eq!(driver.window(), 39);
    driver.ack(1);
    assert_eq!(driver.window(), 40);
}

/// RFC 9438 §4.2 with C = 0.4 and β = 0.7: from W_max 2304 the curve starts at 1612.8 and needs K = ∛(691.2 / 0.4) = 12
/// s; W(10 s) = 2304 - 0.4 * 8 = 2300.8, W(15 s) = 2304 + 0.4 * 27 = 2314.8. Growing once per round trip, the window
/// follows the curve closely from below.
#[test]
fn the_curve_passes_its_plateau_after_twelve_seconds() {
    for rule in [CUBIC, CUBIC_9438] {
        let mut driver = Driver::starting(rule, &Start { window: 2304, ..start() });
        driver.lose();
        // 2304 * 717 / 1024, or 2304 * 0.7.
        assert_eq!(driver.window(), if rule == CUBIC { 1613 } else { 1612 });
        let mut at = [0; 3];
        for tenth in 1..=150 {
            driver.pass(ms(100));
            for _ in 0..driver.window() / 2 {
                driver.ack(2);
            }
            match tenth {
                100 => at[0] = driver.window(),
                120 => at[1] = driver.window(),
                150 => at[2] = driver.window(),
                _ => {}
            }
        }
        for (window, expected) in at.into_iter().zip([2300.8, 2304.0, 2314.8]) {
            assert!((f64::from(window) - expected).abs() < 2.5, "{rule:?}: {window} instead of {expected}");
        }
    }
}

/// RFC 9438 §4.3: W_est grows by 9/17 for each window delivered until it reaches the former window, then by one.
#[test]
fn the_friendly_window_of_the_rfc_speeds_up_where_the_window_was() {
    // At a round-trip time of 10 ms the curve is far below Reno's line.
    let mut driver = Driver::starting(CUBIC_9438, &Start { window: 20, ..start() });
    driver.lose();
    assert_eq!(driver.window(), 14);
    let mut rounds = [0; 40];
    let mut delivered = 0.0;
    let mut expected = 14.0;
    for round in &mut rounds {
        driver.pass(ms(10));
        let window = driver.window();
        for _ in 0..window {
            driver.ack(1);
            delivered += 1.0;
            expected += if expected < 20.0 { 9.0 / 17.0 } else { 1.0 } / f64::max(expected, 14.0);
        }
        *round = driver.window();
    }
    assert!((f64::from(driver.window()) - expected).abs() < 1.5, "{} after {delivered}: {expected}", driver.window());
    // 6 / (9/17) = 11 rounds to the former window, then one per round.
    assert!(rounds[9] < 20 && rounds[12] >= 20, "{rounds:?}");
    assert!(rounds[39] - rounds[29] >= 9, "{rounds:?}");
}

/// Fast convergence: a loss below the former maximum leaves (1 + β)/2 of the window as the new one.
#[test]
fn a_loss_below_the_maximum_lowers_the_plateau() {
    for rule in [CUBIC, CUBIC_9438] {
        let mut driver = Driver::starting(rule, &Start { window: 1000, ..start() });
        driver.lose();
        driver.lose();
        // W_max = 700 * 0.85 = 595; the window is 490, so K = ∛(105 / 0.4) = 6.4 s.
        for _ in 0..64 {
            driver.pass(ms(100));
            for _ in 0..driver.window() {
                driver.ack(1);
            }
        }
        assert!(driver.window().abs_diff(595) <= 3, "{rule:?}: {}", driver.window());
    }
}

/// The target is at most 1.5 times the window: one segment more for two delivered.
#[test]
fn no_window_grows_faster_than_by_half_a_round_trip() {
    for rule in [CUBIC, CUBIC_9438] {
        let mut driver = Driver::starting(rule, &Start { window: 100, ..start() });
        driver.lose();
        driver.pass(ms(100));
        driver.ack(1);
        // After a minute the curve is far above.
        driver.pass(Duration::from_secs(60));
        let before = driver.window();
        for _ in 0..before {
            driver.ack_with(1, ms(100));
        }
        let grown = f64::from(driver.window()) / f64::from(before);
        assert!(grown > 1.3 && grown < 1.66, "{rule:?}: {grown}");
    }
}

/// Linux moves the epoch by the idle time, and RFC 9438 §5.8 requires it: the curve continues where it was.
#[test]
fn idleness_does_not_count() {
    let windows = |rule, idle: u64| {
        let mut driver = Driver::starting(rule, &Start { window: 500, ..start() });
        driver.lose();
        let mut windows = Vec::new();
        for round in 0..60 {
            if round == 30 {
                driver.pass(ms(idle));
                driver.tell(Episode::SendingAgain { idle: ms(idle), is_app_limited: true });
            }
            driver.pass(ms(100));
            for _ in 0..driver.window() {
                driver.ack_with(1, ms(100));
            }
            windows.push(driver.window());
        }
        windows
    };
    for rule in [CUBIC, CUBIC_9438] {
        assert_eq!(windows(rule, 0), windows(rule, 20_000), "{rule:?}");
    }
}
