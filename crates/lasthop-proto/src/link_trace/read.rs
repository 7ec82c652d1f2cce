//! Reading a link's trace.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{COLUMNS, LONGEST_DELAY, LinkTrace, MOST_ROWS, TIME};
use crate::time::Duration;

/// Error in a link's trace. Lines are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadLinkTrace {
    /// A header with a column that is not known, or known twice.
    Column {
        /// Number of the line.
        line: usize,
        /// Name of the column.
        name: String,
        /// Indicates whether it was named before.
        again: bool,
    },
    /// A header without times, or without another column.
    Header(usize),
    /// A line with another number of fields than the header.
    Fields {
        /// Number of the line.
        line: usize,
        /// Number of fields found.
        found: usize,
        /// Number of columns of the header.
        columns: usize,
    },
    /// A field that is not a number, or not one of those allowed.
    Value {
        /// Number of the line.
        line: usize,
        /// Name of the column.
        column: &'static str,
    },
    /// A line whose time is not after that of the previous line.
    Back(usize),
    /// The first row, whose time is not zero.
    First(usize),
    /// More than [`MOST_ROWS`].
    Long,
    /// No row.
    Empty,
}

impl fmt::Display for BadLinkTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column { line, name, again } => {
                let what = if *again { "names a column twice" } else { "has an unknown column" };
                write!(f, "{what} in line {line}: {name:?}; the columns are {TIME}, {}", COLUMNS.join(", "))
            }
            Self::Header(line) => {
                write!(f, "has no header in line {line}; name {TIME} and at least one of {}", COLUMNS.join(", "))
            }
            Self::Fields { line, found, columns } => {
                write!(f, "has {found} fields in line {line}, but its header names {columns} columns")
            }
            Self::Value { line, column } => {
                let expected = match *column {
                    TIME => "seconds of at most a day",
                    "loss_down" | "loss_up" => "a probability from 0 to 1",
                    "delay_down_ms" | "delay_up_ms" => "milliseconds of at most an hour",
                    _ => "a rate in Mbps",
                };
                write!(f, "has no valid {column} in line {line}: {expected}")
            }
            Self::Back(line) => write!(f, "goes back in time in line {line}; {TIME} must increase"),
            Self::First(line) => write!(f, "does not begin at {TIME} = 0 (line {line})"),
            Self::Long => write!(f, "has more than {MOST_ROWS} rows"),
            Self::Empty => f.write_str("has no rows"),
        }
    }
}

impl core::error::Error for BadLinkTrace {}

/// Reads a link's trace: a header that names the columns in any order, and a row of numbers per line, separated by
/// commas, with comments from `#` to the end of the line. A row holds from its time on; the last row ends the trace.
///
/// # Errors
///
/// Returns [`BadLinkTrace`] for the first error.
pub fn read_link_trace(text: &[u8]) -> Result<LinkTrace, BadLinkTrace> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut trace = LinkTrace::default();
    let mut columns: Vec<usize> = Vec::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if text.is_empty() {
            continue;
        }
        let fields = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        if columns.is_empty() {
            columns = header(fields, line)?;
            for column in &columns {
                start(&mut trace, *column);
            }
            continue;
        }
        let found = fields.clone().count();
        if found != columns.len() {
            return Err(BadLinkTrace::Fields { line, found, columns: columns.len() });
        }
        if trace.times.len() >= MOST_ROWS {
            return Err(BadLinkTrace::Long);
        }
        let last = trace.times.last().copied();
        for (field, column) in fields.zip(&columns) {
            push(&mut trace, *column, field).ok_or(BadLinkTrace::Value { line, column: name(*column) })?;
        }
        match (last, trace.times.last().copied()) {
            (None, Some(first)) if first > Duration::ZERO => return Err(BadLinkTrace::First(line)),
            (Some(last), Some(time)) if time <= last => return Err(BadLinkTrace::Back(line)),
            _ => {}
        }
    }
    if columns.is_empty() || trace.times.is_empty() { Err(BadLinkTrace::Empty) } else { Ok(trace) }
}

/// Returns the name of a column: 0 is the time, the others are those of [`COLUMNS`].
fn name(column: usize) -> &'static str {
    column.checked_sub(1).and_then(|index| COLUMNS.get(index)).copied().unwrap_or(TIME)
}

/// Reads the header: the columns in their order.
fn header<'a>(fields: impl Iterator<Item = &'a [u8]>, line: usize) -> Result<Vec<usize>, BadLinkTrace> {
    let mut columns = Vec::new();
    let mut unknown = None;
    let mut named = false;
    for field in fields {
        let column = (0..=COLUMNS.len()).find(|column| field.eq_ignore_ascii_case(name(*column).as_bytes()));
        named |= column.is_some();
        let again = column.is_some_and(|column| columns.contains(&column));
        match column {
            Some(column) if !again => columns.push(column),
            _ => {
                let name: String = String::from_utf8_lossy(field).chars().take(40).collect();
                unknown.get_or_insert(BadLinkTrace::Column { line, name, again });
            }
        }
    }
    match unknown {
        // Without any known name it is not a header.
        Some(unknown) if named => Err(unknown),
        None if columns.len() > 1 && columns.contains(&0) => Ok(columns),
        _ => Err(BadLinkTrace::Header(line)),
    }
}

/// Begins an empty column.
fn start(trace: &mut LinkTrace, column: usize) {
    match column {
        1 | 2 => trace.rates[column - 1] = Some(Vec::new()),
        3 | 4 => trace.delays[column - 3] = Some(Vec::new()),
        5 | 6 => trace.losses[column - 5] = Some(Vec::new()),
        _ => {}
    }
}

/// Adds a field to its column; `None` if it is not one of the values allowed.
fn push(trace: &mut LinkTrace, column: usize, field: &[u8]) -> Option<()> {
    match column {
        1 | 2 => trace.rates[column - 1].as_mut()?.push(scaled(field, 6)?),
        3 | 4 => {
            let delay = Duration::from_nanos(scaled(field, 6)?);
            trace.delays[column - 3].as_mut()?.push(Some(delay).filter(|delay| *delay <= LONGEST_DELAY)?);
        }
        5 | 6 => {
            let share = number(field).filter(|share| (0.0..=1.0).contains(share))?;
            trace.losses[column - 5].as_mut()?.push(share);
        }
        _ => trace.times.push(Duration::from_nanos(scaled(field, 9)?)),
    }
    Some(())
}

/// Parses a decimal number, also with an exponent as languages write small numbers.
fn number(field: &[u8]) -> Option<f64> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let text = core::str::from_utf8(field).ok().filter(|_| field.iter().all(is_number))?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a decimal number times ten to the power `digits`, at most a day in nanoseconds.
fn scaled(field: &[u8], digits: u32) -> Option<u64> {
    if !field.iter().any(|byte| b"eE".contains(byte)) {
        return crate::delay::scaled(field, digits);
    }
    let value = number(field)? * (0..digits).fold(1.0, |power, _| power * 10.0);
    // A day in nanoseconds.
    (0.0..=86_400e9).contains(&value).then_some((value + 0.5) as u64)
}
