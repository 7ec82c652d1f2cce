//! Lists of 0 and 1, and tables.

use lasthop_proto::channel::{BadList, MOST_FRAMES, read_list};
use lasthop_proto::time::Duration;

use super::{EXPECTED, ReadError, wrong};
use crate::trace::{Builder, LossTrace, Sent};

/// Returns the values of a line, without its comment.
fn values(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// Returns whether a line consists of digits 0 and 1, and a comment.
pub(super) fn is_digits(line: &str) -> bool {
    let mut bytes = values(line).bytes();
    bytes.any(|byte| matches!(byte, b'0' | b'1'))
        && values(line).bytes().all(|byte| matches!(byte, b'0' | b'1' | b',') || byte.is_ascii_whitespace())
}

pub(super) fn digits(text: &str, most: usize) -> Result<LossTrace, ReadError> {
    let losses = read_list(text.as_bytes()).map_err(|bad| match bad {
        BadList::Other { line, byte } => {
            ReadError::Line { line, what: format!("'{}'; {EXPECTED}", byte.escape_ascii()) }
        }
        BadList::Long => ReadError::Long(MOST_FRAMES.min(most)),
        BadList::Empty => ReadError::Empty,
    })?;
    if losses.len() > most { Err(ReadError::Long(most)) } else { Ok(LossTrace::ordered(losses)) }
}

/// Indices of a table's columns.
struct Columns {
    sent: Option<usize>,
    bytes: Option<usize>,
    lost: usize,
}

pub(super) fn table(text: &str, most: usize) -> Result<LossTrace, ReadError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !values(line).trim().is_empty());
    let Some((number, names)) = lines.next() else { return Err(ReadError::Empty) };
    let names: Vec<&str> = values(names).split(',').map(str::trim).collect();
    let at = |name: &str| names.iter().position(|other| *other == name);
    let lost = at("lost").ok_or_else(|| wrong(number, "missing column lost"))?;
    let columns = Columns { sent: at("sent_s"), bytes: at("bytes"), lost };
    let mut packets = Builder::new();
    for (number, line) in lines {
        let cells: Vec<&str> = values(line).split(',').map(str::trim).collect();
        if cells.len() != names.len() {
            return Err(wrong(number, format!("{} cells in a row, but {} columns", cells.len(), names.len())));
        }
        packets.push(row(&columns, &cells).map_err(|what| wrong(number, what))?);
        if packets.len() > most {
            return Err(ReadError::Long(most));
        }
    }
    Ok(match columns.sent {
        Some(_) => packets.finish(),
        None => LossTrace::ordered(packets.finish().losses()),
    })
}

fn row(columns: &Columns, cells: &[&str]) -> Result<Sent, String> {
    let at = match columns.sent {
        None => Duration::ZERO,
        Some(at) => {
            seconds(cells[at]).ok_or_else(|| format!("sent_s = '{}': expected non-negative seconds", cells[at]))?
        }
    };
    let bytes = match columns.bytes {
        None => 1500,
        Some(at) => cells[at].parse().map_err(|_| format!("bytes = '{}': expected a whole number", cells[at]))?,
    };
    let lost = match cells[columns.lost] {
        "0" | "false" => false,
        "1" | "true" => true,
        other => return Err(format!("lost = '{other}': expected 0 or 1")),
    };
    Ok(Sent { at, air: Duration::ZERO, bytes, lost })
}

/// Parses seconds since any origin, below some 500 years.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..1.6e10).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}
