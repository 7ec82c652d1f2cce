//! Families of models, each fitted by maximum likelihood.

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::time::Duration;

use crate::optimum::{Corner, Function, maximise, standard_errors};
use crate::parallel::{Stop, map};
use crate::states::{ByPacket, ByTime, Timed};
use crate::trace::{Clock, LossTrace, Sizes, Tally};

/// A family of channel models, named as scenarios name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// No losses.
    None,
    /// Independent losses with the same probability for each packet.
    Uniform,
    /// Errors at exponentially distributed distances in bytes: longer packets are lost more often.
    Exponential,
    /// Two states that may change with every packet.
    TwoStatePacket,
    /// Two states with durations in time.
    TwoState,
    /// Errors that each destroy a number of consecutive packets.
    Burst,
}

impl Family {
    /// Returns the name as in `model = "..."` of a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Uniform => "uniform",
            Self::Exponential => "exponential",
            Self::TwoStatePacket => "two-state-packet",
            Self::TwoState => "two-state",
            Self::Burst => "burst",
        }
    }
}

/// Unit of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Probability, 0 to 1.
    Share,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
}

/// Parameter of a fitted model, named as the scenario's key.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Parameter {
    /// Key of the scenario.
    pub key: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Maximum-likelihood value.
    pub value: f64,
    /// 95 % interval; `None` if the parameter was not fitted or the trace does not determine it.
    pub interval: Option<[f64; 2]>,
}

/// Most likely model of a family.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Fit {
    /// Family.
    pub family: Family,
    /// Model, as the simulator takes it.
    #[serde(skip)]
    pub spec: ErrorSpec,
    /// Parameters of the model.
    pub parameters: Vec<Parameter>,
    /// Number of fitted parameters.
    pub free: u32,
    /// Logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Akaike's information criterion, `2 free - 2 log_likelihood`.
    pub aic: f64,
}

impl Fit {
    fn new(family: Family, spec: ErrorSpec, parameters: Vec<Parameter>, free: u32, log_likelihood: f64) -> Self {
        Self { family, spec, parameters, free, log_likelihood, aic: 2.0 * f64::from(free) - 2.0 * log_likelihood }
    }

    /// Returns the model of a link without losses.
    pub(crate) fn none() -> Self {
        Self::new(Family::None, ErrorSpec::None, Vec::new(), 0, 0.0)
    }

    /// Returns a model that was not compared by likelihood.
    pub(crate) fn untested(family: Family, spec: ErrorSpec, parameters: Vec<Parameter>) -> Self {
        Self { family, spec, parameters, free: 0, log_likelihood: 0.0, aic: 0.0 }
    }

    /// Returns the parameter `key`.
    pub fn parameter(&self, key: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }
}

/// Likelihood that is NaN once `stop` returns true.
struct Wanted<'s, F> {
    stop: Stop<'s>,
    likelihoods: F,
    is_parallel: bool,
}

impl<F: Fn(&[Vec<f64>]) -> Vec<f64>> Function for Wanted<'_, F> {
    fn values(&self, points: &[Vec<f64>]) -> Vec<f64> {
        if (self.stop)() { vec![f64::NAN; points.len()] } else { (self.likelihoods)(points) }
    }

    fn is_parallel(&self) -> bool {
        self.is_parallel
    }
}

/// 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Fits all families. Once `stop` returns true, likelihoods are NaN, which ends every search.
pub(crate) fn fits(trace: &LossTrace, stop: Stop<'_>) -> Vec<Fit> {
    if trace.lost() == 0 {
        return vec![Fit::none()];
    }
    let mut fits = vec![uniform(trace)];
    if trace.lost() == trace.len() as u64 {
        return fits;
    }
    let families = [exponential, two_state_packet, two_state, burst];
    fits.extend(map(families.len(), stop, |at, stop| families[at](trace, stop)).into_iter().flatten());
    fits.retain(|fit| fit.aic.is_finite());
    fits
}

