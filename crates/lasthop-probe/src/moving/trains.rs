//! Trains of packets in a log: rate, delay, losses and interruptions of each.

use crate::estimate::{Log, Packet, Purpose, median, quantile};

/// Party that determined the spacing of a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paced {
    /// Path.
    ByPath,
    /// Sender: the rate is a lower bound.
    BySender,
}

/// Train of packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Train {
    /// Time in seconds of the sender's clock at which the bottleneck began to transmit the train, as far as known.
    pub at: f64,
    /// Rate from the second to the last arrival in bits per second, without an interruption. `None` if too few packets
    /// arrived.
    pub rate: Option<f64>,
    /// Rates of the train's two halves.
    pub halves: Option<[f64; 2]>,
    /// Delay of the first packet above the minimum, in seconds, without its transmission, packets of the probe ahead of
    /// it and an interruption.
    pub delay: Option<f64>,
    /// Size of the packets in bytes, IP header included.
    pub size: u16,
    /// Number of packets sent.
    pub sent: u16,
    /// Number of packets lost.
    pub lost: u16,
    /// Longest time in which the bottleneck transmitted nothing although packets of this train were ready: begin and
    /// end by the sender's clock.
    pub held: Option<[f64; 2]>,
    /// Times between arrivals of successive packets, in seconds.
    pub gaps: Vec<f64>,
    /// Party that determined the spacing.
    pub paced: Paced,
}

/// Minimum number of gaps for a rate.
const LEAST_GAPS: usize = 3;
/// Minimum interruption within a train: in seconds, and in median gaps.
const INTERRUPTED: f64 = 0.03;
const GAPS: f64 = 6.0;
/// Minimum share of the sending rate that makes an arrival rate the sender's.
const SENDERS: f64 = 0.8;
/// Minimum time without transmission that is noted: in seconds, and in transmission times.
const HELD: f64 = 0.01;
const AIRS: f64 = 3.0;

/// Share of trains that seem faster than the fastest: their first packet was transmitted at a higher rate than the rest.
const EARLIEST: f64 = 0.05;

/// Packet of a train that arrived: number within the train, time of sending and of arrival.
#[derive(Clone, Copy)]
struct Arrived {
    number: u16,
    sent: f64,
    at: f64,
}

/// Train in the log, by its first packet's index there.
struct Found<'l> {
    packets: Vec<&'l Packet>,
    arrived: Vec<Arrived>,
    rate: Option<f64>,
    halves: Option<[f64; 2]>,
}

/// Returns a time per packet in seconds over successive arrivals, without interruptions.
fn per_packet(arrived: &[Arrived]) -> Option<f64> {
    let gap = |pair: &[Arrived]| (pair[1].at - pair[0].at, f64::from(pair[1].number - pair[0].number));
    let gaps: Vec<(f64, f64)> = arrived.windows(2).map(gap).collect();
    let middle = median(&mut gaps.iter().map(|(gap, packets)| gap / packets).collect::<Vec<_>>())?;
    let usual = |(gap, packets): &&(f64, f64)| *gap <= INTERRUPTED || gap / packets <= GAPS * middle;
    let (time, packets) =
        gaps.iter().filter(usual).fold((0.0, 0.0), |(time, packets), gap| (time + gap.0, packets + gap.1));
    (time > 0.0).then_some(time / packets)
}

impl<'l> Found<'l> {
    fn of(packets: Vec<&'l Packet>, count: u16) -> Self {
        let arrived = packets.iter().filter_map(|packet| {
            Some(Arrived { number: packet.index % count, sent: packet.sent, at: packet.arrived? })
        });
        let mut arrived: Vec<Arrived> = arrived.collect();
        // Packets in another order say nothing about the spacing of these numbers.
        let mut times: Vec<f64> = arrived.iter().map(|packet| packet.at).collect();
        times.sort_by(f64::total_cmp);
        arrived.iter_mut().zip(times).for_each(|(packet, at)| packet.at = at);
        let bits = packets.first().map_or(0.0, |first| 8.0 * f64::from(first.size));
        // The first packet may have waited, or not, for something ahead of it.
        let later = arrived.get(1..).unwrap_or_default();
        let enough = later.len() > LEAST_GAPS;
        let rate = |arrived: &[Arrived]| per_packet(arrived).map(|time| bits / time);
        let middle = later.len() / 2;
        let halves = || Some([rate(&later[..=middle])?, rate(&later[middle..])?]);
        let halves = if later.len() > 2 * LEAST_GAPS { halves() } else { None };
        let rate = if enough { rate(later) } else { None };
        Self { packets, rate, halves, arrived }
    }

    fn paced(&self) -> Paced {
        let span = |time: fn(&Arrived) -> f64| {
            let later = self.arrived.get(1..).unwrap_or_default();
            later.first().zip(later.last()).map(|(first, last)| time(last) - time(first))
        };
        match (span(|packet| packet.sent), span(|packet| packet.at)) {
            (Some(sent), Some(arrived)) if (SENDERS..1.0 / SENDERS).contains(&(sent / arrived)) => Paced::BySender,
            _ => Paced::ByPath,
        }
    }
}

