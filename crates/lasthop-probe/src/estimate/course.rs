//! The rate over time, from the dispersion of the stream's trains.

use std::collections::BTreeMap;

use super::{Log, Packet, Purpose, median, quantile};

/// A rate from a time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateFrom {
    /// Seconds by the sender's clock.
    pub at: f64,
    /// Bits per second.
    pub rate: f64,
}

/// What the trains say of the rate over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// The rate step by step; one step where it is constant.
    pub steps: Vec<RateFrom>,
    /// Least and greatest rate.
    pub range: [f64; 2],
    /// Mean over time.
    pub mean: f64,
    /// Share of the trains that arrived in less than half of the time that others took then: something held their first packets up.
    pub compressed: f64,
    /// Share of the time in which the rate was clearly another than the one that lasted longest.
    pub apart: f64,
}

/// Trains of the stream are sent within so many seconds a packet.
const TOGETHER: f64 = 0.4e-3;
/// Seconds that a train takes at the least, to tell more of the link than of the receiver's clock.
const LEAST: f64 = 0.35e-3;
/// Behind a load, a bucket may be empty for so many seconds.
const REFILLS: f64 = 0.7;
/// Trains of a bin, on average, and the bins' lengths.
const PER_BIN: f64 = 6.0;
const BINS: [f64; 2] = [0.2, 2.0];
/// Trains that tell a course.
const ENOUGH: usize = 60;
/// Bins belong together where their rates are so close, or are not told apart.
const CLOSE: f64 = 0.12;
const APART: f64 = 4.0;
/// Trains that a part has at the least.
const FEWEST: usize = 8;
/// A rate that is another for so small a share of the time may be an end of the path that stalled.
const BRIEF: f64 = 0.02;
/// The same for a time that is no more than this share, and was there once.
const ONCE: f64 = 0.15;
/// A rate varies that changes by so much.
const CHANGES: f64 = 1.25;

/// A train's time for a bit, and when it was sent.
#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    size: u16,
    per_bit: f64,
}

/// Trains of the stream all packets of which arrived, but not while the other direction was `busy`, in the receiver's seconds.
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

/// Seconds in which trains of two sizes meet the same rate, and how many such times tell how their dispersions compare.
const TOGETHER_FOR: f64 = 0.5;
const PAIRS: usize = 3;

/// What a bit takes in trains of each size, at one rate: a frame takes time beside its bytes, so sizes are compared where they met the same rate.
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

/// The times in which a direction's loads were sent or under way, in its sender's seconds: those of the other direction's receiver.
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

/// The course of a direction, but for times in which the other is `busy`: both may share a medium. `None` where too few trains tell anything.
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
    // How much trains of one bin differ, of all bins.
    let mut bins: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (at, ratio) in &ratios {
        bins.entry(((at - first) / bin) as u64).or_default().push(*ratio);
    }
    let (mut parts, mut close) = (Vec::new(), 0);
    for (number, mut all) in bins {
        let Some(middle) = median(&mut all) else { continue };
        // Against those of the same time: a rate that varies compresses nothing.
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
    /// Whether the rate varies.
    pub fn varies(&self) -> bool {
        self.changes() && self.apart > BRIEF && !self.once()
    }

    /// Whether the rate was another for a while, once, and then as before: a bucket that was empty looks the same.
    pub fn once(&self) -> bool {
        self.changes() && self.steps.len() <= 3 && (BRIEF..ONCE).contains(&self.apart)
    }

    /// Whether the rate was another once, be it ever so briefly.
    pub fn changes(&self) -> bool {
        self.steps.len() > 1 && self.range[1] > CHANGES * self.range[0]
    }

    /// The rate at a time.
    pub fn rate_at(&self, at: f64) -> f64 {
        let before = self.steps.iter().take_while(|step| step.at <= at).last();
        before.or(self.steps.first()).map_or(self.mean, |step| step.rate)
    }
}

/// A time in which the rate is the same.
struct Part {
    from: f64,
    ratios: Vec<f64>,
    spread: f64,
}

impl Part {
    fn middle(&self) -> f64 {
        median(&mut self.ratios.clone()).unwrap_or(1.0).max(1e-3)
    }

    /// Whether the middle halves of both meet: then some trains are apart, not all.
    fn overlaps(&self, other: &Self) -> bool {
        let quarter = |part: &Self, share| quantile(&mut part.ratios.clone(), share).unwrap_or(1.0);
        quarter(self, 0.25) <= quarter(other, 0.75) && quarter(other, 0.25) <= quarter(self, 0.75)
    }

    /// Relative standard error of the middle.
    fn error(&self, spread: f64) -> f64 {
        1.25 * self.spread.max(spread) / libm::sqrt(self.ratios.len() as f64)
    }
}

/// Joins neighbours, those first that are closest, until all differ clearly. `spread` is that of trains of one part.
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
