//! The rate that lasts, from loads of many packets: trains that fill queues, and paced ones.

use super::{Log, Packet, Purpose, median};

/// Fewest arrivals of a load that tell a rate.
const FEWEST: usize = 24;
/// Packets of a load that is long enough to empty a token bucket.
pub const LONG: usize = 32;
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
    /// Arrivals that would say as much if each had noise of its own.
    pub independent: f64,
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
        let residual = |rank: usize| arrived[rank] - mean - slope * (rank as f64 - middle);
        let squares: f64 = (0..count).map(|rank| residual(rank) * residual(rank)).sum();
        let neighbours: f64 = (1..count).map(|rank| residual(rank) * residual(rank - 1)).sum();
        let noise = libm::sqrt(squares / (count - 2) as f64);
        // Packets that are held up together say as much as fewer that are held up each by itself.
        let alike = (neighbours / squares.max(1e-30)).clamp(0.0, 0.98);
        let independent = (count as f64 * (1.0 - alike) / (1.0 + alike)).max(2.0);
        let bits = 8.0 * packets.iter().map(|packet| f64::from(packet.size)).sum::<f64>() / packets.len() as f64;
        (slope > 0.0).then(|| Self { rate: bits / slope, noise, count, independent, lasts: slope * (count - 1) as f64 })
    }

    /// Relative standard error.
    pub fn error(&self) -> f64 {
        self.noise * libm::sqrt(12.0 / self.independent) / self.lasts.max(1e-9)
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

    /// Bits per second at which it was sent.
    pub fn pace(&self) -> f64 {
        8.0 * f64::from(self.size()) / gap(&self.packets).max(1e-9)
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
    all.extend(paced(log, Purpose::Load));
    all.sort_by(|one, other| one.packets[0].sent.total_cmp(&other.packets[0].sent));
    all
}

/// The paced loads for `purpose`, each of orders that follow each other.
fn paced(log: &Log, purpose: Purpose) -> Vec<Stretch<'_>> {
    let (mut all, mut load): (Vec<Stretch<'_>>, Vec<&Packet>) = (Vec::new(), Vec::new());
    for packet in log.of(purpose) {
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

/// Seconds over which a load shows a rate: bursts are shorter.
const WINDOW: f64 = 8e-3;

/// The greatest rate at which packets arrive over [`WINDOW`] or more, in bits per second, of a load that lasts as long.
fn greatest(packets: &[&Packet]) -> Option<f64> {
    let mut times: Vec<f64> = packets.iter().filter_map(|packet| packet.arrived).collect();
    times.sort_by(f64::total_cmp);
    let bits = 8.0 * f64::from(packets.first()?.size);
    let (mut from, mut most) = (0, None);
    for to in 1..times.len() {
        while from + 1 < to && times[to] - times[from + 1] >= WINDOW {
            from += 1;
        }
        let lasts = times[to] - times[from];
        if lasts >= WINDOW {
            most = most.max_of(bits * (to - from) as f64 / lasts);
        }
    }
    most
}

trait MaxOf {
    fn max_of(self, other: f64) -> Self;
}

impl MaxOf for Option<f64> {
    fn max_of(self, other: f64) -> Self {
        Some(self.map_or(other, |most| most.max(other)))
    }
}

/// What to plan for, in bits per second, where `short` is what short trains say: no more than loads got while they lasted. `None` where nothing arrived.
pub fn planned(log: &Log, short: Option<f64>) -> Option<f64> {
    let loads = stretches(log);
    // The later half of a paced load shows what is left when buckets are empty; trains that came at once, and checks, what there is before.
    let halves = loads.iter().filter(|load| load.paced).map(|load| &load.packets[load.packets.len() / 2..]);
    let lasting = halves.filter_map(greatest).min_by(f64::total_cmp).or_else(|| {
        let checked = paced(log, Purpose::Check);
        let mut rates: Vec<f64> = loads.iter().chain(&checked).filter_map(|load| greatest(&load.packets)).collect();
        median(&mut rates)
    });
    let whole = |packets: &Vec<&Packet>| {
        let mut times: Vec<f64> = packets.iter().filter_map(|packet| packet.arrived).collect();
        times.sort_by(f64::total_cmp);
        let lasts = times.last()? - times.first()?;
        (lasts > 0.0).then(|| 8.0 * f64::from(packets[0].size) * (times.len() - 1) as f64 / lasts)
    };
    let mut trains: Vec<f64> = log.trains(Purpose::Capacity).iter().filter_map(whole).collect();
    match (short.or_else(|| median(&mut trains)), lasting) {
        (Some(short), Some(lasting)) => Some(if lasting < 0.7 * short { lasting } else { short }),
        (short, lasting) => short.or(lasting),
    }
}

/// Parts of a load's later half.
const PARTS: usize = 6;
/// Arrivals of each, on average.
const PER_PART: usize = 12;

/// The rate at which the later half of a paced load arrived, over that at which it was sent or could be at `line` bits per second, whichever is less. Of parts of the time
/// the second best counts: losses that come together strike some, and what queues and buckets hold back is missing from all. `None` where too little arrived.
pub fn kept(load: &Stretch<'_>, line: f64, loss: f64) -> Option<f64> {
    let half = &load.packets[load.packets.len() / 2..];
    let mut times: Vec<f64> = half.iter().filter_map(|packet| packet.arrived).collect();
    times.sort_by(f64::total_cmp);
    let parts = (times.len() / PER_PART).clamp(1, PARTS);
    if times.len() < FEWEST / 2 {
        return None;
    }
    let sent = (8.0 * f64::from(load.size()) / gap(half).max(1e-9)).min(line);
    let (first, span) = (times[0], times[times.len() - 1] - times[0]);
    let mut counts = vec![0.0_f64; parts];
    for at in &times[1..] {
        let part = ((at - first) / span.max(1e-9) * parts as f64) as usize;
        counts[part.min(parts - 1)] += 1.0;
    }
    counts.sort_by(|one, other| other.total_cmp(one));
    let best = counts[1.min(parts - 1)];
    let rate = 8.0 * f64::from(load.size()) * best * parts as f64 / span.max(1e-9);
    Some(rate / (1.0 - loss).max(0.5) / sent)
}

/// The least of what paced loads kept, of those that are long enough.
pub fn kept_up(loads: &[Stretch<'_>], line: f64, loss: f64) -> Option<f64> {
    let long = loads.iter().filter(|load| load.paced && load.packets.len() >= LONG);
    long.filter_map(|load| kept(load, line, loss)).min_by(f64::total_cmp)
}
