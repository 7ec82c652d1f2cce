//! Two ends in virtual time, with a path between them that loses, delays and translates addresses.

use std::collections::BTreeMap;

use lasthop_proto::link::hybrid::{Multipath, PathId};
use lasthop_proto::time::Duration;
use lasthop_tunnel::{Entropy, PrivateKey};

use super::*;
use crate::inner::look::look;
use crate::link::Tally;
use crate::plan::{Own, PathPlan, Routed};

#[path = "engine_ecn_tests.rs"]
mod ecn;
#[path = "engine_path_tests.rs"]
mod paths;
#[path = "engine_restart_tests.rs"]
mod restarts;

const MS: u64 = 1_000_000;

struct Collected(Vec<(SocketAddr, Vec<u8>)>);

impl Outbox for Collected {
    fn put(&mut self, datagram: Datagram<'_>) {
        self.0.push((datagram.to, datagram.bytes.to_vec()));
    }
}

fn plan(end: usize) -> Plan {
    let keys = [1, 2].map(|seed| PrivateKey::generate(&mut Entropy::new([seed; 32])));
    let peer = PeerPlan {
        name: "other".to_owned(),
        key: keys[1 - end].public().0,
        preshared: None,
        paths: vec![PathPlan {
            endpoint: (end == 0).then(|| address(1)),
            rate: Some(10_000_000),
            ..PathPlan::default()
        }],
        multipath: Multipath::default(),
        allowed: vec![(IpAddr::from([10, 0, 1 - end as u8, 0]), 24)],
        keepalive: None,
        silence: 40 * MS,
        codes: true,
        shared: false,
        queue: None,
        memory: 64 << 20,
        ab: 0,
        ab_keys: [1, 2],
    };
    Plan {
        way: Way::Routed(Routed { listen: address(end), mtu: 1442, address: Vec::new(), routes: Vec::new() }),
        own: Own::Key(keys[end].to_base64()),
        device: "test".to_owned(),
        peers: vec![peer],
        interfaces: Vec::new(),
    }
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, end as u8 + 1], 51900))
}

struct World {
    now: Instant,
    ends: [Engine; 2],
    /// Datagrams in flight, by arrival.
    way: BTreeMap<(Instant, u64), (usize, SocketAddr, Vec<u8>)>,
    count: u64,
    random: u64,
    /// Loss probability, in 10⁻⁶.
    loss: u64,
    /// Rate of each direction in bits per second, if it is a bottleneck, and the times at which it is free.
    rate: Option<u64>,
    free: [Instant; 2],
    /// Size of the largest datagram that passes.
    most: usize,
    /// Source address of the first end's datagrams after translation.
    seen_as: SocketAddr,
    got: [Vec<Vec<u8>>; 2],
    sent: u64,
}

impl World {
    fn new(loss: u64) -> Self {
        let now = Instant::from_nanos(1_000 * MS);
        let ends = [0, 1].map(|end| Engine::new(&plan(end), [end as u8 + 7; 32], now, None).unwrap());
        Self {
            now,
            ends,
            way: BTreeMap::new(),
            count: 0,
            random: 88_172_645_463_325_252,
            loss,
            rate: None,
            free: [now; 2],
            most: 1472,
            seen_as: address(0),
            got: [Vec::new(), Vec::new()],
            sent: 0,
        }
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1_000_000
    }

    fn pump(&mut self) {
        for end in 0..2 {
            self.ends[end].handle_timeout(self.now, self.now.as_nanos());
            let mut out = Collected(Vec::new());
            self.ends[end].send(self.now, &mut out);
            for (to, bytes) in out.0 {
                self.sent += 1;
                let reaches = if end == 0 { to == address(1) } else { to == self.seen_as };
                if !reaches || bytes.len() > self.most || self.draw() < self.loss {
                    continue;
                }
                self.count += 1;
                let mut leaves = self.now;
                if let Some(rate) = self.rate {
                    if self.free[end].since(self.now) > Duration::from_millis(100) {
                        continue;
                    }
                    let takes = Duration::from_nanos((bytes.len() as u64 + 28) * 8_000_000_000 / rate);
                    self.free[end] = self.free[end].max(self.now) + takes;
                    leaves = self.free[end];
                }
                let from = if end == 0 { self.seen_as } else { address(1) };
                self.way.insert((leaves + Duration::from_millis(10), self.count), (1 - end, from, bytes));
            }
            let mut packet = Vec::new();
            while self.ends[end].poll_packet(|bytes| packet.extend_from_slice(bytes)) {
                self.got[end].push(std::mem::take(&mut packet));
            }
        }
    }

