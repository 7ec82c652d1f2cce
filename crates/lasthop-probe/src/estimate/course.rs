//! The rate over time, from the dispersion of the stream's trains.

use std::collections::BTreeMap;

use super::{Log, Packet, Purpose, median, quantile};

/// Rate that applies from a given time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateFrom {
    /// Seconds of the sender's clock.
    pub at: f64,
    /// Bits per second.
    pub rate: f64,
}

/// Rate over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// Steps of the rate; a single one if it is constant.
    pub steps: Vec<RateFrom>,
    /// Minimum and maximum rate.
    pub range: [f64; 2],
    /// Mean over time.
    pub mean: f64,
    /// Share of trains that arrived in less than half the time of others in the same bin: their first packets were held
    /// up.
    pub compressed: f64,
    /// Share of the time in which the rate clearly differed from the most frequent one.
    pub apart: f64,
}

/// Maximum time between packets of a train in the stream, in seconds.
const TOGETHER: f64 = 0.4e-3;
/// Minimum duration of a train in seconds; below it, the receiver's clock dominates.
const LEAST: f64 = 0.35e-3;
/// Time after a load during which a token bucket may be empty, in seconds.
const REFILLS: f64 = 0.7;
/// Mean number of trains per bin, and range of a bin's length in seconds.
const PER_BIN: f64 = 6.0;
const BINS: [f64; 2] = [0.2, 2.0];
/// Minimum number of trains.
const ENOUGH: usize = 60;
/// Minimum difference between the rates of two bins that are not merged: `CLOSE` (relative) and `APART` (in standard
/// errors).
const CLOSE: f64 = 0.12;
const APART: f64 = 4.0;
/// Minimum number of trains in a part.
const FEWEST: usize = 8;
/// Minimum share of the time for a different rate; a shorter one may be a stall of one end.
const BRIEF: f64 = 0.02;
/// Minimum share of the time for a different rate that occurred only once.
const ONCE: f64 = 0.15;
/// Minimum ratio of maximum to minimum rate for a rate that varies.
const CHANGES: f64 = 1.25;

/// A train's time per bit, and its send time.
#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    size: u16,
    per_bit: f64,
}

/// Returns the stream's trains that arrived whole, without those in the periods `busy` (seconds of the receiver's
/// clock) with load in the other direction.
fn samples(log: &Log, busy: &[[f64; 2]]) -> Vec<Sample> {
    let mut all = Vec::new();
    let mut train: Vec<&Packet> = Vec::new();
    let mut end = |train: &mut Vec<&Packet>| {
        if let [first, .., last] = train[..]
            && train.iter().all(|packet| packet.arrived.is_some())
            && train.windows(2).all(|pair| pair[0].arrived <= pair[1].arrived)
            && let (Some(from), Some(to)) = (first.arrived, last.arrived)
            && !busy.iter().any(|[start, end]| (*start..*end).contains(&from))
        {
            let bits = 8.0 * f64::from(first.size) * (train.len() - 1) as f64;
            all.push(Sample { at: first.sent, size: first.size, per_bit: (to - from) / bits });
        }
        train.clear();
    };
    let mut loaded_until = f64::NEG_INFINITY;
    for packet in &log.packets {
        match packet.purpose {
            Purpose::Stream if packet.sent > loaded_until => {}
            Purpose::Load | Purpose::Overload | Purpose::Check => {
                loaded_until = packet.sent + REFILLS;
                continue;
            }
            _ => continue,
        }
        if train.last().is_some_and(|last| {
            packet.sent - last.sent > TOGETHER || packet.size != last.size || packet.index != last.index.wrapping_add(1)
        }) {
            end(&mut train);
        }
        train.push(packet);
    }
    end(&mut train);
    all
}

/// Period in seconds within which trains of two sizes see the same rate, and minimum number of such periods for
/// comparing their dispersion.
const TOGETHER_FOR: f64 = 0.5;
const PAIRS: usize = 3;

