//! Tests of recorded delivery opportunities against the rules of mahimahi's `mm-link`.

use std::collections::VecDeque;
use std::sync::Arc;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::packet::Packet;
use lasthop_proto::queue::View;
use lasthop_proto::random::Root;
use lasthop_proto::rate::{Offset, Opportunities, Rate, RateSpec, Wrap};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use crate::link::{Accepted, Direction, Frame, Handle, ManagedDirection};
use crate::network::{DamagedFrames, DirectionSpec, Impairments, LinkSpec, Medium, NodeId, QueueLimit};

/// A packet handed to the link: time in milliseconds, and bytes as mahimahi counts them, with 4 of packet information.
type Offer = (u64, u32);
/// Number of a packet and its departure in milliseconds.
type Departure = (usize, u64);

/// Trace, offered packets, limit of the queue, and the departures.
type Case<'a> = (&'a [u32], &'a [Offer], QueueLimit, &'a [Departure]);

fn direction(trace: &[u32], limit: QueueLimit, wrap: Wrap) -> ManagedDirection {
    let trace = Opportunities::new(Arc::new(trace.to_vec()), wrap, Offset::At(Duration::ZERO)).unwrap();
    let spec = DirectionSpec {
        rate: Rate(1_000_000),
        queue: limit.into(),
        errors: ErrorSpec::None,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments { rate: RateSpec::Opportunities(trace), ..Impairments::NONE },
    };
    let link = LinkSpec {
        name: "x".to_owned(),
        ends: [NodeId(0), NodeId(1)],
        medium: Medium::Duplex,
        delay: Duration::ZERO,
        directions: [spec.clone(), spec],
    };
    ManagedDirection::new(&link, Direction::Down, Root(1))
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn simulated(trace: &[u32], limit: QueueLimit, wrap: Wrap, offers: &[Offer]) -> Vec<Departure> {
    let mut link = direction(trace, limit, wrap);
    let mut left = Vec::new();
    let mut run = |link: &mut ManagedDirection, until: Instant| {
        // An event at the time of an arrival may come before or after it.
        while let Some(due) = link.poll_deadline().filter(|due| *due < until) {
            if let Some(sent) = link.advance(due) {
                left.push((sent.frame.handle().0 as usize, due.as_nanos() / 1_000_000));
            }
        }
    };
    for (number, (at, bytes)) in offers.iter().enumerate() {
        run(&mut link, ms(*at));
        let frame = Frame::new(Handle(number as u32), &Packet { len: bytes - 4, ..Packet::default() }, 0);
        assert_eq!(frame.bytes() + 4, *bytes);
        let _: Accepted = link.enqueue(ms(*at), frame, View::default);
    }
    run(&mut link, Instant::FAR_FUTURE);
    left
}

/// `link_queue.cc` of mahimahi at ae477d4, by its rules: before an arrival every opportunity up to its millisecond is
/// used.
struct Mahimahi<'a> {
    trace: &'a [u32],
    next: usize,
    base: u64,
    queue: VecDeque<(usize, u32)>,
    in_transit: Option<(usize, u32)>,
    packets: usize,
    left: Vec<Departure>,
}

impl Mahimahi<'_> {
    fn rationalize(&mut self, now: u64) {
        loop {
            let this = self.base + u64::from(self.trace[self.next]);
            if this > now {
                return;
            }
            let mut room = 1504;
            while room > 0 {
                let Some((number, bytes)) = self.in_transit.take().or_else(|| self.queue.pop_front()) else { break };
                let moved = room.min(bytes);
                room -= moved;
                if moved == bytes {
                    self.left.push((number, this));
                } else {
                    self.in_transit = Some((number, bytes - moved));
                }
            }
            self.next += 1;
            if self.next == self.trace.len() {
                self.next = 0;
                self.base += u64::from(self.trace[self.trace.len() - 1]);
            }
        }
    }
}

fn original(trace: &[u32], packets: usize, offers: &[Offer]) -> Vec<Departure> {
    let (queue, in_transit) = (VecDeque::new(), None);
    let mut link = Mahimahi { trace, next: 0, base: 0, queue, in_transit, packets, left: Vec::new() };
    for (number, (at, bytes)) in offers.iter().enumerate() {
        link.rationalize(*at);
        if link.queue.len() < link.packets {
            link.queue.push_back((number, *bytes));
        }
    }
    let mut now = offers.last().map_or(0, |offer| offer.0);
    while link.in_transit.is_some() || !link.queue.is_empty() {
        now += 1;
        link.rationalize(now);
    }
    link.left
}

