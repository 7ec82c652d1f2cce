//! What the endpoints of a scenario are under a scheme of today.
//!
//! A preset of today stays. Under one of earlier years lies Linux instead: what the table says itself holds, what it leaves to its
//! preset becomes Linux's. A scheme that is named after a congestion control replaces the preset's, but not one that the scenario
//! gives.

use std::cell::RefCell;

use lasthop_proto::tcp::config::{ControlRule, Preset};

use crate::document::{Item, Table, infer};
use crate::error::{Error, Spot};
use crate::reader::{Context, Entry, Reader, Standing, Today, Value};
use crate::tcp::{self, Base, TcpSpec, Under};
use crate::tcp_keys::KeyName;
use crate::values::List;

/// What lies under the keys of a table whose preset is of earlier years.
const PRESET: Preset = Preset::Linux618;

/// Keys that mean something only beside another one, which goes with them where they stand; some with one value only.
const COMPANIONS: [(&str, Option<&str>, &str); 8] = [
    ("slow_tick", None, "clock"),
    ("fast_tick", None, "clock"),
    ("jiffy", None, "clock"),
    ("timer_wheel", None, "clock"),
    ("delayed_ack_timeout", None, "delayed_ack"),
    ("ack_before_read", Some("\"on\""), "delayed_ack"),
    ("ack_congestion", Some("\"rfc5690\""), "delayed_ack"),
    ("sack_blocks", Some("4"), "timestamps"),
];

/// Reads a table of TCP keys as `scheme` has it; of `base`, a table has been read so too.
pub(crate) fn read(reader: &Reader<'_>, base: Base<'_>, scheme: Today) -> Result<TcpSpec, Error> {
    let preset = match base {
        Base::Preset(preset) => reader.peek("preset")?.unwrap_or(preset),
        Base::Table(_) | Base::RelayEnd(..) => match reader.peek("preset")? {
            Some(preset) => preset,
            // All its keys are its own, over a table of today.
            None => return tcp::read_table(reader, base),
        },
    };
    let scratch = Context { file: reader.context().file.clone(), ledger: RefCell::default(), today: None };
    let empty = Table::default();
    tcp::read_table(&reader.beside(&scratch), base)?;
    let shown = scratch.ledger.take();
    let kept = match reader.peek::<List<KeyName>>("given")? {
        None => KeyName::all_in(reader).collect(),
        // A text that was written by `explain`, and perhaps changed since.
        Some(List(given)) => {
            tcp::lay(&reader.with(&scratch, &empty), Under::of(preset, base))?;
            let usual = scratch.ledger.take();
            let own = |key: &KeyName| given.contains(key) || value_of(&shown, key.0) != value_of(&usual, key.0);
            KeyName::all_in(reader).filter(own).collect::<Vec<_>>()
        }
    };
    let today = if preset.recovery().is_some() { preset } else { PRESET };
    let mut under = Under::of(today, base);
    if let Some(congestion) = scheme.congestion {
        if !congestion.is(under.spec.config.congestion) {
            under.spec.config.congestion = congestion.rule();
        }
        under.named_after = Some(scheme.scheme);
    }
    let table = laid_over(reader, &kept, &shown, under.spec.config.congestion);
    let over = reader.with(reader.context(), &table);
    let given = reader.has("preset").then(|| reader.source("preset", &preset.show()));
    let source = match given {
        _ if today != preset => {
            let place = given.unwrap_or_else(|| "the default".to_owned());
            format!("{}, in place of {} ({place})", scheme.scheme, preset.show())
        }
        Some(place) => place,
        None => "default".to_owned(),
    };
    over.note("preset", today.show(), source, Standing::Value);
    tcp::lay(&over, under)
}

impl Under {
    /// A preset and nothing else.
    fn of(preset: Preset, base: Base<'_>) -> Self {
        Self { spec: TcpSpec::of(preset), preset: Some(preset), relay_buffer: base.relay_buffer(), named_after: None }
    }
}

/// The keys that hold, and those that they need beside them, which have the values that they have in the scenario.
fn laid_over(reader: &Reader<'_>, kept: &[KeyName], shown: &[Entry], congestion: ControlRule) -> Table {
    let stays = |name: &str| kept.iter().any(|key| key.0 == name);
    let mut table = Table::default();
    for (key, item) in reader.items() {
        // Without slow start to leave early, the key has no meaning.
        let void = key == "hystart" && congestion.hystart().is_none() && !stays("congestion");
        if stays(key) && !void {
            table.push(key, item.clone());
        }
    }
    for (key, with, companion) in COMPANIONS {
        let needed = stays(key) && with.is_none_or(|with| value_of(shown, key) == Some(with));
        if let Some(value) = value_of(shown, companion).filter(|_| needed && table.get(companion).is_none()) {
            table.push(companion, Item { data: infer(value), spot: Spot::Whole });
        }
    }
    table
}

/// The value of a key as `explain` writes it.
fn value_of<'e>(ledger: &'e [Entry], key: &str) -> Option<&'e str> {
    ledger.iter().find(|entry| entry.key == Some(key)).map(|entry| entry.value.as_str())
}
