//! Results of a measurement that follows rates that move: the report, and the trains over time.

use serde::{Deserialize, Serialize};

use super::behaviour::{BehaviourReport, Jitter, Quantity, RateStep, Unknown, VaryingRate};
use super::{
    Bound, DelayReport, DirectionReport, Estimate, LoadReport, QueueReport, Report, VERSION, loss_of, milliseconds,
};
use crate::client::{Measured, Way};
use crate::estimate::{Log, Packet, Purpose, drift, quantile, runs};
use crate::moving::{Family, Moving, Train, loaded_rate, queued, recognise, trains};
use crate::order::LADDER;

/// Minimum 95th percentile of the delays that is reported as jitter, in seconds.
const JITTER: f64 = 1e-3;

/// Rate over time of one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct MovingReport {
    /// Description in one line.
    pub summary: String,
    /// Family: `constant`, `slots`, `wifi`, `cell`, `steps`, `markov`, `replay`, `unknown`.
    pub family: String,
    /// Evidence for the family, or the reason why it is unknown.
    pub why: String,
    /// True if the family reproduces the measured rates; null if undecided.
    pub fits: Option<bool>,
    /// Mean rate in bits per second.
    pub mean_bps: f64,
    /// 5th and 95th percentile of the trains' rates in bits per second.
    pub range_bps: [f64; 2],
    /// Mean time between changes in seconds.
    pub changes_s: Option<f64>,
    /// Times without arrivals: begin and end in seconds.
    pub outages_s: Vec<[f64; 2]>,
    /// Number of trains with a rate, and of packets in each.
    pub trains: usize,
    /// Number of packets in a train.
    pub train_packets: u16,
    /// Overloads of a second.
    pub overloads: Vec<LoadReport>,
    /// Transmission time interval of a cell in milliseconds.
    #[serde(default)]
    pub interval_ms: Option<f64>,
    /// Levels of steps.
    #[serde(default)]
    pub steps: Vec<RateStep>,
    /// Parameters of slots.
    #[serde(default)]
    pub slots: Option<SlotsReport>,
    /// States of a Markov chain.
    #[serde(default)]
    pub states: Vec<StateReport>,
    /// Duration of the trace in seconds.
    pub seconds: f64,
    /// Name of the file with the rate over time.
    pub trace: String,
}

/// Slots with a rate each.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct SlotsReport {
    /// Interval between boundaries in seconds.
    pub period_s: f64,
    /// Time of the first boundary in seconds.
    pub first_s: f64,
    /// Mean rate away from boundaries in bits per second.
    pub mean_bps: f64,
    /// Standard deviation of the logarithm of the slots' rates.
    pub spread: f64,
    /// Standard deviation of the logarithm of the rate within a slot.
    pub inner: f64,
    /// Minimum and maximum time without transmission at a boundary in milliseconds.
    pub outage_ms: [f64; 2],
    /// False if `outage_ms` is an assumption.
    pub outage_seen: bool,
    /// Number of slots that were seen.
    pub slots: usize,
}

/// State of a Markov chain.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct StateReport {
    /// Rate in bits per second.
    pub rate_bps: f64,
    /// Mean holding time in seconds.
    pub mean_s: f64,
    /// Probabilities of the next state.
    pub next: Vec<f64>,
}

/// Rate, delay and loss of one direction from a time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Time in seconds on the common clock of both directions.
    pub at: f64,
    /// Rate in bits per second; 0 while nothing arrived.
    pub rate: f64,
    /// One-way delay in seconds, without transmission.
    pub delay: f64,
    /// Share of lost packets.
    pub loss: f64,
}

/// Report, with the trains over time.
pub struct Analysis {
    /// Report.
    pub report: Report,
    /// Rate over time: down, up; `None` if no train has a rate.
    pub moving: [Option<Moving>; 2],
    /// Rate, delay and loss over time: down, up.
    pub points: [Vec<Point>; 2],
    /// End of the last point in seconds.
    pub seconds: f64,
    /// Packets of both directions, without clock drift.
    logs: [Log; 2],
}

