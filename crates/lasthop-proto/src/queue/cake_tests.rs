//! CAKE: shares, tins, shaper, memory and ACK filter, with numbers derived by hand.

extern crate std;

use std::vec;
use std::vec::Vec;

use super::super::Sight;
use super::super::tests::{Item, draws, item, ms};
use super::*;
use crate::packet::Ecn;
use crate::seq::Seq;

fn view(service: u8, hosts: [u32; 2]) -> View {
    View { service, hosts, ..View::default() }
}

fn push(queue: &mut Cake<Item>, at: u64, item: Item, view: &View) -> Vec<Item> {
    let (mut dropped, mut filtered) = (Vec::new(), Vec::new());
    queue.push(ms(at), item, view, &mut dropped, &mut filtered);
    assert_eq!(filtered, []);
    dropped
}

fn pop(queue: &mut Cake<Item>, at: Instant) -> Option<Item> {
    queue.pop(at, &mut Vec::new(), &mut Queued::mark)
}

/// Shares in percent of flows that always have packets, each between the hosts given.
fn shares(isolation: Isolation, flows: &[[u32; 2]]) -> Vec<u64> {
    let config = CakeConfig { isolation, memory: Some(u64::MAX), ..CakeConfig::default() };
    let mut queue = Cake::new(config, draws());
    for (flow, hosts) in flows.iter().enumerate() {
        // A flow with twice as many packets of half the size gets the same bytes.
        let (count, bytes) = if flow == 0 { (8000, 750) } else { (4000, 1500) };
        for number in 0..count {
            push(&mut queue, 0, item(flow as u32, number, bytes), &view(0, *hosts));
        }
    }
    let mut sent = vec![0; flows.len()];
    let mut total = 0;
    while total < 4_500_000 {
        let item = pop(&mut queue, ms(1)).unwrap();
        sent[item.flow as usize] += u64::from(item.bytes);
        total += u64::from(item.bytes);
    }
    sent.into_iter().map(|bytes| (bytes * 100 + total / 2) / total).collect()
}

/// Source 1 has one flow, source 2 three; destination 9 has all of them, or destination 8 two.
#[test]
fn isolation_determines_the_shares() {
    let flows = [[1, 9], [2, 9], [2, 9], [2, 9]];
    assert_eq!(shares(Isolation::Flows, &flows), [25; 4]);
    assert_eq!(shares(Isolation::Sources, &flows), [50, 17, 17, 17]);
    assert_eq!(shares(Isolation::Destinations, &flows), [25; 4]);
    // Each flow's quantum is divided by 4: the destination has four flows.
    assert_eq!(shares(Isolation::Triple, &flows), [25; 4]);
    // Destination 9 has one flow, destination 8 three of different sources.
    let flows = [[1, 9], [2, 8], [3, 8], [4, 8]];
    assert_eq!(shares(Isolation::Destinations, &flows), [50, 17, 17, 17]);
    assert_eq!(shares(Isolation::Triple, &flows), [50, 17, 17, 17]);
    assert_eq!(shares(Isolation::Sources, &flows), [25; 4]);
}

/// A flow without a queue precedes those that have one.
#[test]
fn a_sparse_flow_goes_first() {
    let mut queue = Cake::new(CakeConfig::default(), draws());
    (0..50).for_each(|number| drop(push(&mut queue, 0, item(0, number, 1500), &view(0, [0, 1]))));
    assert_eq!((pop(&mut queue, ms(0)).unwrap().flow, pop(&mut queue, ms(0)).unwrap().flow), (0, 0));
    push(&mut queue, 1, item(7, 0, 100), &view(0, [2, 3]));
    assert_eq!(pop(&mut queue, ms(1)).unwrap().flow, 7);
}

