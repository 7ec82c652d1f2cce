//! An end that lies in its reports about one of two paths: it harms that path only.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use lasthop_proto::link::hybrid::{Header, HopConfig, Multipath, RateRule, Repair};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, LinkReport, Packet};
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::link::*;

/// Port of the path that the reports lie about.
const LIED: Port = Port(2);
/// Number of that path.
const LIED_PATH: u8 = 1;

/// Lie in a report: changes a true one, given the numbers that the sender uses next on the path and for its packets.
type Lie<'a> = Box<dyn FnMut(Instant, &mut LinkReport, [u32; 2]) + 'a>;

/// Fate of frames on the path that the reports lie about.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Truth {
    Arrives,
    /// The reports say otherwise: they are those on the other path, said of this one.
    Vanishes,
}

/// Frames of the path that the reports lie about, and reports of end 1, which the test passes on.
#[derive(Default)]
struct Lied {
    frames: Cell<u32>,
    bytes: Cell<u32>,
    reports: RefCell<Vec<(Instant, Packet)>>,
    /// Last report on the honest path.
    honest: Cell<Option<Packet>>,
}

impl Lied {
    /// Returns reports that say that all frames arrived, if there are more since the last call.
    fn invent(&self, now: Instant, said: &mut u32) -> Vec<(Instant, Packet)> {
        let (frames, before) = (self.frames.get(), *said);
        let Some(mut packet) = self.honest.get().filter(|_| frames > before) else { return vec![] };
        *said = frames;
        packet.link = Header::Feedback { packet: frames }.into();
        if let Body::Report(report) = &mut packet.body {
            (report.path, report.delivered) = (LIED_PATH, self.bytes.get());
            all_arrived(report, frames);
        }
        vec![(now, packet)]
    }
}

/// Load of both paths: rate rule, loss of the honest path in percent, and time between two offered packets.
#[derive(Clone, Copy, Debug)]
struct Load {
    multipath: Multipath,
    rate: RateRule,
    loss: u64,
    pause: Duration,
    until: Instant,
}

impl Load {
    /// More than both paths carry.
    fn bulk(until: Instant) -> Self {
        let (multipath, rate) = (Multipath::Bond, RateRule::Fixed(RATE));
        Self { multipath, rate, loss: 0, pause: Duration::from_micros(450), until }
    }
}

/// Number of packets in the entry queue, which are delivered when the load has ended.
const QUEUE: u32 = 200;

/// Load that the honest path carried: frames with payload while there was load, packets that were delivered in all, and the
/// last delivery.
#[derive(Clone, Copy, Debug)]
struct Carried {
    frames: u32,
    /// Frames on the other path.
    lied: u32,
    delivered: usize,
    last: Instant,
}

/// A bottleneck: a queue of 100 ms before a hop of [`RATE`].
#[derive(Default)]
struct Bottleneck {
    free: Cell<u64>,
}

impl Bottleneck {
    /// Returns the delay of a frame in the queue; `None` if the queue is full.
    fn enter(&self, now: Instant, packet: &Packet) -> Option<Duration> {
        let start = self.free.get().max(now.as_nanos());
        let bits = u64::from(packet.len + u32::from(packet.header_len) + 58) * 8;
        let end = start + bits * 1_000_000_000 / RATE;
        let waits = Duration::from_nanos(end - now.as_nanos());
        if waits > millis(100) {
            return None;
        }
        self.free.set(end);
        Some(waits)
    }
}

/// Sends `load` from end 0 to end 1 over the honest path and, with a lie, another one.
fn run(load: Load, truth: Truth, lie: Option<Lie<'_>>, seed: u64) -> Carried {
    let frames = Rc::new(Cell::new(0));
    let lied = Rc::new(Lied::default());
    let mut random = Root(seed).stream("losses");
    let channel = {
        let (frames, lied) = (frames.clone(), lied.clone());
        let queues: [[Bottleneck; 2]; 2] = Default::default();
        move |now: Instant, end: usize, port: Port, packet: &Packet| {
            let is_lied = port == LIED;
            if let Body::Report(report) = packet.body
                && end == 1
            {
                if report.path == LIED_PATH {
                    lied.reports.borrow_mut().push((now, *packet));
                    return vec![];
                }
                lied.honest.set(Some(*packet));
            }
            if end == 0 && is_lied {
                // Frames without payload have numbers, too.
                lied.frames.set(lied.frames.get() + 1);
                lied.bytes.set(lied.bytes.get().wrapping_add(packet.len + u32::from(packet.header_len)));
            } else if end == 0 {
                frames.set(frames.get() + u32::from(packet.len > 0));
            }
            let Some(waits) = queues[end][usize::from(is_lied)].enter(now, packet) else { return vec![] };
            let vanishes = if is_lied { truth == Truth::Vanishes && end == 0 } else { random.below(100) < load.loss };
            if vanishes { vec![] } else { vec![millis(if is_lied { 20 } else { 10 }) + waits] }
        }
    };
    let more = [load.rate];
    let more = if lie.is_some() { &more[..] } else { &[] };
    let config = HopConfig { rate: load.rate, queue: Some(QUEUE), ..config(Repair::Adaptive) };
    let mut link = Link::with(config, load.multipath, more, channel);
    let mut lie = lie;
    let (mut count, mut said) = (0, 0);
    while link.now < load.until {
        link.offer(0, segment(0, count));
        count += 1;
        let next = link.now + load.pause;
        link.run_until(next);
        let mut reports = lied.reports.take();
        if truth == Truth::Vanishes {
            reports.extend(lied.invent(link.now, &mut said));
        }
        for (at, mut packet) in reports {
            if let (Some(lie), Body::Report(report)) = (&mut lie, &mut packet.body) {
                lie(at, report, [lied.frames.get(), count]);
            }
            link.handle(0, LIED, packet);
        }
    }
    let frames = frames.get();
    let end = link.now + millis(3000);
    link.run_until(end);
    let last = link.taken[1].last().map_or(Instant::ZERO, |(at, _)| *at);
    Carried { frames, lied: lied.frames.get(), delivered: link.taken[1].len(), last }
}