/// Analyses a measurement. `None` if nothing arrived in one direction, or if it did not follow the rate.
pub fn analyse(measured: Measured, server: &str) -> Option<Analysis> {
    let Measured { logs, round_trips, ping, overruns, others, seconds, trains: counts, stopped, settled, .. } =
        measured;
    let counts = counts?;
    if logs.iter().any(|log| !log.packets.iter().any(|packet| packet.arrived.is_some())) {
        return None;
    }
    let drifts = logs.each_ref().map(|log| drift(log, f64::INFINITY));
    // Both directions see the same drift with opposite signs.
    let both = (drifts[0] - drifts[1]) / 2.0;
    let mut signs = [both, -both].into_iter();
    let logs = logs.map(|log| log.without_drift(signs.next().unwrap_or(0.0)));
    let found = [0, 1].map(|at| trains(&logs[at], counts[at]));
    let rates = found.each_ref().map(|(trains, _)| fastest(trains));
    let mut trips = round_trips;
    let least = trips.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
    let pinged: f64 = rates.iter().map(|rate| 8.0 * f64::from(ping) / rate).sum();
    let base = (least - pinged).max(0.0);
    // The clocks differ by what the packets downwards seem to take beyond half of the round trip.
    let offsets = [found[0].1 - base / 2.0, 0.0];
    let [down, up] = found;
    let bases = [down.1, up.1];
    let mut trains = [down.0, up.0];
    let first = |at: usize| trains[at].first().map_or(f64::INFINITY, |train| train.at + offsets[at]);
    let origin = first(0).min(first(1));
    for (trains, offset) in trains.iter_mut().zip(offsets) {
        for train in trains {
            train.at += offset - origin;
            train.held = train.held.map(|held| held.map(|at| at + offset - origin));
        }
    }
    let last = trains.iter().flatten().map(|train| train.at).fold(0.0, f64::max);
    let end = last + crate::moving::SHORTEST;
    let loads = logs.each_ref().map(|log| {
        let rates = log.trains(Purpose::Overload).into_iter().filter_map(|packets| loaded_rate(&packets));
        rates.map(|(_, _, rate)| rate).collect::<Vec<f64>>()
    });
    let moving = [0, 1].map(|at| recognise(&trains[at], &loads[at]));
    let points = [0, 1].map(|at| points(&trains[at], moving[at].as_ref(), base / 2.0));
    let mut remarks = Vec::new();
    if others > 0 {
        remarks.push(format!(
            "other measurements on the server at the same time: {others}; where they share the path, they affect rates, delays and losses"
        ));
    }
    if stopped {
        remarks.push(format!("stopped after {seconds:.0} s; the results cover that time only"));
    }
    let direction = |way: Way| {
        let at = way as usize;
        let side = Side {
            count: counts[at],
            base: bases[at],
            settled: settled[at],
            dropped: overruns[at],
            drift: [both, -both][at],
            seconds: end,
        };
        direction(way, &logs[at], (&trains[at], &points[at]), moving[at].as_ref(), side)
    };
    let report = Report {
        lasthop_probe: VERSION,
        server: server.to_owned(),
        seconds: (seconds * 100.0).round() / 100.0,
        base_rtt_ms: Some(milliseconds(base)),
        least_rtt_ms: milliseconds(least),
        median_rtt_ms: quantile(&mut trips, 0.5).map(milliseconds),
        p95_rtt_ms: milliseconds(quantile(&mut trips, 0.95).unwrap_or(0.0)),
        one_way_delay_ms: Some(milliseconds(base / 2.0)),
        half_duplex: None,
        down: direction(Way::Down),
        up: direction(Way::Up),
        remarks,
    };
    Some(Analysis { report, moving, points, seconds: end, logs })
}

/// Returns the maximum rate of the trains, without the fastest twentieth.
fn fastest(trains: &[Train]) -> f64 {
    let mut rates: Vec<f64> = trains.iter().filter_map(|train| train.rate).collect();
    quantile(&mut rates, 0.95).unwrap_or(f64::INFINITY)
}

/// Returns rate, delay and loss over time. Times within outages have rate 0; their delay is that of a packet otherwise.
fn points(trains: &[Train], moving: Option<&Moving>, one_way: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut push = |point: Point| {
        if points.last().is_none_or(|last| point.at - last.at > 1e-6) {
            points.push(point);
        }
    };
    let outages = moving.map(|moving| moving.outages.as_slice()).unwrap_or_default();
    let Some(mut rate) = trains.iter().find_map(|train| train.rate) else { return Vec::new() };
    let mut delay = one_way;
    for train in trains {
        rate = train.rate.unwrap_or(rate);
        if let Some(moving) = moving.filter(|moving| moving.by_loads) {
            rate = moving.mean;
        }
        delay = train.delay.map_or(delay, |delay| one_way + delay);
        let loss = f64::from(train.lost) / f64::from(train.sent.max(1));
        let here = |at: f64, rate: f64| Point { at, rate, delay, loss };
        let [from, until] = train.held.unwrap_or([f64::INFINITY; 2]);
        let outage = outages.iter().find(|outage| (outage.from..outage.until).contains(&(0.5 * (from + until))));
        match outage {
            // The train began before it.
            Some(outage) if train.at < outage.from => {
                push(here(train.at, rate));
                push(here(outage.from, 0.0));
                push(here(outage.until, rate));
            }
            Some(outage) => {
                push(here(outage.from, 0.0));
                push(here(outage.until.max(train.at), rate));
            }
            None if outages.iter().any(|outage| (outage.from..outage.until).contains(&train.at)) => {
                push(here(train.at, 0.0))
            }
            None => push(here(train.at, rate)),
        }
    }
    if let Some(first) = points.first_mut() {
        // Both directions begin at the common origin.
        first.at = 0.0;
    }
    points
}

