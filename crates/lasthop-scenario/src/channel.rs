//! Keys of error models: `errors = { model = "exponential", mean_bytes = "64 KiB" }`.

use std::sync::Arc;

use lasthop_proto::channel::{Drop, DropFrame, ErrorSpec, Frames, LossUnit, MOST_FRAMES};
use lasthop_proto::time::Duration;

use crate::document::{Data, quote};
use crate::files::{BadTrace, Files};
use crate::flow_names::FlowNames;
use crate::key::Key;
use crate::netem::{self, Keys as NetemKeys};
use crate::reader::{Reader, Standing, Value};
use crate::script;
use crate::shared_keys::EntryKeys;
use crate::units::Fraction;
use crate::values::{Count, List, MeanBytes, Positive, Text, Whole, named_models};
use crate::{Error, Problem};

keys! {
    /// Keys of an error model.
    pub(crate) Keys {
        model;
        /// bytes, bits | required | mean distance, may be fractional; one of the two
        mean_bytes, mean_bits;
        /// probability | required | per frame
        frame_loss;
        /// time | required | mean duration of the state
        good, bad;
        /// probability | required | errors per bit in the state
        good_ber, bad_ber;
        /// probability | required | change of the state per frame
        good_to_bad, bad_to_good;
        /// probability | {} | loss in the state
        good_loss: Fraction = Fraction::ZERO, bad_loss: Fraction = Fraction::ONE;
        /// number | required | frames destroyed by one burst
        packets;
        /// | {} | `"all"`, `"data"` (with payload), `"acks"` (without)
        frames: Frames = Frames::All;
        /// | {} | `"packet"`; `"super-segment"`: one decision for all packets of a super-segment of a host with `tso`, as
        /// netem in front of the device ([offloads](models/offloads.md))
        unit: LossUnit = LossUnit::Packet;
        /// path | required | `0` (arrives) or `1` (lost) per frame, with spaces, commas, line breaks; at most 16,777,216
        /// frames
        file;
        /// list | | instead of `file`: run lengths of arriving and lost frames, alternating
        runs;
        /// list | required | `{ data = 17, transmission = 2 }`: second transmission of the 17th data segment;
        /// `{ ack = 5 }`: 5th pure acknowledgment; `{ syn = 1 }`: first SYN or SYN-ACK, by first passage in this
        /// direction. `transmission` defaults to 1, `flow` to each
        drop;
    }
}

/// All models, in the order of messages. A new one is a line here, and its process in [`lasthop_proto::channel`].
static MODELS: [Model; 12] = [
    NONE,
    Model::new("exponential", key_names!(Keys: mean_bytes, mean_bits, frames), |given| {
        Ok(ErrorSpec::Exponential { mean_bytes: given.mean_bytes()?, frames: given.frames()? })
    }),
    Model::new("uniform", key_names!(Keys: frame_loss, frames, unit), |given| {
        Ok(ErrorSpec::Uniform { frame_loss: given.fraction(Keys::frame_loss)?, frames: given.frames()? })
    }),
    Model::new("two-state", key_names!(Keys: good, bad, good_ber, bad_ber), |given| {
        Ok(ErrorSpec::TwoStateTime {
            good: given.span(Keys::good)?,
            bad: given.span(Keys::bad)?,
            good_ber: given.fraction(Keys::good_ber)?,
            bad_ber: given.fraction(Keys::bad_ber)?,
        })
    }),
    Model::new(
        "two-state-packet",
        key_names!(Keys: good_to_bad, bad_to_good, good_loss, bad_loss, frames, unit),
        |given| {
            Ok(ErrorSpec::TwoStatePacket {
                good_to_bad: given.fraction(Keys::good_to_bad)?,
                bad_to_good: given.fraction(Keys::bad_to_good)?,
                good_loss: given.reader.value(Keys::good_loss)?.get(),
                bad_loss: given.reader.value(Keys::bad_loss)?.get(),
                frames: given.frames()?,
            })
        },
    ),
    Model::new("burst", key_names!(Keys: mean_bytes, mean_bits, packets, frames), |given| {
        Ok(ErrorSpec::Burst {
            mean_bytes: given.mean_bytes()?,
            packets: given.reader.required::<Count>(Keys::packets)?.0,
            frames: given.frames()?,
        })
    }),
    Model::new("list", key_names!(Keys: drop), |given| Ok(ErrorSpec::List(Arc::new(list(given.reader, given.flows)?)))),
    Model::new("script", script::Keys::NAMES, |given| {
        Ok(ErrorSpec::Script(Arc::new(script::read(given.reader, given.flows)?)))
    }),
    Model::new("replay", key_names!(Keys: file, runs, frames, unit), |given| {
        Ok(ErrorSpec::Replay { trace: replay(given.reader, given.files)?, frames: given.frames()? })
    }),
    Model::new("gemodel", key_names!(NetemKeys: p, r, lose_bad, lose_good, unit), |given| netem::gemodel(given.reader)),
    Model::new("state", key_names!(NetemKeys: p13, p31, p32, p23, p14, unit), |given| netem::state(given.reader)),
    Model::new("random", key_names!(NetemKeys: loss, correlation, unit), |given| netem::random(given.reader)),
];

