//! Rules for QUIC, with a client that acknowledges as RFC 9000 says, and with hostile datagrams.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_proto::node::Port;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Checksum, Route, build_datagram, parse_datagram};

use crate::engine::counters::{QuicCounters, RuleCounters};
use crate::engine::rules::{EngineConfig, Mode, Rule};
use crate::engine::{Engine, Injection, Offloaded, Verdict};

const MS: Duration = Duration::from_millis(1);
/// Spacing of full datagrams at 10 Mbps.
const SPACING: Duration = Duration::from_micros(1200);
/// Round trip of the hop, and of the path before it.
const HOP: Duration = Duration::from_millis(4);
const WIRE: Duration = Duration::from_millis(50);
/// Longest time for which an acknowledgment is held.
const HOLD: Duration = Duration::from_millis(25);
const LONG: u8 = 0xc0;
const SHORT: u8 = 0x40;
/// Length of an acknowledgment without a gap.
const BARE: usize = 36;
const V4: [&str; 2] = ["10.2.0.2:5000", "10.1.0.2:443"];
const V6: [&str; 2] = ["[fd02::2]:5000", "[fd01::2]:443"];

fn engine(ab: f64) -> Engine {
    let rule = Rule { ab, ..Rule::all("web", Mode::Quic) };
    Engine::new(EngineConfig { flows: 100, ..EngineConfig::new(vec![rule]) }, 7)
}

fn counters(engine: &mut Engine) -> (RuleCounters, QuicCounters) {
    let rule = engine.counters().rules.remove(0);
    let quic = rule.quic.unwrap();
    (rule, quic)
}

/// Returns the route of a client's datagrams.
fn upwards([client, server]: [&str; 2]) -> Route {
    Route { source: client.parse().unwrap(), destination: server.parse().unwrap() }
}

/// Returns a datagram whose payload starts with a form and a version, and contains a number.
fn datagram(route: Route, form: u8, len: usize, number: u32) -> Vec<u8> {
    let mut payload = vec![0; len];
    payload[0] = form;
    payload[1..5].copy_from_slice(&1_u32.to_be_bytes());
    payload[5..9].copy_from_slice(&number.to_be_bytes());
    build_datagram(route, &payload).unwrap()
}

fn number(packet: &[u8]) -> u32 {
    let payload = parse_datagram(packet).unwrap().payload(packet).to_vec();
    u32::from_be_bytes(payload[5..9].try_into().unwrap())
}

enum Event {
    FromServer(Vec<u8>),
    AtClient(Vec<u8>),
    FromClient(Vec<u8>),
}

/// An engine between a server that sends at 10 Mbps and a client, with a hop that loses some transmissions.
struct World {
    engine: Engine,
    route: Route,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
    received: BTreeSet<u32>,
    unacknowledged: u32,
    transmissions: usize,
    lost: BTreeSet<usize>,
    acknowledgments: u32,
    /// Datagrams that the client sent, with the time at which they reached the gateway.
    sent_back: BTreeMap<u32, (Instant, Vec<u8>)>,
    /// Datagrams that left towards the server, in order, with their lengths.
    arrived: Vec<(u32, usize)>,
    copies: usize,
}

impl World {
    /// Creates a connection whose handshake has passed.
    fn new(engine: Engine, ends: [&str; 2]) -> Self {
        let mut world = Self {
            engine,
            route: upwards(ends),
            now: Instant::ZERO + MS * 1000,
            events: BTreeMap::new(),
            scheduled: 0,
            received: BTreeSet::new(),
            unacknowledged: 0,
            transmissions: 0,
            lost: BTreeSet::new(),
            acknowledgments: 0,
            sent_back: BTreeMap::new(),
            arrived: Vec::new(),
            copies: 0,
        };
        let (up, down) = (world.route, world.route.reversed());
        world.pass(Port::WIRELESS, datagram(up, LONG, 1200, 0));
        world.now += WIRE;
        world.pass(Port::WIRED, datagram(down, LONG, 1200, 0));
        world.now += HOP;
        world.pass(Port::WIRELESS, datagram(up, LONG, 80, 0));
        world.now += WIRE;
        world.events.clear();
        world.arrived.clear();
        world.sent_back.clear();
        (world.transmissions, world.copies) = (0, 0);
        world
    }

