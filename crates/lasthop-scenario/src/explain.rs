//! A scenario written out in full: every value, and its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::document::quote;
use crate::reader::{Entry, Standing};

/// Column of comments; one space after longer values.
const COLUMN: usize = 40;

/// Formats the ledger as TOML, under the header `lines`; two lines are joined into one.
pub(crate) fn write(lines: &[String], ledger: &[Entry]) -> String {
    let head = match lines {
        [what, after] => format!("# {}. {after}\n", one_line(what)),
        lines => lines.iter().map(|line| format!("# {}\n", one_line(line))).collect(),
    };
    tables(head, ledger, |text, key, entry| {
        let (mark, value) = match entry.standing {
            Standing::Value => ("", &entry.value),
            Standing::Remark => ("# ", &entry.value),
        };
        let line = format!("{mark}{key} = {value}");
        let _ = writeln!(text, "{line:COLUMN$} # {}", one_line(&entry.source));
    })
}

/// Formats the ledger as TOML with only keys and values.
pub(crate) fn write_values(ledger: &[Entry]) -> String {
    tables(String::new(), ledger, |text, key, entry| {
        if let Standing::Value = entry.standing {
            let _ = writeln!(text, "{key} = {}", entry.value);
        }
    })
}

/// Appends each entry with `line` to `text`, table by table.
fn tables(mut text: String, ledger: &[Entry], line: impl Fn(&mut String, &str, &Entry)) -> String {
    let mut tables: Vec<&str> = ledger.iter().map(|entry| entry.table.as_str()).collect();
    // In order of first mention: values of one table may have been read at different times.
    let mut seen = BTreeSet::new();
    tables.retain(|table| seen.insert(*table));
    let mut by_table = BTreeMap::<&str, Vec<&Entry>>::new();
    for entry in ledger {
        by_table.entry(entry.table.as_str()).or_default().push(entry);
    }
    for table in tables {
        if !table.is_empty() {
            let _ = write!(text, "\n[{table}]\n");
        }
        for entry in by_table.get(table).into_iter().flatten() {
            let Some(key) = entry.key else { continue };
            line(&mut text, key, entry);
        }
    }
    text
}

/// Returns `text` without characters that would end a comment.
fn one_line(text: &str) -> String {
    let plain = quote(text);
    plain[1..plain.len() - 1].replace("\\\"", "\"").replace("\\\\", "\\")
}
