//! Slots of 15 s: the link pauses and changes its rate at each boundary, as Starlink does everywhere at the same
//! seconds.

use lasthop_proto::random::Root;

use super::outages::Outage;
use super::statistics::{REPEATS, mean, variance};
use super::{Sample, repeat};
use crate::estimate::{median, quantile};

/// Interval between boundaries in seconds.
pub(super) const PERIOD: f64 = 15.0;
/// Number of phases that are compared.
const PHASES: usize = 200;
/// Time around a boundary, in seconds, in which a pause or a low rate belongs to it.
const AROUND: [f64; 2] = [-0.15, 0.55];
/// Time on each side of a train with which its rate is compared, and minimum depth of a dip: of the logarithm, and in
/// standard deviations.
const NEAR: f64 = 2.0;
const DEEP: f64 = 0.25;
const SIGMAS: f64 = 4.0;
/// Time within which dips are one event.
const ONE: f64 = 0.7;
/// Minimum number of boundaries with an event, and minimum share of all.
const LEAST: usize = 3;
const MOST_OF: f64 = 0.6;
/// Maximum probability of as many events at boundaries by chance; if each boundary has one, and if not.
const MAYBE: f64 = 0.05;
const CHANCE: f64 = 0.01;
/// Maximum rank of the variance between slots among the shifted phases, as a share.
const RANK: f64 = 0.1;
/// Values that trains cannot show: times without transmission (in seconds), of public Starlink traces.
const OUTAGE: [f64; 2] = [0.06, 0.135];

/// Slots that were found.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotsFound {
    /// Interval between boundaries in seconds.
    pub period: f64,
    /// Time of the first boundary in seconds.
    pub first: f64,
    /// Mean rate away from boundaries in bits per second.
    pub mean: f64,
    /// Standard deviation of the logarithm of the slots' rates, and of the rate within a slot.
    pub spread: f64,
    /// Standard deviation within a slot.
    pub inner: f64,
    /// Minimum and maximum time without transmission at a boundary, in seconds.
    pub outage: [f64; 2],
    /// False if too few trains met such a time: `outage` is then an assumption.
    pub outage_seen: bool,
    /// Number of slots that were seen.
    pub slots: usize,
    /// True if simulated slots reproduce the trains' rates.
    pub fits: Option<bool>,
}

/// Decision.
pub(super) enum Verdict {
    Slots(SlotsFound, String),
    /// Undecided, with the reason.
    Perhaps(String),
    No,
}

