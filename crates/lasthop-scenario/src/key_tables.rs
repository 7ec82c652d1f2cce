//! The tables of keys in `docs/scenarios.md`, from the declarations of the keys.

use std::cell::RefCell;

use lasthop_proto::tcp::config::Preset;

use crate::document::Table;
use crate::key::table;
use crate::reader::{Context, Reader, Value};
use crate::tcp::{self, Base};
use crate::tcp_keys;

/// Returns a table of keys in Markdown: "tcp".
pub fn key_table(name: &str) -> Option<String> {
    if name == "tcp" { of_tcp() } else { None }
}

/// Returns the table of TCP's keys, with the values of these presets.
fn of_tcp() -> Option<String> {
    let presets = [Preset::BsdLite, Preset::Ns2, Preset::Rfc, Preset::Linux618, Preset::Rfc2026];
    let names = presets.map(|preset| preset.show().trim_matches('"').to_owned());
    let mut ledgers = Vec::new();
    for preset in presets {
        let context = Context { file: String::new(), ledger: RefCell::default(), modern: None };
        tcp::read_table(&Reader::root(&context, &Table::default()), Base::Preset(preset)).ok()?;
        ledgers.push(context.ledger.take());
    }
    let columns: Vec<&str> = ["key"].into_iter().chain(names.iter().map(String::as_str)).chain(["meaning"]).collect();
    let mut text = table(&columns, &[]);
    for row in tcp_keys::Keys::ROWS {
        let values = ledgers.iter().map(|ledger| {
            let entry = ledger.iter().find(|entry| entry.key == row.names.first().copied());
            entry.map_or("–", |entry| entry.value.trim_matches('"')).to_owned() + " | "
        });
        text += &row.show("", &values.collect::<String>());
    }
    Some(text)
}
