//! Tests of links against slow and simple models.

use std::collections::VecDeque;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::packet::{Ecn, Packet, Priority};
use lasthop_proto::queue::{CakeConfig, CoDelConfig, View};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::carrier::SharedCarrier;
use super::*;
use crate::network::{Impairments, Medium, NodeId, Rate};

/// 8 bits per microsecond: a byte takes a microsecond.
const RATE: Rate = Rate(8_000_000);

fn spec(queue: QueueLimit) -> DirectionSpec {
    DirectionSpec {
        rate: RATE,
        queue: queue.into(),
        errors: ErrorSpec::None,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    }
}

/// Returns a link with that specification in both directions.
fn link(spec: DirectionSpec, delay: Duration) -> LinkSpec {
    LinkSpec {
        name: "x".to_owned(),
        ends: [NodeId(0), NodeId(1)],
        medium: Medium::Duplex,
        delay,
        directions: [spec.clone(), spec],
    }
}

/// Returns a half-duplex medium with queues of 100 packets.
fn medium(delay: Duration, overhead: Duration, turnaround: Duration) -> SharedMedium {
    SharedMedium::new(&link(spec(QueueLimit::Packets(100)), delay), overhead, turnaround, Root(1))
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Returns frame `number`; its handle is the same number.
fn frame(number: u32, bytes: u32, priority: Priority) -> Frame {
    Frame::new(Handle(number), &Packet { len: bytes, priority, ..Packet::default() }, 0)
}

/// A frame handed to a link.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// Microseconds after the previous one.
    after: u64,
    bytes: u32,
    priority: Priority,
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let priority = prop_oneof![4 => Just(Priority::Normal), 1 => Just(Priority::Urgent)];
    let after = prop_oneof![Just(0), 1u64..40, 40u64..400];
    let offer = (after, 1u32..100, priority).prop_map(|(after, bytes, priority)| Offer { after, bytes, priority });
    prop::collection::vec(offer, 1..60)
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0u32..6).prop_map(QueueLimit::Packets),
        Just(QueueLimit::Packets(1000)),
        (0u64..400).prop_map(QueueLimit::Bytes)
    ]
}

/// Arrival time of each frame; `None` if it was dropped.
type Fates = Vec<Option<Instant>>;

/// Simulates, in the simplest way, a wire that sends one frame after another.
fn reference(offers: &[Offer], limit: QueueLimit, delay: Duration) -> Fates {
    let mut fates = vec![None; offers.len()];
    let (mut waiting, mut free_at, mut now) = (VecDeque::<usize>::new(), Instant::ZERO, Instant::ZERO);
    let start = |number: usize, begin: Instant, fates: &mut Fates| {
        let end = begin + Duration::from_micros(u64::from(offers[number].bytes));
        fates[number] = Some(end + delay);
        end
    };
    for (number, offer) in offers.iter().enumerate() {
        now += Duration::from_micros(offer.after);
        while free_at <= now
            && let Some(next) = waiting.pop_front()
        {
            free_at = start(next, free_at, &mut fates);
        }
        // Urgent frames and others have separate limits.
        let alike: Vec<&Offer> =
            waiting.iter().map(|&other| &offers[other]).filter(|other| other.priority == offer.priority).collect();
        let held: u64 = alike.iter().map(|other| u64::from(other.bytes)).sum();
        let room = match limit {
            QueueLimit::Packets(packets) => alike.len() < packets as usize,
            QueueLimit::Bytes(bytes) => held + u64::from(offer.bytes) <= bytes,
        };
        if free_at <= now {
            free_at = start(number, now, &mut fates);
        } else if room {
            let urgent = |&&other: &&usize| offers[other].priority == Priority::Urgent;
            let ahead = if offer.priority == Priority::Urgent {
                waiting.iter().take_while(urgent).count()
            } else {
                waiting.len()
            };
            waiting.insert(ahead, number);
        }
    }
    while let Some(next) = waiting.pop_front() {
        free_at = start(next, free_at, &mut fates);
    }
    fates
}

/// Runs the link under test in an event loop.
fn observed(offers: &[Offer], limit: QueueLimit, delay: Duration) -> Fates {
    let mut wire = DuplexDirection::new(&spec(limit), delay).unwrap();
    let mut fates = vec![None; offers.len()];
    let (mut next, mut now) = (None, Instant::ZERO);
    let arrive = |wire: &mut DuplexDirection, next: &mut Option<Instant>, fates: &mut Fates| {
        let due = next.take().expect("something is due");
        let (sent, following) = wire.arrive(due);
        let sent = sent.expect("what is due arrives");
        assert_eq!(sent.end + delay, due);
        fates[sent.frame.handle().0 as usize] = Some(due);
        *next = following;
    };
    for (number, offer) in offers.iter().enumerate() {
        now += Duration::from_micros(offer.after);
        while next.is_some_and(|due| due <= now) {
            arrive(&mut wire, &mut next, &mut fates);
        }
        match wire.enqueue(now, frame(number as u32, offer.bytes, offer.priority)) {
            Accepted::Next(due) => next = Some(due),
            Accepted::Queued => assert!(next.is_some()),
            Accepted::Dropped => {}
        }
    }
    while next.is_some() {
        arrive(&mut wire, &mut next, &mut fates);
    }
    fates
}

