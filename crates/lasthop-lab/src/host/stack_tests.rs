//! Tests of hosts without a device: packet by packet in virtual time, and with arbitrary input.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::event::Event;
use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Preset, Recovery, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Route, View, build, parse};
use proptest::prelude::*;

use super::end::{App, Payload, Ticket};
use super::outcome::{Ending, Outcome};
use super::stack::{MAX_ENDS, MAX_HALF_OPEN, Stack};
use super::{HostConfig, HostError, icmp};

const DELAY: Duration = Duration::from_millis(10);

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 5000))
}

fn route() -> Route {
    Route { source: address(1), destination: address(2) }
}

fn stack(host: u8) -> Stack {
    Stack::new(&HostConfig {
        name: host.to_string(),
        device: String::new(),
        kernel_v4: None,
        kernel_v6: None,
        addresses: vec![address(host).ip()],
        mtu: 1500,
        seed: u64::from(host),
        errors: [ErrorSpec::None, ErrorSpec::None],
        watch: Switch::On,
    })
}

fn rfc(recovery: Recovery) -> Arc<TcpConfig> {
    let smart_acks = if recovery == Recovery::SMART { Switch::On } else { Switch::Off };
    Arc::new(TcpConfig::new(Preset::Rfc, recovery).with(|c| {
        c.receiver.smart_acks = smart_acks;
        c.common.timestamps = Switch::Off;
    }))
}

fn receive() -> App {
    App::Receive { bytes: None, payload: Payload::Pattern, meter: None }
}

/// Two hosts, [`DELAY`] apart; the first sends to the second.
struct Pair {
    now: Instant,
    stacks: [Stack; 2],
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    outcomes: [Option<Outcome>; 2],
}

impl Pair {
    /// Creates a pair in which the second host waits for the transfer and the first has started it.
    fn begin(config: &Arc<TcpConfig>, bytes: u64) -> Self {
        let mut pair =
            Self { now: Instant::ZERO, stacks: [stack(1), stack(2)], wire: VecDeque::new(), outcomes: [None, None] };
        let limit = Instant::ZERO + Duration::from_secs(600);
        let mut out = Vec::new();
        let listening = (address(2), None, receive(), config.clone());
        pair.stacks[1].listen(pair.now, Ticket(1), listening, limit).expect("room");
        let opening = (route(), App::Send { bytes, close: Switch::On }, config.clone());
        pair.stacks[0].open(pair.now, Ticket(0), opening, limit, &mut out).expect("room");
        pair.launch(1, out);
        pair
    }

    fn launch(&mut self, to: usize, out: Vec<Vec<u8>>) {
        self.wire.extend(out.into_iter().map(|packet| (self.now + DELAY, to, packet)));
        for (stack, kept) in self.stacks.iter_mut().zip(&mut self.outcomes) {
            for (_, outcome) in stack.take_outcomes() {
                assert!(kept.replace(outcome).is_none(), "two outcomes of one transfer");
            }
        }
    }

    /// Runs until both transfers have ended. `pass` may drop packets to a host, and modify them.
    fn run(&mut self, mut pass: impl FnMut(usize, &mut Vec<u8>) -> bool) -> [Outcome; 2] {
        for _ in 0..1_000_000 {
            if let [Some(first), Some(second)] = &self.outcomes {
                return [first.clone(), second.clone()];
            }
            let arrival = self.wire.front().map(|&(at, ..)| at);
            let deadline = self.stacks.iter().filter_map(Stack::poll_deadline).min();
            self.now = arrival.into_iter().chain(deadline).min().expect("something to come").max(self.now);
            if arrival == Some(self.now)
                && let Some((_, to, mut packet)) = self.wire.pop_front()
            {
                if pass(to, &mut packet) {
                    let mut out = Vec::new();
                    self.stacks[to].handle_packet(self.now, &packet, &mut out);
                    self.launch(1 - to, out);
                }
                continue;
            }
            for host in [0, 1] {
                let mut out = Vec::new();
                self.stacks[host].handle_timeout(self.now, &mut out);
                self.launch(1 - host, out);
            }
        }
        panic!("a transfer that does not end");
    }
}

