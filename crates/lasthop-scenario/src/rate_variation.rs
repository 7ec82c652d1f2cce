//! Variation of a link's rate: `rate_variation = { model = "steps", steps = [{ at = "0 s", rate = "20 Mbps" }, ...] }`.

use std::sync::Arc;

use lasthop_proto::rate::{
    AcmError, AcmSpec, CellReplay, Fade, Hold, MOST_STATES, MarkovSpec, Offset, Opportunities, RateSeries,
    RateSlotsSpec, RateSpec, RateState, RateStep, Wrap, acm, ramps,
};
use lasthop_proto::time::Duration;
use lasthop_sim::network::Rate;

use crate::document::{Data, quote};
use crate::files::{BadTrace, Files};
use crate::key::Key;
use crate::reader::{Reader, Standing, Value};
use crate::units::{BitRate, Fraction};
use crate::values::{Drawn, List, Number, Or, Positive, Text, Whole, choices, named_models};
use crate::{Error, Problem};

/// A model with its name in scenarios.
#[derive(Debug)]
struct Model {
    name: &'static str,
    /// Keys, besides `model`.
    keys: &'static [&'static str],
    read: fn(&Reader<'_>, &Around<'_>) -> Result<RateSpec, Error>,
}

/// Surroundings to which a model may refer.
pub(crate) struct Around<'a> {
    pub files: &'a Files,
    /// The link's rate, in the direction to which the table refers.
    pub rate: Rate,
}

keys! {
    /// Keys of a varying rate.
    pub(crate) Keys {
        model;
        /// list | required | increasing times with rates; the first step at `"0 s"`; at most 10,000
        steps, points;
        /// time | of `"ramp"` the last point's | end of the series; required for `"steps"` unless `wrap` is `"hold"`
        length;
        /// time | {} | step that approximates a ramp, at least 100 us
        grid: Duration = Duration::from_millis(10);
        /// path | required | `"csv"`: lines of seconds, from 0, and Mbps (`12.5 30` or `12.5,30`); the last one ends the
        /// series; header `t_s`, `rate_mbps` optional. `"mahimahi"`: lines of whole milliseconds; `"cellreplay"`: the same,
        /// of a heavy trace
        file;
        /// | {} | of the file
        format: Format = Format::Csv;
        /// path | required | of `"cellreplay"`: light trace
        light;
        /// time | {} | of `"cellreplay"`: idle time after which a train begins, in whole milliseconds
        gap: Duration = Duration::ZERO;
        /// | `"hold"`, of `"replay"` `"repeat"` | at the end of steps, ramp or file: `"hold"` the last rate, `"repeat"`,
        /// or `"stop"` sending
        wrap;
        /// time | {} | start within steps, ramp or file; `"random"` (with `wrap = "repeat"`): drawn per run, equal for
        /// both directions and all schemes
        offset: Or<Drawn, Duration> = Some(Duration::ZERO).into();
        /// list | required | 2 to 64; `mean` is the mean holding time, `next` the probabilities of the next state: in all
        /// states or in none (neighbours with equal probability)
        states;
        /// | {} | distribution of holding times; also `"fixed"`, `"lognormal"` with the standard deviation `sigma` of the
        /// logarithm
        hold: HoldName = HoldName::Exponential, sigma;
        /// time | {}, as `period` | interval between boundaries, time of the first
        period: Positive<Duration> = Positive(Duration::from_secs(15)), first;
        /// number | {} | standard deviation of the logarithm of the slots' rates, and of the rate within a slot
        spread: Number = Number(0.19), inner: Number = Number(0.12);
        /// list | {} | minimum and maximum time without transmission after a boundary
        outage: List<Duration> = List([60, 135].map(Duration::from_millis).to_vec());
        /// time | {} | linear growth to the slot's rate after it
        recovery: Duration = Duration::from_millis(350);
        /// probability | {} | loss of a frame that is transmitted or propagates during a boundary
        edge_loss: Fraction = Fraction::ZERO;
        /// symbols/s | required |
        symbol_rate;
        /// dB | required | Es/N0 without rain
        clear_sky;
        /// list | clear sky | attenuation in dB, linear between points: `[{ at = "30 s", depth = 0 }, { at = "80 s",
        /// depth = 10 }]`
        fades;
        /// dB | {} | above the threshold of a coding, and for a higher one
        margin: Number = Number(1.0), hysteresis: Number = Number(0.5);
        /// time | {} | from a measurement of Es/N0 to the coding
        latency: Duration = Duration::from_millis(500);
    }

    /// Keys of a step or a point.
    StepKeys { at, rate; }

    /// Keys of a state.
    StateKeys { rate, mean, next; }

    /// Keys of a point of a fade.
    FadeKeys { at, depth; }
}

