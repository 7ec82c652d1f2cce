//! Variation of a link's rate: `rate_variation = { model = "steps", steps = [{ at = "0 s", rate = "20 Mbps" }, ...] }`.

use std::sync::Arc;

use lasthop_proto::rate::{Offset, RateSeries, RateSpec, RateStep, Wrap, ramps};
use lasthop_proto::time::Duration;
use lasthop_sim::network::Rate;

use crate::document::{Data, quote};
use crate::files::{BadTrace, Files};
use crate::reader::{Reader, Standing, Value};
use crate::units::BitRate;
use crate::values::{Drawn, Or, Positive, Text, choices, named_models};
use crate::{Error, Problem};

/// A model with its name in scenarios.
#[derive(Debug)]
struct Model {
    name: &'static str,
    /// Keys, besides [`COMMON`].
    keys: &'static [&'static str],
    read: fn(&Reader<'_>, &Files) -> Result<Given, Error>,
}

/// Keys of every model that varies.
const COMMON: [&str; 3] = ["model", "wrap", "offset"];

/// All models.
static MODELS: [Model; 4] = [
    Model { name: "none", keys: &[], read: |_, _| Ok(Given::Constant) },
    Model { name: "steps", keys: &["steps", "length"], read: steps },
    Model { name: "ramp", keys: &["points", "grid", "length"], read: ramp },
    Model { name: "replay", keys: &["file", "format"], read: replay },
];

/// Series of rates from a model.
enum Given {
    Constant,
    Steps {
        steps: Vec<RateStep>,
        /// End of the steps, if determined.
        length: Option<Duration>,
        wrap: Wrap,
        /// Key that contains the steps.
        key: &'static str,
    },
}

named_models!(Model, MODELS);

/// Format of a file with rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// Lines of a time and a rate.
    Csv,
}

choices! {
    Format { "csv" = Csv }
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
pub(crate) fn read(reader: &Reader<'_>, files: &Files) -> Result<RateSpec, Error> {
    // Checked before a missing model is reported: the key may be misspelt.
    let all: Vec<_> = COMMON.into_iter().chain(MODELS.iter().flat_map(|model| model.keys).copied()).collect();
    reader.allow(&all)?;
    let model: &Model = reader.required("model")?;
    let takes = |key: &str| match model.name {
        "none" => key == "model",
        _ => COMMON.contains(&key) || model.keys.contains(&key),
    };
    if let Some(key) = all.iter().find(|key| reader.has(key) && !takes(key)) {
        let known: Vec<_> = all.iter().copied().filter(|key| takes(key) && *key != "model").collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        let message = format!("model = {} does not take this key; it takes {known}", quote(model.name));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let Given::Steps { steps, length, wrap, key } = (model.read)(reader, files)? else {
        return Ok(RateSpec::Constant);
    };
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
    let Or(offset, _) = reader.or::<Or<Drawn, Duration>>("offset", Some(Duration::ZERO).into(), "default")?;
    let offset = match offset {
        Some(offset) => Offset::At(offset),
        None if wrap == Wrap::Repeat => Offset::Random,
        None => {
            let message = "\"random\" needs wrap = \"repeat\": runs that begin elsewhere would differ in length";
            return Err(reader.fail("offset", Problem::Conflict(message.to_owned())));
        }
    };
    let series = RateSeries::new(steps, length, wrap, offset).ok_or_else(|| {
        reader.fail(key, Problem::Conflict("no rate in it is above zero; nothing would ever arrive".to_owned()))
    })?;
    let mean = format!("{:.3} Mbps", series.mean() / 1e6);
    reader.note("mean", quote(&mean), format!("over {}", length.show()), Standing::Remark);
    Ok(RateSpec::Series(series))
}

fn steps(reader: &Reader<'_>, _: &Files) -> Result<Given, Error> {
    let steps = points(reader, "steps")?;
    if steps.first().is_some_and(|step| step.from > Duration::ZERO) {
        let message = "the first step is not at \"0 s\"; give the rate at which the run begins".to_owned();
        return Err(reader.fail("steps", Problem::Conflict(message)));
    }
    let length = reader.get::<Positive<Duration>>("length")?.map(|Positive(length)| length);
    Ok(Given::Steps { steps, length, wrap: Wrap::Hold, key: "steps" })
}

/// Minimum step of a ramp.
const LEAST_GRID: Duration = Duration::from_micros(100);

fn ramp(reader: &Reader<'_>, _: &Files) -> Result<Given, Error> {
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
    Ok(Given::Steps { steps, length: Some(length), wrap: Wrap::Hold, key: "points" })
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

fn replay(reader: &Reader<'_>, files: &Files) -> Result<Given, Error> {
    let Text(name) = reader.required("file")?;
    let Format::Csv = reader.or("format", Format::Csv, "default")?;
    let trace = files.rates(&name);
    let trace = trace.map_err(|BadTrace { expected, reason }| reader.refuse("file", expected, reason))?;
    let trace = Arc::unwrap_or_clone(trace);
    Ok(Given::Steps { steps: trace.steps, length: Some(trace.length), wrap: Wrap::Repeat, key: "file" })
}
