//! Properties of arbitrary cells and operations.

extern crate std;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::rig::{Rig, user};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Frame(usize, u32),
    /// Microseconds until the next operation.
    Wait(u64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        4 => (0..6usize, 0..5_000u32).prop_map(|(line, bytes)| Operation::Frame(line, bytes)),
        2 => (0..5_000u64).prop_map(Operation::Wait),
        1 => (0..400_000u64).prop_map(Operation::Wait),
    ];
    proptest::collection::vec(operation, 0..150)
}

fn time(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_micros)
}

fn spec() -> impl Strategy<Value = CellSpec> {
    let repeats = (0.0..0.6f64, time(10_000), 1..5u32, time(50_000), 1..6u32, 1..40u32);
    let carrier = (1..60u32, 0..4u32, 0.0..4.0f64);
    let access = (proptest::option::of(time(20_000)), proptest::option::of(time(200_000)));
    (any::<bool>(), repeats, carrier, access, 1..200u32).prop_map(|(is_nr, repeats, carrier, access, fairness)| {
        let (loss, delay, transmissions, rlc, rounds, window) = repeats;
        let quality = Quality { mean: 10.0, sigma: carrier.2, coherence: Duration::from_millis(30) };
        let carrier = CarrierSpec { blocks: carrier.0, layers: 1, others: carrier.1, quality };
        CellSpec {
            down: carrier,
            up: carrier,
            fairness,
            harq: HarqSpec { loss, delay, transmissions },
            rlc: RlcSpec { delay: rlc, rounds, window },
            grant: access.0.map(|most| [Duration::ZERO, most]),
            drx: access.1.map(|cycle| DrxSpec { idle: cycle / 2, cycle, on: Duration::ZERO }),
            ..if is_nr { NR } else { LTE }
        }
    })
}

fn users() -> impl Strategy<Value = Vec<CellUser>> {
    let handover = proptest::option::of((time(500_000), time(80_000), 0.0..1.0f64));
    let one = (5.0..30.0f64, 0.0..4.0f64, handover).prop_map(|(mean, sigma, handover)| {
        let quality = Quality { mean, sigma, coherence: Duration::from_millis(50) };
        let handover = handover.map(|(interval, gap, failure)| HandoverSpec {
            interval: interval + Duration::from_millis(10),
            least: Duration::from_millis(10),
            gap: [Duration::ZERO, gap],
            failure,
            outage: [Duration::ZERO, gap * 2],
        });
        CellUser { down: quality, up: quality, handover, ..user("", 0.0) }
    });
    proptest::collection::vec(one, 3).prop_map(|mut users| {
        users.iter_mut().zip(["a", "b", "c"]).for_each(|(user, name)| user.name = name.into());
        users
    })
}

/// Checks the invariants: bounds of the frames held and of the time on the medium.
fn check(rig: &Rig, spec: &CellSpec) {
    for line in 0..6 {
        let id = LineId(line);
        // Each block of the window ends in at most one frame that it does not complete; empty frames take a byte.
        let direction = if line % 2 == 0 { Direction::Down } else { Direction::Up };
        let bytes = spec.carrier(direction).blocks as usize * 117;
        assert!(rig.cell.held(id) <= spec.rlc.window as usize * bytes + 1);
    }
    for direction in 0..2 {
        let busy: u64 = (0..3).map(|user| rig.cell.busy(rig.now, LineId(2 * user + direction)).as_nanos()).sum();
        assert!(busy <= rig.now.as_nanos());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Every frame leaves once, frames of a line leave in order, a transmission starts after the frame's arrival, and
    /// an idle cell has no events.
    #[test]
    fn all_frames_leave_once_and_in_order(
        spec in spec(),
        users in users(),
        operations in operations(),
        seed in any::<u64>(),
    ) {
        let mut rig = Rig::with_seed(spec, &users, seed);
        let mut arrivals = Vec::new();
        for operation in operations {
            match operation {
                Operation::Frame(line, bytes) => {
                    rig.push(line, arrivals.len() as u64, bytes);
                    arrivals.push((line, rig.now));
                }
                Operation::Wait(micros) => {
                    let end = rig.now + Duration::from_micros(micros);
                    while rig.step(end) {
                        check(&rig, &spec);
                    }
                }
            }
        }
        let most = rig.events + 2_000_000;
        while rig.events < most && rig.step(Instant::FAR_FUTURE) {}
        prop_assert_eq!(rig.cell.poll_deadline(), None);
        check(&rig, &spec);
        let mut items = BTreeSet::new();
        let mut last = [None; 6];
        for crossed in &rig.crossed {
            let (line, arrival) = arrivals[crossed.item as usize];
            prop_assert!(crossed.line.0 == line && crossed.start >= arrival);
            prop_assert!(items.insert(crossed.item));
            prop_assert!(last[line] < Some(crossed.item));
            last[line] = Some(crossed.item);
        }
        prop_assert_eq!(items.len(), arrivals.len());
        for line in 0..6 {
            prop_assert_eq!(rig.cell.held(LineId(line)), 0);
        }
    }

    /// The same seed gives the same frames at the same times.
    #[test]
    fn runs_are_reproducible(spec in spec(), mut users in users(), seed in any::<u64>()) {
        // A failed handover would empty a queue that never ends.
        users.iter_mut().filter_map(|user| user.handover.as_mut()).for_each(|handover| handover.failure = 0.0);
        let run = || {
            let mut rig = Rig::with_seed(spec, &users, seed);
            rig.fill(0);
            rig.fill(3);
            rig.run(Instant::ZERO + Duration::from_millis(500));
            rig.crossed
        };
        prop_assert_eq!(run(), run());
    }
}