/// Returns Wilson's 95 % interval for `hits` in `of`.
fn wilson(hits: f64, of: f64) -> [f64; 2] {
    let p = hits / of;
    let z2 = Z * Z;
    let middle = (p + z2 / (2.0 * of)) / (1.0 + z2 / of);
    let half = Z / (1.0 + z2 / of) * libm::sqrt(p * (1.0 - p) / of + z2 / (4.0 * of * of));
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// Returns `hits ln p + misses ln (1 - p)`, with 0 ln 0 = 0.
fn binomial(p: f64, hits: f64, misses: f64) -> f64 {
    let part = |count: f64, log: f64| if count == 0.0 { 0.0 } else { count * log };
    part(hits, libm::log(p)) + part(misses, libm::log1p(-p))
}

pub(crate) fn share(key: &'static str, value: f64, interval: Option<[f64; 2]>) -> Parameter {
    Parameter { key, unit: Unit::Share, value, interval }
}

fn uniform(trace: &LossTrace) -> Fit {
    uniform_of(trace.lost() as f64, trace.len() as f64)
}

/// Fits the uniform model to `lost` packets in `all`.
pub(crate) fn uniform_of(lost: f64, all: f64) -> Fit {
    let p = lost / all;
    let spec = ErrorSpec::Uniform { frame_loss: p, frames: Frames::All };
    Fit::new(
        Family::Uniform,
        spec,
        vec![share("frame_loss", p, Some(wilson(lost, all)))],
        1,
        binomial(p, lost, all - lost),
    )
}

/// Fits the exponential model, which differs from the uniform one only if packets have several sizes.
fn exponential(trace: &LossTrace, stop: Stop<'_>) -> Option<Fit> {
    if trace.sizes() == Sizes::One {
        return None;
    }
    let (parameter, log_likelihood) = distance(&trace.tallies(), stop);
    let spec = ErrorSpec::Exponential { mean_bytes: parameter.value, frames: Frames::All };
    Some(Fit::new(Family::Exponential, spec, vec![parameter], 1, log_likelihood))
}

/// Returns the mean distance in bytes between the errors that destroyed the lost ones of `packets`, and its
/// log-likelihood.
fn distance(packets: &[Tally], stop: Stop<'_>) -> (Parameter, f64) {
    let likelihoods = |points: &[Vec<f64>]| {
        points.iter().map(|at| packets.iter().map(|tally| of_size(tally, libm::exp(at[0]))).sum()).collect()
    };
    let likelihood = Wanted { stop, likelihoods, is_parallel: false };
    let bytes: f64 = packets.iter().map(|tally| f64::from(tally.bytes) * tally.packets() as f64).sum();
    let lost = packets.iter().map(|tally| tally.lost).sum::<u64>().max(1) as f64;
    let best = maximise(&likelihood, &[libm::log(bytes / lost)]);
    let interval = intervals(&likelihood, &best)[0].map(|ends| ends.map(libm::exp));
    let value = libm::exp(best.at[0]);
    (Parameter { key: "mean_bytes", unit: Unit::Bytes, value, interval }, best.value)
}

/// Returns the log-likelihood of the packets of one size if errors are `mean` bytes apart.
fn of_size(packets: &Tally, mean: f64) -> f64 {
    let errors = f64::from(packets.bytes) / mean;
    let part = |count: u64, log: f64| if count == 0 { 0.0 } else { count as f64 * log };
    part(packets.lost, libm::log(-libm::expm1(-errors))) + part(packets.arrived, -errors)
}

/// Minimum extent of an interval, as a factor to either side, that carries no information; for probabilities, odds.
const NOTHING: f64 = 1e3;

/// Returns 95 % intervals in the coordinates of the search, which are logarithms and logits; `None` for parameters that
/// the trace does not determine.
fn intervals(likelihood: &impl Function, top: &Corner) -> Vec<Option<[f64; 2]>> {
    let errors = standard_errors(likelihood, top);
    top.at
        .iter()
        .zip(errors)
        .map(|(at, error)| {
            error.filter(|error| Z * error < libm::log(NOTHING)).map(|error| [at - Z * error, at + Z * error])
        })
        .collect()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-6, 1.0 - 1e-6);
    libm::log(p / (1.0 - p))
}

/// Number of state transitions if the state is observed: a lost packet means bad.
#[derive(Clone, Copy, Default)]
struct Transitions {
    from_good: f64,
    to_bad: f64,
    from_bad: f64,
    to_good: f64,
}

impl Transitions {
    fn of(trace: &LossTrace) -> Self {
        let mut counts = Self::default();
        for (lost, length) in trace.bits().runs() {
            // The last packet of a run is followed by the first one of the next.
            let [from, changes] = if lost {
                [&mut counts.from_bad, &mut counts.to_good]
            } else {
                [&mut counts.from_good, &mut counts.to_bad]
            };
            *from += f64::from(length);
            *changes += 1.0;
        }
        // No packet follows the last one.
        if let Some(last) = trace.len().checked_sub(1) {
            let [from, changes] = if trace.bits().get(last) {
                [&mut counts.from_bad, &mut counts.to_good]
            } else {
                [&mut counts.from_good, &mut counts.to_bad]
            };
            *from -= 1.0;
            *changes -= 1.0;
        }
        counts
    }
}