/// Returns the trains of a log, in which each has `count` packets.
fn found(log: &Log, count: u16) -> Vec<Found<'_>> {
    let count = count.max(1);
    let mut all: Vec<Found<'_>> = Vec::new();
    let mut train: Vec<&Packet> = Vec::new();
    for packet in log.of(Purpose::Train) {
        let key = |packet: &Packet| (packet.order, packet.index / count);
        if train.first().is_some_and(|first| key(first) != key(packet)) {
            all.push(Found::of(std::mem::take(&mut train), count));
        }
        train.push(packet);
    }
    if !train.is_empty() {
        all.push(Found::of(train, count));
    }
    all
}

/// Returns time of sending and rate of each train with a rate; `count` is the number of packets in each.
pub fn train_rates(log: &Log, count: u16) -> Vec<(f64, f64)> {
    found(log, count).iter().filter_map(|train| Some((train.packets.first()?.sent, train.rate?))).collect()
}

/// Returns the trains of a log without clock drift, in which each has `count` packets, and the transit time in seconds
/// of a packet without queueing and transmission, with the offset of the clocks.
pub fn trains(log: &Log, count: u16) -> (Vec<Train>, f64) {
    let found = found(log, count);
    let transit = |train: &Found<'_>| {
        let first = train.arrived.first().filter(|first| first.number == 0)?;
        Some(first.at - first.sent - 8.0 * f64::from(train.packets.first()?.size) / train.rate?)
    };
    let base = quantile(&mut found.iter().filter_map(transit).collect::<Vec<_>>(), EARLIEST).unwrap_or(0.0);
    // Ends of transmission of the probe's packets, by number of sending.
    let mut through = f64::NEG_INFINITY;
    let mut rate = found.iter().find_map(|train| train.rate).unwrap_or(f64::INFINITY);
    let mut all = Vec::new();
    let mut others = log.packets.iter().filter(|packet| packet.purpose != Purpose::Train).peekable();
    for train in &found {
        let Some(first) = train.packets.first() else { continue };
        while let Some(other) = others.next_if(|other| other.sent < first.sent) {
            through = other.arrived.map_or(through, |at| through.max(at - base));
        }
        rate = train.rate.unwrap_or(rate);
        let air = 8.0 * f64::from(first.size) / rate;
        let (mut held, mut delay, mut at): (Option<[f64; 2]>, _, _) = (None, None, first.sent);
        for packet in &train.arrived {
            let (ready, ends) = (packet.sent.max(through), packet.at - base);
            let wait = ends - air - ready;
            let is_first = packet.number == 0;
            let is_longest = held.is_none_or(|[from, until]| wait > until - from);
            if is_first {
                delay = Some(wait.max(0.0));
                at = at.max(ends - air);
            }
            if wait > HELD && wait > AIRS * air && is_longest {
                held = Some([ready, ends - air]);
            }
            through = through.max(ends);
        }
        let interrupted = held.is_some_and(|[from, until]| until - from > INTERRUPTED);
        all.push(Train {
            at,
            rate: train.rate,
            halves: train.halves.filter(|_| !interrupted),
            delay: delay.map(|delay| if interrupted { 0.0 } else { delay }),
            size: first.size,
            sent: train.packets.len() as u16,
            lost: (train.packets.len() - train.arrived.len()) as u16,
            held,
            gaps: train.arrived.windows(2).map(|pair| pair[1].at - pair[0].at).collect(),
            paced: train.paced(),
        });
    }
    (all, base)
}

/// Returns bytes, duration in seconds and rate in bits per second of the arrivals of an overload, without its first
/// tenth. `None` if hardly any packet arrived.
pub fn loaded_rate(packets: &[&Packet]) -> Option<(u64, f64, f64)> {
    let mut arrived: Vec<(f64, u16)> =
        packets.iter().filter_map(|packet| Some((packet.arrived?, packet.size))).collect();
    arrived.sort_by(|one, other| one.0.total_cmp(&other.0));
    let arrived = &arrived[arrived.len() / 10..];
    let (first, last) = (arrived.first()?.0, arrived.last()?.0);
    let bytes: u64 = arrived.iter().skip(1).map(|(_, size)| u64::from(*size)).sum();
    (arrived.len() > 8 && last > first).then(|| (bytes, last - first, 8.0 * bytes as f64 / (last - first)))
}

/// Returns the maximum number of packets of an overload that waited at once, at any rate; `base` is the transit time
/// without queueing and transmission.
pub fn queued(packets: &[&Packet], base: f64) -> usize {
    let through: Vec<(f64, f64)> =
        packets.iter().filter_map(|packet| Some((packet.sent, packet.arrived? - base))).collect();
    let mut left = 0;
    let waiting = |(number, (sent, _)): (usize, &(f64, f64))| {
        while through.get(left).is_some_and(|(_, end)| end <= sent) {
            left += 1;
        }
        // The first one is being transmitted.
        (number - left.min(number)).saturating_sub(1)
    };
    through.iter().enumerate().map(waiting).max().unwrap_or(0)
}
