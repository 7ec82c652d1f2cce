//! Arbitrary input in arbitrary order: no panic, bounded memory, the rules of [`crate::node::pump`].

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::node::{Disposition, Output, Why, pump};
use crate::packet::{Body, Cause, LinkHeaders, Options, Priority, SackBlock, Side, Timestamps};
use crate::seq::Seq;
use crate::time::Duration;

const CONNECTIONS: usize = 3;
const CACHE: u64 = 20_000;

#[derive(Clone, Debug)]
pub(in super::super) enum Step {
    Packet(Port, Packet),
    Wait(u64),
    Timeout,
}

fn sequence() -> impl Strategy<Value = Seq> {
    // Mostly a few segments around the wrap, so that operations overlap.
    prop_oneof![
        8 => (0u32..40).prop_map(|n| Seq(u32::MAX - 1_000) + n * 100),
        2 => (0u32..4_000).prop_map(|n| Seq(u32::MAX - 1_000) + n),
        1 => any::<u32>().prop_map(Seq),
    ]
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![6 => Just(100u32), 4 => Just(0), 2 => 1u32..3_000, 1 => any::<u32>()]
}

fn options() -> impl Strategy<Value = Options> {
    let blocks = proptest::collection::vec((sequence(), sequence()), 0..5);
    let times = proptest::option::of((any::<u32>(), any::<u32>()));
    (blocks, proptest::option::of(sequence()), times, any::<bool>()).prop_map(|(blocks, smart, times, eln)| {
        let mut options = Options { smart, eln, ..Options::default() };
        options.timestamps = times.map(|(val, ecr)| Timestamps { val, ecr });
        blocks.into_iter().for_each(|(left, right)| options.sack.push(SackBlock { left, right }));
        options
    })
}

pub(in super::super) fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![20 => Just(Flags::ACK), 1 => any::<u16>().prop_map(Flags)];
    let flow = prop_oneof![10 => 0u32..5, 1 => any::<u32>()];
    let window = prop_oneof![8 => Just(5_000u16), 1 => any::<u16>(), 1 => Just(0)];
    let place = (any::<bool>(), any::<bool>(), flow, any::<u16>(), 0u32..50);
    let header = (sequence(), sequence(), window, flags, options(), length());
    let packet = (place, header).prop_map(|((wired, odd, flow, header_len, rare), header)| {
        let (seq, ack, window, flags, options, len) = header;
        let side = if wired == (odd && rare < 5) { Side::Acceptor } else { Side::Initiator };
        let body = match rare {
            0 => Body::Datagram { number: seq.0 },
            _ => Body::Tcp(Segment { seq, ack, window, flags, options }),
        };
        let integrity = if rare == 1 { Integrity::PayloadDamaged } else { Integrity::Intact };
        let header_len = if rare < 10 { header_len } else { 40 };
        let len = if wired { len } else { len * u32::from(rare < 5) };
        let (priority, cause) = (Priority::Normal, Cause::New);
        let packet = Packet {
            flow: FlowId(flow),
            from: side,
            priority,
            integrity,
            ecn: Default::default(),
            cause,
            super_segment: 0,
            header_len,
            len,
            body,
            link: LinkHeaders::NONE,
            payload: (),
        };
        Step::Packet(if wired { Port::WIRED } else { Port::WIRELESS }, packet)
    });
    let wait = prop_oneof![5 => 0u64..50_000_000, 1 => 0u64..5_000_000_000, 1 => any::<u64>().prop_map(|n| n >> 4)];
    prop_oneof![12 => packet, 4 => wait.prop_map(Step::Wait), 2 => Just(Step::Timeout)]
}

