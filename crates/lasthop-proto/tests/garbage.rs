//! Arbitrary input from a peer causes no panic, does not stop time, and keeps memory bounded: segments with any flags,
//! numbers and options, near the expected values or anywhere, in any state. ([`pump`](lasthop_proto::node::pump) itself
//! checks that the deadline of a drained end lies in the future.)

use std::num::NonZeroU8;
use std::sync::Arc;

use crate::util::*;
use lasthop_proto::node::{Node, Port, pump};
use lasthop_proto::packet::{
    AckCongestionOption, Body, Ecn, EcnCounters, Flags, FlowId, Integrity, LinkHeaders, Options, Packet, SackBlock,
    SackBlocks, Segment, Side, Timestamps,
};
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{
    DelayedAck, EcnMode, Preset, ReceiveAutotune, Recovery, SackCompression, Switch, TcpConfig,
};
use lasthop_proto::tcp::modern::rack::Rack;
use lasthop_proto::tcp::{Connection, TickPhase};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

fn configs() -> impl Iterator<Item = TcpConfig> {
    let all = Preset::ALL.into_iter().flat_map(|preset| Recovery::ALL.map(|recovery| (preset, recovery)));
    let all = all.map(|(preset, recovery)| preset_with(preset, recovery));
    let linux = TcpConfig::preset(Preset::Rfc).with(|c| {
        c.receiver.delayed_ack = DelayedAck::Linux;
        c.receiver.sack_compression = SackCompression::Linux;
        c.receiver.receive_autotune = ReceiveAutotune::Linux;
        c.receiver.dsack = Switch::On;
        c.common.ecn = EcnMode::On;
    });
    all.chain([linux])
}

/// A number, absolute or relative to the expected one.
#[derive(Clone, Copy, Debug)]
enum Number {
    Near(i32),
    Any(u32),
}

impl Number {
    fn from(self, base: Seq) -> Seq {
        match self {
            Self::Near(distance) => Seq(base.0.wrapping_add_signed(distance)),
            Self::Any(number) => Seq(number),
        }
    }
}

#[derive(Clone, Debug)]
struct Noise {
    seq: Number,
    ack: Number,
    len: u32,
    flags: u16,
    window: u16,
    damaged: bool,
    mss: Option<u16>,
    window_scale: Option<u8>,
    timestamps: Option<(i32, u32)>,
    smart: Option<Number>,
    sack: Vec<(Number, u32)>,
    eln: bool,
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        3 => Just(Number::Near(0)),
        3 => (-3i32..3).prop_map(Number::Near),
        3 => (-40_000i32..40_000).prop_map(Number::Near),
        1 => prop_oneof![Just(i32::MAX), Just(i32::MIN), Just(i32::MAX - 1), Just(i32::MIN + 1)].prop_map(Number::Near),
        1 => any::<u32>().prop_map(Number::Any),
    ]
}

fn noise() -> impl Strategy<Value = Noise> {
    let len = prop_oneof![4 => Just(0u32), 2 => 1u32..3000, 1 => 1u32..3, 1 => Just(65_535u32)];
    let flags =
        prop_oneof![6 => Just(Flags::ACK.0), 1 => Just(Flags::ACK.0 | Flags::FIN.0), 2 => 0u16..32, 1 => any::<u16>()];
    let window = prop_oneof![3 => any::<u16>(), 1 => Just(0u16), 1 => 1u16..1500, 1 => Just(0xffff)];
    let options = (
        prop::option::weighted(0.2, any::<u16>()),
        prop::option::weighted(0.2, any::<u8>()),
        prop::option::weighted(0.7, (prop_oneof![-3i32..1000, any::<i32>()], prop_oneof![0u32..20_000, any::<u32>()])),
        prop::option::weighted(0.5, number()),
        prop::collection::vec((number(), prop_oneof![0u32..5000, any::<u32>()]), 0..5),
        any::<bool>(),
    );
    (number(), number(), len, flags, window, prop::bool::weighted(0.1), options).prop_map(
        |(seq, ack, len, flags, window, damaged, (mss, window_scale, timestamps, smart, sack, eln))| Noise {
            seq,
            ack,
            len,
            flags,
            window,
            damaged,
            mss,
            window_scale,
            timestamps,
            smart,
            sack,
            eln,
        },
    )
}

