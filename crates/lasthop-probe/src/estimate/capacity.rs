//! The rate of the bottleneck link, estimated from the dispersion of packet trains.

use super::{Log, Packet, Purpose, slope};

/// Link rate estimated from packet trains.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Bits per second.
    pub rate: f64,
    /// 95 % interval of the rate.
    pub interval: [f64; 2],
    /// Number of trains used.
    pub trains: u32,
    /// True if the trains arrived as fast as they were sent; the rate is then a lower bound.
    pub by_sender: bool,
    /// True if the trains arrived faster than they were sent, because something held packets up and released them
    /// together.
    pub squeezed: bool,
}

/// Number of groups of trains for the jackknife.
const PARTS: usize = 5;
/// Minimum ratio of arrival rate to sending rate for a train that was held up.
const SQUEEZED: f64 = 1.5;
/// 97.5 % quantile of Student's t distribution with four degrees of freedom.
const T: f64 = 2.776;

/// Train: times of sending and arrival, relative to the first sending, up to the first missing packet. Behind a packet
/// that a full queue dropped, packets arrive earlier than their index suggests.
struct Train {
    sent: Vec<f64>,
    arrived: Vec<f64>,
}

impl Train {
    fn of(packets: &[&Packet]) -> Option<Self> {
        let first = packets.first().filter(|first| first.index == 0)?.sent;
        let whole = packets.iter().enumerate().map_while(|(at, packet)| {
            (usize::from(packet.index) == at).then_some((packet.sent - first, packet.arrived? - first))
        });
        let (sent, arrived): (Vec<_>, Vec<_>) = whole.unzip();
        (arrived.len() >= 2).then_some(Self { sent, arrived })
    }
}

/// Returns the earliest arrival at each index. Delays, on the path or at its ends, are never negative; so the minimum
/// over many trains is the link's own.
fn earliest<'t>(trains: impl Iterator<Item = &'t Vec<f64>>) -> Vec<(f64, f64)> {
    let mut envelope: Vec<(f64, f64)> = Vec::new();
    for train in trains {
        for (at, &time) in train.iter().enumerate() {
            match envelope.get_mut(at) {
                Some((_, earliest)) => *earliest = earliest.min(time),
                None => envelope.push((at as f64, time)),
            }
        }
    }
    envelope
}

/// Returns the trains for `purpose` with packets of `size` bytes.
fn trains_of(log: &Log, purpose: Purpose, size: u16) -> Vec<Train> {
    let trains = log.trains(purpose);
    trains.iter().filter(|train| train[0].size == size).filter_map(|train| Train::of(train)).collect()
}

/// Returns the packet spacing in seconds, from the earliest arrivals of all trains.
fn spacing<'t>(trains: impl Iterator<Item = &'t Train>) -> Option<f64> {
    slope(&earliest(trains.map(|train| &train.arrived))).filter(|spacing| *spacing > 0.0)
}

/// Returns the minimum spacing, in seconds, of packets of `size` bytes that were sent for `purpose`.
pub(super) fn spacing_of(log: &Log, purpose: Purpose, size: u16) -> Option<f64> {
    spacing(trains_of(log, purpose, size).iter())
}

/// Returns the rate, from trains of the largest size. `None` if no train has two packets in a row that arrived.
pub fn capacity(log: &Log) -> Option<Capacity> {
    let size = log.of(Purpose::Capacity).map(|packet| packet.size).max()?;
    let trains = trains_of(log, Purpose::Capacity, size);
    let size = f64::from(size);
    let rate = |trains: &[&Train]| Some(8.0 * size / spacing(trains.iter().copied())?);
    let all: Vec<&Train> = trains.iter().collect();
    let found = rate(&all)?;
    let sending = slope(&earliest(all.iter().map(|train| &train.sent))).unwrap_or(0.0);
    // Jackknife: one rate for each group left out.
    let without = |part: usize| {
        let rest: Vec<&Train> =
            all.iter().enumerate().filter(|(at, _)| at % PARTS != part).map(|(_, train)| *train).collect();
        rate(&rest)
    };
    let others: Vec<f64> = (0..PARTS).filter_map(without).collect();
    let count = others.len() as f64;
    let mean = others.iter().sum::<f64>() / count.max(1.0);
    let spread = others.iter().map(|rate| (rate - mean) * (rate - mean)).sum::<f64>();
    let error = libm::sqrt(spread * (count - 1.0).max(0.0) / count.max(1.0));
    let half = if trains.len() > PARTS { T * error } else { found / 2.0 };
    Some(Capacity {
        rate: found,
        interval: [(found - half).max(0.0), found + half],
        trains: trains.len() as u32,
        by_sender: sending * found > 0.8 * 8.0 * size,
        squeezed: sending * found > SQUEEZED * 8.0 * size,
    })
}
