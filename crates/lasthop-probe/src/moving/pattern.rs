//! Patterns of arrivals within trains: aggregates, and transmission time intervals.

use std::f64::consts::TAU;

use super::{Family, Train};
use crate::estimate::median;

/// Maximum time between packets of one aggregate, in seconds.
const TOGETHER: f64 = 50e-6;
/// Minimum mean gap in trains whose packets could arrive in aggregates, in seconds: far above `TOGETHER`.
const SLOW: f64 = 100e-6;
/// Share of gaps within aggregates, minimum and maximum: a train is no single aggregate.
const WITHIN: [f64; 2] = [0.3, 0.97];
/// Minimum time between aggregates, in seconds, and minimum share of the other gaps that are as long.
const BETWEEN: f64 = 200e-6;
const SEPARATE: f64 = 0.3;
/// Transmission time intervals in seconds: LTE, 5G with 30 kHz, 5G with a TDD pattern of five slots.
const INTERVALS: [f64; 3] = [2.5e-3, 1e-3, 0.5e-3];
/// Minimum length of the mean phase vector of the gaps, and maximum phase of it in radians.
const SHARP: f64 = 0.8;
const AT_ZERO: f64 = 0.3;
/// Maximum probability of this length for random phases (Rayleigh), by which an interval is found.
const CHANCE: f64 = 1e-3;
/// Minimum share of gaps that are above half of an interval, and share of trains with different multiples: at a
/// constant rate, all gaps of a train are the same.
const ABOVE: f64 = 0.05;
const DIFFERENT: f64 = 0.5;
/// Minimum number of gaps.
const ENOUGH: usize = 300;

/// Returns the family that the gaps show, with the evidence.
pub(super) fn pattern(trains: &[Train]) -> Option<(Family, String)> {
    let gaps: Vec<f64> = trains.iter().flat_map(|train| train.gaps.iter().copied()).collect();
    if gaps.len() < ENOUGH {
        return None;
    }
    // The packets of an interval arrive together, as those of an aggregate.
    INTERVALS.into_iter().find_map(|interval| cell(trains, &gaps, interval)).or_else(|| aggregates(&gaps))
}

fn aggregates(gaps: &[f64]) -> Option<(Family, String)> {
    let usual: f64 = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let count = |keep: &dyn Fn(f64) -> bool| gaps.iter().filter(|gap| keep(**gap)).count() as f64;
    let within = count(&|gap| gap < TOGETHER) / gaps.len() as f64;
    let between = count(&|gap| gap > BETWEEN) / gaps.len() as f64;
    if usual < SLOW || !(WITHIN[0]..WITHIN[1]).contains(&within) || between < SEPARATE * (1.0 - within) {
        return None;
    }
    let packets = 1.0 / (1.0 - within);
    let why = format!("{:.0} % of the packets arrived within 50 us of the one before", 100.0 * within);
    Some((Family::Aggregates(packets), why))
}

/// Returns the times from the first packet of a group to that of the next; groups are at least `apart`.
fn between_groups(gaps: &[f64], apart: f64) -> Vec<f64> {
    let (mut since, mut all) = (0.0, Vec::new());
    for gap in gaps {
        since += gap;
        if *gap > apart {
            all.push(since);
            since = 0.0;
        }
    }
    all
}

/// Tests whether the times between groups are multiples of `interval`.
fn cell(trains: &[Train], gaps: &[f64], interval: f64) -> Option<(Family, String)> {
    let above: Vec<f64> = trains.iter().flat_map(|train| between_groups(&train.gaps, interval / 2.0)).collect();
    if (above.len() as f64) < ABOVE * gaps.len() as f64 {
        return None;
    }
    let count = above.len() as f64;
    let sum = |part: fn(f64) -> f64| above.iter().map(|gap| part(TAU * gap / interval)).sum::<f64>() / count;
    let (cosine, sine) = (sum(libm::cos), sum(libm::sin));
    let length = libm::hypot(cosine, sine);
    let chance = libm::exp(-count * length * length);
    // In a train at a constant rate all gaps are alike, whatever they are.
    let differ = |train: &&Train| {
        let Some(middle) = median(&mut train.gaps.clone()) else { return false };
        let far = train.gaps.iter().filter(|gap| (**gap - middle).abs() > interval / 2.0).count();
        far >= 2
    };
    let different = trains.iter().filter(differ).count() as f64 / trains.len() as f64;
    let is_cell =
        length > SHARP && libm::atan2(sine, cosine).abs() < AT_ZERO && chance < CHANCE && different > DIFFERENT;
    is_cell.then(|| {
        let why = format!(
            "arrivals are multiples of {} ms apart (Rayleigh test: mean phase vector {length:.2})",
            interval * 1e3
        );
        (Family::Cell(interval), why)
    })
}
