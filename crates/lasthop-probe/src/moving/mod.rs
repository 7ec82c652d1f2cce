//! Rates that move: from trains of packets at known times to the rate over time, and to the family of models that
//! describes it.
//!
//! The statistics and their thresholds are described in `docs/notes/probe-moving.md`. All draws come from fixed seeds.

mod constant;
mod markov;
mod outages;
mod pattern;
mod repeat;
mod slots;
mod statistics;
mod steps;
mod trains;
mod words;

pub use markov::{Chain, State};
pub use outages::Outage;
pub use slots::SlotsFound;
pub use steps::Level;
pub use trains::{Paced, Train, loaded_rate, queued, train_rates, trains};

/// Minimum interval of trains in seconds.
pub const SHORTEST: f64 = 0.2;
/// Minimum number of trains for a statement on how the rate moves.
pub const ENOUGH: usize = 100;

/// Model family of a rate over time.
#[derive(Clone, PartialEq, Debug)]
pub enum Family {
    /// Constant rate.
    Constant,
    /// Slots of 15 s with a rate each, as Starlink has.
    Slots(SlotsFound),
    /// Packets arrive in aggregates, as over Wi-Fi; the mean number of packets in each.
    Aggregates(f64),
    /// Packets arrive at multiples of a transmission time interval, in seconds, as in LTE and 5G cells.
    Cell(f64),
    /// Few levels, each for a while.
    Steps(Vec<Level>),
    /// Markov chain in continuous time.
    Markov(Chain),
    /// None of these: only the measured rates describe it.
    Replay,
    /// Unknown.
    Unknown,
}

impl Family {
    /// Returns the name in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Slots(_) => "slots",
            Self::Aggregates(_) => "wifi",
            Self::Cell(_) => "cell",
            Self::Steps(_) => "steps",
            Self::Markov(_) => "markov",
            Self::Replay => "replay",
            Self::Unknown => "unknown",
        }
    }
}

/// Rate over time of one direction, and its family.
#[derive(Clone, PartialEq, Debug)]
pub struct Moving {
    /// Family.
    pub family: Family,
    /// Evidence for the family, or the reason why it is unknown; a clause.
    pub why: String,
    /// True if the family reproduces the measured rates; `None` if this could not be decided.
    pub fits: Option<bool>,
    /// Mean rate in bits per second, with the times without arrivals.
    pub mean: f64,
    /// 5th and 95th percentile of the trains' rates.
    pub range: [f64; 2],
    /// Mean time between changes in seconds.
    pub changes: Option<f64>,
    /// Times in which nothing arrived although packets were in flight.
    pub outages: Vec<Outage>,
    /// Number of trains with a rate.
    pub trains: usize,
    /// True if only overloads show the rate.
    pub by_loads: bool,
    /// True if the trains arrived as fast as they were sent: the rates are lower bounds.
    pub by_sender: bool,
}

/// Rate of a train: time in seconds, natural logarithm of the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    at: f64,
    log: f64,
}

/// Minimum ratio of the trains' median rate to that of overloads at which link layers deliver short trains at once.
const AT_ONCE: f64 = 1.5;

