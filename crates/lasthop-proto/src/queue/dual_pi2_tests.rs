//! DualPI2 against Linux's formulas in floating point, against the pseudocode of RFC 9332, and against numbers derived
//! by hand.

extern crate std;

#[path = "dual_pi2_tests/closed_loop.rs"]
mod closed_loop;
#[path = "dual_pi2_tests/rfc9332.rs"]
mod rfc9332;

use std::vec;
use std::vec::Vec;

use super::super::tests::{Item, draws, item, ms};
use super::*;

fn capable(flow: u32, number: u32, bytes: u32) -> Item {
    Item { capable: true, ..item(flow, number, bytes) }
}

fn pop(queue: &mut DualPi2<Item>, now: Instant, dropped: &mut Vec<Item>) -> Option<Item> {
    queue.pop(now, dropped, &mut Queued::mark)
}

fn us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// The gains 41/256 and 819/256 per second are 44 and 879 in units of 2⁻³² per 64 ns. At 16 ms a packet has waited
/// 15 ms: 879·15,000,000/64 = 206,015,625. At 32 ms: 44·16,000,000/64 + 879·16,000,000/64 = 230,750,000 more.
#[test]
fn the_probability_is_that_of_linux() {
    let mut queue = DualPi2::new(DualPi2Config::default(), draws());
    assert_eq!(queue.gains, [44, 879]);
    queue.push(ms(1), item(0, 0, 1500), Ecn::NotEct, &mut Vec::new());
    queue.catch_up(ms(16));
    assert_eq!(queue.control, Control { probability: 206_015_625, delay: 15_000_000 });
    queue.catch_up(ms(47));
    assert_eq!(queue.control, Control { probability: 436_765_625, delay: 31_000_000 });
    // The older head counts, in either queue.
    queue.push(ms(47), item(0, 1, 1500), Ecn::Ect1, &mut Vec::new());
    queue.catch_up(ms(48));
    assert_eq!(queue.control.delay, 47_000_000);
}

/// The credit starts at -80·1514; each packet of 1000 bytes of the scalable queue adds 10,000, each classic one takes
/// 90,000. It exceeds 0 after 13 packets, at 8880, and then after 9.
#[test]
fn the_scheduler_grants_shares() {
    let mut queue = DualPi2::new(DualPi2Config::default(), draws());
    let mut dropped = Vec::new();
    for number in 0..100 {
        queue.push(ms(0), item(0, number, 1000), Ecn::Ect0, &mut dropped);
        queue.push(ms(0), item(1, number, 1000), Ecn::Ect1, &mut dropped);
    }
    let flows: Vec<u32> = (0..34).map(|_| pop(&mut queue, ms(0), &mut dropped).unwrap().flow).collect();
    let mut expected = vec![1; 34];
    [13, 23, 33].into_iter().for_each(|place| expected[place] = 0);
    assert_eq!(flows, expected);
    assert_eq!(dropped, []);
}

/// Packets with CE wait with those of ECT(1). A delay of more than 1 ms marks; a packet that cannot be marked is
/// dropped.
#[test]
fn the_step_marks() {
    let mut queue = DualPi2::new(DualPi2Config::default(), draws());
    let mut dropped = Vec::new();
    let codes = [Ecn::Ect1, Ecn::Ce, Ecn::Ect1, Ecn::Ect0];
    for (number, ecn) in codes.into_iter().enumerate() {
        queue.push(ms(0), capable(0, number as u32, 1500), ecn, &mut dropped);
    }
    let sent = [us(1000), us(1001), us(1001), us(1001)].map(|at| pop(&mut queue, at, &mut dropped).unwrap());
    assert_eq!(sent.map(|item| (item.number, item.marked)), [(0, false), (1, true), (2, true), (3, false)]);
    queue.push(ms(2), item(0, 9, 1500), Ecn::Ect1, &mut dropped);
    assert_eq!(pop(&mut queue, ms(4), &mut dropped), None);
    assert_eq!(dropped.len(), 1);
}