struct Side {
    count: u16,
    base: f64,
    settled: f64,
    dropped: u32,
    drift: f64,
    seconds: f64,
}

fn direction(
    way: Way,
    log: &Log,
    (trains, points): (&[Train], &[Point]),
    moving: Option<&Moving>,
    side: Side,
) -> DirectionReport {
    let packets: Vec<&Packet> = log.of(Purpose::Train).collect();
    let lost: Vec<bool> = packets.iter().map(|packet| packet.arrived.is_none()).collect();
    let overloads = log.trains(Purpose::Overload);
    let loads: Vec<LoadReport> = overloads
        .iter()
        .filter_map(|packets| loaded_rate(packets))
        .map(|(bytes, seconds, rate)| LoadReport { bytes, seconds, rate_bps: rate.round() })
        .collect();
    let mut delays: Vec<f64> = trains.iter().filter_map(|train| train.delay).collect();
    let [median, p95, p99] = [0.5, 0.95, 0.99].map(|share| quantile(&mut delays, share).unwrap_or(0.0));
    let loaded: Vec<&Packet> = log.of(Purpose::Overload).collect();
    let mut waits: Vec<f64> =
        loaded.iter().filter_map(|packet| Some((packet.arrived? - packet.sent - side.base).max(0.0))).collect();
    let unloaded = DelayReport {
        median_ms: milliseconds(median),
        p95_ms: milliseconds(p95),
        p99_ms: milliseconds(p99),
        loaded_p95_ms: quantile(&mut waits, 0.95).map(milliseconds),
        loaded_most_ms: quantile(&mut waits, 1.0).map(milliseconds),
    };
    let ladder = |arrived: bool| {
        log.of(Purpose::Ladder).filter(move |packet| packet.arrived.is_some() == arrived).map(|packet| packet.size)
    };
    let path_mtu = ladder(true).max();
    let last = packets.iter().map(|packet| packet.sent).fold(side.settled, f64::max);
    let used = log.packets.iter().filter(|packet| packet.sent > side.settled && packet.sent <= last);
    let used = used.map(|packet| u64::from(packet.size)).sum::<u64>() as f64 * 8.0;
    let mut behaviour = BehaviourReport::default();
    if p95 > JITTER {
        behaviour.jitter =
            Some(Jitter { p50_ms: milliseconds(median), p95_ms: milliseconds(p95), p99_ms: milliseconds(p99) });
    }
    if let Some(moving) =
        moving.filter(|moving| moving.family != Family::Constant && !moving.by_loads && !moving.by_sender)
    {
        let step = |point: &Point| RateStep { at_s: seconds(point.at), rate_bps: point.rate.round() };
        let [least_bps, most_bps] = moving.range.map(f64::round);
        behaviour.varying_rate = Some(VaryingRate { least_bps, most_bps, series: points.iter().map(step).collect() });
        if moving.family == Family::Unknown {
            behaviour.unknown.push(Unknown { quantity: Quantity::VaryingRate, reason: moving.why.clone() });
        }
    } else if moving.is_none() {
        behaviour
            .unknown
            .push(Unknown { quantity: Quantity::Rate, reason: "too few packets of the trains arrived".to_owned() });
    }
    let estimate = |moving: &Moving| Estimate { value: moving.mean.round(), interval: Some(moving.range) };
    DirectionReport {
        rate_bps: moving.map(estimate),
        rate_is_lower_bound: moving.is_some_and(|moving| moving.by_sender),
        delay: unloaded,
        longest_load: loads.first().copied(),
        queue: queue(&overloads, side.base, moving),
        loss: loss_of(&packets),
        loss_loaded: loss_of(&loaded),
        runs: runs(&lost).into(),
        reordered: log.reordered().into(),
        duplicates: log.duplicates.into(),
        behaviour,
        sizes: Vec::new(),
        code_points: Vec::new(),
        path_mtu,
        too_big: LADDER.into_iter().find(|size| path_mtu.is_some_and(|mtu| *size > mtu)),
        sent_bytes: log.packets.iter().map(|packet| u64::from(packet.size)).sum(),
        used_share: moving
            .map(|moving| if last > side.settled { used / (last - side.settled) / moving.mean } else { 0.0 }),
        receiver_dropped: side.dropped,
        clock_drift_ppm: (side.drift * 1e7).round() / 10.0,
        trace: format!("{way}.csv"),
        moving: moving.map(|moving| report(way, moving, loads, &side)),
    }
}

