//! Reading values from the tree by key: every value that is read, or that a default stands in for, goes into the ledger,
//! from which [`explain`](crate::explain) writes the scenario out in full.

use std::cell::RefCell;

use lasthop_proto::scheme::Congestion;

use crate::document::{Data, Item, Table, key_text, quote};
use crate::error::{Error, Place, Problem, Spot, did_you_mean};

/// What a key can hold.
pub trait Value: Sized {
    /// What is right, for messages: "a rate, as \"1.5 Mbps\"".
    fn expected() -> String;
    /// The value, or why `data` is none (an empty reason where [`Value::expected`] says all).
    fn read(data: &Data) -> Result<Self, String>;
    /// The value as TOML; [`Value::read`] gives the same value back.
    fn show(&self) -> String;
}

/// Whether a line of the ledger stands in the explained scenario as a value or as a remark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// A value.
    Value,
    /// A remark: the value follows from another key, and would no longer do so if it were written out.
    Remark,
}

/// One value, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Dotted path of the table.
    pub table: String,
    /// The key; none for the table itself.
    pub key: Option<&'static str>,
    /// The value as TOML.
    pub value: String,
    /// Where it comes from.
    pub source: String,
    pub standing: Standing,
}

/// What all readers of a scenario share.
#[derive(Debug)]
pub(crate) struct Context {
    pub file: String,
    pub ledger: RefCell<Vec<Entry>>,
    /// The scheme of today whose endpoints are read; none for those of the scenario.
    pub today: Option<Today>,
}

/// A scheme of today, as far as it decides what endpoints are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Today {
    /// Its name.
    pub scheme: &'static str,
    /// The congestion control that it is named after.
    pub congestion: Option<Congestion>,
}

/// One table of the scenario; it may be absent.
#[derive(Clone, Debug)]
pub struct Reader<'d> {
    context: &'d Context,
    path: String,
    table: Option<&'d Table>,
    spot: Spot,
}

impl<'d> Reader<'d> {
    pub(crate) fn root(context: &'d Context, table: &'d Table) -> Self {
        Self { context, path: String::new(), table: Some(table), spot: Spot::Whole }
    }

    /// The scheme of today whose endpoints are read.
    pub(crate) fn today(&self) -> Option<Today> {
        self.context.today
    }

    /// Another table in the place of this one.
    pub(crate) fn with<'e>(&self, context: &'e Context, table: &'e Table) -> Reader<'e> {
        Reader { context, path: self.path.clone(), table: Some(table), spot: self.spot }
    }

    /// The same table with the ledger of another context.
    pub(crate) fn beside<'e>(&'e self, context: &'e Context) -> Reader<'e> {
        Reader { context, path: self.path.clone(), table: self.table, spot: self.spot }
    }

