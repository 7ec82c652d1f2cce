//! One-way delays above the minimum, from clocks that differ.

use std::collections::BTreeMap;

use super::{Log, Packet, Purpose, quantile, slope};

/// Delays above the minimum, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delays {
    /// Minimum transit time without transmission time: the path's delay and the clock offset.
    pub base: f64,
    /// Median over packets without load.
    pub median: f64,
    /// 95th percentile over these.
    pub p95: f64,
    /// 99th percentile over these.
    pub p99: f64,
    /// 95th percentile over packets of overloads; `None` without any.
    pub loaded_p95: Option<f64>,
    /// Maximum over these.
    pub loaded_most: Option<f64>,
}

/// Number of periods in which the minimum delay is determined.
const PARTS: usize = 16;
/// Maximum clock drift; crystals do better, so a larger slope is not drift.
const MOST: f64 = 500e-6;

/// Minimum number of packets of a size for one of them to have met no queue.
const ENOUGH: usize = 8;

/// Returns the transit time without the transmission time.
fn transit(packet: &Packet, rate: f64) -> Option<f64> {
    Some(packet.arrived? - packet.sent - packet.air(rate))
}

/// Returns by how much faster the receiver's clock runs than the sender's: the slope of the minimum delays (Moon,
/// Skelly and Towsley, 1999).
pub fn drift(log: &Log, rate: f64) -> f64 {
    let (Some(first), Some(last)) = (log.packets.first(), log.packets.last()) else { return 0.0 };
    let span = (last.sent - first.sent) / PARTS as f64;
    if span <= 0.0 {
        return 0.0;
    }
    let mut least: Vec<Option<(f64, f64)>> = vec![None; PARTS];
    for packet in &log.packets {
        let Some(delay) = transit(packet, rate) else { continue };
        let part = ((packet.sent - first.sent) / span).clamp(0.0, PARTS as f64 - 1.0) as usize;
        if least[part].is_none_or(|(_, other)| delay < other) {
            least[part] = Some((packet.sent, delay));
        }
    }
    let points: Vec<(f64, f64)> = least.into_iter().flatten().collect();
    let found = if points.len() < PARTS / 2 { 0.0 } else { slope(&points).unwrap_or(0.0) };
    if found.abs() <= MOST { found } else { 0.0 }
}

/// Returns the transmission rate in bits per second if trains give only the lower bound `least`: from the difference
/// between the earliest arrivals of the largest and the smallest packets. Infinite if there is no difference.
pub fn air_rate(log: &Log, least: f64) -> f64 {
    let mut sizes: BTreeMap<u16, (usize, f64)> = BTreeMap::new();
    for packet in &log.packets {
        let Some(arrived) = packet.arrived else { continue };
        let (count, earliest) = sizes.entry(packet.size).or_insert((0, f64::MAX));
        *count += 1;
        *earliest = earliest.min(arrived - packet.sent);
    }
    sizes.retain(|_, (count, _)| *count >= ENOUGH);
    let (Some((small, (_, first))), Some((large, (_, last)))) = (sizes.first_key_value(), sizes.last_key_value())
    else {
        return f64::INFINITY;
    };
    let later = last - first;
    if later > 0.0 { (8.0 * f64::from(large - small) / later).max(least) } else { f64::INFINITY }
}

/// Returns the delays of a direction whose clock drift was removed. `None` if nothing arrived.
pub fn delays(log: &Log, rate: f64) -> Option<Delays> {
    delays_beyond(log, rate, None)
}

/// Like [`delays`], above a minimum of at least `least`, since some packets skip the delay of all others.
pub fn delays_beyond(log: &Log, rate: f64, least: Option<f64>) -> Option<Delays> {
    let all = |packets: &mut dyn Iterator<Item = &Packet>| -> Vec<f64> {
        packets.filter_map(|packet| transit(packet, rate)).collect()
    };
    let base = all(&mut log.packets.iter()).into_iter().min_by(f64::total_cmp)?;
    let base = least.map_or(base, |least| least.max(base));
    let mut unloaded = all(&mut log.unloaded().into_iter());
    let mut loaded = all(&mut log.of(Purpose::Overload));
    let above = |value: Option<f64>| value.map(|value| value - base);
    Some(Delays {
        base,
        median: above(quantile(&mut unloaded, 0.5)).unwrap_or(0.0),
        p95: above(quantile(&mut unloaded, 0.95)).unwrap_or(0.0),
        p99: above(quantile(&mut unloaded, 0.99)).unwrap_or(0.0),
        loaded_p95: above(quantile(&mut loaded, 0.95)),
        loaded_most: above(quantile(&mut loaded, 1.0)),
    })
}