/// Fits Gilbert's and Elliott's models with two, three and four parameters; returns the best by AIC.
fn two_state_packet(trace: &LossTrace, stop: Stop<'_>) -> Option<Fit> {
    let counts = Transitions::of(trace);
    if counts.to_bad == 0.0 || counts.to_good == 0.0 {
        return None;
    }
    let steps = ByPacket::steps(trace.bits());
    let simple = ByPacket {
        good_to_bad: counts.to_bad / counts.from_good,
        bad_to_good: counts.to_good / counts.from_bad,
        good_loss: 0.0,
        bad_loss: 1.0,
    };
    let known =
        [Some(wilson(counts.to_bad, counts.from_good)), Some(wilson(counts.to_good, counts.from_bad)), None, None];
    let first = packet_fit(simple, known, 2, ByPacket::log_likelihoods(&[simple], &steps)[0]);
    let model = |at: &[f64]| ByPacket {
        good_to_bad: logistic(at[0]),
        bad_to_good: logistic(at[1]),
        bad_loss: logistic(at[2]),
        good_loss: at.get(3).map_or(0.0, |&x| logistic(x)),
    };
    let likelihoods = |points: &[Vec<f64>]| {
        let models: Vec<ByPacket> = points.iter().map(|at| model(at)).collect();
        ByPacket::log_likelihoods(&models, &steps)
    };
    let likelihood = Wanted { stop, likelihoods, is_parallel: true };
    // A bad state that does not lose all packets lasts longer than a run of losses.
    let mut start = vec![logit(simple.good_to_bad / 2.0), logit(simple.bad_to_good / 2.0), logit(0.5)];
    let third = maximise(&likelihood, &start);
    start.clone_from(&third.at);
    start.push(logit(trace.lost() as f64 / trace.len() as f64 / 10.0));
    let fourth = maximise(&likelihood, &start);
    let hidden = [third, fourth].into_iter().map(|best| {
        let ends = intervals(&likelihood, &best);
        let interval = |at: usize| ends.get(at).copied().flatten().map(|ends: [f64; 2]| ends.map(logistic));
        let known = [interval(0), interval(1), interval(3), interval(2)];
        packet_fit(model(&best.at), known, best.at.len() as u32, best.value)
    });
    best_of(std::iter::once(first).chain(hidden))
}

/// Converts a model to a fit. `intervals` are in the order of the model's fields. The state that loses more is called
/// bad.
fn packet_fit(model: ByPacket, intervals: [Option<[f64; 2]>; 4], free: u32, log_likelihood: f64) -> Fit {
    let (model, [to_bad, to_good, good, bad]) = if model.good_loss > model.bad_loss {
        let swapped = ByPacket {
            good_to_bad: model.bad_to_good,
            bad_to_good: model.good_to_bad,
            good_loss: model.bad_loss,
            bad_loss: model.good_loss,
        };
        (swapped, [intervals[1], intervals[0], intervals[3], intervals[2]])
    } else {
        (model, intervals)
    };
    let ByPacket { good_to_bad, bad_to_good, good_loss, bad_loss } = model;
    let spec = ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss, bad_loss, frames: Frames::All };
    let parameters = vec![
        share("good_to_bad", good_to_bad, to_bad),
        share("bad_to_good", bad_to_good, to_good),
        share("good_loss", good_loss, good),
        share("bad_loss", bad_loss, bad),
    ];
    Fit::new(Family::TwoStatePacket, spec, parameters, free, log_likelihood)
}

/// Returns the fit with the least AIC; of similar fits, the simpler one.
fn best_of(fits: impl Iterator<Item = Fit>) -> Option<Fit> {
    fits.filter(|fit| fit.aic.is_finite()).fold(None, |best: Option<Fit>, fit| match best {
        Some(best) if fit.aic >= best.aic - crate::CLEARLY_BETTER => Some(best),
        _ => Some(fit),
    })
}

/// Expected errors per bit if all packets are lost: beyond this every bit is hit, to the last digit of a double.
pub(crate) const ALL: f64 = 1e3;