fn view(packet: &[u8]) -> View {
    parse(packet).expect("a TCP packet")
}

/// Returns whether the packet is the nth with payload; `count` is the counter.
fn is_data(count: &mut u32, packet: &[u8], nth: u32) -> bool {
    *count += u32::from(view(packet).payload_len > 0);
    view(packet).payload_len > 0 && *count == nth
}

/// The tenth data segment is lost: SMART detects it by the numbers in the acknowledgments, which are on the wire as an
/// experimental option.
#[test]
fn smart_on_the_wire() {
    let mut pair = Pair::begin(&rfc(Recovery::SMART), 100_000);
    let (mut data, mut named, mut option) = (0, 0, false);
    let outcomes = pair.run(|to, packet| {
        named += u32::from(to == 0 && view(packet).segment.options.smart.is_some());
        option |= packet.windows(4).any(|bytes| bytes == [253, 8, 0x53, 0x4d]);
        to == 0 || !is_data(&mut data, packet, 10)
    });
    assert!(outcomes.iter().all(Outcome::is_intact), "{outcomes:?}");
    assert!(named > 10 && option);
    let sender = outcomes[0].sender;
    assert_eq!((sender.source_retransmissions, sender.timeouts, sender.recoveries), (1, 0, 1));
}

/// The tenth data segment arrives damaged: the receiver detects it by the checksum and signals it, and the sender keeps
/// its window.
#[test]
fn eln_on_the_wire() {
    for recovery in [Recovery::ELN, Recovery::ELN_RXMT] {
        let mut pair = Pair::begin(&rfc(recovery), 100_000);
        let (mut data, mut option) = (0, false);
        let outcomes = pair.run(|to, packet| {
            option |= packet.windows(4).any(|bytes| bytes == [253, 4, 0x45, 0x4c]);
            if to == 1 && is_data(&mut data, packet, 10) {
                let at = view(packet).header_len;
                packet[at] ^= 1;
            }
            true
        });
        assert!(outcomes.iter().all(Outcome::is_intact) && option, "{outcomes:?}");
        assert_eq!(outcomes[1].damaged, 1);
        let sender = outcomes[0].sender;
        assert_eq!((sender.source_retransmissions, sender.timeouts, sender.recoveries), (1, 0, 1));
        let halved =
            |&(_, event): &(Instant, Event)| matches!(event, Event::Window { ssthresh, .. } if ssthresh < u32::MAX);
        assert!(!outcomes[0].events.iter().any(halved), "a window reduced for corruption");
    }
}

/// A connection in TIME-WAIT can be reopened by either end, but not by an old SYN.
#[test]
fn a_connection_anew() {
    let config = rfc(Recovery::SACK);
    for opener in [0, 1] {
        let mut pair = Pair::begin(&config, 1000);
        let mut last = Seq(0);
        let mut note = |to: usize, packet: &[u8]| {
            if to == 0 {
                last = view(packet).segment.seq;
            }
        };
        assert!(
            pair.run(|to, packet| {
                note(to, packet);
                true
            })
            .iter()
            .all(Outcome::is_intact)
        );
        while let Some((at, to, packet)) = pair.wire.pop_front() {
            note(to, &packet);
            pair.now = at;
            let mut out = Vec::new();
            pair.stacks[to].handle_packet(at, &packet, &mut out);
            pair.launch(1 - to, out);
        }
        assert_eq!((pair.stacks[0].sizes(), pair.stacks[1].sizes()), ((1, 0), (0, 0)), "who closed first waits");
        let limit = pair.now + Duration::from_secs(600);
        let mut out = Vec::new();
        if opener == 0 {
            let opening = (route(), App::Send { bytes: 2000, close: Switch::On }, config.clone());
            pair.stacks[0].open(pair.now, Ticket(2), opening, limit, &mut out).expect("a spent connection gives way");
            assert_eq!(view(&out[0]).segment.flags, Flags::SYN);
            continue;
        }
        pair.stacks[0].listen(pair.now, Ticket(2), (address(1), None, receive(), config.clone()), limit).expect("room");
        for (seq, answer) in [(last, Flags::ACK), (last + 1000, Flags::SYN.with(Flags::ACK))] {
            let segment = Segment { seq, flags: Flags::SYN, window: 1000, ..Segment::default() };
            let packet = build(route().reversed(), &segment, &[]).expect("a packet");
            pair.stacks[0].handle_packet(pair.now, &packet, &mut out);
            assert_eq!(out.pop().map(|packet| view(&packet).segment.flags), Some(answer));
        }
    }
}

