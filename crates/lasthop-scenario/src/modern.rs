//! Endpoints of a scenario under a modern scheme.
//!
//! A modern preset remains. An older one is replaced by Linux's: explicit values of the table apply, and values of the
//! preset become Linux's. A scheme named after a congestion control replaces the preset's, but not one that the
//! scenario sets explicitly.

use std::cell::RefCell;

use lasthop_proto::tcp::config::{ControlRule, Preset};

use crate::document::{Item, Table, infer};
use crate::key::Key;
use crate::reader::{Context, Entry, Modern, Reader, Standing, Value};
use crate::tcp::{self, Base, TcpSpec, Under};
use crate::tcp_keys::{KeyName, Keys};
use crate::values::List;
use crate::{Error, Spot};

/// Base of a table with an older preset.
const PRESET: Preset = Preset::Linux618;

/// Keys that have a meaning only with another key, which is kept with them; some only with one value of that key.
const COMPANIONS: [(Key, Option<&str>, Key); 8] = [
    (Keys::slow_tick, None, Keys::clock),
    (Keys::fast_tick, None, Keys::clock),
    (Keys::jiffy, None, Keys::clock),
    (Keys::timer_wheel, None, Keys::clock),
    (Keys::delayed_ack_timeout, None, Keys::delayed_ack),
    (Keys::ack_before_read, Some("\"on\""), Keys::delayed_ack),
    (Keys::ack_congestion, Some("\"rfc5690\""), Keys::delayed_ack),
    (Keys::sack_blocks, Some("4"), Keys::timestamps),
];

/// Reads a table of TCP keys: unmodified, or for the modern scheme whose endpoints are read.
pub(crate) fn read(reader: &Reader<'_>, base: Base<'_>) -> Result<TcpSpec, Error> {
    match reader.modern() {
        Some(scheme) => read_for(reader, base, scheme),
        None => tcp::read_table(reader, base),
    }
}

/// Reads a table of TCP keys for `scheme`. A table in `base` was read in the same way.
fn read_for(reader: &Reader<'_>, base: Base<'_>, scheme: Modern) -> Result<TcpSpec, Error> {
    let preset = match base {
        Base::Preset(preset) => reader.peek(Keys::preset)?.unwrap_or(preset),
        Base::Table(_) | Base::RelayEnd(..) => match reader.peek(Keys::preset)? {
            Some(preset) => preset,
            // All its keys are explicit, over a modern table.
            None => return tcp::read_table(reader, base),
        },
    };
    let scratch = Context { file: reader.context().file.clone(), ledger: RefCell::default(), modern: None };
    let empty = Table::default();
    tcp::read_table(&reader.beside(&scratch), base)?;
    let shown = scratch.ledger.take();
    let kept = match reader.peek::<List<KeyName>>(Keys::given)? {
        None => KeyName::all_in(reader).collect(),
        // A text written by `explain`, possibly modified since.
        Some(List(given)) => {
            tcp::lay(&reader.with(&scratch, &empty), Under::of(preset, base))?;
            let usual = scratch.ledger.take();
            let own = |key: &KeyName| given.contains(key) || value_of(&shown, key.0) != value_of(&usual, key.0);
            KeyName::all_in(reader).filter(own).collect::<Vec<_>>()
        }
    };
    let modern = if preset.recovery().is_some() { preset } else { PRESET };
    let mut under = Under::of(modern, base);
    if let Some(congestion) = scheme.congestion {
        if !congestion.is(under.spec.modern.congestion) {
            under.spec.modern.congestion = congestion.rule();
        }
        under.named_after = Some(scheme.scheme);
    }
    let table = laid_over(reader, &kept, &shown, under.spec.modern.congestion);
    let over = reader.with(reader.context(), &table);
    let given = reader.has(Keys::preset).then(|| reader.source(Keys::preset, &preset.show()));
    let source = match given {
        _ if modern != preset => {
            let place = given.unwrap_or_else(|| "the default".to_owned());
            format!("{}, instead of {} ({place})", scheme.scheme, preset.show())
        }
        Some(place) => place,
        None => "default".to_owned(),
    };
    over.note(Keys::preset, modern.show(), source, Standing::Value);
    tcp::lay(&over, under)
}

impl Under {
    /// Returns the values of a preset.
    fn of(preset: Preset, base: Base<'_>) -> Self {
        Self { spec: TcpSpec::of(preset), preset: Some(preset), relay_buffer: base.relay_buffer(), named_after: None }
    }
}

/// Returns the keys that apply, and those that they need, with their values in the scenario.
fn laid_over(reader: &Reader<'_>, kept: &[KeyName], shown: &[Entry], congestion: ControlRule) -> Table {
    let stays = |name: &str| kept.iter().any(|key| key.0 == name);
    let mut table = Table::default();
    for (key, item) in reader.items() {
        // The key has no meaning without a slow start that can end early.
        let void = key == Keys::hystart.name() && congestion.hystart().is_none() && !stays(Keys::congestion.name());
        if stays(key) && !void {
            table.push(key, item.clone());
        }
    }
    for (key, with, companion) in COMPANIONS.map(|(key, with, companion)| (key.name(), with, companion.name())) {
        let needed = stays(key) && with.is_none_or(|with| value_of(shown, key) == Some(with));
        if let Some(value) = value_of(shown, companion).filter(|_| needed && table.get(companion).is_none()) {
            table.push(companion, Item { data: infer(value), spot: Spot::Whole });
        }
    }
    table
}

/// Returns the value of a key as written by `explain`.
fn value_of<'e>(ledger: &'e [Entry], key: &str) -> Option<&'e str> {
    ledger.iter().find(|entry| entry.key == Some(key)).map(|entry| entry.value.as_str())
}