    /// Advances the time.
    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        self.pump();
        loop {
            let arrival = self.way.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().filter_map(Engine::poll_deadline).min();
            let next =
                [arrival, due].into_iter().flatten().min().unwrap_or(end).max(self.now + Duration::from_nanos(1000));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            while self.way.first_key_value().is_some_and(|((at, _), _)| *at <= next) {
                let Some((_, (to, from, mut bytes))) = self.way.pop_first() else { break };
                self.ends[to].handle_datagram(next, from, None, Ecn::NotEct, &mut bytes);
            }
            self.pump();
        }
    }

    fn offer(&mut self, end: usize, mut packet: Vec<u8>) {
        self.ends[end].handle_packet(self.now, &mut packet);
    }

    fn link(&self, end: usize) -> &Link {
        self.ends[end].links().next().unwrap()
    }
}

/// Returns a packet from an address of `end` to the other's, containing a number.
fn packet(end: usize, protocol: u8, number: u32, length: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, end as u8, 1, 10, 0, 1 - end as u8, 1];
    packet.extend_from_slice(&number.to_be_bytes());
    packet.resize(length.max(28), 0x50);
    packet[2..4].copy_from_slice(&(length.max(28) as u16).to_be_bytes());
    packet
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().map(|packet| u32::from_be_bytes(*packet[20..].first_chunk().unwrap())).collect()
}

const GRE: u8 = 47;
const ICMP: u8 = 1;

#[test]
fn everything_arrives_in_order_whatever_is_lost() {
    for loss in [0, 100_000] {
        let mut world = World::new(loss);
        for number in 0..2_000 {
            world.offer(0, packet(0, GRE, number, 1000));
            world.offer(1, packet(1, GRE, number, 60));
            world.run(1);
        }
        world.run(2_000);
        for end in 0..2 {
            assert_eq!(numbers(&world.got[end]), (0..2_000).collect::<Vec<_>>(), "{loss}, end {end}");
        }
        let counters = world.link(0).counters;
        assert_eq!((counters.sent, counters.received.packets), (Tally { packets: 2000, bytes: 2_000_000 }, 2_000));
        assert_eq!(counters.repair.packets == 0, loss == 0, "{counters:?}");
        assert_eq!(counters.starts, 1);
    }
}

/// A reload that changes a peer resets its link at this end. The other end is notified and restarts its link too.
#[test]
fn a_peer_that_a_reload_changes_is_reached_at_once() {
    for changed in 0..2 {
        let mut world = World::new(20_000);
        for number in 0..500 {
            world.offer(0, packet(0, GRE, number, 1000));
            world.offer(1, packet(1, GRE, number, 60));
            world.run(2);
        }
        world.run(1_000);
        let mut peers = plan(changed).peers;
        peers[0].paths[0].rate = Some(5_000_000);
        let now = world.now;
        world.ends[changed].configure(now, &peers).unwrap();
        world.run(500);
        for number in 500..600 {
            for end in 0..2 {
                world.offer(end, packet(end, GRE, number, 100));
            }
            world.run(2);
        }
        world.run(1_000);
        for end in 0..2 {
            assert_eq!(numbers(&world.got[end]), (0..600).collect::<Vec<_>>(), "{changed}, {end}");
        }
        assert_eq!(world.link(changed).hop.rate(PathId::FIRST), 5_000_000);
    }
}