/// All models.
static MODELS: [Model; 7] = [
    Model { name: "none", keys: &[], read: |_, _| Ok(RateSpec::Constant) },
    Model { name: "steps", keys: key_names!(Keys: steps, length, wrap, offset), read: steps },
    Model { name: "ramp", keys: key_names!(Keys: points, grid, length, wrap, offset), read: ramp },
    Model { name: "replay", keys: key_names!(Keys: file, format, light, gap, wrap, offset), read: replay },
    Model { name: "markov", keys: key_names!(Keys: states, hold, sigma), read: markov },
    Model {
        name: "slots",
        keys: key_names!(Keys: period, first, spread, inner, outage, recovery, edge_loss),
        read: slots,
    },
    Model {
        name: "acm",
        keys: key_names!(Keys: symbol_rate, clear_sky, margin, hysteresis, latency, fades),
        read: adaptive_coding,
    },
];

named_models!(Model, MODELS);

/// Format of a file with rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// Lines of a time and a rate.
    Csv,
    /// Delivery opportunities of mahimahi: lines of a time in milliseconds.
    Mahimahi,
    /// Heavy and light traces of CellReplay.
    CellReplay,
}

/// Distribution of holding times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HoldName {
    Exponential,
    Fixed,
    Lognormal,
}

choices! {
    Format { "csv" = Csv, "mahimahi" = Mahimahi, "cellreplay" = CellReplay }
    HoldName { "exponential" = Exponential, "fixed" = Fixed, "lognormal" = Lognormal }
}

/// A rate in a series. Zero is an outage.
struct StepRate(u64);

impl Value for StepRate {
    fn expected() -> String {
        format!("{}; \"0 bps\" is an outage", Rate::expected())
    }

    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(text) => text.parse().map(|BitRate(rate)| Self(rate)).map_err(|error| error.to_string()),
            Data::Integer(_) | Data::Float(_) => Err("the unit is missing".to_owned()),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        quote(&BitRate(self.0).to_string())
    }
}

