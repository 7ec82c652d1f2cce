//! Common formats of loss traces: lists of 0 and 1, tables, and the output of `ping`, `fping`, `irtt` and `iperf3`.

mod echoes;
mod fping;
mod iperf3;
mod irtt;
mod lines;
mod ping;
mod table;
mod windows;

use lasthop_proto::channel::MOST_FRAMES;
use lasthop_proto::time::Duration;

use crate::seen::{Counts, Seen};
use crate::trace::LossTrace;

/// Maximum number of packets in a trace of any form: the limit of replay channels.
pub const MOST_PACKETS: usize = MOST_FRAMES;

/// Reason for which a text is not a trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// A line is invalid.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Found and expected contents.
        what: String,
    },
    /// The file as a whole is invalid.
    #[error("{0}")]
    Whole(String),
    /// The text has no packets.
    #[error("no packets; {EXPECTED}")]
    Empty,
    /// The text has too many packets.
    #[error("more than {0} packets")]
    Long(usize),
}

/// Supported formats, for error messages.
pub const EXPECTED: &str = "expected 0 (received) and 1 (lost), a CSV with the columns sent_s and lost, \
    the output of ping or fping, or the JSON of irtt or of iperf3 -u";

/// Form of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `0` and `1`.
    Digits,
    /// Table with a line of column names.
    Table,
    /// Echoes of `ping`: Linux, BusyBox, BSD and macOS, Windows. Losses of both directions are counted together.
    Ping,
    /// Echoes of `fping`. Losses of both directions are counted together.
    Fping,
    /// JSON of `irtt client -o`.
    Irtt,
    /// JSON of `iperf3 -u -J`: lost packets per interval, not packet by packet.
    Iperf3,
}

impl Form {
    /// Returns whether losses of both directions are counted together, unless the reading has two directions.
    pub const fn is_round_trip(self) -> bool {
        matches!(self, Self::Ping | Self::Fping | Self::Irtt)
    }
}

/// Losses of one direction, or of both together.
#[derive(Clone, PartialEq, Debug)]
pub enum Losses {
    /// Losses packet by packet.
    Packets(LossTrace),
    /// Lost packets per interval.
    Counts(Counts),
}

/// Losses, and further properties of the same packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Way {
    /// Losses.
    pub losses: Losses,
    /// Delays, order and duplicates.
    pub seen: Seen,
}

/// Contents of a text.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// Form of the text.
    pub form: Form,
    /// Direction to the client, or both directions together if the form cannot separate them.
    pub down: Way,
    /// Direction from the client; only `irtt` separates it.
    pub up: Option<Way>,
    /// Properties of the measurement that limit its meaning, a sentence each.
    pub remarks: Vec<String>,
}

impl Reading {
    fn of_trace(trace: LossTrace, form: Form, seen: Seen) -> Self {
        Self { form, down: Way { losses: Losses::Packets(trace), seen }, up: None, remarks: Vec::new() }
    }
}

/// Reads a trace packet by packet.
///
/// # Errors
///
/// Returns a [`ReadError`] with the line, also for a text without losses packet by packet.
pub fn read(text: &str) -> Result<(LossTrace, Form), ReadError> {
    let Reading { form, down, .. } = reading(text, MOST_PACKETS, None)?;
    match down.losses {
        Losses::Packets(trace) => Ok((trace, form)),
        Losses::Counts(_) => {
            Err(ReadError::Whole("contains counts of lost packets, not individual packets".to_owned()))
        }
    }
}

/// Reads a text with at most `most` packets. `interval` is the time between packets
/// if the text has no times; times in the text take precedence.
///
/// # Errors
///
/// Returns a [`ReadError`] with the line.
pub fn reading(text: &str, most: usize, interval: Option<Duration>) -> Result<Reading, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let mut reading = if first.starts_with('{') {
        json(text, most)?
    } else if first.split(',').any(|name| name.trim() == "lost") {
        Reading::of_trace(table::table(text, most)?, Form::Table, Seen::default())
    } else if table::is_digits(first) {
        Reading::of_trace(table::digits(text, most)?, Form::Digits, Seen::default())
    } else if fping::is_fping(text) {
        fping::read(text, most, interval)?
    } else if ping::is_ping(text) {
        ping::read(text, most, interval)?
    } else if windows::is_windows(text) {
        windows::read(text, most, interval)?
    } else {
        Reading::of_trace(table::digits(text, most)?, Form::Digits, Seen::default())
    };
    if let Losses::Packets(trace) = &mut reading.down.losses {
        if trace.is_empty() {
            return Err(ReadError::Empty);
        }
        if let Some(interval) = interval {
            let untimed = std::mem::replace(trace, LossTrace::ordered([]));
            *trace = untimed.at_even_times(interval);
        }
    }
    Ok(reading)
}

/// Returns whether a JSON text is a measurement of losses, and not the report of a probe.
pub fn is_json_trace(text: &str) -> bool {
    irtt::is_irtt(text) || iperf3::is_iperf3(text)
}

/// Distinguishes the JSON forms by their keys.
fn json(text: &str, most: usize) -> Result<Reading, ReadError> {
    if irtt::is_irtt(text) {
        irtt::read(text, most)
    } else if iperf3::is_iperf3(text) {
        iperf3::read(text)
    } else {
        let line = text.lines().position(|line| line.trim_start().starts_with('{')).unwrap_or(0);
        Err(wrong(line, format!("unknown JSON format; {EXPECTED}")))
    }
}

/// Creates an error in line `line`, counted from 0.
fn wrong(line: usize, what: impl Into<String>) -> ReadError {
    ReadError::Line { line: line + 1, what: what.into() }
}

#[cfg(test)]
mod tests;
