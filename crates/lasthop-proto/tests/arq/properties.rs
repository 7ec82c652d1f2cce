//! Random channels: each packet arrives once and in order, whatever was lost, duplicated or delayed, and memory stays
//! bounded (which [`Link`] checks after each step). Injected frames do no harm.

use std::sync::OnceLock;

use lasthop_proto::link::arq::{Arq, ArqConfig, Delivery, Header, MAX_WINDOW, Protocol, Timer};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Integrity, LinkHeaders, Packet};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

use super::link::*;

/// Time at which the channel becomes lossless.
const CLEAN: u64 = 20_000;

/// Maximum delay of a frame, in milliseconds. No test sends 2^15 frames in that time.
const LATEST: u64 = 2_000;

/// Fate of a frame while the channel is bad.
#[derive(Clone, Debug)]
enum Fate {
    Lost,
    Once(u64),
    Twice(u64, u64),
}

/// A bad channel: fates for successive frames, repeated, and whether it loses all control frames.
#[derive(Clone, Debug)]
struct Bad {
    fates: Vec<Fate>,
    mute: bool,
}

impl Bad {
    /// Returns the channel: bad up to [`CLEAN`], then 10 ms for all frames.
    fn channel(self, now: impl Fn() -> Instant) -> impl FnMut(usize, &Packet) -> Vec<Duration> {
        let mut fates = self.fates.into_iter().cycle();
        move |_, packet| match fates.next() {
            _ if now() >= ms(CLEAN) => vec![millis(10)],
            _ if self.mute && packet.body == Body::Control => vec![],
            Some(Fate::Once(after)) => vec![millis(after)],
            Some(Fate::Twice(first, second)) => vec![millis(first), millis(second)],
            Some(Fate::Lost) | None => vec![],
        }
    }
}

fn bad() -> impl Strategy<Value = Bad> {
    let delay = || prop_oneof![6 => 10u64..30, 2 => 0u64..300, 1 => 0u64..LATEST];
    let fate = prop_oneof![
        2 => Just(Fate::Lost),
        6 => delay().prop_map(Fate::Once),
        1 => (delay(), delay()).prop_map(|(first, second)| Fate::Twice(first, second)),
    ];
    let fates = prop::collection::vec(fate, 1..200);
    (fates, prop::bool::weighted(0.2)).prop_map(|(fates, mute)| Bad { fates, mute })
}

fn configs() -> impl Strategy<Value = ArqConfig> {
    let protocol = prop_oneof![
        3 => Just(Protocol::SelectiveRepeat),
        2 => Just(Protocol::GoBackN),
        1 => Just(Protocol::StopAndWait),
    ];
    let timer = prop_oneof![
        (20u64..1_000).prop_map(|span| Timer::Fixed(millis(span))),
        (0u64..500).prop_map(|min| Timer::Estimated { min: millis(min) }),
    ];
    let nack_again = prop::option::of((1u64..1_000).prop_map(millis));
    let delivery = prop_oneof![Just(Delivery::InOrder), Just(Delivery::Immediate)];
    let window = prop_oneof![8 => 1u16..20, 1 => Just(0), 1 => Just(MAX_WINDOW), 1 => any::<u16>()];
    (protocol, window, 0u16..20, timer, nack_again, delivery, 0u32..60).prop_map(
        |(protocol, window, header, timer, nack_again, delivery, queue)| ArqConfig {
            protocol,
            window,
            header,
            timer,
            nack_again,
            max_retransmissions: None,
            delivery,
            queue,
        },
    )
}

/// Returns numbers of packets to offer at an end, after a pause in milliseconds.
fn offers() -> impl Strategy<Value = Vec<(usize, u32, u64)>> {
    prop::collection::vec((0usize..2, 1u32..12, prop_oneof![0u64..50, 0u64..2_000]), 1..40)
}

/// Returns two ends after 65,500 packets in each direction without a loss: numbers are about to wrap.
fn near_the_wrap() -> &'static [(ArqConfig, [Arq; 2])] {
    static PAIRS: OnceLock<Vec<(ArqConfig, [Arq; 2])>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let pair = |protocol| {
            let config = ArqConfig { nack_again: Some(millis(150)), ..config(protocol) };
            let mut link = Link::new(config.clone(), |_, _| vec![Duration::ZERO]);
            for number in 0..65_500 {
                (0..2).for_each(|end| link.offer(end, packet(number)));
                link.run_until(link.now);
                link.trace.clear();
            }
            (config, link.ends)
        };
        [Protocol::SelectiveRepeat, Protocol::GoBackN, Protocol::StopAndWait].map(pair).into()
    })
}

