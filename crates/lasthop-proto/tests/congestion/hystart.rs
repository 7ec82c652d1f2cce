//! The end of slow start.

use lasthop_proto::tcp::congestion::{ControlRule, HystartRule, Start};
use lasthop_proto::time::Duration;

use super::driver::{Driver, ms, start};

const SINCE_6_15: ControlRule = ControlRule::cubic(HystartRule::Linux);
const BEFORE_6_15: ControlRule = ControlRule::cubic(HystartRule::LinuxBefore6_15);

/// Packetdrill's `cubic-bulk-166k`, restated: two segments are acknowledged every 100 ms, so the round-trip time rises
/// from the second acknowledgment on. Before 6.15 the first round begins at the fourth acknowledgment, at a window of
/// 16, and ends with the 22nd segment; the second begins at the twelfth, and the ninth of its samples ends slow start
/// with the window at 48. CUBIC then grows to 49, 50, 52 and 58 with 60, 80, 100 and 120 segments, and by one in two
/// after.
#[test]
fn a_slow_path_ends_slow_start_at_48_segments() {
    let mut driver = Driver::new(BEFORE_6_15);
    let mut windows = Vec::new();
    for _ in 0..200 {
        driver.pass(ms(100));
        driver.ack(2);
        windows.push(driver.window());
    }
    let at = |segments: usize| windows[segments / 2 - 1];
    assert_eq!([at(10), at(20), at(30), at(38), at(40)], [20, 30, 40, 48, 48]);
    assert_eq!([at(60), at(80), at(100), at(120)], [49, 50, 52, 58]);
    for segments in (122..=400).step_by(2) {
        assert_eq!(at(segments), 58 + (segments as u32 - 120) / 2, "{segments}");
    }
}

/// Rounds begin with the first acknowledgment since Linux 6.15. The second round begins with the sixth, and at its
/// ninth sample, the 14th acknowledgment, the window is 36.
#[test]
fn the_same_path_ends_slow_start_at_36_segments_since_rounds_are_right() {
    let mut driver = Driver::new(SINCE_6_15);
    for _ in 0..50 {
        driver.pass(ms(100));
        driver.ack(2);
    }
    assert_eq!(driver.ssthresh(), 36);
}

/// A round on a path of `rtt` on which each window's acknowledgments arrive `gap` apart, `each` segments at a time.
fn round(driver: &mut Driver, rtt: u64, gap: Duration, each: u32) {
    let window = driver.window();
    let began = driver.now;
    driver.pass(ms(rtt));
    for _ in 0..window.div_ceil(each) {
        let left = driver.in_flight().min(each);
        if left > 0 {
            driver.ack_with(left, ms(rtt));
            driver.pass(gap);
        }
    }
    let spent = driver.now.since(began);
    driver.pass(ms(rtt).saturating_sub(spent));
}

/// A round ends when more is acknowledged than had been sent at its beginning (`hystart_update`), not when a segment
/// sent in it arrives, as a late retransmission does. The queue of a round lengthens its later round-trip times by more
/// than an eighth of the least: on their own they would end slow start.
#[test]
fn a_segment_sent_again_ends_no_round() {
    let mut driver = Driver::new(SINCE_6_15);
    round(&mut driver, 60, ms(3), 1);
    driver.control_at(40);
    driver.pass(ms(60));
    for number in 0..30 {
        driver.ack_with(1, ms(60 + number / 2));
        driver.pass(ms(3));
        if number == 12 {
            driver.arrive_out_of_order(ms(66));
        }
    }
    assert!(driver.ssthresh() > 1000, "{}", driver.ssthresh());
}

/// Packetdrill's `cubic-hystart-delay-rtt-jumps-upward` in its essence: round-trip times of 100 ms, then of more than
/// 100 ms + max(4, 100/8 = 12.5) ms for a whole round: its ninth sample ends slow start. A smaller rise does not.
#[test]
fn a_round_trip_that_rises_by_an_eighth_ends_slow_start() {
    for (rise, ends) in [(13, true), (12, false)] {
        let mut driver = Driver::new(SINCE_6_15);
        round(&mut driver, 100, ms(3), 1);
        round(&mut driver, 100, ms(3), 1);
        assert_eq!((driver.window(), driver.ssthresh()), (40, u32::MAX));
        round(&mut driver, 100 + rise, ms(3), 1);
        // Eight samples of this round let the window grow; at the ninth it is 48.
        let expected = if ends { 48 } else { u32::MAX };
        assert_eq!(driver.ssthresh(), expected, "{rise} ms");
    }
}

/// The tolerated rise is at least 4 ms and at most 16 ms.
#[test]
fn the_tolerated_rise_has_bounds() {
    for (rtt, rise, ends) in [(20, 4, false), (20, 5, true), (400, 16, false), (400, 17, true)] {
        let mut driver = Driver::new(SINCE_6_15);
        round(&mut driver, rtt, ms(3), 1);
        round(&mut driver, rtt, ms(3), 1);
        round(&mut driver, rtt + rise, ms(3), 1);
        assert_eq!(driver.ssthresh() < u32::MAX, ends, "{rtt} ms and {rise}");
    }
}

