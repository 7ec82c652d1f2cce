//! The results of a measurement, for people and programs.

pub mod behaviour;
mod findings;
mod form;
pub mod moving;
mod queues;
mod record;

use std::collections::BTreeMap;

pub use behaviour::BehaviourReport;
use behaviour::{HalfDuplexMedium, Quantity};
use findings::{Findings, findings};
pub use record::Recording;

pub use form::{
    Bound, ClassReport, DelayReport, DirectionReport, Estimate, LoadReport, LossReport, MediumReport, QueueReport,
    Report, RunReport,
};

use crate::client::{Measured, Way};
use crate::estimate::{
    Delays, Edge, HalfDuplex, Known, Log, Packet, Purpose, air_rate, capacity, delays_beyond, drift, edge, half_duplex,
    losses, quantile, runs,
};
use crate::order::LADDER;

/// Version of the report format.
const VERSION: u32 = 1;
/// Maximum time of a ping on the air, in seconds, for a base delay to be stated although the rate is unknown.
const VAGUE_AIR: f64 = 0.5e-3;
/// Maximum number of points in a plot of delays.
const POINTS: usize = 400;

/// Report, with the data for plots and traces.
pub struct Analysis {
    /// Report.
    pub report: Report,
    /// Packets of both directions, without clock drift: down, up.
    pub logs: [Log; 2],
    delays: [Option<Delays>; 2],
    /// Transmission rate of packets in bits per second.
    air: [f64; 2],
    /// Periods in which losses may be due to the probe's own packets.
    excluded: [Vec<[f64; 2]>; 2],
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e3
}

fn loss_of(packets: &[&Packet]) -> LossReport {
    let lost: Vec<bool> = packets.iter().map(|packet| packet.arrived.is_none()).collect();
    let found = losses(&lost);
    let share = Estimate { value: found.share, interval: Some(found.interval) };
    LossReport { packets: found.packets, lost: found.lost, share: Some(share) }
}

/// Analyses a measurement. `None` if nothing arrived in one direction.
pub fn analyse(measured: Measured, server: &str) -> Option<Analysis> {
    let Measured { logs, round_trips, ping, limits, overruns, others, seconds, settled, stopped, .. } = measured;
    if logs.iter().any(|log| !log.packets.iter().any(|packet| packet.arrived.is_some())) {
        return None;
    }
    let rates = logs.each_ref().map(|log| capacity(log).map_or(f64::INFINITY, |found| found.rate));
    let limited = [0, 1].map(|at| rates[at] > 0.9 * limits[at]);
    // Under a limit the transmission time is unknown; the smallest packets then show the drift.
    let mut drifts = [0, 1].map(|at| drift(&logs[at], if limited[at] { f64::INFINITY } else { rates[at] }));
    // Both directions see the same drift with opposite signs.
    let both = (drifts[0] - drifts[1]) / 2.0;
    drifts = [both, -both];
    let mut index = 0;
    let logs = logs.map(|log| {
        let log = log.without_drift(drifts[index]);
        index += 1;
        log
    });
    // On a shared medium, a load has less than a train during which the other direction is silent.
    let shared = match logs.each_ref().map(capacity) {
        [Some(down), Some(up)] => half_duplex([&logs[0], &logs[1]], [down, up]).is_some(),
        _ => false,
    };
    let mut found = [0, 1].map(|at| findings([&logs[at], &logs[1 - at]], limits[at], shared));
    let air = [0, 1].map(|at| match &found[at] {
        Findings { lower_bound: true, rate: Some(rate), .. } => air_rate(&logs[at], rate.value),
        found => found.air,
    });
    // Packets that skip the common delay must not define the minimum.
    let edges = [0, 1].map(|at| edge(&logs[at], air[at], found[at].overtaken.as_ref(), found[at].noisy));
    let delays = [0, 1].map(|at| {
        let least = edges[at].filter(|edge| edge.sharp && found[at].overtaken.is_some()).map(|edge| edge.least);
        delays_beyond(&logs[at], air[at], least)
    });
    let half_duplex = medium(&logs, &mut found);
    let (least, base) = base(edges, &mut found, air, half_duplex, &round_trips, ping);
    let mut trips = round_trips;
    let p95 = quantile(&mut trips, 0.95).unwrap_or(0.0);
    let mut remarks = Vec::new();
    if others > 0 {
        remarks.push(format!(
            "other measurements on the server at the same time: {others}; where they share the path, they affect rates, delays and losses"
        ));
    }
    if stopped {
        remarks.push(format!("stopped after {seconds:.0} s; the results cover that time only"));
    }
    let excluded = found.each_ref().map(|found| found.excluded.clone());
    let mut at = 0;
    let [down, up] = found.map(|found| {
        let side =
            Side { air: air[at], delays: delays[at], settled: settled[at], dropped: overruns[at], drift: drifts[at] };
        let report = direction(Way::BOTH[at], &logs[at], side, found, &mut remarks);
        at += 1;
        report
    });
    let mut report = Report {
        lasthop_probe: VERSION,
        server: server.to_owned(),
        seconds: (seconds * 100.0).round() / 100.0,
        base_rtt_ms: base.map(milliseconds),
        least_rtt_ms: milliseconds(least),
        median_rtt_ms: quantile(&mut trips, 0.5).map(milliseconds),
        p95_rtt_ms: milliseconds(p95),
        one_way_delay_ms: base.map(|base| milliseconds(base / 2.0)),
        half_duplex: half_duplex.map(MediumReport::from),
        down,
        up,
        remarks,
    };
    if let Some(medium) = report.half_duplex {
        let MediumReport { rate_bps, frame_overhead_us, turnaround_us } = medium;
        let part = |at: usize| Some(HalfDuplexMedium { rate_bps: rate_bps[at], frame_overhead_us, turnaround_us });
        (report.down.behaviour.half_duplex, report.up.behaviour.half_duplex) = (part(0), part(1));
    }
    Some(Analysis { report, logs, delays, air, excluded })
}

