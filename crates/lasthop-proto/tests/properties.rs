//! With a bounded number of faults of any kind, a stream arrives complete and in order in both directions, and the
//! connection closes: for every preset and every loss recovery, with sequence numbers that wrap.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::util::bridge::Bridge;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::link::arq::Timer;
use lasthop_proto::packet::{AckCongestionOption, Flags, Integrity, Side};
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::pep::srp::SrpConfig;
use lasthop_proto::tcp::config::{
    AckCongestion, DelayedAck, EcnMode, Nagle, PawsRule, Preset, Push, ReceiveAutotune, Recovery, SackAlgorithm,
    SackCompression, SendAutotune, SenderConfig, Switch, TcpConfig, WindowEdge, WindowProbe,
};
use lasthop_proto::tcp::{State, TickPhase};
use lasthop_proto::time::Duration;
use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

/// All combinations of preset and recovery that can be selected by name.
fn combinations() -> impl Iterator<Item = (Preset, (Recovery, SackAlgorithm))> {
    Preset::ALL.into_iter().flat_map(|preset| Recovery::ALL.map(|recovery| (preset, recovery)))
}

/// Keys that scenarios vary.
#[derive(Clone, Debug)]
struct Keys {
    mss: u32,
    buffers: [u32; 2],
    delayed_ack: Option<DelayedAck>,
    limited_transmit: bool,
    sack_eln: bool,
    nagle: bool,
    timestamps: Option<bool>,
}

fn switch(on: bool) -> Switch {
    if on { Switch::On } else { Switch::Off }
}

impl Keys {
    fn config(&self, preset: Preset, recovery: (Recovery, SackAlgorithm)) -> TcpConfig {
        let linux = self.delayed_ack == Some(DelayedAck::Linux);
        let controlled = self.nagle && matches!(self.delayed_ack, Some(DelayedAck::EverySecond { .. }));
        preset_with(preset, recovery).with(|c| {
            c.common.mss = self.mss;
            c.common.send_buffer = self.buffers[0];
            c.receiver.receive_buffer = self.buffers[1];
            c.receiver.delayed_ack = self.delayed_ack.unwrap_or(c.receiver.delayed_ack);
            c.receiver.sack_compression = if linux { SackCompression::Linux } else { SackCompression::Off };
            c.receiver.receive_autotune =
                if linux && self.nagle { ReceiveAutotune::Linux } else { ReceiveAutotune::Off };
            c.receiver.dsack = switch(linux || self.sack_eln);
            c.common.ecn = if linux || controlled { EcnMode::On } else { EcnMode::Off };
            c.common.ack_congestion = if controlled { AckCongestion::Rfc5690 } else { AckCongestion::Off };
            c.common.sack_eln = switch(self.sack_eln);
            c.common.nagle = match (self.nagle, linux) {
                (false, _) => Nagle::Off,
                (true, false) => Nagle::On,
                (true, true) => Nagle::Minshall,
            };
            c.common.paws = if linux { PawsRule::Linux } else { PawsRule::Rfc7323 };
            c.common.window_probe = if linux { WindowProbe::Empty } else { WindowProbe::Byte };
            match &mut c.sender {
                SenderConfig::Classic(classic) => classic.limited_transmit = switch(self.limited_transmit),
                SenderConfig::Modern(modern) => {
                    modern.send_autotune = if self.nagle { SendAutotune::Linux } else { SendAutotune::Off };
                    modern.window_edge = if linux { WindowEdge::Cut } else { WindowEdge::Whole };
                    modern.push = if linux { Push::Bursts } else { Push::Never };
                }
            }
            c.common.timestamps = self.timestamps.map_or(c.common.timestamps, switch);
            // The faults of these tests may hit the same segment many times.
            c.common.max_retries = 1000;
            // Longer than any timeout: after TIME-WAIT an end answers a late copy of the peer's FIN with a reset.
            c.common.rto_max = c.common.rto_max.min(Duration::from_secs(64));
            c.common.time_wait = Duration::from_secs(600);
        })
    }
}

fn keys() -> impl Strategy<Value = Keys> {
    let delayed_ack = prop_oneof![
        3 => Just(None),
        1 => Just(Some(DelayedAck::Off)),
        1 => Just(Some(DelayedAck::WindowUpdate)),
        1 => Just(Some(DelayedAck::EverySecond { timeout: millis(200) })),
        1 => Just(Some(DelayedAck::Ns2 { timeout: millis(100) })),
        2 => Just(Some(DelayedAck::Linux)),
    ];
    let buffer = prop_oneof![2_000u32..10_000, 10_000u32..300_000];
    (
        prop_oneof![Just(1400u32), Just(1460u32), 200u32..2000],
        [buffer.clone(), buffer],
        delayed_ack,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<Option<bool>>(),
    )
        .prop_map(|(mss, buffers, delayed_ack, limited_transmit, sack_eln, nagle, timestamps)| Keys {
            mss,
            buffers,
            delayed_ack,
            limited_transmit,
            sack_eln,
            nagle,
            timestamps,
        })
}

