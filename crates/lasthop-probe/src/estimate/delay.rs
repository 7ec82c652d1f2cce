//! Delays of one direction, above the least, from clocks that differ.

use std::collections::BTreeMap;

use super::{Log, Packet, Purpose, quantile, slope};

/// How long packets took beyond the least, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delays {
    /// What clocks' difference and the link's delay come to, without the time on the air: the least of all.
    pub base: f64,
    /// Half of the packets that met no load took no longer.
    pub median: f64,
    /// 95 % of these.
    pub p95: f64,
    /// 99 % of these.
    pub p99: f64,
    /// 95 % of the packets of overloads; `None` without any.
    pub loaded_p95: Option<f64>,
    /// The longest of these.
    pub loaded_most: Option<f64>,
}

/// Parts of the time in which the least delay is looked for.
const PARTS: usize = 16;
/// Crystals do better; what is more is no drift.
const MOST: f64 = 500e-6;

/// Packets of a size of which one met nothing on its way.
const ENOUGH: usize = 8;

/// What lies between sending and arriving but for the time on the air.
fn transit(packet: &Packet, rate: f64) -> Option<f64> {
    Some(packet.arrived? - packet.sent - packet.air(rate))
}

/// How much faster the receiver's clock runs than the sender's: the slope of the least delays (Moon, Skelly and Towsley, 1999).
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

/// Bits a second at which packets are on the air, where trains say only that it is `least` or more: by how much later the largest packets come than the smallest, the
/// earliest of each. Infinite where that says nothing.
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

/// The delays of a direction whose clocks do not drift. `None` where nothing arrived.
pub fn delays(log: &Log, rate: f64) -> Option<Delays> {
    delays_beyond(log, rate, None)
}

/// The same beyond `least`, where some packets are not delayed as all others are.
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
