//! COBALT against floating point, and against schedules derived by hand.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::random::Root;

const MS: i64 = 1_000_000;
const WITH: Parameters = Parameters { target: 5 * MS, interval: 100 * MS, packet_time: 0 };

fn draws() -> Stream {
    Root(5).stream("queue")
}

#[test]
fn roots_are_exact_for_small_counts() {
    assert_eq!(INVERSE_ROOTS[..2], [u32::MAX; 2]);
    for (count, root) in INVERSE_ROOTS.iter().enumerate().skip(2) {
        let exact = f64::from(u32::MAX) / (count as f64).sqrt();
        assert!((f64::from(*root) - exact).abs() < 4.0, "{count}: {root} for {exact}");
    }
    // One step from the root of 15 and of each count after it.
    let mut root = INVERSE_ROOTS[15];
    for count in 16..2000u32 {
        root = newton_step(root, count);
        let exact = f64::from(u32::MAX) / f64::from(count).sqrt();
        assert!((f64::from(root) / exact - 1.0).abs() < 0.002, "{count}: {root} for {exact}");
    }
}

/// Packets leave each ms after 20 ms of waiting. The first over the target arms the control, whose first signal is due
/// at once; the following are due 100/√2, 100/√3, ... ms after the previous due time.
#[test]
fn signals_follow_the_control_law() {
    let (mut line, mut draws) = (Cobalt::new(), draws());
    let mut times = Vec::new();
    for at in 0..2000 {
        if line.drops(at * MS, 20 * MS, &WITH, || false, &mut draws) {
            times.push(at);
        }
    }
    assert_eq!(times[0], 1);
    let mut due = 0.0f64;
    for (count, at) in (2..).zip(&times[1..]) {
        due += 100.0 / f64::from(count).sqrt();
        // Above a count of 15, roots are approximate.
        let tolerance = if count < 16 { 0 } else { 1 };
        assert!((due.ceil() as i64).abs_diff(*at) <= tolerance, "{count}: {at} for {due}");
    }
    assert!(due > 1990.0, "{due}");
}

/// A mark is a signal like a drop; at a delay within the target, the count decays as fast as it grew.
#[test]
fn the_count_decays() {
    let (mut line, mut draws) = (Cobalt::new(), draws());
    for at in 0..500 {
        assert!(!line.drops(at * MS, 20 * MS, &WITH, || true, &mut draws));
    }
    let reached = line.count;
    // 1 + the signals due by 499 ms: 70.7, 128.4, 178.4, 223.2, 264.0, 301.8, 337.1, 370.5, 402.1, 432.2, 461.1,
    // 488.8.
    assert_eq!(reached, 14);
    for at in 500..2000 {
        assert!(!line.drops(at * MS, MS, &WITH, || true, &mut draws));
    }
    assert!(line.count == 0 && !line.dropping);
}

/// BLUE: each 5 ms of overflow raises the probability by 1/256, each 5 ms of an empty line lowers it by 1/4096.
#[test]
fn overflow_raises_blue() {
    let (mut line, mut draws) = (Cobalt::new(), draws());
    for at in 0..=60 {
        line.on_overflow(at * MS, &WITH);
    }
    // At 6, 12, ..., 60 ms.
    assert_eq!(line.probability, 10 * UP);
    let share = (0..10_000).filter(|_| line.drops(61 * MS, 0, &WITH, || true, &mut draws)).count();
    assert!((300..=490).contains(&share), "10/256 of 10,000: {share}");
    for at in 0..=60 {
        line.on_empty((66 + at) * MS, &WITH);
    }
    assert_eq!(line.probability, 10 * UP - 11 * DOWN);
}