/// An action of an application; plans give its time in milliseconds.
#[derive(Clone, Debug)]
enum Act {
    Write(u32),
    Close,
    Pause,
    Resume,
}

#[derive(Clone, Debug)]
struct Plan {
    keys: Keys,
    iss: [u32; 2],
    delay: Duration,
    per_byte: Duration,
    acts: Vec<(u64, Side, Act)>,
    /// Packets on the lossy hop before the faults begin, and the fates of those after them.
    skip: usize,
    fates: Vec<Fate>,
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![2 => Just(Side::Initiator), 1 => Just(Side::Acceptor)]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrive),
        3 => Just(Fate::Lose),
        2 => Just(Fate::Damage),
        1 => Just(Fate::Twice),
        2 => (1u64..400).prop_map(|late| Fate::Late(millis(late))),
        1 => (1u64..20).prop_map(|late| Fate::Late(millis(late))),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let act = prop_oneof![
        8 => prop_oneof![1u32..3000, 3000u32..60_000].prop_map(Act::Write),
        1 => Just(Act::Close),
        1 => Just(Act::Pause),
        1 => Just(Act::Resume),
    ];
    // Initial sequence numbers just below the wrap, of the sign or of the number, or anywhere.
    let iss = prop_oneof![
        3 => (0u32..100_000).prop_map(|below| u32::MAX - below),
        1 => (0u32..100_000).prop_map(|below| (1 << 31) - below),
        1 => any::<u32>(),
    ];
    (
        keys(),
        [iss.clone(), iss],
        (0u64..200_000).prop_map(Duration::from_micros),
        (0u64..20_000).prop_map(Duration::from_nanos),
        prop::collection::vec((0u64..5000, side(), act), 1..8),
        0usize..150,
        prop::collection::vec(fate(), 0..120),
    )
        .prop_map(|(keys, iss, delay, per_byte, mut acts, skip, fates)| {
            acts.sort_by_key(|&(at, ..)| at);
            Plan { keys, iss, delay, per_byte, acts, skip, fates }
        })
}

/// The part of its peer's stream that an end can know: the ranges that really arrived, as stream offsets.
#[derive(Default)]
struct Stream {
    irs: Option<u32>,
    /// Ranges that arrived intact, disjoint: start offset to end offset.
    ranges: BTreeMap<u64, u64>,
    /// Offset of the FIN.
    fin: Option<u64>,
}

impl Stream {
    fn insert(&mut self, mut from: u64, mut to: u64) {
        let touching: Vec<_> =
            self.ranges.range(..=to).filter(|&(_, &end)| end >= from).map(|(&start, _)| start).collect();
        for start in touching {
            let end = self.ranges.remove(&start).unwrap();
            (from, to) = (from.min(start), to.max(end));
        }
        self.ranges.insert(from, to);
    }

    /// Number of bytes that have arrived without a gap.
    fn in_order(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }
}

/// Observes a pair from outside and fails on impossible results.
struct Witness {
    /// Indexed by receiving side.
    streams: [Stream; 2],
    written: [u64; 2],
    closed: [bool; 2],
    seen: usize,
    relayed: bool,
}

impl Witness {
    fn look(&mut self, pair: &Pair) -> Result<(), TestCaseError> {
        for (_, side, packet) in &pair.arrived[self.seen..] {
            let stream = &mut self.streams[side.index()];
            let segment = packet.tcp().unwrap();
            if packet.integrity != Integrity::Intact {
                continue;
            }
            if segment.flags.has(Flags::SYN) {
                prop_assert!(stream.irs.is_none_or(|irs| irs == segment.seq.0));
                stream.irs = Some(segment.seq.0);
            }
            let Some(irs) = stream.irs else { continue };
            let from = u64::from(segment.seq.0.wrapping_sub(irs.wrapping_add(1)));
            let to = from + u64::from(packet.len);
            if packet.len > 0 {
                prop_assert!(to <= self.written[side.peer().index()], "sent {from}..{to}, which was never written");
                stream.insert(from, to);
            }
            if segment.flags.has(Flags::FIN) {
                prop_assert!(stream.fin.is_none_or(|fin| fin == to));
                stream.fin = Some(to);
            }
        }
        self.seen = pair.arrived.len();
        for side in [Side::Initiator, Side::Acceptor] {
            let (end, peer) = (&pair.ends[side.index()], &pair.ends[side.peer().index()]);
            let stream = &self.streams[side.index()];
            prop_assert!(end.received() <= stream.in_order(), "delivered what never arrived");
            let config = &pair.configs[side.index()];
            // Linux rounds up the window that it advertises, and accepts a segment as long as the window is not zero.
            let beyond =
                if config.receiver.delayed_ack == DelayedAck::Linux { u64::from(config.common.mss) } else { 0 };
            let most = u64::from(config.receiver.receive_buffer) + beyond;
            prop_assert!(end.readable() <= most, "{} bytes wait in a buffer of {most}", end.readable());
            if end.peer_closed() {
                prop_assert_eq!(stream.fin, Some(end.received()));
                prop_assert!(self.closed[side.peer().index()]);
            }
            if !self.relayed {
                prop_assert!(end.acked() <= peer.received(), "acknowledged what was not delivered");
            }
        }
        Ok(())
    }

