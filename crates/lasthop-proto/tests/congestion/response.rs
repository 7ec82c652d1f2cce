//! Windows under deterministic losses, compared with RFC 9438 §5.
//!
//! Its tables apply to the model's operating point, where the window at a loss equals that at the last one. The test
//! puts a control there, causes a loss, and delivers as many segments as there are between losses; the mean window must
//! match the table, and the window must be back at its start.

use lasthop_proto::tcp::congestion::{ControlRule, HystartRule, Start};
use lasthop_proto::time::Duration;

use super::driver::{Driver, ms, start};

const LINUX: ControlRule = ControlRule::cubic(HystartRule::Off);
const RFC: ControlRule = ControlRule::cubic_rfc9438(HystartRule::Off);

/// Delivers the next acknowledgment, for two segments or a hundredth of the window; returns the window before it, and
/// the seconds until it. Acknowledgments are evenly spaced over the round-trip time of `rtt` ms.
fn step(driver: &mut Driver, rtt: u64) -> (f64, f64) {
    let window = driver.window();
    let now = (window / 100).clamp(2, 200).min(window);
    let span = Duration::from_nanos(rtt * 1_000_000 * u64::from(now) / u64::from(window));
    driver.pass(span);
    driver.ack_with(now, ms(rtt));
    (f64::from(window), span.as_secs_f64())
}

/// Mean window, and window at the end, of an epoch of `segments` after a loss at `peak`.
fn epoch(rule: ControlRule, rtt: u64, peak: u32, segments: u64) -> (f64, u32) {
    let mut driver = Driver::starting(rule, &Start { window: peak, ..start() });
    // The round-trip time is known from before the loss; the window was in use, and grew by one.
    driver.pass(ms(rtt));
    driver.ack(1);
    driver.control_at(peak);
    driver.lose();
    let end = driver.delivered + segments;
    let (mut sum, mut time) = (0.0, 0.0);
    while driver.delivered < end {
        let (window, seconds) = step(&mut driver, rtt);
        sum += window * seconds;
        time += seconds;
    }
    (sum / time, driver.window())
}

/// Checks one row of a table in both arithmetics: mean and peak within `off_by`.
fn check(rtt: u64, mean: f64, p: f64, share_of_peak: f64, off_by: f64) {
    for rule in [LINUX, RFC] {
        let peak = (mean / share_of_peak).round() as u32;
        let (measured, end) = epoch(rule, rtt, peak, (1.0 / p) as u64);
        let (off, back) = (measured / mean, f64::from(end) / f64::from(peak));
        assert!((off - 1.0).abs() < off_by, "{rule:?}, {rtt} ms, {p:e}: {measured:.1} instead of {mean}");
        assert!((back - 1.0).abs() < off_by, "{rule:?}, {rtt} ms, {p:e}: {end} instead of {peak}");
    }
}

/// Mean of the curve from 0.7 to 1: 1 - 0.3/4.
const CURVE: f64 = 0.925;
/// Mean of the line from 0.7 to 1.
const LINE: f64 = 0.85;

/// Table 1, the rows of the curve: round-trip time 0.1 s, W = 1.054 (RTT/p)^0.75.
#[test]
fn table_1_where_cubic_rules() {
    for (mean, p) in [(187.0, 1e-4), (1054.0, 1e-5), (5926.0, 1e-6), (33_325.0, 1e-7)] {
        check(100, mean, p, CURVE, 0.05);
    }
}

/// Table 2: round-trip time 0.01 s; the curve is above Reno's line only at 1e-7.
#[test]
fn table_2_where_cubic_rules() {
    check(10, 5926.0, 1e-7, CURVE, 0.05);
}

/// Tables 1 and 2, the rows where Reno's line applies: 1.2/√p. At 0.1 s and 1e-3 the curve is not far below, and adds
/// its share; at 1e-2 whole segments are a tenth of the window.
#[test]
fn tables_1_and_2_where_reno_rules() {
    for (mean, p) in [(120.0, 1e-4), (379.0, 1e-5), (1200.0, 1e-6)] {
        check(10, mean, p, LINE, 0.07);
    }
    for rtt in [100, 10] {
        check(rtt, 38.0, 1e-3, LINE, 0.1);
        check(rtt, 12.0, 1e-2, LINE, 0.15);
    }
}

/// Table 3: loss rates that let segments of 1500 bytes fill a rate over 0.1 s: 100 Mbps is a window of 833.
#[test]
fn table_3() {
    for (mbps, p) in [(10.0, 2.9e-4), (100.0, 1.4e-5), (1000.0, 6.3e-7)] {
        check(100, mbps * 1e6 * 0.1 / 12_000.0, p, CURVE, 0.05);
    }
}

/// Without an operating point, with a loss every 1/p: fast convergence makes windows alternate around the operating
/// point, so means stay within a sixth of the tables.
#[test]
fn windows_left_to_themselves_stay_near_the_tables() {
    for (rtt, mean, p) in
        [(100, 12.0, 1e-2), (100, 38.0, 1e-3), (100, 187.0, 1e-4), (100, 1054.0, 1e-5), (10, 379.0, 1e-5)]
    {
        for rule in [LINUX, RFC] {
            let every = (1.0_f64 / p) as u64;
            let mut driver = Driver::starting(rule, &Start { window: mean as u32, ..start() });
            let (mut sum, mut time) = (0.0, 0.0);
            for loss in 0..60 {
                driver.lose();
                let end = driver.delivered + every;
                while driver.delivered < end {
                    let (window, seconds) = step(&mut driver, rtt);
                    if loss >= 10 {
                        sum += window * seconds;
                        time += seconds;
                    }
                }
            }
            let off = sum / time / mean;
            assert!((off - 1.0).abs() < 0.16, "{rule:?}, {rtt} ms, {p:e}: {off}");
        }
    }
}
