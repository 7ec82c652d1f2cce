//! Grants, sleep, and handovers.

extern crate std;

use std::vec;

use super::rig::{Rig, prompt, user};
use super::*;
use crate::link::access::Fate;
use crate::random::Root;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

/// Sends single frames at random times, more than a second apart, on a line, and returns the waits in milliseconds.
fn waits(spec: CellSpec, line: usize, count: u64) -> Vec<f64> {
    let spec = CellSpec { harq: HarqSpec { loss: 0.0, ..LTE.harq }, ..spec };
    let mut rig = Rig::new(spec, &[user("a", 20.0)]);
    let mut stream = Root(8).stream("arrivals");
    let mut waits = Vec::new();
    for number in 0..count {
        rig.run(rig.now + ms(1000) + Duration::from_nanos(stream.below(100_000_000)));
        let now = rig.now;
        rig.push(line, number, 1000);
        rig.run(now + ms(500));
        let crossed = rig.crossed.pop().unwrap();
        waits.push(crossed.start.since(now).as_nanos() as f64 / 1e6);
    }
    waits
}

fn summary(waits: &[f64]) -> [f64; 3] {
    let [least, most] = [waits.iter().copied().fold(f64::MAX, f64::min), waits.iter().copied().fold(0.0, f64::max)];
    let summary = [least, waits.iter().sum::<f64>() / waits.len() as f64, most];
    std::println!("{summary:.3?}");
    summary
}

/// Uniform in 4 to 14 ms in LTE, and half a TTI to the next; in NR 2 to 7 ms and then up to 2.5 ms to the uplink slot.
#[test]
fn an_idle_uplink_waits_for_a_grant() {
    let [least, mean, most] = summary(&waits(LTE, 1, 5000));
    assert!((4.0..4.3).contains(&least) && (14.5..15.0).contains(&most) && (mean - 9.5).abs() < 0.15);
    let [least, mean, most] = summary(&waits(NR, 1, 5000));
    assert!((2.0..2.5).contains(&least) && (9.0..9.5).contains(&most) && (mean - 5.75).abs() < 0.1);
}

/// The wait is uniform in 0 to 150 ms after 100 ms without a transmission.
#[test]
fn a_sleeping_receiver_delays_the_downlink() {
    let [least, mean, most] = summary(&waits(LTE, 0, 5000));
    assert!(least < 1.0 && (149.0..151.0).contains(&most) && (mean - 75.5).abs() < 2.0);
    let [_, mean, most] = summary(&waits(prompt(), 0, 1000));
    assert!(most < 1.0 && (mean - 0.5).abs() < 0.05);

    let spec = CellSpec { harq: HarqSpec { loss: 0.0, ..LTE.harq }, ..LTE };
    let mut rig = Rig::new(spec, &[user("a", 20.0)]);
    // Awake at first, and for 100 ms after a transmission.
    for (number, time) in [(0, 50), (1, 150), (2, 251)] {
        rig.run(at(time));
        rig.push(0, number, 100);
        rig.run(at(time + 1));
        let crossed = rig.crossed.pop().unwrap();
        assert_eq!((crossed.item, crossed.start), (number, at(time)));
    }
}

/// A user that asks for a grant is awake when it gets it.
#[test]
fn an_uplink_frame_ends_the_sleep() {
    for up_first in [false, true] {
        let spec = CellSpec { harq: HarqSpec { loss: 0.0, ..LTE.harq }, ..LTE };
        let mut rig = Rig::new(spec, &[user("a", 20.0)]);
        for number in 1..200 {
            let time = at(1000 * number);
            rig.run(time);
            rig.push(usize::from(up_first), number, 100);
            rig.push(usize::from(!up_first), number, 100);
            rig.run(time + ms(500));
            let start = |line| rig.crossed.iter().rfind(|crossed| crossed.line.0 == line).unwrap().start;
            assert!(start(0) <= start(1) && start(1) <= time + ms(15));
        }
    }
}

/// A frame that arrives while earlier ones wait for the same grant needs none of its own.
#[test]
fn a_grant_serves_all_frames_of_the_queue() {
    let mut rig = Rig::new(CellSpec { grant: Some([ms(10), ms(10)]), ..prompt() }, &[user("a", 30.0)]);
    for number in 0..10 {
        rig.run(at(number));
        rig.push(1, number, 100);
    }
    rig.run_secs(1);
    assert!(rig.crossed.iter().all(|crossed| crossed.start == at(10)));
    assert_eq!(rig.crossed.len(), 10);
}

fn moving(handover: HandoverSpec) -> CellUser {
    CellUser { handover: Some(handover), ..user("a", 15.0) }
}