fn config() -> impl Strategy<Value = SnoopConfig> {
    let detection = prop_oneof![Just(LocalDetection::DuplicateAcks), Just(LocalDetection::Smart)];
    let awareness = prop_oneof![Just(TcpAwareness::Aware), Just(TcpAwareness::Unaware)];
    let limits = (0..=CONNECTIONS, prop_oneof![Just(CACHE), 0..=CACHE], 0u32..4, 0u32..12);
    let hop = proptest::option::of((0u32..20, prop_oneof![Just(0), 0u32..20_000, any::<u32>()]));
    let hop = hop.prop_map(|hop| hop.map(|(backlog, held)| HopControl { backlog, held }));
    let timer = prop_oneof![4 => Just(200u64), 1 => Just(0), 1 => Just(u64::MAX / 1_000_000)];
    (detection, awareness, limits, timer, hop).prop_map(|(detection, awareness, limits, timer, hop)| {
        let (connections, cache_bytes, dupack_threshold, max_local_retries) = limits;
        let timer_min = Duration::from_millis(timer);
        let new = SnoopConfig::new(detection, awareness);
        SnoopConfig { connections, cache_bytes, dupack_threshold, max_local_retries, timer_min, hop, ..new }
    })
}

fn across(port: Port) -> Port {
    if port == Port::WIRED { Port::WIRELESS } else { Port::WIRED }
}

/// Runs the steps, and passes the output of each to `check`. The packet's fate must match the node's disposition.
pub(in super::super) fn run<N: Node<()>>(
    node: &mut N,
    steps: &[Step],
    mut check: impl FnMut(&N, &Step, &[Output<()>]),
) {
    let mut now = Instant::ZERO;
    for step in steps {
        let mut disposition = None;
        match *step {
            Step::Packet(port, packet) => disposition = Some((port, packet, node.handle_packet(now, port, packet))),
            Step::Wait(nanos) => now += Duration::from_nanos(nanos),
            Step::Timeout => now = node.poll_deadline().map_or(now, |at| at.max(now)),
        }
        node.handle_timeout(now);
        let mut outputs = Vec::new();
        pump(node, now, |output| outputs.push(output));
        let given = outputs.iter().filter_map(|output| match output {
            Output::Transmit(to, Why::Given, packet) => Some((*to, *packet)),
            _ => None,
        });
        let given: Vec<_> = given.collect();
        match disposition {
            Some((port, packet, Disposition::Forwarded)) => assert_eq!(given, [(across(port), packet)]),
            Some((port, packet, Disposition::Changed)) => {
                assert!(matches!(given[..], [(to, sent)] if to == across(port) && sent != packet), "{given:?}");
            }
            _ => assert_eq!(given, []),
        }
        check(node, step, &outputs);
        // A second timeout at the same time has no effect.
        node.handle_timeout(now);
        pump(node, now, |output| panic!("{output:?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_input_is_survived(config in config(), steps in proptest::collection::vec(step(), 1..200)) {
        let limits = (config.cache_bytes, config.connections);
        let unaware = config.awareness == TcpAwareness::Unaware;
        let hop = config.hop.is_some();
        let mut snoop = Snoop::new(config);
        run(&mut snoop, &steps, |snoop, step, outputs| {
            assert!(snoop.cached_bytes() <= limits.0 && snoop.connections() <= limits.1);
            assert!(snoop.timers.len() <= snoop.connections());
            snoop.connections.values().for_each(|connection| connection.cache.check());
            let all = snoop.connections.values().chain(&snoop.over);
            let sum: u64 = all.map(|connection| connection.cache.bytes()).sum();
            assert_eq!(sum, snoop.cached_bytes());
            let passed = |port, packet: &Packet| outputs.iter().any(|output| {
                matches!(output, Output::Transmit(to, _, out) if *to == port && out == packet)
            });
            if let Step::Packet(port, packet) = step {
                let to = if *port == Port::WIRED { Port::WIRELESS } else { Port::WIRED };
                // Control segments and packets other than TCP pass unchanged; LL passes everything unchanged.
                let control = packet.tcp().is_none_or(|tcp| {
                    let fin = tcp.flags.has(Flags::FIN) && packet.len == 0;
                    // With flow control its window may be changed.
                    tcp.flags.has(Flags::SYN) || tcp.flags.has(Flags::RST) || (fin && !hop)
                });
                if unaware || control || packet.integrity != Integrity::Intact {
                    assert!(passed(to, packet), "{packet:?} {outputs:?}");
                }
            }
        });
    }
}
