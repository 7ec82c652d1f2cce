//! Tests arbitrary error models, including parameters out of range, with arbitrary frames. Each frame has a fate, which
//! the seed reproduces. The same holds for any time series of delays, which keeps frames in order if required.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{passing, pause, steps};
use lasthop_proto::channel::{Act, Behind, Channel, Drop, DropFrame, ErrorSpec, Frames, ScriptFrame, ScriptLine};
use lasthop_proto::delay::{
    DelaySpec, DelayStep, HandoverSpec, Order, RepeatsSpec, SlotsSpec, SpikesSpec, Spread, Variation, VariationSpec,
};
use lasthop_proto::link_trace::TimeSeries;
use lasthop_proto::packet::FlowId;
use lasthop_proto::random::Root;
use lasthop_proto::rate::{Offset, Wrap};
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fn number(u: &mut Unstructured<'_>) -> Result<f64> {
    Ok(match u.int_in_range(0..=3u8)? {
        0 => u.arbitrary()?,
        1 => f64::from(u.arbitrary::<u8>()?) / 255.0,
        2 => f64::from(u.arbitrary::<u16>()?),
        _ => 1e-5,
    })
}

fn duration(u: &mut Unstructured<'_>) -> Result<Duration> {
    if u.ratio(1, 8)? { Ok(Duration::from_nanos(u.arbitrary()?)) } else { pause(u) }
}

fn small(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(1, 8)? { u.arbitrary() } else { u.int_in_range(0..=8) }
}

fn drops(u: &mut Unstructured<'_>) -> Result<Vec<Drop>> {
    let mut drops = Vec::new();
    for _ in 0..u.int_in_range(0..=20u8)? {
        let frame = match u.int_in_range(0..=3u8)? {
            0 => DropFrame::Ack(small(u)?),
            1 => DropFrame::Syn(small(u)?),
            _ => DropFrame::Data { segment: small(u)?, transmission: small(u)? },
        };
        let flow = u.ratio(1, 3)?.then(|| small(u)).transpose()?.map(FlowId);
        drops.push(Drop { flow, frame });
    }
    Ok(drops)
}

fn script(u: &mut Unstructured<'_>) -> Result<Vec<ScriptLine>> {
    let mut lines = Vec::new();
    for _ in 0..u.int_in_range(0..=20u8)? {
        let frame = match u.int_in_range(0..=4u8)? {
            0 => ScriptFrame::Ack(small(u)?),
            1 => ScriptFrame::Syn(small(u)?),
            2 => ScriptFrame::Byte { byte: u.arbitrary()?, transmission: small(u)? },
            _ => ScriptFrame::Byte { byte: u.int_in_range(0..=20_000)?, transmission: small(u)? },
        };
        let act = match u.int_in_range(0..=2u8)? {
            0 => Act::Lose,
            1 => Act::Mark,
            _ => Act::Late { by: duration(u)?, behind: *u.choose(&[Behind::Overtake, Behind::Wait])? },
        };
        let flow = u.ratio(1, 3)?.then(|| small(u)).transpose()?.map(FlowId);
        lines.push(ScriptLine { flow, frame, act });
    }
    Ok(lines)
}

fn spec(u: &mut Unstructured<'_>) -> Result<ErrorSpec> {
    let frames = *u.choose(&[Frames::All, Frames::Data, Frames::Acks])?;
    Ok(match u.int_in_range(0..=9u8)? {
        0 => ErrorSpec::None,
        1 => ErrorSpec::Exponential { mean_bytes: number(u)?, frames },
        2 => ErrorSpec::Uniform { frame_loss: number(u)?, frames },
        3 => {
            ErrorSpec::TwoStateTime { good: duration(u)?, bad: duration(u)?, good_ber: number(u)?, bad_ber: number(u)? }
        }
        4 => ErrorSpec::TwoStatePacket {
            good_to_bad: number(u)?,
            bad_to_good: number(u)?,
            good_loss: number(u)?,
            bad_loss: number(u)?,
            frames,
        },
        5 => ErrorSpec::Burst { mean_bytes: number(u)?, packets: small(u)?, frames },
        6 => ErrorSpec::List(Arc::new(drops(u)?)),
        9 => series(u, number)?.map_or(ErrorSpec::None, ErrorSpec::Trace),
        7 => ErrorSpec::Script(Arc::new(script(u)?)),
        _ => ErrorSpec::Replay { trace: Arc::new(u.arbitrary()?), frames },
    })
}