/// Returns the shared half-duplex medium, if both directions are such that simultaneous trains show it.
fn medium(logs: &[Log; 2], found: &mut [Findings; 2]) -> Option<HalfDuplex> {
    if let (true, [Some(down), Some(up)]) =
        (found.iter().all(|found| found.steady), found.each_ref().map(|found| found.short))
    {
        return half_duplex([&logs[0], &logs[1]], [down, up]);
    }
    for found in found {
        found.unknown(
            Quantity::HalfDuplex,
            "simultaneous trains in both directions show it only if packets arrive evenly and at one rate",
        );
    }
    None
}

/// Returns the minimum round-trip time of a ping in seconds, and the round-trip time without transmission times if
/// delays have a clear minimum.
fn base(
    edges: [Option<Edge>; 2],
    found: &mut [Findings; 2],
    air: [f64; 2],
    half_duplex: Option<HalfDuplex>,
    round_trips: &[f64],
    ping: u16,
) -> (f64, Option<f64>) {
    let least = round_trips.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
    let on_air = half_duplex.map_or(air, |medium| medium.rates);
    let overhead = half_duplex.and_then(|medium| medium.frame_overhead).unwrap_or(0.0);
    let pinged: f64 = on_air.iter().map(|rate| 8.0 * f64::from(ping) / rate + overhead).sum();
    if round_trips.is_empty() {
        found.iter_mut().for_each(|found| found.unknown(Quantity::BaseDelay, "no ping was answered"));
        return (0.0, None);
    }
    if found.iter().any(|found| found.rate.is_none()) && pinged > VAGUE_AIR {
        let reason = "the rate is unknown, and thus the transmission time";
        found.iter_mut().for_each(|found| found.unknown(Quantity::BaseDelay, reason));
        return (least, None);
    }
    // On a shared medium packets wait for those of the other direction; the fastest ping did not.
    let waits = half_duplex.is_some();
    let blurred = [0, 1].map(|at| !waits && edges[at].is_some_and(|edge| !edge.sharp));
    if blurred[0] || blurred[1] {
        let way = match blurred {
            [true, true] => "in both directions",
            [true, false] => "on the downlink",
            _ => "on the uplink",
        };
        let reason = format!(
            "delays {way} vary without a clear minimum; the round-trip time was at least {} ms, with a median of {} ms",
            milliseconds(least),
            milliseconds(quantile(&mut round_trips.to_vec(), 0.5).unwrap_or(0.0))
        );
        found.iter_mut().for_each(|found| found.unknown(Quantity::BaseDelay, reason.clone()));
        return (least, None);
    }
    let pings = (least - pinged).max(0.0);
    let reorders = found.iter().any(|found| found.overtaken.is_some());
    match edges {
        // A packet that skips the delay of all others, as with netem's `reorder`, says nothing about that delay.
        [Some(down), Some(up)] if reorders => (least, Some((down.least + up.least).max(pings))),
        _ => (least, Some(pings)),
    }
}

