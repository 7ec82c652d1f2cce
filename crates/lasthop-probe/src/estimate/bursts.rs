//! Bursts in which packets arrive, and slots at which they arrive.

use super::{Log, Purpose, Stretch, median};

/// Bursts on a loaded link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Mean number of packets per burst.
    pub packets: f64,
    /// Median time between bursts, in seconds.
    pub interval: f64,
    /// Number of loads with bursts, and of all loads that are long enough.
    pub of: [usize; 2],
}

/// Packets closer than this share of the mean gap belong to one burst.
const CLOSE: f64 = 0.2;
/// Minimum mean number of packets per burst.
const LEAST: f64 = 1.9;
/// Maximum standard deviation of intervals, relative to their mean.
const IRREGULAR: f64 = 0.75;
/// Number of bursts in one load that counts as much as two loads.
const MANY_BURSTS: usize = 12;
/// Minimum interval of bursts in seconds; shorter ones come from the receiver.
const SHORTEST: f64 = 0.4e-3;
/// Minimum number of arrivals in a load.
const FEWEST: usize = 24;

/// Groups arrivals into bursts: start time and number of packets of each.
fn groups(times: &[f64], close: f64) -> Vec<(f64, usize)> {
    let mut all: Vec<(f64, usize)> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for &at in times {
        match all.last_mut() {
            Some((_, count)) if at - last < close => *count += 1,
            _ => all.push((at, 1)),
        }
        last = at;
    }
    all
}

/// Returns the bursts in which loads arrive; `None` if packets arrive evenly.
pub fn bursts(stretches: &[Stretch<'_>]) -> Option<Bursts> {
    let (mut counts, mut intervals, mut of, mut most) = (Vec::new(), Vec::new(), [0, 0], 0);
    for stretch in stretches {
        let times = stretch.arrivals();
        if times.len() < FEWEST {
            continue;
        }
        let mean = (times[times.len() - 1] - times[0]) / (times.len() - 1) as f64;
        let groups = groups(&times, (CLOSE * mean).max(20e-6));
        // Two groups have one interval, which nothing confirms.
        if groups.len() < 3 {
            continue;
        }
        of[1] += 1;
        most = most.max(groups.len());
        let inner = &groups[1..groups.len() - 1];
        let packets = inner.iter().map(|(_, count)| *count).sum::<usize>() as f64 / inner.len() as f64;
        let mut gaps: Vec<f64> = groups.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        let Some(interval) = median(&mut gaps) else { continue };
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        // Random delays also produce bursts, but at random intervals.
        if packets >= LEAST && interval >= SHORTEST && libm::sqrt(spread) < IRREGULAR * mean {
            of[0] += 1;
            counts.push(packets);
            intervals.push(interval);
        }
    }
    let packets = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
    ((of[0] >= 2 || of[0] == 1 && most >= MANY_BURSTS) && 2 * of[0] >= of[1]).then_some(())?;
    Some(Bursts { packets, interval: median(&mut intervals)?, of })
}

/// Range of slot intervals that are tried, in seconds.
const SLOTS: [f64; 2] = [0.4e-3, 0.12];
/// Ratio of successive candidate intervals; it resolves a difference of `MANY` slots to a tenth of a slot.
const STEP: f64 = 1.001;
const MANY: f64 = 60.0;
/// Minimum coherence of phases, from 0 to 1.
const AGREE: f64 = 0.85;
/// Maximum and minimum number of differences.
const MOST: usize = 1500;
const ENOUGH: usize = 60;

/// Returns the interval in seconds between slots at which packets are delivered: trains sent at random times arrive a
/// whole number of intervals apart. `None` if there are no slots.
pub fn slots(log: &Log) -> Option<f64> {
    let mut firsts: Vec<(f64, f64)> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for packet in log.packets.iter().filter(|packet| packet.purpose == Purpose::Stream) {
        let Some(arrived) = packet.arrived else { continue };
        // First packet of each train.
        if packet.sent - last > 0.3e-3 {
            firsts.push((packet.sent, arrived));
        }
        last = packet.sent;
    }
    let every = (2 * firsts.len() / MOST).max(1);
    let mut differences: Vec<(f64, f64)> = Vec::new();
    for at in (0..firsts.len().saturating_sub(2)).step_by(every) {
        let (sent, arrived) = firsts[at];
        differences.extend(firsts[at + 1..at + 3].iter().map(|(later, then)| (later - sent, then - arrived)));
    }
    let coherence = |interval: f64, pick: fn(&(f64, f64)) -> f64| {
        let (mut sum, mut count) = (0.0, 0_usize);
        for difference in differences.iter().map(pick).filter(|one| (0.3 * interval..MANY * interval).contains(one)) {
            sum += libm::cos(core::f64::consts::TAU * difference / interval);
            count += 1;
        }
        (count >= ENOUGH && 8 * count >= differences.len()).then(|| sum / count as f64)
    };
    let arrived = |interval: f64| coherence(interval, |pair| pair.1).unwrap_or(-1.0);
    let mut interval = SLOTS[1];
    while interval > SLOTS[0] {
        if arrived(interval) > AGREE {
            let near = (-1200..=50).map(|step| interval * (1.0 + f64::from(step) * 1e-4));
            let best = near.max_by(|one, other| arrived(*one).total_cmp(&arrived(*other)))?;
            // A sender with a timer this coarse produces slots itself.
            return coherence(best, |pair| pair.0).is_none_or(|sent| sent < 0.5 * AGREE).then_some(best);
        }
        interval /= STEP;
    }
    None
}
