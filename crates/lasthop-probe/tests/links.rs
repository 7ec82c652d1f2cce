//! Whole measurements over simulated links: the results match the links.

use crate::common::{Told, Turns, Way, client, client_below, run, run_in_turns, run_until, server, way};
use lasthop_probe::Failure;
use lasthop_probe::LADDER;
use lasthop_probe::client::Way as Direction;
use lasthop_probe::estimate::Purpose;
use lasthop_probe::report::{Analysis, Bound, analyse};
use lasthop_proto::time::Duration;

fn found(told: &Told) -> Analysis {
    assert_eq!(told.outcome, Ok(()));
    analyse(told.measured.clone(), "there").unwrap()
}

fn check(ways: &[Way; 2], seconds: u64, seed: u64) {
    let told = run(client(seconds, seed), server(), ways, seed + 100);
    let analysis = found(&told);
    let report = &analysis.report;
    assert_eq!(report.half_duplex, None);
    assert!(report.seconds <= seconds as f64 + 0.5, "{}", report.seconds);
    let delay = ways[0].delay.as_secs_f64() * 1e3;
    assert!((report.one_way_delay_ms.unwrap() - delay).abs() < 1.0, "{ways:?}: {:?}", report.one_way_delay_ms);
    for (at, direction) in [&report.down, &report.up].into_iter().enumerate() {
        let way = &ways[at];
        let told_of = format!("{way:?}: {direction:?}");
        assert!((direction.rate_bps.unwrap().value / way.rate - 1.0).abs() < 0.05, "{told_of}");
        let queue = direction.queue.expect("it was sought");
        assert!(queue.filled && (f64::from(queue.packets) / way.queue as f64 - 1.0).abs() < 0.2, "{told_of}");
        assert_eq!(queue.bound, Bound::Packets, "{told_of}");
        assert!(direction.used_share.unwrap() < 0.2, "{told_of}");
        // The reported volume matches what the link carried, except for the last requests and answers.
        let sent: u64 = told.bytes[at].iter().sum();
        assert!((0.98..=1.0).contains(&(direction.sent_bytes as f64 / sent as f64)), "{sent}: {told_of}");
        assert_eq!((direction.reordered, direction.duplicates), (0, 0), "{told_of}");
        assert_eq!(direction.path_mtu, LADDER.into_iter().max(), "{told_of}");
        let trace = analysis.trace(Direction::BOTH[at]);
        let (trace, _) = lasthop_fit::read::read(&trace).unwrap();
        assert_eq!((trace.packets().len() as u64, trace.lost()), (direction.loss.packets, direction.loss.lost));
    }
}

#[test]
fn a_slow_link_with_a_long_queue() {
    check(&[way(1.0, 100, 200, 0.05), way(1.0, 100, 10, 0.01)], 60, 1);
}

#[test]
fn a_link_with_two_rates() {
    check(&[way(20.0, 20, 50, 0.01), way(5.0, 20, 100, 0.03)], 60, 2);
}

#[test]
fn a_fast_link() {
    check(&[way(100.0, 2, 10, 0.1), way(100.0, 2, 200, 0.001)], 60, 3);
}

#[test]
fn a_short_measurement() {
    check(&[way(10.0, 30, 50, 0.02), way(8.0, 30, 30, 0.02)], 20, 4);
}

/// Five minutes show five times as many losses as one, and narrow the interval accordingly, without using a greater
/// share of the capacity.
#[test]
fn a_long_measurement() {
    let ways = [way(2.0, 20, 30, 0.01), way(2.0, 20, 30, 0.01)];
    check(&ways, 300, 6);
    let width = |seconds| {
        let report = found(&run(client(seconds, 6), server(), &ways, 106)).report;
        let [low, high] = report.down.loss.share.unwrap().interval.expect("it was measured");
        high - low
    };
    let narrower = width(60) / width(300);
    assert!((1.6..3.0).contains(&narrower), "{narrower}");
}

