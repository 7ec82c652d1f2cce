//! The rate that lasts, from loads of many packets: trains that fill queues, and paced ones.

use super::{Log, Packet, Purpose, median};

/// Fewest arrivals of a load that tell a rate.
const FEWEST: usize = 24;
/// Seconds without a packet that part two loads.
const APART: f64 = 0.05;

/// A load: packets in a row, in order of sending.
#[derive(Clone, Debug)]
pub struct Stretch<'l> {
    /// The packets.
    pub packets: Vec<&'l Packet>,
    /// Whether they were paced below the path's rate.
    pub paced: bool,
}

/// Arrival over rank: how long the link takes for each packet that arrives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    /// Bits per second that arrive.
    pub rate: f64,
    /// Standard deviation of the arrivals around the line, in seconds.
    pub noise: f64,
    /// Arrivals.
    pub count: usize,
    /// Seconds from the first to the last, by the line.
    pub lasts: f64,
}

impl Slope {
    /// Least squares of the time of arrival over the rank in order of sending: noise of single packets does not bias it, whatever order they arrive in.
    pub fn of(packets: &[&Packet]) -> Option<Self> {
        let arrived: Vec<f64> = packets.iter().filter_map(|packet| packet.arrived).collect();
        let count = arrived.len();
        if count < 3 {
            return None;
        }
        let mean = arrived.iter().sum::<f64>() / count as f64;
        let middle = (count - 1) as f64 / 2.0;
        let (mut xx, mut xy) = (0.0, 0.0);
        for (rank, at) in arrived.iter().enumerate() {
            let x = rank as f64 - middle;
            xx += x * x;
            xy += x * (at - mean);
        }
        let slope = xy / xx;
        let residuals = arrived.iter().enumerate().map(|(rank, at)| at - mean - slope * (rank as f64 - middle));
        let noise = libm::sqrt(residuals.map(|residual| residual * residual).sum::<f64>() / (count - 2) as f64);
        let bits = 8.0 * packets.iter().map(|packet| f64::from(packet.size)).sum::<f64>() / packets.len() as f64;
        (slope > 0.0).then(|| Self { rate: bits / slope, noise, count, lasts: slope * (count - 1) as f64 })
    }

    /// Relative standard error, if the noise of each packet is its own.
    pub fn error(&self) -> f64 {
        self.noise * libm::sqrt(12.0 / self.count as f64) / self.lasts.max(1e-9)
    }
}

impl<'l> Stretch<'l> {
    /// Arrivals over rank of the whole load.
    pub fn slope(&self) -> Option<Slope> {
        Slope::of(&self.packets).filter(|slope| slope.count >= FEWEST)
    }

    /// Times of arrival, in order.
    pub fn arrivals(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.packets.iter().filter_map(|packet| packet.arrived).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Bytes of each packet.
    pub fn size(&self) -> u16 {
        self.packets[0].size
    }

    /// Seconds from the first sending to the last.
    pub fn sending(&self) -> f64 {
        self.packets[self.packets.len() - 1].sent - self.packets[0].sent
    }
}

/// The loads of a direction: overloads, and paced loads, whose orders follow each other.
pub fn stretches(log: &Log) -> Vec<Stretch<'_>> {
    let mut all: Vec<Stretch<'_>> =
        log.trains(Purpose::Overload).into_iter().map(|packets| Stretch { packets, paced: false }).collect();
    let mut load: Vec<&Packet> = Vec::new();
    for packet in log.of(Purpose::Load) {
        if load
            .last()
            .is_some_and(|last| packet.sent - last.sent > APART + 20.0 * gap(&load) || packet.size != last.size)
        {
            all.push(Stretch { packets: std::mem::take(&mut load), paced: true });
        }
        load.push(packet);
    }
    if !load.is_empty() {
        all.push(Stretch { packets: load, paced: true });
    }
    all.sort_by(|one, other| one.packets[0].sent.total_cmp(&other.packets[0].sent));
    all
}

/// Mean seconds between two packets as they were sent.
fn gap(packets: &[&Packet]) -> f64 {
    match packets {
        [first, .., last] => (last.sent - first.sent) / (packets.len() - 1) as f64,
        _ => 0.0,
    }
}

/// The rate of all slopes, weighted by how well each is known: bits per second, and its relative standard error, which holds how far they differ.
pub fn combined(slopes: &[Slope]) -> Option<(f64, f64)> {
    // In seconds a bit, whose errors are symmetric.
    let of = |slope: &Slope| (1.0 / slope.rate, (slope.error().max(0.002) / slope.rate));
    let weights: Vec<(f64, f64)> = slopes.iter().map(of).map(|(value, error)| (value, 1.0 / (error * error))).collect();
    let total = weights.iter().map(|(_, weight)| weight).sum::<f64>();
    if total <= 0.0 {
        return None;
    }
    let mean = weights.iter().map(|(value, weight)| value * weight).sum::<f64>() / total;
    let excess = weights.iter().map(|(value, weight)| weight * (value - mean) * (value - mean)).sum::<f64>();
    let freedom = (weights.len() as f64 - 1.0).max(1.0);
    let error = libm::sqrt((excess / freedom).max(1.0) / total);
    Some((1.0 / mean, error / mean))
}

/// What to plan for, in bits per second, where `short` is what short trains say: no more than loads and trains got on the whole. `None` where nothing arrived.
pub fn planned(log: &Log, short: Option<f64>) -> Option<f64> {
    let whole = |packets: &[&Packet], fewest: usize| {
        let mut times: Vec<f64> = packets.iter().filter_map(|packet| packet.arrived).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len();
        let lasts = times.last()? - times.first()?;
        let bits = 8.0 * f64::from(packets[0].size) * (count - 1) as f64;
        (count >= fewest && lasts > 0.0).then(|| bits / lasts)
    };
    // The later half of a load shows what is left when buckets are empty.
    let halves = stretches(log).into_iter().filter_map(|stretch| {
        let half = stretch.packets.len() / 2;
        // A queue that is full of earlier packets goes on delivering when no more are sent.
        let rate = whole(&stretch.packets[half..], 8)?;
        Some(if stretch.paced { rate } else { rate.max(whole(&stretch.packets, 8)?) })
    });
    let mut halves: Vec<f64> = halves.collect();
    let lasting = if halves.len() > 2 { median(&mut halves) } else { halves.into_iter().min_by(f64::total_cmp) };
    let mut trains: Vec<f64> = log.trains(Purpose::Capacity).iter().filter_map(|train| whole(train, 3)).collect();
    let short = short.or_else(|| median(&mut trains));
    match (short, lasting) {
        (Some(short), Some(lasting)) => Some(if lasting < 0.7 * short { lasting } else { short }),
        (short, lasting) => short.or(lasting),
    }
}
