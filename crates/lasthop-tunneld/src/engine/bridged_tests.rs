//! Two ends of a bridge in virtual time, with lossy lines between them: one of 5 ms, or several.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use lasthop_proto::packet::Ecn;
use lasthop_tunnel::{Entropy, Mac, Origin, PrivateKey};

use super::*;
use crate::engine::{Datagram, Outbox};
use crate::plan::{HopInterface, Own, PathPlan, PeerPlan, Plan, Way};

#[path = "bridged_path_tests.rs"]
mod paths;

const MS: u64 = 1_000_000;
const SILENCE: u64 = 40 * MS;

fn mac(end: usize, line: usize) -> [u8; 6] {
    [2, 0, 0, 0, line as u8, end as u8 + 1]
}

/// A line in both directions.
#[derive(Clone, Copy)]
struct Line {
    /// One-way delay, in milliseconds.
    delay: u64,
    /// Loss probability, in 10⁻⁶.
    loss: u64,
    is_cut: bool,
    /// Hardware addresses of the interfaces, by end.
    macs: [[u8; 6]; 2],
}

impl Line {
    fn new(number: usize, delay: u64, loss: u64) -> Self {
        Self { delay, loss, is_cut: false, macs: [mac(0, number), mac(1, number)] }
    }
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::generate(&mut Entropy::new([seed; 32]))
}

/// Returns the plan of the end with the key `own` that knows the key `other`.
fn plan(end: usize, own: u8, other: u8, mtu: u16) -> Plan {
    let peer = PeerPlan {
        name: "other".to_owned(),
        key: key(other).public().0,
        preshared: None,
        paths: vec![PathPlan {
            endpoint: Some(Mac::BROADCAST.address()),
            rate: Some(20_000_000),
            ..PathPlan::default()
        }],
        multipath: lasthop_proto::link::hybrid::Multipath::default(),
        allowed: Vec::new(),
        keepalive: None,
        silence: SILENCE,
        codes: true,
        shared: false,
        queue: None,
        memory: 64 << 20,
        ab: 0,
        ab_keys: [1, 2],
    };
    let hop = HopInterface { name: "hop".to_owned(), index: 1, mtu, mac: mac(end, 0) };
    Plan {
        way: Way::Bridged(hop),
        own: Own::Key(key(own).to_base64()),
        device: "test".to_owned(),
        peers: vec![peer],
        interfaces: Vec::new(),
    }
}

#[derive(Default)]
struct Collected(Vec<(SocketAddr, SocketId, Vec<u8>)>);

impl Outbox for Collected {
    fn put(&mut self, datagram: Datagram<'_>) {
        self.0.push((datagram.to, datagram.socket, datagram.bytes.to_vec()));
    }
}

struct World {
    now: Instant,
    /// The ends; a killed one is `None`.
    ends: [Option<Engine>; 2],
    lines: Vec<Line>,
    way: BTreeMap<(Instant, u64), (usize, Origin, Vec<u8>)>,
    count: u64,
    random: u64,
    /// Bytes sent by each end, by line.
    sent: [[usize; 2]; 2],
    /// Frames delivered at each end, with times.
    got: [Vec<(Instant, Vec<u8>)>; 2],
    /// Frames that each end sent unrepaired, with times.
    plain: [Vec<(Instant, Vec<u8>)>; 2],
}

impl World {
    fn of(plans: [Plan; 2], loss: u64) -> Self {
        Self::over(plans, vec![Line::new(0, 5, loss)])
    }

    fn over(plans: [Plan; 2], lines: Vec<Line>) -> Self {
        let now = Instant::from_nanos(1_000 * MS);
        let mut seed = 6;
        let ends = plans.map(|plan| {
            seed += 1;
            Some(Engine::new(&plan, [seed; 32], now, None).unwrap())
        });
        let ([got, plain], sent) = Default::default();
        let (way, random) = (BTreeMap::new(), 88_172_645_463_325_252);
        Self { now, ends, lines, way, count: 0, random, sent, got, plain }
    }

