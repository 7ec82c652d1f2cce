//! Access to values in the tree by key. Every value that is read, and every default, is entered into the ledger, from
//! which `explain` writes the scenario out in full.

use std::cell::RefCell;

use lasthop_proto::scheme::Congestion;

use crate::document::{Data, Item, Table, key_text, quote};
use crate::error::{Error, Place, Problem, Spot, did_you_mean};
use crate::key::{Key, Named};

/// A value of a key.
pub trait Value: Sized {
    /// Returns the correct form, for messages: "a rate, as \"1.5 Mbps\"".
    fn expected() -> String;
    /// Parses the value, or returns the reason why `data` is invalid (empty if [`Value::expected`] suffices).
    fn read(data: &Data) -> Result<Self, String>;
    /// Formats the value as TOML; [`Value::read`] returns the same value.
    fn show(&self) -> String;
}

/// Kind of a ledger entry in the explained scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// A value.
    Value,
    /// A remark: the value is derived from another key. Writing it out would make it independent of that key.
    Remark,
}

/// A value, and its origin.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Dotted path of the table.
    pub table: String,
    /// Key; `None` for the table itself.
    pub key: Option<&'static str>,
    /// Value as TOML.
    pub value: String,
    /// Origin of the value.
    pub source: String,
    /// Kind of the entry.
    pub standing: Standing,
}

/// State shared by all readers of a scenario.
#[derive(Debug)]
pub struct Context {
    /// Name of the file, for messages.
    pub file: String,
    /// Values and defaults that were read, in order.
    pub ledger: RefCell<Vec<Entry>>,
    /// Modern scheme whose endpoints are read; `None` for those of the scenario.
    pub modern: Option<Modern>,
}

/// A modern scheme, reduced to the parts that determine endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modern {
    /// Name of the scheme.
    pub scheme: &'static str,
    /// Congestion control that the scheme is named after.
    pub congestion: Option<Congestion>,
}

/// A table of the scenario, which may be absent.
#[derive(Clone, Debug)]
pub struct Reader<'d> {
    context: &'d Context,
    path: String,
    table: Option<&'d Table>,
    spot: Spot,
}

impl<'d> Reader<'d> {
    /// Creates a reader of the whole text.
    pub fn root(context: &'d Context, table: &'d Table) -> Self {
        Self { context, path: String::new(), table: Some(table), spot: Spot::Whole }
    }

    /// Returns the modern scheme whose endpoints are read.
    pub fn modern(&self) -> Option<Modern> {
        self.context.modern
    }

    /// Returns a reader of another table at the same place.
    pub fn with<'e>(&self, context: &'e Context, table: &'e Table) -> Reader<'e> {
        Reader { context, path: self.path.clone(), table: Some(table), spot: self.spot }
    }

    /// Returns a reader of the same table with the ledger of another context.
    pub fn beside<'e>(&'e self, context: &'e Context) -> Reader<'e> {
        Reader { context, path: self.path.clone(), table: self.table, spot: self.spot }
    }

