//! The tables of keys in `docs/scenarios.md`, from the declarations of the keys.

use std::cell::RefCell;

use lasthop_proto::tcp::config::Preset;
use lasthop_proto::tcp::congestion::{ALGORITHMS, Algorithm};

use crate::document::Table;
use crate::elements::{Kind, arq, snoop, split, two_ended};
use crate::key::{Row, table};
use crate::reader::{Context, Reader, Value};
use crate::snoop::RepairKeys;
use crate::tcp::{self, Base};
use crate::{
    bundles, call, cell, channel, elements, impairments, lab, link_trace, measurement, mobility, nodes, queue, quic,
    rate_variation,
};
use crate::{script, sessions, shared_keys, stations, tcp_keys, variation, wifi};

const COLUMNS: &[&str] = &["key", "default", "meaning"];
const WITH_UNIT: &[&str] = &["key", "unit", "default", "meaning"];

/// Returns a table of keys in Markdown, e.g. "links".
pub fn key_table(name: &str) -> Option<String> {
    let (columns, parts): (_, &[&[Row]]) = match name {
        "scenario" => (COLUMNS, &[shared_keys::RootKeys::ROWS]),
        "hosts" => (COLUMNS, &[nodes::HostKeys::ROWS]),
        "links" => (COLUMNS, &[shared_keys::LinkKeys::ROWS, impairments::Keys::ROWS]),
        "bundles" => (COLUMNS, &[bundles::BundleKeys::ROWS]),
        "cells" => (&["key", "`\"lte\"`", "`\"nr\"`", "meaning"], &[cell::Keys::ROWS]),
        "cell" => (&["key of `cell`", "unit", "default", "meaning"], &[cell::UserKeys::ROWS]),
        "handover" => (&["key of `handover`", "unit", "default", "meaning"], &[cell::HandoverKeys::ROWS]),
        "wifi" => (COLUMNS, &[wifi::Keys::ROWS]),
        "queue" => (COLUMNS, &[queue::Keys::ROWS]),
        "errors" => (WITH_UNIT, &[channel::Keys::ROWS, script::Keys::ROWS]),
        "rate-variation" => (WITH_UNIT, &[rate_variation::Keys::ROWS]),
        "link-trace" => (WITH_UNIT, &[link_trace::Keys::ROWS]),
        "policer" => (WITH_UNIT, &[impairments::BucketKeys::ROWS]),
        "aggregation" => (WITH_UNIT, &[impairments::AggregationKeys::ROWS]),
        "delay-variation" => (WITH_UNIT, &[variation::Keys::ROWS]),
        "flows" => (COLUMNS, &[shared_keys::FlowKeys::ROWS, shared_keys::CopyKeys::ROWS, shared_keys::OnOffKeys::ROWS]),
        "call" => (COLUMNS, &[call::Keys::ROWS]),
        "quic" => (COLUMNS, &[quic::Keys::ROWS]),
        "sessions" => (COLUMNS, &[sessions::Keys::ROWS]),
        "mobility" => (COLUMNS, &[mobility::Keys::ROWS]),
        "base-station" => (COLUMNS, STATION),
        "elements" => return Some(of_elements()),
        "arq" => (COLUMNS, &[arq::Keys::ROWS]),
        "two-ended" => (COLUMNS, &[two_ended::RepairKeys::ROWS, two_ended::Keys::ROWS, stations::PastKeys::ROWS]),
        "lab" => return Some(table(COLUMNS, &[("", lab::Keys::ROWS), ("hosts.NAME.", lab::LabHostKeys::ROWS)])),
        "measurement" => (COLUMNS, &[measurement::Keys::ROWS]),
        "tcp" => return of_tcp(),
        _ => return None,
    };
    Some(table(columns, &parts.iter().map(|rows| ("", *rows)).collect::<Vec<_>>()))
}

const STATION: &[&[Row]] =
    &[elements::PortKeys::ROWS, snoop::Keys::ROWS, RepairKeys::ROWS, split::Keys::ROWS, stations::StationKeys::ROWS];

/// Returns the table of elements' keys, from the kinds of elements.
fn of_elements() -> String {
    let text = table(COLUMNS, &[("", stations::ElementKeys::ROWS), ("", elements::PortKeys::ROWS)]);
    let text = Kind::all_rows().fold(text, |text, row| text + &row.show("", ""));
    text.replace("{kinds}", &Kind::all_names())
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
    Some(text.replace("{algorithms}", &algorithms()))
}

/// Returns the names of the congestion controls, each with its explanation.
fn algorithms() -> String {
    let show = |algorithm: &&Algorithm| match algorithm.about {
        "" => format!("`{}`", algorithm.name),
        about => format!("`{}` ({about})", algorithm.name),
    };
    ALGORITHMS.iter().map(show).collect::<Vec<_>>().join(", ")
}