/// Shares of packets that are (marked, dropped), in per mille, at a probability, by ECN field.
fn shares(probability: f64, overload: Overload, ecn: Ecn) -> (u32, u32) {
    let limit = QueueLimit::Packets(1_000_000);
    let mut queue = DualPi2::new(DualPi2Config { overload, limit, ..DualPi2Config::default() }, draws());
    let mut dropped = Vec::new();
    let made = |number| if ecn == Ecn::NotEct { item(0, number, 1500) } else { capable(0, number, 1500) };
    (0..20_010).for_each(|number| queue.push(ms(0), made(number), ecn, &mut dropped));
    queue.control.probability = (probability * f64::from(CERTAIN)) as u32;
    let mut marked = 0;
    while queue.backlog().packets > 10 {
        marked += u32::from(pop(&mut queue, ms(0), &mut dropped).is_some_and(|item| item.marked));
    }
    ((marked + 10) / 20, (dropped.len() as u32 + 10) / 20)
}

/// The probability p of the controller: p² for the classic queue, 2p for the scalable one. From p = 50 % on, all of the
/// latter is marked, and the classic probability drops in both queues.
#[test]
fn probabilities_are_coupled() {
    let near = |(marked, dropped): (u32, u32), (mark, drop): (u32, u32)| {
        assert!(marked.abs_diff(mark) <= 10 && dropped.abs_diff(drop) <= 10, "{marked} {dropped} for {mark} {drop}");
    };
    near(shares(0.3, Overload::Drop, Ecn::NotEct), (0, 90));
    near(shares(0.3, Overload::Drop, Ecn::Ect0), (90, 0));
    near(shares(0.3, Overload::Drop, Ecn::Ect1), (600, 0));
    near(shares(0.7, Overload::Drop, Ecn::NotEct), (0, 490));
    near(shares(0.7, Overload::Drop, Ecn::Ect0), (0, 490));
    near(shares(0.7, Overload::Drop, Ecn::Ect1), (510, 490));
    near(shares(0.7, Overload::Overflow, Ecn::Ect1), (1000, 0));
}

/// Without drops on overload, the probability ends where every scalable packet is marked.
#[test]
fn overflow_limits_the_probability() {
    let config = DualPi2Config { overload: Overload::Overflow, ..DualPi2Config::default() };
    let mut queue = DualPi2::new(config, draws());
    queue.push(ms(0), item(0, 0, 1500), Ecn::NotEct, &mut Vec::new());
    queue.catch_up(ms(100_000));
    assert_eq!(queue.control.probability, CERTAIN / 2);
}

/// Two packets of 1514 bytes behind one are needed for a mark or drop by probability.
#[test]
fn a_short_queue_is_left_alone() {
    let mut queue = DualPi2::new(DualPi2Config::default(), draws());
    let mut dropped = Vec::new();
    (0..3).for_each(|number| queue.push(ms(0), item(0, number, 1514), Ecn::NotEct, &mut dropped));
    queue.control.probability = CERTAIN;
    // The first is dropped, the others have fewer behind them.
    assert_eq!(pop(&mut queue, ms(0), &mut dropped).unwrap().number, 1);
    assert_eq!(pop(&mut queue, ms(0), &mut dropped).unwrap().number, 2);
    assert_eq!(dropped.len(), 1);
}

/// Updates that are performed late have the same results, with an empty queue as with a packet that waits for long.
#[test]
fn late_updates_change_nothing() {
    for empty in [true, false] {
        let mut queues = [0, 1].map(|_| DualPi2::new(DualPi2Config::default(), draws()));
        for queue in &mut queues {
            queue.push(ms(1), item(0, 0, 1500), Ecn::NotEct, &mut Vec::new());
            queue.push(ms(3), item(0, 1, 1500), Ecn::NotEct, &mut Vec::new());
            queue.catch_up(ms(100));
            pop(queue, ms(100), &mut Vec::new());
            if empty {
                pop(queue, ms(100), &mut Vec::new());
            }
        }
        (101..50_000).for_each(|at| queues[0].catch_up(ms(at)));
        queues[1].catch_up(ms(49_999));
        let [often, once] = queues;
        assert_eq!((often.control, often.next_update), (once.control, once.next_update));
        assert_eq!(often.control.probability, if empty { 0 } else { CERTAIN });
    }
}