/// Checks that the honest path carries at least 90 % of what it carries alone.
#[track_caller]
fn check_honest(load: Load, truth: Truth, lie: Lie<'_>, what: &str) {
    let alone = run(load, Truth::Arrives, None, 1);
    let beside = run(load, truth, Some(lie), 1);
    assert!(beside.frames * 10 >= alone.frames * 9, "{what}: {beside:?}, alone {alone:?}");
    assert!(beside.delivered * 10 >= alone.delivered * 9, "{what}: {beside:?}, alone {alone:?}");
}

/// Says that all transmissions arrived.
fn all_arrived(report: &mut LinkReport, next: u32) {
    if next > 0 {
        (report.largest, report.received, report.back, report.delay) = (next - 1, [u32::MAX; 4], 0, 0);
    }
}

const SPAN: u64 = 6000;

#[test]
fn a_path_that_claims_to_be_faster_than_light_takes_nothing_from_the_other() {
    for (what, by) in [("10 s", -10_000_000), ("35 min", i32::MIN / 2), ("1 s", -1_000_000), ("30 ms", -30_000)] {
        for truth in [Truth::Arrives, Truth::Vanishes] {
            let lie = move |_: Instant, report: &mut LinkReport, _: [u32; 2]| {
                report.arrived = report.arrived.wrapping_add_signed(by);
            };
            check_honest(Load::bulk(ms(SPAN)), truth, Box::new(lie), &format!("{what} earlier, {truth:?}"));
        }
    }
}

#[test]
fn a_path_that_claims_to_be_slow_delays_nothing_on_the_other() {
    for (what, by) in [("10 s", 10_000_000), ("35 min", i32::MAX / 2), ("300 ms", 300_000)] {
        let lie = move |_: Instant, report: &mut LinkReport, _: [u32; 2]| {
            report.arrived = report.arrived.wrapping_add_signed(by);
        };
        check_honest(Load::bulk(ms(SPAN)), Truth::Arrives, Box::new(lie), &format!("{what} later"));
    }
}

/// Each report says that all arrived, and nothing has.
#[test]
fn a_black_hole_that_claims_arrivals_takes_its_own_share_only() {
    let lie = |_: Instant, _: &mut LinkReport, _: [u32; 2]| {};
    check_honest(Load::bulk(ms(SPAN)), Truth::Vanishes, Box::new(lie), "a black hole");
}

/// The same for so long that the sender must tell the receiver that it will not send the missing packets again.
#[test]
fn a_black_hole_that_claims_arrivals_does_not_stop_the_other_path() {
    let lie = |_: Instant, _: &mut LinkReport, _: [u32; 2]| {};
    let load = Load::bulk(ms(60_000));
    let beside = run(load, Truth::Vanishes, Some(Box::new(lie)), 1);
    assert!(beside.lied > 50_000, "{beside:?}");
    assert!(beside.last > load.until, "nothing is delivered after {}", beside.last);
    assert!(beside.delivered > 50_000, "{beside:?}");
}

/// The reports say that no packet is missing, while the honest path loses 5 %.
#[test]
fn a_claim_that_all_packets_are_present_does_not_end_the_repair_of_the_other_path() {
    let lie = |_: Instant, report: &mut LinkReport, [_, symbols]: [u32; 2]| {
        (report.floor, report.beyond) = (symbols.saturating_sub(200).max(report.floor), [u32::MAX; 4]);
    };
    let load = Load { loss: 5, pause: Duration::from_micros(1500), ..Load::bulk(ms(SPAN)) };
    let beside = run(load, Truth::Arrives, Some(Box::new(lie)), 1);
    assert!(beside.delivered >= (SPAN * 1000 / 1500) as usize * 99 / 100, "{beside:?}");
}

