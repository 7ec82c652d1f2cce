//! CoDel against Linux's integers and against schedules derived by hand; FQ-CoDel against the properties in RFC 8290.

extern crate std;

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::codel::tests_access;
use super::*;
use crate::random::Root;
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub flow: u32,
    pub number: u32,
    pub bytes: u32,
    pub capable: bool,
    pub marked: bool,
}

impl Queued for Item {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u32 {
        self.flow
    }
    fn mark(&mut self) -> bool {
        self.marked |= self.capable;
        self.marked
    }
}

pub(super) fn item(flow: u32, number: u32, bytes: u32) -> Item {
    Item { flow, number, bytes, capable: false, marked: false }
}

pub(super) fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Returns the source of the random numbers of a queue under test.
pub(super) fn draws() -> Stream {
    Root(5).stream("queue")
}

fn codel(ecn: Switch) -> ManagedQueue<Item> {
    let config = CoDelConfig { ecn, ..CoDelConfig::default() };
    ManagedQueue::new(&QueueSpec::CoDel(QueueLimit::Packets(1000), config), draws).unwrap()
}

fn fq_codel(config: FqCoDelConfig) -> ManagedQueue<Item> {
    ManagedQueue::new(&QueueSpec::FqCoDel(config), draws).unwrap()
}

/// 1/√count in units of 2⁻¹⁶ in Linux's integers, one Newton step for each count from 1: r·(3 - n·r²)/2 with r in 32
/// bits, of which 16 are kept.
#[test]
fn newton_steps_are_those_of_linux() {
    let first = [32_769, 36_864, 31_968, 28_935, 26_481, 24_588, 23_037, 21_746, 20_647, 19_699];
    let roots = tests_access::inverse_roots(1000);
    assert_eq!(roots[1..11], first);
    // The step has long caught up with the count: 65,536/√100, /√400 and /√1000, rounded down.
    assert_eq!((roots[99], roots[399], roots[999]), (6553, 3276, 2072));
}

/// 100 ms are 97,656 ticks of 1.024 µs.
#[test]
fn the_control_law_is_that_of_linux() {
    let spans = tests_access::spans(Duration::from_millis(100), 6);
    assert_eq!(spans, [97_654, 48_829, 54_931, 47_635, 43_116, 39_459]);
}

/// Times of drops or marks, in ms, while a line that was 200 packets long at time 0 sends one every 10 ms.
///
/// The second packet, at 10 ms, has waited more than 5 ms, which is tolerated until 110 ms. The first packet after
/// that, at 120 ms, starts dropping. The next drops are due 100.0, 50.0, 56.2, 48.8 and 44.1 ms after the previous due
/// time, and affect the next packet: 220, 270, 326.2, 375.0 and 419.2 ms.
const SCHEDULE: [u64; 6] = [120, 220, 270, 330, 380, 420];

#[test]
fn drops_follow_the_schedule() {
    let (mut queue, mut dropped) = (codel(Switch::Off), Vec::new());
    (0..200).for_each(|number| queue.push(ms(0), item(0, number, 1500), &mut dropped));
    let mut times = Vec::new();
    for at in (0..=420).step_by(10) {
        assert!(queue.pop(ms(at), &mut dropped).is_some());
        times.extend(dropped.drain(..).map(|_| at));
    }
    assert_eq!(times, SCHEDULE);
}

#[test]
fn marks_take_the_place_of_drops() {
    let (mut queue, mut dropped) = (codel(Switch::On), Vec::new());
    let capable = |number| Item { capable: true, ..item(0, number, 1500) };
    (0..200).for_each(|number| queue.push(ms(0), capable(number), &mut dropped));
    let mut times = Vec::new();
    for at in (0..=420).step_by(10) {
        let sent = queue.pop(ms(at), &mut dropped).unwrap();
        // No packet is missing.
        assert_eq!(u64::from(sent.number), at / 10);
        times.extend(sent.marked.then_some(at));
    }
    assert_eq!((times, dropped), (SCHEDULE.to_vec(), vec![]));
}

#[test]
fn what_takes_no_marks_is_dropped_under_ecn_too() {
    let (mut queue, mut dropped) = (codel(Switch::On), Vec::new());
    (0..200).for_each(|number| queue.push(ms(0), item(0, number, 1500), &mut dropped));
    let popped = (0..=42).filter_map(|turn| queue.pop(ms(turn * 10), &mut dropped)).count();
    assert_eq!((popped, dropped.len()), (43, SCHEDULE.len()));
}

/// CoDel drops nothing while delays stay below the target, or while at most one packet waits behind the first.
#[test]
fn short_waits_and_short_lines_are_left_alone() {
    let (mut queue, mut dropped) = (codel(Switch::Off), Vec::new());
    for turn in 0..1000 {
        queue.push(ms(turn * 10), item(0, 0, 1500), &mut dropped);
        queue.push(ms(turn * 10), item(0, 1, 1500), &mut dropped);
        queue.push(ms(turn * 10), item(0, 2, 1500), &mut dropped);
        // The last has waited 4 ms.
        (0..3).for_each(|n| assert!(queue.pop(ms(turn * 10 + 2 * n), &mut dropped).is_some()));
    }
    for turn in 1000..2000 {
        queue.push(ms(turn * 10), item(0, 0, 1500), &mut dropped);
        // A second one is behind all but the first.
        if turn > 1000 {
            assert!(queue.pop(ms(turn * 10), &mut dropped).is_some());
        }
    }
    assert_eq!(dropped, []);
}