/// Returns the time per bit for trains of each size at the same rate. A frame has overhead beside its bytes, so sizes
/// are compared within periods of the same rate.
fn scales(samples: &[Sample]) -> Option<BTreeMap<u16, f64>> {
    let mut sizes: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    let mut times: BTreeMap<u64, BTreeMap<u16, Vec<f64>>> = BTreeMap::new();
    let origin = samples.first()?.at;
    for sample in samples.iter().filter(|sample| sample.per_bit > 0.0) {
        sizes.entry(sample.size).or_default().push(sample.per_bit);
        let time = ((sample.at - origin).max(0.0) / TOGETHER_FOR) as u64;
        times.entry(time).or_default().entry(sample.size).or_default().push(sample.per_bit);
    }
    let (common, all) = sizes.iter_mut().max_by_key(|(_, all)| all.len())?;
    let (common, unit) = (*common, median(all)?);
    let mut ratios: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    for time in times.values_mut() {
        let Some(of_common) = time.get_mut(&common).and_then(|all| median(all)) else { continue };
        for (size, all) in time.iter_mut() {
            ratios.entry(*size).or_default().extend(median(all).map(|per_bit| per_bit / of_common));
        }
    }
    let scale = |(size, mut all): (u16, Vec<f64>)| {
        (all.len() >= PAIRS).then(|| median(&mut all)).flatten().map(|ratio| (size, ratio * unit))
    };
    Some(ratios.into_iter().filter_map(scale).collect())
}

/// Returns the periods in which a direction's loads were sent or in flight, in seconds of its sender's clock, which is
/// the receiver's clock of the other direction.
pub fn busy(log: &Log) -> Vec<[f64; 2]> {
    let mut all: Vec<[f64; 2]> = Vec::new();
    let loads = [Purpose::Load, Purpose::Overload, Purpose::Check, Purpose::Both];
    for packet in log.packets.iter().filter(|packet| loads.contains(&packet.purpose)) {
        match all.last_mut() {
            Some([_, end]) if packet.sent < *end => *end = packet.sent + REFILLS,
            _ => all.push([packet.sent - REFILLS / 2.0, packet.sent + REFILLS]),
        }
    }
    all
}

/// Returns the rate over time, without periods in which the other direction is `busy`, since both may share a medium.
/// `None` if there are too few trains.
pub fn course(log: &Log, busy: &[[f64; 2]]) -> Option<Course> {
    let mut samples = samples(log, busy);
    let usual = scales(&samples)?;
    let largest = *usual.keys().next_back()?;
    let counts = |size: u16| match size {
        0..200 => 5.0,
        200..600 => 2.0,
        _ => 1.0,
    };
    samples.retain(|sample| {
        usual
            .get(&sample.size)
            .is_some_and(|per_bit| per_bit * 8.0 * f64::from(sample.size) * counts(sample.size) >= LEAST)
    });
    if samples.len() < ENOUGH {
        return None;
    }
    let rate = 1.0 / usual[&largest];
    let ratios: Vec<(f64, f64)> =
        samples.iter().map(|sample| (sample.at, sample.per_bit / usual[&sample.size])).collect();
    let (first, last) = (ratios.first()?.0, ratios.last()?.0);
    let span = (last - first).max(BINS[0]);
    let bin = (PER_BIN * span / ratios.len() as f64).clamp(BINS[0], BINS[1]);
    // Spread of the trains within a bin, over all bins.
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (at, ratio) in &ratios {
        bins.entry(((at - first) / bin) as u64).or_default().push(*ratio);
    }
    let (mut parts, mut close) = (Vec::new(), 0);
    for (number, mut all) in bins {
        let Some(middle) = median(&mut all) else { continue };
        // Compared with trains of the same bin: a varying rate does not compress a train.
        close += all.iter().filter(|ratio| **ratio < 0.5 * middle).count();
        let mut off: Vec<f64> = all.iter().map(|ratio| (ratio / middle.max(1e-9) - 1.0).abs()).collect();
        let spread = 1.483 * median(&mut off).unwrap_or(0.0);
        parts.push(Part { from: number as f64 * bin + first, ratios: all, spread });
    }
    let mut spreads: Vec<f64> = parts.iter().filter(|part| part.ratios.len() > 2).map(|part| part.spread).collect();
    let usual = quantile(&mut spreads, 0.7).unwrap_or(0.0).max(0.02);
    let compressed = close as f64 / ratios.len() as f64;
    let steps = merged(parts, usual);
    let rates: Vec<RateFrom> =
        steps.iter().map(|part| RateFrom { at: part.from, rate: rate / part.middle() }).collect();
    let lasts: Vec<f64> = (0..rates.len())
        .map(|at| rates.get(at + 1).map_or(last.max(rates[at].at), |next| next.at) - rates[at].at)
        .collect();
    let weighted: f64 = rates.iter().zip(&lasts).map(|(step, lasts)| step.rate * lasts).sum();
    let total = (last - rates[0].at).max(1e-9);
    let longest = (0..rates.len()).max_by(|one, other| lasts[*one].total_cmp(&lasts[*other]))?;
    let far = |step: &RateFrom| libm::log(step.rate / rates[longest].rate).abs() > 0.5 * libm::log(CHANGES);
    let apart = rates.iter().zip(&lasts).filter(|(step, _)| far(step)).map(|(_, lasts)| lasts).sum::<f64>() / total;
    let range = rates.iter().fold([f64::MAX, 0.0_f64], |[low, high], step| [low.min(step.rate), high.max(step.rate)]);
    let mean = if rates.len() > 1 { weighted / total } else { rates[0].rate };
    Some(Course { steps: rates, range, mean, compressed, apart })
}