/// Wrong bytes with a correct checksum are detected, with their position.
#[test]
fn wrong_bytes_are_noticed() {
    let mut pair = Pair::begin(&rfc(Recovery::NEW_RENO), 50_000);
    let outcomes = pair.run(|to, packet| {
        let View { route, segment, header_len, .. } = view(packet);
        let mut payload = packet[header_len..].to_vec();
        if to == 1 && payload.len() > 700 {
            payload[700] ^= 0x80;
            *packet = build(route, &segment, &payload).expect("a packet");
        }
        true
    });
    assert_eq!((outcomes[1].mismatch, outcomes[1].ending), (Some(700), Ending::Complete));
    assert!(!outcomes[1].is_intact());
}

/// No segment exceeds the interface's maximum size with options, in either direction, regardless of the offered MSS.
#[test]
fn segments_fit() {
    for recovery in [Recovery::SACK, Recovery::SMART, Recovery::ELN] {
        for mss in [500, 1400, 1460, 9000] {
            let config = TcpConfig::clone(&rfc(recovery)).with(|c| {
                c.common.mss = mss;
                c.common.timestamps = Switch::On;
            });
            let mut pair = Pair::begin(&Arc::new(config), 100_000);
            let mut longest = 0;
            let outcomes = pair.run(|_, packet| {
                longest = longest.max(packet.len());
                true
            });
            assert!(outcomes.iter().all(Outcome::is_intact));
            assert!(longest <= 1500 && longest + 12 >= 1500.min(mss as usize + 52), "{longest}");
        }
    }
}

fn router_says(quoted: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&quoted[..28]);
    let sum: u32 = message.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x45, 0, 0, 20 + message.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
    packet.extend(message);
    packet
}

/// The path takes 1000 bytes: larger segments are retransmitted at once in smaller ones. A message that quotes no
/// outstanding segment is ignored.
#[test]
fn a_smaller_path() {
    let mut pair = Pair::begin(&rfc(Recovery::SACK), 100_000);
    let (mut told, mut longest) = (Vec::new(), 0);
    let too_long = |packet: &[u8]| packet.len() > 1000;
    // The handshake and the first flight.
    while let Some((at, to, packet)) = pair.wire.pop_front() {
        pair.now = at;
        if to == 1 && too_long(&packet) {
            told.push(packet);
            continue;
        }
        let mut out = Vec::new();
        pair.stacks[to].handle_packet(at, &packet, &mut out);
        pair.launch(1 - to, out);
    }
    assert_eq!(told.len(), 10);
    let mut out = Vec::new();
    let mut forged = told[0].clone();
    forged[27] ^= 0x40;
    pair.stacks[0].handle_packet(pair.now, &router_says(&forged, 600), &mut out);
    assert!(out.is_empty(), "believed a forged message");
    let says = router_says(&told[0], 1000);
    assert_eq!(icmp::parse(&says).map(|too_big| (too_big.route, too_big.mtu)), Some((route(), 1000)));
    pair.stacks[0].handle_packet(pair.now, &says, &mut out);
    assert!(!out.is_empty() && out.iter().all(|packet| packet.len() <= 1000));
    pair.launch(1, out);
    let outcomes = pair.run(|_, packet| {
        longest = longest.max(packet.len());
        true
    });
    assert!(outcomes.iter().all(Outcome::is_intact) && longest == 1000, "{outcomes:?} {longest}");
    assert_eq!(outcomes[0].sender.timeouts, 0);
}