impl Noise {
    /// Builds the packet from the numbers that the end last acknowledged and sent, and its last timestamp.
    fn packet(&self, from: Side, rcv_nxt: Seq, snd_max: Seq, stamp: u32) -> Packet {
        let mut sack = SackBlocks::default();
        for &(left, len) in &self.sack {
            let left = left.from(snd_max);
            sack.push(SackBlock { left, right: left + len });
        }
        let timestamps = self.timestamps.map(|(val, ecr)| Timestamps { val: stamp.wrapping_add_signed(val), ecr });
        let options = Options {
            mss: self.mss,
            window_scale: self.window_scale,
            sack_permitted: self.eln,
            eln: self.eln,
            smart: self.smart.map(|smart| smart.from(snd_max)),
            ack_congestion: self
                .window_scale
                .map(|byte| NonZeroU8::new(byte).map_or(AckCongestionOption::Permitted, AckCongestionOption::Ratio)),
            ecn_counters: self.mss.and_then(|mss| {
                let values = [mss.into(), u32::from(mss) << 8, u32::from(self.window) * 5];
                EcnCounters::new(if mss % 2 == 0 { 172 } else { 174 }, &values[..usize::from(mss % 4)])
            }),
            timestamps,
            sack,
        };
        let (seq, ack) = (self.seq.from(rcv_nxt), self.ack.from(snd_max));
        let body = Body::Tcp(Segment { seq, ack, window: self.window, flags: Flags(self.flags), options });
        let integrity = if self.damaged { Integrity::PayloadDamaged } else { Integrity::Intact };
        Packet {
            flow: FlowId(1),
            from,
            priority: Default::default(),
            integrity,
            ecn: Ecn::from_bits(self.window as u8),
            cause: Default::default(),
            super_segment: 0,
            header_len: 40,
            len: self.len,
            body,
            link: LinkHeaders::NONE,
            payload: (),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Noise(Side, Box<Noise>),
    Wait(u64),
    Write(Side, u32),
    Reading(Side, bool),
    Close(Side),
    Abort(Side),
    Connect(Side),
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::Initiator), Just(Side::Acceptor)];
    prop_oneof![
        20 => (side(), noise()).prop_map(|(side, noise)| Step::Noise(side, Box::new(noise))),
        6 => prop_oneof![0u64..300, 0u64..10_000].prop_map(Step::Wait),
        4 => (side(), 1u32..100_000).prop_map(|(side, bytes)| Step::Write(side, bytes)),
        1 => (side(), any::<bool>()).prop_map(|(side, reads)| Step::Reading(side, reads)),
        1 => side().prop_map(Step::Close),
        1 => side().prop_map(Step::Abort),
        1 => side().prop_map(Step::Connect),
    ]
}

/// Length of the debug output of a node, as a measure of the state that it keeps.
fn memory(node: &impl std::fmt::Debug) -> usize {
    format!("{node:?}").len()
}

fn act(pair: &mut Pair, step: &Step) {
    match step {
        Step::Noise(side, noise) => {
            let of = |side: Side| pair.trace.iter().rev().find(move |sent| sent.from == side && !sent.by_middle);
            let end = of(*side)
                .map_or((Seq(0), pair.iss[side.index()]), |sent| (sent.segment.ack, sent.segment.seq + sent.len));
            let stamp = of(side.peer()).and_then(|sent| sent.segment.options.timestamps).map_or(0, |stamps| stamps.val);
            let packet = noise.packet(side.peer(), end.0, end.1, stamp);
            pair.inject(*side, packet);
        }
        Step::Wait(time) => pair.run_until(pair.now + millis(*time)),
        Step::Write(side, bytes) => pair.ends[side.index()].write(u64::from(*bytes)),
        Step::Reading(side, reads) => pair.reading[side.index()] = *reads,
        Step::Close(side) => pair.ends[side.index()].close(),
        Step::Abort(side) => pair.ends[side.index()].abort(),
        Step::Connect(side) => pair.ends[side.index()].connect(),
    }
    pair.flush();
}