const NONE: Model = Model::new("none", &[], |_| Ok(ErrorSpec::None));

/// Keys of an error model.
#[derive(Debug)]
struct Model {
    /// Name in `model = "NAME"`.
    name: &'static str,
    /// Keys besides `model`.
    keys: &'static [&'static str],
    read: fn(&Given<'_>) -> Result<ErrorSpec, Error>,
}

impl Model {
    const fn new(
        name: &'static str,
        keys: &'static [&'static str],
        read: fn(&Given<'_>) -> Result<ErrorSpec, Error>,
    ) -> Self {
        Self { name, keys, read }
    }

    /// Returns all its keys.
    fn all_keys(&self) -> Vec<&'static str> {
        [&[Keys::model.name()], self.keys].concat()
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

named_models!(Model, MODELS);

/// Reads an error model. An absent table means [`ErrorSpec::None`]. `files` contains loss traces.
pub(crate) fn read(reader: &Reader<'_>, flows: &FlowNames, files: &Files) -> Result<ErrorSpec, Error> {
    if !reader.has(Keys::model) {
        // Checked before a missing model is reported: the key may be misspelt.
        let all: Vec<_> = MODELS.iter().flat_map(Model::all_keys).collect();
        reader.allow(&all)?;
    }
    let model: &'static Model = match reader.is_present() {
        true => reader.required(Keys::model)?,
        false => reader.or(Keys::model, &NONE, "default")?,
    };
    reader.allow(&model.all_keys()).map_err(|error| explain_unknown(error, model))?;
    let errors = (model.read)(&Given { reader, flows, files })?;
    if !model.keys.contains(&Keys::unit.name()) {
        return Ok(errors);
    }
    Ok(match reader.value(Keys::unit)? {
        LossUnit::Packet => errors,
        LossUnit::SuperSegment => ErrorSpec::Whole(Box::new(errors)),
    })
}

/// Explains a key that only another model has, which is unlikely to be a typo.
fn explain_unknown(error: Error, model: &'static Model) -> Error {
    let known_elsewhere = |key: &str| {
        let name = key.rsplit('.').next().unwrap_or_default().to_owned();
        MODELS.iter().any(|model| model.keys.contains(&name.as_str()))
    };
    match error.key().map(known_elsewhere) {
        Some(true) => {
            let of_model = if model.keys.is_empty() { "nothing".to_owned() } else { model.keys.join(", ") };
            let message = format!("model = {} does not take this key; it takes {of_model}", model.show());
            error.with(Problem::Conflict(message))
        }
        _ => error,
    }
}

/// Table of an error model, and the names that it may refer to.
struct Given<'a> {
    reader: &'a Reader<'a>,
    flows: &'a FlowNames,
    files: &'a Files,
}

impl Given<'_> {
    fn frames(&self) -> Result<Frames, Error> {
        self.reader.value(Keys::frames)
    }

    fn fraction(&self, key: Key) -> Result<f64, Error> {
        self.reader.required::<Fraction>(key).map(Fraction::get)
    }

    fn span(&self, key: Key) -> Result<Duration, Error> {
        self.reader.required::<Positive<Duration>>(key).map(|Positive(span)| span)
    }

    /// Reads `mean_bytes`, or `mean_bits` instead; the ledger gets bytes in both cases.
    fn mean_bytes(&self) -> Result<f64, Error> {
        let reader = self.reader;
        if !reader.has(Keys::mean_bits) {
            return reader.required::<MeanBytes>(Keys::mean_bytes).map(|MeanBytes(bytes)| bytes);
        }
        if reader.has(Keys::mean_bytes) {
            let both = "give mean_bytes or mean_bits, not both".to_owned();
            return Err(reader.fail(Keys::mean_bits, Problem::Conflict(both)));
        }
        let MeanBits(bits) = reader.demand(Keys::mean_bits)?;
        let bytes = bits / 8.0;
        let shown = MeanBytes(bytes).show();
        let source = format!("{} as mean_bits", reader.source(Keys::mean_bits, &shown));
        reader.note(Keys::mean_bytes, shown, source, Standing::Value);
        Ok(bytes)
    }
}

/// A number of bits.
struct MeanBits(f64);

