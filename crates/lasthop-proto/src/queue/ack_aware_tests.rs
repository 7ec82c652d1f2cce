//! Sequences derived by hand from RFC 3449 §5.2.1 and §5.4.2, and properties of arbitrary sequences.

extern crate std;

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::packet::{Body, SackBlock, SackBlocks, Segment};

/// A packet: its flow, its number among all packets, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    flow: u32,
    number: u32,
    bytes: u32,
}

impl Queued for Item {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u32 {
        self.flow
    }
    fn mark(&mut self) -> bool {
        false
    }
}

fn config(filter: Switch, first: Switch) -> AckAwareConfig {
    AckAwareConfig { limit: QueueLimit::Packets(8), filter, first }
}

/// A queue and its results.
struct Bench {
    queue: AckAware<Item>,
    came: u32,
    dropped: Vec<u32>,
}

impl Bench {
    fn new(config: AckAwareConfig) -> Self {
        Self { queue: AckAware::new(config), came: 0, dropped: Vec::new() }
    }

    /// Enqueues the next packet, numbered from 0.
    fn push(&mut self, flow: u32, sight: Sight) -> &mut Self {
        let item = Item { flow, number: self.came, bytes: if sight == Sight::Other { 1500 } else { 40 } };
        self.came += 1;
        let mut dropped = Vec::new();
        self.queue.push(item, sight, &mut dropped);
        self.dropped.extend(dropped.iter().map(|item| item.number));
        self
    }

    fn acks(&mut self, numbers: &[u32]) -> &mut Self {
        for &number in numbers {
            self.push(0, Sight::Plain(Seq(number)));
        }
        self
    }

    fn drain(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.queue.pop()).map(|item| item.number).collect()
    }
}

/// RFC 3449 §5.2.1: an acknowledgment about to be queued removes the older ones of its connection. Of those that
/// arrived while the link was busy, one is left.
#[test]
fn one_acknowledgment_says_what_all_before_it_said() {
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.acks(&[1000, 2000, 3000, 4000]);
    assert_eq!((bench.dropped.clone(), bench.queue.backlog()), ([0, 1, 2].into(), Backlog { packets: 1, bytes: 40 }));
    assert_eq!(bench.drain(), [3]);
    // Numbers wrap.
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.acks(&[u32::MAX - 100, 300]);
    assert_eq!((bench.drain(), &bench.dropped[..]), ([1].into(), &[0][..]));
}

/// The latest takes the position of the oldest that it replaces: data in between does not delay it, regardless of the
/// number of replacements. Remaining packets of its own connection keep their order; an acknowledgment that replaces
/// nothing goes to the end.
#[test]
fn news_do_not_lose_their_turn() {
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.push(9, Sight::Other).acks(&[1000]).push(9, Sight::Other).acks(&[2000]).push(9, Sight::Other).acks(&[3000]);
    assert_eq!((bench.drain(), &bench.dropped[..]), ([0, 5, 2, 4].into(), &[1, 3][..]));
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.acks(&[1000]).push(0, Sight::Telling).push(9, Sight::Other).push(1, Sight::Plain(Seq(7))).acks(&[2000]);
    assert_eq!((bench.drain(), &bench.dropped[..]), ([1, 2, 3, 4].into(), &[0][..]));
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.push(0, Sight::Telling).acks(&[1000]).push(9, Sight::Other).push(1, Sight::Plain(Seq(7))).acks(&[2000]);
    assert_eq!((bench.drain(), &bench.dropped[..]), ([0, 4, 2, 3].into(), &[1][..]));
}

/// "Data or TCP flags set", selective acknowledgments, ECN's echo, and a series of duplicates stay; so do packets of
/// another connection.
#[test]
fn what_says_more_than_a_number_stays() {
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.push(0, Sight::Plain(Seq(1000)));
    bench.push(1, Sight::Plain(Seq(500)));
    bench.push(0, Sight::Telling);
    bench.push(0, Sight::Other);
    bench.push(0, Sight::Plain(Seq(2000)));
    assert_eq!((bench.drain(), &bench.dropped[..]), ([1, 2, 3, 4].into(), &[0][..]));
    // Three duplicates and the acknowledgment that they repeat: a sender counts them, regardless of later ones.
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.acks(&[500, 1000, 1000, 1000, 1000, 9000]);
    assert_eq!((bench.drain(), &bench.dropped[..]), ([1, 2, 3, 4, 5].into(), &[0][..]));
    // A late old one removes nothing.
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    bench.acks(&[1000, 900]);
    assert_eq!(bench.drain(), [0, 1]);
}

/// RFC 3449 §5.4.2: acknowledgments precede data; each kind stays in order. Without a filter none is removed.
#[test]
fn acknowledgments_first() {
    let sights = [Sight::Other, Sight::Plain(Seq(1)), Sight::Other, Sight::Telling, Sight::Plain(Seq(3))];
    for (first, order) in [(Switch::On, [1, 3, 4, 0, 2]), (Switch::Off, [0, 1, 2, 3, 4])] {
        let mut bench = Bench::new(config(Switch::Off, first));
        sights.into_iter().for_each(|sight| {
            bench.push(0, sight);
        });
        assert_eq!(bench.drain(), order);
    }
}