    /// Returns two ends that receive each other's signs of life.
    fn up(mtu: u16, loss: u64) -> Self {
        let mut world = Self::of([plan(0, 1, 2, mtu), plan(1, 2, 1, mtu)], loss);
        world.connect();
        world
    }

    /// Waits until both ends receive each other's signs of life, and know the MTU.
    fn connect(&mut self) {
        for _ in 0..100 {
            self.run(100);
            if self.takes() == [true; 2] {
                // The search for the MTU has ended.
                return self.run(7_500);
            }
        }
        panic!("no session");
    }

    fn takes(&self) -> [bool; 2] {
        [0, 1].map(|end| self.ends[end].as_ref().is_some_and(Engine::takes))
    }

    fn pump(&mut self) {
        for end in 0..2 {
            let Some(engine) = &mut self.ends[end] else { continue };
            engine.handle_timeout(self.now, self.now.as_nanos());
            let mut out = Collected::default();
            engine.send(self.now, &mut out);
            let mut frame = Vec::new();
            while engine.poll_packet(|bytes| frame.extend_from_slice(bytes)) {
                self.got[end].push((self.now, std::mem::take(&mut frame)));
            }
            while let Some(frame) = engine.poll_plain() {
                self.plain[end].push((self.now, frame));
            }
            for (to, socket, bytes) in out.0 {
                let line = self.lines[usize::from(socket.0)];
                self.sent[end][usize::from(socket.0)] += bytes.len();
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                // An interface receives frames for others only if it is promiscuous.
                let is_received = [Mac::BROADCAST, Mac(line.macs[1 - end])].map(Mac::address).contains(&to);
                if !line.is_cut && is_received && self.random % 1_000_000 >= line.loss {
                    self.count += 1;
                    let from = Origin { address: Mac(line.macs[end]).address(), socket };
                    self.way.insert((self.now + Duration::from_millis(line.delay), self.count), (1 - end, from, bytes));
                }
            }
        }
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        self.pump();
        loop {
            let arrival = self.way.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().flatten().filter_map(Engine::poll_deadline).min();
            // Loops iterate at least every 25 ms.
            let turn = self.now + Duration::from_millis(25);
            let next = [arrival, due, Some(turn)].into_iter().flatten().min().unwrap_or(end);
            let next = next.max(self.now + Duration::from_nanos(1000));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            while self.way.first_key_value().is_some_and(|((at, _), _)| *at <= next) {
                let Some((_, (to, from, mut bytes))) = self.way.pop_first() else { break };
                if let Some(engine) = &mut self.ends[to] {
                    engine.handle_datagram(next, from, None, Ecn::NotEct, &mut bytes);
                }
            }
            self.pump();
        }
    }

    fn offer(&mut self, end: usize, frame: &[u8]) {
        let now = self.now;
        if let Some(engine) = &mut self.ends[end] {
            engine.handle_packet(now, &mut frame.to_vec());
        }
    }

    fn frames(&self, end: usize) -> Vec<&[u8]> {
        self.got[end].iter().map(|(_, frame)| &frame[..]).collect()
    }
}

/// Returns a frame with this header after the addresses.
fn frame(header: &[u8], body: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 9, 9, 9, 2, 0, 0, 8, 8, 8], header, body].concat()
}