/// Without a shaper, tins share in proportion 16:1:8:4 (`diffserv4`).
#[test]
fn tins_share_by_weight() {
    let config = CakeConfig { tins: Tins::Diffserv4, memory: Some(u64::MAX), ..CakeConfig::default() };
    let mut queue = Cake::new(config, draws());
    for (flow, service) in [0, 8, 34, 46].into_iter().enumerate() {
        for number in 0..12_000 {
            push(&mut queue, 0, item(flow as u32, number, 1000), &view(service, [flow as u32, 9]));
        }
    }
    let mut sent = [0_i32; 4];
    (0..14_500).for_each(|_| sent[pop(&mut queue, ms(1)).unwrap().flow as usize] += 1);
    for (sent, parts) in sent.into_iter().zip([16, 1, 8, 4]) {
        assert!((sent - 500 * parts).abs() <= 10, "{sent} for {parts}/29 of 14,500");
    }
}

#[test]
fn tins_follow_the_dscp() {
    let all = |tins: Tins| (0..64).map(|service| tins.of(service)).collect::<Vec<_>>();
    let of = |tins: Tins, tin: usize| -> Vec<usize> {
        all(tins).iter().enumerate().filter(|(_, at)| **at == tin).map(|(service, _)| service).collect()
    };
    assert_eq!(all(Tins::BestEffort), [0; 64]);
    assert_eq!(of(Tins::Diffserv3, 1), [1, 8]);
    assert_eq!(of(Tins::Diffserv3, 2), [4, 44, 46, 48, 56]);
    assert_eq!(of(Tins::Diffserv4, 1), [1, 8]);
    assert_eq!(of(Tins::Diffserv4, 2), [4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]);
    assert_eq!(of(Tins::Diffserv4, 3), [32, 40, 44, 46, 48, 56]);
}

/// At 12 Mbps a packet of 1500 bytes takes 1 ms. After an idle time the shaper does not catch up.
#[test]
fn the_shaper_spaces_packets() {
    let config = CakeConfig { rate: Some(12_000_000), ..CakeConfig::default() };
    let mut queue = Cake::new(config, draws());
    let mut times = Vec::new();
    for start in [7, 50] {
        let mut at = ms(start);
        (0..4).for_each(|number| drop(push(&mut queue, start, item(0, number, 1500), &view(0, [0, 1]))));
        while queue.backlog().packets > 0 {
            at = at.max(queue.ready_at().unwrap());
            times.push((at.as_nanos() + 500_000) / 1_000_000);
            pop(&mut queue, at).unwrap();
        }
    }
    assert_eq!(times, [7, 8, 9, 10, 50, 51, 52, 53]);
    // Another packet that uses the link delays the next one.
    let before = queue.ready_at().unwrap();
    queue.charge(3000);
    let after = queue.ready_at().unwrap().since(before).as_nanos();
    assert!(after.abs_diff(2_000_000) < 1000, "{after}");
}

/// With a shaper, voice precedes as long as it uses less than a quarter of the rate; above, it has its share, and the
/// rest goes to best effort.
#[test]
fn a_tin_has_priority_within_its_share() {
    let run = |voice: u64| {
        let config = CakeConfig { rate: Some(12_000_000), tins: Tins::Diffserv4, ..CakeConfig::default() };
        let mut queue = Cake::new(config, draws());
        let (mut at, mut waited, mut sent) = (ms(0), Vec::new(), [0; 2]);
        let mut next = 0;
        for number in 0..3000 {
            while next <= at.as_nanos() / 1_000_000 {
                push(&mut queue, next, item(0, next as u32, 1500), &view(0, [0, 1]));
                push(&mut queue, next, item(0, next as u32, 1500), &view(0, [0, 1]));
                if next % voice == 0 {
                    push(&mut queue, next, item(1, next as u32, 1500), &view(46, [2, 3]));
                }
                next += 1;
            }
            at = at.max(queue.ready_at().unwrap());
            let Some(item) = pop(&mut queue, at) else { continue };
            if number > 1000 {
                sent[item.flow as usize] += 1;
            }
            if item.flow == 1 {
                waited.push(at.since(ms(u64::from(item.number))).as_nanos() / 1_000_000);
            }
        }
        (waited.into_iter().max().unwrap(), sent)
    };
    // One in eight.
    let (longest, sent) = run(8);
    assert!(longest <= 3, "{longest}");
    assert!((sent[1] - 250i32).abs() <= 5, "{sent:?}");
    // One in one: a quarter, and what best effort leaves.
    let (_, sent) = run(1);
    assert!((490..=520).contains(&sent[1]), "{sent:?}");
}

