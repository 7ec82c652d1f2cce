//! Links that are not a queue in front of one rate: each behaviour is named, quantities that it hides are unknown, and
//! nothing false is stated.

use crate::common::shape::{Shape, Spread};
use crate::common::{Turns, Way, client, run, run_in_turns, server, way};
use lasthop_probe::report::behaviour::Quantity;
use lasthop_probe::report::{DirectionReport, Report, analyse};
use lasthop_proto::time::Duration;

fn shaped(mbps: f64, delay_ms: u64, queue: usize, shape: Shape) -> Way {
    Way { shape, ..way(mbps, delay_ms, queue, 0.0) }
}

fn report(ways: &[Way; 2]) -> Report {
    let told = run(client(60, 21), server(), ways, 22);
    assert_eq!(told.outcome, Ok(()), "{ways:?}");
    analyse(told.measured, "there").unwrap().report
}

fn both(way: Way) -> Report {
    report(&[way.clone(), way])
}

fn is_unknown(direction: &DirectionReport, quantity: Quantity) -> bool {
    direction.behaviour.unknown.iter().any(|unknown| unknown.quantity == quantity && !unknown.reason.is_empty())
}

/// Checks that the rate is unknown, or correct to within 8 % or its interval.
fn rate_holds(direction: &DirectionReport, truth: f64) {
    match direction.rate_bps {
        None => assert!(is_unknown(direction, Quantity::Rate), "{direction:?}"),
        Some(rate) => {
            let [low, high] = rate.interval.expect("an interval");
            let near = (rate.value / truth - 1.0).abs() < 0.08;
            assert!((near || low <= truth && truth <= high) && high < 3.0 * low && low < high, "{direction:?}");
        }
    }
}

#[test]
fn jitter_that_reorders_is_measured_and_loses_nothing() {
    let shape = Shape { jitter: Some((Spread::Normal(0.01), false)), ..Shape::default() };
    let report = both(shaped(20.0, 40, 100, shape));
    assert_eq!((report.base_rtt_ms, report.one_way_delay_ms), (None, None), "{report:?}");
    assert!(report.median_rtt_ms.is_some_and(|median| (76.0..88.0).contains(&median)), "{report:?}");
    for direction in [&report.down, &report.up] {
        assert!(is_unknown(direction, Quantity::BaseDelay), "{direction:?}");
        let behaviour = &direction.behaviour;
        assert!(behaviour.reordering.is_some_and(|found| found.share > 0.2 && found.by_ms_p95 > 5.0), "{behaviour:?}");
        // In a normal distribution, the minimum of thousands lies three to five standard deviations below the median.
        assert!(behaviour.jitter.is_some_and(|jitter| (25.0..60.0).contains(&jitter.p50_ms)), "{behaviour:?}");
        assert_eq!(direction.loss.lost, 0, "{direction:?}");
        rate_holds(direction, 20e6);
    }
}

/// With netem's `reorder`, 3 % skip the delay, which must not define the base delay.
#[test]
fn packets_that_skip_the_delay_do_not_halve_the_round_trip() {
    let report = both(shaped(20.0, 15, 100, Shape { early: 0.03, ..Shape::default() }));
    assert!(report.base_rtt_ms.is_none_or(|base| (base - 30.0).abs() < 1.0), "{report:?}");
    for direction in [&report.down, &report.up] {
        assert!(direction.behaviour.reordering.is_some(), "{direction:?}");
        rate_holds(direction, 20e6);
    }
}

/// A delayed packet holds up those behind it, so that they arrive in bursts as aggregates do.
#[test]
fn jitter_in_order_is_not_aggregation() {
    for (mbps, deviation) in [(8.4, 0.007), (9.3, 0.003), (8.8, 0.0055), (20.0, 0.01), (40.0, 0.004)] {
        let shape = Shape { jitter: Some((Spread::Normal(deviation), true)), ..Shape::default() };
        let report = both(shaped(mbps, 40, 100, shape));
        for direction in [&report.down, &report.up] {
            assert_eq!(direction.behaviour.aggregation, None, "{mbps} Mbps: {direction:?}");
            rate_holds(direction, 1e6 * mbps);
        }
    }
}

