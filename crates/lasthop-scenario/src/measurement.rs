//! Notes about the measurement from which a scenario was created: `[measurement]`.
//!
//! `lasthop fit` writes the table and `lasthop advise` uses it. Runs ignore it.

use crate::document::{Data, key_text, quote};
use crate::key::Key;
use crate::reader::{Reader, Standing};
use crate::shared_keys::RootKeys;
use crate::values::{Line, List};
use crate::{Error, Problem};

/// Maximum number of entries in each list.
const MOST: usize = 32;

/// Notes about the measurement from which a scenario was created.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Measurement {
    /// Measured properties that are not in the scenario, a clause each.
    pub not_modelled: Vec<String>,
    /// Properties that were not measured, a clause each.
    pub unknown: Vec<String>,
    /// Assumed values, a clause each.
    pub assumed: Vec<String>,
    /// Reason why no cure may be advised regardless of the results; a clause.
    pub no_cure: Option<String>,
    /// Other values that the measurement allows.
    pub alternatives: Vec<Alternative>,
}

/// Another value that a measurement allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// Description of the value.
    pub name: String,
    /// Dotted key.
    pub key: String,
    /// Value, as TOML.
    pub value: String,
}

keys! {
    /// Keys of a measurement.
    pub(crate) Keys {
        /// none | measured but not in the scenario; not measured; without evidence
        not_modelled, unknown, assumed;
        /// none | why no cure may be recommended
        no_cure;
        /// none | other values that fit: tables of `name`, `key` (dotted, of a link), `value`
        alternatives;
    }

    /// Keys of another value.
    AlternativeKeys { name, key, value; }
}

/// Form of an entry of `alternatives`.
const ALTERNATIVES: &str = r#"an array of tables, e.g. [{ name = "long bad times", key = "links.hop.errors_down", value = { model = "none" } }]"#;

/// Reads `[measurement]`, which may be absent.
pub(crate) fn read(root: &Reader<'_>) -> Result<Option<Measurement>, Error> {
    let reader = root.section(RootKeys::measurement)?;
    if !reader.is_present() {
        return Ok(None);
    }
    reader.allow(Keys::NAMES)?;
    reader.note_table();
    let lines = |key: Key| -> Result<Vec<String>, Error> {
        let List(lines) = reader.or(key, List(Vec::<Line>::new()), "default")?;
        if lines.len() > MOST {
            return Err(reader.refuse(key, format!("at most {MOST} lines"), ""));
        }
        Ok(lines.into_iter().map(|Line(line)| line).collect())
    };
    Ok(Some(Measurement {
        not_modelled: lines(Keys::not_modelled)?,
        unknown: lines(Keys::unknown)?,
        assumed: lines(Keys::assumed)?,
        no_cure: reader.get(Keys::no_cure)?.map(|Line(line)| line),
        alternatives: alternatives(&reader)?,
    }))
}

fn alternatives(reader: &Reader<'_>) -> Result<Vec<Alternative>, Error> {
    let entries = reader.array(Keys::alternatives, ALTERNATIVES)?;
    if entries.len() > MOST {
        return Err(reader.refuse(Keys::alternatives, format!("at most {MOST} tables"), ""));
    }
    let alternatives: Vec<Alternative> = entries.iter().map(alternative).collect::<Result<_, _>>()?;
    let show =
        |it: &Alternative| format!("{{ name = {}, key = {}, value = {} }}", quote(&it.name), quote(&it.key), it.value);
    let shown: Vec<String> = alternatives.iter().map(show).collect();
    reader.note(
        Keys::alternatives,
        format!("[{}]", shown.join(", ")),
        reader.source(Keys::alternatives, ""),
        Standing::Value,
    );
    Ok(alternatives)
}

fn alternative(entry: &Reader<'_>) -> Result<Alternative, Error> {
    entry.allow(AlternativeKeys::NAMES)?;
    let Line(name) = entry.demand(AlternativeKeys::name)?;
    let Line(key) = entry.demand(AlternativeKeys::key)?;
    let value = entry.items().find(|(key, _)| *key == AlternativeKeys::value.name()).map(|(_, item)| toml(&item.data));
    match value {
        Some(value) if key.starts_with("links.") => Ok(Alternative { name, key, value }),
        Some(_) => Err(entry.refuse(AlternativeKeys::key, "a key of a link, e.g. \"links.hop.errors_down\"", "")),
        None => {
            Err(entry.fail(AlternativeKeys::value, Problem::Missing { expected: "a value for the key".to_owned() }))
        }
    }
}

/// Formats a value as TOML, on one line.
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