/// Linux's controller in floating point with the same random numbers: the same packets are marked and dropped while the
/// load varies.
#[test]
fn decisions_are_those_of_the_formulas() {
    let (mut queue, mut draws) = (DualPi2::new(DualPi2Config::default(), draws()), draws());
    let [mut classic, mut scalable] = [(); 2].map(|()| VecDeque::<(u64, u32)>::new());
    let (mut p, mut previous, mut credit, mut next_update) = (0f64, 0u64, -80.0 * 1514.0, 16_000u64);
    let (mut marks, mut drops) = (0, 0);
    for at in 1..10_000_000u64 / 100 {
        let at = at * 100;
        while next_update <= at {
            let head =
                classic.front().map_or(u64::MAX, |(at, _)| *at).min(scalable.front().map_or(u64::MAX, |(at, _)| *at));
            let delay = if head == u64::MAX { 0 } else { next_update - head };
            let seconds = |a: u64, b: u64| (a as f64 - b as f64) / 1e6;
            // 41/256 and 819/256, rounded down to Linux's units.
            let unit = 1e9 / 64.0 / f64::from(u32::MAX);
            p = (p + 44.0 * unit * seconds(delay, 15_000) + 879.0 * unit * seconds(delay, previous)).clamp(0.0, 1.0);
            previous = delay;
            next_update += 16_000;
        }
        let wave = at / 1_000_000 % 4;
        let number = (at / 100) as u32;
        let mut arrive = |class: Class, every: u64| {
            if at / 100 % every == 0 {
                let (line, ecn) = match class {
                    Class::Classic => (&mut classic, Ecn::NotEct),
                    Class::Scalable => (&mut scalable, Ecn::Ect1),
                };
                line.push_back((at, number));
                let made = if class == Class::Scalable { capable(1, number, 1000) } else { item(0, number, 1000) };
                queue.push(us(at), made, ecn, &mut Vec::new());
            }
        };
        arrive(Class::Classic, [4, 8, 3, 12][wave as usize]);
        arrive(Class::Scalable, [9, 4, 7, 5][wave as usize]);
        if at % 300 != 0 {
            continue;
        }
        // One packet leaves every 300 µs.
        let mut expected = Vec::new();
        loop {
            let is_scalable = !scalable.is_empty() && (classic.is_empty() || credit <= 0.0);
            let shared = !scalable.is_empty() && !classic.is_empty();
            let Some((since, number)) = (if is_scalable { scalable.pop_front() } else { classic.pop_front() }) else {
                credit = -80.0 * 1514.0;
                break;
            };
            let mut rolls = |p: f64| draws.below(1 << 32) as f64 / 4_294_967_295.0 <= p;
            let judged = 1000 * (classic.len() + scalable.len()) >= 2 * 1514 && p > 1e-12;
            let (mut marked, mut dropped) = (false, false);
            if judged && is_scalable && 2.0 * p > 1.0 {
                dropped = rolls(p) && rolls(p);
                marked = !dropped;
            } else if judged && is_scalable {
                marked = rolls(2.0 * p);
            } else if judged {
                dropped = rolls(p) && rolls(p);
            }
            marked |= is_scalable && at - since > 1000;
            expected.push((number, marked, dropped));
            if !dropped {
                let weight = if is_scalable { 10.0 } else { -90.0 };
                credit += if shared { weight * 1000.0 } else { 0.0 };
                break;
            }
        }
        let mut dropped = Vec::new();
        let sent = pop(&mut queue, us(at), &mut dropped);
        let mut fates: Vec<_> = dropped.iter().map(|item| (item.number, false, true)).collect();
        fates.extend(sent.map(|item| (item.number, item.marked, false)));
        let expected: Vec<_> =
            expected.into_iter().map(|(number, marked, gone)| (number, marked && !gone, gone)).collect();
        assert_eq!(fates, expected, "at {at} µs");
        marks += fates.iter().filter(|(_, marked, _)| *marked).count();
        drops += dropped.len();
        let difference = f64::from(queue.control.probability) / f64::from(CERTAIN) - p;
        assert!(difference.abs() < 1e-6, "at {at} µs: {difference}");
    }
    assert!(marks > 1000 && drops > 100, "{marks} {drops}");
}