/// Runs a pair over a bad channel, with offered packets, until it has been lossless for long enough.
fn run(config: ArqConfig, ends: Option<[Arq; 2]>, bad: Bad, offers: &[(usize, u32, u64)]) -> Link<'static> {
    let clock = std::rc::Rc::new(std::cell::Cell::new(Instant::ZERO));
    let time = clock.clone();
    let mut link = Link::new(config, bad.channel(move || time.get()));
    if let Some(ends) = ends {
        link.ends = ends;
    }
    let run_until = |link: &mut Link<'_>, until: Instant| {
        // In steps below the shortest round trip, so that the channel knows the time.
        while link.now < until {
            let next = (link.now + millis(5)).min(until);
            link.run_until(next);
            clock.set(next);
        }
    };
    let mut next = 0;
    for &(end, count, pause) in offers {
        for _ in 0..count {
            link.offer(end, packet(next));
            next += 1;
        }
        let until = (link.now + millis(pause)).min(ms(CLEAN - 1));
        run_until(&mut link, until);
    }
    run_until(&mut link, ms(CLEAN));
    link
}

/// Returns the time after the channel has become lossless until all accepted packets have arrived. A frame is late by
/// its timer at most, 64 s if that is estimated and has been doubled often enough. A round trip takes 20 ms, and in the
/// worst case each frame needs a timer of its own.
fn bound(link: &Link<'_>) -> Duration {
    let frames: usize = link.ends.iter().map(|end| end.unacknowledged() + end.waiting()).sum();
    Duration::from_secs(70) + millis(LATEST) + Duration::from_secs(2) * frames as u64
}

/// Checks that packets arrived at most once, and in order if that is guaranteed.
fn at_most_once(link: &Link<'_>, end: usize) -> Result<(), TestCaseError> {
    let mut taken = link.numbers(end);
    if link.config.delivery == Delivery::Immediate && link.config.protocol == Protocol::SelectiveRepeat {
        taken.sort_unstable();
    }
    prop_assert!(taken.is_sorted_by(|one, next| one < next), "{taken:?}");
    let sent = &link.accepted[1 - end];
    prop_assert!(taken.iter().all(|number| sent.binary_search(number).is_ok()), "{taken:?} of {sent:?}");
    for (_, out) in &link.taken[end] {
        prop_assert_eq!(Packet { cause: packet(0).cause, ..*out }, packet(number(out)));
    }
    Ok(())
}

fn exactly_once(link: &Link<'_>) -> Result<(), TestCaseError> {
    for end in 0..2 {
        at_most_once(link, end)?;
        prop_assert_eq!(link.taken[end].len(), link.accepted[1 - end].len());
    }
    prop_assert!(link.is_idle());
    prop_assert!(link.ends.iter().all(|end| end.given_up() == 0));
    Ok(())
}