/// Without a configured rate an end finds the path's, with and without losses. Excess packets wait and are dropped at
/// the entrance.
#[test]
fn a_rate_is_found() {
    for loss in [0, 20_000] {
        let mut world = World::new(loss);
        world.rate = Some(5_000_000);
        for end in 0..2 {
            let mut plan = plan(end);
            plan.peers[0].paths[0].rate = None;
            world.ends[end] = Engine::new(&plan, [end as u8 + 7; 32], world.now, None).unwrap();
        }
        for number in 0..6_000 {
            world.offer(0, packet(0, GRE, number, 1_250));
            world.run(1);
        }
        let (found, loss) = (world.link(0).hop.rate(PathId::FIRST), world.link(0).hop.loss(PathId::FIRST));
        assert!((4_250_000..=5_750_000).contains(&found), "{found} at {loss}");
        let counters = world.link(0).hop_counters();
        assert!(counters.dropped > 1_000, "{counters:?}");
        // 5 Mbit/s less headers, losses and the start.
        assert!(world.link(1).counters.received.bytes > 2_400_000, "{:?}", world.link(1).counters.received);
    }
}

#[test]
fn an_end_that_starts_anew_is_met_anew() {
    let mut world = World::new(50_000);
    for restarted in [0, 1, 0] {
        for number in 0..300 {
            world.offer(0, packet(0, GRE, number, 500));
            world.run(2);
        }
        // Datagrams of the dead end are still in flight.
        world.ends[restarted] = Engine::new(&plan(restarted), [world.count as u8; 32], world.now, None).unwrap();
        world.got = [Vec::new(), Vec::new()];
        // The other end detects its silence.
        for number in 0..100 {
            world.offer(0, packet(0, GRE, 1_000 + number, 500));
            world.run(200);
        }
        world.got[1].clear();
        for number in 0..200 {
            world.offer(0, packet(0, GRE, 5_000 + number, 500));
            world.run(2);
        }
        world.run(1_000);
        assert_eq!(numbers(&world.got[1]), (5_000..5_200).collect::<Vec<_>>(), "{restarted}");
    }
}

#[test]
fn an_end_that_moves_is_followed() {
    let mut world = World::new(20_000);
    for number in 0..3_000 {
        if number == 1_000 {
            world.seen_as = "203.0.113.9:40000".parse().unwrap();
        }
        world.offer(0, packet(0, GRE, number, 800));
        world.offer(1, packet(1, GRE, number, 800));
        world.run(1);
    }
    world.run(2_000);
    assert_eq!(world.link(1).paths()[0].address, Some(world.seen_as));
    let got = [0, 1].map(|end| numbers(&world.got[end]));
    assert_eq!(got[1], (0..3_000).collect::<Vec<_>>());
    // Packets to the old address were repaired, or are a short gap.
    assert!(got[0].len() > 2_900 && got[0].is_sorted(), "{}", got[0].len());
}

/// Returns whether each end considers the other silent.
fn unanswered(world: &World) -> [bool; 2] {
    [0, 1].map(|end| world.ends[end].hearings(world.now)[0].unanswered)
}

#[test]
fn an_outage_is_told_from_having_nothing_to_say() {
    let mut world = World::new(0);
    for number in 0..100 {
        world.offer(0, packet(0, GRE, number, 1000));
        world.run(10);
    }
    // The receiver has sent feedback, which is not answered.
    for _ in 0..30 {
        world.run(1_000);
        assert_eq!(unanswered(&world), [false; 2]);
    }
    world.loss = 1_000_000;
    let cut = world.now;
    for (number, is_silent) in [(100, false), (101, true), (102, true)] {
        world.offer(0, packet(0, GRE, number, 1000));
        world.run(600);
        assert_eq!(unanswered(&world), [is_silent, false], "{number}");
    }
    let last = world.ends[0].hearings(world.now)[0].last;
    assert!(last.is_some_and(|last| last <= cut && world.link(0).up));
    world.loss = 0;
    world.offer(0, packet(0, GRE, 104, 1000));
    world.run(1_000);
    assert_eq!(unanswered(&world), [false; 2]);
}

#[test]
fn packets_are_made_to_fit_a_narrow_path() {
    let mut world = World::new(0);
    world.most = 1300;
    world.offer(0, packet(0, ICMP, 0, 100));
    // The search: the base, six probes of the largest size, then bisection.
    world.run(60_000);
    let mtu = usize::from(world.link(0).mtu(world.now));
    assert!((1300 - 30 - 4..=1300 - 30).contains(&mtu), "{mtu}");
    world.got = [Vec::new(), Vec::new()];
    // Fragmented and reassembled; with an ICMP message if fragmentation is not allowed.
    world.offer(0, packet(0, GRE, 7, 1442));
    let mut whole = packet(0, GRE, 8, 1442);
    whole[6] = 0x40;
    world.offer(0, whole);
    world.run(1_000);
    assert_eq!((world.got[1].len(), world.got[0].len()), (2, 1));
    assert_eq!(world.got[0][0][20..22], [3, 4]);
    assert_eq!(usize::from(u16::from_be_bytes([world.got[0][0][26], world.got[0][0][27]])), mtu);
    assert_eq!(world.link(0).counters.oversize, 2);
}