/// The reports are held back, so that the round trip seems to be seconds. A lost packet of a call on the honest path is
/// still repaired.
#[test]
fn late_reports_do_not_end_repair_on_the_other_path() {
    for multipath in [Multipath::Bond, Multipath::Failover] {
        let paths = |late: bool| {
            let mut random = Root(5).stream("losses");
            let mut held: Vec<(Instant, Packet)> = Vec::new();
            let withheld: Rc<RefCell<Vec<(Instant, Packet)>>> = Rc::default();
            let keeps = withheld.clone();
            let mut link = Link::with(
                config(Repair::Adaptive),
                multipath,
                &[RateRule::Fixed(RATE)],
                move |now, end, port, packet: &Packet| {
                    if late && end == 1 && matches!(packet.body, Body::Report(report) if report.path == LIED_PATH) {
                        keeps.borrow_mut().push((now, *packet));
                        return vec![];
                    }
                    let is_lost = end == 0 && port == Port::WIRELESS && random.below(100) < 10;
                    if is_lost { vec![] } else { vec![millis(if port == LIED { 40 } else { 10 })] }
                },
            );
            // Each report comes a little later than the last one, until the round trip seems to be 8 s.
            for number in 0..3000 {
                link.offer(0, datagram(3, number));
                let next = link.now + millis(20);
                link.run_until(next);
                held.append(&mut withheld.borrow_mut());
                let wait = (link.now.since(Instant::ZERO) / 4).min(Duration::from_secs(8));
                let now = link.now;
                for (_, packet) in held.extract_if(.., |(at, _)| now.since(*at) >= wait) {
                    link.handle(0, LIED, packet);
                }
            }
            let end = link.now + millis(3000);
            link.run_until(end);
            let mut numbers = link.numbers(1, 3);
            numbers.sort_unstable();
            numbers.dedup();
            3000 - numbers.len()
        };
        let [honest, late] = [paths(false), paths(true)];
        assert!(late <= honest + 6, "{multipath:?}: {late} lost, {honest} without lies");
    }
}

/// A field that lies, and how.
#[derive(Clone, Copy, Debug)]
enum Field {
    Largest,
    Delay,
    Received,
    Floor,
    Beyond,
    Delivered,
    Useful,
    Marked,
    Arrived,
    Back,
}

const FIELDS: [Field; 10] = [
    Field::Largest,
    Field::Delay,
    Field::Received,
    Field::Floor,
    Field::Beyond,
    Field::Delivered,
    Field::Useful,
    Field::Marked,
    Field::Arrived,
    Field::Back,
];

fn tell(field: Field, report: &mut LinkReport, [next, symbols]: [u32; 2], mut draw: impl FnMut(u64) -> u64) {
    // Near the truth as well as far from it.
    let mut about = |value: u32| match draw(4) {
        0 => draw(1 << 32) as u32,
        1 => value.wrapping_add(draw(64) as u32),
        2 => value.wrapping_sub(draw(64) as u32),
        _ => value,
    };
    match field {
        Field::Largest => report.largest = about(next.saturating_sub(1)),
        Field::Delay => report.delay = about(report.delay),
        Field::Received => report.received = [0; 4].map(|_| about(u32::MAX)),
        Field::Floor => report.floor = about(symbols),
        Field::Beyond => report.beyond = [0; 4].map(|_| about(u32::MAX)),
        Field::Delivered => report.delivered = about(report.delivered),
        Field::Useful => report.useful = about(report.useful),
        Field::Marked => report.marked = about(report.marked),
        Field::Arrived => report.arrived = about(report.arrived),
        Field::Back => report.back = about(0) as u16,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Reports that lie in any fields, near the truth or far from it: the honest path carries at least 90 % of what it
    /// carries alone, and [`check`] holds for the memory of both ends throughout. If all is said to arrive, a path with an
    /// automatic rate takes what a fast one would: these lies are told of given rates only.
    #[test]
    fn a_liar_about_one_path_harms_that_path_only(
        lies in prop::sample::subsequence(&FIELDS[..], 1..=10), often in 1..=4u64, vanishes in any::<bool>(),
        finds in any::<bool>(), loss in 0..5u64, seed in any::<u64>(),
    ) {
        let claims = |field: &Field| matches!(field, Field::Largest | Field::Received | Field::Floor | Field::Beyond);
        let finds = finds && !vanishes && !lies.iter().any(claims);
        let rate = if finds { RateRule::Auto } else { RateRule::Fixed(RATE) };
        let load = Load { rate, loss, ..Load::bulk(ms(4000)) };
        let mut random = Root(seed).stream("lies");
        let lie = |_: Instant, report: &mut LinkReport, next: [u32; 2]| {
            for field in &lies {
                if random.below(often) == 0 {
                    tell(*field, report, next, |most| random.below(most));
                }
            }
        };
        let truth = if vanishes { Truth::Vanishes } else { Truth::Arrives };
        let (alone, beside) = (run(load, Truth::Arrives, None, seed), run(load, truth, Some(Box::new(lie)), seed));
        prop_assert!(beside.frames * 10 >= alone.frames * 9, "{:?}, alone {:?}", beside, alone);
        prop_assert!(beside.delivered * 10 >= alone.delivered * 9, "{:?}, alone {:?}", beside, alone);
    }
}