/// Handovers of 50 ms at each full second reduce the rate by 5 %, and lose no frame.
#[test]
fn handovers_interrupt_transmission() {
    let handover = HandoverSpec {
        interval: ms(1000),
        least: ms(1000),
        gap: [ms(50), ms(50)],
        failure: 0.0,
        outage: [Duration::ZERO; 2],
    };
    let mut rig = Rig::new(prompt(), &[moving(handover), user("b", 15.0)]);
    rig.fill(0);
    rig.fill(1);
    rig.run_secs(20);
    for crossed in &rig.crossed {
        let start = crossed.start.as_nanos() / 1_000_000;
        assert!(start < 1000 || start % 1000 >= 50, "{start}");
        assert_eq!(crossed.fate, Fate::Received);
    }
    let share = 8.0 * rig.received(0) / 20.0 / LTE.rate(Direction::Down, 15.0) as f64;
    std::println!("share {share:.4}");
    // 19 gaps in 20 s, and repeats.
    assert!((share / (0.9 * (1.0 - 19.0 * 0.05 / 20.0)) - 1.0).abs() < 0.01, "{share}");
    // Idle users have no events.
    let mut rig = Rig::new(prompt(), &[moving(handover)]);
    rig.push(0, 0, 1000);
    rig.run_secs(1000);
    assert!(rig.events <= 40 && rig.cell.poll_deadline().is_none());
    // In the gap at 1001 s.
    rig.run(at(1_001_010));
    rig.push(0, 1, 1000);
    rig.run_secs(1002);
    assert_eq!(rig.crossed[1].start, at(1_001_050));
}

/// Intervals are 5 s and an exponential time, 15 s in the mean; gaps are uniform.
#[test]
fn handovers_have_their_distribution() {
    let handover = HandoverSpec {
        interval: ms(15_000),
        least: ms(5000),
        gap: [ms(30), ms(60)],
        failure: 0.1,
        outage: [ms(500), ms(3000)],
    };
    let mut user = User::new(Some(handover), |part| Root(3).stream(part));
    let (mut last, mut failures, mut gaps, mut count) = (Instant::ZERO, 0, 0.0, 0);
    for milli in 0..40_000_000 {
        let before = user.gap_end();
        let fails = user.advance(at(milli));
        let gap = user.gap_end().since(at(milli)).as_secs_f64();
        if user.gap_end() != before {
            assert!(at(milli).since(last) > ms(4999));
            last = at(milli);
            count += 1;
            failures += u32::from(fails);
            assert!(if fails { (0.498..3.0).contains(&gap) } else { (0.028..0.06).contains(&gap) }, "{gap}");
            gaps += if fails { 0.0 } else { gap };
        }
    }
    let mean_gap = gaps / f64::from(count - failures);
    std::println!("{count} {failures} {mean_gap}");
    assert!((2550..2780).contains(&count) && (mean_gap - 0.0445).abs() < 0.001);
    assert!((0.085..0.115).contains(&(f64::from(failures) / f64::from(count))));
}

/// A failed handover at 1 s loses the frames of the medium and of the downlink queue; those that arrive during the
/// outage of 500 ms are sent after it. The uplink queue stays at the user.
#[test]
fn failed_handovers_lose_frames() {
    let handover = HandoverSpec {
        interval: ms(1000),
        least: ms(1000),
        gap: [Duration::ZERO; 2],
        failure: 1.0,
        outage: [ms(500), ms(500)],
    };
    let spec = CellSpec { harq: HarqSpec { loss: 0.0, ..LTE.harq }, ..prompt() };
    let mut rig = Rig::new(spec, &[moving(handover)]);
    rig.run(at(998));
    // 34,398 bits per TTI, 4299 bytes: the third of 20 frames is partly sent at 999 ms.
    for number in 0..20 {
        rig.push(0, number, 4000);
        rig.push(1, number, 4000);
    }
    rig.run(at(1000));
    let of = |rig: &Rig, line: usize, fate| {
        let chosen = rig.crossed.iter().filter(|crossed| crossed.line.0 == line && crossed.fate == fate);
        chosen.map(|crossed| crossed.item).collect::<Vec<_>>()
    };
    assert_eq!(of(&rig, 0, Fate::Received), [0, 1]);
    assert_eq!(of(&rig, 0, Fate::GivenUp), (2..20).collect::<Vec<_>>());
    assert_eq!((of(&rig, 1, Fate::Received), of(&rig, 1, Fate::GivenUp)), (vec![0, 1], vec![2]));
    assert!(rig.crossed.iter().all(|crossed| crossed.fate == Fate::Received || crossed.end == at(1000)));
    rig.run(at(1200));
    rig.push(0, 20, 4000);
    rig.run(at(1600));
    assert_eq!(rig.crossed.iter().rfind(|crossed| crossed.line.0 == 0).map(|crossed| crossed.start), Some(at(1500)));
    assert_eq!(of(&rig, 1, Fate::Received), [0, 1].into_iter().chain(3..20).collect::<Vec<_>>());
}