/// Seeds of failures are printed and kept beside this file; later runs start with them.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, failure_persistence: kept(), ..ProptestConfig::default() })]

    #[test]
    fn nothing_a_peer_sends_does_harm(
        iss in [any::<u32>(), any::<u32>()],
        opened in 0u64..300,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        for config in configs() {
            let mut pair = Pair::of(config).with_iss(iss[0], iss[1]);
            pair.ends[1].listen();
            pair.ends[0].connect();
            pair.run_until(ms(opened));
            for step in &steps {
                act(&mut pair, step);
            }
            // Two ends with contradictory state may never agree, but they must not exchange packets at full speed.
            let (start, from) = (pair.trace.len(), pair.now);
            pair.run_until(from + Duration::from_secs(1000));
            prop_assert!(pair.trace.len() - start < 20_000, "{} packets", pair.trace.len() - start);
            for end in &pair.ends {
                prop_assert!(memory(end) < 100_000, "{}", memory(end));
            }
        }
    }

    #[test]
    fn nothing_does_harm_to_a_relay(
        noises in prop::collection::vec((0u16..2, 0u32..4, noise(), 0u64..2000), 1..80),
    ) {
        for config in configs() {
            let leg = Arc::new(config);
            let mut relay = SplitRelay::new(Handover::Shared(65_536), leg.clone(), leg, TickPhase::default(), Switch::On);
            let mut now = Instant::ZERO;
            let mut last = [(Seq(0), Seq(0)); 2];
            for (port, flow, noise, pause) in &noises {
                let until = now + millis(*pause);
                while let Some(at) = relay.poll_deadline().filter(|&at| at <= until) {
                    now = at;
                    relay.handle_timeout(now);
                    pump(&mut relay, now, |_| ());
                }
                now = until;
                let (rcv_nxt, snd_max) = last[usize::from(*port)];
                let from = if *port == 0 { Side::Initiator } else { Side::Acceptor };
                let mut packet = noise.packet(from, rcv_nxt, snd_max, 0);
                packet.flow = FlowId(*flow);
                relay.handle_packet(now, Port(*port), packet);
                pump(&mut relay, now, |output| {
                    if let lasthop_proto::node::Output::Transmit(port, _, packet) = output {
                        let segment = packet.tcp().unwrap();
                        last[usize::from(port.0)] = (segment.ack, segment.seq + packet.len);
                    }
                });
            }
            prop_assert!(relay.connections() <= 4);
            prop_assert!(memory(&relay) < 500_000);
        }
    }
}

/// An open connection, and the time.
fn open(config: TcpConfig) -> Pair {
    let mut pair = Pair::of(config).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    pair.connect();
    pair
}

/// Single bytes with gaps between them: at most as many runs as the window holds, and at most as many SACK blocks as
/// the sender has bytes.
#[test]
fn fragments_do_not_pile_up() {
    for config in configs() {
        let mut pair = open(config.clone());
        for number in 0..30_000u32 {
            let packet = pair.forge(Side::Acceptor, Flags::ACK, 3 + 2 * number, 1, 1);
            pair.inject(Side::Acceptor, packet);
            let packet = pair.forge(Side::Acceptor, Flags::ACK, 2 + 2 * number, 1, 1);
            let damaged = Packet { integrity: Integrity::PayloadDamaged, ..packet };
            pair.inject(Side::Acceptor, damaged);
            pair.trace.clear();
        }
        assert!(memory(&pair.ends[1]) < 100_000, "{}", memory(&pair.ends[1]));

        let mut pair = open(config.with(|c| c.common.initial_window = 40));
        pair.client().write(1 << 20);
        pair.flush();
        for number in 0..30_000u32 {
            let mut packet = pair.forge(Side::Initiator, Flags::ACK, 1, 1, 0);
            let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
            let left = pair.iss[0] + 3 + 2 * number;
            segment.options.sack.push(SackBlock { left, right: left + 1 });
            segment.options.smart = Some(left);
            pair.inject(Side::Initiator, packet);
            pair.trace.clear();
        }
        assert!(memory(&pair.ends[0]) < 100_000, "{}", memory(&pair.ends[0]));
    }
}

/// A segment longer than any IP packet is ignored.
#[test]
fn a_segment_longer_than_any_packet_is_ignored() {
    for config in configs() {
        let mut pair = open(config);
        for len in [(1 << 20) + 1, 1 << 31, u32::MAX] {
            let packet = pair.forge(Side::Acceptor, Flags::ACK, 1, 1, len);
            let before = pair.trace.len();
            pair.inject(Side::Acceptor, packet);
            assert_eq!((pair.ends[1].received(), pair.trace.len()), (0, before), "{len}");
        }
    }
}

/// An idle connection is small, so that a simulation can hold 10,000 of them (at most 2.25 KiB each).
#[test]
fn an_idle_modern_connection_is_small() {
    // One end has sent and keeps RACK's state; congestion control has an allocation of its own.
    let today = 2 * size_of::<Connection>() + size_of::<Rack>();
    assert!(today <= 2304, "{today}: {} and {}", size_of::<Connection>(), size_of::<Rack>());
}

#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<Connection>() <= 1024, "{}", size_of::<Connection>());
}
