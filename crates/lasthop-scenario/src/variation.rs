//! Variation of a link's delay: `delay_variation = { model = "spikes", every = "30 s", length = "2 s" }`.

use std::sync::Arc;

use lasthop_proto::delay::{DelaySpec, HandoverSpec, Order, RepeatsSpec, SpikesSpec, Spread, VariationSpec};
use lasthop_proto::time::Duration;

use crate::document::quote;
use crate::files::{BadTrace, Files};
use crate::reader::Reader;
use crate::units::Fraction;
use crate::values::{Positive, Text, Whole, named_models};
use crate::{Error, Problem};

/// A model with its name in scenarios.
#[derive(Debug)]
struct Model {
    name: &'static str,
    /// Keys, besides `model` and `order`.
    keys: &'static [&'static str],
    read: fn(&Reader<'_>, &Files) -> Result<DelaySpec, Error>,
}

/// All models.
static MODELS: [Model; 8] = [
    Model { name: "none", keys: &[], read: |_, _| Ok(DelaySpec::None) },
    Model { name: "jitter", keys: &["up_to"], read: jitter },
    Model { name: "normal", keys: &["mean", "deviation"], read: normal },
    Model { name: "exponential", keys: &["mean"], read: exponential },
    Model { name: "repeats", keys: &["frame_loss", "round", "most"], read: repeats },
    Model { name: "spikes", keys: &["every", "length"], read: spikes },
    Model { name: "handover", keys: &["period", "first", "jump", "outage"], read: handover },
    Model { name: "replay", keys: &["file"], read: replay },
];

named_models!(Model, MODELS);

/// Reads the variations of the two directions of a link: `delay_variation` for both, unless `delay_variation_down` or
/// `delay_variation_up` is given.
pub(crate) fn both(link: &Reader<'_>, files: &Files) -> Result<[VariationSpec; 2], Error> {
    let own = |key: &'static str| {
        let section = link.section(key)?;
        if section.is_present() { read(&section, files).map(Some) } else { Ok(None) }
    };
    let both = link.section("delay_variation")?;
    let (down, up) = (own("delay_variation_down")?, own("delay_variation_up")?);
    if both.is_present() && down.is_some() && up.is_some() {
        let message = "applies to both directions, but delay_variation_down and delay_variation_up are also given; remove one of the three";
        return Err(link.fail("delay_variation", Problem::Conflict(message.to_owned())));
    }
    let common = if both.is_present() { read(&both, files)? } else { VariationSpec::NONE };
    Ok([down.unwrap_or_else(|| common.clone()), up.unwrap_or(common)])
}

fn read(reader: &Reader<'_>, files: &Files) -> Result<VariationSpec, Error> {
    const COMMON: [&str; 2] = ["model", "order"];
    // Checked before a missing model is reported: the key may be misspelt.
    let all: Vec<_> = COMMON.into_iter().chain(MODELS.iter().flat_map(|model| model.keys).copied()).collect();
    reader.allow(&all)?;
    let model: &Model = reader.required("model")?;
    if let Some(key) = all.iter().find(|key| reader.has(key) && !COMMON.contains(key) && !model.keys.contains(key)) {
        let takes = if model.keys.is_empty() { "nothing".to_owned() } else { model.keys.join(", ") };
        let message = format!("model = {} does not take this key; it takes {takes}", quote(model.name));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let model = (model.read)(reader, files)?;
    Ok(VariationSpec::of(model, reader.or("order", Order::Kept, "default")?))
}

/// Maximum delay; a longer one is a mistake.
const LONGEST: Duration = Duration::from_secs(3600);
/// Minimum period of repeated events, which limits their number in a run.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

fn at_most(reader: &Reader<'_>, key: &'static str, span: Duration) -> Result<Duration, Error> {
    if span > LONGEST { Err(reader.refuse(key, "a time of at most 1 h", "")) } else { Ok(span) }
}

fn positive(reader: &Reader<'_>, key: &'static str) -> Result<Duration, Error> {
    let Positive(span) = reader.required::<Positive<Duration>>(key)?;
    at_most(reader, key, span)
}

fn period(reader: &Reader<'_>, key: &'static str, span: Duration) -> Result<Duration, Error> {
    if span < SHORTEST_PERIOD {
        Err(reader.refuse(key, "a time of at least 1 ms", ""))
    } else {
        at_most(reader, key, span)
    }
}

fn jitter(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    Ok(DelaySpec::Jitter(Spread::Uniform(positive(reader, "up_to")?)))
}

fn normal(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let mean = at_most(reader, "mean", reader.required("mean")?)?;
    Ok(DelaySpec::Jitter(Spread::Normal { mean, deviation: positive(reader, "deviation")? }))
}

fn exponential(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    Ok(DelaySpec::Jitter(Spread::Exponential(positive(reader, "mean")?)))
}

fn repeats(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let frame_loss = reader.required::<Fraction>("frame_loss")?.get();
    let round = positive(reader, "round")?;
    let Whole(most) = reader.or::<Whole<1, 1000>>("most", Whole(8), "default")?;
    Ok(DelaySpec::Repeats(RepeatsSpec { frame_loss, round, most }))
}

fn spikes(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let Positive(every) = reader.required::<Positive<Duration>>("every")?;
    Ok(DelaySpec::Spikes(SpikesSpec { every: period(reader, "every", every)?, length: positive(reader, "length")? }))
}

fn handover(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let Positive(every) = reader.or("period", Positive(Duration::from_secs(15)), "default")?;
    let every = period(reader, "period", every)?;
    let first = reader.or_derived("first", every, "as period")?;
    let outage = reader.or("outage", Duration::ZERO, "default")?;
    Ok(DelaySpec::Handover(HandoverSpec {
        period: every,
        first: at_most(reader, "first", first)?,
        jump: at_most(reader, "jump", reader.required("jump")?)?,
        outage: at_most(reader, "outage", outage)?,
    }))
}

fn replay(reader: &Reader<'_>, files: &Files) -> Result<DelaySpec, Error> {
    let Text(name) = reader.required("file")?;
    let steps = files.delays(&name);
    let steps = steps.map_err(|BadTrace { expected, reason }| reader.refuse("file", expected, reason))?;
    Ok(DelaySpec::Replay(Arc::clone(&steps)))
}