fn syn(port: u16) -> Vec<u8> {
    let route = Route { source: SocketAddr::from(([10, 9, 9, 9], port)), destination: address(2) };
    let segment = Segment { seq: Seq(7), flags: Flags::SYN, window: 1000, ..Segment::default() };
    build(route, &segment, &[]).expect("a packet")
}

/// A flood of SYNs uses a bounded number of connections, and the connection that completes its handshake is served.
#[test]
fn a_flood_of_syns() {
    let mut pair = Pair::begin(&rfc(Recovery::SACK), 10_000);
    let mut ports = 1..60_000;
    let outcomes = pair.run(|_, _| true).clone();
    assert!(outcomes.iter().all(Outcome::is_intact));
    let mut host = stack(2);
    let limit = Instant::ZERO + Duration::from_secs(10);
    host.listen(Instant::ZERO, Ticket(1), (address(2), None, receive(), rfc(Recovery::SACK)), limit).expect("room");
    let mut out = Vec::new();
    for port in ports.by_ref().take(10_000) {
        host.handle_packet(Instant::ZERO, &syn(port), &mut out);
        assert!(host.sizes().0 <= MAX_HALF_OPEN);
    }
    assert_eq!((out.len(), host.sizes()), (10_000, (MAX_HALF_OPEN, 1)));
    // The youngest is not among those that were dropped.
    let answer = view(out.last().expect("an answer"));
    let acks = Segment {
        seq: answer.segment.ack,
        ack: answer.segment.seq + 1,
        flags: Flags::ACK,
        window: 1000,
        ..Segment::default()
    };
    let packet = build(answer.route.reversed(), &acks, &[]).expect("a packet");
    host.handle_packet(Instant::ZERO, &packet, &mut out);
    assert_eq!(host.sizes(), (MAX_HALF_OPEN, 0));
    // No receiver waits any more: a reset, and no connection.
    out.clear();
    host.handle_packet(Instant::ZERO, &syn(60_000), &mut out);
    assert!(out.len() == 1 && view(&out[0]).segment.flags == Flags::RST.with(Flags::ACK));
    // When all connections have given up and the transfer's time is over, none is left.
    let mut now = Instant::ZERO;
    while let Some(at) = host.poll_deadline() {
        assert!(at > now);
        now = at;
        host.handle_timeout(now, &mut out);
    }
    assert_eq!(host.sizes(), (0, 0));
    assert_eq!(host.take_outcomes().len(), 1);
}

#[test]
fn connections_are_bounded() {
    let mut host = stack(1);
    let mut out = Vec::new();
    let limit = Instant::ZERO + Duration::from_secs(10);
    for port in 0..MAX_ENDS as u16 + 10 {
        let route = Route { source: SocketAddr::new(address(1).ip(), port + 1), destination: address(2) };
        let opening = (route, App::Send { bytes: 1, close: Switch::On }, rfc(Recovery::SACK));
        let opened = host.open(Instant::ZERO, Ticket(u64::from(port)), opening, limit, &mut out);
        assert_eq!(usize::from(port) < MAX_ENDS, opened.is_ok());
        assert!(opened.is_ok() || matches!(opened, Err(HostError::Full(MAX_ENDS))));
    }
    host.abort_all(Instant::ZERO, &mut out);
    assert_eq!((host.sizes(), host.take_outcomes().len()), ((0, 0), MAX_ENDS));
}