    /// Returns the shared state.
    pub fn context(&self) -> &'d Context {
        self.context
    }

    /// Iterates over the table's keys and their values.
    pub fn items(&self) -> impl Iterator<Item = (&'d str, &'d Item)> {
        self.table.into_iter().flat_map(Table::iter)
    }

    /// Returns whether the scenario has this table.
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    fn item(&self, key: &str) -> Option<&'d Item> {
        self.table.and_then(|table| table.get(key))
    }

    /// Returns whether the scenario has this key.
    pub fn has(&self, key: impl AsRef<str>) -> bool {
        self.item(key.as_ref()).is_some()
    }

    /// Returns the line of this key in the file, if it has one.
    pub fn line(&self, key: impl AsRef<str>) -> Option<usize> {
        match self.item(key.as_ref())?.spot {
            Spot::Line(line) => Some(line),
            Spot::Whole | Spot::Override => None,
        }
    }

    /// Returns whether the scenario has this key with a table as its value.
    pub fn is_table(&self, key: impl AsRef<str>) -> bool {
        matches!(self.item(key.as_ref()), Some(Item { data: Data::Table(_), .. }))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key_text(key) } else { format!("{}.{}", self.path, key_text(key)) }
    }

    /// Returns the problem as an error at `key`.
    pub fn fail(&self, key: impl AsRef<str>, problem: Problem) -> Error {
        let key = key.as_ref();
        let spot = self.item(key).map_or(self.spot, |item| item.spot);
        Error::new(Place { file: self.context.file.clone(), spot }, Some(self.path_of(key)), problem)
    }

    /// Returns the problem as an error of this table as a whole.
    pub fn fail_here(&self, problem: Problem) -> Error {
        let key = (!self.path.is_empty()).then(|| self.path.clone());
        Error::new(Place { file: self.context.file.clone(), spot: self.spot }, key, problem)
    }

    /// Returns the error that the value of `key` is not `expected`.
    pub fn refuse(&self, key: impl AsRef<str>, expected: impl Into<String>, reason: impl Into<String>) -> Error {
        let key = key.as_ref();
        let given = self.item(key).map_or_else(|| "this".to_owned(), |item| item.data.describe());
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.fail(key, Problem::Value { given, expected: expected.into(), reason })
    }

    /// Returns the error that the name in `key` does not exist.
    pub fn unknown_name<'n>(
        &self,
        key: impl AsRef<str>,
        what: &'static str,
        given: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Error {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let near = did_you_mean(given, known.iter().map(String::as_str)).map(str::to_owned);
        self.fail(key, Problem::UnknownName { what, given: given.to_owned(), near, known })
    }

    /// Rejects keys other than `known`.
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

    /// Returns the table at `key`, present or not.
    pub fn section(&self, key: impl Named) -> Result<Self, Error> {
        self.member(key.name())
    }

    /// Returns the table with a name that the user chose, present or not.
    pub fn member(&self, key: &str) -> Result<Self, Error> {
        let path = self.path_of(key);
        match self.item(key) {
            None => Ok(Self { context: self.context, path, table: None, spot: self.spot }),
            Some(Item { data: Data::Table(table), spot }) => {
                Ok(Self { context: self.context, path, table: Some(table), spot: *spot })
            }
            Some(_) => Err(self.refuse(key, "a table", "")),
        }
    }

    /// Returns the tables in the table at `key`, with their names.
    pub fn named(&self, key: impl Named) -> Result<Vec<(String, Self)>, Error> {
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

    /// Returns the elements of the array at `key` as tables; empty if it is absent. `expected` is the correct form of
    /// such an array.
    pub fn array(&self, key: impl Named, expected: &str) -> Result<Vec<Self>, Error> {
        let key = key.name();
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

    /// Enters this table into the ledger, so that it appears even without keys.
    pub fn note_table(&self) {
        let (value, source) = (String::new(), String::new());
        let entry = Entry { table: self.path.clone(), key: None, value, source, standing: Standing::Value };
        self.context.ledger.borrow_mut().push(entry);
    }

    /// Enters a value into the ledger.
    pub fn note(&self, key: impl Named, value: String, source: impl Into<String>, standing: Standing) {
        let entry = Entry { table: self.path.clone(), key: Some(key.name()), value, source: source.into(), standing };
        self.context.ledger.borrow_mut().push(entry);
    }

    /// Returns the origin of the value of `key`, which must be present; includes its text if its unit differs from
    /// `shown`.
    pub fn source(&self, key: impl AsRef<str>, shown: &str) -> String {
        let Some(item) = self.item(key.as_ref()) else { return String::new() };
        let written = match &item.data {
            Data::String(text) if quote(text) != shown => format!(", written {}", item.data.describe()),
            _ => String::new(),
        };
        match item.spot {
            Spot::Line(line) => format!("line {line}{written}"),
            Spot::Whole | Spot::Override => format!("override{written}"),
        }
    }

    /// Returns the value of `key` without an entry in the ledger.
    pub fn peek<T: Value>(&self, key: impl Named) -> Result<Option<T>, Error> {
        let Some(item) = self.item(key.name()) else { return Ok(None) };
        T::read(&item.data).map(Some).map_err(|reason| self.refuse(key, T::expected(), reason))
    }

    /// Returns the value of `key`, which is required, without an entry in the ledger.
    pub fn demand<T: Value>(&self, key: impl Named) -> Result<T, Error> {
        self.peek(key)?.ok_or_else(|| self.fail(key, Problem::Missing { expected: T::expected() }))
    }

    /// Returns the value of `key`, if present.
    pub fn get<T: Value>(&self, key: impl Named) -> Result<Option<T>, Error> {
        let value = self.peek::<T>(key)?;
        if let Some(value) = &value {
            let shown = value.show();
            let source = self.source(key, &shown);
            self.note(key, shown, source, Standing::Value);
        }
        Ok(value)
    }

    /// Returns the value of `key`, which is required.
    pub fn required<T: Value>(&self, key: impl Named) -> Result<T, Error> {
        self.get(key)?.ok_or_else(|| self.fail(key, Problem::Missing { expected: T::expected() }))
    }

    /// Returns the value of `key`, or its declared default.
    pub fn value<T: Value>(&self, key: Key<T>) -> Result<T, Error> {
        self.value_from(key, "default")
    }

    /// Returns the value of `key`, or its declared default, which comes from `source`.
    pub fn value_from<T: Value>(&self, key: Key<T>, source: &str) -> Result<T, Error> {
        self.or(key, key.default(), source)
    }

    /// Returns the value of `key`, or `default`, which comes from `source`.
    pub fn or<T: Value>(&self, key: impl Named, default: T, source: &str) -> Result<T, Error> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, default.show(), source, Standing::Value);
                Ok(default)
            }
        }
    }

    /// Returns the value of `key`, or `derived`, which follows from other keys as described by `source`.
    pub fn or_derived<T: Value>(&self, key: impl Named, derived: T, source: &str) -> Result<T, Error> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => {
                self.note(key, derived.show(), source, Standing::Remark);
                Ok(derived)
            }
        }
    }
}