impl Course {
    /// Returns whether the rate varies.
    pub fn varies(&self) -> bool {
        self.changes() && self.apart > BRIEF && !self.once()
    }

    /// Returns whether the rate differed once for a while and then returned: an empty bucket looks the same.
    pub fn once(&self) -> bool {
        self.changes() && self.steps.len() <= 3 && (BRIEF..ONCE).contains(&self.apart)
    }

    /// Returns whether the rate changed at all, however briefly.
    pub fn changes(&self) -> bool {
        self.steps.len() > 1 && self.range[1] > CHANGES * self.range[0]
    }

    /// Returns the rate at a time.
    pub fn rate_at(&self, at: f64) -> f64 {
        let before = self.steps.iter().take_while(|step| step.at <= at).last();
        before.or(self.steps.first()).map_or(self.mean, |step| step.rate)
    }
}

/// Period with a constant rate.
struct Part {
    from: f64,
    ratios: Vec<f64>,
    spread: f64,
}

impl Part {
    fn middle(&self) -> f64 {
        median(&mut self.ratios.clone()).unwrap_or(1.0).max(1e-3)
    }

    /// Returns whether the interquartile ranges overlap: then only some trains differ.
    fn overlaps(&self, other: &Self) -> bool {
        let quarter = |part: &Self, share| quantile(&mut part.ratios.clone(), share).unwrap_or(1.0);
        quarter(self, 0.25) <= quarter(other, 0.75) && quarter(other, 0.25) <= quarter(self, 0.75)
    }

    /// Returns the relative standard error of the median.
    fn error(&self, spread: f64) -> f64 {
        1.25 * self.spread.max(spread) / libm::sqrt(self.ratios.len() as f64)
    }
}

/// Merges neighbours, the most similar first, until all differ clearly. `spread` is that of trains within one part.
fn merged(mut parts: Vec<Part>, spread: f64) -> Vec<Part> {
    while parts.len() > 1 {
        let far = |pair: &[Part]| {
            let by = libm::log(pair[0].middle() / pair[1].middle()).abs();
            let errors = [pair[0].error(spread), pair[1].error(spread)];
            let error = libm::sqrt(errors[0] * errors[0] + errors[1] * errors[1]);
            let few = pair.iter().any(|part| part.ratios.len() < FEWEST);
            (by / error, by < CLOSE || few || pair[0].overlaps(&pair[1]))
        };
        let closest = parts
            .windows(2)
            .map(far)
            .enumerate()
            .filter(|(_, (sigmas, alike))| *sigmas < APART || *alike)
            .min_by(|(_, one), (_, other)| one.0.total_cmp(&other.0));
        let Some((at, _)) = closest else { break };
        let next = parts.remove(at + 1);
        parts[at].ratios.extend(next.ratios);
    }
    parts
}