/// A stray segment is answered by a reset unless it is one (RFC 9293 §3.10.7.1). Segments for other hosts and damaged
/// ones are not answered.
#[test]
fn strays() {
    let mut host = stack(1);
    let mut answer = |flags: Flags, to: u8, damage: u8| {
        let route = Route { source: address(2), destination: address(to) };
        let segment = Segment { seq: Seq(100), ack: Seq(900), flags, ..Segment::default() };
        let mut packet = build(route, &segment, b"abc").expect("a packet");
        *packet.last_mut().expect("payload") ^= damage;
        let mut out = Vec::new();
        host.handle_packet(Instant::ZERO, &packet, &mut out);
        assert!(out.len() < 2);
        out.pop().map(|packet| (view(&packet).route, view(&packet).segment))
    };
    let reset = |seq, ack, flags| {
        let segment = Segment { seq: Seq(seq), ack: Seq(ack), flags, ..Segment::default() };
        Some((Route { source: address(1), destination: address(2) }, segment))
    };
    assert_eq!(answer(Flags::ACK, 1, 0), reset(900, 0, Flags::RST));
    assert_eq!(answer(Flags::SYN, 1, 0), reset(0, 104, Flags::RST.with(Flags::ACK)));
    assert_eq!(answer(Flags::FIN, 1, 0), reset(0, 104, Flags::RST.with(Flags::ACK)));
    assert_eq!(answer(Flags::RST, 1, 0), None);
    assert_eq!(answer(Flags::ACK, 3, 0), None);
    assert_eq!(answer(Flags::ACK, 1, 1), None);
}

/// Actions of an attacker on the path between a sender and a receiver.
#[derive(Clone, Debug)]
enum Garbage {
    Bytes(Vec<u8>),
    Segment { to: u8, from_port: bool, seq: u32, ack: u32, flags: u8, window: u16, payload: Vec<u8> },
    Flip { at: usize, bit: u8 },
    Cut(usize),
    Pass,
    Timer(u64),
}

fn garbage() -> impl Strategy<Value = Garbage> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..120);
    let segment = (1_u8..=2, any::<bool>(), any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), bytes.clone());
    prop_oneof![
        1 => bytes.prop_map(Garbage::Bytes),
        1 => segment.prop_map(|(to, from_port, seq, ack, flags, window, payload)| {
            // Often near the numbers in use.
            let (seq, ack) = if from_port { (seq % 4000, ack % 4000) } else { (seq, ack) };
            Garbage::Segment { to, from_port, seq, ack, flags, window, payload }
        }),
        1 => (0_usize..1500, 0_u8..8).prop_map(|(at, bit)| Garbage::Flip { at, bit }),
        1 => (0_usize..1500).prop_map(Garbage::Cut),
        4 => Just(Garbage::Pass),
        1 => (0_u64..3_000_000_000).prop_map(Garbage::Timer),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Tests any input, and any treatment of packets in flight: no panic, deadlines lie in the future, the number of
    /// connections stays bounded, and all packets sent are valid.
    #[test]
    fn bytes_from_anybody(items in proptest::collection::vec(garbage(), 0..150)) {
        let mut pair = Pair::begin(&rfc(Recovery::SACK), 100_000);
        for item in items {
            let mut forged = None;
            match item {
                Garbage::Bytes(bytes) => forged = Some((1, bytes)),
                Garbage::Segment { to, from_port, seq, ack, flags, window, payload } => {
                    let source = SocketAddr::new(address(3 - to).ip(), if from_port { 5000 } else { seq as u16 });
                    let segment =
                        Segment { seq: Seq(seq), ack: Seq(ack), flags: Flags((flags & 0x1f).into()), window, ..Segment::default() };
                    let route = Route { source, destination: address(to) };
                    forged = build(route, &segment, &payload).map(|packet| (usize::from(to) - 1, packet));
                }
                Garbage::Flip { at, bit } => {
                    if let Some(byte) = pair.wire.front_mut().and_then(|(_, _, packet)| packet.get_mut(at)) {
                        *byte ^= 1 << bit;
                    }
                }
                Garbage::Cut(len) => {
                    if let Some((_, _, packet)) = pair.wire.front_mut() {
                        packet.truncate(len);
                    }
                }
                Garbage::Pass => {
                    if let Some((at, to, packet)) = pair.wire.pop_front() {
                        pair.now = pair.now.max(at);
                        forged = Some((to, packet));
                    }
                }
                Garbage::Timer(nanos) => {
                    pair.now += Duration::from_nanos(nanos);
                    for host in [0, 1] {
                        let mut out = Vec::new();
                        pair.stacks[host].handle_timeout(pair.now, &mut out);
                        pair.launch(1 - host, out);
                    }
                }
            }
            if let Some((to, packet)) = forged {
                let mut out = Vec::new();
                pair.stacks[to].handle_packet(pair.now, &packet, &mut out);
                prop_assert!(out.len() < 1000);
                for packet in &out {
                    prop_assert!(packet.len() <= 1500 && parse(packet).is_some());
                }
                pair.launch(1 - to, out);
            }
            pair.wire.truncate(2000);
            for stack in &pair.stacks {
                prop_assert!(stack.sizes().0 <= MAX_HALF_OPEN + 2);
            }
        }
    }

    #[test]
    fn icmp_from_anybody(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0_usize..2) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60][kind];
        }
        let _ = icmp::parse(&bytes);
    }
}

