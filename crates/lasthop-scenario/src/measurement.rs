//! What a scenario that was made from a measurement does not say of it: `[measurement]`.
//!
//! `lasthop fit` writes the table and `lasthop advise` heeds it. No run reads it.

use crate::document::{Data, key_text, quote};
use crate::error::{Error, Problem};
use crate::reader::{Reader, Standing};
use crate::values::{Line, List};

/// Most entries of each list.
const MOST: usize = 32;

/// What a scenario made from a measurement does not say of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Measurement {
    /// What was measured and is not in the scenario, a clause each.
    pub not_modelled: Vec<String>,
    /// What was not measured, a clause each.
    pub unknown: Vec<String>,
    /// Values that nothing was known of, a clause each.
    pub assumed: Vec<String>,
    /// Why no cure may be advised, whatever runs come to; a clause.
    pub no_cure: Option<String>,
    /// Other values that the measurement allows as well.
    pub alternatives: Vec<Alternative>,
}

/// Another value that a measurement allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// What it is.
    pub name: String,
    /// The dotted key.
    pub key: String,
    /// The value, as TOML.
    pub value: String,
}

/// How an entry of `alternatives` is written.
const ALTERNATIVES: &str = r#"an array of tables, as [{ name = "long bad times", key = "links.hop.errors_down", value = { model = "none" } }]"#;

/// Reads `[measurement]`, which may be absent.
pub(crate) fn read(root: &Reader<'_>) -> Result<Option<Measurement>, Error> {
    let reader = root.section("measurement")?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(&["not_modelled", "unknown", "assumed", "no_cure", "alternatives"])?;
    reader.note_table();
    let lines = |key: &'static str| -> Result<Vec<String>, Error> {
        let List(lines) = reader.or(key, List(Vec::<Line>::new()), "default")?;
        if lines.len() > MOST {
            return Err(reader.refuse(key, format!("at most {MOST} lines"), ""));
        }
        Ok(lines.into_iter().map(|Line(line)| line).collect())
    };
    Ok(Some(Measurement {
        not_modelled: lines("not_modelled")?,
        unknown: lines("unknown")?,
        assumed: lines("assumed")?,
        no_cure: reader.get("no_cure")?.map(|Line(line)| line),
        alternatives: alternatives(&reader)?,
    }))
}

fn alternatives(reader: &Reader<'_>) -> Result<Vec<Alternative>, Error> {
    let entries = reader.array("alternatives", ALTERNATIVES)?;
    if entries.len() > MOST {
        return Err(reader.refuse("alternatives", format!("at most {MOST} tables"), ""));
    }
    let alternatives: Vec<Alternative> = entries.iter().map(alternative).collect::<Result<_, _>>()?;
    let show =
        |it: &Alternative| format!("{{ name = {}, key = {}, value = {} }}", quote(&it.name), quote(&it.key), it.value);
    let shown: Vec<String> = alternatives.iter().map(show).collect();
    reader.note("alternatives", format!("[{}]", shown.join(", ")), reader.source("alternatives", ""), Standing::Value);
    Ok(alternatives)
}

fn alternative(entry: &Reader<'_>) -> Result<Alternative, Error> {
    entry.allow(&["name", "key", "value"])?;
    let Line(name) = entry.demand("name")?;
    let Line(key) = entry.demand("key")?;
    let value = entry.items().find(|(key, _)| *key == "value").map(|(_, item)| toml(&item.data));
    match value {
        Some(value) if key.starts_with("links.") => Ok(Alternative { name, key, value }),
        Some(_) => Err(entry.refuse("key", "a key of a link, as \"links.hop.errors_down\"", "")),
        None => Err(entry.fail("value", Problem::Missing { expected: "what the key is set to".to_owned() })),
    }
}

/// A value as TOML, on one line.
fn toml(data: &Data) -> String {
    match data {
        Data::String(text) => quote(text),
        Data::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| toml(&item.data)).collect();
            format!("[{}]", items.join(", "))
        }
        Data::Table(table) => {
            let pairs: Vec<String> =
                table.iter().map(|(key, item)| format!("{} = {}", key_text(key), toml(&item.data))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Data::Integer(_) | Data::Float(_) | Data::Boolean(_) | Data::Other(_) => data.describe(),
    }
}
