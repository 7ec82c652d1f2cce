//! Time series derived by hand, distributions, and properties of arbitrary time series.

extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::random::Root;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

fn variation(model: DelaySpec, order: Order) -> Variation {
    Variation::new(&VariationSpec::of(model, order), Root(1).stream("links/x/delay"))
}

fn course(steps: &[(u64, u64)]) -> DelaySpec {
    DelaySpec::Replay(Arc::new(
        steps.iter().map(|(from, more)| DelayStep { from: at(*from), more: ms(*more) }).collect(),
    ))
}

/// Returns the arrival times, in ms, of frames sent at these times.
fn arrivals(variation: &mut Variation, sent: &[u64]) -> Vec<u64> {
    let arrive = |sent: &u64| (at(*sent) + variation.of(at(*sent)).unwrap_or(Duration::ZERO)).as_nanos() / 1_000_000;
    sent.iter().map(arrive).collect()
}

/// 30 ms more after 10 ms, 5 ms more after 20 ms: frames sent at 21 and 22 ms catch up with one sent at 15 ms, and wait
/// behind it or overtake it.
#[test]
fn a_recorded_course() {
    let steps = [(10, 30), (20, 5)];
    let sent = [0, 9, 10, 15, 21, 22, 41];
    assert_eq!(arrivals(&mut variation(course(&steps), Order::Kept), &sent), [0, 9, 40, 45, 45, 45, 46]);
    assert_eq!(arrivals(&mut variation(course(&steps), Order::Free), &sent), [0, 9, 40, 45, 26, 27, 46]);
    // A frame in time that arrives at the same instant as an earlier late one must follow it, so its delay is zero
    // instead of `None`.
    let mut back = variation(course(&[(10, 30), (20, 0)]), Order::Kept);
    assert_eq!([10, 40, 41].map(|sent| back.of(at(sent))), [Some(ms(30)), Some(Duration::ZERO), None]);
}

#[test]
fn courses_are_read() {
    let step = |from: u64, more: u64| DelayStep { from: Instant::from_nanos(from), more: Duration::from_nanos(more) };
    let text = b"# time delay\n0 1.5\r\n\n.25,20 # a jump\n 15\t0.0000019\n";
    assert_eq!(
        read_delays(text),
        Ok([step(0, 1_500_000), step(250_000_000, 20_000_000), step(15_000_000_000, 1)].into())
    );
    for (text, bad) in [
        ("", BadDelays::Empty),
        ("# 1 2\n", BadDelays::Empty),
        ("1\n", BadDelays::Line(1)),
        ("1 2\n3 4 5", BadDelays::Line(2)),
        ("1 -2", BadDelays::Line(1)),
        ("1 2ms", BadDelays::Line(1)),
        ("1. .", BadDelays::Line(1)),
        ("1 1e3", BadDelays::Line(1)),
        ("86401 1", BadDelays::Line(1)),
        ("1 99999999999999999999", BadDelays::Line(1)),
        ("1 2\n1 3", BadDelays::Back(2)),
        ("2 2\n1 3", BadDelays::Back(2)),
    ] {
        assert_eq!(read_delays(text.as_bytes()), Err(bad), "{text:?}");
    }
}

/// A timetable of 15 s that starts at 12 s, with an outage of half a second at each handover. Before the first, and
/// from one to the next, the delay is constant, between zero and 20 ms.
#[test]
fn handovers_by_a_timetable() {
    let spec =
        HandoverSpec { period: Duration::from_secs(15), first: Duration::from_secs(12), jump: ms(20), outage: ms(500) };
    let mut variation = variation(DelaySpec::Handover(spec), Order::Kept);
    let mut ways = Vec::new();
    for period in 0..100 {
        let begin = if period == 0 { 0 } else { 15_000 * period - 3000 };
        let end = 15_000 * (period + 1) - 3000 - 21;
        if period > 0 {
            // Sent in the outage: arrives at its end.
            let outage = variation.of(at(begin + 100)).unwrap();
            assert!(outage >= ms(400) && outage <= ms(420));
        }
        let more = [begin + 521, begin + 5000, end].map(|sent| variation.of(at(sent)).unwrap_or(Duration::ZERO));
        assert!(more.iter().all(|each| *each == more[0] && *each <= ms(20)), "{more:?}");
        ways.push(more[0]);
    }
    ways.dedup();
    assert_eq!(ways.len(), 100);
    // Uniform up to 20 ms: half of it on average, with a deviation of 0.58 ms over 100.
    let mean = ways.iter().map(|way| way.as_secs_f64()).sum::<f64>() / 100.0;
    assert!((mean - 0.01).abs() < 0.0025, "{mean}");
}

