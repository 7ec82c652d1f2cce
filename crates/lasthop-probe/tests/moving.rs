//! Rates that move, over simulated links: the family that is named, the rates over time, and the recordings.

use lasthop_fit::probe::read;
use lasthop_probe::client::Way as Side;
use lasthop_probe::moving::Family;
use lasthop_probe::report::Recording;
use lasthop_probe::report::moving::{Analysis, analyse};
use lasthop_proto::rate::{
    Offset, RateSeries, RateSlotsSpec, RateSpec, RateStep, Wrap, read_opportunities, read_rates,
};
use lasthop_proto::time::Duration;

use crate::common::shape::Shape;
use crate::common::{Told, Turns, Way, client, client_moving, run, run_in_turns, run_until, server, way};

/// Returns a direction whose rate moves as `spec` says, or has `mbps`.
fn moving(mbps: f64, spec: &RateSpec, seed: u64) -> Way {
    let shape = Shape { rate: Some((spec.clone(), seed)), ..Shape::default() };
    Way { shape, ..way(mbps, 15, 100, 0.0) }
}

fn analysed(told: Told) -> Analysis {
    assert_eq!(told.outcome, Ok(()));
    analyse(told.measured, "simulated").expect("packets arrived")
}

fn measured(ways: &[Way; 2], seconds: u64) -> Analysis {
    analysed(run(client_moving(seconds, 1), server(), ways, 1))
}

fn steps(steps: &[(u64, u64)], length: u64) -> RateSpec {
    let steps = steps.iter().map(|(at, mbps)| RateStep { from: Duration::from_secs(*at), rate: mbps * 1_000_000 });
    let series = RateSeries::new(steps.collect(), Duration::from_secs(length), Wrap::Hold, Offset::At(Duration::ZERO));
    RateSpec::Series(series.unwrap())
}

/// Mean of the rates in a file of rates, in Mbps.
fn mean(trace: &str) -> f64 {
    let trace = read_rates(trace.as_bytes()).unwrap();
    let sum: f64 = trace
        .steps
        .windows(2)
        .map(|pair| pair[0].rate as f64 * pair[1].from.saturating_sub(pair[0].from).as_secs_f64())
        .sum();
    sum / trace.length.as_secs_f64() / 1e6
}

/// Trains use less than an eighth of the capacity until the overloads, and a constant rate is called so.
#[test]
fn a_constant_rate_is_constant_and_trains_are_no_flood() {
    let told = run(client_moving(25, 3), server(), &[way(12.0, 10, 60, 0.01), way(2.0, 10, 60, 0.0)], 3);
    // Seconds 5 to 25: after the search for the rate, before the overloads.
    for (sent, rate) in told.bytes.iter().zip([12e6, 2e6]) {
        let share = 8.0 * sent[5..25].iter().sum::<u64>() as f64 / 20.0 / rate;
        assert!((0.05..0.13).contains(&share), "{share}");
    }
    let analysis = analysed(told);
    let down = analysis.moving[0].as_ref().unwrap();
    assert_eq!((&down.family, down.fits), (&Family::Constant, Some(true)), "{}", down.why);
    assert!((down.mean / 12e6 - 1.0).abs() < 0.01 && down.words() == "12 Mbps, constant", "{}", down.words());
    // Up, 25 s have less than 100 trains.
    let up = analysis.report.up.moving.as_ref().unwrap();
    assert!(up.family == "unknown" && up.summary.contains("too short to say"), "{}", up.summary);
    // An overload of a second fills the queue, and shows the same rate.
    let report = analysis.report.down;
    let loads = &report.moving.unwrap().overloads;
    assert!(loads.len() == 2 && loads.iter().all(|load| (load.rate_bps / 12e6 - 1.0).abs() < 0.02), "{loads:?}");
    let queue = report.queue.unwrap();
    assert!(queue.filled && queue.packets.abs_diff(60) <= 2, "{queue:?}");
    assert!((report.loss.share.unwrap().value - 0.01).abs() < 0.006);
}

