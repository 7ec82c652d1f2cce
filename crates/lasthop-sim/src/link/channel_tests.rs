use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::packet::{FlowId, Packet};

use super::*;
use crate::link::Handle;
use crate::network::{DamagedFrames, DirectionSpec, Impairments, Medium, NodeId, QueueLimit, Rate};

/// Returns a chain of hops of 1 Mbps and 1 us. A frame of 125 bytes takes 1 ms, 2 ms with the overhead.
fn chain(hops: usize) -> SharedChannel {
    let direction = || DirectionSpec {
        rate: Rate(1_000_000),
        queue: QueueLimit::Packets(3).into(),
        errors: ErrorSpec::None,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    };
    let frame_overhead = Duration::from_millis(1);
    let link = |index: usize| LinkSpec {
        name: format!("hop{index}"),
        ends: [NodeId(index), NodeId(index + 1)],
        medium: Medium::Shared { frame_overhead, channel: 0 },
        delay: Duration::from_micros(1),
        directions: [direction(), direction()],
    };
    let links: Vec<_> = (0..hops).map(link).collect();
    SharedChannel::new(&links.iter().collect::<Vec<_>>(), Root(1))
}

fn frame(number: u32) -> Frame {
    Frame::new(Handle(number), &Packet { flow: FlowId(0), len: 125, ..Packet::default() }, 0)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Runs the channel. Returns the end of transmission in milliseconds, the hop, and the number of each frame that
/// arrives.
fn run(channel: &mut SharedChannel) -> Vec<(u64, usize, u32)> {
    let mut arrived = Vec::new();
    while let Some(now) = channel.poll_deadline() {
        if let Some((place, sent)) = channel.advance(now) {
            arrived.push((sent.end.as_nanos() / 1_000_000, StationId(place).hop(), sent.frame.handle().0));
        }
    }
    arrived
}

/// One frame on each of five hops, queued in the order 0, 1, 2, 3, 4. Hop 0 begins; 1 and 2 exclude it. 3 does not, but
/// excludes 1, which has an older claim. So each waits for those before it within two hops: 1 for 0, 2 for 1, 3 for 2,
/// and so on.
#[test]
fn an_older_claim_keeps_younger_neighbours_back() {
    let mut channel = chain(5);
    for hop in 0..5 {
        channel.enqueue(at(0), StationId::new(hop, Direction::Down).0, frame(hop as u32), View::default);
    }
    assert_eq!(run(&mut channel), [(2, 0, 0), (4, 1, 1), (6, 2, 2), (8, 3, 3), (10, 4, 4)]);
}

/// One of three adjacent hops sends at a time: hops 0 and 3 send together, 1 and 4 after them, then 2.
#[test]
fn hops_far_enough_apart_send_together() {
    let mut channel = chain(5);
    for hop in [0, 3, 1, 4, 2] {
        channel.enqueue(at(0), StationId::new(hop, Direction::Down).0, frame(hop as u32), View::default);
    }
    assert_eq!(run(&mut channel), [(2, 0, 0), (2, 3, 3), (4, 1, 1), (4, 4, 4), (6, 2, 2)]);
}

/// The two stations of a hop, and those of its neighbours, take turns.
#[test]
fn stations_take_turns() {
    let mut channel = chain(2);
    for number in 0..2 {
        for (index, (hop, direction)) in
            [(0, Direction::Down), (0, Direction::Up), (1, Direction::Down), (1, Direction::Up)].into_iter().enumerate()
        {
            channel.enqueue(at(0), StationId::new(hop, direction).0, frame(10 * number + index as u32), View::default);
        }
    }
    let order: Vec<_> = run(&mut channel).into_iter().map(|(_, _, number)| number).collect();
    assert_eq!(order, [0, 1, 2, 3, 10, 11, 12, 13]);
}

/// Three frames fit in the queue behind the one on the air, which needs no space.
#[test]
fn a_queue_has_its_limit() {
    let mut channel = chain(1);
    let StationId(station) = StationId::new(0, Direction::Up);
    let accepted: Vec<_> = (0..5).map(|number| channel.enqueue(at(0), station, frame(number), View::default)).collect();
    assert_eq!(accepted[0], Accepted::Next(at(2)));
    assert_eq!(accepted[1..4], [Accepted::Queued; 3]);
    assert_eq!((accepted[4], channel.waiting(station)), (Accepted::Dropped, 3));
    assert_eq!(run(&mut channel).len(), 4);
}

/// Tests with pseudo-random arrivals: each frame arrives once, in the order of its station, and two hops that exclude
/// each other are never on the air together.
#[test]
fn at_most_one_of_three_adjacent_hops_sends() {
    for hops in 1..7 {
        let mut channel = chain(hops);
        let (mut sent, mut arrived, mut state) = (0u32, Vec::new(), 1u64);
        while sent < 500 || channel.poll_deadline().is_some() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let now = Instant::ZERO + Duration::from_micros(u64::from(sent) * 700);
            match channel.poll_deadline().filter(|&next| sent >= 500 || next <= now) {
                Some(next) => arrived.extend(channel.advance(next).map(|(place, got)| (place, got.frame.handle().0))),
                None => {
                    let place = (state >> 33) as usize % (2 * hops);
                    if channel.waiting(place) < 3 {
                        channel.enqueue(now, place, frame(sent), View::default);
                    }
                    sent += 1;
                }
            }
            let on_air: Vec<_> = (0..hops).filter(|&hop| channel.hops[hop].on_air.is_some()).collect();
            assert!(on_air.windows(2).all(|pair| pair[1] - pair[0] >= 3), "{on_air:?}");
        }
        let mut numbers: Vec<_> = arrived.iter().map(|&(_, number)| number).collect();
        for station in 0..2 * hops {
            let own: Vec<_> = arrived.iter().filter(|(place, _)| *place == station).collect();
            assert!(own.is_sorted_by_key(|(_, number)| *number));
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == arrived.len() && numbers.len() > 60, "{} of {hops} hops", numbers.len());
    }
}