proptest! {
    /// Every frame arrives at the exact time of the model, or is dropped if the model drops it: for any sizes, gaps,
    /// limits and urgent frames, and wires shorter or longer than a frame.
    #[test]
    fn a_duplex_direction_is_a_queue_and_a_wire(offers in offers(), limit in limits(), delay in 0u64..500) {
        let delay = Duration::from_micros(delay);
        prop_assert_eq!(observed(&offers, limit, delay), reference(&offers, limit, delay));
    }
}

/// Radios take 5 µs to turn, before each frame that follows one of the other direction, and before no other.
#[test]
fn radios_turn_before_a_frame_of_the_other_direction() {
    let [none, turn] = [Duration::ZERO, Duration::from_micros(5)];
    let mut medium = medium(none, none, turn);
    for (number, direction) in [Direction::Down, Direction::Down, Direction::Up].into_iter().enumerate() {
        medium.enqueue(Instant::ZERO, direction.index(), frame(number as u32, 10, Priority::Normal), View::default);
    }
    let mut arrived = Vec::new();
    while let Some(now) = medium.poll_deadline() {
        arrived.extend(medium.advance(now).map(|(_, sent)| (now, sent.frame.handle().0)));
    }
    assert_eq!(arrived, [(at(10), 0), (at(25), 2), (at(40), 1)]);
    // The radio remains turned in this direction.
    medium.enqueue(at(100), Direction::Down.index(), frame(3, 10, Priority::Normal), View::default);
    assert_eq!(medium.poll_deadline(), Some(at(110)));
}

/// Sends `down` and `up` frames of those sizes at time 0. Returns time, direction and number of those that arrive.
fn share(overhead: u64, down: &[u32], up: &[u32]) -> Vec<(Instant, Direction, u32)> {
    let mut medium = medium(Duration::from_micros(3), Duration::from_micros(overhead), Duration::ZERO);
    for (direction, sizes) in [(Direction::Down, down), (Direction::Up, up)] {
        for (number, &bytes) in sizes.iter().enumerate() {
            medium.enqueue(
                Instant::ZERO,
                direction.index(),
                frame(number as u32, bytes, Priority::Normal),
                View::default,
            );
        }
    }
    let mut arrived = Vec::new();
    while let Some(now) = medium.poll_deadline() {
        if let Some((place, sent)) = medium.advance(now) {
            arrived.push((now, Direction::BOTH[place], sent.frame.handle().0));
        }
    }
    arrived
}

/// Two stations alternate while both have frames. Each frame takes its bytes and the overhead, and arrives a delay
/// later.
#[test]
fn a_shared_medium_alternates() {
    use Direction::{Down, Up};
    let arrived = share(10, &[50, 50, 50], &[20, 20]);
    let expected = [(63, Down, 0), (93, Up, 0), (153, Down, 1), (183, Up, 1), (243, Down, 2)];
    assert_eq!(arrived, expected.map(|(micros, direction, number)| (at(micros), direction, number)));
}

/// A station keeps sending if the other one has no frames.
#[test]
fn a_shared_medium_does_not_wait_for_the_silent() {
    let arrived = share(0, &[30, 30, 30], &[]);
    let expected = [33, 63, 93].map(at);
    assert_eq!(arrived.iter().map(|&(time, ..)| time).collect::<Vec<_>>(), expected);
}

