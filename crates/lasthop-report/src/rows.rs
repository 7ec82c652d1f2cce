//! Rows with named columns, as a sweep makes them, and their CSV format.

use std::io::{Read, Write};

use crate::error::ReportError;

/// Type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// Floating-point number.
    Float,
    /// Unsigned integer.
    Count,
}

/// Single value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Value of a [`Kind::Text`] column.
    Text(String),
    /// Value of a [`Kind::Float`] column.
    Float(f64),
    /// Value of a [`Kind::Count`] column.
    Count(u64),
    /// Missing value, in any column.
    Missing,
}

impl Value {
    const fn fits(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Text(_), Kind::Text)
                | (Self::Float(_), Kind::Float)
                | (Self::Count(_), Kind::Count)
                | (Self::Missing, _)
        )
    }

    /// Formats the value; floats in the shortest form that parses to the same number.
    fn csv_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Float(value) => value.to_string(),
            Self::Count(value) => value.to_string(),
            Self::Missing => String::new(),
        }
    }
}

/// Named columns, and rows with their values.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Creates rows with these columns, none yet.
    pub const fn new(columns: Vec<(String, Kind)>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// Returns an error if the number or the kinds of values do not match the columns.
    pub fn push(&mut self, row: Vec<Value>) -> Result<(), ReportError> {
        let problem = if row.len() == self.columns.len() {
            let misfit = self.columns.iter().zip(&row).find(|((_, kind), value)| !value.fits(*kind));
            misfit.map(|((name, kind), value)| format!("column {name} holds {kind:?}, not {value:?}"))
        } else {
            Some(format!("{} values for {} columns", row.len(), self.columns.len()))
        };
        if let Some(problem) = problem {
            return Err(ReportError::Row { row: self.rows.len(), problem });
        }
        self.rows.push(row);
        Ok(())
    }

    /// Returns names and kinds of the columns.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// Returns the rows, in the order in which they were added.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
}

/// Writes `rows` as CSV with a header line.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_rows_csv(rows: &Rows, out: impl Write) -> Result<(), ReportError> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(rows.columns.iter().map(|(name, _)| name))?;
    write_lines(rows, writer)
}

/// Writes `rows` as CSV without a header line, for a file that has one.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn append_rows_csv(rows: &Rows, out: impl Write) -> Result<(), ReportError> {
    write_lines(rows, csv::Writer::from_writer(out))
}

/// Parses the output of [`write_rows_csv`]. `kind` returns each column's kind for its index and name.
///
/// # Errors
///
/// Returns an error if `text` is not CSV, or contains a value that is not of its column's kind.
pub fn read_rows_csv(text: impl Read, kind: impl Fn(usize, &str) -> Kind) -> Result<Rows, ReportError> {
    let mut reader = csv::Reader::from_reader(text);
    let columns = reader.headers()?.iter().enumerate().map(|(at, name)| (name.to_owned(), kind(at, name))).collect();
    let mut rows = Rows::new(columns);
    for (number, record) in reader.records().enumerate() {
        let record = record?;
        let row = record.iter().zip(&rows.columns).map(|(text, (name, kind))| {
            let misfit =
                || ReportError::Row { row: number, problem: format!("column {name} holds {kind:?}, not {text}") };
            Ok(match kind {
                Kind::Text => Value::Text(text.to_owned()),
                _ if text.is_empty() => Value::Missing,
                Kind::Float => Value::Float(text.parse().map_err(|_| misfit())?),
                Kind::Count => Value::Count(text.parse().map_err(|_| misfit())?),
            })
        });
        let row = row.collect::<Result<_, ReportError>>()?;
        rows.push(row)?;
    }
    Ok(rows)
}

fn write_lines<W: Write>(rows: &Rows, mut writer: csv::Writer<W>) -> Result<(), ReportError> {
    for row in &rows.rows {
        writer.write_record(row.iter().map(Value::csv_text))?;
    }
    writer.flush()?;
    Ok(())
}
