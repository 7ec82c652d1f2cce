//! The end of slow start.

use lasthop_proto::tcp::congestion::{ControlRule, HystartRule};

use crate::driver::{Driver, ms};

const SINCE_6_15: ControlRule = ControlRule::Cubic(HystartRule::Linux);
const BEFORE_6_15: ControlRule = ControlRule::Cubic(HystartRule::LinuxBefore6_15);

/// Packetdrill's `cubic-bulk-166k`, restated: two segments are acknowledged every 100 ms, so the round trip rises from
/// the second acknowledgment on. Before 6.15 the first round begins at the fourth acknowledgment, which finds a window of
/// 16, and ends with the 22nd segment; the second begins at the twelfth, and the ninth of its samples ends slow start with
/// the window at 48. CUBIC then grows to 49, 50, 52 and 58 with 60, 80, 100 and 120 segments, and by one in two after.
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

/// The same since 6.15: rounds begin with the first acknowledgment. The second round begins with the sixth, and its ninth
/// sample, the 14th acknowledgment, finds a window of 36.
#[test]
fn the_same_path_ends_slow_start_at_36_segments_since_rounds_are_right() {
    let mut driver = Driver::new(SINCE_6_15);
    for _ in 0..50 {
        driver.pass(ms(100));
        driver.ack(2);
    }
    assert_eq!(driver.ssthresh(), 36);
}