/// Spikes of 2 s, 8 s apart on average: a frame at any time falls into one with probability 2/10, and then waits for 1
/// s on average.
#[test]
fn spikes_take_their_share_of_time() {
    let spec = SpikesSpec { every: Duration::from_secs(8), length: Duration::from_secs(2) };
    let mut variation = variation(DelaySpec::Spikes(spec), Order::Free);
    let late: Vec<_> = (0..400_000u64).filter_map(|tick| variation.of(at(50 * tick))).collect();
    let share = late.len() as f64 / 4e5;
    let mean = late.iter().map(|late| late.as_secs_f64()).sum::<f64>() / late.len() as f64;
    assert!((share - 0.2).abs() < 0.02 && (mean - 1.0).abs() < 0.02, "{share} {mean}");
    assert!(late.iter().all(|late| *late <= Duration::from_secs(2)));
}

/// An attempt fails with probability 1/4: k retransmissions with probability 3/4·(1/4)^k, 4 at most.
#[test]
fn repeats_are_geometric_up_to_a_limit() {
    let spec = RepeatsSpec { frame_loss: 0.25, round: ms(40), most: 4 };
    let mut variation = variation(DelaySpec::Repeats(spec), Order::Free);
    let mut counts = [0u32; 5];
    for sent in 1..100_000 {
        let more = variation.of(at(sent)).unwrap_or(Duration::ZERO).as_nanos();
        assert_eq!(more % ms(40).as_nanos(), 0);
        counts[(more / ms(40).as_nanos()) as usize] += 1;
    }
    for (repeats, expected) in [0.75, 0.1875, 0.046_875, 0.011_718_75, 0.003_906_25].into_iter().enumerate() {
        let share = f64::from(counts[repeats]) / 1e5;
        assert!((share - expected).abs() < 0.004, "{repeats}: {share}");
    }
}

/// Mean and deviation of 40 ms and 10 ms. With a deviation of twice the mean, Φ(-1/2) = 30.85 % would be below zero and
/// arrive without additional delay.
#[test]
fn normal_jitter_is_cut_at_zero() {
    let delays = |mean, deviation| -> Vec<f64> {
        let spread = Spread::Normal { mean: ms(mean), deviation: ms(deviation) };
        let mut variation = variation(DelaySpec::Jitter(spread), Order::Free);
        (1..100_000).map(|sent| variation.of(at(sent)).unwrap_or(Duration::ZERO).as_secs_f64() * 1e3).collect()
    };
    let plain = delays(40, 10);
    let mean = plain.iter().sum::<f64>() / plain.len() as f64;
    let variance = plain.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / plain.len() as f64;
    assert!((mean - 40.0).abs() < 0.15 && (variance.sqrt() - 10.0).abs() < 0.15, "{mean} {variance}");
    let cut = delays(10, 20);
    let share = cut.iter().filter(|delay| **delay == 0.0).count() as f64 / cut.len() as f64;
    assert!((share - 0.3085).abs() < 0.006, "{share}");
}

/// Mean 20 ms: a share e^-1 takes longer than the mean, e^-2 longer than twice that.
#[test]
fn exponential_jitter_is_exponential() {
    let mut variation = variation(DelaySpec::Jitter(Spread::Exponential(ms(20))), Order::Free);
    let mut longer = [0u32; 2];
    for sent in 1..100_000 {
        let more = variation.of(at(sent)).unwrap_or(Duration::ZERO);
        longer[0] += u32::from(more > ms(20));
        longer[1] += u32::from(more > ms(40));
    }
    let shares = longer.map(|count| f64::from(count) / 1e5);
    assert!((shares[0] - 0.3679).abs() < 0.006 && (shares[1] - 0.1353).abs() < 0.005, "{shares:?}");
}