/// Fits states in time with two, three and four parameters; returns the best by AIC.
fn two_state(trace: &LossTrace, stop: Stop<'_>) -> Option<Fit> {
    let counts = Transitions::of(trace);
    if trace.clock() == Clock::Unknown || counts.to_bad == 0.0 || counts.to_good == 0.0 {
        return None;
    }
    let span = trace.duration().as_secs_f64();
    let spacing = (span / trace.len() as f64).max(1e-9);
    let bytes: f64 = trace.tallies().iter().map(|tally| f64::from(tally.bytes) * tally.packets() as f64).sum();
    let mean_bits = 8.0 * bytes / trace.len() as f64;
    let model = |at: &[f64]| ByTime {
        good: libm::exp(at[0]),
        bad: libm::exp(at[1]),
        bad_errors: at.get(2).map_or(ALL, |&x| libm::exp(x).min(ALL)),
        good_errors: at.get(3).map_or(0.0, |&x| libm::exp(x).min(ALL)),
    };
    let packets = Timed::of(trace);
    let likelihoods = |points: &[Vec<f64>]| {
        let models: Vec<ByTime> = points.iter().map(|at| model(at)).collect();
        ByTime::log_likelihoods(&models, &packets)
    };
    let likelihood = Wanted { stop, likelihoods, is_parallel: packets.has_steps() };
    let mut start = vec![
        libm::log(spacing * counts.from_good / counts.to_bad),
        libm::log((spacing * counts.from_bad / counts.to_good).max(spacing / 2.0)),
    ];
    let mut fits = Vec::new();
    for next in [Some(libm::log(2.0 / mean_bits)), Some(libm::log(1e-4 / mean_bits)), None] {
        let best = maximise(&likelihood, &start);
        let ends = intervals(&likelihood, &best);
        fits.push(time_fit(model(&best.at), &ends, best.at.len() as u32, best.value));
        start = best.at;
        start.extend(next);
    }
    best_of(fits.into_iter())
}

/// Converts a given model with states in time to a fit without intervals.
pub(crate) fn of_time(model: ByTime, log_likelihood: f64) -> Fit {
    time_fit(model, &[], 2, log_likelihood)
}

fn time_fit(model: ByTime, ends: &[Option<[f64; 2]>], free: u32, log_likelihood: f64) -> Fit {
    let ends = |at: usize| ends.get(at).copied().flatten();
    let seconds = |key, value, ends: Option<[f64; 2]>| Parameter {
        key,
        unit: Unit::Seconds,
        value,
        interval: ends.map(|ends| ends.map(libm::exp)),
    };
    let rate = |errors: f64| -libm::expm1(-errors);
    let bits = |key, errors: f64, ends: Option<[f64; 2]>| {
        share(key, rate(errors), ends.map(|ends| ends.map(|end| rate(libm::exp(end)))))
    };
    let good = (model.good, model.good_errors, ends(0), ends(3));
    let bad = (model.bad, model.bad_errors, ends(1), ends(2));
    let (good, bad) = if good.1 > bad.1 { (bad, good) } else { (good, bad) };
    let spec = ErrorSpec::TwoStateTime {
        good: Duration::from_secs_f64(good.0),
        bad: Duration::from_secs_f64(bad.0),
        good_ber: rate(good.1),
        bad_ber: rate(bad.1),
    };
    let parameters = vec![
        seconds("good", good.0, good.2),
        seconds("bad", bad.0, bad.2),
        bits("good_ber", good.1, good.3),
        bits("bad_ber", bad.1, bad.3),
    ];
    Fit::new(Family::TwoState, spec, parameters, free, log_likelihood)
}

/// Fits runs of a constant length, of which several may adjoin. The first and the last run may be cut off by the
/// trace's ends.
fn burst(trace: &LossTrace, stop: Stop<'_>) -> Option<Fit> {
    let mut whole = trace.runs();
    if trace.bits().get(trace.len() - 1) {
        whole.pop();
    }
    if trace.bits().get(0) && !whole.is_empty() {
        whole.remove(0);
    }
    let divisor = whole.iter().copied().reduce(greatest_common_divisor)?;
    (2..=divisor)
        .filter(|length| divisor % length == 0)
        .map(|length| burst_of(trace, length, stop))
        .reduce(|best, fit| if fit.aic < best.aic { fit } else { best })
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn burst_of(trace: &LossTrace, length: u32, stop: Stop<'_>) -> Fit {
    // Count only packets that decide: those within a burst are lost in any case.
    let mut taken = 0;
    let deciding = trace.tallies_of(|lost| {
        if lost && taken > 0 {
            taken -= 1;
            return false;
        }
        taken = if lost { length - 1 } else { 0 };
        true
    });
    let (mean, log_likelihood) = distance(&deciding, stop);
    let spec = ErrorSpec::Burst { mean_bytes: mean.value, packets: length, frames: Frames::All };
    let packets = Parameter { key: "packets", unit: Unit::Packets, value: f64::from(length), interval: None };
    Fit::new(Family::Burst, spec, vec![mean, packets], 2, log_likelihood)
}