/// Returns a frame of `length` bytes with an IPv4 UDP packet.
fn udp(number: u32, flags: u8, length: usize) -> Vec<u8> {
    let total = (length - 14) as u16;
    let [a, b] = total.to_be_bytes();
    let mut packet = vec![0x45, 0, a, b, 0, 0, flags << 5, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend_from_slice(&number.to_be_bytes());
    packet.resize(total.into(), 0x50);
    frame(&[8, 0], &packet)
}

/// Returns a frame of an ordered byte stream: GRE.
fn ordered(number: u32) -> Vec<u8> {
    let mut frame = udp(number, 2, 1_000);
    frame[23] = 47;
    frame
}

#[test]
fn frames_of_all_kinds_cross_unchanged_once_and_in_order() {
    for loss in [0, 100_000] {
        let mut world = World::up(1500, loss);
        let arp = frame(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[7; 36]);
        let mut group = arp.clone();
        group[..6].fill(0xff);
        let mut six = frame(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 255], &[0xfd; 32]);
        six.extend_from_slice(&[135, 0, 0, 0, 0, 0, 0, 0]);
        let tagged = [&udp(1, 2, 200)[..12], &[0x81, 0, 0x20, 5], &udp(1, 2, 200)[12..]].concat();
        let other = frame(&[0x88, 0xcc], &[1; 1200]);
        let experiment = frame(&[0x88, 0xb5], &[1; 50]);
        let kinds = [arp, group, six, tagged, other, experiment, frame(&[0, 40], &[3; 46])];
        for end in 0..2 {
            for kind in &kinds {
                world.offer(end, kind);
            }
        }
        for number in 0..300 {
            world.offer(0, &ordered(number));
            world.run(1);
        }
        world.run(2_000);
        for end in 0..2 {
            for kind in &kinds {
                let times = world.frames(end).iter().filter(|frame| *frame == kind).count();
                assert_eq!(times, 1, "{loss}: {kind:02x?}");
            }
        }
        let stream: Vec<_> = world.frames(1).into_iter().filter(|frame| frame[23] == 47).collect();
        assert_eq!(stream, (0..300).map(ordered).collect::<Vec<_>>());
        assert_eq!(world.plain, [const { Vec::new() }; 2]);
    }
}

/// No frame that this end had is lost: it sends them unrepaired 40 ms after the last sign of life.
#[test]
fn when_the_other_end_dies_frames_go_as_they_are() {
    let mut world = World::up(1500, 0);
    for number in 0..200 {
        world.offer(0, &ordered(number));
        world.run(1);
    }
    let killed = world.now;
    world.ends[1] = None;
    for number in 200..400 {
        world.offer(0, &ordered(number));
        world.run(1);
    }
    assert_eq!(world.takes(), [false; 2]);
    let first = world.plain[0].first().unwrap().0;
    // The last sign of life was in flight for 5 ms.
    assert!(first.since(killed) <= Duration::from_nanos(SILENCE + 6 * MS), "{}", first.since(killed).as_nanos());
    let mut seen = vec![false; 400];
    for frame in world.frames(1).into_iter().chain(world.plain[0].iter().map(|(_, frame)| &frame[..])) {
        seen[u32::from_be_bytes(*frame[34..].first_chunk().unwrap()) as usize] = true;
    }
    assert!(seen.iter().all(|seen| *seen), "{seen:?}");
    let plain: Vec<_> = world.plain[0].iter().map(|(_, frame)| frame.clone()).collect();
    assert!(plain.is_sorted_by_key(|frame| u32::from_be_bytes(*frame[34..].first_chunk().unwrap())));
    // A replacement is found, and repair resumes.
    let count = world.plain[0].len();
    world.ends[1] = Some(Engine::new(&plan(1, 2, 1, 1500), [99; 32], world.now, None).unwrap());
    world.run(6_000);
    assert_eq!(world.takes(), [true; 2]);
    world.got[1].clear();
    world.offer(0, &ordered(400));
    world.run(100);
    assert_eq!((world.frames(1), world.plain[0].len()), (vec![&ordered(400)[..]], count));
}

#[test]
fn what_fits_is_told_as_the_bytes_of_a_packet() {
    let mut world = World::up(1500, 0);
    let now = world.now;
    let told = world.ends[0].as_mut().map(|end| crate::daemon::snapshot::Snapshot::of(end, now, 0).peers[0].mtu);
    assert_eq!(told, Some(1452));
    // The Ethernet header adds to the size.
    for (length, plain) in [(1452, 0), (1453, 1)] {
        world.offer(0, &udp(1, 2, length + 14));
        assert_eq!(world.ends[0].as_ref().map(|end| end.links().next().unwrap().counters.oversize), Some(plain));
    }
}