    fn run(&mut self, pair: &mut Pair, until: lasthop_proto::time::Instant) -> Result<(), TestCaseError> {
        pair.flush();
        let mut steps = 0;
        while pair.step(until) {
            self.look(pair)?;
            steps += 1;
            prop_assert!(steps < 100_000, "not quiet at {} in {:?}", pair.now, pair.states());
        }
        if until != lasthop_proto::time::Instant::FAR_FUTURE {
            pair.now = pair.now.max(until);
        }
        Ok(())
    }
}

fn follow(plan: &Plan, mut pair: Pair, relayed: bool) -> Result<(), TestCaseError> {
    let (skip, fates) = (plan.skip, plan.fates.clone());
    let mut packets = 0;
    pair = pair.judged_by(move |_| {
        packets += 1;
        if packets > skip { fates.get(packets - skip - 1).copied().unwrap_or(Fate::Arrive) } else { Fate::Arrive }
    });
    let mut witness = Witness { streams: Default::default(), written: [0; 2], closed: [false; 2], seen: 0, relayed };
    pair.ends[1].listen();
    pair.ends[0].connect();
    for (at, side, act) in &plan.acts {
        witness.run(&mut pair, ms(*at))?;
        let index = side.index();
        match act {
            // An end in LISTEN without a SYN from its peer performs no action: actions of applications on listeners are
            // the topic of another test.
            Act::Close if pair.ends[index].state() == State::Listen => {}
            Act::Write(bytes) if !witness.closed[index] => {
                pair.ends[index].write(u64::from(*bytes));
                witness.written[index] += u64::from(*bytes);
            }
            Act::Write(_) => pair.ends[index].write(1),
            Act::Close => {
                pair.ends[index].close();
                witness.closed[index] = true;
            }
            Act::Pause => pair.reading[index] = false,
            Act::Resume => pair.reading[index] = true,
        }
    }
    witness.run(&mut pair, ms(6000))?;
    pair.reading = [true; 2];
    // Run long enough for a handshake with faults to complete before the ends are closed.
    witness.run(&mut pair, ms(4 * 3_600_000))?;
    for index in 0..2 {
        pair.ends[index].close();
        witness.closed[index] = true;
    }
    let asked = pair.now;
    witness.run(&mut pair, lasthop_proto::time::Instant::FAR_FUTURE)?;
    prop_assert_eq!(pair.ends[1].received(), witness.written[0]);
    prop_assert_eq!(pair.ends[0].received(), witness.written[1]);
    prop_assert!(pair.ends.iter().all(|end| end.peer_closed() && end.all_acked() && end.unacked() == 0));
    prop_assert_eq!(pair.states(), (State::Closed, State::Closed));
    prop_assert_eq!(pair.count_events(|event| *event == Event::Aborted), 0);
    prop_assert!(pair.now.since(asked) < Duration::from_secs(4 * 3600), "closed at {} only", pair.now);
    Ok(())
}

fn pair_for(plan: &Plan, config: TcpConfig) -> Pair {
    placed(plan, Pair::of(config))
}

/// The pair on the path of the plan.
fn placed(plan: &Plan, pair: Pair) -> Pair {
    let pair = pair.with_iss(plan.iss[0], plan.iss[1]);
    pair.with_delay(plan.delay).with_time_per_byte(plan.per_byte)
}

/// Seeds of failures are printed and kept beside this file; later runs start with them.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions")))
}

/// Faults of acknowledgments on the return path: losses, marks and delays.
fn return_path() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Arrive),
        2 => Just(Fate::Lose),
        2 => Just(Fate::Mark),
        1 => (1u64..400).prop_map(|late| Fate::Late(millis(late))),
    ];
    prop::collection::vec(fate, 1..300)
}