/// Memory is taken from the longest line, at its head, and BLUE learns of it.
#[test]
fn the_longest_line_pays() {
    let config = CakeConfig { memory: Some(10_000), ..CakeConfig::default() };
    let mut queue = Cake::new(config, draws());
    let hosts = view(0, [0, 1]);
    (0..8).for_each(|number| assert_eq!(push(&mut queue, 0, item(0, number, 1000), &hosts), []));
    let mut gone = Vec::new();
    (0..5).for_each(|number| gone.extend(push(&mut queue, 0, item(1, number, 1000), &hosts)));
    let gone: Vec<_> = gone.iter().map(|item| (item.flow, item.number)).collect();
    assert_eq!(gone, [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(queue.backlog(), Backlog { packets: 10, bytes: 10_000 });
}

/// Defaults of the memory: 10,240 packets of 1514 bytes; 4 MiB at 10 Mbps, 4 · 0.1 s · 200 Mbps = 10 MB at 200 Mbps.
#[test]
fn memory_follows_the_rate() {
    let memory = |rate| CakeConfig { rate, ..CakeConfig::default() }.memory();
    assert_eq!(memory(None), 15_503_360);
    assert_eq!(memory(Some(10_000_000)), 4 << 20);
    assert_eq!(memory(Some(200_000_000)), 10_000_000);
    assert_eq!(memory(Some(10_000_000_000)), 15_503_360);
}

/// At 1 Mbps a full packet takes 12.112 ms: the target is 1.5 of that, and the interval grows by the same amount.
#[test]
fn a_low_rate_raises_the_target() {
    let tins = |rate| Cake::<Item>::new(CakeConfig { rate, ..CakeConfig::default() }, draws()).tins;
    let slow = tins(Some(1_000_000)).remove(0).parameters();
    assert!((slow.target - 18_168_000).abs() < 100 && (slow.interval - 113_168_000).abs() < 100, "{slow:?}");
    let free = tins(None).remove(0).parameters();
    assert_eq!((free.target, free.interval, free.packet_time), (5_000_000, 100_000_000, 0));
}

/// The filter removes the oldest acknowledgment if two wait; others, and those with more information, stay.
#[test]
fn redundant_acknowledgments_go() {
    let config = CakeConfig { ack_filter: Switch::On, ..CakeConfig::default() };
    let mut queue = Cake::new(config, draws());
    let (mut dropped, mut filtered) = (Vec::new(), Vec::new());
    let acks = [
        Sight::Plain(Seq(100)),
        Sight::Telling,
        Sight::Plain(Seq(200)),
        Sight::Plain(Seq(300)),
        Sight::Plain(Seq(400)),
        Sight::Other,
    ];
    for (number, ack) in acks.into_iter().enumerate() {
        let view = View { ack, ecn: Ecn::NotEct, ..view(0, [0, 1]) };
        queue.push(ms(0), item(0, number as u32, 52), &view, &mut dropped, &mut filtered);
    }
    // The fourth makes two redundant, of which the first goes; the fifth the third and fourth.
    assert_eq!(filtered.iter().map(|item: &Item| item.number).collect::<Vec<_>>(), [0, 2]);
    let sent: Vec<u32> = core::iter::from_fn(|| pop(&mut queue, ms(0))).map(|item| item.number).collect();
    assert_eq!((sent, dropped), (vec![1, 3, 4, 5], vec![]));
}