/// Removals free capacity; packets that find none are dropped.
#[test]
fn the_limit_holds() {
    let mut bench = Bench::new(config(Switch::On, Switch::Off));
    (0..7).for_each(|_| {
        bench.push(0, Sight::Other);
    });
    bench.acks(&[1000, 2000, 3000]);
    assert_eq!(bench.dropped, [7, 8]);
    bench.push(0, Sight::Other);
    bench.push(1, Sight::Plain(Seq(1)));
    assert_eq!((&bench.dropped[2..], bench.queue.backlog().packets), (&[10, 11][..], 8));
    let bytes = AckAwareConfig { limit: QueueLimit::Bytes(1540), ..config(Switch::On, Switch::On) };
    let mut bench = Bench::new(bytes);
    bench.push(0, Sight::Other).acks(&[1000]).push(1, Sight::Plain(Seq(1)));
    assert_eq!(bench.dropped, [2]);
}

#[test]
fn what_is_seen_of_a_packet() {
    let tcp = |len: u32, segment: Segment| Packet::<()> { len, body: Body::Tcp(segment), ..Packet::default() };
    let ack = Segment { ack: Seq(7), flags: Flags::ACK, ..Segment::default() };
    assert_eq!(Sight::of(&tcp(0, ack)), Sight::Plain(Seq(7)));
    assert_eq!(Sight::of(&tcp(1, ack)), Sight::Other);
    for flags in [Flags::SYN, Flags::FIN, Flags::RST, Flags::URG] {
        assert_eq!(Sight::of(&tcp(0, Segment { flags: Flags::ACK.with(flags), ..ack })), Sight::Other);
    }
    for flags in [Flags::ECE, Flags::CWR, Flags::AE] {
        assert_eq!(Sight::of(&tcp(0, Segment { flags: Flags::ACK.with(flags), ..ack })), Sight::Telling);
    }
    let mut sack = ack;
    sack.options.sack = SackBlocks::NONE;
    sack.options.sack.push(SackBlock { left: Seq(9), right: Seq(10) });
    assert_eq!(Sight::of(&tcp(0, sack)), Sight::Telling);
    let mut eln = ack;
    eln.options.eln = true;
    assert_eq!(Sight::of(&tcp(0, eln)), Sight::Telling);
    assert_eq!(Sight::of(&Packet::<()>::default()), Sight::Other);
    let damaged = Packet { integrity: Integrity::PayloadDamaged, ..tcp(0, ack) };
    assert_eq!(Sight::of(&damaged), Sight::Telling);
}

/// Returns a step: a packet arrives, or one leaves.
fn step() -> impl Strategy<Value = Option<(u32, Sight)>> {
    let sight = prop_oneof![
        6 => (0u32..20).prop_map(|ack| Sight::Plain(Seq(u32::MAX - 8) + ack)),
        1 => Just(Sight::Telling),
        2 => Just(Sight::Other),
    ];
    prop_oneof![2 => (0u32..3, sight).prop_map(Some), 1 => Just(None)]
}

fn switch() -> impl Strategy<Value = Switch> {
    prop_oneof![Just(Switch::On), Just(Switch::Off)]
}

proptest! {
    /// Each packet leaves once or is dropped once. The highest number that went in comes out. Only acknowledgments that
    /// a later one covers are removed. A connection's acknowledgments stay in order, and so do the others. The backlog
    /// is correct, and within the limit.
    #[test]
    fn of_any_sequence(
        steps in proptest::collection::vec(step(), 1..200),
        filter in switch(),
        first in switch(),
    ) {
        let config = config(filter, first);
        let mut queue = AckAware::new(config);
        let mut sights = Vec::new();
        let (mut went_in, mut out, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step {
                None => out.extend(queue.pop().map(|item: Item| item.number)),
                Some((flow, sight)) => {
                    let item = Item { flow, number: sights.len() as u32, bytes: 40 + flow };
                    sights.push((flow, sight));
                    let mut dropped = Vec::new();
                    queue.push(item, sight, &mut dropped);
                    if dropped.iter().all(|dropped| dropped.number != item.number) {
                        went_in.push(item.number);
                    }
                    for old in dropped {
                        gone.push(old.number);
                        if old.number == item.number {
                            prop_assert_eq!(queue.backlog().packets, 8, "dropped though there was room");
                            continue;
                        }
                        let (of, before) = sights[old.number as usize];
                        let (Sight::Plain(before), Sight::Plain(after)) = (before, sight) else {
                            return Err(TestCaseError::fail("took out what it must not"));
                        };
                        prop_assert!(filter.is_on() && of == flow && before.lt(after));
                    }
                }
            }
            prop_assert!(queue.backlog().packets <= 8);
        }
        out.extend(std::iter::from_fn(|| queue.pop()).map(|item| item.number));
        prop_assert_eq!(queue.backlog(), Backlog::default());
        let mut all: Vec<u32> = out.iter().chain(&gone).copied().collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..sights.len() as u32).collect::<Vec<_>>());
        let is_ack = |number: &u32| sights[*number as usize].1 != Sight::Other;
        let in_order = |of: &dyn Fn(&u32) -> bool| out.iter().filter(|number| of(number)).is_sorted();
        prop_assert!(in_order(&|number| !is_ack(number)));
        for flow in 0..3 {
            prop_assert!(in_order(&|number| is_ack(number) && sights[*number as usize].0 == flow));
        }
        if filter == Switch::Off {
            prop_assert!(in_order(&|number| is_ack(number)));
            prop_assert!(first == Switch::On || out.is_sorted());
        }
        let highest = |numbers: &[u32]| {
            let mut highest: BTreeMap<u32, Seq> = BTreeMap::new();
            for number in numbers {
                if let (flow, Sight::Plain(ack)) = sights[*number as usize] {
                    highest.entry(flow).and_modify(|known| *known = known.max(ack)).or_insert(ack);
                }
            }
            highest
        };
        prop_assert_eq!(highest(&went_in), highest(&out));
    }
}