/// After a pause shorter than 16 intervals dropping resumes at the rate that it had reached: after 10 drops, the first
/// distance is 1/√10 of an interval, one Newton step from the previous root.
#[test]
fn dropping_resumes_where_it_was() {
    let gaps = |pause: u64| {
        let (mut queue, mut dropped) = (codel(Switch::Off), Vec::new());
        let mut drop_times = |from: u64, count: usize| {
            (0..900).for_each(|number| queue.push(ms(from), item(0, number, 1500), &mut Vec::new()));
            let (mut times, mut at) = (Vec::new(), from + 10);
            while times.len() < count {
                queue.pop(ms(at), &mut dropped).unwrap();
                times.extend(dropped.drain(..).map(|_| at));
                at += 1;
            }
            while queue.pop(ms(at), &mut dropped).is_some() {}
            dropped.clear();
            (at, times[times.len() - 1] - times[times.len() - 2])
        };
        let (end, first) = drop_times(0, 11);
        (first, drop_times(end + pause, 2).1)
    };
    let (before, after) = gaps(50);
    assert!(after.abs_diff(before) <= 6, "{before} {after}");
    // After two seconds it starts again.
    assert_eq!(gaps(2000).1, 100);
}

/// Two flows that always have packets get equal shares in bytes, for any packet size.
#[test]
fn shares_are_equal_in_bytes() {
    let mut queue = fq_codel(FqCoDelConfig::default());
    let (mut dropped, mut sent) = (Vec::new(), [0u64; 2]);
    let mut now = 0;
    for turn in 0..20_000 {
        while queue.backlog().packets < 100 {
            queue.push(ms(now), item(0, turn, 1500), &mut dropped);
            (0..5).for_each(|_| queue.push(ms(now), item(1, turn, 300), &mut dropped));
        }
        let first = queue.pop(ms(now), &mut dropped).unwrap();
        sent[first.flow as usize] += u64::from(first.bytes);
        now = u64::from(turn) / 1000;
    }
    let [a, b] = sent;
    assert!(a.abs_diff(b) <= 2 * 1514, "{a} {b}");
}

/// RFC 8290 §4.2: a flow that builds no queue precedes those that do, once per turn.
#[test]
fn a_sparse_flow_goes_first() {
    let (mut queue, mut dropped) = (fq_codel(FqCoDelConfig::default()), Vec::new());
    (0..50).for_each(|number| queue.push(ms(0), item(0, number, 1500), &mut dropped));
    let numbers: Vec<u32> = (0..4).map(|_| queue.pop(ms(1), &mut dropped).unwrap().flow).collect();
    assert_eq!(numbers, [0; 4]);
    queue.push(ms(1), item(7, 0, 100), &mut dropped);
    assert_eq!(queue.pop(ms(2), &mut dropped).unwrap().flow, 7);
    // If it returns at once, it has to wait for its turn like any other.
    queue.push(ms(2), item(7, 1, 1500), &mut dropped);
    queue.push(ms(2), item(7, 2, 1500), &mut dropped);
    let flows: Vec<u32> = (0..6).map(|_| queue.pop(ms(3), &mut dropped).unwrap().flow).collect();
    assert!(flows[..3].contains(&0) && flows.contains(&7), "{flows:?}");
}