/// Prints seeds of failures and keeps them beside this file, to be run first from then on.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions")))
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 2_000, failure_persistence: kept(), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn each_packet_arrives_once(config in configs(), bad in bad(), offers in offers()) {
        let mut link = run(config, None, bad, &offers);
        link.run_until(link.now + bound(&link));
        exactly_once(&link)?;
        // Idle ends have nothing left to do.
        let lines = link.trace.len();
        link.run_until(link.now + Duration::from_secs(1000));
        prop_assert_eq!(link.trace.len(), lines);
    }

    /// Given-up frames are lost; all others arrive, and the link continues.
    #[test]
    fn frames_given_up_do_not_stop_the_rest(
        config in configs(),
        most in 0u32..5,
        bad in bad(),
        offers in offers(),
    ) {
        let config = ArqConfig { max_retransmissions: Some(most), ..config };
        let mut link = run(config, None, bad, &offers);
        link.run_until(link.now + bound(&link));
        prop_assert!(link.is_idle());
        for end in 0..2 {
            at_most_once(&link, end)?;
            let missing = link.accepted[1 - end].len() - link.taken[end].len();
            prop_assert!(missing as u64 <= link.ends[1 - end].given_up(), "{missing} missing");
        }
        let before: Vec<_> = (0..2).map(|end| (link.taken[end].len(), link.ends[end].given_up())).collect();
        for next in 100_000..100_030 {
            (0..2).for_each(|end| link.offer(end, packet(next)));
            link.run_until(link.now + millis(25));
        }
        link.run_until(link.now + bound(&link));
        for (end, (taken, given_up)) in before.into_iter().enumerate() {
            prop_assert_eq!(link.taken[end].len(), taken + 30);
            prop_assert_eq!(link.ends[end].given_up(), given_up);
            at_most_once(&link, end)?;
        }
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn each_packet_arrives_once_across_the_wrap(which in 0usize..3, bad in bad(), offers in offers()) {
        let (config, ends) = near_the_wrap()[which].clone();
        let mut link = run(config, Some(ends), bad, &offers);
        link.run_until(link.now + bound(&link));
        exactly_once(&link)?;
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// At an end: a packet from inside.
    Offer(usize),
    /// At an end: a frame that the other one never sent.
    Inject(usize, Box<Packet>),
    /// Wait in milliseconds.
    Wait(u64),
    /// Advance to the next deadline of an end.
    Deadline(usize),
}

fn garbage() -> impl Strategy<Value = Packet> {
    let number = prop_oneof![6 => 0u16..40, 2 => any::<u16>(), 1 => 65_500u16..=65_535, 1 => 32_760u16..32_780];
    let header = (0u8..5, number).prop_map(|(kind, number)| match kind {
        0 => LinkHeaders::NONE,
        1 => Header::Data(number).into(),
        2 => Header::Ack(number).into(),
        3 => Header::Nack(number).into(),
        _ => Header::Skip(number).into(),
    });
    let body = prop_oneof![
        (0u32..1000).prop_map(|number| Body::Datagram { number }),
        Just(Body::Tcp(Default::default())),
        Just(Body::Control),
    ];
    (header, body, any::<u16>(), any::<u32>(), prop::bool::weighted(0.1)).prop_map(
        |(link, body, header_len, len, damaged)| {
            let integrity = if damaged { Integrity::PayloadDamaged } else { Integrity::Intact };
            Packet { link, body, header_len, len, integrity, ..packet(0) }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..2).prop_map(Step::Offer),
        8 => (0usize..2, garbage()).prop_map(|(end, frame)| Step::Inject(end, Box::new(frame))),
        2 => prop_oneof![0u64..200, 0u64..100_000, any::<u64>().prop_map(|span| span >> 30)].prop_map(Step::Wait),
        1 => (0usize..2).prop_map(Step::Deadline),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    /// Memory is checked by [`Link`]. The ends may be out of step permanently, but they neither stop nor send without
    /// end.
    #[test]
    fn garbage_does_no_harm(
        config in configs(),
        most in prop::option::of(0u32..4),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        // The output of one step grows with the window.
        let window = config.window.min(100);
        let config = ArqConfig { max_retransmissions: most, window, ..config };
        let mut ends = [Arq::new(config.clone()), Arq::new(config.clone())];
        let mut now = Instant::ZERO;
        for step in &steps {
            let (end, outputs) = match step {
                Step::Offer(end) => (*end, feed(&mut ends[*end], now, Port::WIRED, packet(1))),
                Step::Inject(end, frame) => {
                    let outputs = feed(&mut ends[*end], now, Port::WIRELESS, **frame);
                    if frame.link.is_empty() {
                        prop_assert!(outputs.contains(&(Port::WIRED, **frame)));
                    }
                    (*end, outputs)
                }
                Step::Wait(span) => {
                    now += millis(*span);
                    (0, wake(&mut ends[0], now))
                }
                Step::Deadline(end) => {
                    now = lasthop_proto::node::Node::poll_deadline(&ends[*end]).map_or(now, |at| at.max(now));
                    (*end, wake(&mut ends[*end], now))
                }
            };
            let (arq, window) = (&ends[end], usize::from(config.window.max(1)));
            prop_assert!(arq.unacknowledged() <= window && arq.held() < window);
            prop_assert!(arq.waiting() <= config.queue as usize);
            // A retransmitted window, a window of NACKs or of released packets, and a few frames more.
            prop_assert!(outputs.len() <= 4 * window + 10, "{} outputs", outputs.len());
        }
    }
}
