//! Error models: `errors = { model = "exponential", mean_bytes = "64 KiB" }`.

use std::sync::Arc;

use lasthop_proto::channel::{Drop, DropFrame, ErrorSpec, Frames};
use lasthop_proto::time::Duration;

use crate::document::{Data, quote};
use crate::error::{Error, Problem};
use crate::files::{BadTrace, Files};
use crate::flow_names::FlowNames;
use crate::reader::{Reader, Standing, Value};
use crate::script;
use crate::units::Fraction;
use crate::values::{Choice, Count, MeanBytes, ModelName, Positive, Text, Whole};

/// Reads an error model. An absent table means [`ErrorSpec::None`]. Loss traces are among `files`.
pub(crate) fn read(reader: &Reader<'_>, flows: &FlowNames, files: &Files) -> Result<ErrorSpec, Error> {
    if !reader.has("model") {
        // Before the model is missed: it may be there, misspelt.
        let all: Vec<_> = ModelName::CHOICES.iter().flat_map(|(_, model)| keys(*model)).copied().collect();
        reader.allow(&all)?;
    }
    let model = match reader.is_present() {
        true => reader.required("model")?,
        false => reader.or("model", ModelName::None, "default")?,
    };
    reader.allow(keys(model)).map_err(|error| explain_unknown(error, model))?;
    Ok(match model {
        ModelName::None => ErrorSpec::None,
        ModelName::Exponential => ErrorSpec::Exponential { mean_bytes: mean_bytes(reader)?, frames: frames(reader)? },
        ModelName::Uniform => {
            ErrorSpec::Uniform { frame_loss: fraction(reader, "frame_loss")?, frames: frames(reader)? }
        }
        ModelName::TwoState => ErrorSpec::TwoStateTime {
            good: span(reader, "good")?,
            bad: span(reader, "bad")?,
            good_ber: fraction(reader, "good_ber")?,
            bad_ber: fraction(reader, "bad_ber")?,
        },
        ModelName::TwoStatePacket => ErrorSpec::TwoStatePacket {
            good_to_bad: fraction(reader, "good_to_bad")?,
            bad_to_good: fraction(reader, "bad_to_good")?,
            good_loss: reader.or("good_loss", Fraction::ZERO, "default")?.get(),
            bad_loss: reader.or("bad_loss", Fraction::ONE, "default")?.get(),
            frames: frames(reader)?,
        },
        ModelName::Burst => ErrorSpec::Burst {
            mean_bytes: mean_bytes(reader)?,
            packets: reader.required::<Count>("packets")?.0,
            frames: frames(reader)?,
        },
        ModelName::List => ErrorSpec::List(Arc::new(list(reader, flows)?)),
        ModelName::Script => ErrorSpec::Script(Arc::new(script::read(reader, flows)?)),
        ModelName::Replay => ErrorSpec::Replay { trace: replay(reader, files)?, frames: frames(reader)? },
    })
}

fn keys(model: ModelName) -> &'static [&'static str] {
    match model {
        ModelName::None => &["model"],
        ModelName::Exponential => &["model", "mean_bytes", "mean_bits", "frames"],
        ModelName::Uniform => &["model", "frame_loss", "frames"],
        ModelName::TwoState => &["model", "good", "bad", "good_ber", "bad_ber"],
        ModelName::TwoStatePacket => &["model", "good_to_bad", "bad_to_good", "good_loss", "bad_loss", "frames"],
        ModelName::Burst => &["model", "mean_bytes", "mean_bits", "packets", "frames"],
        ModelName::List => &["model", "drop"],
        ModelName::Script => script::KEYS,
        ModelName::Replay => &["model", "file", "frames"],
    }
}

/// A key that another model knows is not a slip of the pen: say which model it is that does not know it.
fn explain_unknown(error: Error, model: ModelName) -> Error {
    let known_elsewhere = |key: &str| {
        let name = key.rsplit('.').next().unwrap_or_default().to_owned();
        ModelName::CHOICES.iter().any(|(_, model)| keys(*model).contains(&name.as_str()))
    };
    match error.key().map(known_elsewhere) {
        Some(true) => {
            let of_model = keys(model)[1..].join(", ");
            let of_model = if of_model.is_empty() { "nothing".to_owned() } else { of_model };
            let message = format!("model = {} does not take this key; it takes {of_model}", model.show());
            error.with(Problem::Conflict(message))
        }
        _ => error,
    }
}