/// Returns a time of at least a millisecond, as scenarios require for periods.
fn period(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(Duration::from_millis(1) + Duration::from_nanos(u64::from(u.arbitrary::<u32>()?)))
}

/// Returns the column of a link's trace; `None` if its times do not increase.
fn series<T: Copy>(
    u: &mut Unstructured<'_>,
    value: impl Fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<TimeSeries<T>>> {
    let (mut at, mut steps) = (Duration::ZERO, Vec::new());
    for _ in 0..u.int_in_range(1..=9u8)? {
        steps.push((at, value(u)?));
        at = at + Duration::from_nanos(u64::from(u.arbitrary::<u32>()?));
    }
    let wrap = *u.choose(&[Wrap::Repeat, Wrap::Hold, Wrap::Stop])?;
    let offset = *u.choose(&[Offset::Random, Offset::At(Duration::from_secs(1))])?;
    Ok(TimeSeries::new(steps, at, wrap, offset))
}

fn variation(u: &mut Unstructured<'_>) -> Result<VariationSpec> {
    let span = |u: &mut Unstructured<'_>| Ok(Duration::from_nanos(u64::from(u.arbitrary::<u32>()?)));
    let model = match u.int_in_range(0..=8u8)? {
        0 => DelaySpec::None,
        1 => DelaySpec::Jitter(Spread::Uniform(span(u)?)),
        6 => DelaySpec::Jitter(Spread::Normal { mean: span(u)?, deviation: span(u)? }),
        7 => DelaySpec::Jitter(Spread::Exponential(span(u)?)),
        8 => series(u, span)?.map_or(DelaySpec::None, DelaySpec::Trace),
        2 => DelaySpec::Repeats(RepeatsSpec { frame_loss: number(u)?, round: span(u)?, most: u.int_in_range(0..=9)? }),
        3 => DelaySpec::Spikes(SpikesSpec { every: period(u)?, length: span(u)? }),
        4 => {
            DelaySpec::Handover(HandoverSpec { period: period(u)?, first: span(u)?, jump: span(u)?, outage: span(u)? })
        }
        _ => {
            let mut from = Instant::ZERO;
            let mut steps = Vec::new();
            for _ in 0..u.int_in_range(0..=9u8)? {
                from = from + pause(u)?;
                steps.push(DelayStep { from, more: span(u)? });
            }
            DelaySpec::Replay(Arc::new(steps))
        }
    };
    let slots = u.ratio(1, 4)?.then(|| Ok::<_, arbitrary::Error>(SlotsSpec { interval: period(u)?, first: span(u)? })).transpose()?;
    Ok(VariationSpec { model, order: *u.choose(&[Order::Kept, Order::Free])?, slots, more: span(u)? })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let spec = spec(u)?;
    let course = variation(u)?;
    let mut last = Instant::ZERO;
    let seed = u.arbitrary()?;
    let mut channels = [0, 1].map(|_| Channel::new(&spec, Root(seed).stream("links/x/down/errors")));
    let mut courses = [0, 1].map(|_| Variation::new(&course, Root(seed).stream("links/x/delay")));
    let mut now = Instant::ZERO;
    steps(u, 200, |u| {
        let (_, packet) = passing(u)?;
        let start = now + pause(u)?;
        // No frame takes longer on the air than this. Time never runs backwards.
        now = start + Duration::from_nanos(u64::from(u.arbitrary::<u32>()?));
        let [one, other] = channels.each_mut().map(|channel| channel.judge(&packet, start, now));
        assert_eq!(one, other);
        let [one, other] = courses.each_mut().map(|course| course.of(now));
        assert_eq!(one, other);
        let arrives = now + one.unwrap_or(Duration::ZERO);
        assert!(course.order == Order::Free || arrives >= last);
        last = arrives;
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