impl From<HalfDuplex> for MediumReport {
    fn from(HalfDuplex { rates, frame_overhead, turnaround }: HalfDuplex) -> Self {
        let microseconds = |seconds: f64| (seconds * 1e7).round() / 10.0;
        Self {
            rate_bps: rates.map(f64::round),
            frame_overhead_us: frame_overhead.map(microseconds),
            turnaround_us: microseconds(turnaround),
        }
    }
}

struct Side {
    air: f64,
    delays: Option<Delays>,
    settled: f64,
    dropped: u32,
    drift: f64,
}

fn direction(way: Way, log: &Log, side: Side, mut found: Findings, remarks: &mut Vec<String>) -> DirectionReport {
    let Side { air, delays, settled, dropped: receiver_dropped, drift } = side;
    let unloaded: Vec<&Packet> = log.unloaded().into_iter().filter(|packet| found.counts(packet)).collect();
    let loss = loss_of(&unloaded);
    let loaded: Vec<&Packet> = log.of(Purpose::Overload).collect();
    let lost: Vec<bool> = unloaded.iter().map(|packet| packet.arrived.is_none()).collect();
    let base = delays.map_or(0.0, |delays| delays.base);
    let known = Known { rate: air, base, loss: loss.share.map_or(0.0, |share| share.value) };
    if found.limited {
        remarks.push(format!("{way}: the rate found is limited by --max-rate; the path's rate may be higher"));
    } else if found.lower_bound {
        remarks.push(format!("{way}: trains arrived as fast as they were sent; the path's rate may be higher"));
    }
    if receiver_dropped > 0 {
        remarks.push(format!("{way}: the receiver's kernel dropped {receiver_dropped} datagrams, which count as lost"));
    }
    let delay = |pick: fn(&Delays) -> f64| milliseconds(delays.as_ref().map_or(0.0, pick).max(0.0));
    let delay = DelayReport {
        median_ms: delay(|delays| delays.median),
        p95_ms: delay(|delays| delays.p95),
        p99_ms: delay(|delays| delays.p99),
        loaded_p95_ms: delays.and_then(|delays| delays.loaded_p95).map(milliseconds),
        loaded_most_ms: delays.and_then(|delays| delays.loaded_most).map(milliseconds),
    };
    let queue = queues::queue(way, log, known, delays, &mut found, remarks);
    let last = log.packets.iter().map(|packet| packet.sent).fold(settled, f64::max);
    let later = log.packets.iter().filter(|packet| packet.sent > settled);
    let used = later.map(|packet| u64::from(packet.size)).sum::<u64>() as f64 * 8.0;
    let ladder = |arrived: bool| {
        log.of(Purpose::Ladder).filter(move |packet| packet.arrived.is_some() == arrived).map(|packet| packet.size)
    };
    let path_mtu = ladder(true).max();
    let hidden = found.behaviour.unknown.iter().any(|unknown| unknown.quantity == Quantity::Loss);
    let shown = |loss: LossReport| if hidden { LossReport { share: None, ..loss } } else { loss };
    DirectionReport {
        rate_bps: found.rate,
        rate_is_lower_bound: found.lower_bound,
        delay,
        longest_load: found.longest,
        queue,
        loss: shown(loss),
        loss_loaded: loss_of(&loaded),
        runs: runs(&lost).into(),
        reordered: log.reordered().into(),
        duplicates: log.duplicates.into(),
        behaviour: found.behaviour,
        sizes: classes(&unloaded, known, |packet| (packet.purpose == Purpose::Stream).then_some(packet.size)),
        code_points: classes(&unloaded, known, |packet| Some(packet.dscp[0].into())),
        path_mtu,
        too_big: LADDER.into_iter().find(|size| path_mtu.is_some_and(|mtu| *size > mtu)),
        sent_bytes: log.packets.iter().map(|packet| u64::from(packet.size)).sum(),
        used_share: found.rate.map(|rate| if last > settled { used / (last - settled) / rate.value } else { 0.0 }),
        receiver_dropped,
        clock_drift_ppm: (drift * 1e7).round() / 10.0,
        trace: format!("{way}.csv"),
        moving: None,
    }
}

