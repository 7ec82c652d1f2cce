//! Series derived by hand, and properties of arbitrary ones.

extern crate std;

use std::vec;
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

/// Returns steps from values in ms and kbps: a kbps is a bit per millisecond.
fn steps(steps: &[(u64, u64)]) -> Vec<RateStep> {
    steps.iter().map(|(from, rate)| RateStep { from: ms(*from), rate: 1000 * rate }).collect()
}

fn process(given: &[(u64, u64)], length: u64, wrap: Wrap) -> RateProcess {
    let series = RateSeries::new(steps(given), ms(length), wrap, Offset::At(Duration::ZERO)).unwrap();
    RateProcess::new(&RateSpec::Series(series), || unreachable!("nothing is drawn")).unwrap()
}

/// 8000 kbps is 1000 bytes per millisecond; 800 a tenth of that.
#[test]
fn a_frame_on_the_air_is_sent_partly_at_each_rate() {
    let mut rate = process(&[(0, 8000), (10, 800), (20, 0), (25, 8000)], 30, Wrap::Hold);
    assert_eq!(rate.finish(at(0), 1000), at(1));
    // 1 ms at 1000 bytes, and 5 ms at 100 bytes.
    assert_eq!(rate.finish(at(9), 1500), at(15));
    // 200 bytes until 20 ms, nothing until 25 ms, then 800.
    assert_eq!(rate.finish(at(18), 1000), Instant::from_nanos(25_800_000));
    // Exactly at the end of a step, and from the beginning of one.
    assert_eq!(rate.finish(at(9), 1000), at(10));
    assert_eq!(rate.finish(at(10), 1000), at(20));
    assert_eq!(rate.finish(at(20), 1000), at(26));
    // The last rate remains valid.
    assert_eq!(rate.finish(at(100_000), 1000), at(100_001));
    assert_eq!(rate.finish(at(22), 0), at(22));
}

#[test]
fn a_series_ends_as_it_is_told() {
    let given = [(0, 8000), (10, 800)];
    let mut repeats = process(&given, 20, Wrap::Repeat);
    assert_eq!(repeats.finish(at(20), 1000), at(21));
    assert_eq!(repeats.finish(at(39), 1100), at(41));
    // A lap carries 11,000 bytes: five of them, and 500 more.
    assert_eq!(repeats.finish(at(0), 55_500), Instant::from_nanos(100_500_000));
    let mut stops = process(&given, 20, Wrap::Stop);
    assert_eq!(stops.finish(at(10), 1000), at(20));
    assert_eq!(stops.finish(at(10), 1001), Instant::FAR_FUTURE);
    assert_eq!(stops.finish(at(30), 1), Instant::FAR_FUTURE);
}

#[test]
fn series_that_never_send_are_none() {
    let series = |given: &[(u64, u64)], length, wrap| {
        RateSeries::new(steps(given), ms(length), wrap, Offset::At(Duration::ZERO)).is_some()
    };
    assert!(!series(&[], 10, Wrap::Hold));
    assert!(!series(&[(1, 5)], 10, Wrap::Hold));
    assert!(!series(&[(0, 5), (0, 6)], 10, Wrap::Hold));
    assert!(!series(&[(0, 5), (20, 6)], 10, Wrap::Hold));
    assert!(!series(&[(0, 0)], 10, Wrap::Hold));
    assert!(!series(&[(0, 0), (10, 5)], 10, Wrap::Repeat));
    assert!(series(&[(0, 0), (10, 5)], 10, Wrap::Hold));
}

/// Tests a ramp from 8000 to 0 kbps in 40 ms in steps of 10 ms, with their mean rates. A ramp carries half of the time
/// at the full rate.
#[test]
fn ramps_carry_what_they_should() {
    let made = ramps(&steps(&[(20, 8000), (60, 0), (80, 4000)]), ms(10)).unwrap();
    let expected = [(0, 8000), (20, 7000), (30, 5000), (40, 3000), (50, 1000), (60, 1000), (70, 3000), (80, 4000)];
    // Two equal steps are merged.
    let expected: Vec<_> = expected.into_iter().filter(|(from, _)| *from != 60).collect();
    assert_eq!(made, steps(&expected));
    let series = RateSeries::new(made, ms(80), Wrap::Hold, Offset::At(Duration::ZERO)).unwrap();
    assert!((series.mean() - (8e6 * 20.0 + 4e6 * 40.0 + 2e6 * 20.0) / 80.0).abs() < 1.0);
    // A partial step at the end: 15 ms in steps of 10 and 5.
    let made = ramps(&steps(&[(0, 3000), (15, 0)]), ms(10)).unwrap();
    assert_eq!(made, steps(&[(0, 2000), (10, 500), (15, 0)]));
    assert!(ramps(&steps(&[(0, 1), (1_000_000_000, 9)]), Duration::from_micros(1)).is_none());
}

/// The offset is one draw from the stream, wherever it is requested.
#[test]
fn a_drawn_offset_is_the_same_for_all() {
    let given: Vec<_> = (0..100).map(|step| (10 * step, 100 + step)).collect();
    let series = RateSeries::new(steps(&given), ms(1000), Wrap::Repeat, Offset::Random).unwrap();
    let of =
        |seed: u64| RateProcess::new(&RateSpec::Series(series.clone()), || Root(seed).stream("links/x/rate")).unwrap();
    let begin = |seed| of(seed).segment(Instant::ZERO);
    assert_eq!(begin(1), begin(1));
    let rates: std::collections::BTreeSet<u64> = (0..200).map(|seed| begin(seed).rate).collect();
    assert!(rates.len() > 60, "{}", rates.len());
}