fn frames(reader: &Reader<'_>) -> Result<Frames, Error> {
    reader.or("frames", Frames::All, "default")
}

fn fraction(reader: &Reader<'_>, key: &'static str) -> Result<f64, Error> {
    reader.required::<Fraction>(key).map(Fraction::get)
}

fn span(reader: &Reader<'_>, key: &'static str) -> Result<Duration, Error> {
    reader.required::<Positive<Duration>>(key).map(|Positive(span)| span)
}

/// `mean_bytes`, or `mean_bits` in its place; the ledger gets bytes either way.
fn mean_bytes(reader: &Reader<'_>) -> Result<f64, Error> {
    if !reader.has("mean_bits") {
        return reader.required::<MeanBytes>("mean_bytes").map(|MeanBytes(bytes)| bytes);
    }
    if reader.has("mean_bytes") {
        return Err(reader.fail("mean_bits", Problem::Conflict("give mean_bytes or mean_bits, not both".to_owned())));
    }
    let MeanBits(bits) = reader.demand("mean_bits")?;
    let bytes = bits / 8.0;
    let shown = MeanBytes(bytes).show();
    let source = format!("{} as mean_bits", reader.source("mean_bits", &shown));
    reader.note("mean_bytes", shown, source, Standing::Value);
    Ok(bytes)
}

/// A number of bits.
struct MeanBits(f64);

impl Value for MeanBits {
    fn expected() -> String {
        "a number of bits above zero, as 524288".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let bits = match data {
            Data::Integer(bits) => *bits as f64,
            Data::Float(bits) => *bits,
            _ => return Err(String::new()),
        };
        // Eight times the smallest normal number, so that the bytes are a number above zero too.
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

/// Most entries of a list: each is compared with each frame.
const LONGEST_LIST: usize = 10_000;

fn list(reader: &Reader<'_>, flows: &FlowNames) -> Result<Vec<Drop>, Error> {
    if !reader.has("drop") {
        let expected = "the frames to drop, as [{ data = 17, transmission = 2 }, { ack = 5 }]".to_owned();
        return Err(reader.fail("drop", Problem::Missing { expected }));
    }
    let entries = reader.array("drop", "an array of tables, as [{ data = 17 }]")?;
    if entries.len() > LONGEST_LIST {
        return Err(reader.refuse("drop", format!("a list of at most {LONGEST_LIST} frames"), ""));
    }
    let drops = entries.iter().map(|entry| drop(entry, flows)).collect::<Result<Vec<_>, _>>()?;
    let shown: Vec<_> = drops.iter().map(|drop| show(drop, flows)).collect();
    reader.note("drop", format!("[{}]", shown.join(", ")), reader.source("drop", ""), Standing::Value);
    Ok(drops)
}

fn drop(entry: &Reader<'_>, flows: &FlowNames) -> Result<Drop, Error> {
    entry.allow(&["data", "transmission", "ack", "syn", "flow"])?;
    let number = |key: &str| entry.peek::<Count>(key).map(|number| number.map(|Whole(number)| number));
    let frame = match (number("data")?, number("ack")?, number("syn")?) {
        (Some(segment), None, None) => DropFrame::Data { segment, transmission: number("transmission")?.unwrap_or(1) },
        (None, Some(nth), None) => DropFrame::Ack(nth),
        (None, None, Some(nth)) => DropFrame::Syn(nth),
        _ => {
            let message =
                "give data = N (the Nth data segment), ack = N (the Nth acknowledgment) or syn = N (the Nth SYN)";
            return Err(entry.fail_here(Problem::Conflict(message.to_owned())));
        }
    };
    if entry.has("transmission") && !matches!(frame, DropFrame::Data { .. }) {
        let message = "only data has transmissions; ack = 5 is the fifth acknowledgment that passes".to_owned();
        return Err(entry.fail("transmission", Problem::Conflict(message)));
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

/// The loss trace that `file` names.
fn replay(reader: &Reader<'_>, files: &Files) -> Result<Arc<Vec<bool>>, Error> {
    let Text(name) = reader.required("file")?;
    files.trace(&name).map_err(|BadTrace { expected, reason }| reader.refuse("file", expected, reason))
}