/// Recognises the family of the rates of `trains`, in order of time, beside the rates of overloads (`loads`). `None` if
/// no train has a rate.
pub fn recognise(trains: &[Train], loads: &[f64]) -> Option<Moving> {
    let of = |train: &Train| train.rate.map(|rate| Sample { at: train.at, log: libm::log(rate) });
    let samples: Vec<Sample> = trains.iter().filter_map(of).collect();
    let mut rates: Vec<f64> = samples.iter().map(|sample| libm::exp(sample.log)).collect();
    let range = [0.05, 0.95].map(|share| crate::estimate::quantile(&mut rates, share));
    let [Some(low), Some(high)] = range else { return None };
    let middle = crate::estimate::quantile(&mut rates, 0.5)?;
    let outages = outages::outages(trains);
    let paced = trains.iter().filter(|train| train.paced == Paced::BySender).count();
    let mut moving = Moving {
        family: Family::Unknown,
        why: String::new(),
        fits: None,
        mean: outages::mean(&samples, &outages),
        range: [low, high],
        changes: None,
        trains: samples.len(),
        by_loads: false,
        by_sender: 2 * paced > samples.len(),
        outages,
    };
    let most = loads.iter().copied().fold(0.0, f64::max);
    let pattern = pattern::pattern(trains);
    let usual = match pattern {
        Some((Family::Aggregates(_), _)) => middle,
        // A cell's scheduler prefers a user that was idle, as the probe is between trains: it serves some at once.
        Some((Family::Cell(_), _)) => moving.mean,
        _ => low,
    };
    // An overload may have met a time of a low rate, which some trains met as well.
    if most > 0.0 && low.max(usual) > AT_ONCE * most {
        at_once(&mut moving, pattern, loads);
        return Some(moving);
    }
    if moving.by_sender {
        moving.why = "the trains arrived as fast as they were sent, so the path may be faster".to_owned();
        return Some(moving);
    }
    if samples.len() < ENOUGH {
        moving.why = format!("{} trains are too few to say how the rate moves; {ENOUGH} suffice", samples.len());
        return Some(moving);
    }
    decide(&mut moving, trains, &samples, pattern);
    Some(moving)
}

/// Describes a path that delivers the packets of a train at once: only overloads show its rate.
fn at_once(moving: &mut Moving, pattern: Option<(Family, String)>, loads: &[f64]) {
    let ends = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| loads.iter().copied().reduce(pick));
    moving.mean = statistics::mean(loads.iter().copied());
    moving.range = ends.map(|end| end.unwrap_or(moving.mean));
    (moving.by_loads, moving.by_sender) = (true, false);
    moving.outages.clear();
    moving.why = "trains arrive faster than overloads, as link layers that aggregate frames, and schedulers of cells, deliver them; measure without --moving"
        .to_owned();
    if let Some((family @ (Family::Aggregates(_) | Family::Cell(_)), why)) = pattern {
        moving.why = format!("{why}; {}", moving.why);
        moving.family = family;
    }
}

/// Returns how a repetition sends such trains; the noise is that of the halves of a train.
fn repeated(trains: &[Train]) -> repeat::Repeated {
    let (packet, sent) = trains.first().map_or((1400, 16), |train| (train.size.into(), train.sent.max(3)));
    let halves = trains.iter().filter_map(|train| train.halves);
    let mut apart: Vec<f64> = halves.map(|[one, other]| libm::log(one / other).abs()).collect();
    // The rate of a whole train has a quarter to a twelfth of the variance of the halves' ratio.
    let noise = 1.483 * crate::estimate::median(&mut apart).unwrap_or(0.0) / libm::sqrt(8.0);
    repeat::Repeated { packet, rest: packet * u32::from(sent - 2), noise }
}

/// Asks in the order of the families; the first that applies is chosen.
fn decide(moving: &mut Moving, trains: &[Train], samples: &[Sample], pattern: Option<(Family, String)>) {
    let constant = constant::constant(trains, samples);
    if let Some((family, why)) = pattern.filter(|_| !constant.is_constant || constant.by_halves) {
        (moving.family, moving.why) = (family, why);
        return;
    }
    if constant.is_constant {
        (moving.family, moving.fits) = (Family::Constant, Some(true));
        moving.why = constant.why;
        return;
    }
    let repeated = repeated(trains);
    let slots = slots::slots(samples, &moving.outages, repeated);
    if let slots::Verdict::Slots(found, why) = slots {
        moving.changes = Some(slots::PERIOD);
        (moving.fits, moving.why) = (found.fits, why);
        moving.family = Family::Slots(found);
        return;
    }
    if let Some((levels, why)) = steps::steps(samples) {
        moving.changes = Some(steps::mean_time(&levels));
        (moving.family, moving.fits, moving.why) = (Family::Steps(levels), Some(true), why);
        return;
    }
    let (chain, why) = markov::markov(samples, repeated);
    if let slots::Verdict::Perhaps(why) = slots {
        moving.why = why;
        return;
    }
    moving.why = why;
    match chain {
        Some(chain) => {
            moving.changes = Some(chain.mean_time());
            (moving.family, moving.fits) = (Family::Markov(chain), Some(true));
        }
        None => moving.family = Family::Replay,
    }
}

#[cfg(test)]
mod tests;
