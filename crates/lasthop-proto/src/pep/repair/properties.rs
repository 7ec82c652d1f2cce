//! Random sequences of operations on one connection: only the transitions of the tables in [`super::states`],
//! [`super::answers`] and [`super::budget`] occur, and the invariants hold after each operation.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::answers::Answer;
use super::budget::Pause;
use super::states::Delivery;
use super::*;
use crate::packet::{Flags, SackBlock, Segment};
use crate::pep::cache::Whereabouts;
use crate::pep::hop_window::HopControl;
use crate::pep::snoop_config::{Begin, LocalDetection, TcpAwareness};
use crate::pep::tracking::Take;
use crate::time::Duration;

const LEN: u32 = 100;
const ISN: Seq = Seq(u32::MAX - 2_000);
const MOBILE: Seq = Seq(7);
const SENDER: Side = Side::Acceptor;
const RECEIVER: Side = Side::Initiator;

/// An operation. Numbers of segments count from the last acknowledgment.
#[derive(Clone, Debug)]
enum Step {
    /// New data: as many segments, one of them perhaps large or after a gap.
    New(u8, Odd),
    /// A retransmission by the sender: first segment, bytes.
    Again(u8, u32),
    /// Data that passes uncached: first segment, bytes.
    PassUncached(u8, u32),
    /// An acknowledgment that advances by so many segments, with blocks (distance, length) and a window.
    Ack(u8, Vec<(u8, u8)>, u16),
    /// Data from the mobile host.
    Upload,
    /// Milliseconds; timers that become due meanwhile expire then, or all at the end.
    Wait(u16, Timers),
    Deferred,
    Pause,
    /// Another connection receives: time that a packet took over the hop, and the shortest, in ms.
    Others(u16, u16),
    Share(u8),
    NoControl,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Odd {
    No,
    Gap,
    Large,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timers {
    InTime,
    Late,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handshake {
    Complete,
    Incomplete,
}

/// Kind of operation, as in the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Data,
    Ack,
    Timer,
    /// The budget is exhausted.
    Pause,
    /// Anything else.
    Other,
}

/// The connection's states, and what identifies its oldest packet.
#[derive(Clone, Copy, Debug)]
struct States {
    responsibility: Responsibility,
    delivery: Delivery,
    scan: Scan,
    burst: Burst,
    reports: Reports,
    /// `Unseen` with its number, or whether an answer is ready.
    answer: (Option<Seq>, bool),
    pause: Pause,
    timer: LocalTimer,
    front: Option<(Seq, Seq, Whereabouts, u32)>,
}

fn kind(timer: LocalTimer) -> core::mem::Discriminant<LocalTimer> {
    core::mem::discriminant(&timer)
}

/// Returns the name of each state, without its data.
fn names(states: &States) -> [String; 5] {
    let States { responsibility, delivery, scan, burst, timer, .. } = states;
    let name = |state: String| {
        state.split('(').next().map(|name| String::from(name.trim_end_matches(" {"))).unwrap_or_default()
    };
    [
        name(format!("{responsibility:?}")),
        name(format!("{delivery:?}")),
        name(format!("Scan::{scan:?}")),
        name(format!("{burst:?}").replace(" {", "(")),
        name(format!("{timer:?}")),
    ]
}

/// Checks a change against the tables.
fn check_transition(event: Event, before: States, after: States) {
    let change = || format!("{event:?}: {before:?} to {after:?}");
    let responsibility = match (before.responsibility, after.responsibility) {
        (Responsibility::BaseStation, Responsibility::BaseStation) => true,
        (Responsibility::Sender, Responsibility::Sender) => true,
        (Responsibility::Sender, Responsibility::BaseStationUntil(_)) => event == Event::Timer,
        (Responsibility::BaseStationUntil(from), Responsibility::BaseStationUntil(to)) => {
            to == from || to > from && event == Event::Timer
        }
        _ => false,
    };
    assert!(responsibility, "{}", change());
    let delivery = match (before.delivery, after.delivery) {
        (Delivery::Delivering, Delivery::TimedOut) => event == Event::Timer,
        (Delivery::TimedOut, Delivery::Delivering) => event == Event::Ack,
        _ => true,
    };
    assert!(delivery, "{}", change());
    assert!(before.scan == after.scan || matches!(event, Event::Ack | Event::Timer), "{}", change());
    let burst = match (before.burst, after.burst) {
        (Burst::Allowed { since, repairs }, Burst::Allowed { since: still, repairs: left })
            if event == Event::Timer =>
        {
            still == since && left < repairs
        }
        (Burst::None, Burst::Allowed { .. }) => event == Event::Ack,
        (from, to) => from == to || matches!(event, Event::Ack | Event::Timer),
    };
    assert!(burst, "{}", change());
    let reports = before.reports == after.reports || (event == Event::Ack && after.reports == Reports::Seen);
    assert!(reports, "{}", change());
    let answer = match (before.answer, after.answer) {
        (from, to) if from == to => true,
        ((Some(from), _), (Some(to), _)) => event == Event::Ack && to.gt(from),
        _ => event == Event::Ack,
    };
    assert!(answer, "{}", change());
    let pause = match (before.pause, after.pause) {
        (from, to) if from == to => true,
        (_, Pause::None) => event == Event::Ack,
        (Pause::None, Pause::Until { .. }) => event == Event::Pause,
        (Pause::Until { length: from, .. }, Pause::Until { length: to, .. }) => event == Event::Pause && to >= from,
    };
    assert!(pause, "{}", change());
    let timer = kind(before.timer) == kind(after.timer)
        || match event {
            Event::Ack => true,
            Event::Data => before.front != after.front,
            Event::Timer => {
                matches!((before.timer, after.timer), (LocalTimer::Running(_), LocalTimer::GivenUp | LocalTimer::Never))
            }
            Event::Pause | Event::Other => false,
        };
    assert!(timer, "{}", change());
}

/// One connection, and the drivers' part.
struct Bench {
    config: SnoopConfig,
    repair: Repair<()>,
    out: Outbox<()>,
    now: Instant,
    /// Names of the states seen.
    seen: BTreeSet<String>,
}

fn packet(from: Side, len: u32, segment: Segment) -> Packet {
    crate::pep::rig::packet(FlowId(1), from, len, segment)
}

impl Bench {
    /// Returns a connection after its handshake, whose last packet is perhaps not seen.
    fn new(config: SnoopConfig, handshake: Handshake) -> Self {
        let mut tracking = Tracking::new();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let segment = |seq, ack, flags| Segment { seq, ack, window: 60_000, flags, ..Segment::default() };
        tracking.take(at(0), RECEIVER, &segment(MOBILE - 1, Seq(0), Flags::SYN), 0);
        tracking.take(at(1), SENDER, &segment(ISN - 1, MOBILE, Flags::SYN.with(Flags::ACK)), 0);
        if handshake == Handshake::Complete {
            tracking.take(at(2), RECEIVER, &segment(MOBILE, ISN, Flags::ACK), 0);
        }
        let out = Outbox {
            packets: VecDeque::new(),
            events: VecDeque::new(),
            repairs: config.queue_priority(),
            places: Places::new(),
        };
        let repair = Repair::new(at(2), &config, SENDER, tracking.next(SENDER), tracking);
        Self { config, repair, out, now: at(2), seen: BTreeSet::new() }
    }

    fn states(&self) -> States {
        let Repair { responsibility, arrivals, schedule, detection, answers, budget, cache, .. } = &self.repair;
        States {
            responsibility: *responsibility,
            delivery: arrivals.delivery,
            scan: schedule.scan,
            burst: schedule.burst,
            reports: detection.reports,
            answer: match &answers.answer {
                Answer::None => (None, false),
                Answer::Unseen(seq) => (Some(*seq), false),
                Answer::Ready(_) => (None, true),
            },
            pause: budget.pause,
            timer: self.repair.timer(&self.config),
            front: cache.front().map(|front| (front.seq, front.end, front.whereabouts, front.by_timer)),
        }
    }

    /// Replaces the connection, as the element does when its state does not fit the ends'.
    fn restart(&mut self, start: Seq) {
        let tracking = core::mem::take(&mut self.repair.tracking);
        self.repair = Repair::new(self.now, &self.config, SENDER, start, tracking);
    }

    /// Does an operation and checks its transitions, unless it restarts the connection.
    fn act(&mut self, event: Event, operation: impl FnOnce(&mut Self) -> Option<Seq>) {
        let before = self.states();
        match (operation(self), self.repair.take_size_news()) {
            (Some(start), _) => self.restart(start),
            (None, Some((start, sizes, edge))) => {
                self.restart(start);
                self.repair.keep_sizes(sizes, edge);
            }
            (None, None) => check_transition(event, before, self.states()),
        }
        self.check();
        let seen = names(&self.states());
        self.seen.extend(seen);
        self.out.packets.clear();
        self.out.events.clear();
    }

    fn data(&mut self, seq: Seq, len: u32) {
        let segment = Segment { seq, ack: MOBILE, window: 60_000, flags: Flags::ACK, ..Segment::default() };
        let packet = packet(SENDER, len, segment);
        self.act(Event::Data, |bench| {
            let Bench { config, repair, out, now, .. } = bench;
            match repair.tracking.take(*now, SENDER, &segment, len) {
                Take::Believed => {}
                Take::Old => {
                    repair.on_acknowledged_data(config, *now, &packet, out);
                    return None;
                }
                _ => return None,
            }
            match repair.on_data(*now, config, &packet, &segment, out) {
                DataVerdict::Restart => return Some(seq + len),
                DataVerdict::Store(place) if place != Place::Back || !repair.is_full(len, seq + len) => {
                    repair.store(*now, packet, seq, place, out);
                }
                _ => {}
            }
            None
        });
    }

    fn pass_uncached(&mut self, seq: Seq, len: u32) {
        let segment = Segment { seq, ack: MOBILE, window: 60_000, flags: Flags::ACK, ..Segment::default() };
        self.act(Event::Data, |bench| {
            let Bench { repair, out, now, .. } = bench;
            if repair.tracking.take(*now, SENDER, &segment, len) != Take::Believed {
                return None;
            }
            let verdict = repair.pass_uncached(&segment, seq + len, out);
            (verdict == DataVerdict::Restart).then_some(seq + len)
        });
    }

    fn ack(&mut self, ack: Seq, len: u32, blocks: &[(Seq, Seq)], window: u16) {
        let mut segment = Segment { seq: MOBILE, ack, window, flags: Flags::ACK, ..Segment::default() };
        blocks.iter().for_each(|&(left, right)| segment.options.sack.push(SackBlock { left, right }));
        let mut packet = packet(RECEIVER, len, segment);
        self.act(Event::Ack, |bench| {
            let Bench { config, repair, out, now, .. } = bench;
            if repair.tracking.take(*now, RECEIVER, &segment, len) != Take::Believed {
                return None;
            }
            let verdict = repair.on_ack(*now, config, &mut packet, &segment, out);
            repair.release(*now, out);
            let is_repeatable = len == 0 || !matches!(repair.answers.answer, Answer::Ready(_));
            assert!(is_repeatable, "data from the mobile host is not repeated");
            match verdict {
                AckVerdict::Forget => Some(ack),
                AckVerdict::GoBack => {
                    repair.tracking.go_back(SENDER, ack);
                    Some(repair.tracking.next(SENDER))
                }
                AckVerdict::Forward | AckVerdict::Hold => None,
            }
        });
    }

    /// Lets timers expire that are due.
    fn run_timers(&mut self) {
        for _ in 0..32 {
            let due = self.repair.poll_deadline(&self.config).filter(|&due| due <= self.now);
            if due.is_none() {
                return;
            }
            self.act(Event::Timer, |bench| {
                bench.repair.on_timer(bench.now, &bench.config, &mut bench.out);
                None
            });
            let Schedule { silence, reordered, .. } = self.repair.schedule;
            assert!([silence, reordered].into_iter().flatten().all(|at| at > self.now), "{:?}", self.repair.schedule);
        }
        panic!("timers expire again and again: {:?}", self.repair.schedule);
    }

    fn wait(&mut self, ms: u16, timers: Timers) {
        let end = self.now + Duration::from_millis(ms.into());
        while timers == Timers::InTime
            && let Some(due) = self.repair.poll_deadline(&self.config).filter(|&due| due < end)
        {
            self.now = due.max(self.now);
            self.run_timers();
        }
        self.now = end;
        self.run_timers();
    }

    fn step(&mut self, step: &Step) {
        let base = self.repair.stream.last_ack.unwrap_or(ISN);
        let from = |n: u8| base + u32::from(n) * LEN;
        match *step {
            Step::New(count, odd) => {
                for n in 0..count {
                    let seq = self.repair.stream.high + if n == 1 && odd == Odd::Gap { LEN } else { 0 };
                    self.data(seq, if n == 0 && odd == Odd::Large { 4 * LEN } else { LEN });
                }
            }
            Step::Again(first, len) => self.data(from(first), len),
            Step::PassUncached(first, len) => self.pass_uncached(from(first), len),
            Step::Ack(advance, ref blocks, window) => {
                let mut at = advance;
                let mut named = Vec::new();
                for &(distance, len) in blocks {
                    named.push((
                        from(at.saturating_add(distance)),
                        from(at.saturating_add(distance).saturating_add(len)),
                    ));
                    at = at.saturating_add(distance).saturating_add(len);
                }
                self.ack(from(advance), 0, &named, window);
            }
            Step::Upload => self.ack(base, LEN, &[], 60_000),
            Step::Wait(ms, timers) => self.wait(ms, timers),
            Step::Deferred => self.act(Event::Other, |bench| {
                bench.repair.catch_up(bench.now, Pace::Time, &mut bench.out);
                None
            }),
            Step::Pause => self.act(Event::Pause, |bench| {
                bench.repair.pause(bench.now);
                None
            }),
            Step::Others(took, least) => {
                let (took, least) = (Duration::from_millis(took.into()), Duration::from_millis(least.into()));
                self.repair.set_others(Some(Heard { last: self.now, took, least }));
            }
            Step::Share(sharing) => self.repair.share_backlog(sharing.into()),
            Step::NoControl => self.act(Event::Other, |bench| {
                bench.config.hop = None;
                bench.repair.set_control(bench.now, None, &mut bench.out);
                None
            }),
        }
    }

    /// Checks the invariants.
    fn check(&self) {
        let Repair { stream, arrivals, schedule, answers, cache, sizes, .. } = &self.repair;
        cache.check();
        self.repair.check_hop();
        let timer = self.repair.timer(&self.config);
        // The local timer runs if and only if data is outstanding and nothing below stops it.
        assert_eq!(timer == LocalTimer::Idle, cache.len() == 0);
        let runs = cache.front().is_some_and(|front| {
            stream.last_ack.is_some()
                && stream.window > 0
                && front.by_timer < self.config.max_local_retries
                && !(sizes.are_limited() && front.whereabouts == Whereabouts::Arrived)
        });
        assert_eq!(runs, matches!(timer, LocalTimer::Running(_)), "{timer:?}");
        // Pending repairs are sent even if nothing arrives.
        let repairs_here = !self.repair.responsibility.is_senders(self.now);
        assert!(schedule.scan == Scan::Complete || schedule.silence.is_some() || !repairs_here, "{schedule:?}");
        let deadline = self.repair.poll_deadline(&self.config);
        assert!(!runs && schedule.burst == Burst::None || deadline.is_some());
        assert!(arrivals.delivery == Delivery::Delivering || arrivals.last() < self.now);
        assert!(arrivals.progress <= arrivals.last() && arrivals.last() <= self.now);
        if let Answer::Ready(answer) = &answers.answer {
            assert_eq!(answer.tcp().map(|tcp| tcp.ack), stream.last_ack);
            assert_eq!(self.config.awareness, TcpAwareness::Aware);
        }
        assert!(stream.last_ack.is_none_or(|ack| ack.le(stream.high)));
    }
}

fn step() -> impl Strategy<Value = Step> {
    let odd = prop_oneof![6 => Just(Odd::No), 2 => Just(Odd::Gap), 1 => Just(Odd::Large)];
    let blocks = || proptest::collection::vec((0u8..4, 1u8..5), 0..4);
    let window = prop_oneof![20 => Just(60_000u16), 1 => Just(0), 1 => any::<u16>()];
    let timers = prop_oneof![3 => Just(Timers::InTime), 1 => Just(Timers::Late)];
    let wait = prop_oneof![6 => 0u16..30, 3 => 0u16..300, 1 => 0u16..12_000];
    let again = prop_oneof![6 => Just(LEN), 2 => Just(2 * LEN), 1 => 1u32..400];
    prop_oneof![
        8 => (1u8..12, odd).prop_map(|(count, odd)| Step::New(count, odd)),
        2 => (0u8..12, again.clone()).prop_map(|(first, len)| Step::Again(first, len)),
        1 => (0u8..40, again).prop_map(|(first, len)| Step::PassUncached(first, len)),
        8 => (0u8..6, blocks(), window).prop_map(|(advance, blocks, window)| Step::Ack(advance, blocks, window)),
        4 => blocks().prop_map(|blocks| Step::Ack(0, blocks, 60_000)),
        1 => Just(Step::Upload),
        10 => (wait, timers).prop_map(|(ms, timers)| Step::Wait(ms, timers)),
        2 => Just(Step::Deferred),
        1 => Just(Step::Pause),
        1 => (0u16..200, 0u16..100).prop_map(|(took, least)| Step::Others(took, least)),
        1 => (0u8..5).prop_map(Step::Share),
    ]
}

fn config() -> impl Strategy<Value = SnoopConfig> {
    let detection = prop_oneof![1 => Just(LocalDetection::DuplicateAcks), 2 => Just(LocalDetection::Smart)];
    let awareness = prop_oneof![1 => Just(TcpAwareness::Unaware), 3 => Just(TcpAwareness::Aware)];
    let begin = prop_oneof![2 => Just(Begin::AtOnce), 1 => Just(Begin::AfterSilence)];
    let hop = proptest::option::of((1u32..12, 1_000u32..20_000));
    (detection, awareness, begin, hop, 1u32..4, 0u32..12).prop_map(
        |(detection, awareness, begin, hop, dups, retries)| {
            let hop = hop.filter(|_| begin == Begin::AtOnce).map(|(backlog, held)| HopControl { backlog, held });
            let new = SnoopConfig::new(detection, awareness);
            let timer_min = Duration::from_millis(50);
            SnoopConfig { begin, hop, timer_min, dupack_threshold: dups, max_local_retries: retries, ..new }
        },
    )
}

fn setup() -> impl Strategy<Value = (SnoopConfig, Handshake)> {
    (config(), prop_oneof![5 => Just(Handshake::Complete), 1 => Just(Handshake::Incomplete)])
}

/// Runs the steps, the last of them without flow control. Returns the names of the states seen.
fn run((config, handshake): (SnoopConfig, Handshake), steps: &[Step], uncontrolled: &[Step]) -> BTreeSet<String> {
    let mut bench = Bench::new(config, handshake);
    steps.iter().for_each(|step| bench.step(step));
    bench.step(&Step::NoControl);
    uncontrolled.iter().for_each(|step| bench.step(step));
    bench.seen
}

/// The property below would be void for a state that the random steps never reach.
#[test]
fn the_random_steps_reach_every_state() {
    let mut runner = TestRunner::deterministic();
    let cases = (setup(), proptest::collection::vec(step(), 100));
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let (setup, steps) = cases.new_tree(&mut runner).unwrap().current();
        seen.extend(run(setup, &steps, &[]));
    }
    let expected = [
        "Allowed",
        "BaseStation",
        "BaseStationUntil",
        "BeforeFirstAck",
        "Delivering",
        "GivenUp",
        "Idle",
        "None",
        "Running",
        "Scan::Complete",
        "Scan::From",
        "Sender",
        "TimedOut",
        "TooLarge",
        "WindowClosed",
    ];
    // No timeout here is long enough for `Never`.
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn only_legal_transitions_occur(
        setup in setup(),
        steps in proptest::collection::vec(step(), 1..150),
        uncontrolled in proptest::collection::vec(step(), 0..50),
    ) {
        run(setup, &steps, &uncontrolled);
    }
}
