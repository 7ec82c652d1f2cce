//! Packets that arrive in another order than they were sent in.

use super::{Log, quantile};

/// Reordering of a direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Overtaken {
    /// Share of arrivals that followed one sent later.
    pub share: f64,
    /// 95th percentile of their lateness after the first arrival of those sent behind them, in seconds (RFC 4737,
    /// section 4.4).
    pub by: f64,
    /// True if the packet at each index of the log arrived ahead of one sent earlier.
    pub ahead: Vec<bool>,
    /// Share of arrivals that did.
    pub skipping: f64,
}

/// Returns the reordering of all packets; `None` if all arrived in order. Clock errors may swap times of arrival, so
/// the order of reception counts.
pub fn overtaken(log: &Log) -> Option<Overtaken> {
    let mut places = vec![u32::MAX; log.packets.len()];
    for (place, at) in log.arrivals.iter().enumerate() {
        if let Some(kept) = places.get_mut(*at as usize) {
            *kept = place as u32;
        }
    }
    let arrived = |at: usize| Some((places[at], log.packets[at].arrived?)).filter(|(place, _)| *place != u32::MAX);
    // Backward pass: the earliest arrival among those sent later.
    let mut earliest: Option<(u32, f64)> = None;
    let mut late = Vec::new();
    for (place, time) in (0..places.len()).rev().filter_map(arrived) {
        match earliest {
            Some((before, since)) if place > before => late.push((time - since).max(0.0)),
            _ => earliest = Some((place, time)),
        }
    }
    if late.is_empty() {
        return None;
    }
    // Forward pass: the latest arrival among those sent earlier.
    let mut ahead = vec![false; places.len()];
    let mut latest = 0;
    for (at, ahead) in ahead.iter_mut().enumerate() {
        let Some((place, _)) = arrived(at) else { continue };
        *ahead = place < latest;
        latest = latest.max(place);
    }
    let share = late.len() as f64 / log.arrivals.len().max(1) as f64;
    let by = quantile(&mut late, 0.95)?;
    let skipping = ahead.iter().filter(|ahead| **ahead).count() as f64 / log.arrivals.len().max(1) as f64;
    Some(Overtaken { share, by, ahead, skipping })
}
