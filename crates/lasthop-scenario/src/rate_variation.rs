//! Variation of a link's rate: `rate_variation = { model = "steps", steps = [{ at = "0 s", rate = "20 Mbps" }, ...] }`.

use std::sync::Arc;

use lasthop_proto::rate::{
    AcmError, AcmSpec, Fade, Hold, MOST_STATES, MarkovSpec, Offset, Opportunities, RateSeries, RateSlotsSpec, RateSpec,
    RateState, RateStep, Wrap, acm, ramps,
};
use lasthop_proto::time::Duration;
use lasthop_sim::network::Rate;

use crate::document::{Data, quote};
use crate::files::{BadTrace, Files};
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

/// All models.
static MODELS: [Model; 7] = [
    Model { name: "none", keys: &[], read: |_, _| Ok(RateSpec::Constant) },
    Model { name: "steps", keys: &["steps", "length", "wrap", "offset"], read: steps },
    Model { name: "ramp", keys: &["points", "grid", "length", "wrap", "offset"], read: ramp },
    Model { name: "replay", keys: &["file", "format", "wrap", "offset"], read: replay },
    Model { name: "markov", keys: &["states", "hold", "sigma"], read: markov },
    Model { name: "slots", keys: &["period", "first", "spread", "inner", "outage", "recovery"], read: slots },
    Model {
        name: "acm",
        keys: &["symbol_rate", "clear_sky", "margin", "hysteresis", "latency", "fades"],
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
}

/// Distribution of holding times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HoldName {
    Exponential,
    Fixed,
    Lognormal,
}