/// Detection while packets flow, from their losses.
#[test]
fn a_path_that_becomes_narrower_is_found_out() {
    let mut world = World::new(0);
    world.offer(0, packet(0, GRE, 0, 100));
    world.run(1_000);
    assert_eq!(world.link(0).mtu(world.now), 1442);
    world.most = 1300;
    let mut number = 0;
    let mut offer = |world: &mut World| {
        // Like a sender that honors the reported MTU.
        let size = usize::from(world.link(0).mtu(world.now));
        number += 1;
        world.offer(0, packet(0, GRE, number, size));
        world.offer(0, packet(0, ICMP, number, 60));
        world.run(5);
    };
    for _ in 0..400 {
        offer(&mut world);
    }
    assert!(world.link(0).mtu(world.now) <= 1270);
    world.got[1].clear();
    for _ in 0..100 {
        offer(&mut world);
    }
    world.run(1_000);
    assert!(world.got[1].iter().filter(|packet| packet.len() > 1000).count() >= 95);
}

#[test]
fn peers_send_from_their_own_addresses_only() {
    let mut world = World::new(0);
    let mut forged = packet(0, GRE, 1, 100);
    forged[14] = 9;
    world.offer(0, forged);
    world.offer(0, packet(0, GRE, 2, 100));
    // A packet to an unknown destination, and an invalid one.
    world.offer(0, packet(1, GRE, 3, 100));
    world.offer(0, vec![0x45; 10]);
    world.run(1_000);
    assert_eq!(numbers(&world.got[1]), [2]);
    assert_eq!((world.link(1).counters.foreign, world.ends[0].counters().unroutable), (1, 2));
}

