//! Rates and shares of users with full buffers against theory.

extern crate std;

use std::vec;

use super::rig::{Rig, prompt, user};
use super::*;
use crate::random::Root;

fn lossless() -> CellSpec {
    CellSpec { harq: HarqSpec { loss: 0.0, ..LTE.harq }, ..prompt() }
}

/// Returns the bits per second of the downlinks of users with full buffers in 20 s.
fn rates(spec: CellSpec, users: &[CellUser]) -> Vec<f64> {
    let mut rig = Rig::new(spec, users);
    (0..users.len()).for_each(|user| rig.fill(2 * user));
    rig.run_secs(20);
    (0..users.len()).map(|user| 8.0 * rig.received(2 * user) / 20.0).collect()
}

/// 100 resource blocks of 168 elements, of which three quarters carry data: 12,600 elements per millisecond. NR: 273
/// blocks, 34,398 elements in a downlink slot of 0.5 ms, 195/273 of them in a special slot; of five slots three are
/// downlink, one is special, one is uplink.
#[test]
fn rates_follow_from_the_efficiency() {
    let lte = [-3.0, 0.0, 5.0, 10.0, 15.0, 20.0, 40.0].map(|snr| LTE.rate(Direction::Down, snr));
    let expected = [0, 2_898_000, 7_560_000, 18_648_000, 34_398_000, 49_140_000, 69_930_000];
    assert_eq!(lte, expected);
    // 34,398 · 2.73 = 93,906 and 24,570 · 2.73 = 67,076 bits in 2.5 ms.
    assert_eq!(NR.rate(Direction::Down, 15.0), (3 * 93_906 + 67_076) * 400);
    assert_eq!(NR.rate(Direction::Up, 15.0), 93_906 * 400);
    for (spec, snr) in [(lossless(), 5.0), (lossless(), 15.0)] {
        let [rate] = rates(spec, &[user("a", snr)])[..] else { panic!() };
        let expected = spec.rate(Direction::Down, snr) as f64;
        assert!((rate / expected - 1.0).abs() < 0.002, "{rate} {expected}");
    }
}

#[test]
fn throughput_grows_with_snr() {
    let mut last = 0;
    for tenths in -100..400 {
        let rate = NR.rate(Direction::Down, f64::from(tenths) / 10.0);
        assert!(rate >= last);
        last = rate;
    }
    let measured: Vec<f64> = (0..8).map(|step| rates(prompt(), &[user("a", f64::from(step) * 4.0)])[0]).collect();
    assert!(measured.is_sorted_by(|a, b| a < b), "{measured:?}");
}

/// Repeats take the place of new data: `1 / (1 + p + p² + p³)` of the rate remains, and `1 - p` with the rounds of RLC.
#[test]
fn repeats_take_capacity() {
    for loss in [0.0, 0.1, 0.3] {
        let spec = CellSpec { harq: HarqSpec { loss, ..LTE.harq }, ..prompt() };
        let factor = rates(spec, &[user("a", 15.0)])[0] / spec.rate(Direction::Down, 15.0) as f64;
        let expected = 1.0 / (1.0 + loss + loss * loss + loss * loss * loss);
        std::println!("p {loss}: {factor:.4}, {expected:.4}, {:.4}", 1.0 - loss);
        assert!((factor / expected - 1.0).abs() < 0.015, "{loss}: {factor}");
        assert!((factor / (1.0 - loss) - 1.0).abs() < 0.01, "{loss}: {factor}");
    }
}

/// N users with a fixed SNR have 1/N of the rate each that they would have alone, also if their SNRs differ.
#[test]
fn fixed_channels_divide_the_rate() {
    for count in [1, 2, 3, 6, 8] {
        let users: Vec<CellUser> = (0..count).map(|number| user(&format!("{number}"), 15.0)).collect();
        for rate in rates(lossless(), &users) {
            let share = rate * f64::from(count) / LTE.rate(Direction::Down, 15.0) as f64;
            assert!((share - 1.0).abs() < 0.01, "{count}: {share}");
        }
    }
    let snrs = [5.0, 10.0, 20.0];
    for (rate, snr) in rates(lossless(), &snrs.map(|snr| user(&format!("{snr}"), snr))).iter().zip(snrs) {
        let share = 3.0 * rate / LTE.rate(Direction::Down, snr) as f64;
        assert!((share - 1.0).abs() < 0.02, "{snr}: {share}");
    }
}