choices! {
    Format { "csv" = Csv, "mahimahi" = Mahimahi }
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
    let all: Vec<_> = std::iter::once("model").chain(keys).collect();
    reader.allow(&all)?;
    let model: &Model = reader.required("model")?;
    if let Some(key) = all.iter().find(|key| reader.has(key) && **key != "model" && !model.keys.contains(key)) {
        let known = if model.keys.is_empty() { "nothing".to_owned() } else { model.keys.join(", ") };
        let message = format!("model = {} does not take this key; it takes {known}", quote(model.name));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let spec = (model.read)(reader, around)?;
    if let Some(mean) = spec.mean() {
        let over = match &spec {
            RateSpec::Series(series) => format!("over {}", series.length().show()),
            RateSpec::Opportunities(trace) => format!("over {}", trace.length().show()),
            _ => "expected".to_owned(),
        };
        reader.note("mean", quote(&format!("{:.3} Mbps", mean / 1e6)), over, Standing::Remark);
    }
    Ok(spec)
}

/// Reads where a run begins in a series.
fn offset(reader: &Reader<'_>, wrap: Wrap) -> Result<Offset, Error> {
    let Or(offset, _) = reader.or::<Or<Drawn, Duration>>("offset", Some(Duration::ZERO).into(), "default")?;
    match offset {
        Some(offset) => Ok(Offset::At(offset)),
        None if wrap == Wrap::Repeat => Ok(Offset::Random),
        None => {
            let message = "\"random\" needs wrap = \"repeat\": runs that begin elsewhere would differ in length";
            Err(reader.fail("offset", Problem::Conflict(message.to_owned())))
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
    key: &'static str,
) -> Result<RateSpec, Error> {
    let wrap = reader.or("wrap", wrap, "default")?;
    let last = steps.last().map_or(Duration::ZERO, |step| step.from);
    let length = match (length, wrap) {
        (Some(length), _) => length,
        (None, Wrap::Hold) => last,
        (None, Wrap::Repeat | Wrap::Stop) => {
            let expected = "the end of the series, e.g. \"20 s\", since the last step has none".to_owned();
            return Err(reader.fail("length", Problem::Missing { expected }));
        }
    };
    if length < last || (length == Duration::ZERO && wrap != Wrap::Hold) {
        return Err(reader.refuse("length", format!("a time after the last step ({})", last.show()), ""));
    }
    let series = RateSeries::new(steps, length, wrap, offset(reader, wrap)?);
    series.map(RateSpec::Series).ok_or_else(|| {
        reader.fail(key, Problem::Conflict("no rate in it is above zero; nothing would ever arrive".to_owned()))
    })
}

fn steps(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let steps = points(reader, "steps")?;
    if steps.first().is_some_and(|step| step.from > Duration::ZERO) {
        let message = "the first step is not at \"0 s\"; give the rate at which the run begins".to_owned();
        return Err(reader.fail("steps", Problem::Conflict(message)));
    }
    let length = reader.get::<Positive<Duration>>("length")?.map(|Positive(length)| length);
    series(reader, steps, length, Wrap::Hold, "steps")
}

/// Minimum step of a ramp.
const LEAST_GRID: Duration = Duration::from_micros(100);

fn ramp(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let given = points(reader, "points")?;
    let grid = reader.or("grid", Duration::from_millis(10), "default")?;
    if grid < LEAST_GRID {
        return Err(reader.refuse("grid", "a time of at least 100 us", ""));
    }
    let last = given.last().map_or(Duration::ZERO, |point| point.from);
    let length = reader.or_derived("length", Positive(last), "that of the last point")?.0;
    let steps = ramps(&given, grid).ok_or_else(|| {
        let most = lasthop_proto::rate::MOST_STEPS;
        reader.fail("grid", Problem::Conflict(format!("makes more than {most} steps; give a longer one")))
    })?;
    series(reader, steps, Some(length), Wrap::Hold, "points")
}

/// Maximum number of entries of a list in a scenario; longer ones need a file.
const LONGEST_LIST: usize = 10_000;

/// Reads the array at `key`: increasing times, each with a rate.
fn points(reader: &Reader<'_>, key: &'static str) -> Result<Vec<RateStep>, Error> {
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
        entry.allow(&["at", "rate"])?;
        let (from, StepRate(rate)) = (entry.demand("at")?, entry.demand("rate")?);
        if steps.last().is_some_and(|last| last.from >= from) {
            return Err(entry.refuse("at", "a time after that of the entry before", ""));
        }
        steps.push(RateStep { from, rate });
    }
    let show = |step: &RateStep| format!("{{ at = {}, rate = {} }}", step.from.show(), StepRate(step.rate).show());
    let shown: Vec<_> = steps.iter().map(show).collect();
    reader.note(key, format!("[{}]", shown.join(", ")), reader.source(key, ""), Standing::Value);
    Ok(steps)
}

fn replay(reader: &Reader<'_>, around: &Around<'_>) -> Result<RateSpec, Error> {
    let Text(name) = reader.required("file")?;
    let bad = |BadTrace { expected, reason }| reader.refuse("file", expected, reason);
    match reader.or("format", Format::Csv, "default")? {
        Format::Csv => {
            let trace = Arc::unwrap_or_clone(around.files.rates(&name).map_err(bad)?);
            series(reader, trace.steps, Some(trace.length), Wrap::Repeat, "file")
        }
        Format::Mahimahi => {
            let times = around.files.opportunities(&name).map_err(bad)?;
            let wrap = reader.or("wrap", Wrap::Repeat, "default")?;
            let trace = Opportunities::new(times, wrap, offset(reader, wrap)?);
            trace.map(RateSpec::Opportunities).ok_or_else(|| {
                reader.refuse(
                    "wrap",
                    "\"repeat\" or \"stop\" with format = \"mahimahi\"",
                    "the last opportunity is an instant",
                )
            })
        }
    }
}

fn markov(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let example = "[{ rate = \"20 Mbps\", mean = \"2 s\" }, { rate = \"2 Mbps\", mean = \"0.5 s\" }]";
    let entries = reader.array("states", &format!("an array of tables, e.g. {example}"))?;
    if !(2..=MOST_STATES).contains(&entries.len()) {
        return Err(reader.refuse("states", format!("2 to {MOST_STATES} states, e.g. {example}"), ""));
    }
    let mut states = Vec::new();
    let mut rows = Vec::new();
    for entry in &entries {
        entry.allow(&["rate", "mean", "next"])?;
        let (StepRate(rate), Positive(mean)) = (entry.demand("rate")?, entry.demand::<Positive<Duration>>("mean")?);
        if mean < LEAST_GRID {
            return Err(entry.refuse("mean", "a time of at least 100 us", ""));
        }
        states.push(RateState { rate, mean });
        if let Some(List(row)) = entry.peek::<List<Fraction>>("next")? {
            rows.push(row.iter().map(|p: &Fraction| p.get()).collect::<Vec<f64>>());
        }
        if let Some(row) = rows.last().filter(|_| entry.has("next"))
            && row.len() != entries.len()
        {
            return Err(entry.refuse("next", format!("{} probabilities, one for each state", entries.len()), ""));
        }
    }
    let next = match rows.len() {
        0 => MarkovSpec::neighbours(states.len()),
        given if given == states.len() => rows,
        _ => {
            let message =
                "next is given for some states only; give it for all, or for none: neighbours with equal probability";
            return Err(reader.fail("states", Problem::Conflict(message.to_owned())));
        }
    };
    let hold = match reader.or("hold", HoldName::Exponential, "default")? {
        HoldName::Exponential => Hold::Exponential,
        HoldName::Fixed => Hold::Fixed,
        HoldName::Lognormal => Hold::Lognormal(deviation(reader, "sigma", None)?),
    };
    if reader.has("sigma") && !matches!(hold, Hold::Lognormal(_)) {
        let message = "needs hold = \"lognormal\"".to_owned();
        return Err(reader.fail("sigma", Problem::Conflict(message)));
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
    reader.note("states", format!("[{}]", shown.join(", ")), reader.source("states", ""), Standing::Value);
    MarkovSpec::new(states, &next, hold).map(RateSpec::Markov).ok_or_else(|| {
        let message = "every next must add up to 1 with 0 for its own state, every state must be reachable from every other, and \
            a rate must be above zero";
        reader.fail("states", Problem::Conflict(message.to_owned()))
    })
}

/// Reads a standard deviation of a logarithm.
fn deviation(reader: &Reader<'_>, key: &'static str, default: Option<f64>) -> Result<f64, Error> {
    let Number(value) = match default {
        Some(default) => reader.or(key, Number(default), "default")?,
        None => reader.required(key)?,
    };
    if (0.0..=3.0).contains(&value) { Ok(value) } else { Err(reader.refuse(key, "a number from 0 to 3", "")) }
}

fn slots(reader: &Reader<'_>, around: &Around<'_>) -> Result<RateSpec, Error> {
    let Positive(period) = reader.or("period", Positive(Duration::from_secs(15)), "default")?;
    if period < Duration::from_millis(100) {
        return Err(reader.refuse("period", "a time of at least 100 ms", ""));
    }
    let first = reader.or_derived("first", period, "as period")?;
    let spread = deviation(reader, "spread", Some(0.19))?;
    let inner = deviation(reader, "inner", Some(0.12))?;
    let default = List([60, 135].map(Duration::from_millis).to_vec());
    let List(outage) = reader.or("outage", default, "default")?;
    let outage = match outage[..] {
        [least, most] if least <= most => [least, most],
        _ => return Err(reader.refuse("outage", "the minimum and the maximum time, e.g. [\"60 ms\", \"135 ms\"]", "")),
    };
    let recovery = reader.or("recovery", Duration::from_millis(350), "default")?;
    if outage[1] + recovery >= period {
        let message = "outage and recovery take the whole period; make them shorter".to_owned();
        return Err(reader.fail("outage", Problem::Conflict(message)));
    }
    Ok(RateSpec::Slots(RateSlotsSpec { mean: around.rate.0, period, first, spread, inner, outage, recovery }))
}

fn adaptive_coding(reader: &Reader<'_>, _: &Around<'_>) -> Result<RateSpec, Error> {
    let decibels = |key: &'static str, default: Option<f64>| {
        let Number(value) = match default {
            Some(default) => reader.or(key, Number(default), "default")?,
            None => reader.required(key)?,
        };
        if value.abs() <= 100.0 { Ok(value) } else { Err(reader.refuse(key, "decibels from -100 to 100", "")) }
    };
    let Whole(symbol_rate) = reader.required::<Whole<1_000, 1_000_000_000>>("symbol_rate")?;
    let latency = reader.or("latency", Duration::from_millis(500), "default")?;
    if latency > Duration::from_secs(60) {
        return Err(reader.refuse("latency", "a time of at most 60 s", ""));
    }
    let spec = AcmSpec {
        symbol_rate: symbol_rate.into(),
        clear_sky: decibels("clear_sky", None)?,
        margin: decibels("margin", Some(1.0))?,
        hysteresis: decibels("hysteresis", Some(0.5))?,
        latency,
    };
    let steps = acm(&spec, &fades(reader)?).map_err(|error| match error {
        AcmError::Long => reader.refuse("fades", "fades of at most a day", ""),
        AcmError::TooFast(at) => {
            let message = format!(
                "at {} the coding in force is above what the carrier supports: the fade is faster than margin and latency allow, \
                 and the frames lost then are not modelled; give a larger margin, or a slower fade",
                at.show()
            );
            reader.fail("fades", Problem::Conflict(message))
        }
    })?;
    let length = steps.last().map_or(Duration::ZERO, |step| step.from);
    RateSeries::new(steps, length, Wrap::Hold, Offset::At(Duration::ZERO)).map(RateSpec::Series).ok_or_else(|| {
        reader.fail(
            "clear_sky",
            Problem::Conflict("the carrier supports no coding at any time; nothing would ever arrive".to_owned()),
        )
    })
}

/// Reads the attenuation by rain: increasing times, each with decibels. None is clear sky.
fn fades(reader: &Reader<'_>) -> Result<Vec<Fade>, Error> {
    let entries = reader
        .array("fades", "an array of tables, e.g. [{ at = \"30 s\", depth = 0 }, { at = \"80 s\", depth = 10 }]")?;
    if entries.len() > LONGEST_LIST {
        return Err(reader.refuse("fades", format!("at most {LONGEST_LIST} entries"), ""));
    }
    let mut fades: Vec<Fade> = Vec::new();
    for entry in &entries {
        entry.allow(&["at", "depth"])?;
        let (at, Number(depth)) = (entry.demand("at")?, entry.demand("depth")?);
        if fades.last().is_some_and(|last| last.at >= at) {
            return Err(entry.refuse("at", "a time after that of the entry before", ""));
        }
        if !(0.0..=100.0).contains(&depth) {
            return Err(entry.refuse("depth", "decibels from 0 to 100", ""));
        }
        fades.push(Fade { at, depth });
    }
    let show = |fade: &Fade| format!("{{ at = {}, depth = {} }}", fade.at.show(), fade.depth);
    let shown: Vec<_> = fades.iter().map(show).collect();
    reader.note("fades", format!("[{}]", shown.join(", ")), reader.source("fades", "clear sky"), Standing::Value);
    Ok(fades)
}