/// Slots of 10 ms starting at 3 ms: a frame across at 3 is delivered at 3, later ones at 13, in order; a delay is added
/// as of the slot.
#[test]
fn slots_hold_frames_until_they_come() {
    let slots = Some(SlotsSpec { interval: ms(10), first: ms(3) });
    let alone = VariationSpec { slots, ..VariationSpec::NONE };
    let arrive = |spec: &VariationSpec, sent: &[u64]| -> Vec<Instant> {
        let mut variation = Variation::new(spec, Root(1).stream("links/x/delay"));
        sent.iter().map(|sent| at(*sent) + variation.of(at(*sent)).unwrap_or(Duration::ZERO)).collect()
    };
    assert_eq!(arrive(&alone, &[0, 3, 4, 12, 13, 14]), [3, 3, 13, 13, 13, 23].map(at));
    // A time series of delays that increases at 13 ms, which also affects frames sent before.
    let VariationSpec { model, .. } = VariationSpec::of(course(&[(13, 100)]), Order::Kept);
    assert_eq!(arrive(&VariationSpec { model, ..alone }, &[2, 4, 23]), [3, 113, 123].map(at));
    // At the instant of a slot, a frame behind others that wait for it is delayed by zero, since it would otherwise
    // overtake them.
    let mut variation = Variation::new(&VariationSpec { slots, ..VariationSpec::NONE }, Root(1).stream("x"));
    assert_eq!((variation.of(at(4)), variation.of(at(13))), (Some(ms(9)), Some(Duration::ZERO)));
}

fn models() -> impl Strategy<Value = DelaySpec> {
    prop_oneof![
        (1u64..200).prop_map(|most| DelaySpec::Jitter(Spread::Uniform(ms(most)))),
        (0.0..0.9, 1u64..100, 1u32..9).prop_map(|(frame_loss, round, most)| DelaySpec::Repeats(RepeatsSpec {
            frame_loss,
            round: ms(round),
            most
        })),
        (1u64..1000, 1u64..1000)
            .prop_map(|(every, length)| DelaySpec::Spikes(SpikesSpec { every: ms(every), length: ms(length) })),
        (1u64..500, 0u64..500, 0u64..100, 0u64..700).prop_map(|(period, first, jump, outage)| {
            DelaySpec::Handover(HandoverSpec {
                period: ms(period),
                first: ms(first),
                jump: ms(jump),
                outage: ms(outage),
            })
        }),
    ]
}

proptest! {
    /// In kept order no frame overtakes, and no late frame is reported as in time; in free order each frame's delay is
    /// independent. The same stream yields the same time series, and one in time does not depend on the number of
    /// frames.
    #[test]
    fn of_any_course(model in models(), gaps in proptest::collection::vec(0u64..300, 1..100)) {
        let sent: Vec<_> = gaps.iter().scan(1, |now, gap| { *now += gap; Some(at(*now)) }).collect();
        let mut kept = variation(model.clone(), Order::Kept);
        let mut free = variation(model.clone(), Order::Free);
        let mut own = Instant::ZERO;
        let mut before: Option<(Instant, bool)> = None;
        for &sent in &sent {
            let free = free.of(sent).unwrap_or(Duration::ZERO);
            own = own.max(sent + free);
            let told = kept.of(sent);
            let arrives = sent + told.unwrap_or(Duration::ZERO);
            prop_assert_eq!(arrives, own);
            if let Some((last, late)) = before {
                prop_assert!(arrives >= last);
                prop_assert!(!(late && arrives == last && told.is_none()), "one in time would go first");
            }
            before = Some((arrives, told.is_some()));
        }
        if model.is_clocked() {
            let last = *sent.last().unwrap();
            let (mut often, mut once) = (variation(model.clone(), Order::Free), variation(model, Order::Free));
            let often = sent.iter().map(|sent| often.of(*sent)).last().unwrap();
            prop_assert_eq!(often, once.of(last));
        }
    }
}