#[test]
fn a_stream_below_the_rate_hardly_ever_fills_a_queue() {
    let told = run(client(60, 5), server(), &[way(1.0, 40, 10, 0.0), way(1.0, 40, 10, 0.0)], 9);
    let report = found(&told).report;
    // Requests and answers of 1,200 bytes may meet a train: fewer than one packet in a thousand, in a queue of ten.
    for loss in [&report.down.loss, &report.up.loss] {
        assert!(loss.lost * 1000 < loss.packets, "{loss:?}");
    }
    assert!(report.down.loss_loaded.lost > 0);
}

/// Below the path's rate trains do not show the transmission time; round-trip time and waiting time are correct
/// nevertheless.
#[test]
fn a_bound_of_the_rate_does_not_falsify_delays() {
    for (mbps, delay, max_rate) in [(4.0, 12, 300_000), (1.0, 40, 500_000), (100.0, 5, 2_000_000)] {
        let way = way(mbps, delay, 50, 0.01);
        let ways = [way.clone(), way];
        let analysis = found(&run(client_below(max_rate, 30, 14), server(), &ways, 15));
        let free = found(&run(client(30, 14), server(), &ways, 15)).report;
        let report = &analysis.report;
        assert!((report.one_way_delay_ms.unwrap() - delay as f64).abs() < 0.3, "{:?}", report.one_way_delay_ms);
        for (direction, free) in [(&report.down, &free.down), (&report.up, &free.up)] {
            assert!(
                direction.rate_is_lower_bound && direction.rate_bps.unwrap().value <= 1.1 * max_rate as f64,
                "{direction:?}"
            );
            assert_eq!(direction.rate_bps.unwrap().interval, None);
            // Packets of the stream wait for those before them in their train, with and without the limit; one packet
            // of difference is allowed.
            let packet = (0.8 / mbps).max(0.5);
            assert!((direction.delay.median_ms - free.delay.median_ms).abs() < packet, "{direction:?}\n{free:?}");
            assert!(direction.delay.p95_ms < free.delay.p95_ms + 0.5, "{direction:?}\n{free:?}");
        }
    }
}

/// Delays from other traffic's backlog are not attributed to the queue: a queue of two packets cannot delay by 70 ms.
#[test]
fn a_queue_that_others_fill_is_not_known() {
    let way = way(8.0, 10, 2, 0.0);
    let mut told = run(client(30, 16), server(), &[way.clone(), way], 17);
    let alone = found(&told).report;
    assert!(alone.remarks.is_empty() && alone.down.queue.is_some_and(|queue| queue.packets == 2), "{alone:?}");
    let delay = |told: &mut Told, purpose: Purpose, seconds: f64| {
        let packets = told.measured.logs[0].packets.iter_mut().filter(|packet| packet.purpose == purpose);
        packets.for_each(|packet| packet.arrived = packet.arrived.map(|at| at + seconds));
    };
    delay(&mut told, Purpose::Stream, 0.012);
    let report = found(&told).report;
    assert!(report.down.queue.is_some(), "{report:?}");
    let said = "down: other traffic on the path, or load on its ends: packets waited for 12";
    assert!(matches!(&report.remarks[..], [remark] if remark.starts_with(said)), "{:?}", report.remarks);
    delay(&mut told, Purpose::Overload, 0.07);
    let report = found(&told).report;
    assert_eq!((report.down.queue, report.up.queue), (None, alone.up.queue));
    let said = "under load, of which a queue of 2 packets explains 4.5 ms";
    assert!(matches!(&report.remarks[..], [remark] if remark.contains(said)), "{:?}", report.remarks);
    told.measured.others = 1;
    assert!(found(&told).report.remarks[0].starts_with("other measurements on the server at the same time: 1;"));
}

/// A slow link's queue is filled with small packets; if it is limited in packets, it holds as many full ones.
#[test]
fn bytes_of_a_queue_are_those_of_full_packets() {
    let way = way(3.0, 10, 30, 0.0);
    let queue = found(&run(client(60, 18), server(), &[way.clone(), way], 19)).report.down.queue.unwrap();
    assert_eq!((queue.packets, queue.bound), (30, Bound::Packets));
    assert_eq!((queue.packet_bytes, queue.bytes), (1500, 45_000));
    assert!((queue.milliseconds - 120.0).abs() < 6.0, "{queue:?}");
}