fn classes(packets: &[&Packet], known: Known, class: impl Fn(&Packet) -> Option<u16>) -> Vec<ClassReport> {
    let mut by_class: BTreeMap<u16, Vec<&Packet>> = BTreeMap::new();
    for packet in packets {
        if let Some(class) = class(packet) {
            by_class.entry(class).or_default().push(packet);
        }
    }
    let report = |(class, packets): (u16, Vec<&Packet>)| {
        let mut seen: BTreeMap<u8, u32> = BTreeMap::new();
        let mut delays = Vec::new();
        for packet in &packets {
            if let Some(arrived) = packet.arrived {
                *seen.entry(packet.dscp[1]).or_insert(0) += 1;
                delays.push(arrived - packet.sent - 8.0 * f64::from(packet.size) / known.rate - known.base);
            }
        }
        ClassReport {
            class,
            arrives_as: seen.into_iter().max_by_key(|(_, count)| *count).map(|(dscp, _)| dscp),
            loss: loss_of(&packets),
            median_ms: quantile(&mut delays, 0.5).map(|delay| milliseconds(delay.max(0.0))),
        }
    };
    by_class.into_iter().map(report).collect()
}

impl Analysis {
    /// Returns the packets of one direction below its rate, one per line, as `lasthop fit` reads them: send time in
    /// seconds from the first, size in bytes with the IP header, 1 if lost, the delay above the minimum in milliseconds
    /// (empty if lost), and the DSCP.
    pub fn trace(&self, way: Way) -> String {
        let log = &self.logs[way as usize];
        let mut packets = log.unloaded();
        let origin = packets.first().map_or(0.0, |packet| packet.sent);
        let excluded = &self.excluded[way as usize];
        packets.retain(|packet| !excluded.iter().any(|[from, to]| (*from..*to).contains(&packet.sent)));
        let mut text = String::from("sent_s,bytes,lost,delay_ms,dscp\n");
        for packet in packets {
            let delay = self.delay(way, packet).map(|delay| format!("{:.3}", delay * 1e3)).unwrap_or_default();
            let lost = u8::from(packet.arrived.is_none());
            let sent = (packet.sent - origin).max(0.0);
            text += &format!("{sent:.7},{},{lost},{delay},{}\n", packet.size, packet.dscp[0]);
        }
        text
    }

    /// Returns the delay of a packet above the minimum, in seconds.
    fn delay(&self, way: Way, packet: &Packet) -> Option<f64> {
        let base = self.delays[way as usize]?.base;
        let air = 8.0 * f64::from(packet.size) / self.air[way as usize];
        Some((packet.arrived? - packet.sent - air - base).max(0.0))
    }

    /// Returns the loss below the rate per second of the measurement: start in seconds, and loss in percent. Seconds
    /// with fewer than ten packets are omitted.
    pub fn loss_by_second(&self, way: Way) -> Vec<(f64, f64)> {
        let packets = self.logs[way as usize].unloaded();
        let origin = packets.first().map_or(0.0, |packet| packet.sent);
        let mut seconds: BTreeMap<u64, [u32; 2]> = BTreeMap::new();
        for packet in packets {
            let counts = seconds.entry((packet.sent - origin).max(0.0) as u64).or_default();
            counts[0] += 1;
            counts[1] += u32::from(packet.arrived.is_none());
        }
        let enough = seconds.into_iter().filter(|(_, [all, _])| *all >= 10);
        enough.map(|(second, [all, lost])| (second as f64, 100.0 * f64::from(lost) / f64::from(all))).collect()
    }

    /// Returns delay against load for packets of overloads: kilobytes of their train that preceded them, and delay
    /// above the minimum in milliseconds. At most some hundred points.
    pub fn delay_by_load(&self, way: Way) -> Vec<(f64, f64)> {
        let log = &self.logs[way as usize];
        let mut points: Vec<(f64, f64)> = log
            .of(Purpose::Overload)
            .filter_map(|packet| {
                let before = f64::from(packet.index) * f64::from(packet.size) / 1e3;
                Some((before, self.delay(way, packet)? * 1e3))
            })
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let every = points.len().div_ceil(POINTS).max(1);
        points.into_iter().step_by(every).collect()
    }
}