    /// What is shared with all readers.
    pub(crate) fn context(&self) -> &'d Context {
        self.context
    }

    /// Its keys and their values.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&'d str, &'d Item)> {
        self.table.into_iter().flat_map(Table::iter)
    }

    /// Whether the scenario has this table.
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    fn item(&self, key: &str) -> Option<&'d Item> {
        self.table.and_then(|table| table.get(key))
    }

    /// Whether the scenario has this key.
    pub fn has(&self, key: &str) -> bool {
        self.item(key).is_some()
    }

    /// Whether the scenario has this key, and a table there.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        matches!(self.item(key), Some(Item { data: Data::Table(_), .. }))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key_text(key) } else { format!("{}.{}", self.path, key_text(key)) }
    }

    /// The problem as an error at `key`.
    pub fn fail(&self, key: &str, problem: Problem) -> Error {
        let spot = self.item(key).map_or(self.spot, |item| item.spot);
        Error::new(Place { file: self.context.file.clone(), spot }, Some(self.path_of(key)), problem)
    }

    /// The problem as an error of this table as a whole.
    pub fn fail_here(&self, problem: Problem) -> Error {
        let key = (!self.path.is_empty()).then(|| self.path.clone());
        Error::new(Place { file: self.context.file.clone(), spot: self.spot }, key, problem)
    }

    /// `key` holds something that is not `expected`.
    pub fn refuse(&self, key: &str, expected: impl Into<String>, reason: impl Into<String>) -> Error {
        let given = self.item(key).map_or_else(|| "this".to_owned(), |item| item.data.describe());
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.fail(key, Problem::Value { given, expected: expected.into(), reason })
    }

    /// `key` names something that does not exist.
    pub(crate) fn unknown_name<'n>(
        &self,
        key: &str,
        what: &'static str,
        given: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Error {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let near = did_you_mean(given, known.iter().map(String::as_str)).map(str::to_owned);
        self.fail(key, Problem::UnknownName { what, given: given.to_owned(), near, known })
    }

    /// Refuses keys other than `known`.
    pub fn allow(&self, known: &[&str]) -> Result<(), Error> {
        for (key, _) in self.table.into_iter().flat_map(Table::iter) {
            if !known.contains(&key) {
                let near = did_you_mean(key, known.iter().copied()).map(str::to_owned);
                let known = known.iter().map(|&key| key.to_owned()).collect();
                return Err(self.fail(key, Problem::UnknownKey { near, known }));
            }
        }
        Ok(())
    }

    /// The table at `key`, present or not.
    pub fn section(&self, key: &str) -> Result<Self, Error> {
        let path = self.path_of(key);
        match self.item(key) {
            None => Ok(Self { context: self.context, path, table: None, spot: self.spot }),
            Some(Item { data: Data::Table(table), spot }) => {
                Ok(Self { context: self.context, path, table: Some(table), spot: *spot })
            }
            Some(_) => Err(self.refuse(key, "a table", "")),
        }
    }

    /// The tables in the table at `key`, with their names.
    pub(crate) fn named(&self, key: &str) -> Result<Vec<(String, Self)>, Error> {
        let group = self.section(key)?;
        let mut sections = Vec::new();
        for (name, item) in group.table.into_iter().flat_map(Table::iter) {
            let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if name.is_empty() || name.len() > 64 || !bare {
                let expected = "a name of 1 to 64 letters, digits, `-` and `_`".to_owned();
                let problem = Problem::Value { given: key_text(name), expected, reason: None };
                return Err(group.fail(name, problem));
            }
            let Data::Table(table) = &item.data else { return Err(group.refuse(name, "a table", "")) };
            let path = group.path_of(name);
            sections.push((name.to_owned(), Self { context: self.context, path, table: Some(table), spot: item.spot }));
        }
        Ok(sections)
    }

    /// The elements of the array at `key` as tables, or none. `expected` says how such an array is written.
    pub fn array(&self, key: &str, expected: &str) -> Result<Vec<Self>, Error> {
        let Some(item) = self.item(key) else { return Ok(Vec::new()) };
        let Data::Array(items) = &item.data else { return Err(self.refuse(key, expected, "")) };
        let mut readers = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let Data::Table(table) = &item.data else { return Err(self.refuse(key, expected, "")) };
            let path = format!("{}[{}]", self.path_of(key), index + 1);
            readers.push(Self { context: self.context, path, table: Some(table), spot: item.spot });
        }
        Ok(readers)
    }

    /// Enters this table into the ledger, so that it stands there even when it has no keys.
    pub(crate) fn note_table(&self) {
        let (value, source) = (String::new(), String::new());
        let entry = Entry { table: self.path.clone(), key: None, value, source, standing: Standing::Value };
        self.context.ledger.borrow_mut().push(entry);
    }

    /// Enters a value into the ledger.
    pub(crate) fn note(&self, key: &'static str, value: String, source: impl Into<String>, standing: Standing) {
        let entry = Entry { table: self.path.clone(), key: Some(key), value, source: source.into(), standing };
        self.context.ledger.borrow_mut().push(entry);
    }

    /// Where the value of `key`, which is present, comes from; with its wording, where its unit differs from `shown`.
    pub(crate) fn source(&self, key: &str, shown: &str) -> String {
        let Some(item) = self.item(key) else { return String::new() };
        let written = match &item.data {
            Data::String(text) if quote(text) != shown => format!(", written {}", item.data.describe()),
            _ => String::new(),
        };
        match item.spot {
            Spot::Line(line) => format!("line {line}{written}"),
            Spot::Whole | Spot::Override => format!("set from outside{written}"),
        }
    }

    /// The value of `key` without a note in the ledger.
    pub(crate) fn peek<T: Value>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(item) = self.item(key) else { return Ok(None) };
        T::read(&item.data).map(Some).map_err(|reason| self.refuse(key, T::expected(), reason))
    }

    /// The value of `key`, which must be there, without a note in the ledger.
    pub(crate) fn demand<T: Value>(&self, key: &str) -> Result<T, Error> {
        self.peek(key)?.ok_or_else(|| self.fail(key, Problem::Missing { expected: T::expected() }))
    }

    /// The value of `key`, if it is there.
    pub fn get<T: Value>(&self, key: &'static str) -> Result<Option<T>, Error> {
        let value = self.peek::<T>(key)?;
        if let Some(value) = &value {
            let shown = value.show();
            let source = self.source(key, &shown);
            self.note(key, shown, source, Standing::Value);
        }
        Ok(value)
    }

    /// The value of `key`, which must be there.
    pub fn required<T: Value>(&self, key: &'static str) -> Result<T, Error> {
        self.get(key)?.ok_or_else(|| self.fail(key, Problem::Missing { expected: T::expected() }))
    }

    /// The value of `key`, or `default`, which comes from `source`.
    pub fn or<T: Value>(&self, key: &'static str, default: T, source: &str) -> Result<T, Error> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, default.show(), source, Standing::Value);
                Ok(default)
            }
        }
    }

    /// The value of `key`, or `derived`, which follows from other keys as `source` says.
    pub(crate) fn or_derived<T: Value>(&self, key: &'static str, derived: T, source: &str) -> Result<T, Error> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, derived.show(), source, Standing::Remark);
                Ok(derived)
            }
        }
    }
}