/// 802.11 with aggregation: frames of up to 32 packets, which are delivered together and retransmitted if damaged; one
/// end sends at a time.
#[test]
fn aggregates_do_not_make_a_link_fast() {
    let way = way(100.0, 10, 100, 0.0);
    let turns = Turns {
        frame_overhead: Duration::from_micros(200),
        turnaround: Duration::from_micros(16),
        aggregate: Some((32, 0.01)),
    };
    let told = run_in_turns(client(60, 23), server(), &[way.clone(), way], turns, 24);
    let report = analyse(told.measured, "there").unwrap().report;
    assert!(report.base_rtt_ms.is_none_or(|base| (20.0..22.0).contains(&base)), "{report:?}");
    assert_eq!(report.half_duplex, None);
    for direction in [&report.down, &report.up] {
        assert!(!direction.rate_is_lower_bound, "{direction:?}");
        // A frame delivers 27 packets on average before a damaged one, in 4.1 ms.
        rate_holds(direction, 79e6);
        assert!(is_unknown(direction, Quantity::HalfDuplex), "{direction:?}");
        assert!(direction.behaviour.aggregation.is_some_and(|found| found.packets_mean > 4.0), "{direction:?}");
    }
}

#[test]
fn a_policer_is_told_from_a_queue() {
    for bucket in [15e3, 600e3] {
        let report = both(shaped(100.0, 10, 100, Shape { policer: Some((10e6, bucket)), ..Shape::default() }));
        for direction in [&report.down, &report.up] {
            rate_holds(direction, 10e6);
            let policer = direction.behaviour.policer.unwrap_or_else(|| panic!("{bucket}: {direction:?}"));
            assert!((policer.rate_bps / 10e6 - 1.0).abs() < 0.06, "{policer:?}");
            assert!((policer.line_rate_bps / 100e6 - 1.0).abs() < 0.06, "{policer:?}");
            assert!((policer.burst_bytes as f64 / bucket - 1.0).abs() < 0.15, "{bucket}: {policer:?}");
            assert_eq!(direction.queue, None);
            assert!(is_unknown(direction, Quantity::Queue), "{direction:?}");
            assert!(direction.loss.share.is_none_or(|share| share.interval.unwrap()[0] == 0.0), "{direction:?}");
        }
    }
}

#[test]
fn a_shaper_has_the_rate_that_lasts() {
    let report = both(shaped(50.0, 10, 200, Shape { shaper: Some((8e6, 40e3)), ..Shape::default() }));
    for direction in [&report.down, &report.up] {
        rate_holds(direction, 8e6);
        assert!(direction.behaviour.policer.is_none(), "{direction:?}");
    }
}

#[test]
fn a_rate_that_steps_is_followed() {
    let course = vec![(1.0, 2.0), (0.25, 2.0), (0.6, 2.0), (0.1, 2.0)];
    let report = both(shaped(20.0, 20, 60, Shape { course, ..Shape::default() }));
    for direction in [&report.down, &report.up] {
        let varying = direction.behaviour.varying_rate.as_ref().unwrap_or_else(|| panic!("{direction:?}"));
        assert!((1.7e6..2.6e6).contains(&varying.least_bps) && (18e6..21e6).contains(&varying.most_bps), "{varying:?}");
        let [low, high] = direction.rate_bps.unwrap().interval.unwrap();
        assert!(low <= 2.6e6 && high >= 18e6, "{direction:?}");
        // There are thirty changes in a minute; the probe misses the first and the last.
        assert!((18..60).contains(&varying.series.len()), "{varying:?}");
        assert!(varying.series.windows(2).all(|pair| pair[0].at_s < pair[1].at_s), "{varying:?}");
        assert_eq!(direction.behaviour.other_traffic, None);
        assert!(is_unknown(direction, Quantity::Queue), "{direction:?}");
    }
}