#[test]
fn addresses_are_ours() {
    let mut host = stack(1);
    let limit = Instant::ZERO + Duration::from_secs(1);
    let elsewhere = SocketAddr::new(IpAddr::from([10, 0, 0, 77]), 1);
    let listening = (elsewhere, None, receive(), rfc(Recovery::RENO));
    assert!(matches!(host.listen(Instant::ZERO, Ticket(0), listening, limit), Err(HostError::NotOurs(_))));
}

/// Two receivers wait at the same address for one peer each: each gets its own, and its meter the bytes received.
#[test]
fn a_receiver_may_wait_for_one_peer() {
    let mut host = stack(2);
    let limit = Instant::ZERO + Duration::from_secs(1);
    let meters = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let peers = [7, 8].map(|port| SocketAddr::new(address(1).ip(), port));
    for ((ticket, peer), meter) in (0..).zip(peers).zip(&meters) {
        let app = App::Receive { bytes: None, payload: Payload::Any, meter: Some(meter.clone()) };
        host.listen(Instant::ZERO, Ticket(ticket), (address(2), Some(peer), app, rfc(Recovery::RENO)), limit)
            .expect("room");
    }
    for (peer, len) in [(9, 0), (8, 80), (7, 70)] {
        let route = Route { source: SocketAddr::new(address(1).ip(), peer), destination: address(2) };
        let mut out = Vec::new();
        let mut arrive = |segment: Segment, payload: &[u8]| {
            host.handle_packet(Instant::ZERO, &build(route, &segment, payload).expect("a packet"), &mut out);
            view(&out.pop().expect("an answer")).segment
        };
        let syn = Segment { seq: Seq(0), flags: Flags::SYN, window: 1000, ..Segment::default() };
        let answer = arrive(syn, &[]);
        assert_eq!(answer.flags.has(Flags::RST), len == 0, "nobody waits for port 9");
        let fin = Flags::ACK.with(Flags::FIN);
        let data = Segment { seq: Seq(1), ack: answer.seq + 1, flags: fin, window: 1000, ..Segment::default() };
        arrive(data, &vec![1; len]);
    }
    assert_eq!(meters.map(|meter| meter.load(Ordering::Relaxed)), [70, 80]);
    let outcomes = host.take_outcomes().into_iter().map(|(ticket, outcome)| (ticket.0, outcome.remote));
    assert_eq!(outcomes.collect::<Vec<_>>(), [(1, peers[1]), (0, peers[0])]);
}