#[test]
fn files_are_read() {
    let read = |text: &str| read_rates(text.as_bytes());
    let expected = RateTrace { steps: steps(&[(0, 20_000), (2000, 5000), (4500, 0), (5000, 0)]), length: ms(5000) };
    assert_eq!(read("# a trace\n0 20\n2.0\t5\n\n4.5 0.0 # an outage\n5 0\n"), Ok(expected.clone()));
    assert_eq!(read("0,20\r\n2,5\r\n4.5,0\r\n5,0\r\n"), Ok(expected.clone()));
    assert_eq!(read("lost,rate_mbps,t_s\n3,20,0\n,5,2\n1,0,4.5\n2,0,5\n"), Ok(expected));
    for (text, error) in [
        ("", BadRates::Short),
        ("0 5\n", BadRates::Short),
        ("0 5\n1 5 6\n", BadRates::Line(2)),
        ("0 5\n1\n", BadRates::Line(2)),
        ("0 5\n1 -5\n", BadRates::Line(2)),
        ("0 5\nx 5\n", BadRates::Line(2)),
        ("0 5\n2 5\n2 6\n", BadRates::Back(3)),
        ("# x\n1 5\n2 5\n", BadRates::First(2)),
        ("time,rate\n0,5\n", BadRates::Header(1)),
        ("0 0\n1 5\n", BadRates::Silent),
    ] {
        assert_eq!(read(text), Err(error), "{text:?}");
    }
}

fn series() -> impl Strategy<Value = (RateSeries, u64)> {
    let step = (100_000u64..50_000_000, prop_oneof![1 => Just(0u64), 5 => 100_000u64..1_000_000_000]);
    let wrap = prop_oneof![Just(Wrap::Repeat), Just(Wrap::Hold), Just(Wrap::Stop)];
    (proptest::collection::vec(step, 1..20), wrap, 0u64..100_000_000).prop_filter_map(
        "sends",
        |(given, wrap, offset)| {
            let mut from = 0;
            let mut made = Vec::new();
            for (span, rate) in given {
                made.push(RateStep { from: Duration::from_nanos(from), rate });
                from += span;
            }
            let offset = Offset::At(Duration::from_nanos(offset));
            RateSeries::new(made, Duration::from_nanos(from), wrap, offset).map(|series| (series, from))
        },
    )
}

proptest! {
    /// A single rate is a constant rate: the same end to the nanosecond.
    #[test]
    fn one_step_is_a_constant_rate(rate in 1u64..10_000_000_000, start in 0u64..1_000_000_000, bytes in 0u32..100_000) {
        let made = vec![RateStep { from: Duration::ZERO, rate }];
        let series = RateSeries::new(made, Duration::ZERO, Wrap::Hold, Offset::At(Duration::ZERO)).unwrap();
        let mut process = RateProcess::new(&RateSpec::Series(series), || unreachable!()).unwrap();
        let start = Instant::from_nanos(start);
        let span = Duration::from_nanos((u64::from(bytes) * 8_000_000_000).div_ceil(rate));
        prop_assert_eq!(process.finish(start, bytes), start + span);
    }

    /// From the start of a frame to its end the series carries its bits, and one nanosecond earlier it did not: work is
    /// conserved.
    #[test]
    fn what_is_sent_is_what_the_series_carries((series, _) in series(), start in 0u64..500_000_000, bytes in 1u32..3000) {
        let mut process = RateProcess::new(&RateSpec::Series(series), || unreachable!()).unwrap();
        let start = Instant::from_nanos(start);
        let end = process.finish(start, bytes);
        let carried = |end: Instant| {
            let (mut at, mut sum) = (start, 0u128);
            while at < end {
                let Segment { rate, until } = process.segment(at);
                let until = until.min(end);
                sum += u128::from(rate) * u128::from(until.since(at).as_nanos());
                at = until;
            }
            sum
        };
        let work = u128::from(bytes) * 8_000_000_000;
        if end < Instant::FAR_FUTURE {
            prop_assert!(carried(end) >= work);
            prop_assert!(carried(Instant::from_nanos(end.as_nanos() - 1)) < work);
        } else {
            prop_assert!(carried(Instant::from_nanos(1 << 62)) < work);
        }
    }

    /// Frames that start later end later: order is kept.
    #[test]
    fn later_frames_end_later((series, _) in series(), starts in proptest::collection::vec(0u64..50_000_000, 1..40)) {
        let mut process = RateProcess::new(&RateSpec::Series(series), || unreachable!()).unwrap();
        let mut last = Instant::ZERO;
        let mut now = Instant::ZERO;
        for after in starts {
            now += Duration::from_nanos(after);
            let end = process.finish(now, 1500);
            prop_assert!(end >= last && end > now);
            last = end;
        }
    }

    /// No file causes a panic, and a valid one yields a series.
    #[test]
    fn any_file_is_read_or_refused(text in "[0-9 .,#\\n-]{0,60}") {
        if let Ok(trace) = read_rates(text.as_bytes()) {
            prop_assert!(RateSeries::new(trace.steps, trace.length, Wrap::Hold, Offset::Random).is_some());
        }
    }
}
