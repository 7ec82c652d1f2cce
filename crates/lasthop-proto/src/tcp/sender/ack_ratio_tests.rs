//! Sequences derived by hand from RFC 5690 §4.4 and §4.5, and properties of arbitrary sequences.

extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const MSS: u64 = 1000;

/// A sender that always has a window of `window` segments outstanding.
struct Bench {
    ratio: AckRatio,
    acknowledged: u64,
    window: u64,
}

impl Bench {
    fn new(window: u64) -> Self {
        Self { ratio: AckRatio::new(), acknowledged: 1, window }
    }

    fn stream(&self) -> Progress {
        Progress { acknowledged: self.acknowledged, sent: self.acknowledged + self.window * MSS }
    }

    fn window(&self) -> Window {
        Window { segments: self.window, mss: MSS }
    }

    fn see(&mut self, kind: Kind, mark: Switch) -> u8 {
        let before = self.acknowledged;
        if let Kind::New(bytes) = kind {
            self.acknowledged += bytes;
        }
        self.ratio.on_ack(kind, mark, before, self.stream(), self.window());
        self.ratio.ratio
    }

    /// Processes acknowledgments of these numbers of segments; returns R after each of them.
    fn acks(&mut self, segments: &[u64]) -> Vec<u8> {
        segments.iter().map(|segments| self.see(Kind::New(segments * MSS), Switch::Off)).collect()
    }

    fn marked(&mut self, segments: u64) -> u8 {
        self.see(Kind::New(segments * MSS), Switch::On)
    }
}

/// §4.5: a mark doubles R, once per window. The outstanding window of 20 segments is acknowledged until something
/// beyond it is: by five acknowledgments of four segments and one more.
#[test]
fn a_mark_doubles_the_ratio_once_a_window() {
    let mut bench = Bench::new(20);
    assert_eq!(bench.marked(2), 4);
    assert_eq!((0..5).map(|_| bench.marked(4)).collect::<Vec<_>>(), [4; 5]);
    assert_eq!(bench.marked(4), 8);
}

/// §4.5 (2): never more than half a window, rounded up, but at least 2. R shrinks with the window.
#[test]
fn half_a_window_is_the_most() {
    for (window, most) in [(1, 2), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (40, 20), (1000, 255)] {
        let mut bench = Bench::new(window);
        (0..100).for_each(|_| {
            bench.marked(window);
        });
        assert_eq!(bench.ratio.ratio, most, "window {window}");
        bench.window = 9;
        assert_eq!(bench.see(Kind::Other, Switch::Off), most.min(5), "window {window}");
    }
}

/// §4.5: R decreases by one after W / (R² - R) windows of W segments, that is W² / (R² - R) segments. With W = 12 and R
/// = 4 these are 12: three acknowledgments of four; but the peer must know R = 4 first, by the fourth. With R = 3 they
/// are 24, eight acknowledgments of three.
#[test]
fn without_losses_the_ratio_falls() {
    let mut bench = Bench::new(12);
    assert_eq!(bench.marked(2), 4);
    assert_eq!(bench.acks(&[4, 4, 4, 4]), [4, 4, 4, 3]);
    assert_eq!(bench.acks(&[3; 7]), [3; 7]);
    assert_eq!(bench.acks(&[3]), [2]);
    assert_eq!(bench.acks(&[2; 100]), [2; 100]);
}

/// §4.4: an acknowledgment of more than R segments shows a missing one. The third after it shows that it was not only
/// late (§5.4).
#[test]
fn a_leap_is_a_lost_acknowledgment() {
    let mut bench = Bench::new(20);
    assert_eq!(bench.acks(&[2, 2, 4, 2, 2]), [2; 5]);
    assert_eq!(bench.acks(&[2]), [4]);
    // If late, it arrives within the three.
    let mut bench = Bench::new(20);
    assert_eq!(bench.acks(&[2, 4, 2]), [2; 3]);
    assert_eq!(bench.see(Kind::Late, Switch::Off), 2);
    assert_eq!(bench.acks(&[2; 20]), [2; 20]);
}

/// §4.4, "after changes in the ACK Ratio": while the peer may still use the larger ratio, four segments at once are not
/// a jump.
#[test]
fn the_ratio_before_is_no_leap() {
    let mut bench = Bench::new(12);
    bench.marked(2);
    assert_eq!(bench.acks(&[4, 4, 4, 4]), [4, 4, 4, 3]);
    assert_eq!(bench.acks(&[4, 4, 4, 4]), [3; 4]);
    // Now it knows 3.
    assert_eq!(bench.acks(&[4, 3, 3, 3]), [3, 3, 3, 6]);
}

/// §4.4.1: after duplicates, or a retransmission, acknowledgments jump until all outstanding data is acknowledged.
#[test]
fn leaps_of_a_recovery_are_no_lost_acknowledgments() {
    let mut bench = Bench::new(20);
    bench.see(Kind::Disorder, Switch::Off);
    assert_eq!(bench.acks(&[1, 10, 9]), [2; 3]);
    assert_eq!(bench.acks(&[2; 5]), [2; 5]);
    bench.ratio.on_sent_again(bench.stream().sent);
    assert_eq!(bench.acks(&[19, 1, 2, 2, 2, 2]), [2; 6]);
    // A mark counts regardless of the order.
    bench.see(Kind::Disorder, Switch::Off);
    assert_eq!(bench.see(Kind::Disorder, Switch::On), 4);
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => (1u64..100_000).prop_map(Kind::New),
        1 => Just(Kind::Late),
        1 => Just(Kind::Disorder),
        1 => Just(Kind::Other),
    ]
}

proptest! {
    /// For any input, R is at least 2 and at most half the window; it doubles or decreases by one at most, or falls to
    /// its limit.
    #[test]
    fn the_ratio_stays_in_its_bounds(
        steps in proptest::collection::vec((kind(), any::<bool>(), prop_oneof![0u64..40, 0u64..3000], any::<bool>()), 1..300),
    ) {
        let mut bench = Bench::new(10);
        for (kind, mark, window, again) in steps {
            let before = bench.ratio.ratio;
            bench.window = window;
            if again {
                bench.ratio.on_sent_again(bench.stream().sent);
            }
            let ratio = bench.see(kind, if mark { Switch::On } else { Switch::Off });
            let most = window.div_ceil(2).clamp(2, 255) as u8;
            prop_assert!((2..=most).contains(&ratio), "{ratio} in a window of {window}");
            prop_assert!(ratio <= before.saturating_mul(2));
            prop_assert!(ratio + 1 >= before || ratio + 1 >= most, "from {before} to {ratio} in a window of {window}");
        }
    }
}
