//! Delay by HARQ and RLC against the closed forms.
//!
//! A block that fails with probability p, is repeated R later, at most M times in a round, and begins a new round A
//! after the last of them has the extra delay X with P(X = kR) = (1 - p) p^k for k < M, and (M - 1) R + A + X with
//! probability p^M. If a block is sent in each TTI T and frames leave in order, P(D ≤ x) is the product of
//! P(X ≤ x + jT) over all j ≥ 0.

extern crate std;

use std::vec;

use super::rig::{Rig, prompt, user};
use super::*;
use crate::link::access::Fate;

/// T, R, A in microseconds, p; M is 4.
#[derive(Clone, Copy)]
struct Case {
    tti: u64,
    harq: u64,
    rlc: u64,
    loss: f64,
}

const LTE_CASE: Case = Case { tti: 1000, harq: 8000, rlc: 40_000, loss: 0.1 };

impl Case {
    fn spec(self) -> CellSpec {
        CellSpec {
            tti: Duration::from_micros(self.tti),
            harq: HarqSpec { loss: self.loss, delay: Duration::from_micros(self.harq), transmissions: 4 },
            rlc: RlcSpec { delay: Duration::from_micros(self.rlc), ..LTE.rlc },
            ..prompt()
        }
    }

    /// Returns P(X ≤ x).
    fn single(self, x: u64) -> f64 {
        let sent = (0..4).filter(|k| k * self.harq <= x).map(|k| (1.0 - self.loss) * libm::pow(self.loss, k as f64));
        let again = 3 * self.harq + self.rlc;
        sent.sum::<f64>() + if x >= again { libm::pow(self.loss, 4.0) * self.single(x - again) } else { 0.0 }
    }

    /// Returns P(D ≤ x) for the first 400 multiples of T.
    fn ordered(self) -> Vec<f64> {
        let singles: Vec<f64> = (0..2400).map(|step| self.single(step * self.tti)).collect();
        (0..400).map(|step| singles[step..step + 2000].iter().product()).collect()
    }

    /// Sends a frame of less than a tenth of a block in each TTI, so that repeats displace none, and returns the extra
    /// delays in microseconds of each 200th: those in between are correlated.
    fn measure(self, count: u64, seed: u64) -> Vec<u64> {
        const APART: u64 = 200;
        let mut rig = Rig::with_seed(self.spec(), &[user("a", 40.0)], seed);
        let (mut delays, mut next) = (vec![], 0);
        for tti in 0..=count * APART {
            if tti < count * APART {
                rig.run(Instant::ZERO + Duration::from_micros(tti * self.tti));
                rig.push(0, tti, 100);
            } else {
                rig.run_secs(36_000);
            }
            for crossed in rig.crossed.drain(..) {
                assert_eq!((crossed.item, crossed.fate), (next, Fate::Received));
                if next % APART == APART - 1 {
                    delays.push(crossed.end.since(crossed.start).as_nanos() / 1000 - self.tti);
                }
                next += 1;
            }
        }
        assert_eq!(next, count * APART);
        delays
    }
}

fn share(delays: &[u64], most: u64) -> f64 {
    delays.iter().filter(|delay| **delay <= most).count() as f64 / delays.len() as f64
}

/// Table of the design note: P(D = 0), ≤ R - T, ≤ R, ≤ 2R - T, ≤ 2R, ≤ 3R, mean in ms.
#[test]
fn delay_in_order_has_the_product_form() {
    let tables = [
        (LTE_CASE, [0.3924, 0.8205, 0.9117, 0.9781, 0.9880, 0.9959], 3.93),
        (Case { loss: 0.3, ..LTE_CASE }, [0.0153, 0.1854, 0.2648, 0.5125, 0.5632, 0.7010], 22.8),
        (Case { tti: 500, harq: 4000, rlc: 20_000, loss: 0.1 }, [0.3924, 0.8205, 0.9117, 0.9781, 0.9880, 0.9959], 1.96),
    ];
    for ((case, table, mean), seed) in tables.into_iter().zip(1..) {
        let ordered = case.ordered();
        let points = [0, case.harq - case.tti, case.harq, 2 * case.harq - case.tti, 2 * case.harq, 3 * case.harq];
        for (point, expected) in points.iter().zip(table) {
            let computed = ordered[(point / case.tti) as usize];
            assert!((computed - expected).abs() < 1e-4, "{point}: {computed}");
        }
        let delays = case.measure(10_000, seed);
        // Kolmogorov and Smirnov: 1.63 / sqrt(n) at 1 %.
        let distances = ordered.iter().zip(0..).map(|(p, step)| (share(&delays, step * case.tti) - p).abs());
        let distance = distances.fold(0.0, f64::max);
        let measured = delays.iter().sum::<u64>() as f64 / delays.len() as f64 / 1e3;
        let row = points.map(|point| share(&delays, point));
        std::println!("p {}: {row:.4?}, mean {measured:.3} ms, distance {distance:.4}", case.loss);
        assert!(distance < 0.0163, "{distance}");
        assert!((measured / mean - 1.0).abs() < 0.05, "{measured}");
    }
}