/// Levels and times of steps; the files that a scenario, mahimahi and LeoReplayer read contain the same capacity.
#[test]
fn steps_are_followed_and_recorded() {
    let ways = [moving(20.0, &steps(&[(0, 20), (25, 6)], 60), 1), moving(8.0, &steps(&[(0, 8)], 60), 1)];
    let analysis = measured(&ways, 40);
    let down = analysis.moving[0].as_ref().unwrap();
    let Family::Steps(levels) = &down.family else { panic!("{:?}: {}", down.family, down.why) };
    let [first, second] = levels[..] else { panic!("{levels:?}") };
    assert!((first.rate / 20e6 - 1.0).abs() < 0.03 && (second.rate / 6e6 - 1.0).abs() < 0.03, "{levels:?}");
    // The trains begin about 3 s after the link.
    let began = 25.0 - second.at;
    assert!((1.5..4.0).contains(&began), "{levels:?}");
    assert_eq!(analysis.moving[1].as_ref().unwrap().family, Family::Constant);

    let rates = analysis.rates(Side::Down);
    let expected = (20.0 * second.at + 6.0 * (analysis.seconds - second.at)) / analysis.seconds;
    assert!((mean(&rates) / expected - 1.0).abs() < 0.02, "{} {expected}", mean(&rates));
    let trace = analysis.trace();
    let mut lines = trace.lines();
    assert_eq!(lines.next(), Some("t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,delay_up_ms,loss_down,loss_up"));
    let rows: Vec<Vec<f64>> = lines.map(|line| line.split(',').map(|field| field.parse().unwrap()).collect()).collect();
    assert!(rows[0][0] == 0.0 && rows.windows(2).all(|pair| pair[1][0] > pair[0][0]));
    assert!(rows.iter().all(|row| row.len() == 7 && (row[3] - 15.0).abs() < 1.0 && (row[4] - 15.0).abs() < 1.0));
    let files = analysis.recording(Recording::LeoReplayer);
    assert_eq!(
        files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["down.leoreplayer", "up.leoreplayer", "delay.leoreplayer"]
    );
    assert_eq!(
        files[..2],
        analysis
            .recording(Recording::Mahimahi)
            .into_iter()
            .map(|(name, text)| (name.replace("mahimahi", "leoreplayer"), text))
            .collect::<Vec<_>>()
    );
    // An opportunity carries 1,500 bytes; the trace lasts until the last one.
    let times = read_opportunities(files[0].1.as_bytes()).unwrap();
    let carried = times.len() as f64 * 12e3 / (f64::from(*times.last().unwrap()) / 1e3) / 1e6;
    assert!((carried / expected - 1.0).abs() < 0.02, "{carried} {expected}");
    assert!(files[2].1.lines().all(|line| line == "15") && files[2].1.lines().count() > 3900);

    let json = serde_json::to_string(&analysis.report).unwrap();
    let link = read(&json).unwrap();
    let key = link.link.keys.iter().find(|key| key.key == "rate_variation_down").unwrap();
    assert!(key.value.contains("model = \"steps\"") && key.value.contains("offset = \"random\""), "{}", key.value);
    let [other] = &link.found[0].alternatives[..] else { panic!("{:?}", link.found[0]) };
    assert!(other.value.contains("file = \"down-rate.csv\""), "{}", other.value);
    assert!(link.found[1].alternatives.is_empty() && link.rate_traces[1].as_deref() == Some("up-rate.csv"));
}

/// Slots with a pause of 0.1 s at each boundary, as Starlink has; a trace without arrivals has rate zero there.
#[test]
fn slots_are_named_and_pauses_are_seen() {
    let slots = RateSpec::Slots(RateSlotsSpec {
        mean: 30_000_000,
        period: Duration::from_secs(15),
        first: Duration::from_secs(7),
        spread: 0.2,
        inner: 0.1,
        outage: [130, 135].map(Duration::from_millis),
        recovery: Duration::from_millis(350),
        edge_loss: 0.0,
    });
    let analysis = measured(&[moving(30.0, &slots, 5), moving(30.0, &slots, 6)], 60);
    for found in analysis.moving.iter().flatten() {
        let Family::Slots(slots) = &found.family else { panic!("{}: {}", found.family.name(), found.why) };
        // Boundaries at 7 s and so on; the trains begin some 3 s after the link.
        assert!((3.0..5.5).contains(&slots.first), "{}", slots.first);
        assert!(found.words().contains("; changes each 15 s"), "{}", found.words());
        assert!(found.outages.iter().all(|outage| outage.lasts() < 0.16), "{:?}", found.outages);
    }
    assert!(analysis.moving.iter().flatten().any(|found| found.outages.len() > 1));
    let rates = [Side::Down, Side::Up].map(|side| analysis.rates(side));
    assert!(rates.iter().any(|rates| rates.contains(",0.000000,")));
}

/// A link layer that sends aggregates delivers a train at once, which is not its rate.
#[test]
fn aggregates_are_not_taken_for_the_rate() {
    let ways = [way(40.0, 10, 200, 0.0), way(40.0, 10, 200, 0.0)];
    let turns = Turns {
        frame_overhead: Duration::from_micros(200),
        turnaround: Duration::from_micros(10),
        aggregate: Some((20, 0.0)),
    };
    let analysis = analysed(run_in_turns(client_moving(25, 1), server(), &ways, turns, 1));
    for found in analysis.moving.iter().flatten() {
        assert_eq!(found.family.name(), "wifi", "{}", found.why);
        assert!((0.85..1.0).contains(&(found.mean / 40e6)), "{}", found.mean);
        assert_eq!(found.fits, None);
    }
    let link = read(&serde_json::to_string(&analysis.report).unwrap()).unwrap();
    assert!(link.link.keys.is_empty(), "{:?}", link.link.keys);
    assert_eq!(link.found[0].rate.verdict, lasthop_fit::statement::Verdict::Unknown);
}

/// Stopped early, the trains so far are reported; other measurements are not analysed as moving ones.
#[test]
fn a_stopped_measurement_keeps_its_trains() {
    let ways = [way(10.0, 10, 60, 0.0), way(10.0, 10, 60, 0.0)];
    let told = run_until(client_moving(60, 1), server(), &ways, 1, Duration::from_secs(12));
    let spent = told.bytes[0].len();
    let analysis = analysed(told);
    assert!(spent < 18, "{spent}");
    let down = analysis.moving[0].as_ref().unwrap();
    assert!((30..60).contains(&down.trains), "{}", down.trains);
    assert!(analysis.report.remarks.iter().any(|remark| remark.contains("stopped after")));
    let told = run(client(10, 1), server(), &ways, 1);
    assert!(analyse(told.measured, "simulated").is_none());
}