/// Returns the times of events: outages, and rates far below those nearby.
fn events(samples: &[Sample], outages: &[Outage]) -> Vec<f64> {
    let nearby = |at: f64| {
        let near = |sample: &&Sample| (sample.at - at).abs() <= NEAR;
        median(&mut samples.iter().filter(near).map(|sample| sample.log).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let apart: Vec<f64> = samples.iter().map(|sample| sample.log - nearby(sample.at)).collect();
    let mut sizes: Vec<f64> = apart.iter().map(|apart| apart.abs()).collect();
    let deep = DEEP.max(SIGMAS * 1.483 * median(&mut sizes).unwrap_or(0.0));
    let dips = samples.iter().zip(&apart).filter(|(_, apart)| **apart < -deep).map(|(sample, _)| sample.at);
    let mut all: Vec<f64> = dips.chain(outages.iter().map(|outage| outage.from)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|later, first| *later - *first < ONE);
    all
}

/// Returns the boundaries for a phase, within which everything can be seen.
fn boundaries(phase: f64, [from, to]: [f64; 2]) -> impl Iterator<Item = f64> {
    let first = libm::ceil((from - AROUND[0] - phase) / PERIOD);
    (0..).map(move |number| phase + PERIOD * (first + f64::from(number))).take_while(move |at| at + AROUND[1] <= to)
}

/// Returns the number of boundaries, and of those with an event.
fn hits(events: &[f64], phase: f64, span: [f64; 2]) -> (usize, usize) {
    let has = |at: &f64| events.iter().any(|event| (AROUND[0]..AROUND[1]).contains(&(event - at)));
    let all = boundaries(phase, span);
    all.fold((0, 0), |(all, hit), at| (all + 1, hit + usize::from(has(&at))))
}

/// Returns the best phase, with the numbers of boundaries and of those with an event.
fn best(events: &[f64], span: [f64; 2]) -> (f64, usize, usize) {
    let of = |number: usize| {
        let phase = PERIOD * number as f64 / PHASES as f64;
        let (all, hit) = hits(events, phase, span);
        (phase, all, hit)
    };
    let better = |one: (f64, usize, usize), other: (f64, usize, usize)| if other.2 > one.2 { other } else { one };
    (1..PHASES).map(of).fold(of(0), better)
}

/// Returns the variance between slots over that within, at a phase.
fn ratio(samples: &[Sample], phase: f64) -> f64 {
    let slots = by_slot(samples, phase);
    if slots.len() < 2 {
        return 0.0;
    }
    let all = mean(slots.iter().flatten().copied());
    let sizes = slots.iter().map(|slot| slot.len() as f64);
    let means: Vec<f64> = slots.iter().map(|slot| mean(slot.iter().copied())).collect();
    let between: f64 = sizes.zip(&means).map(|(size, mean)| size * (mean - all) * (mean - all)).sum();
    let within: f64 = slots.iter().map(|slot| variance(slot) * (slot.len() as f64 - 1.0)).sum();
    if within > 0.0 { between / within } else { 0.0 }
}

/// Returns the logarithms of the rates of each slot, away from boundaries.
fn by_slot(samples: &[Sample], phase: f64) -> Vec<Vec<f64>> {
    let mut slots: Vec<(i64, Vec<f64>)> = Vec::new();
    for sample in samples {
        let since = (sample.at - phase) / PERIOD;
        let within = (since - libm::floor(since)) * PERIOD;
        if !(AROUND[1]..=PERIOD + AROUND[0]).contains(&within) {
            continue;
        }
        let number = libm::floor(since) as i64;
        match slots.last_mut() {
            Some((last, logs)) if *last == number => logs.push(sample.log),
            _ => slots.push((number, vec![sample.log])),
        }
    }
    slots.into_iter().map(|(_, logs)| logs).filter(|logs| logs.len() > 2).collect()
}

/// Looks for slots.
pub(super) fn slots(samples: &[Sample], outages: &[Outage], trains: repeat::Repeated) -> Verdict {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Verdict::No };
    let span = [first.at, last.at];
    let events = events(samples, outages);
    let (phase, all, hit) = best(&events, span);
    if hit < 2 || all < 2 {
        return Verdict::No;
    }
    let mut draws = Root(1).stream("probe/moving/slots");
    let as_many = (0..REPEATS).filter(|_| {
        let mut drawn: Vec<f64> = (0..events.len()).map(|_| span[0] + draws.uniform() * (span[1] - span[0])).collect();
        drawn.sort_by(f64::total_cmp);
        let (_, others, hits) = best(&drawn, span);
        hits as f64 / others as f64 >= hit as f64 / all as f64 && hits >= hit.min(others)
    });
    let chance = (as_many.count() as f64 + 1.0) / (REPEATS as f64 + 1.0);
    // The events say where the boundaries are more precisely than the phases do.
    let at_boundary = |event: &f64| {
        let after = (event - phase) - PERIOD * libm::round((event - phase) / PERIOD);
        (AROUND[0]..AROUND[1]).contains(&after).then_some(after)
    };
    let earliest = events.iter().filter_map(at_boundary).fold(f64::INFINITY, f64::min);
    let phase = phase + if earliest.is_finite() { earliest } else { 0.0 };
    let here = ratio(samples, phase);
    let larger = (0..PHASES).filter(|number| ratio(samples, PERIOD * *number as f64 / PHASES as f64) > here).count();
    let rank = larger as f64 / PHASES as f64;
    let told = format!(
        "{hit} of {all} boundaries {PERIOD} s apart show a pause or a low rate, p = {chance:.3}; variance between slots over within larger at {:.0} % of the shifted phases",
        100.0 * rank
    );
    let is_clear = rank < RANK && (chance < CHANCE || chance < MAYBE && hit == all);
    if is_clear && hit >= LEAST && hit as f64 >= MOST_OF * all as f64 {
        let mut found = found(samples, outages, phase, span[0]);
        let spec = repeat::slots(&found);
        let departs = repeat::departures(samples, &spec, trains);
        found.fits = Some(departs.is_empty());
        let beside = match departs.is_empty() {
            true => "; a hundred simulated repetitions agree".to_owned(),
            false => format!("; differs in {} from a hundred simulated repetitions", departs.join(", ")),
        };
        return Verdict::Slots(found, told + &beside);
    }
    if chance < MAYBE || hit == all && rank < RANK {
        return Verdict::Perhaps(format!("it may have slots of {PERIOD} s: {told}; measure longer with --seconds"));
    }
    Verdict::No
}

/// Estimates the parameters; `from` is the start of the measurement.
fn found(samples: &[Sample], outages: &[Outage], phase: f64, from: f64) -> SlotsFound {
    let slots = by_slot(samples, phase);
    let means: Vec<f64> = slots.iter().map(|slot| mean(slot.iter().copied())).collect();
    let inner = libm::sqrt(mean(slots.iter().map(|slot| variance(slot))));
    let after = |outage: &Outage| {
        let boundary = phase + PERIOD * libm::round((outage.from - phase) / PERIOD);
        ((AROUND[0]..AROUND[1]).contains(&(outage.from - boundary))).then_some(outage.until - boundary)
    };
    let mut lasted: Vec<f64> = outages.iter().filter_map(after).filter(|lasts| *lasts < 1.0).collect();
    let outage_seen = lasted.len() >= 2;
    let ends = [0.0, 1.0].map(|share| quantile(&mut lasted, share).unwrap_or(0.0));
    let rates = slots.iter().flatten().map(|log| libm::exp(*log));
    SlotsFound {
        period: PERIOD,
        first: (phase - from).rem_euclid(PERIOD),
        mean: mean(rates),
        spread: libm::sqrt(variance(&means)),
        inner,
        outage: if outage_seen { ends } else { OUTAGE },
        outage_seen,
        slots: slots.len(),
        fits: None,
    }
}
