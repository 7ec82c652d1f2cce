//! The sustained rate, from loads of many packets: trains that fill queues, and paced loads.

use super::{Log, Packet, Purpose, median};

/// Minimum number of arrivals in a load.
const FEWEST: usize = 24;
/// Minimum number of packets in a load that is long enough to empty a token bucket.
pub const LONG: usize = 32;
/// Minimum gap between two loads, in seconds.
const APART: f64 = 0.05;

/// Load: consecutive packets, in order of sending.
#[derive(Clone, Debug)]
pub struct Stretch<'l> {
    /// Packets of the load.
    pub packets: Vec<&'l Packet>,
    /// True if they were paced below the path's rate.
    pub paced: bool,
}

/// Regression of arrival time over rank: the link's time per packet that arrives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    /// Arrival rate in bits per second.
    pub rate: f64,
    /// Standard deviation of arrivals from the line, in seconds.
    pub noise: f64,
    /// Number of arrivals.
    pub count: usize,
    /// Effective number of arrivals, if the noise of each were independent.
    pub independent: f64,
    /// Time from the first to the last arrival on the line, in seconds.
    pub lasts: f64,
}

impl Slope {
    /// Fits arrival time over rank in order of sending by least squares. Noise of single packets does not bias it, nor
    /// does reordering.
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
        // Packets that are delayed together are correlated, and count as fewer independent ones.
        let alike = (neighbours / squares.max(1e-30)).clamp(0.0, 0.98);
        let independent = (count as f64 * (1.0 - alike) / (1.0 + alike)).max(2.0);
        let bits = 8.0 * packets.iter().map(|packet| f64::from(packet.size)).sum::<f64>() / packets.len() as f64;
        (slope > 0.0).then(|| Self { rate: bits / slope, noise, count, independent, lasts: slope * (count - 1) as f64 })
    }

    /// Returns the relative standard error of the rate.
    pub fn error(&self) -> f64 {
        self.noise * libm::sqrt(12.0 / self.independent) / self.lasts.max(1e-9)
    }
}

impl<'l> Stretch<'l> {
    /// Returns the regression over the whole load.
    pub fn slope(&self) -> Option<Slope> {
        Slope::of(&self.packets).filter(|slope| slope.count >= FEWEST)
    }

    /// Returns the times of arrival, sorted.
    pub fn arrivals(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.packets.iter().filter_map(|packet| packet.arrived).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Returns the rate in bits per second at which it was sent.
    pub fn pace(&self) -> f64 {
        8.0 * f64::from(self.size()) / gap(&self.packets).max(1e-9)
    }

    /// Returns the size of each packet in bytes.
    pub fn size(&self) -> u16 {
        self.packets[0].size
    }

    /// Returns the time from the first to the last sending, in seconds.
    pub fn sending(&self) -> f64 {
        self.packets[self.packets.len() - 1].sent - self.packets[0].sent
    }
}

/// Returns the loads of a direction: overloads, and paced loads of consecutive orders.
pub fn stretches(log: &Log) -> Vec<Stretch<'_>> {
    let mut all: Vec<Stretch<'_>> =
        log.trains(Purpose::Overload).into_iter().map(|packets| Stretch { packets, paced: false }).collect();
    all.extend(paced(log, Purpose::Load));
    all.sort_by(|one, other| one.packets[0].sent.total_cmp(&other.packets[0].sent));
    all
}

/// Returns the paced loads for `purpose`, each of consecutive orders.
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

/// Returns the mean gap between packets as they were sent, in seconds.
fn gap(packets: &[&Packet]) -> f64 {
    match packets {
        [first, .., last] => (last.sent - first.sent) / (packets.len() - 1) as f64,
        _ => 0.0,
    }
}

/// Combines slopes, weighted by their precision. Returns the rate in bits per second and its relative standard error,
/// which includes the spread between them.
pub fn combined(slopes: &[Slope]) -> Option<(f64, f64)> {
    // Errors are symmetric in seconds per bit.
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

/// Minimum duration over which a rate counts, in seconds: bursts are shorter.
const WINDOW: f64 = 8e-3;

/// Returns the maximum arrival rate over at least [`WINDOW`], in bits per second; `None` if the load is shorter.
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

/// Returns the rate to plan for, in bits per second: `short`, the rate of short trains, unless loads had much less.
/// `None` if nothing arrived.
pub fn planned(log: &Log, short: Option<f64>) -> Option<f64> {
    let loads = stretches(log);
    // The second half of a paced load shows the rate with empty buckets; trains that were sent at once, and checks,
    // show the rate before that.
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

/// Number of parts of a load's second half.
const PARTS: usize = 6;
/// Mean number of arrivals per part.
const PER_PART: usize = 12;

/// Returns the arrival rate of a paced load's second half, relative to its pace or to `line` bits per second, whichever
/// is less. It uses the second-best part: loss bursts affect some parts, while queues and buckets affect all. `None` if
/// too little arrived.
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

/// Returns the minimum of [`kept`] over all paced loads that are long enough.
pub fn kept_up(loads: &[Stretch<'_>], line: f64, loss: f64) -> Option<f64> {
    let long = loads.iter().filter(|load| load.paced && load.packets.len() >= LONG);
    long.filter_map(|load| kept(load, line, loss)).min_by(f64::total_cmp)
}
