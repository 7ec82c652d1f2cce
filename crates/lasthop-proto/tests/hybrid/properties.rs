//! Random channels and hostile frames: no packet twice, order per flow, bounded memory, no activity at the end.

use std::collections::BTreeSet;

use lasthop_proto::link::hybrid::node::TwoEnded;
use lasthop_proto::link::hybrid::{Class, Header, Image, Label, PathId, Repair, Reports};
use lasthop_proto::node::{Node, Port};
use lasthop_proto::packet::{Body, Cause, LinkReport, Packet};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::link::*;

/// Time at which the channel becomes lossless.
const CLEAN: u64 = 5_000;

/// Fate of a frame while the channel is bad.
#[derive(Clone, Debug)]
enum Fate {
    Lost,
    Once(u64),
    Twice(u64, u64),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let delay = || prop_oneof![8 => Just(30u64), 2 => 10u64..60, 1 => 0u64..1_000];
    let fate = prop_oneof![
        2 => Just(Fate::Lost),
        8 => delay().prop_map(Fate::Once),
        1 => (delay(), delay()).prop_map(|(first, second)| Fate::Twice(first, second)),
    ];
    prop::collection::vec(fate, 1..200)
}

fn repair() -> impl Strategy<Value = Repair> {
    let airmail = prop_oneof![Just(Reports::Periodic), Just(Reports::OnEvent)].prop_map(Repair::Airmail);
    prop_oneof![Just(Repair::Repeat), Just(Repair::Adaptive), airmail, Just(SHARE)]
}

fn channel(fates: Vec<Fate>) -> impl FnMut(Instant, usize, &Packet) -> Vec<Duration> {
    let mut fates = fates.into_iter().cycle();
    move |now, _, _| match fates.next() {
        _ if now >= ms(CLEAN) => vec![millis(30)],
        Some(Fate::Once(after)) => vec![millis(after)],
        Some(Fate::Twice(first, second)) => vec![millis(first), millis(second)],
        Some(Fate::Lost) | None => vec![],
    }
}