#[test]
fn own_datagrams_do_not_go_into_the_tunnel() {
    let mut world = World::new(0);
    let mut plan = plan(0);
    plan.peers[0].allowed.push((IpAddr::from([192, 0, 2, 0]), 24));
    world.ends[0] = Engine::new(&plan, [3; 32], world.now, None).unwrap();
    let mut own = packet(0, 17, 0, 100);
    own[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    own[20..24].copy_from_slice(&[0xca, 0xbc, 0xca, 0xbc]);
    world.offer(0, own);
    world.run(100);
    assert_eq!((world.ends[0].counters().looped, world.sent), (1, 0));
}

/// An end that only answers knows no address in advance.
#[test]
fn answers_to_a_handshake_do_not_go_into_the_tunnel() {
    let mut world = World::new(0);
    let mut plan = plan(1);
    plan.peers[0].allowed.push((IpAddr::from([192, 0, 2, 0]), 24));
    world.ends[1] = Engine::new(&plan, [3; 32], world.now, None).unwrap();
    world.offer(0, packet(0, GRE, 1, 100));
    // The call has arrived, and the answer is in flight.
    world.run(15);
    assert!(!world.link(1).up && world.sent == 2);
    let mut own = packet(1, 17, 0, 100);
    own[12..20].copy_from_slice(&[192, 0, 2, 2, 192, 0, 2, 1]);
    own[20..24].copy_from_slice(&[0xca, 0xbc, 0xca, 0xbc]);
    world.offer(1, own);
    assert_eq!(world.ends[1].counters().looped, 1);
}

#[test]
fn peers_that_stay_keep_their_sessions_and_others_go() {
    let mut world = World::new(0);
    world.offer(0, packet(0, GRE, 1, 100));
    world.run(500);
    let mut peers = plan(0).peers;
    let other = PeerPlan {
        name: "third".to_owned(),
        key: [9; 32],
        allowed: vec![(IpAddr::from([10, 9, 0, 0]), 16)],
        ..peers[0].clone()
    };
    peers.push(other);
    world.ends[0].configure(world.now, &peers).unwrap();
    assert_eq!(world.ends[0].links().map(|link| link.up).collect::<Vec<_>>(), [true, false]);
    peers.remove(0);
    world.ends[0].configure(world.now, &peers).unwrap();
    world.run(100);
    // The removed peer was notified.
    assert!(!world.link(1).up && world.ends[0].links().count() == 1);
    let mut twice = peers.clone();
    twice.push(PeerPlan { name: "fourth".to_owned(), ..peers[0].clone() });
    let error = world.ends[0].configure(world.now, &twice).unwrap_err();
    assert_eq!(error, "peer \"fourth\": another peer has the same public key");
}

/// Returns a UDP datagram between fixed hosts, distinguished by its port.
fn datagram(end: usize, port: u16, number: u32) -> Vec<u8> {
    let mut datagram = packet(end, 17, number, 600);
    datagram[20..24].copy_from_slice(&[1, 187, (port >> 8) as u8, port as u8]);
    datagram[28..32].copy_from_slice(&number.to_be_bytes());
    datagram
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 12, ..Default::default() })]

    /// Flows of the unrepaired arm cause no repair frame at any loss, and none of their packets waits for a missing
    /// one. Port 443 makes them QUIC, which is otherwise repaired and ordered.
    #[test]
    fn what_goes_unrepaired_gets_no_repair(seed in 1_u64.., loss in 20_000_u64..200_000) {
        let mut world = World::new(0);
        for end in 0..2 {
            let mut plan = plan(end);
            plan.peers[0].ab = 500_000;
            world.ends[end] = Engine::new(&plan, [end as u8 + 5; 32], world.now, None).unwrap();
        }
        world.offer(0, packet(0, ICMP, 0, 100));
        world.run(1_000);
        let comparison = crate::comparison::Comparison::new(500_000, [1, 2]);
        let is = |arm: lasthop_daemon::ab::Arm, port: u16| {
            let bytes = datagram(0, port, 0);
            comparison.arm(&bytes, &look(&bytes).unwrap()) == arm
        };
        let of = |arm| (1_000..2_000).filter(|port| is(arm, *port)).take(5).collect::<Vec<_>>();
        let (bare, repaired) = (of(lasthop_daemon::ab::Arm::Untreated), of(lasthop_daemon::ab::Arm::Treated));
        let before = world.link(0).counters.repair;
        (world.random, world.loss) = (seed, loss);
        world.got[1].clear();
        for number in 0..1_000_u32 {
            world.offer(0, datagram(0, bare[number as usize % 5], number));
            world.run(1);
        }
        world.run(1_000);
        proptest::prop_assert_eq!(world.link(0).counters.repair, before);
        let order = |packets: &[Vec<u8>]| {
            packets.iter().map(|packet| u32::from_be_bytes(*packet[28..].first_chunk().unwrap())).collect::<Vec<_>>()
        };
        let got = order(&world.got[1]);
        proptest::prop_assert!(got.len() < 1_000 && got.is_sorted_by(|a, b| a < b));
        proptest::prop_assert!(got.len() > 700, "{}", got.len());
        // Repaired flows in parallel: all their packets arrive.
        world.got[1].clear();
        for number in 0..1_000_u32 {
            world.offer(0, datagram(0, bare[number as usize % 5], number));
            world.offer(0, datagram(0, repaired[number as usize % 5], number));
            world.run(2);
        }
        world.run(2_000);
        let count = |ports: &[u16]| {
            let from = |packet: &&Vec<u8>| ports.contains(&u16::from_be_bytes([packet[22], packet[23]]));
            world.got[1].iter().filter(from).count()
        };
        let counted = (count(&repaired), count(&bare));
        proptest::prop_assert!(counted.0 >= 995 && counted.1 < 1_000, "{:?}", counted);
        let link = world.ends[0].links_mut().next().unwrap();
        let findings = link.findings().unwrap();
        let [treated, untreated] = findings.packets;
        proptest::prop_assert!(untreated.packets == 2_000 && untreated.lost > 0 && treated.packets >= 1_000, "{:?}", findings);
        let missing = 2_000 - got.len() as u64 - counted.1 as u64;
        // Losses at the end are not detected, because no later packet reveals them.
        proptest::prop_assert!(untreated.lost.abs_diff(missing) <= 5, "{} told, {} missing", untreated.lost, missing);
    }
}
