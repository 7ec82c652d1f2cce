//! The rate of the narrowest link, from the dispersion of trains.

use super::{Log, Packet, Purpose, slope};

/// What trains say of the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Bits a second.
    pub rate: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// Trains that counted.
    pub trains: u32,
    /// Whether the trains came as fast as they were sent: then the rate is this or more.
    pub by_sender: bool,
    /// Whether they came faster than they were sent: something held them up and let them go together.
    pub squeezed: bool,
}

/// Parts into which the trains are put, to see how the rate varies.
const PARTS: usize = 5;
/// A train that came so much faster than it was sent was held up.
const SQUEEZED: f64 = 1.5;
/// Student's quantile for four degrees of freedom.
const T: f64 = 2.776;

/// A train: when its packets were sent and arrived after the first was sent, up to the first that is missing. Behind one that a full queue dropped, packets come
/// earlier than their place says.
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

/// The earliest that each place was seen at. What holds a packet up, on its way or at its ends, only ever adds; so the earliest of
/// many is the link's own.
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

/// The trains for `purpose` whose packets have `size` bytes.
fn trains_of(log: &Log, purpose: Purpose, size: u16) -> Vec<Train> {
    let trains = log.trains(purpose);
    trains.iter().filter(|train| train[0].size == size).filter_map(|train| Train::of(train)).collect()
}

/// Seconds between two packets, by the earliest of all trains.
fn spacing<'t>(trains: impl Iterator<Item = &'t Train>) -> Option<f64> {
    slope(&earliest(trains.map(|train| &train.arrived))).filter(|spacing| *spacing > 0.0)
}

/// Seconds between two packets of `size` bytes that were sent for `purpose`, at the least.
pub(super) fn spacing_of(log: &Log, purpose: Purpose, size: u16) -> Option<f64> {
    spacing(trains_of(log, purpose, size).iter())
}

/// The rate, of the trains of the commonest size. `None` where fewer than two packets of any train arrived in a row.
pub fn capacity(log: &Log) -> Option<Capacity> {
    let size = log.of(Purpose::Capacity).map(|packet| packet.size).max()?;
    let trains = trains_of(log, Purpose::Capacity, size);
    let size = f64::from(size);
    let rate = |trains: &[&Train]| Some(8.0 * size / spacing(trains.iter().copied())?);
    let all: Vec<&Train> = trains.iter().collect();
    let found = rate(&all)?;
    let sending = slope(&earliest(all.iter().map(|train| &train.sent))).unwrap_or(0.0);
    // The jackknife: as many rates as there are parts to leave out.
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