/// An urgent frame precedes those queued at its station, but not the one on the air.
#[test]
fn urgent_frames_overtake_on_a_shared_medium() {
    let mut medium = medium(Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for (number, priority) in
        [Priority::Normal, Priority::Normal, Priority::Urgent, Priority::Urgent].into_iter().enumerate()
    {
        medium.enqueue(Instant::ZERO, Direction::Down.index(), frame(number as u32, 10, priority), View::default);
    }
    let mut order = Vec::new();
    while let Some(now) = medium.poll_deadline() {
        order.extend(medium.advance(now).map(|(_, sent)| sent.frame.handle().0));
    }
    assert_eq!(order, [0, 2, 3, 1]);
}

/// A frame returns all values that it was created with, at the bounds of its fields.
#[test]
fn frames_keep_what_they_are_told() {
    let packet = Packet {
        len: (1 << 20) - 1,
        header_len: 120,
        priority: Priority::Urgent,
        cause: lasthop_proto::packet::Cause::LocalTimer,
        ..Packet::default()
    };
    let frame = Frame::new(Handle(u32::MAX), &packet, u32::MAX as usize);
    assert_eq!((frame.handle(), frame.to()), (Handle(u32::MAX), u32::MAX as usize));
    assert_eq!((frame.payload(), frame.bytes()), ((1 << 20) - 1, (1 << 20) - 1 + 120));
    assert!(frame.is_urgent() && frame.is_resent());
    let plain = Frame::new(Handle(0), &Packet::default(), 0);
    assert!(!plain.is_urgent() && !plain.is_resent() && plain.bytes() == 0);
}

/// A CoDel queue without delay is a FIFO: each frame arrives at the reference's time, with a limit in packets and
/// urgent frames ahead of the others.
#[test]
fn a_managed_direction_sends_like_any_other_while_nothing_waits_long() {
    let delay = Duration::from_micros(40);
    let config = CoDelConfig { target: Duration::from_secs(1), ..CoDelConfig::default() };
    let queue = QueueSpec::CoDel(QueueLimit::Packets(1000), config);
    let spec = DirectionSpec { queue, ..spec(QueueLimit::Packets(1)) };
    let mut managed = ManagedDirection::new(&link(spec, delay), Direction::Down, Root(1));
    let priority = |n: u64| if n.is_multiple_of(5) { Priority::Urgent } else { Priority::Normal };
    let offers: Vec<_> =
        (0..200).map(|n| Offer { after: n * n % 37, bytes: 10 + n as u32 % 40, priority: priority(n) }).collect();
    let (mut fates, mut now) = (vec![None; offers.len()], Instant::ZERO);
    let run = |managed: &mut ManagedDirection, until: Option<Instant>, fates: &mut Fates| {
        while let Some(due) = managed.poll_deadline().filter(|due| until.is_none_or(|until| *due < until)) {
            if let Some(sent) = managed.advance(due) {
                fates[sent.frame.handle().0 as usize] = Some(due);
            }
        }
    };
    for (number, offer) in offers.iter().enumerate() {
        now += Duration::from_micros(offer.after);
        run(&mut managed, Some(now), &mut fates);
        managed.enqueue(now, frame(number as u32, offer.bytes, offer.priority), View::default);
    }
    run(&mut managed, None, &mut fates);
    assert!(managed.take_dropped().is_none());
    assert_eq!(fates, reference(&offers, QueueLimit::Packets(1000), delay));
}

/// CAKE's shaper decides when frames leave a faster link, and frames that precede the queue count.
#[test]
fn a_shaper_of_a_queue_spaces_frames() {
    // 1500 bytes take 1 ms.
    let config = CakeConfig { rate: Some(12_000_000), ..CakeConfig::default() };
    let spec =
        DirectionSpec { queue: QueueSpec::Cake(config), rate: Rate(1_200_000_000), ..spec(QueueLimit::Packets(1)) };
    let mut managed = ManagedDirection::new(&link(spec, Duration::ZERO), Direction::Down, Root(1));
    for (number, priority) in
        [Priority::Normal, Priority::Normal, Priority::Urgent, Priority::Normal].into_iter().enumerate()
    {
        managed.enqueue(Instant::ZERO, frame(number as u32, 1500, priority), View::default);
    }
    let mut arrived = Vec::new();
    while let Some(due) = managed.poll_deadline() {
        let sent = managed.advance(due);
        arrived.extend(sent.map(|sent| (sent.frame.handle().0, due.as_nanos() / 100_000)));
    }
    // In tenths of a millisecond.
    assert_eq!(arrived, [(0, 0), (2, 10), (1, 20), (3, 30)]);
}

/// A shared medium uses the same queue management. Drops of both stations are reported with their direction, and the
/// medium does not stall when all queued frames are dropped.
#[test]
fn a_shared_medium_manages_its_queues() {
    let config =
        CoDelConfig { target: Duration::from_micros(100), interval: Duration::from_millis(1), ecn: Switch::On };
    let managed =
        DirectionSpec { queue: QueueSpec::CoDel(QueueLimit::Packets(1000), config), ..spec(QueueLimit::Packets(1)) };
    let mut medium = SharedMedium::new(&link(managed, Duration::ZERO), Duration::ZERO, Duration::ZERO, Root(1));
    let markable = |number| {
        let packet = Packet { len: 1500, ecn: if number < 50 { Ecn::Ect0 } else { Ecn::NotEct }, ..Packet::default() };
        Frame::new(Handle(number), &packet, 0)
    };
    for number in 0..100 {
        let direction = if number < 50 { Direction::Down } else { Direction::Up };
        medium.enqueue(Instant::ZERO, direction.index(), markable(number), View::default);
    }
    let (mut arrived, mut marked, mut dropped) = (0, 0, 0);
    while let Some(due) = medium.poll_deadline() {
        if let Some((direction, sent)) = medium.advance(due) {
            arrived += 1;
            marked += u32::from(sent.frame.is_marked());
            assert!(!sent.frame.is_marked() || direction == Direction::Down.index());
        }
        while let Some((direction, ..)) = medium.take_dropped() {
            assert_eq!(direction, Direction::Up.index());
            dropped += 1;
        }
    }
    assert_eq!(arrived + dropped, 100);
    assert!(marked > 10 && dropped > 10, "{marked} {dropped}");
}