/// Reads `rate_variation`; an absent table means a constant rate.
pub(crate) fn read(reader: &Reader<'_>, around: &Around<'_>) -> Result<RateSpec, Error> {
    // Checked before a missing model is reported: the key may be misspelt.
    let keys: std::collections::BTreeSet<_> = MODELS.iter().flat_map(|model| model.keys).copied().collect();
    let all: Vec<_> = std::iter::once(Keys::model.name()).chain(keys).collect();
    reader.allow(&all)?;
    let model: &Model = reader.required(Keys::model)?;
    if let Some(key) =
        all.iter().find(|key| reader.has(key) && **key != Keys::model.name() && !model.keys.contains(key))
    {
        let known = if model.keys.is_empty() { "nothing".to_owned() } else { model.keys.join(", ") };
        let message = format!("model = {} does not take this key; it takes {known}", quote(model.name));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let spec = (model.read)(reader, around)?;
    if let Some(mean) = spec.mean() {
        let over = match &spec {
            RateSpec::Series(series) => format!("over {}", series.length().show()),
            RateSpec::Opportunities(trace) => format!("over {}", trace.length().show()),
            RateSpec::CellReplay(trace) => format!("over {}", trace.length().show()),
            _ => "expected".to_owned(),
        };
        // A remark of `explain`, not a key.
        reader.note(Key::new("mean", || ()), quote(&format!("{:.3} Mbps", mean / 1e6)), over, Standing::Remark);
    }
    Ok(spec)
}

/// Reads the offset in a series at which a run begins.
fn offset(reader: &Reader<'_>, wrap: Wrap) -> Result<Offset, Error> {
    let Or(offset, _) = reader.value(Keys::offset)?;
    match offset {
        Some(offset) => Ok(Offset::At(offset)),
        None if wrap == Wrap::Repeat => Ok(Offset::Random),
        None => {
            let message = "\"random\" needs wrap = \"repeat\": runs that begin elsewhere would differ in length";
            Err(reader.fail(Keys::offset, Problem::Conflict(message.to_owned())))
        }
    }
}

/// Reads the use of `steps`, which the key `key` contains and which end at `length` if that is known. `wrap` is the
/// default.
fn series(
    reader: &Reader<'_>,
    steps: Vec<RateStep>,
    length: Option<Duration>,
    wrap: Wrap,
    key: Key,
) -> Result<RateSpec, Error> {
    let wrap = reader.or(Keys::wrap, wrap, "default")?;
    let last = steps.last().map_or(Duration::ZERO, |step| step.from);
    let length = match (length, wrap) {
        (Some(length), _) => length,
        (None, Wrap::Hold) => last,
        (None, Wrap::Repeat | Wrap::Stop) => {
            let expected = "the end of the series, e.g. \"20 s\", since the last step has none".to_owned();
            return Err(reader.fail(Keys::length, Problem::Missing { expected }));
        }
    };
    if length < last || (length == Duration::ZERO && wrap != Wrap::Hold) {
        return Err(reader.refuse(Keys::length, format!("a time after the last step ({})", last.show()), ""));
    }
    let series = RateSeries::new(steps, length, wrap, offset(reader, wrap)?);
    series.map(RateSpec::Series).ok_or_else(|| {
        reader.fail(key, Problem::Conflict("no rate in it is above zero; nothing would ever arrive".to_owned()))
    })
}

fn steps(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let steps = points(reader, Keys::steps)?;
    if steps.first().is_some_and(|step| step.from > Duration::ZERO) {
        let message = "the first step is not at \"0 s\"; give the rate at which the run begins".to_owned();
        return Err(reader.fail(Keys::steps, Problem::Conflict(message)));
    }
    let length = reader.get::<Positive<Duration>>(Keys::length)?.map(|Positive(length)| length);
    series(reader, steps, length, Wrap::Hold, Keys::steps)
}

/// Minimum step of a ramp.
const LEAST_GRID: Duration = Duration::from_micros(100);

fn ramp(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let given = points(reader, Keys::points)?;
    let grid = reader.value(Keys::grid)?;
    if grid < LEAST_GRID {
        return Err(reader.refuse(Keys::grid, "a time of at least 100 us", ""));
    }
    let last = given.last().map_or(Duration::ZERO, |point| point.from);
    let length = reader.or_derived(Keys::length, Positive(last), "that of the last point")?.0;
    let steps = ramps(&given, grid).ok_or_else(|| {
        let most = lasthop_proto::rate::MOST_STEPS;
        reader.fail(Keys::grid, Problem::Conflict(format!("makes more than {most} steps; give a longer one")))
    })?;
    series(reader, steps, Some(length), Wrap::Hold, Keys::points)
}

/// Maximum number of entries of a list in a scenario; longer ones need a file.
const LONGEST_LIST: usize = 10_000;

/// Reads the array at `key`: increasing times, each with a rate.
fn points(reader: &Reader<'_>, key: Key) -> Result<Vec<RateStep>, Error> {
    let example = "[{ at = \"0 s\", rate = \"20 Mbps\" }, { at = \"5 s\", rate = \"2 Mbps\" }]";
    let entries = reader.array(key, &format!("an array of tables, e.g. {example}"))?;
    if entries.is_empty() {
        return Err(reader.fail(key, Problem::Missing { expected: format!("times and rates, e.g. {example}") }));
    }
    if entries.len() > LONGEST_LIST {
        let expected = format!("at most {LONGEST_LIST} entries; a file (model = \"replay\") takes more");
        return Err(reader.refuse(key, expected, ""));
    }
    let mut steps: Vec<RateStep> = Vec::new();
    for entry in &entries {
        entry.allow(StepKeys::NAMES)?;
        let (from, StepRate(rate)) = (entry.demand(StepKeys::at)?, entry.demand(StepKeys::rate)?);
        if steps.last().is_some_and(|last| last.from >= from) {
            return Err(entry.refuse(StepKeys::at, "a time after that of the entry before", ""));
        }
        steps.push(RateStep { from, rate });
    }
    let show = |step: &RateStep| format!("{{ at = {}, rate = {} }}", step.from.show(), StepRate(step.rate).show());
    let shown: Vec<_> = steps.iter().map(show).collect();
    reader.note(key, format!("[{}]", shown.join(", ")), reader.source(key, ""), Standing::Value);
    Ok(steps)
}

fn replay(reader: &Reader<'_>, around: &Around<'_>) -> Result<RateSpec, Error> {
    let Text(name) = reader.required(Keys::file)?;
    let bad = |BadTrace { expected, reason }| reader.refuse(Keys::file, expected, reason);
    let format = reader.value(Keys::format)?;
    if let Some(key) = [Keys::light.name(), Keys::gap.name()].into_iter().find(|key| reader.has(key))
        && format != Format::CellReplay
    {
        return Err(reader.fail(key, Problem::Conflict("needs format = \"cellreplay\"".to_owned())));
    }
    match format {
        Format::Csv => {
            let trace = Arc::unwrap_or_clone(around.files.rates(&name).map_err(bad)?);
            series(reader, trace.steps, Some(trace.length), Wrap::Repeat, Keys::file)
        }
        Format::Mahimahi => {
            let times = around.files.opportunities(&name).map_err(bad)?;
            let wrap = reader.or(Keys::wrap, Wrap::Repeat, "default")?;
            let trace = Opportunities::new(times, wrap, offset(reader, wrap)?);
            trace.map(RateSpec::Opportunities).ok_or_else(|| {
                reader.refuse(
                    Keys::wrap,
                    "\"repeat\" or \"stop\" with format = \"mahimahi\"",
                    "the last opportunity is an instant",
                )
            })
        }
        Format::CellReplay => cell_replay(reader, around, around.files.opportunities(&name).map_err(bad)?),
    }
}

/// Reads the use of a heavy trace of CellReplay, and its light trace.
fn cell_replay(reader: &Reader<'_>, around: &Around<'_>, heavy: Arc<Vec<u32>>) -> Result<RateSpec, Error> {
    let Text(name) = reader.required(Keys::light)?;
    let bad = |BadTrace { expected, reason }| reader.refuse(Keys::light, expected, reason);
    let light = around.files.light(&name).map_err(bad)?;
    let wrap = reader.or(Keys::wrap, Wrap::Repeat, "default")?;
    if reader.has(Keys::offset.plain()) {
        let message = "not supported with format = \"cellreplay\": its traces begin with the first packet";
        return Err(reader.fail(Keys::offset, Problem::Conflict(message.to_owned())));
    }
    let trace = CellReplay::new(heavy, light, reader.value(Keys::gap)?, wrap);
    trace.map(RateSpec::CellReplay).ok_or_else(|| {
        reader.refuse(
            Keys::wrap,
            "\"repeat\" or \"stop\" with format = \"cellreplay\"",
            "the last opportunity is an instant",
        )
    })
}

fn markov(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let example = "[{ rate = \"20 Mbps\", mean = \"2 s\" }, { rate = \"2 Mbps\", mean = \"0.5 s\" }]";
    let entries = reader.array(Keys::states, &format!("an array of tables, e.g. {example}"))?;
    if !(2..=MOST_STATES).contains(&entries.len()) {
        return Err(reader.refuse(Keys::states, format!("2 to {MOST_STATES} states, e.g. {example}"), ""));
    }
    let mut states = Vec::new();
    let mut rows = Vec::new();
    for entry in &entries {
        entry.allow(StateKeys::NAMES)?;
        let (StepRate(rate), Positive(mean)) =
            (entry.demand(StateKeys::rate)?, entry.demand::<Positive<Duration>>(StateKeys::mean)?);
        if mean < LEAST_GRID {
            return Err(entry.refuse(StateKeys::mean, "a time of at least 100 us", ""));
        }
        states.push(RateState { rate, mean });
        if let Some(List(row)) = entry.peek::<List<Fraction>>(StateKeys::next)? {
            rows.push(row.iter().map(|p: &Fraction| p.get()).collect::<Vec<f64>>());
        }
        if let Some(row) = rows.last().filter(|_| entry.has(StateKeys::next))
            && row.len() != entries.len()
        {
            return Err(entry.refuse(
                StateKeys::next,
                format!("{} probabilities, one for each state", entries.len()),
                "",
            ));
        }
    }
    let next = match rows.len() {
        0 => MarkovSpec::neighbours(states.len()),
        given if given == states.len() => rows,
        _ => {
            let message =
                "next is given for some states only; give it for all, or for none: neighbours with equal probability";
            return Err(reader.fail(Keys::states, Problem::Conflict(message.to_owned())));
        }
    };
    let hold = match reader.value(Keys::hold)? {
        HoldName::Exponential => Hold::Exponential,
        HoldName::Fixed => Hold::Fixed,
        HoldName::Lognormal => Hold::Lognormal(deviation(reader, Keys::sigma, reader.required(Keys::sigma)?)?),
    };
    if reader.has(Keys::sigma) && !matches!(hold, Hold::Lognormal(_)) {
        let message = "needs hold = \"lognormal\"".to_owned();
        return Err(reader.fail(Keys::sigma, Problem::Conflict(message)));
    }
    let show = |(state, row): (&RateState, &Vec<f64>)| {
        let row: Vec<_> = row.iter().map(ToString::to_string).collect();
        format!(
            "{{ rate = {}, mean = {}, next = [{}] }}",
            StepRate(state.rate).show(),
            state.mean.show(),
            row.join(", ")
        )
    };
    let shown: Vec<_> = states.iter().zip(&next).map(show).collect();
    reader.note(Keys::states, format!("[{}]", shown.join(", ")), reader.source(Keys::states, ""), Standing::Value);
    MarkovSpec::new(states, &next, hold).map(RateSpec::Markov).ok_or_else(|| {
        let message = "every next must add up to 1 with 0 for its own state, every state must be reachable from every other, and \
            a rate must be above zero";
        reader.fail(Keys::states, Problem::Conflict(message.to_owned()))
    })
}

/// Checks a standard deviation of a logarithm.
fn deviation(reader: &Reader<'_>, key: impl AsRef<str>, Number(value): Number) -> Result<f64, Error> {
    if (0.0..=3.0).contains(&value) { Ok(value) } else { Err(reader.refuse(key, "a number from 0 to 3", "")) }
}

fn slots(reader: &Reader<'_>, around: &Around<'_>) -> Result<RateSpec, Error> {
    let Positive(period) = reader.value(Keys::period)?;
    if period < Duration::from_millis(100) {
        return Err(reader.refuse(Keys::period, "a time of at least 100 ms", ""));
    }
    let first = reader.or_derived(Keys::first, period, "as period")?;
    let spread = deviation(reader, Keys::spread, reader.value(Keys::spread)?)?;
    let inner = deviation(reader, Keys::inner, reader.value(Keys::inner)?)?;
    let List(outage) = reader.value(Keys::outage)?;
    let outage = match outage[..] {
        [least, most] if least <= most => [least, most],
        _ => {
            return Err(reader.refuse(
                Keys::outage,
                "the minimum and the maximum time, e.g. [\"60 ms\", \"135 ms\"]",
                "",
            ));
        }
    };
    let recovery = reader.value(Keys::recovery)?;
    if outage[1] + recovery >= period {
        let message = "outage and recovery take the whole period; make them shorter".to_owned();
        return Err(reader.fail(Keys::outage, Problem::Conflict(message)));
    }
    let edge_loss = reader.value(Keys::edge_loss)?.get();
    Ok(RateSpec::Slots(RateSlotsSpec {
        mean: around.rate.0,
        period,
        first,
        spread,
        inner,
        outage,
        recovery,
        edge_loss,
    }))
}

fn adaptive_coding(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let decibels = |key: &str, Number(value): Number| {
        if value.abs() <= 100.0 { Ok(value) } else { Err(reader.refuse(key, "decibels from -100 to 100", "")) }
    };
    let Whole(symbol_rate) = reader.required::<Whole<1_000, 1_000_000_000>>(Keys::symbol_rate)?;
    let latency = reader.value(Keys::latency)?;
    if latency > Duration::from_secs(60) {
        return Err(reader.refuse(Keys::latency, "a time of at most 60 s", ""));
    }
    let spec = AcmSpec {
        symbol_rate: symbol_rate.into(),
        clear_sky: decibels(Keys::clear_sky.name(), reader.required(Keys::clear_sky)?)?,
        margin: decibels(Keys::margin.name(), reader.value(Keys::margin)?)?,
        hysteresis: decibels(Keys::hysteresis.name(), reader.value(Keys::hysteresis)?)?,
        latency,
    };
    let steps = acm(&spec, &fades(reader)?).map_err(|error| match error {
        AcmError::Long => reader.refuse(Keys::fades, "fades of at most a day", ""),
        AcmError::TooFast(at) => {
            let message = format!(
                "at {} the coding in force is above what the carrier supports: the fade is faster than margin and latency allow, \
                 and the frames lost then are not modelled; give a larger margin, or a slower fade",
                at.show()
            );
            reader.fail(Keys::fades, Problem::Conflict(message))
        }
    })?;
    let length = steps.last().map_or(Duration::ZERO, |step| step.from);
    RateSeries::new(steps, length, Wrap::Hold, Offset::At(Duration::ZERO)).map(RateSpec::Series).ok_or_else(|| {
        reader.fail(
            Keys::clear_sky,
            Problem::Conflict("the carrier supports no coding at any time; nothing would ever arrive".to_owned()),
        )
    })
}

/// Reads the attenuation by rain: increasing times, each with decibels. None is clear sky.
fn fades(reader: &Reader<'_>) -> Result<Vec<Fade>, Error> {
    let entries = reader
        .array(Keys::fades, "an array of tables, e.g. [{ at = \"30 s\", depth = 0 }, { at = \"80 s\", depth = 10 }]")?;
    if entries.len() > LONGEST_LIST {
        return Err(reader.refuse(Keys::fades, format!("at most {LONGEST_LIST} entries"), ""));
    }
    let mut fades: Vec<Fade> = Vec::new();
    for entry in &entries {
        entry.allow(FadeKeys::NAMES)?;
        let (at, Number(depth)) = (entry.demand(FadeKeys::at)?, entry.demand(FadeKeys::depth)?);
        if fades.last().is_some_and(|last| last.at >= at) {
            return Err(entry.refuse(FadeKeys::at, "a time after that of the entry before", ""));
        }
        if !(0.0..=100.0).contains(&depth) {
            return Err(entry.refuse(FadeKeys::depth, "decibels from 0 to 100", ""));
        }
        fades.push(Fade { at, depth });
    }
    let show = |fade: &Fade| format!("{{ at = {}, depth = {} }}", fade.at.show(), fade.depth);
    let shown: Vec<_> = fades.iter().map(show).collect();
    reader.note(
        Keys::fades,
        format!("[{}]", shown.join(", ")),
        reader.source(Keys::fades, "clear sky"),
        Standing::Value,
    );
    Ok(fades)
}