impl Value for MeanBits {
    fn expected() -> String {
        "a number of bits above zero, e.g. 524288".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let bits = match data {
            Data::Integer(bits) => *bits as f64,
            Data::Float(bits) => *bits,
            _ => return Err(String::new()),
        };
        // Eight times the smallest normal number, so that the number of bytes is above zero too.
        if bits.is_finite() && bits >= 1e-300 {
            Ok(Self(bits))
        } else {
            Err("it must be above zero and finite".to_owned())
        }
    }
    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Maximum number of entries in a list: each is compared with each frame.
const LONGEST_LIST: usize = 10_000;

fn list(reader: &Reader<'_>, flows: &FlowNames) -> Result<Vec<Drop>, Error> {
    if !reader.has(Keys::drop) {
        let expected = "the frames to drop, e.g. [{ data = 17, transmission = 2 }, { ack = 5 }]".to_owned();
        return Err(reader.fail(Keys::drop, Problem::Missing { expected }));
    }
    let entries = reader.array(Keys::drop, "an array of tables, e.g. [{ data = 17 }]")?;
    if entries.len() > LONGEST_LIST {
        return Err(reader.refuse(Keys::drop, format!("a list of at most {LONGEST_LIST} frames"), ""));
    }
    let drops = entries.iter().map(|entry| drop(entry, flows)).collect::<Result<Vec<_>, _>>()?;
    let shown: Vec<_> = drops.iter().map(|drop| show(drop, flows)).collect();
    reader.note(Keys::drop, format!("[{}]", shown.join(", ")), reader.source(Keys::drop, ""), Standing::Value);
    Ok(drops)
}

fn drop(entry: &Reader<'_>, flows: &FlowNames) -> Result<Drop, Error> {
    entry.allow(key_names!(EntryKeys: data, transmission, ack, syn, flow))?;
    let number = |key: Key| entry.peek::<Count>(key).map(|number| number.map(|Whole(number)| number));
    let frame = match (number(EntryKeys::data)?, number(EntryKeys::ack)?, number(EntryKeys::syn)?) {
        (Some(segment), None, None) => {
            DropFrame::Data { segment, transmission: number(EntryKeys::transmission)?.unwrap_or(1) }
        }
        (None, Some(nth), None) => DropFrame::Ack(nth),
        (None, None, Some(nth)) => DropFrame::Syn(nth),
        _ => {
            let message =
                "give data = N (the Nth data segment), ack = N (the Nth acknowledgment) or syn = N (the Nth SYN)";
            return Err(entry.fail_here(Problem::Conflict(message.to_owned())));
        }
    };
    if entry.has(EntryKeys::transmission) && !matches!(frame, DropFrame::Data { .. }) {
        let message = "only data has transmissions; ack = 5 is the fifth acknowledgment that passes".to_owned();
        return Err(entry.fail(EntryKeys::transmission, Problem::Conflict(message)));
    }
    Ok(Drop { flow: flows.read_flow(entry)?, frame })
}

fn show(drop: &Drop, flows: &FlowNames) -> String {
    let frame = match drop.frame {
        DropFrame::Data { segment, transmission } => format!("data = {segment}, transmission = {transmission}"),
        DropFrame::Ack(nth) => format!("ack = {nth}"),
        DropFrame::Syn(nth) => format!("syn = {nth}"),
    };
    match drop.flow.and_then(|flow| flows.name(flow)) {
        Some(flow) => format!("{{ {frame}, flow = {} }}", quote(&flow)),
        None => format!("{{ {frame} }}"),
    }
}

/// Returns the loss trace of `file`.
fn replay(reader: &Reader<'_>, files: &Files) -> Result<Arc<Vec<bool>>, Error> {
    if reader.has(Keys::runs) {
        if reader.has(Keys::file) {
            let both = "give file or runs, not both".to_owned();
            return Err(reader.fail(Keys::runs, Problem::Conflict(both)));
        }
        return runs(reader);
    }
    let Text(name) = reader.required(Keys::file)?;
    files.trace(&name).map_err(|BadTrace { expected, reason }| reader.refuse(Keys::file, expected, reason))
}

/// Returns the loss trace of `runs`: alternating numbers of packets that arrive and that are lost.
fn runs(reader: &Reader<'_>) -> Result<Arc<Vec<bool>>, Error> {
    let List(runs) = reader.required::<List<Whole<0, { MOST_FRAMES as u32 }>>>(Keys::runs)?;
    let total: u64 = runs.iter().map(|Whole(run)| u64::from(*run)).sum();
    if !(1..=MOST_FRAMES as u64).contains(&total) {
        return Err(reader.refuse(Keys::runs, format!("runs of 1 to {MOST_FRAMES} frames in all"), ""));
    }
    let trace = runs.iter().enumerate().flat_map(|(at, Whole(run))| std::iter::repeat_n(at % 2 == 1, *run as usize));
    Ok(Arc::new(trace.collect()))
}