proptest! {
    /// RFC 5690: streams arrive regardless of the number of lost or marked acknowledgments; data carries no ratio below
    /// 2 or beyond half of the sender's maximum flight.
    #[test]
    fn acknowledgment_congestion_control_stalls_nothing(
        fates in return_path(), delay in 0u64..200, bytes in 1u32..400_000, mss in 200u32..2000, buffer in 4_000u32..100_000,
    ) {
        for recovery in Recovery::ALL {
            let config = preset_with(Preset::Rfc, recovery).with(|c| {
                c.common.mss = mss;
                c.receiver.receive_buffer = buffer;
                c.common.ack_congestion = AckCongestion::Rfc5690;
                c.common.ecn = EcnMode::On;
            });
            let (mut came, fates) = (0, fates.clone());
            let mut pair = Pair::of(config).with_delay(millis(delay)).judged_by(move |sent| {
                if sent.from == Side::Initiator || !sent.is_pure_ack() {
                    return Fate::Arrive;
                }
                came += 1;
                fates.get(came - 1).copied().unwrap_or(Fate::Arrive)
            });
            pair.connect();
            pair.ends[0].write(u64::from(bytes));
            pair.finish();
            prop_assert_eq!(pair.ends[1].received(), u64::from(bytes), "{:?}", recovery);
            prop_assert_eq!(pair.ends[0].unacked(), 0);
            let most = (buffer / mss).div_ceil(2).max(2);
            for sent in pair.sent_by(Side::Initiator) {
                if let Some(AckCongestionOption::Ratio(ratio)) = sent.segment.options.ack_congestion {
                    prop_assert!((2..=most).contains(&u32::from(ratio.get())), "{recovery:?}: {ratio} of {most}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 4000, failure_persistence: kept(), ..ProptestConfig::default() })]

    #[test]
    fn a_stream_arrives_whatever_the_path_does(plan in plan()) {
        for (preset, recovery) in combinations() {
            let pair = pair_for(&plan, plan.keys.config(preset, recovery));
            follow(&plan, pair, false).map_err(|error| TestCaseError::fail(format!("{preset:?} {recovery:?}: {error}")))?;
        }
    }

    #[test]
    fn a_stream_arrives_where_one_end_has_no_sack(plan in plan(), lacks in side()) {
        for (preset, recovery) in combinations().filter(|(_, (recovery, _))| recovery.uses_sack()) {
            let with = plan.keys.config(preset, recovery);
            let without = plan.keys.config(preset, (Recovery::NEW_RENO, recovery.1));
            let configs = if lacks == Side::Initiator { [without, with] } else { [with, without] };
            let [initiator, acceptor] = configs;
            let pair = placed(&plan, Pair::between(initiator, acceptor));
            follow(&plan, pair, false).map_err(|error| TestCaseError::fail(format!("{preset:?} {recovery:?}: {error}")))?;
        }
    }

    #[test]
    fn a_stream_arrives_through_a_split_relay(plan in plan(), buffer in 4_000u32..70_000, moved in any::<bool>()) {
        let handover = if moved { Handover::Moved } else { Handover::Shared(buffer) };
        for (preset, recovery) in combinations() {
            let config = plan.keys.config(preset, recovery);
            let leg = Arc::new(config.clone());
            let relay = SplitRelay::new(handover, leg.clone(), leg, TickPhase::default(), Switch::Off);
            let pair = pair_for(&plan, config).with_middle(relay);
            follow(&plan, pair, true).map_err(|error| TestCaseError::fail(format!("{preset:?} {recovery:?}: {error}")))?;
        }
    }

    #[test]
    fn a_stream_arrives_over_srp(
        plan in plan(), buffer in 4_000u32..70_000, window in 1u16..40, skip in 0usize..40, fates in prop::collection::vec(fate(), 0..120),
    ) {
        for (preset, recovery) in combinations() {
            let config = plan.keys.config(preset, recovery);
            let srp = SrpConfig {
                window,
                header: 40,
                timer: Timer::Estimated { min: millis(200) },
                nack_again: Some(millis(100)),
                buffer,
            };
            let fates = fates.clone();
            let mut frames = 0;
            let bridge = Bridge::new(&srp, config.clone(), plan.delay).judged_by(move |_| {
                frames += 1;
                if frames > skip { fates.get(frames - skip - 1).copied().unwrap_or(Fate::Arrive) } else { Fate::Arrive }
            });
            let seen = bridge.seen();
            let pair = pair_for(&plan, config).with_middle(bridge);
            follow(&plan, pair, true).map_err(|error| TestCaseError::fail(format!("{preset:?} {recovery:?}: {error}")))?;
            let seen = seen.borrow();
            prop_assert!(seen.most_waiting <= u64::from(buffer), "{} bytes wait", seen.most_waiting);
            prop_assert!(seen.most_unacknowledged <= usize::from(window) + 3, "{} datagrams", seen.most_unacknowledged);
            prop_assert_eq!(seen.connections, 0);
        }
    }
}