/// Packetdrill's `cubic-hystart-delay-min-rtt-jumps-downward` in its essence: a falling round-trip time does not end
/// slow start.
#[test]
fn a_round_trip_that_falls_ends_nothing() {
    let mut driver = Driver::new(SINCE_6_15);
    round(&mut driver, 100, ms(3), 1);
    round(&mut driver, 100, ms(3), 1);
    round(&mut driver, 50, ms(3), 1);
    assert_eq!((driver.window(), driver.ssthresh()), (80, u32::MAX));
}

/// Acknowledgments 1 ms apart are a train; once it is longer than (40 ms + 1 ms)/2 from the round's start, half of the
/// path is full. Gaps of 3 ms break it.
#[test]
fn a_train_of_half_a_round_trip_ends_slow_start() {
    let mut driver = Driver::new(SINCE_6_15);
    round(&mut driver, 40, ms(1), 1);
    assert_eq!(driver.ssthresh(), u32::MAX, "ten are too short");
    round(&mut driver, 40, ms(1), 1);
    assert_eq!(driver.ssthresh(), u32::MAX, "twenty are 19 ms");
    round(&mut driver, 40, ms(1), 1);
    // The first beyond 20.5 ms is the 22nd: 21 have increased the window of 40.
    assert_eq!(driver.ssthresh(), 61);

    let mut driver = Driver::new(SINCE_6_15);
    for _ in 0..3 {
        round(&mut driver, 40, ms(3), 2);
    }
    assert_eq!(driver.ssthresh(), u32::MAX);
}

/// Below 16 segments HyStart does not end slow start; when off, it never does.
#[test]
fn small_windows_and_off_are_left_alone() {
    let mut driver = Driver::starting(SINCE_6_15, &Start { window: 2, ..start() });
    round(&mut driver, 10, ms(0), 1);
    round(&mut driver, 10, ms(0), 1);
    round(&mut driver, 100, ms(0), 1);
    assert_eq!((driver.window(), driver.ssthresh()), (16, u32::MAX));
    let mut driver = Driver::new(ControlRule::cubic(HystartRule::Off));
    for rtt in [40, 40, 400, 400] {
        round(&mut driver, rtt, ms(1), 1);
    }
    assert_eq!((driver.window(), driver.ssthresh()), (160, u32::MAX));
}

/// RFC 9406 §4.2 for each control that implements it: a baseline of 40 ms tolerates less than 40/8 = 5 ms. Then
/// Conservative Slow Start: a quarter of the growth, for five rounds including the one in which it begins.
#[test]
fn hystart_plus_plus_slows_down_then_leaves() {
    for rule in [ControlRule::cubic(HystartRule::Rfc9406), ControlRule::cubic_rfc9438(HystartRule::Rfc9406)] {
        let mut driver = Driver::new(rule);
        round(&mut driver, 40, ms(3), 1);
        round(&mut driver, 44, ms(3), 1);
        assert_eq!(driver.window(), 40, "{rule:?}: 44 ms are tolerated");
        // The baseline is the last round's 44 ms: 49.5 ms are a rise of an eighth.
        round(&mut driver, 50, ms(3), 1);
        // Seven samples increase the window by seven, the eighth begins CSS: 33 more are 8.
        assert_eq!((driver.window(), driver.ssthresh()), (55, u32::MAX), "{rule:?}");
        round(&mut driver, 50, ms(1), 1);
        assert!(driver.window().abs_diff(55 + 55 / 4) <= 1, "{rule:?}: {}", driver.window());
        for _ in 0..2 {
            round(&mut driver, 50, ms(1), 1);
            assert_eq!(driver.ssthresh(), u32::MAX, "{rule:?}");
        }
        round(&mut driver, 50, ms(1), 1);
        round(&mut driver, 50, ms(1), 1);
        assert!(driver.ssthresh() < u32::MAX, "{rule:?}: five rounds are over");
    }
}

/// RFC 9406 §4.2: a round-trip time below the baseline shows that the rise was spurious; slow start resumes.
#[test]
fn hystart_plus_plus_resumes() {
    let mut driver = Driver::new(ControlRule::cubic_rfc9438(HystartRule::Rfc9406));
    round(&mut driver, 40, ms(3), 1);
    round(&mut driver, 40, ms(3), 1);
    round(&mut driver, 60, ms(3), 1);
    assert_eq!(driver.window(), 55);
    round(&mut driver, 40, ms(1), 1);
    // Seven at a quarter, then one for one.
    let resumed = driver.window();
    assert!((55 + 47..=55 + 50).contains(&resumed), "{resumed}");
    round(&mut driver, 40, ms(1), 1);
    assert_eq!(driver.window(), 2 * resumed);
}

/// RFC 9406 §4.3: an acknowledgment counts for at most 8 segments, and a loss ends the first slow start permanently.
#[test]
fn hystart_plus_plus_bounds_bursts_and_ends_with_a_loss() {
    let mut driver = Driver::new(ControlRule::cubic_rfc9438(HystartRule::Rfc9406));
    driver.pass(ms(40));
    driver.ack(10);
    assert_eq!(driver.window(), 18);
    driver.time_out(false);
    // In the second slow start a stretch acknowledgment counts in full: 1, then 10 up to the threshold of 12.
    driver.pass(ms(40));
    driver.control_at(2);
    driver.ack(2);
    assert_eq!((driver.window(), driver.ssthresh()), (4, 12));
}