#[test]
fn an_end_that_gives_no_sign_of_life_is_known_to_be_silent() {
    let mut world = World::up(1500, 0);
    let is_silent = |world: &World| world.ends[0].as_ref().is_some_and(|end| end.hearings(world.now)[0].unanswered);
    assert!(!is_silent(&world));
    world.ends[1] = None;
    world.run(900);
    assert!(!is_silent(&world));
    world.run(300);
    assert!(is_silent(&world));
}

#[test]
fn an_end_that_goes_away_says_so() {
    let mut world = World::up(1500, 0);
    world.ends[1].as_mut().unwrap().close(world.now);
    world.pump();
    world.ends[1] = None;
    world.run(6);
    assert_eq!(world.takes(), [false; 2]);
}

/// Without losses, no end is considered disconnected; at 10 % loss, only when all signs of life were lost.
#[test]
fn signs_of_life_are_enough() {
    for (loss, most) in [(0, 0), (100_000, 3)] {
        let mut world = World::up(1500, loss);
        let before: u64 = world.ends.iter().flatten().flat_map(Engine::links).map(|link| link.counters.silences).sum();
        world.run(60_000);
        let silences: u64 =
            world.ends.iter().flatten().flat_map(Engine::links).map(|link| link.counters.silences).sum();
        assert!(silences - before <= most, "{loss}: {silences}");
    }
}

#[test]
fn who_has_another_key_is_never_let_in() {
    let mut world = World::of([plan(0, 1, 2, 1500), plan(1, 3, 1, 1500)], 0);
    for number in 0..200 {
        world.offer(0, &ordered(number));
        world.offer(1, &ordered(number));
        world.run(100);
    }
    assert_eq!(world.takes(), [false; 2]);
    assert!(world.got.iter().all(Vec::is_empty));
    // Both ends let all frames pass unrepaired.
    assert_eq!(world.plain.each_ref().map(Vec::len), [200; 2]);
    assert!(world.ends[0].as_ref().unwrap().session_counters().handshakes == 0);
}

#[test]
fn frames_that_do_not_fit_are_cut_or_go_as_they_are_and_their_sender_is_told() {
    let mut world = World::up(1500, 0);
    // Must not be fragmented: it passes unrepaired, and the answer has the MTU.
    world.offer(0, &udp(7, 2, 1514));
    world.run(50);
    assert_eq!(world.plain[0].pop().unwrap().1, udp(7, 2, 1514));
    let (_, answer) = world.got[0].pop().unwrap();
    assert_eq!((&answer[..6], &answer[6..12]), (&udp(7, 2, 1514)[6..12], &udp(7, 2, 1514)[..6]));
    // 1500 less the length 2, session 24, link 6, length 2, header 14.
    assert_eq!((&answer[34..36], &answer[40..42]), (&[3, 4][..], &1452_u16.to_be_bytes()[..]));
    // May be fragmented.
    world.offer(0, &udp(8, 0, 1514));
    world.run(50);
    let parts: Vec<usize> = world.frames(1).iter().map(|frame| frame.len()).collect();
    assert_eq!((parts.len(), parts.iter().sum::<usize>(), world.plain[0].len()), (2, 1514 + 34, 0));
    // Without IP, no answer is possible.
    world.offer(0, &frame(&[0x88, 0xcc], &[1; 1500]));
    // Multicast is not answered.
    let mut group = udp(9, 2, 1514);
    group[0] = 1;
    world.offer(0, &group);
    world.run(50);
    assert_eq!((world.plain[0].len(), world.got[0].len()), (2, 0));

    // If the hop's MTU is larger, everything fits, including a tag.
    let mut world = World::up(1552, 0);
    let tagged = [&udp(1, 2, 1514)[..12], &[0x81, 0, 0x20, 5], &udp(1, 2, 1514)[12..]].concat();
    for frame in [&udp(7, 2, 1514), &tagged] {
        world.offer(0, frame);
    }
    world.run(50);
    assert_eq!(world.frames(1), [&udp(7, 2, 1514)[..], &tagged]);
}