#[test]
fn slots_are_named() {
    for slot in [2e-3, 10e-3] {
        let report = both(shaped(10.0, 20, 60, Shape { slots: Some(slot), ..Shape::default() }));
        for direction in [&report.down, &report.up] {
            let found = direction.behaviour.slots.unwrap_or_else(|| panic!("{direction:?}"));
            assert!((found.interval_ms / slot / 1e3 - 1.0).abs() < 0.01, "{found:?}");
            rate_holds(direction, 10e6);
        }
    }
}

#[test]
fn copies_are_counted() {
    let report = both(shaped(10.0, 20, 60, Shape { duplicates: Some((0.05, 1e-3)), ..Shape::default() }));
    for direction in [&report.down, &report.up] {
        let share = direction.behaviour.duplicates.unwrap().share;
        assert!((share - 0.05).abs() < 0.01, "{share}");
        rate_holds(direction, 10e6);
    }
}

#[test]
fn others_that_come_and_go_are_no_jitter_and_no_change_of_rate() {
    let report = both(shaped(10.0, 20, 60, Shape { others: Some((0.7, 2.0, 2.0)), ..Shape::default() }));
    for direction in [&report.down, &report.up] {
        rate_holds(direction, 10e6);
        let behaviour = &direction.behaviour;
        assert!(behaviour.varying_rate.is_none() && behaviour.jitter.is_none(), "{behaviour:?}");
        // Seven tenths of half the time, on average.
        assert!(behaviour.other_traffic.is_some_and(|others| (0.15..0.6).contains(&others.share)), "{behaviour:?}");
    }
}

/// Over a geostationary satellite, all arrivals are reported before the end: unreported ones would count as lost.
#[test]
fn a_long_way_loses_no_more_than_it_does() {
    let way = Way { delay: Duration::from_millis(310), ..way(50.0, 310, 160, 0.02) };
    let report = both(way);
    for direction in [&report.down, &report.up] {
        let [low, high] = direction.loss.share.unwrap().interval.unwrap();
        assert!(low < 0.023 && high > 0.017, "{:?}", direction.loss);
        rate_holds(direction, 50e6);
    }
}

/// A plain link shows no behaviour and hides no quantity.
#[test]
fn a_plain_link_is_plain() {
    let report = report(&[way(30.0, 25, 80, 0.02), way(5.0, 25, 40, 0.0)]);
    for direction in [&report.down, &report.up] {
        assert_eq!(direction.behaviour, Default::default(), "{direction:?}");
        let load = direction.longest_load.unwrap();
        assert!(load.seconds > 0.3 && load.bytes > 100_000, "{load:?}");
    }
}

#[test]
fn reports_of_earlier_versions_are_read() {
    let report = report(&[way(5.0, 25, 40, 0.0), way(5.0, 25, 40, 0.0)]);
    let mut value = serde_json::to_value(&report).unwrap();
    value.as_object_mut().unwrap().remove("median_rtt_ms");
    for way in ["down", "up"] {
        let direction = value[way].as_object_mut().unwrap();
        assert!(direction.remove("behaviour").is_some() && direction.remove("longest_load").is_some());
    }
    let earlier: Report = serde_json::from_value(value).unwrap();
    assert_eq!(earlier.down.rate_bps, report.down.rate_bps);
    assert_eq!(earlier.up.behaviour, Default::default());
    // A quantity of a later version is not an error.
    let unknown = r#"{ "unknown": [{ "quantity": "of_tomorrow", "reason": "x" }] }"#;
    let read: lasthop_probe::report::BehaviourReport = serde_json::from_str(unknown).unwrap();
    assert_eq!(read.unknown[0].quantity, Quantity::Other);
}