/// Departures of the original, compiled with a virtual clock.
#[test]
fn packets_leave_at_the_times_of_mahimahi() {
    const ALL: QueueLimit = QueueLimit::Packets(1000);
    let cases: [Case<'_>; 8] = [
        (&[2, 4, 10], &[(0, 1504); 3], ALL, &[(0, 2), (1, 4), (2, 10)]),
        (&[2, 4, 10], &[(2, 1504), (4, 1504), (10, 1504)], ALL, &[(0, 4), (1, 10), (2, 12)]),
        (&[5], &[(0, 504); 4], ALL, &[(0, 5), (1, 5), (2, 10), (3, 10)]),
        (&[2, 4, 10], &[(0, 1000); 3], ALL, &[(0, 2), (1, 4), (2, 4)]),
        (&[2, 4, 10], &[(3, 1504), (11, 100), (13, 100)], ALL, &[(0, 4), (1, 12), (2, 14)]),
        (&[0, 0, 7], &[(0, 1504); 5], ALL, &[(0, 7), (1, 7), (2, 7), (3, 14), (4, 14)]),
        (&[10], &[(0, 1504); 4], QueueLimit::Packets(2), &[(0, 10), (1, 20)]),
        (
            &[10],
            &[(0, 1000), (0, 1000), (11, 1000), (11, 1000), (11, 1000)],
            QueueLimit::Packets(2),
            &[(0, 10), (1, 20), (2, 20), (3, 30)],
        ),
    ];
    for (trace, offers, limit, left) in cases {
        assert_eq!(simulated(trace, limit, Wrap::Repeat, offers), left, "{trace:?} {offers:?}");
    }
}

#[test]
fn nothing_leaves_after_a_trace_that_is_not_repeated() {
    let all = QueueLimit::Packets(1000);
    assert_eq!(simulated(&[2, 4], all, Wrap::Stop, &[(0, 1504), (0, 1000), (0, 1000)]), [(0, 2), (1, 4)]);
}

/// A link is used for as long as its mean rate takes for the bytes that it sent.
#[test]
fn utilisation_is_that_of_the_mean_rate() {
    // 1504 bytes every 2 ms.
    let mut link = direction(&[2], QueueLimit::Packets(1000), Wrap::Repeat);
    for number in 0..10 {
        link.enqueue(ms(0), Frame::new(Handle(number), &Packet { len: 752, ..Packet::default() }, 0), View::default);
    }
    while let Some(due) = link.poll_deadline() {
        link.advance(due);
    }
    assert!((link.busy(ms(100)).as_secs_f64() - 0.010).abs() < 1e-9);
}

proptest! {
    /// Every departure is that of the original, for any trace, packets and queue.
    #[test]
    fn any_packets_leave_at_the_times_of_the_original(
        gaps in prop::collection::vec(0u32..12, 1..30),
        last in 1u32..20,
        given in prop::collection::vec((0u64..15, prop_oneof![Just(1504u32), Just(44), 5u32..1504]), 1..80),
        packets in prop_oneof![1usize..6, Just(1000)],
    ) {
        let mut time = 0;
        let mut trace: Vec<u32> = gaps.iter().map(|gap| { time += gap; time }).collect();
        trace.push(time + last);
        let mut now = 0;
        let offers: Vec<Offer> = given.iter().map(|(after, bytes)| { now += after; (now, *bytes) }).collect();
        let limit = QueueLimit::Packets(packets as u32);
        prop_assert_eq!(simulated(&trace, limit, Wrap::Repeat, &offers), original(&trace, packets, &offers));
    }
}

/// Compares with departures that the original wrote. The folder LASTHOP_MAHIMAHI has, for each trace NAME, the files
/// `NAME.trace`, `NAME.offers` (lines of milliseconds and bytes), `NAME.left` (lines of packet and milliseconds, from
/// the original) and `NAME.packets` (limit of the queue).
#[test]
#[ignore = "needs LASTHOP_MAHIMAHI: departures of the original"]
#[allow(clippy::disallowed_methods, reason = "the variable names the recordings")]
fn recorded_departures_of_the_original_are_met() {
    let Some(folder) = std::env::var_os("LASTHOP_MAHIMAHI") else { return };
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    let pairs = |text: &str| -> Vec<(u64, u64)> {
        let pair = |line: &str| line.split_once(' ').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap();
        text.lines().map(pair).collect()
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.extension().is_some_and(|extension| extension == "trace")) {
        let of = |extension: &str| read(&path.with_extension(extension));
        let trace = lasthop_proto::rate::read_opportunities(of("trace").as_bytes()).unwrap();
        let offers: Vec<Offer> = pairs(&of("offers")).iter().map(|&(at, bytes)| (at, bytes as u32)).collect();
        let left: Vec<Departure> = pairs(&of("left")).iter().map(|&(number, at)| (number as usize, at)).collect();
        let limit = QueueLimit::Packets(of("packets").trim().parse().unwrap());
        let found = simulated(&trace, limit, Wrap::Repeat, &offers);
        let differences = found.iter().zip(&left).filter(|(a, b)| a != b).count() + found.len().abs_diff(left.len());
        println!("{}: {} offered, {} left, {differences} differences", path.display(), offers.len(), left.len());
        assert_eq!(differences, 0);
    }
}
