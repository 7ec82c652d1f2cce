//! What a measurement comes to, for people and programs.

pub mod behaviour;
mod form;

use std::collections::BTreeMap;

pub use behaviour::BehaviourReport;
pub use form::{
    Bound, ClassReport, DelayReport, DirectionReport, Estimate, LoadReport, LossReport, MediumReport, QueueReport,
    Report, RunReport,
};

use crate::client::{Measured, Way};
use crate::estimate::{
    Capacity, Delays, HalfDuplex, Known, Log, Overload, Packet, Purpose, QueueFound, QueueLimit, air_rate, capacity,
    delays, drift, half_duplex, losses, quantile, queue, queue_kind, runs,
};
use crate::order::LADDER;

/// The form's version.
const VERSION: u32 = 1;
/// Points of a picture of delays.
const POINTS: usize = 400;
/// A queue that explains less than this part of what packets waited under load, and so many seconds less, is none: somebody else's packets waited as well.
const EXPLAINED: f64 = 1.0 / 3.0;
const UNEXPLAINED: f64 = 0.01;

/// A report with what pictures and traces are made of.
pub struct Analysis {
    /// The numbers.
    pub report: Report,
    /// The packets of both directions, without the clocks' drift: down, up.
    pub logs: [Log; 2],
    delays: [Option<Delays>; 2],
    /// Bits a second at which packets are on the air.
    air: [f64; 2],
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

/// Makes numbers of what was measured. `None` where a direction has no rate.
pub fn analyse(measured: Measured, server: &str) -> Option<Analysis> {
    let rates = [capacity(&measured.logs[0])?, capacity(&measured.logs[1])?];
    let Measured { logs, round_trips, ping, limits, overruns, others, seconds, settled, stopped } = measured;
    let limited = [0, 1].map(|at| rates[at].rate > 0.9 * limits[at]);
    let bounds = [0, 1].map(|at| limited[at] || rates[at].by_sender);
    // How long packets are on the air is not known then: the smallest ones tell of the clocks.
    let mut drifts = [0, 1].map(|at| drift(&logs[at], if bounds[at] { f64::INFINITY } else { rates[at].rate }));
    // What one clock gains the other loses; both ways see the same drift.
    let both = (drifts[0] - drifts[1]) / 2.0;
    drifts = [both, -both];
    let mut index = 0;
    let logs = logs.map(|log| {
        let log = log.without_drift(drifts[index]);
        index += 1;
        log
    });
    let air = [0, 1].map(|at| if bounds[at] { air_rate(&logs[at], rates[at].rate) } else { rates[at].rate });
    let delays = [0, 1].map(|at| delays(&logs[at], air[at]));
    let mut trips = round_trips;
    let least = quantile(&mut trips, 0.0).unwrap_or(0.0);
    let p95 = quantile(&mut trips, 0.95).unwrap_or(0.0);
    let half_duplex = half_duplex([&logs[0], &logs[1]], rates);
    let on_air = half_duplex.map_or(air, |medium| medium.rates);
    let overhead = half_duplex.and_then(|medium| medium.frame_overhead).unwrap_or(0.0);
    let pinged: f64 = on_air.iter().map(|rate| 8.0 * f64::from(ping) / rate + overhead).sum();
    let base = (least - pinged).max(0.0);
    let mut remarks = Vec::new();
    if others > 0 {
        remarks.push(format!(
            "the other end measured with {others} more meanwhile: where they share the path, rates, waiting and losses are theirs as well"
        ));
    }
    if stopped {
        remarks.push(format!("stopped after {seconds:.0} s: what was measured until then"));
    }
    let direction = |at: usize, remarks: &mut Vec<String>| {
        let (limited, bound) = (limited[at], bounds[at]);
        let side = Side { rate: rates[at], limited, bound, air: air[at], delays: delays[at], settled: settled[at] };
        direction(Way::BOTH[at], &logs[at], side, overruns[at], drifts[at], remarks)
    };
    let (down, up) = (direction(0, &mut remarks), direction(1, &mut remarks));
    let report = Report {
        lasthop_probe: VERSION,
        server: server.to_owned(),
        seconds: (seconds * 100.0).round() / 100.0,
        base_rtt_ms: Some(milliseconds(base)),
        least_rtt_ms: milliseconds(least),
        median_rtt_ms: quantile(&mut trips, 0.5).map(milliseconds),
        p95_rtt_ms: milliseconds(p95),
        one_way_delay_ms: Some(milliseconds(base / 2.0)),
        half_duplex: half_duplex.map(MediumReport::from),
        down,
        up,
        remarks,
    };
    Some(Analysis { report, logs, delays, air })
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
    rate: Capacity,
    limited: bool,
    bound: bool,
    air: f64,
    delays: Option<Delays>,
    settled: f64,
}

fn direction(
    way: Way,
    log: &Log,
    side: Side,
    receiver_dropped: u32,
    drift: f64,
    remarks: &mut Vec<String>,
) -> DirectionReport {
    let Side { rate, limited, bound, air, delays, settled } = side;
    let unloaded = log.unloaded();
    let loss = loss_of(&unloaded);
    let loaded: Vec<&Packet> = log.of(Purpose::Overload).collect();
    let lost: Vec<bool> = unloaded.iter().map(|packet| packet.arrived.is_none()).collect();
    let runs = runs(&lost);
    let mut lengths = BTreeMap::new();
    for run in &runs.lengths {
        *lengths.entry(*run).or_insert(0) += 1;
    }
    let base = delays.map_or(0.0, |delays| delays.base);
    let known = Known { rate: air, base, loss: loss.share.map_or(0.0, |share| share.value) };
    let filling = if bound {
        let base = self::delays(log, rate.rate).map_or(0.0, |delays| delays.base);
        Known { rate: rate.rate, base, ..known }
    } else {
        known
    };
    // How far the found rate may be off says nothing of how far the path's may be.
    let interval = (!bound).then(|| rate.interval.map(f64::round));
    if limited {
        remarks.push(format!("{way}: --max-rate bounds what was found; the rate may be greater"));
    } else if rate.by_sender {
        remarks.push(format!("{way}: trains came as fast as they were sent; the rate may be greater"));
    }
    if receiver_dropped > 0 {
        remarks.push(format!("{way}: the receiver's kernel dropped {receiver_dropped} datagrams, which look lost"));
    }
    let delay = |pick: fn(&Delays) -> f64| milliseconds(delays.as_ref().map_or(0.0, pick).max(0.0));
    let delay = DelayReport {
        median_ms: delay(|delays| delays.median),
        p95_ms: delay(|delays| delays.p95),
        p99_ms: delay(|delays| delays.p99),
        loaded_p95_ms: delays.and_then(|delays| delays.loaded_p95).map(milliseconds),
        loaded_most_ms: delays.and_then(|delays| delays.loaded_most).map(milliseconds),
    };
    let queue = queue_of(log, filling).filter(|queue| {
        let doubt = delays.and_then(|delays| doubt(queue, &delays));
        remarks.extend(doubt.as_ref().map(|doubt| format!("{way}: others used the path or its ends: {}", doubt.words)));
        doubt.is_none_or(|doubt| doubt.queue_stands)
    });
    let last = log.packets.iter().map(|packet| packet.sent).fold(settled, f64::max);
    let later = log.packets.iter().filter(|packet| packet.sent > settled);
    let used = later.map(|packet| u64::from(packet.size)).sum::<u64>() as f64 * 8.0;
    let ladder = |arrived: bool| {
        log.of(Purpose::Ladder).filter(move |packet| packet.arrived.is_some() == arrived).map(|packet| packet.size)
    };
    let path_mtu = ladder(true).max();
    DirectionReport {
        rate_bps: Some(Estimate { value: rate.rate.round(), interval }),
        rate_is_lower_bound: bound,
        delay,
        longest_load: None,
        queue: queue.map(|queue| queue.report),
        loss,
        loss_loaded: loss_of(&loaded),
        runs: RunReport {
            runs: runs.lengths.len() as u64,
            mean: Estimate { value: runs.mean, interval: runs.interval },
            longest: runs.lengths.iter().copied().max().unwrap_or(0),
            lengths,
        },
        reordered: log.reordered().into(),
        duplicates: log.duplicates.into(),
        behaviour: BehaviourReport::default(),
        sizes: classes(&unloaded, known, |packet| (packet.purpose == Purpose::Stream).then_some(packet.size)),
        code_points: classes(&unloaded, known, |packet| Some(packet.dscp[0].into())),
        path_mtu,
        too_big: LADDER.into_iter().find(|size| path_mtu.is_some_and(|mtu| *size > mtu)),
        sent_bytes: log.packets.iter().map(|packet| u64::from(packet.size)).sum(),
        used_share: Some(if last > settled { used / (last - settled) / rate.rate } else { 0.0 }),
        receiver_dropped,
        clock_drift_ppm: (drift * 1e7).round() / 10.0,
        trace: format!("{way}.csv"),
    }
}

/// A queue, and how long it lets those packets wait that filled it, in seconds.
struct Queue {
    report: QueueReport,
    waits: f64,
}

/// Why a queue may be another one.
struct Doubt {
    words: String,
    queue_stands: bool,
}

/// What packets waited beyond what the probe's own explain.
fn doubt(queue: &Queue, delays: &Delays) -> Option<Doubt> {
    let ms = |seconds: f64| (seconds * 1e4).round() / 10.0;
    let loaded = delays.loaded_p95.unwrap_or(0.0);
    let Queue { report: QueueReport { packets, .. }, waits } = queue;
    if *waits < EXPLAINED * loaded && *waits < loaded - UNEXPLAINED {
        let words = format!(
            "packets waited for {} ms under load, of which a queue of {packets} explains {} ms; how long it is, is not known",
            ms(loaded),
            ms(*waits)
        );
        return Some(Doubt { words, queue_stands: false });
    }
    // The queue was hardly ever empty.
    (delays.median > UNEXPLAINED && delays.median > EXPLAINED * waits).then(|| Doubt {
        words: format!("packets waited for {} ms without load; losses and queue may be theirs", ms(delays.median)),
        queue_stands: true,
    })
}

/// The queue, from overloads with packets of one size or of two.
fn queue_of(log: &Log, known: Known) -> Option<Queue> {
    let trains = log.trains(Purpose::Overload);
    let usual = trains.first()?.first()?.size;
    let other = trains.iter().map(|train| train[0].size).find(|size| *size != usual);
    let found = queue(log, usual, known)?;
    let second = other.and_then(|size| queue(log, size, known));
    let (QueueFound { packets, size }, filled, bound) = match (found, second) {
        (Overload::Filled(one), Some(Overload::Filled(two))) => (one, true, queue_kind(one, two)),
        // As many small ones did not fill it: their bytes count.
        (Overload::Filled(one), Some(Overload::Holds(two))) if two.packets > one.packets + one.packets / 6 => {
            (one, true, QueueLimit::Bytes)
        }
        (Overload::Filled(one), _) => (one, true, QueueLimit::Unknown),
        (Overload::Holds(one), _) => (one, false, QueueLimit::Unknown),
    };
    let waits = 8.0 * f64::from(packets + 1) * f64::from(size) / known.rate;
    let full = log.of(Purpose::Capacity).map(|packet| packet.size).max().unwrap_or(size);
    let size = if bound == QueueLimit::Packets { full } else { size };
    let bytes = u64::from(packets) * u64::from(size);
    let report = QueueReport {
        packets,
        bytes,
        milliseconds: milliseconds(8.0 * bytes as f64 / known.rate),
        packet_bytes: size,
        filled,
        bound: match bound {
            QueueLimit::Packets => Bound::Packets,
            QueueLimit::Bytes => Bound::Bytes,
            QueueLimit::Unknown => Bound::Unknown,
        },
    };
    Some(Queue { report, waits })
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
    /// The packets of one direction below its rate, one a line, as `lasthop fit` reads them: when each was sent, in seconds from the first, its
    /// bytes with the IP header, whether it was lost, and of those that arrived the delay beyond the least, in milliseconds.
    pub fn trace(&self, way: Way) -> String {
        let log = &self.logs[way as usize];
        let packets = log.unloaded();
        let origin = packets.first().map_or(0.0, |packet| packet.sent);
        let mut text = String::from("sent_s,bytes,lost,delay_ms,dscp\n");
        for packet in packets {
            let delay = self.delay(way, packet).map(|delay| format!("{:.3}", delay * 1e3)).unwrap_or_default();
            let lost = u8::from(packet.arrived.is_none());
            let sent = (packet.sent - origin).max(0.0);
            text += &format!("{sent:.7},{},{lost},{delay},{}\n", packet.size, packet.dscp[0]);
        }
        text
    }

    /// How long a packet took beyond the least, in seconds.
    fn delay(&self, way: Way, packet: &Packet) -> Option<f64> {
        let base = self.delays[way as usize]?.base;
        let air = 8.0 * f64::from(packet.size) / self.air[way as usize];
        Some((packet.arrived? - packet.sent - air - base).max(0.0))
    }

    /// Losses of each second below the rate: when it begins, and the share in percent. Seconds with fewer than ten packets are left out.
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

    /// Delay against load: of the packets of overloads, the kilobytes of their train that went before, and the delay beyond the least in
    /// milliseconds; at most some hundred points.
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