/// Packets beyond the limit are dropped from the head of the longest queue.
#[test]
fn the_fattest_flow_pays() {
    let config = FqCoDelConfig { limit: 10, drop_batch: 64, ..FqCoDelConfig::default() };
    let (mut queue, mut dropped) = (fq_codel(config), Vec::new());
    (0..8).for_each(|number| queue.push(ms(0), item(0, number, 1000), &mut dropped));
    (0..3).for_each(|number| queue.push(ms(0), item(1, number, 1000), &mut dropped));
    // Half of the 8,000 bytes.
    let gone: Vec<_> = dropped.iter().map(|item| (item.flow, item.number)).collect();
    assert_eq!(gone, [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert_eq!(queue.backlog(), Backlog { packets: 7, bytes: 7000 });
}

fn specs() -> impl Strategy<Value = QueueSpec> {
    let ecn = || prop_oneof![Just(Switch::On), Just(Switch::Off)];
    let codel = (0u64..50, 1u64..200, ecn()).prop_map(|(target, interval, ecn)| CoDelConfig {
        target: Duration::from_millis(target),
        interval: Duration::from_millis(interval),
        ecn,
    });
    let limit = prop_oneof![(1u32..40).prop_map(QueueLimit::Packets), (1u64..60_000).prop_map(QueueLimit::Bytes)];
    let fq = (codel.clone(), 1u32..8, 1u32..4000, 1u32..40, 1u64..60_000, 1u32..70).prop_map(
        |(codel, flows, quantum, limit, memory_limit, drop_batch)| {
            QueueSpec::FqCoDel(FqCoDelConfig { codel, flows, quantum, limit, memory_limit, drop_batch })
        },
    );
    let gains = (1u32..50, 1u32..1000);
    let controller = (limit.clone(), 0u64..30, 1u64..30, gains);
    let pie = (controller.clone(), ecn()).prop_map(|((limit, target, update, (alpha, beta)), ecn)| {
        let [target, update] = [target, update].map(Duration::from_millis);
        QueueSpec::Pie(PieConfig { limit, target, update, alpha, beta, ecn })
    });
    let overload = prop_oneof![Just(Overload::Drop), Just(Overload::Overflow)];
    let dual = (controller, 1u32..5, (0u64..5, 0u32..3), 0u32..=100, overload);
    let dual = dual.prop_map(
        |((limit, target, update, (alpha, beta)), coupling, (step, step_queue), classic_share, overload)| {
            let [target, update, step] = [target, update, step].map(Duration::from_millis);
            QueueSpec::DualPi2(DualPi2Config {
                limit,
                target,
                update,
                alpha,
                beta,
                coupling,
                step,
                step_queue,
                classic_share,
                overload,
            })
        },
    );
    let tins = prop_oneof![Just(Tins::BestEffort), Just(Tins::Diffserv3), Just(Tins::Diffserv4)];
    let isolation = prop_oneof![
        Just(Isolation::Flows),
        Just(Isolation::Sources),
        Just(Isolation::Destinations),
        Just(Isolation::Triple)
    ];
    let cake = (prop::option::of(8u64..100_000_000), 0u64..50, 1u64..200, tins, isolation, ecn(), 3000u64..60_000)
        .prop_map(|(rate, target, interval, tins, isolation, ack_filter, memory)| {
            let [target, interval] = [target, interval].map(Duration::from_millis);
            let memory = Some(memory);
            QueueSpec::Cake(CakeConfig { rate, target, interval, tins, isolation, ack_filter, memory })
        });
    prop_oneof![(limit, codel).prop_map(|(limit, codel)| QueueSpec::CoDel(limit, codel)), fq, pie, dual, cake]
}

/// Returns a view that depends on a number: a flow always has the same hosts and DSCP.
fn view(flow: u32, number: u32) -> View {
    let ack = if number.is_multiple_of(3) { Sight::Plain(Seq(number)) } else { Sight::Other };
    let ecn = Ecn::from_bits(flow as u8);
    View { ack, ecn, service: [0, 8, 46][flow as usize % 3], hosts: [flow / 2, flow / 3] }
}

proptest! {
    /// Each packet leaves once, sent or dropped, each flow's in order; the limits hold; and the queue drains.
    #[test]
    fn nothing_is_lost_but_what_is_told(
        spec in specs(),
        steps in prop::collection::vec((0u32..6, 40u32..3000, any::<bool>(), 0u64..30, any::<bool>()), 1..300),
    ) {
        let mut queue = ManagedQueue::new(&spec, draws).unwrap();
        let (mut out, mut now, mut dropped, mut filtered) = (BTreeSet::new(), 0, Vec::new(), Vec::new());
        let mut last = [None; 6];
        let mut check = |sent: &Item| {
            let in_order = last[sent.flow as usize] < Some(sent.number);
            last[sent.flow as usize] = Some(sent.number);
            in_order && (!sent.marked || sent.capable)
        };
        for (number, &(flow, bytes, capable, wait, pops)) in steps.iter().enumerate() {
            now += wait;
            let number = number as u32;
            let look = || view(flow, number);
            queue.push_seen(ms(now), Item { capable, ..item(flow, number, bytes) }, look, &mut dropped, &mut filtered);
            let Backlog { packets, bytes } = queue.backlog();
            let holds = match spec {
                QueueSpec::CoDel(QueueLimit::Packets(limit), _) => packets <= limit,
                QueueSpec::CoDel(QueueLimit::Bytes(limit), _) => bytes <= limit,
                QueueSpec::FqCoDel(config) => packets <= config.limit && bytes <= config.memory_limit,
                QueueSpec::Pie(_) | QueueSpec::DualPi2(_) | QueueSpec::Cake(_) => match spec.limit() {
                    QueueLimit::Packets(limit) => packets <= limit,
                    QueueLimit::Bytes(limit) => bytes <= limit,
                },
                QueueSpec::Fifo(_) | QueueSpec::AckAware(_) => false,
            };
            prop_assert!(holds);
            if pops && let Some(sent) = queue.pop(ms(now), &mut dropped) {
                prop_assert!(check(&sent));
                prop_assert!(out.insert(sent.number));
            }
        }
        while let Some(sent) = queue.pop(ms(now), &mut dropped) {
            prop_assert!(check(&sent));
            prop_assert!(out.insert(sent.number));
            now += 5;
        }
        prop_assert_eq!(queue.backlog(), Backlog::default());
        for gone in dropped.iter().chain(&filtered) {
            prop_assert!(out.insert(gone.number));
        }
        prop_assert_eq!(out.len(), steps.len());
    }
}