/// Returns the queue that the overloads show, in packets.
fn queue(overloads: &[Vec<&Packet>], base: f64, moving: Option<&Moving>) -> Option<QueueReport> {
    let size = overloads.first()?.first()?.size;
    let packets = overloads.iter().map(|packets| queued(packets, base)).max()?;
    // Losses at random do not fill a queue: most of a full queue's losses follow the first one.
    let filled = overloads.iter().any(|packets| {
        let lost = packets.iter().filter(|packet| packet.arrived.is_none()).count();
        20 * lost > packets.len()
    });
    let bytes = packets as u64 * u64::from(size);
    let rate = moving?.mean;
    Some(QueueReport {
        packets: packets as u32,
        bytes,
        milliseconds: milliseconds(8.0 * bytes as f64 / rate),
        packet_bytes: size,
        filled,
        bound: Bound::Unknown,
    })
}

/// Rounds seconds to microseconds.
fn seconds(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Rounds to six digits after the point.
fn share(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn report(way: Way, moving: &Moving, overloads: Vec<LoadReport>, side: &Side) -> MovingReport {
    let mut report = MovingReport {
        summary: moving.words(),
        family: moving.family.name().to_owned(),
        why: moving.why.clone(),
        fits: moving.fits,
        mean_bps: moving.mean.round(),
        range_bps: moving.range.map(f64::round),
        changes_s: moving.changes.map(seconds),
        outages_s: moving.outages.iter().map(|outage| [seconds(outage.from), seconds(outage.until)]).collect(),
        trains: moving.trains,
        train_packets: side.count,
        overloads,
        interval_ms: None,
        steps: Vec::new(),
        slots: None,
        states: Vec::new(),
        seconds: seconds(side.seconds),
        trace: format!("{way}-rate.csv"),
    };
    match &moving.family {
        Family::Steps(levels) => {
            let step =
                |level: &crate::moving::Level| RateStep { at_s: seconds(level.at), rate_bps: level.rate.round() };
            report.steps = levels.iter().map(step).collect();
        }
        Family::Slots(found) => {
            report.slots = Some(SlotsReport {
                period_s: found.period,
                first_s: seconds(found.first),
                mean_bps: found.mean.round(),
                spread: share(found.spread),
                inner: share(found.inner),
                outage_ms: found.outage.map(milliseconds),
                outage_seen: found.outage_seen,
                slots: found.slots,
            });
        }
        Family::Markov(chain) => {
            let state = |state: &crate::moving::State| StateReport {
                rate_bps: state.rate.round(),
                mean_s: seconds(state.mean),
                next: state.next.iter().map(|next| share(*next)).collect(),
            };
            report.states = chain.states.iter().map(state).collect();
        }
        Family::Cell(interval) => report.interval_ms = Some(milliseconds(*interval)),
        Family::Constant | Family::Aggregates(_) | Family::Replay | Family::Unknown => {}
    }
    report
}

impl Analysis {
    /// Returns the trains' packets of one direction, as `lasthop fit` reads them: send time in seconds from the first,
    /// size in bytes with the IP header, 1 if lost, and the delay above the minimum in milliseconds.
    pub fn packets(&self, way: Way) -> String {
        let log = &self.logs[way as usize];
        let origin = log.of(Purpose::Train).next().map_or(0.0, |packet| packet.sent);
        let base = log.of(Purpose::Train).filter_map(|packet| Some(packet.arrived? - packet.sent));
        let base = base.min_by(f64::total_cmp).unwrap_or(0.0);
        let mut text = String::from("sent_s,bytes,lost,delay_ms,dscp\n");
        for packet in log.of(Purpose::Train) {
            let delay = packet.arrived.map(|arrived| format!("{:.3}", (arrived - packet.sent - base) * 1e3));
            let (sent, lost) = ((packet.sent - origin).max(0.0), u8::from(packet.arrived.is_none()));
            text += &format!("{sent:.7},{},{lost},{},{}\n", packet.size, delay.unwrap_or_default(), packet.dscp[0]);
        }
        text
    }
}
