//! Variation of a link's delay: `delay_variation = { model = "spikes", every = "30 s", length = "2 s" }`.

use std::sync::Arc;

use lasthop_proto::delay::{DelaySpec, HandoverSpec, Order, RepeatsSpec, SpikesSpec, Spread, VariationSpec};
use lasthop_proto::time::Duration;

use crate::document::quote;
use crate::files::{BadTrace, Files};
use crate::key::Key;
use crate::reader::Reader;
use crate::shared_keys::LinkKeys;
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

keys! {
    /// Keys of a varying delay.
    pub(crate) Keys {
        model;
        /// | {} | frames wait for earlier ones, or (`"free"`) may be reordered
        order: Order = Order::Kept;
        /// time | required | above zero (except the mean of `"normal"`), at most 1 h
        up_to, round, length, mean, deviation;
        /// probability | required | failure of one attempt
        frame_loss;
        /// number | {} | maximum repetitions, 1 to 1000; the last succeeds
        most: Whole<1, 1000> = Whole(8);
        /// time | required | mean time from one spike to the next, exponential; 1 ms to 1 h
        every;
        /// time | {}, as `period` | between handovers, 1 ms to 1 h; until the first
        period: Positive<Duration> = Positive(Duration::from_secs(15)), first;
        /// time | required | paths' delays are uniform from 0 to this
        jump;
        /// time | {} | at each handover
        outage: Duration = Duration::ZERO;
        /// path | required | lines of increasing seconds and additional milliseconds: `12.5 30`
        file;
    }
}

/// All models.
static MODELS: [Model; 8] = [
    Model { name: "none", keys: &[], read: |_, _| Ok(DelaySpec::None) },
    Model { name: "jitter", keys: key_names!(Keys: up_to), read: jitter },
    Model { name: "normal", keys: key_names!(Keys: mean, deviation), read: normal },
    Model { name: "exponential", keys: key_names!(Keys: mean), read: exponential },
    Model { name: "repeats", keys: key_names!(Keys: frame_loss, round, most), read: repeats },
    Model { name: "spikes", keys: key_names!(Keys: every, length), read: spikes },
    Model { name: "handover", keys: key_names!(Keys: period, first, jump, outage), read: handover },
    Model { name: "replay", keys: key_names!(Keys: file), read: replay },
];

named_models!(Model, MODELS);

/// Reads the variations of the two directions of a link: `delay_variation` for both, unless `delay_variation_down` or
/// `delay_variation_up` is given.
pub(crate) fn both(link: &Reader<'_>, files: &Files) -> Result<[VariationSpec; 2], Error> {
    let own = |key: Key| {
        let section = link.section(key)?;
        if section.is_present() { read(&section, files).map(Some) } else { Ok(None) }
    };
    let both = link.section(LinkKeys::delay_variation)?;
    let (down, up) = (own(LinkKeys::delay_variation_down)?, own(LinkKeys::delay_variation_up)?);
    if both.is_present() && down.is_some() && up.is_some() {
        let message = "applies to both directions, but delay_variation_down and delay_variation_up are also given; remove one of the three";
        return Err(link.fail(LinkKeys::delay_variation, Problem::Conflict(message.to_owned())));
    }
    let common = if both.is_present() { read(&both, files)? } else { VariationSpec::NONE };
    Ok([down.unwrap_or_else(|| common.clone()), up.unwrap_or(common)])
}

fn read(reader: &Reader<'_>, files: &Files) -> Result<VariationSpec, Error> {
    const COMMON: [&str; 2] = [Keys::model.name(), Keys::order.name()];
    // Checked before a missing model is reported: the key may be misspelt.
    let all: Vec<_> = COMMON.into_iter().chain(MODELS.iter().flat_map(|model| model.keys).copied()).collect();
    reader.allow(&all)?;
    let model: &Model = reader.required(Keys::model)?;
    if let Some(key) = all.iter().find(|key| reader.has(key) && !COMMON.contains(key) && !model.keys.contains(key)) {
        let takes = if model.keys.is_empty() { "nothing".to_owned() } else { model.keys.join(", ") };
        let message = format!("model = {} does not take this key; it takes {takes}", quote(model.name));
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    let model = (model.read)(reader, files)?;
    Ok(VariationSpec::of(model, reader.value(Keys::order)?))
}

/// Maximum delay; a longer one is a mistake.
const LONGEST: Duration = Duration::from_secs(3600);
/// Minimum period of repeated events, which limits their number in a run.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

fn at_most(reader: &Reader<'_>, key: impl AsRef<str>, span: Duration) -> Result<Duration, Error> {
    if span > LONGEST { Err(reader.refuse(key, "a time of at most 1 h", "")) } else { Ok(span) }
}

fn positive(reader: &Reader<'_>, key: Key) -> Result<Duration, Error> {
    let Positive(span) = reader.required::<Positive<Duration>>(key)?;
    at_most(reader, key, span)
}

fn period(reader: &Reader<'_>, key: impl AsRef<str>, span: Duration) -> Result<Duration, Error> {
    if span < SHORTEST_PERIOD {
        Err(reader.refuse(key, "a time of at least 1 ms", ""))
    } else {
        at_most(reader, key, span)
    }
}

fn jitter(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    Ok(DelaySpec::Jitter(Spread::Uniform(positive(reader, Keys::up_to)?)))
}

fn normal(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let mean = at_most(reader, Keys::mean, reader.required(Keys::mean)?)?;
    Ok(DelaySpec::Jitter(Spread::Normal { mean, deviation: positive(reader, Keys::deviation)? }))
}

fn exponential(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    Ok(DelaySpec::Jitter(Spread::Exponential(positive(reader, Keys::mean)?)))
}

fn repeats(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let frame_loss = reader.required::<Fraction>(Keys::frame_loss)?.get();
    let round = positive(reader, Keys::round)?;
    let Whole(most) = reader.value(Keys::most)?;
    Ok(DelaySpec::Repeats(RepeatsSpec { frame_loss, round, most }))
}

fn spikes(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let Positive(every) = reader.required::<Positive<Duration>>(Keys::every)?;
    Ok(DelaySpec::Spikes(SpikesSpec {
        every: period(reader, Keys::every, every)?,
        length: positive(reader, Keys::length)?,
    }))
}

fn handover(reader: &Reader<'_>, _: &Files) -> Result<DelaySpec, Error> {
    let Positive(every) = reader.value(Keys::period)?;
    let every = period(reader, Keys::period, every)?;
    let first = reader.or_derived(Keys::first, every, "as period")?;
    let outage = reader.value(Keys::outage)?;
    Ok(DelaySpec::Handover(HandoverSpec {
        period: every,
        first: at_most(reader, Keys::first, first)?,
        jump: at_most(reader, Keys::jump, reader.required(Keys::jump)?)?,
        outage: at_most(reader, Keys::outage, outage)?,
    }))
}

fn replay(reader: &Reader<'_>, files: &Files) -> Result<DelaySpec, Error> {
    let Text(name) = reader.required(Keys::file)?;
    let steps = files.delays(&name);
    let steps = steps.map_err(|BadTrace { expected, reason }| reader.refuse(Keys::file, expected, reason))?;
    Ok(DelaySpec::Replay(Arc::clone(&steps)))
}