    /// Lets the server send datagrams, the hop lose the transmissions `lost`, and the server retransmit them a round trip
    /// after it learned of them.
    fn download(&mut self, datagrams: u32, lost: &[usize]) {
        self.lost = lost.iter().copied().collect();
        for index in 0..datagrams {
            let packet = datagram(self.route.reversed(), SHORT, 1400, index);
            self.schedule(self.now + SPACING * u64::from(index), Event::FromServer(packet));
        }
        self.run();
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    /// Runs until nothing happens within two seconds.
    fn run(&mut self) {
        let until = |world: &Self| world.now + MS * 2000;
        loop {
            let next = self.events.first_key_value().map(|((at, _), _)| *at);
            let timer = self.engine.poll_deadline();
            let Some(at) = [next, timer].into_iter().flatten().min().filter(|at| *at <= until(self)) else { return };
            if next.is_none() && self.events.is_empty() && self.now + MS * 1500 < at {
                return;
            }
            self.now = at;
            if next != Some(at) {
                let mut out = Vec::new();
                self.engine.handle_timeout(at, &mut out);
                self.emit(out);
                if next.is_none() && self.arrived.len() == self.sent_back.len() {
                    return;
                }
                continue;
            }
            match self.events.pop_first().map(|(_, event)| event) {
                Some(Event::FromServer(packet)) => self.pass(Port::WIRED, packet),
                Some(Event::FromClient(packet)) => self.pass(Port::WIRELESS, packet),
                Some(Event::AtClient(packet)) => self.at_client(&packet),
                None => return,
            }
        }
    }

    fn at_client(&mut self, packet: &[u8]) {
        let number = number(packet);
        let largest = self.received.last().copied();
        if !self.received.insert(number) {
            return;
        }
        self.unacknowledged += 1;
        if largest.is_none_or(|largest| number == largest + 1) && self.unacknowledged < 2 {
            return;
        }
        self.unacknowledged = 0;
        let pairs = self.received.iter().zip(self.received.iter().skip(1));
        let gaps = pairs.filter(|(before, after)| *after - *before > 1).count();
        self.acknowledgments += 1;
        let packet = datagram(self.route, SHORT, BARE + 2 * gaps, self.acknowledgments);
        self.schedule(self.now + HOP / 2, Event::FromClient(packet));
    }

    fn pass(&mut self, port: Port, packet: Vec<u8>) {
        let mut out = Vec::new();
        if port == Port::WIRELESS {
            self.sent_back.insert(number(&packet), (self.now, packet.clone()));
        }
        match self.engine.handle_packet(self.now, port, &packet, Offloaded::NOTHING, &mut out) {
            Verdict::Accept if port == Port::WIRED => self.transmit(packet),
            Verdict::Accept => self.at_server(&packet),
            Verdict::Drop => assert_eq!(port, Port::WIRELESS, "data never waits"),
            Verdict::Replace(_) => panic!("a datagram is never changed"),
        }
        self.emit(out);
    }

    fn emit(&mut self, out: Vec<Injection>) {
        for Injection { towards, packet } in out {
            if towards == Port::WIRED {
                self.at_server(&packet);
            } else {
                self.copies += 1;
                self.transmit(packet);
            }
        }
    }

    fn transmit(&mut self, packet: Vec<u8>) {
        if !self.lost.contains(&self.transmissions) {
            self.schedule(self.now + HOP / 2, Event::AtClient(packet));
        }
        self.transmissions += 1;
    }

    fn at_server(&mut self, packet: &[u8]) {
        let number = number(packet);
        let (since, original) = &self.sent_back[&number];
        assert_eq!(packet, original, "unchanged");
        assert!(self.now.since(*since) <= HOLD, "held for {:?}", self.now.since(*since));
        let payload = parse_datagram(packet).unwrap().payload_len;
        // The server retransmits a lost datagram once it learns of it.
        if payload > BARE
            && self.arrived.iter().all(|(other, _)| *other < number)
            && let Some(largest) = self.received.last()
        {
            let missing = (0..*largest).filter(|number| !self.received.contains(number)).collect::<Vec<_>>();
            for number in missing {
                let packet = datagram(self.route.reversed(), SHORT, 1400, number);
                self.schedule(self.now + WIRE, Event::FromServer(packet));
            }
        }
        self.arrived.push((number, payload));
    }

    /// Returns the number of acknowledgments that showed the server a gap before any later one without.
    fn revealed(&self) -> usize {
        let (mut newest, mut count) = (0, 0);
        for &(number, len) in &self.arrived {
            count += usize::from(number > newest && len > BARE);
            newest = newest.max(number);
        }
        count
    }

    /// Checks that each datagram of the client left once.
    fn assert_all_arrived(&self) {
        let numbers: BTreeSet<u32> = self.arrived.iter().map(|(number, _)| *number).collect();
        assert_eq!((numbers.len(), self.arrived.len()), (self.sent_back.len(), self.sent_back.len()));
    }
}

const LOST: [usize; 5] = [60, 101, 150, 203, 260];

#[test]
fn losses_of_the_hop_are_repaired_and_the_sender_learns_nothing_in_both_ip_versions() {
    for ends in [V4, V6] {
        let mut world = World::new(engine(0.0), ends);
        world.download(300, &LOST);
        let (rule, quic) = counters(&mut world.engine);
        assert_eq!((quic.treated.cases, quic.treated.repaired), (5, 5), "{quic:?}");
        assert_eq!((world.received.len(), world.revealed()), (300, 0), "{quic:?} {:?}", world.arrived);
        assert_eq!(world.copies as u64, quic.treated.copies);
        assert_eq!((rule.flows_seen, rule.flows_active), (1, 1));
        world.assert_all_arrived();
    }
}

#[test]
fn the_untreated_share_passes_and_its_cases_are_confirmed_by_the_sender() {
    let mut world = World::new(engine(1.0), V4);
    world.download(600, &[60, 200, 330, 450]);
    let (_, quic) = counters(&mut world.engine);
    assert_eq!((world.copies, quic.treated.cases), (0, 0));
    assert_eq!((quic.untreated.cases, quic.untreated.repaired), (4, 4), "{quic:?}");
    assert!(world.revealed() > 0, "the sender learns of each loss");
    world.assert_all_arrived();
    let arms = world.engine.arms().remove(0);
    assert_eq!((arms.treated.flows, arms.untreated.flows), (0, 1));
    // 1400 bytes every 1.2 ms.
    let rate = arms.untreated.values[0];
    assert!((1.0e6..1.4e6).contains(&rate), "{rate}");
}

#[test]
fn udp_passes_without_a_rule_for_it_and_tcp_ignores_a_rule_for_quic() {
    let mut snoop = Engine::new(EngineConfig::new(vec![Rule::all("tcp", Mode::Snoop)]), 7);
    let mut out = Vec::new();
    let packet = datagram(upwards(V4), LONG, 1200, 1);
    let verdict = snoop.handle_packet(Instant::ZERO, Port::WIRELESS, &packet, Offloaded::NOTHING, &mut out);
    assert_eq!((verdict, out.len(), snoop.counters().unmatched), (Verdict::Accept, 0, 1));
    let mut quic = engine(0.0);
    let syn = lasthop_proto::packet::Segment {
        flags: lasthop_proto::packet::Flags::SYN,
        ..lasthop_proto::packet::Segment::default()
    };
    let packet = lasthop_wire::build(upwards(V4), &syn, &[]).unwrap();
    let verdict = quic.handle_packet(Instant::ZERO, Port::WIRELESS, &packet, Offloaded::NOTHING, &mut out);
    assert_eq!((verdict, quic.counters().unmatched, quic.counters().flows), (Verdict::Accept, 1, 0));
}

/// Passes a datagram that must not cause anything.
fn pass(engine: &mut Engine, now: Instant, port: Port, packet: &[u8]) {
    let mut out = Vec::new();
    let verdict = engine.handle_packet(now, port, packet, Offloaded::NOTHING, &mut out);
    assert_eq!((verdict, out.len()), (Verdict::Accept, 0));
}

#[test]
fn a_connection_whose_beginning_was_not_seen_passes_as_after_a_migration() {
    let mut engine = engine(0.0);
    let up = upwards(["10.2.0.2:6000", V4[1]]);
    for index in 0..100_u32 {
        let now = Instant::ZERO + SPACING * u64::from(index);
        pass(&mut engine, now, Port::WIRED, &datagram(up.reversed(), SHORT, 1400, index));
        pass(&mut engine, now, Port::WIRELESS, &datagram(up, SHORT, BARE + 2 * (index as usize % 2), index));
    }
    // A long header that does not begin a connection, and a version negotiation.
    pass(&mut engine, Instant::ZERO, Port::WIRELESS, &datagram(up, LONG, 300, 1));
    let mut negotiation = vec![LONG; 1200];
    negotiation[1..5].fill(0);
    let other = upwards(["10.2.0.3:6000", V4[1]]);
    pass(&mut engine, Instant::ZERO, Port::WIRELESS, &build_datagram(other, &negotiation).unwrap());
    let (rule, quic) = counters(&mut engine);
    assert_eq!((quic.unseen, quic.treated.cases, rule.cached_bytes), (2, 0, 0));
    assert_eq!((rule.flows_seen, rule.flows_active), (0, 2));
}

#[test]
fn merged_datagrams_pass() {
    let mut engine = engine(0.0);
    let up = upwards(V4);
    pass(&mut engine, Instant::ZERO, Port::WIRELESS, &datagram(up, LONG, 1200, 1));
    pass(&mut engine, Instant::ZERO, Port::WIRED, &datagram(up.reversed(), LONG, 1200, 1));
    assert!(counters(&mut engine).0.cached_bytes == 0);
    pass(&mut engine, Instant::ZERO, Port::WIRED, &datagram(up.reversed(), SHORT, 14_000, 1));
    pass(&mut engine, Instant::ZERO, Port::WIRED, &datagram(up.reversed(), SHORT, 1400, 2));
    let (rule, quic) = counters(&mut engine);
    assert_eq!((quic.aggregated, rule.cached_bytes), (1, 0));
}

#[test]
fn a_flood_of_openings_and_forged_datagrams_stays_within_the_limits_and_leaves_connections_alone() {
    let mut world = World::new(engine(0.0), V4);
    world.download(100, &[]);
    let before = counters(&mut world.engine).0.cached_bytes;
    assert!(before > 0);
    for index in 0..20_000_u32 {
        let client = format!("10.{}.{}.{}:{}", 3 + index % 50, index / 50 % 250, index % 250, 1024 + index % 60_000);
        let up = upwards([&client, V4[1]]);
        let form = if index % 3 == 0 { SHORT } else { LONG };
        pass(&mut world.engine, world.now, Port::WIRELESS, &datagram(up, form, 1200, index));
    }
    let all = world.engine.counters();
    assert!(all.flows <= 100, "{all:?}");
    // From the wrong side, of the known connection.
    let forged = datagram(world.route, SHORT, BARE + 2, 1);
    pass(&mut world.engine, world.now, Port::WIRED, &forged);
    assert_eq!(counters(&mut world.engine).0.cached_bytes, before);
    // The connection is still under repair.
    (world.transmissions, world.lost) = (0, BTreeSet::from([50]));
    for index in 100..200_u32 {
        let packet = datagram(world.route.reversed(), SHORT, 1400, index);
        world.schedule(world.now + SPACING * u64::from(index - 99), Event::FromServer(packet));
    }
    world.run();
    let (_, quic) = counters(&mut world.engine);
    assert_eq!((quic.treated.repaired, world.revealed()), (1, 0), "{quic:?}");
}

#[test]
fn forged_acknowledgments_cause_copies_within_the_budget_and_are_held_for_a_bounded_time() {
    let mut engine = engine(0.0);
    let (up, mut now) = (upwards(V4), Instant::ZERO);
    pass(&mut engine, now, Port::WIRELESS, &datagram(up, LONG, 1200, 1));
    pass(&mut engine, now, Port::WIRED, &datagram(up.reversed(), LONG, 1200, 1));
    now += HOP;
    pass(&mut engine, now, Port::WIRELESS, &datagram(up, LONG, 60, 1));
    let (mut data, mut copies, mut held) = (0, 0, BTreeMap::new());
    for index in 0..20_000_u32 {
        now += Duration::from_micros(600);
        let mut out = Vec::new();
        engine.handle_timeout(now, &mut out);
        let (port, packet) = match index % 2 {
            0 => (Port::WIRED, datagram(up.reversed(), SHORT, 1400, index)),
            _ => (Port::WIRELESS, datagram(up, SHORT, BARE + 2 * (index as usize * 7 % 5), index)),
        };
        let verdict = engine.handle_packet(now, port, &packet, Offloaded::NOTHING, &mut out);
        if port == Port::WIRED {
            data += packet.len();
            assert_eq!(verdict, Verdict::Accept);
        } else if verdict == Verdict::Drop {
            held.insert(index, (now, packet));
        }
        for Injection { towards, packet } in out {
            if towards == Port::WIRED {
                let (since, original) = held.remove(&number(&packet)).expect("held once");
                assert_eq!(packet, original);
                assert!(now.since(since) <= HOLD + MS, "{:?}", now.since(since));
            } else {
                copies += packet.len();
            }
        }
        assert!(held.len() <= 128);
        assert!(copies * 10 <= data, "{copies} of {data} bytes");
    }
    let (rule, quic) = counters(&mut engine);
    assert!(copies > 0 && quic.treated.passed.iter().sum::<u64>() > 0, "{quic:?}");
    assert!(rule.cached_bytes <= 256 << 10);
}

#[test]
fn a_reload_without_the_rule_releases_what_is_held() {
    let mut world = World::new(engine(0.0), V4);
    world.download(100, &[]);
    let up = world.route;
    for index in 100..110 {
        world.now += SPACING;
        let packet = datagram(up.reversed(), SHORT, 1400, index);
        pass(&mut world.engine, world.now, Port::WIRED, &packet);
    }
    world.now += MS;
    let mut out = Vec::new();
    let longer = datagram(up, SHORT, BARE + 2, 500);
    let verdict = world.engine.handle_packet(world.now, Port::WIRELESS, &longer, Offloaded::NOTHING, &mut out);
    assert_eq!(verdict, Verdict::Drop, "held");
    assert!(out.iter().all(|copy| copy.towards == Port::WIRELESS));
    out.clear();
    world.engine.reconfigure(world.now, EngineConfig::new(Vec::new()), &mut out);
    assert_eq!(out, [Injection { towards: Port::WIRED, packet: longer }]);
    assert_eq!(world.engine.counters().flows, 0);
}

#[test]
fn a_copy_of_a_datagram_whose_checksum_is_pending_has_its_checksum() {
    let mut world = World::new(engine(0.0), V4);
    world.download(100, &[]);
    let up = world.route;
    let pending = Offloaded { size: None, checksum: Checksum::Pending };
    for index in 100..110 {
        world.now += SPACING;
        let mut packet = datagram(up.reversed(), SHORT, 1400, index);
        packet[26..28].fill(0x55);
        let verdict = world.engine.handle_packet(world.now, Port::WIRED, &packet, pending, &mut Vec::new());
        assert_eq!(verdict, Verdict::Accept);
    }
    world.now += MS;
    let mut out = Vec::new();
    let longer = datagram(up, SHORT, BARE + 2, 500);
    world.engine.handle_packet(world.now, Port::WIRELESS, &longer, Offloaded::NOTHING, &mut out);
    assert!(out.iter().any(|copy| number(&copy.packet) >= 100));
    for Injection { packet, .. } in out {
        assert_eq!(packet, datagram(up.reversed(), SHORT, 1400, number(&packet)));
    }
}