/// Competing users without lines take what users with lines would.
#[test]
fn competing_users_take_their_share() {
    let down = CarrierSpec { others: 7, ..LTE.down };
    let share = rates(CellSpec { down, ..lossless() }, &[user("a", 15.0)])[0] / LTE.rate(Direction::Down, 15.0) as f64;
    assert!((share * 8.0 - 1.0).abs() < 0.01, "{share}");
    // Their repeats take capacity, too.
    let share = rates(CellSpec { down, ..prompt() }, &[user("a", 15.0)])[0] / LTE.rate(Direction::Down, 15.0) as f64;
    std::println!("{:.4}", share * 8.0);
    assert!((share * 8.0 / 0.9 - 1.0).abs() < 0.02, "{share}");
}

/// Independent channels with shadowing: the sum of the rates is the mean of the highest of N, from the distribution of
/// the CQI, and each user has an equal part.
#[test]
fn diversity_gain_follows_from_the_distribution() {
    let quality = Quality { mean: 10.0, sigma: 5.0, coherence: Duration::from_nanos(1) };
    let below = |snr: f64| 0.5 * libm::erfc(-(snr - 10.0) / (5.0 * core::f64::consts::SQRT_2));
    // Lowest SNR of each CQI, found from the rates themselves.
    let edges: Vec<(f64, f64)> = (-400..=600).map(|step| f64::from(step) / 10.0).fold(vec![], |mut edges, snr| {
        let rate = LTE.rate(Direction::Down, snr) as f64;
        if edges.last().is_none_or(|(_, last)| rate > *last) {
            edges.push((snr - 0.05, rate));
        }
        edges
    });
    for count in [1, 2, 4, 8] {
        let power = |snr: f64| libm::pow(below(snr), f64::from(count));
        let ends = edges.iter().skip(1).map(|(snr, _)| power(*snr)).chain([1.0]);
        let expected: f64 = edges.iter().zip(ends).map(|((snr, rate), end)| rate * (end - power(*snr))).sum();
        let users: Vec<CellUser> = (0..count)
            .map(|number| CellUser { down: quality, up: quality, ..user(&format!("{number}"), 0.0) })
            .collect();
        let rates = rates(CellSpec { fairness: 1000, ..lossless() }, &users);
        let total: f64 = rates.iter().sum();
        std::println!("{count}: {total:.0}, {expected:.0}, {:.4}", total / expected);
        assert!((total / expected - 1.0).abs() < 0.02, "{count}: {total} {expected}");
        assert!(rates.iter().all(|rate| (rate * f64::from(count) / total - 1.0).abs() < 0.03), "{rates:?}");
    }
}

/// A user that was idle has no average. It is served alone until its ratio is that of the N others, whose averages are
/// those of users that shared the cell all the time: for n TTIs with `q = (1 - 1/τ)^n`, `1 - q = q / N`. For N = 8 and
/// τ = 99, n = 11.6.
#[test]
fn competing_users_have_the_averages_of_a_busy_cell() {
    for idle in [0, 37, 5_000, 3_600_000] {
        let down = CarrierSpec { others: 8, ..LTE.down };
        let mut rig = Rig::new(CellSpec { down, ..lossless() }, &[user("a", 15.0)]);
        rig.run(Instant::ZERO + Duration::from_millis(idle));
        rig.fill(0);
        let mut ttis = 0;
        while rig.cell.busy(rig.now, LineId(0)) == Duration::from_millis(ttis) && rig.step(Instant::FAR_FUTURE) {
            ttis += u64::from(rig.now > Instant::ZERO + Duration::from_millis(idle));
        }
        std::println!("after {idle} ms: {ttis}");
        assert!((10..=14).contains(&ttis), "{ttis}");
    }
}