/// A stopped measurement returns promptly with its results so far, or none if the main part has not begun.
#[test]
fn a_measurement_that_is_stopped_keeps_what_it_has() {
    let ways = [way(10.0, 50, 50, 0.05), way(4.0, 50, 30, 0.02)];
    let stopped = |after| run_until(client(60, 8), server(), &ways, 11, Duration::from_secs(after));
    assert_eq!(stopped(1).outcome, Err(Failure::Stopped));
    for after in [6, 25] {
        let told = stopped(after);
        let report = found(&told).report;
        assert!(
            told.measured.stopped && report.remarks.iter().any(|remark| remark.starts_with("stopped after")),
            "{:?}",
            report.remarks
        );
        assert!(report.seconds >= after as f64 && report.seconds <= after as f64 + 2.5, "{}", report.seconds);
        for (direction, way, loss) in [(&report.down, &ways[0], 0.05), (&report.up, &ways[1], 0.02)] {
            let Some(rate) = direction.rate_bps else {
                // Before the first load there are only a few trains.
                assert!(after < 10 && !direction.behaviour.unknown.is_empty(), "{direction:?}");
                continue;
            };
            assert!((rate.value / way.rate - 1.0).abs() < 0.05, "{direction:?}");
            // Packets in flight at the end do not count as lost.
            let [low, high] = direction.loss.share.unwrap().interval.unwrap();
            assert!((low * 0.9..=high * 1.1).contains(&loss), "after {after} s: {:?}", direction.loss);
            assert!(direction.loss.packets > 40 * after, "{:?}", direction.loss);
        }
    }
}

#[test]
fn the_same_is_found_again() {
    let ways = [way(3.0, 20, 50, 0.01), way(2.0, 20, 100, 0.03)];
    let measure = || found(&run(client(15, 6), server(), &ways, 7)).report;
    assert_eq!(measure(), measure());
}

/// Half-duplex radio: rates, overhead of each frame, and turnaround time.
#[test]
fn ways_that_take_turns_are_seen_to() {
    for (mbps, queue, overhead, turn, delay) in [(20.0, 100, 100, 0, 1), (5.0, 60, 500, 200, 40), (60.0, 20, 50, 10, 5)]
    {
        let way = way(mbps, delay, queue, 0.02);
        let turns = Turns {
            frame_overhead: Duration::from_micros(overhead),
            turnaround: Duration::from_micros(turn),
            aggregate: None,
        };
        let report = found(&run_in_turns(client(60, 12), server(), &[way.clone(), way.clone()], turns, 13)).report;
        let medium = report.half_duplex.unwrap_or_else(|| panic!("{way:?} {turns:?}: not seen"));
        let air = 12e3 / mbps;
        let told = format!("{way:?} {turns:?}: {medium:?}");
        assert!(medium.rate_bps.iter().all(|rate| (rate / way.rate - 1.0).abs() < 0.03), "{told}");
        assert!((medium.frame_overhead_us.unwrap() - overhead as f64).abs() < 0.03 * air, "{told}");
        assert!((medium.turnaround_us - turn as f64).abs() < 0.05 * air, "{told}");
        assert!((report.one_way_delay_ms.unwrap() - delay as f64).abs() < 0.3, "{told}: {:?}", report.one_way_delay_ms);
        for direction in [&report.down, &report.up] {
            // The rate is that of a train in one direction.
            let rate = 12e9 / (air + overhead as f64);
            assert!((direction.rate_bps.unwrap().value / rate - 1.0).abs() < 0.03, "{told}: {:?}", direction.rate_bps);
            assert!((f64::from(direction.queue.unwrap().packets) / queue as f64 - 1.0).abs() < 0.2, "{told}");
            assert!(direction.used_share.unwrap() < 0.2, "{told}");
        }
    }
}
