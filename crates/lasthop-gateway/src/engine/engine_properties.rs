//! Properties for arbitrary input: memory is bounded, decisions are deterministic, and streams arrive complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_proto::node::{Node, Output, pump};
use lasthop_proto::packet::{Options, Packet, SackBlock, Segment, Side, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Preset, Recovery, Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Setup, TickPhase};
use lasthop_wire::{Route, build, pieces};
use proptest::prelude::*;

use super::*;
use crate::engine::rules::Mode;

const FLOWS: usize = 8;
const CACHE: u64 = 30_000;

/// Maximum bytes of headers and other packets held per flow, besides its cached data.
const PER_FLOW: u64 = 200;

#[derive(Clone, Debug)]
pub(in crate::engine) enum Step {
    Packet(Port, Vec<u8>),
    Wait(u64),
}

fn sequence() -> impl Strategy<Value = Seq> {
    // Mostly a few segments around the wrap of sequence numbers, so that packets overlap.
    prop_oneof![
        8 => (0u32..40).prop_map(|n| Seq(u32::MAX - 10_000) + n * 1_000),
        1 => (0u32..40_000).prop_map(|n| Seq(u32::MAX - 10_000) + n),
        1 => any::<u32>().prop_map(Seq),
    ]
}

fn segment() -> impl Strategy<Value = Segment> {
    let flags = prop_oneof![20 => Just(Flags::ACK), 1 => Just(Flags::SYN), 1 => (0..=Flags::ALL.0).prop_map(Flags)];
    let blocks = proptest::collection::vec((sequence(), sequence()), 0..3);
    let times = proptest::option::of(any::<(u32, u32)>());
    (sequence(), sequence(), flags, blocks, times, prop_oneof![4 => Just(500u16), 1 => any::<u16>()]).prop_map(
        |(seq, ack, flags, blocks, times, window)| {
            let syn = flags.has(Flags::SYN);
            let mut options = Options { mss: syn.then_some(window), ..Options::default() };
            options.timestamps = times.map(|(val, ecr)| Timestamps { val, ecr });
            let blocks = blocks.into_iter().filter(|_| !syn);
            blocks.for_each(|(left, right)| options.sack.push(SackBlock { left, right }));
            Segment { seq, ack, window, flags, options }
        },
    )
}

pub(in crate::engine) fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => Just(0usize), 6 => Just(1_000), 1 => 0usize..3_000, 1 => 3_000usize..60_000];
    let packet = (any::<bool>(), 0u16..20, segment(), len, 0u8..40, any::<bool>()).prop_map(
        |(wired, flow, segment, len, rare, v6)| {
            let route = if v6 && flow % 2 == 0 {
                Route { source: ([1u16; 8], 80).into(), destination: ([2u16; 8], flow).into() }
            } else {
                Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], flow).into() }
            };
            // Mostly two active flows.
            let route = if rare > 4 { Route { destination: ([10, 0, 0, 2], flow & 1).into(), ..route } } else { route };
            let route = if route.source.is_ipv4() == route.destination.is_ipv4() { route } else { route_v4(flow) };
            let way = if wired != (rare == 0) { route } else { route.reversed() };
            let mut bytes = build(way, &segment, &vec![flow as u8; len]).unwrap();
            if rare == 1 {
                bytes.truncate(len.max(7) * 3 / 4);
            }
            if rare == 2
                && let Some(byte) = bytes.get_mut(len % 60)
            {
                *byte ^= 0x55;
            }
            Step::Packet(if wired { Port::WIRED } else { Port::WIRELESS }, bytes)
        },
    );
    let wait = prop_oneof![5 => 0u64..50_000_000, 1 => 0u64..5_000_000_000, 1 => any::<u64>().prop_map(|n| n >> 8)];
    prop_oneof![12 => packet, 3 => wait.prop_map(Step::Wait)]
}

fn route_v4(flow: u16) -> Route {
    Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], flow).into() }
}

fn config(mode: Mode, ab: f64) -> EngineConfig {
    let mut rule = Rule { ab, ..Rule::all("r", mode) };
    rule.snoop.cache_bytes = CACHE;
    EngineConfig { flows: FLOWS, idle: Duration::from_secs(10), ..EngineConfig::new(vec![rule]) }
}