/// Returns packets to offer: delay after the previous one, end, and flow.
fn traffic() -> impl Strategy<Value = Vec<(u64, usize, u32)>> {
    prop::collection::vec((0u64..40, 0usize..2, 0u32..4), 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Flows 0 and 1 are streams, 2 and 3 calls. Packets that were not given up, dropped or released early have
    /// arrived, streams in order.
    #[test]
    fn whatever_the_channel_does(fates in fates(), repair in repair(), traffic in traffic()) {
        let mut link = Link::new(config(repair), channel(fates));
        let mut offered = [0; 2];
        for (number, (pause, end, flow)) in traffic.into_iter().enumerate() {
            let next = link.now + millis(pause);
            link.run_until(next);
            let number = number as u32;
            link.offer(end, if flow < 2 { segment(flow, number) } else { datagram(flow, number) });
            offered[end] += 1;
        }
        link.run_until(ms(120_000));
        for (end, offered) in offered.into_iter().enumerate() {
            let taken: BTreeSet<u32> = link.taken[1 - end].iter().map(|(_, packet)| number(packet)).collect();
            prop_assert_eq!(taken.len(), link.taken[1 - end].len());
            let (sent, received) = (link.ends[end].hop().counters(), link.ends[1 - end].hop().counters());
            if repair == SHARE {
                continue;
            }
            // Given-up packets may have arrived nevertheless, if all feedback on them was lost.
            prop_assert!(taken.len() as u64 + sent.dropped + sent.given_up >= offered, "{:?}", sent);
            if sent.given_up == 0 && received.released == 0 {
                for flow in 0..2 {
                    let numbers = link.numbers(1 - end, flow);
                    prop_assert!(numbers.is_sorted(), "{:?}", numbers);
                }
            }
        }
        prop_assert_eq!(link.ends.each_ref().map(|end| end.poll_deadline()), [None, None]);
        // The link works as before.
        for end in 0..2 {
            (1_000..1_020).for_each(|number| link.offer(end, segment(0, number)));
        }
        link.run_until(ms(130_000));
        for end in 0..2 {
            let numbers = link.numbers(end, 0);
            prop_assert!(numbers.ends_with(&(1_000..1_020).collect::<Vec<u32>>()), "{:?}", numbers);
        }
    }

    /// Frames of all kinds at any time, genuine ones among them.
    #[test]
    fn hostile_frames(repair in repair(), steps in prop::collection::vec(step(), 1..300)) {
        let mut ends = [TwoEnded::new(config(repair)), TwoEnded::new(config(repair))];
        let (mut now, mut on_the_way) = (Instant::ZERO, Vec::new());
        for step in &steps {
            let (end, outputs) = match step {
                Step::Offer(end, flow) => (*end, feed(&mut ends[*end], now, Port::WIRED, segment(*flow, 1))),
                Step::Hostile(end, packet) => (*end, feed(&mut ends[*end], now, Port::WIRELESS, *packet)),
                Step::Deliver(end, index) => {
                    let Some((to, packet)) = on_the_way.get(*index % on_the_way.len().max(1)).copied() else { continue };
                    let _: Packet = packet;
                    let _: usize = to;
                    (*end, feed(&mut ends[*end], now, Port::WIRELESS, packet))
                }
                Step::Wait(span) => {
                    now += *span;
                    (0, [wake(&mut ends[0], now), wake(&mut ends[1], now)].concat())
                }
                Step::Deadline(end) => {
                    now = ends[*end].poll_deadline().map_or(now, |at| at.max(now));
                    (*end, wake(&mut ends[*end], now))
                }
            };
            prop_assert!(outputs.len() <= 5_000, "{} outputs", outputs.len());
            ends.iter().for_each(check);
            on_the_way.extend(outputs.into_iter().filter(|(port, _)| *port == Port::WIRELESS).map(|(_, p)| (end, p)));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer(usize, u32),
    Hostile(usize, Packet),
    Deliver(usize, usize),
    Wait(Duration),
    Deadline(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        4 => (0u64..20).prop_map(millis),
        1 => (0u64..5_000).prop_map(millis),
        1 => any::<u64>().prop_map(|nanos| Duration::from_nanos(nanos >> 8)),
    ];
    prop_oneof![
        3 => (0usize..2, 0u32..5000).prop_map(|(end, flow)| Step::Offer(end, flow)),
        4 => (0usize..2, hostile()).prop_map(|(end, packet)| Step::Hostile(end, packet)),
        3 => (0usize..2, any::<usize>()).prop_map(|(end, index)| Step::Deliver(end, index)),
        2 => wait.prop_map(Step::Wait),
        2 => (0usize..2).prop_map(Step::Deadline),
    ]
}

fn hostile() -> impl Strategy<Value = Packet> {
    let number = || prop_oneof![4 => 0u32..40, 1 => 0u32..20_000, 1 => any::<u32>()];
    let class = prop_oneof![Just(Class::Ordered), Just(Class::RealTime), Just(Class::AtOnce)];
    let data = (number(), number(), class, any::<u8>()).prop_map(|(packet, symbol, class, chain)| {
        let link = Header::Symbol { packet, symbol, label: Label { class, chain } }.into();
        Packet { link, ..segment(symbol % 7, symbol) }
    });
    let repair =
        (number(), number(), any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(packet, first, count, key, fill)| {
            let link = Header::Repair { packet, first, count, key }.into();
            Packet { link, body: Body::Coded(Image([fill; 76])), ..Packet::default() }
        });
    let words = || prop_oneof![Just([0; 4]), Just([u32::MAX; 4]), any::<[u32; 4]>()];
    let feedback = ((number(), number(), any::<u32>()), number(), words(), words(), any::<[u32; 3]>()).prop_map(
        |((packet, largest, delay), floor, received, beyond, [delivered, useful, marked])| {
            let report = LinkReport {
                largest,
                delay,
                received,
                floor,
                beyond,
                delivered,
                useful,
                marked,
                arrived: 0,
                back: 0,
                path: 0,
            };
            Packet { link: Header::Feedback { packet }.into(), body: Body::Report(report), ..Packet::default() }
        },
    );
    let floor = (number(), number()).prop_map(|(packet, symbol)| Packet {
        link: Header::Floor { packet, symbol }.into(),
        body: Body::Control,
        ..Packet::default()
    });
    prop_oneof![data, repair, feedback, floor]
}

/// Without losses, only data and feedback are sent, in both directions, for any repair.
#[test]
fn no_loss_no_repair() {
    for repair in
        [Repair::Repeat, Repair::Adaptive, Repair::Airmail(Reports::Periodic), Repair::Airmail(Reports::OnEvent)]
    {
        let mut link = Link::new(config(repair), |_, _, _| vec![millis(30)]);
        for number in 0..20_000 {
            link.offer(0, segment(number % 3, number));
            link.offer(1, datagram(9, number));
            if number % 7 == 0 {
                link.offer(0, datagram(8, number));
            }
            let next = link.now + Duration::from_micros(1_150);
            link.run_until(next);
        }
        link.run_until(ms(60_000));
        for end in 0..2 {
            let plain =
                |packet: &Packet| matches!(Header::of(packet), Some(Header::Symbol { .. } | Header::Feedback { .. }));
            assert!(link.sent[end].iter().all(|(_, packet, _)| plain(packet)));
            let counters = link.ends[end].hop().counters();
            assert_eq!((counters.resent, counters.redundant, counters.given_up, counters.released), (0, 0, 0, 0));
            assert_eq!(link.taken[end].len() as u64 + link.ends[1 - end].hop().counters().dropped, {
                if end == 0 { 20_000 } else { 20_000 + 2_858 }
            });
        }
    }
}

/// A million packets over a lossless hop: only data and feedback are sent.
#[test]
fn a_million_packets_without_a_loss_and_not_one_repair() {
    let mut link = Link::new(config(Repair::Adaptive), |_, _, _| vec![millis(30)]);
    let (mut taken, mut feedback) = (0, 0);
    for number in 0..1_000_000 {
        link.offer(0, segment(number % 3, number));
        let next = link.now + Duration::from_micros(1_010);
        link.run_until(next);
        if number % 1000 == 999 {
            let plain =
                |packet: &Packet| matches!(Header::of(packet), Some(Header::Symbol { .. } | Header::Feedback { .. }));
            for sent in &mut link.sent {
                assert!(sent.drain(..).all(|(_, packet, _)| plain(&packet)));
            }
            taken += std::mem::take(&mut link.taken[1]).len();
        }
    }
    link.run_until(ms(1_020_000));
    taken += link.taken[1].len();
    for end in &link.ends {
        let counters = end.hop().counters();
        assert_eq!((counters.resent, counters.redundant, counters.given_up, counters.dropped), (0, 0, 0, 0));
        feedback += counters.feedback;
    }
    assert_eq!(taken, 1_000_000);
    // 96 bytes each, of the reverse direction's capacity in that time; 8 frames of its share are credit.
    let share = (feedback * 96 * 8) as f64 / (RATE as f64 * 1010.0);
    assert!(share < 0.020_001, "{share}");
}

/// Losses of 0, 1, 10, 0 %: every hundredth and every tenth frame. The estimate follows within 2 s, and repair ends
/// within 3 s after the last loss.
#[test]
fn losses_that_change_are_followed() {
    for repair in [Repair::Repeat, Repair::Adaptive] {
        let mut count = 0_u32;
        let channel = |now: Instant, end: usize, _: &Packet| {
            let every = match now.as_nanos() / 1_000_000_000 {
                5..10 => 100,
                10..15 => 10,
                _ => 0,
            };
            count += u32::from(end == 0);
            let lost = end == 0 && every > 0 && count.is_multiple_of(every);
            if lost { vec![] } else { vec![millis(30)] }
        };
        let mut link = Link::new(config(repair), channel);
        let mut wrong = Vec::new();
        for number in 0..21_000 {
            link.offer(0, segment(number % 3, number));
            // With a call, for which copies are sent.
            if number % 20 == 0 {
                link.offer(0, datagram(9, number));
            }
            let next = link.now + Duration::from_micros(1_190);
            link.run_until(next);
            let (at, loss) = (link.now.as_nanos() / 1_000_000, link.ends[0].hop().loss(PathId::FIRST));
            let expected = match at {
                2_000..5_000 | 17_250.. => 0,
                7_000..10_000 => 10_000,
                12_000..15_000 => 100_000,
                _ => continue,
            };
            if loss.abs_diff(expected) > expected / 5 {
                wrong.push((at, loss));
            }
        }
        assert!(wrong.is_empty(), "{repair:?}: {} times, {:?}", wrong.len(), &wrong[..wrong.len().min(10)]);
        link.run_until(ms(40_000));
        let is_repair = |packet: &Packet| {
            matches!(packet.cause, Cause::LinkNack | Cause::LinkTimer | Cause::LinkRepair)
                || !matches!(Header::of(packet), Some(Header::Symbol { .. } | Header::Feedback { .. }))
        };
        let last_loss = link.sent[0].iter().filter(|sent| sent.2).map(|sent| sent.0).max().unwrap();
        let last_repair = link.sent[0].iter().filter(|sent| is_repair(&sent.1)).map(|sent| sent.0).max().unwrap();
        assert!(last_repair > last_loss && last_repair <= last_loss + millis(3_000), "{last_loss} {last_repair}");
    }
}