/// While a user with a full buffer is present, another one has half of the rate, alone it has all. After 5 s alone its
/// average is the whole rate: the first is served alone until `1 - q = q`, for 68.3 TTIs, not for 40 as with the half.
#[test]
fn competing_users_send_while_lines_are_idle() {
    let down = CarrierSpec { others: 1, ..LTE.down };
    let mut rig = Rig::new(CellSpec { down, ..lossless() }, &[user("a", 15.0)]);
    rig.fill(0);
    rig.run_secs(1);
    rig.stop(0);
    rig.run_secs(6);
    let before = rig.cell.busy(rig.now, LineId(0));
    rig.fill(0);
    rig.run(Instant::ZERO + Duration::from_millis(6068));
    assert_eq!(rig.cell.busy(rig.now, LineId(0)) - before, Duration::from_millis(68));
    rig.run(Instant::ZERO + Duration::from_millis(6080));
    assert!(rig.cell.busy(rig.now, LineId(0)) - before < Duration::from_millis(76));
}

/// A TTI that a user does not fill goes to the next: two users with small frames in each TTI do not delay each other.
#[test]
fn users_share_a_tti() {
    let mut rig = Rig::new(lossless(), &[user("a", 15.0), user("b", 15.0)]);
    for tti in 0..100 {
        rig.run(Instant::ZERO + Duration::from_micros(1000 * tti + 500));
        rig.push(0, tti, 200);
        rig.push(2, tti, 300);
    }
    rig.run_secs(1);
    assert_eq!(rig.crossed.len(), 200);
    for crossed in &rig.crossed {
        assert_eq!(crossed.end, Instant::ZERO + Duration::from_millis(crossed.item + 2));
    }
    // 343.98 bits in a resource block: 5 for 200 bytes, 7 for 300.
    assert_eq!(rig.cell.busy(rig.now, LineId(0)), Duration::from_micros(100 * 50));
    assert_eq!(rig.cell.busy(rig.now, LineId(2)), Duration::from_micros(100 * 70));
}

/// In `DDDSU` downlink frames start in the first four slots, uplink frames in the fifth.
#[test]
fn time_division_separates_directions() {
    let spec = CellSpec { grant: None, drx: None, ..NR };
    let mut rig = Rig::new(spec, &[user("a", 15.0)]);
    rig.fill(0);
    rig.fill(1);
    rig.run_secs(20);
    for crossed in &rig.crossed {
        let slot = crossed.start.as_nanos() / 500_000 % 5;
        assert_eq!(slot == 4, crossed.line.0 == 1, "{crossed:?}");
    }
    for (line, direction) in [(0, Direction::Down), (1, Direction::Up)] {
        let share = 8.0 * rig.received(line) / 20.0 / spec.rate(direction, 15.0) as f64;
        std::println!("{direction:?}: {share:.4}");
        assert!((share - 0.9).abs() < 0.015, "{share}");
    }
    assert_eq!([SlotPattern::parse("DDX"), SlotPattern::parse("DD"), SlotPattern::parse("")], [None; 3]);
    assert_eq!(SlotPattern::parse("DDDDDDDDDDDDDDDDDDDDU"), None);
}

#[test]
fn invalid_parameters_are_refused() {
    let lines = [CellLine { user: 0, direction: Direction::Down }];
    let make = |spec: CellSpec, lines: &[CellLine]| {
        Cell::<u64>::new(spec, &[user("a", 10.0)], lines, |part| Root(1).stream(part)).is_some()
    };
    assert!(make(LTE, &lines) && make(NR, &lines));
    assert!(!make(LTE, &[lines[0], lines[0]]));
    let twins = [user("a", 10.0), user("a", 20.0)];
    assert!(Cell::<u64>::new(LTE, &twins, &lines, |part| Root(1).stream(part)).is_none());
    assert!(!make(LTE, &[CellLine { user: 1, ..lines[0] }]));
    assert!(!make(CellSpec { tti: Duration::ZERO, ..LTE }, &lines));
    assert!(!make(CellSpec { overhead: 1000, ..LTE }, &lines));
    assert!(!make(CellSpec { gap: 0.0, ..LTE }, &lines));
    assert!(!make(CellSpec { down: CarrierSpec { blocks: 0, ..LTE.down }, ..LTE }, &lines));
    assert!(!make(CellSpec { harq: HarqSpec { loss: 1.5, ..LTE.harq }, ..LTE }, &lines));
    let long = DrxSpec { idle: Duration::ZERO, cycle: Duration::ZERO, on: Duration::from_millis(1) };
    assert!(!make(CellSpec { drx: Some(long), ..LTE }, &lines));
}