/// Returns an engine's answers to the steps and checks its bounds.
fn run(mode: Mode, ab: f64, steps: &[Step]) -> (Vec<(Verdict, Vec<Injection>)>, Counters) {
    let mut engine = Engine::new(config(mode, ab), 3);
    let (mut now, mut said) = (Instant::ZERO, Vec::new());
    for step in steps {
        let mut out = Vec::new();
        let verdict = match step {
            Step::Wait(nanos) => {
                now += Duration::from_nanos(*nanos);
                Verdict::Accept
            }
            Step::Packet(port, bytes) => engine.handle_packet(now, *port, bytes, Offloaded::NOTHING, &mut out),
        };
        engine.handle_timeout(now, &mut out);
        assert!(engine.poll_deadline().is_none_or(|at| at > now));
        let counters = engine.counters();
        assert!(counters.flows <= FLOWS as u64 && counters.rules[0].cached_bytes <= CACHE);
        let held = CACHE * 5 / 2 + u64::from(u16::MAX) + PER_FLOW * FLOWS as u64;
        assert!(counters.held_bytes <= held, "{}", counters.held_bytes);
        for injection in &out {
            let view = parse(&injection.packet).expect("whole packets");
            assert!(pieces(&injection.packet, &view, usize::MAX).iter().eq([&injection.packet]));
        }
        said.push((verdict, out));
    }
    (said, engine.counters())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_are_survived_and_treated_the_same_again(steps in proptest::collection::vec(step(), 1..120)) {
        prop_assert_eq!(run(Mode::Snoop, 0.0, &steps), run(Mode::Snoop, 0.0, &steps));
    }

    #[test]
    fn observe_bypass_and_the_untreated_change_nothing(steps in proptest::collection::vec(step(), 1..120)) {
        for (mode, ab) in [(Mode::Observe, 0.0), (Mode::Bypass, 0.0), (Mode::Snoop, 1.0)] {
            let (said, counters) = run(mode, ab, &steps);
            prop_assert!(said.iter().all(|said| *said == (Verdict::Accept, vec![])));
            prop_assert_eq!(counters.held_bytes, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn streams_arrive_whole(loss in prop_oneof![Just(0.0), 0.0..0.3], merge in 1u32..40, seed in any::<u64>(), sack in any::<bool>()) {
        let outcome = transfer(loss, merge, seed, sack, Mode::Snoop);
        prop_assert!(outcome.complete, "{outcome:?}");
    }
}

/// The purpose of snoop: the sender does not see losses on the hop.
#[test]
fn snoop_keeps_the_losses_from_the_sender() {
    for sack in [true, false] {
        let of = |mode| (0..5).map(|seed| transfer(0.02, 10, seed, sack, mode)).collect::<Vec<_>>();
        let (treated, bare) = (of(Mode::Snoop), of(Mode::Bypass));
        assert!(treated.iter().chain(&bare).all(|outcome| outcome.complete));
        let sum = |outcomes: &[Outcome], what: fn(&Outcome) -> f64| outcomes.iter().map(what).sum::<f64>();
        let resent = |outcome: &Outcome| outcome.resent as f64;
        let time = |outcome: &Outcome| outcome.seconds;
        assert!(sum(&treated, resent) * 5.0 < sum(&bare, resent), "{treated:?} {bare:?}");
        assert!(sum(&treated, time) < sum(&bare, time), "{treated:?} {bare:?}");
    }
}

#[derive(Debug, Default)]
struct Outcome {
    complete: bool,
    seconds: f64,
    /// Packets that the sender retransmitted.
    resent: u64,
}

const BYTES: u64 = 600_000;
const ISS: u32 = u32::MAX - 100_000;
const WIRED_DELAY: Duration = Duration::from_millis(20);
const HOP_DELAY: Duration = Duration::from_millis(3);

fn pattern(seq: Seq) -> u8 {
    (seq.0.wrapping_mul(2_654_435_761) >> 11) as u8
}

enum Happening {
    ToGateway(Port, Vec<u8>),
    /// Beyond the gateway, from the given port's side.
    ToEnd(Port, Vec<u8>),
}

/// Runs two of our own endpoints with real bytes between them; up to `merge` segments travel as one packet to the hop.
fn transfer(loss: f64, merge: u32, seed: u64, sack: bool, mode: Mode) -> Outcome {
    let mut tcp = TcpConfig::new(Preset::Rfc, if sack { Recovery::SACK } else { Recovery::NEW_RENO });
    (tcp.common.mss, tcp.common.send_buffer, tcp.receiver.receive_buffer) = (1448, 200_000, 200_000);
    (tcp.receiver.window_scale, tcp.common.timestamps) = (Some(5), if sack { Switch::On } else { Switch::Off });
    let tcp = Arc::new(tcp);
    let end = |side, iss| {
        let phase = TickPhase::default();
        let setup = Setup { flow: FlowId(0), side, config: tcp.clone(), iss: Seq(iss), phase, watch: Switch::Off };
        Connection::new(setup)
    };
    let (mut sender, mut receiver) = (end(Side::Initiator, ISS), end(Side::Acceptor, 77));
    receiver.listen();
    sender.connect();
    sender.write(BYTES);
    sender.close();
    let route = Route { source: ([10, 0, 0, 1], 5000).into(), destination: ([10, 9, 0, 1], 80).into() };
    let mut engine = Engine::new(EngineConfig::new(vec![Rule::all("r", mode)]), seed);
    let mut errors = Root(seed).stream("test/errors");
    let mut agenda: BTreeMap<(Instant, u64), Happening> = BTreeMap::new();
    let (mut now, mut order, mut outcome) = (Instant::ZERO, 0, Outcome::default());
    for _ in 0..200_000 {
        let mut out = Vec::new();
        let mut add = |at, happening| {
            order += 1;
            agenda.insert((at, order), happening);
        };
        for (port, end) in [(Port::WIRED, &mut sender), (Port::WIRELESS, &mut receiver)] {
            end.handle_timeout(now);
            let mut packets: Vec<(Segment, u32)> = Vec::new();
            pump(end, now, |output| {
                let Output::Transmit(_, _, packet) = output else { return };
                outcome.resent += u64::from(packet.cause.is_source_retransmission());
                let Some(&segment) = packet.tcp() else { return };
                match packets.last_mut() {
                    Some((first, len))
                        if first.seq + *len == segment.seq
                            && *len > 0
                            && len.is_multiple_of(1448)
                            && *len < merge * 1448
                            && first.flags == segment.flags
                            && (first.ack, first.options) == (segment.ack, segment.options) =>
                    {
                        *len += packet.len;
                    }
                    _ => packets.push((segment, packet.len)),
                }
            });
            let (way, delay) = if port == Port::WIRED { (route, WIRED_DELAY) } else { (route.reversed(), HOP_DELAY) };
            for (segment, len) in packets {
                let payload: Vec<u8> = (0..len).map(|at| pattern(segment.seq + at)).collect();
                let lost = port == Port::WIRELESS && errors.chance(loss);
                if !lost {
                    add(now + delay, Happening::ToGateway(port, build(way, &segment, &payload).unwrap()));
                }
            }
        }
        receiver.read(receiver.readable());
        if receiver.peer_closed() {
            receiver.close();
        }
        if sender.all_acked() {
            outcome.complete = receiver.received() == BYTES && receiver.peer_closed();
            outcome.seconds = now.as_secs_f64();
            return outcome;
        }
        let deadlines = [sender.poll_deadline(), receiver.poll_deadline(), engine.poll_deadline()];
        let arrival = agenda.first_key_value().map(|(&(at, _), _)| at);
        let Some(next) = deadlines.into_iter().flatten().chain(arrival).min() else { return outcome };
        now = now.max(next);
        engine.handle_timeout(now, &mut out);
        let mut sent: Vec<(Port, Vec<u8>)> = Vec::new();
        if arrival.is_some_and(|at| at <= now)
            && let Some((_, happening)) = agenda.pop_first()
        {
            match happening {
                Happening::ToGateway(port, packet) => {
                    let to = Port(port.0 ^ 1);
                    match engine.handle_packet(now, port, &packet, Offloaded::NOTHING, &mut out) {
                        Verdict::Accept => sent.push((to, packet)),
                        Verdict::Replace(packet) => sent.push((to, packet)),
                        Verdict::Drop => {}
                    }
                }
                Happening::ToEnd(to, packet) => {
                    let view = parse(&packet).unwrap();
                    let payload = &packet[view.header_len..];
                    let right =
                        payload.iter().enumerate().all(|(at, &byte)| byte == pattern(view.segment.seq + at as u32));
                    assert!(right, "wrong bytes at {}", view.segment.seq);
                    let from = if to == Port::WIRELESS { Side::Initiator } else { Side::Acceptor };
                    let body = lasthop_proto::packet::Body::Tcp(view.segment);
                    let len = view.payload_len as u32;
                    let packet = Packet { from, body, len, header_len: view.header_len as u16, ..Packet::default() };
                    let end = if to == Port::WIRELESS { &mut receiver } else { &mut sender };
                    end.handle_packet(now, Port::ONLY, packet);
                }
            }
        }
        sent.extend(out.into_iter().map(|injection| (injection.towards, injection.packet)));
        let mut add = |at, happening| {
            order += 1;
            agenda.insert((at, order), happening);
        };
        for (to, packet) in sent {
            let view = parse(&packet).unwrap();
            if to == Port::WIRED {
                add(now + WIRED_DELAY, Happening::ToEnd(to, packet));
                continue;
            }
            for piece in pieces(&packet, &view, 1448) {
                if !errors.chance(loss) {
                    add(now + HOP_DELAY, Happening::ToEnd(to, piece));
                }
            }
        }
    }
    outcome
}