/// Frames far apart do not wait for each other: the mean of X is 0.892 ms.
#[test]
fn mean_delay_without_order() {
    let case = LTE_CASE;
    let mut rig = Rig::new(case.spec(), &[user("a", 40.0)]);
    for number in 0..100_000 {
        rig.run(Instant::ZERO + Duration::from_millis(1000 * number));
        rig.push(0, number, 1000);
    }
    rig.run_secs(200_000);
    let delays: Vec<u64> =
        rig.crossed.iter().map(|crossed| crossed.end.since(crossed.start).as_nanos() / 1000 - 1000).collect();
    let mean = delays.iter().sum::<u64>() as f64 / 1e8;
    std::println!("mean {mean:.4} ms");
    assert!((mean / 0.892 - 1.0).abs() < 0.02, "{mean}");
    for k in 0..5 {
        let difference = share(&delays, k * 8000) - case.single(k * 8000);
        assert!(difference.abs() < 0.003, "{k}: {difference}");
    }
}

/// A frame of three blocks arrives without extra delay if none of them fails, and within R if none fails twice.
#[test]
fn a_frame_waits_for_all_its_blocks() {
    let case = Case { loss: 0.3, ..LTE_CASE };
    let mut rig = Rig::new(case.spec(), &[user("a", 40.0)]);
    for number in 0..20_000 {
        rig.run(Instant::ZERO + Duration::from_millis(2000 * number));
        rig.push(0, number, 3 * 8741);
    }
    rig.run_secs(50_000);
    let delays: Vec<u64> =
        rig.crossed.iter().map(|crossed| crossed.end.since(crossed.start).as_nanos() / 1_000_000 - 3).collect();
    for (most, expected) in [(0, 0.343), (8, 0.753_571), (16, 0.921_167)] {
        assert!((share(&delays, most) - expected).abs() < 0.01, "{most}: {}", share(&delays, most));
    }
}

/// A frame of several blocks, and several frames of a block, by hand: 100 resource blocks of CQI 15 carry 69,930 bits,
/// 8741 bytes.
#[test]
fn frames_are_segmented_and_concatenated() {
    let case = Case { loss: 0.0, ..LTE_CASE };
    let mut rig = Rig::new(case.spec(), &[user("a", 40.0)]);
    for (item, bytes) in [1500, 1500, 1500, 1500, 1500, 1242, 8741, 8740, 1].into_iter().enumerate() {
        rig.push(0, item as u64, bytes);
    }
    rig.run_secs(1);
    let times: Vec<(u64, u64, u64)> = rig
        .crossed
        .iter()
        .map(|crossed| (crossed.item, crossed.start.as_nanos() / 1_000_000, crossed.end.as_nanos() / 1_000_000))
        .collect();
    // Frame 5 ends with the first byte of the second block, whose rest is a part of frame 6, and so on.
    let expected =
        vec![(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1), (5, 0, 2), (6, 1, 3), (7, 2, 3), (8, 3, 4)];
    assert_eq!(times, expected);
    assert_eq!(rig.events, 5);
    // Blocks of 8741, 8741, 8741 and 1 bytes take 100, 100, 100 and 1 of 100 resource blocks.
    let busy = rig.cell.busy(rig.now, LineId(0));
    assert_eq!(busy, Duration::from_micros(3010));
}

/// Two transmissions in each of two rounds all fail: at 0 and 8 ms, 48 and 56 ms. The frame is given up at the end of
/// the last, and so is one that had begun in its block; the next frames are sent.
#[test]
fn a_block_is_given_up_after_its_rounds() {
    let spec = CellSpec {
        harq: HarqSpec { loss: 1.0, transmissions: 2, ..LTE.harq },
        rlc: RlcSpec { rounds: 2, ..LTE.rlc },
        ..prompt()
    };
    let mut rig = Rig::new(spec, &[user("a", 40.0)]);
    rig.push(0, 0, 8000);
    rig.push(0, 1, 8000);
    rig.step(Instant::ZERO);
    assert_eq!(rig.cell.held(LineId(0)), 2);
    rig.run_secs(1);
    assert_eq!(rig.crossed.len(), 2);
    assert!(rig.crossed.iter().all(|crossed| crossed.fate == Fate::GivenUp));
    // The rest of frame 1 is in a second block, but is lost with the first.
    assert_eq!(rig.crossed[0].end, Instant::ZERO + Duration::from_millis(57));
    assert_eq!(rig.crossed[1].end, Instant::ZERO + Duration::from_millis(57));
    assert_eq!(rig.cell.held(LineId(0)), 0);
    rig.run_secs(2);
    assert_eq!(rig.cell.poll_deadline(), None);
}

/// A window of four blocks of 8741 bytes bounds the frames that are held when nothing is acknowledged, and new data
/// follow when it moves on.
#[test]
fn the_window_bounds_the_frames_held() {
    let rlc = RlcSpec { window: 4, rounds: 2, delay: Duration::from_secs(1) };
    let spec = CellSpec { rlc, harq: HarqSpec { loss: 1.0, ..LTE.harq }, ..prompt() };
    let mut rig = Rig::new(spec, &[user("a", 40.0)]);
    rig.fill(0);
    rig.run(Instant::ZERO + Duration::from_millis(1020));
    assert_eq!(rig.cell.held(LineId(0)), 24);
    assert!(rig.crossed.is_empty());
    // Transmissions at 0 to 3, 8 to 11, 16 to 19 and 24 to 27 ms, and the ends of the last.
    assert_eq!(rig.events, 20);
    rig.run(Instant::ZERO + Duration::from_millis(1100));
    assert!(rig.crossed.iter().all(|crossed| crossed.fate == Fate::GivenUp) && rig.crossed.len() >= 23);
    assert!((22..=24).contains(&rig.cell.held(LineId(0))));
}
