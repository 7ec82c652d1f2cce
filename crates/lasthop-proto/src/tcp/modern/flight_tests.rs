use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1000;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn flight(segments: u32) -> Flight {
    let mut flight = Flight::default();
    for number in 0..segments {
        flight.push(
            (Seq(number * MSS), Seq((number + 1) * MSS)),
            Switch::Off,
            at(u64::from(number)),
            Snapshot::default(),
        );
    }
    flight
}

fn select(flight: &mut Flight, from: u32, to: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    flight.select(Seq(from * MSS), Seq(to * MSS), |sent, _| numbers.push(sent.seq().0 / MSS));
    numbers
}

fn index(flight: &Flight, number: u32) -> Index {
    flight.find(Seq(number * MSS)).unwrap()
}

#[test]
fn sacks_are_counted_once() {
    let mut flight = flight(10);
    assert_eq!(select(&mut flight, 2, 4), [2, 3]);
    assert_eq!(select(&mut flight, 1, 6), [1, 4, 5]);
    assert_eq!(select(&mut flight, 1, 6), [0; 0]);
    assert_eq!((flight.sacked(), flight.in_flight()), (5, 5));
    assert_eq!(flight.highest_sacked(), Some(Seq(6 * MSS)));
    // Partially covered segments do not count.
    let mut none = 0;
    flight.select(Seq(6 * MSS + 1), Seq(7 * MSS + 999), |_, _| none += 1);
    assert_eq!(none, 0);
}

#[test]
fn a_lost_segment_waits_until_it_is_resent_and_can_be_lost_again() {
    let mut flight = flight(6);
    select(&mut flight, 2, 6);
    for number in 0..2 {
        let place = index(&flight, number);
        assert!(flight.mark_lost(place));
        assert!(!flight.mark_lost(place), "it was known");
    }
    assert_eq!((flight.lost(), flight.waiting(), flight.in_flight()), (2, 2, 0));
    let (first, sent) = flight.next_waiting().unwrap();
    assert_eq!(sent.seq(), Seq(0));
    flight.resend(first, at(100), Snapshot::default());
    assert_eq!((flight.resent(), flight.waiting(), flight.in_flight()), (1, 1, 1));
    assert_eq!(flight.next_waiting().unwrap().1.seq(), Seq(MSS));
    assert!(flight.mark_lost(first), "its retransmission was lost");
    assert_eq!((flight.lost(), flight.waiting(), flight.in_flight()), (2, 2, 0));
    assert_eq!(flight.next_waiting().unwrap().0, first);
}

#[test]
fn holes_are_what_was_sent_before_something_delivered() {
    let mut flight = flight(10);
    select(&mut flight, 2, 3);
    assert_eq!(flight.holes(at(2), Seq(3 * MSS)), 2);
    // A retransmission delivered later: everything that left before it may be missing.
    assert_eq!(flight.holes(at(6), Seq(MSS)), 6 - 1);
    assert_eq!(flight.hole(4).and_then(|index| flight.get(index)).map(Sent::seq), Some(Seq(5 * MSS)));
    flight.acknowledge(Seq(4 * MSS), |_| ());
    assert_eq!(flight.holes(at(2), Seq(3 * MSS)), 2);
}

#[test]
fn segments_are_cut_where_the_path_takes_less() {
    let mut flight = flight(3);
    select(&mut flight, 1, 2);
    flight.cut(400);
    let ends: Vec<_> = flight.iter().map(|(_, sent)| (sent.seq().0, sent.end().0)).collect();
    assert_eq!(ends, [(0, 400), (400, 800), (800, 1000), (1000, 2000), (2000, 2400), (2400, 2800), (2800, 3000)]);
    assert_eq!((flight.lost(), flight.waiting(), flight.sacked(), flight.in_flight()), (6, 6, 1, 0));
}

#[test]
fn an_empty_ring_gives_its_memory_back() {
    let mut flight = flight(1000);
    flight.acknowledge(Seq(1000 * MSS), |_| ());
    assert!(flight.is_empty() && flight.segments.capacity() <= KEPT && flight.holes.capacity() <= KEPT);
    assert!(size_of::<Sent>() <= 56, "{}", size_of::<Sent>());
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Acknowledge(u32),
    Select(u32, u32),
    SelectAgain(u32, u32),
    Lose(u32),
    Resend,
    Repeat(u32),
    Undo,
    Renege,
    Cut(u32),
    Holes(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..8).prop_map(Step::Send),
        2 => (0u32..12_000).prop_map(Step::Acknowledge),
        5 => (0u32..20, 1u32..6).prop_map(|(from, len)| Step::Select(from, len)),
        1 => (0u32..20, 1u32..6).prop_map(|(from, len)| Step::SelectAgain(from, len)),
        4 => (0u32..20).prop_map(Step::Lose),
        4 => Just(Step::Resend),
        1 => (0u32..20).prop_map(Step::Repeat),
        1 => Just(Step::Undo),
        1 => Just(Step::Renege),
        1 => (300u32..1500).prop_map(Step::Cut),
        2 => (0u64..100).prop_map(Step::Holes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_what_counting_gives(start in any::<u32>(), steps in prop::collection::vec(step(), 1..60)) {
        let mut flight = Flight::default();
        let (mut una, mut nxt) = (Seq(start), Seq(start));
        for (time, step) in steps.into_iter().enumerate() {
            let now = at(time as u64);
            let place = |number: u32| flight.iter().nth(number as usize).map(|(index, _)| index);
            match step {
                Step::Send(count) => for _ in 0..count {
                    flight.push((nxt, nxt + MSS), Switch::Off, now, Snapshot::default());
                    nxt += MSS;
                },
                Step::Acknowledge(bytes) => {
                    una = (una + bytes).min(nxt);
                    flight.acknowledge(una, |_| ());
                }
                Step::Select(from, len) => {
                    let left = una + from * MSS;
                    flight.select(left, (left + len * MSS).min(nxt.max(left)), |_, _| ());
                }
                Step::SelectAgain(from, len) => flight.select_again(una + from * MSS, una + (from + len) * MSS, |_| ()),
                Step::Lose(number) => if let Some(index) = place(number) {
                    flight.mark_lost(index);
                },
                Step::Resend => if let Some((index, _)) = flight.next_waiting() {
                    flight.resend(index, now, Snapshot::default());
                },
                Step::Repeat(number) => if let Some(index) = place(number) {
                    flight.repeat(index, now, Snapshot::default());
                },
                Step::Undo => flight.unmark_lost(),
                Step::Renege => flight.forget_sacks(),
                Step::Cut(mss) => flight.cut(mss),
                Step::Holes(millis) => {
                    flight.holes(at(millis), nxt);
                }
            }
            prop_assert!(flight.is_sound(), "{flight:?}");
        }
    }
}
