//! The text of a scenario as a tree of values with their places, and values set from outside.

use std::fmt::Write as _;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Place, Problem, Spot, did_you_mean};
use crate::one_line::steers;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// A string.
    String(String),
    /// A whole number.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date, or a number out of range, which no key accepts.
    Other(String),
    /// An array.
    Array(Vec<Item>),
    /// A table.
    Table(Table),
}

/// A value and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Value.
    pub data: Data,
    /// Place.
    pub spot: Spot,
}

/// Keys and values in the order of the file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Table(Vec<(String, Item)>);

impl Table {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Item> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, item)| item)
    }

    /// Iterates over keys and values in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.0.iter().map(|(name, item)| (name.as_str(), item))
    }

    /// Returns whether there is a value at this dotted path.
    pub fn has(&self, path: &str) -> bool {
        match path.split_once('.') {
            None => self.get(path).is_some(),
            Some((key, rest)) => match self.get(key) {
                Some(Item { data: Data::Table(inner), .. }) => inner.has(rest),
                _ => false,
            },
        }
    }

    /// Adds a value, which must not exist yet.
    pub fn push(&mut self, key: &str, item: Item) {
        self.0.push((key.to_owned(), item));
    }

    /// Sets a value; creates the key if it does not exist.
    pub fn set(&mut self, key: &str, item: Item) {
        match self.get_mut(key) {
            Some(slot) => *slot = item,
            None => self.push(key, item),
        }
    }

    /// Removes a value, if it exists.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    /// Removes the values for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&str, &Item) -> bool) {
        self.0.retain(|(name, item)| keep(name, item));
    }

    /// Returns the table of that name, if there is one.
    pub fn table_mut(&mut self, key: &str) -> Option<&mut Table> {
        match self.get_mut(key) {
            Some(Item { data: Data::Table(table), .. }) => Some(table),
            _ => None,
        }
    }

    /// Returns the value of a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Item> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, item)| item)
    }

    fn entry(&mut self, key: &str, new: impl FnOnce() -> Item) -> &mut Item {
        let index = self.0.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), new()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }
}

impl Data {
    /// Formats the value as in TOML, shortened if it is long, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::String(text) => quote(&shorten(text)),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => format!("{number:?}"),
            Self::Boolean(value) => value.to_string(),
            Self::Other(text) => shorten(text),
            Self::Array(_) => "an array".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// Formats `text` as a TOML string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if steers(c) => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats `key` as in a dotted path.
pub fn key_text(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { key.to_owned() } else { quote(&shorten(key)) }
}

fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Parses `text` into a tree.
pub fn parse(file: &str, text: &str) -> Result<Table, Error> {
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1)).collect();
    let line_at = |offset: usize| starts.partition_point(|start| *start <= offset);
    let spot_at = |offset: usize| Spot::Line(line_at(offset));
    match DeTable::parse(text) {
        Ok(root) => Ok(table(root.get_ref(), &spot_at)),
        Err(error) => {
            let line = error.span().map(|span| line_at(span.start.min(text.len())));
            let spot = line.map_or(Spot::Whole, Spot::Line);
            let line = line.and_then(|line| text.lines().nth(line - 1)).map(str::trim).filter(|line| !line.is_empty());
            let hint = line.and_then(units_hint);
            let line = line.map(shorten);
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            let problem = Problem::Syntax { message, line, hint };
            Err(Error::new(Place { file: file.to_owned(), spot }, None, problem))
        }
    }
}

/// Returns a hint for a frequent mistake: `rate = 1.5 Mbps` without quotes.
fn units_hint(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let bare = value.starts_with(|c: char| c.is_ascii_digit()) && !value.contains(['"', '\'', '{', '[', ',']);
    bare.then(|| format!("values with units are quoted: {} = {}", shorten(key.trim()), quote(&shorten(value))))
}

fn table(source: &DeTable<'_>, spot_at: &dyn Fn(usize) -> Spot) -> Table {
    let mut entries: Vec<_> = source.iter().collect();
    // The parser sorts by name; flows and nodes are numbered in the order of the file.
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        (key.get_ref().to_string(), item(value, spot_at))
    };
    Table(entries.into_iter().map(entry).collect())
}

fn item(source: &Spanned<DeValue<'_>>, spot_at: &dyn Fn(usize) -> Spot) -> Item {
    Item { data: data(source.get_ref(), spot_at), spot: spot_at(source.span().start) }
}

fn data(source: &DeValue<'_>, spot_at: &dyn Fn(usize) -> Spot) -> Data {
    match source {
        DeValue::String(text) => Data::String(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Data::Integer(number),
            Err(_) => Data::Other(number.as_str().to_owned()),
        },
        DeValue::Float(number) => Data::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Data::Boolean(*value),
        DeValue::Datetime(date) => Data::Other(date.to_string()),
        DeValue::Array(items) => Data::Array(items.iter().map(|value| item(value, spot_at)).collect()),
        DeValue::Table(inner) => Data::Table(table(inner, spot_at)),
    }
}

/// Parses a value set from outside: a TOML value if it is one, otherwise a string, so that `1.5 Mbps` and `E2E` need no
/// quotes.
pub fn infer(text: &str) -> Data {
    match DeValue::parse(text) {
        Ok(value) => data(value.get_ref(), &|_| Spot::Override),
        Err(_) => Data::String(text.to_owned()),
    }
}

/// Tables whose keys are names of the scenario: setting a value must not create one of them.
const NAMED: [(&str, &str); 5] =
    [("hosts", "host"), ("routers", "router"), ("links", "link"), ("flows", "flow"), ("elements", "element")];

/// Sets the value at `path`, a dotted key, to `value`.
pub fn set(file: &str, root: &mut Table, path: &str, value: &str) -> Result<(), Error> {
    let place = || Place { file: file.to_owned(), spot: Spot::Override };
    let fail = |problem| Error::new(place(), Some(path.to_owned()), problem);
    let keys: Vec<&str> = path.split('.').collect();
    if keys.iter().any(|key| key.trim().is_empty()) {
        let reason = Some("a key or a part of it is empty".to_owned());
        let expected = "a dotted key, e.g. links.wireless.rate".to_owned();
        return Err(fail(Problem::Value { given: quote(path), expected, reason }));
    }
    if let [group, name, ..] = keys[..]
        && let Some((_, what)) = NAMED.iter().find(|(table, _)| *table == group)
    {
        let known: Vec<String> = match root.get(group) {
            Some(Item { data: Data::Table(table), .. }) => table.iter().map(|(name, _)| name.to_owned()).collect(),
            _ => Vec::new(),
        };
        if !known.iter().any(|known| known == name) {
            let near = did_you_mean(name, known.iter().map(String::as_str)).map(str::to_owned);
            return Err(fail(Problem::UnknownName { what, given: name.to_owned(), near, known }));
        }
    }
    let Some((last, parents)) = keys.split_last() else { return Ok(()) };
    let mut table = root;
    for key in parents {
        let new = || Item { data: Data::Table(Table::default()), spot: Spot::Override };
        match &mut table.entry(key, new).data {
            Data::Table(inner) => table = inner,
            other => {
                let reason = Some(format!("{} is {}, not a table", key_text(key), other.describe()));
                let expected = "a key of this scenario".to_owned();
                return Err(fail(Problem::Value { given: quote(path), expected, reason }));
            }
        }
    }
    let item = Item { data: infer(value), spot: Spot::Override };
    table.set(last, item);
    Ok(())
}
