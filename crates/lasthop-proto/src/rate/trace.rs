//! A measured rate, read from a file.

use alloc::vec::Vec;
use core::fmt;

use super::RateStep;
use crate::time::Duration;

/// Maximum number of steps in a series.
pub const MOST_STEPS: usize = 1 << 20;

/// Contents of a file: steps, and the end of the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateTrace {
    /// Steps, of which the first starts at zero.
    pub steps: Vec<RateStep>,
    /// Time of the last line.
    pub length: Duration,
}

/// Error in a series of rates. Lines are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRates {
    /// A line that is not a time and a rate.
    Line(usize),
    /// A line whose time is not after that of the previous line.
    Back(usize),
    /// The first line of numbers, whose time is not zero.
    First(usize),
    /// A header without these columns.
    Header(usize),
    /// More than [`MOST_STEPS`].
    Long,
    /// Fewer than two lines: no time span.
    Short,
    /// No rate above zero.
    Silent,
}

impl fmt::Display for BadRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "has no time in seconds and rate in Mbps in line {line}"),
            Self::Back(line) => write!(f, "goes back in time in line {line}"),
            Self::First(line) => write!(f, "does not begin at time 0 (line {line})"),
            Self::Header(line) => write!(f, "has a header without the columns t_s and rate_mbps in line {line}"),
            Self::Long => write!(f, "has more than {MOST_STEPS} lines"),
            Self::Short => f.write_str("has fewer than two lines: the last one says when the series ends"),
            Self::Silent => f.write_str("has no rate above zero"),
        }
    }
}

impl core::error::Error for BadRates {}

/// Reads a series. Each line contains a time in seconds and the rate in Mbps from then on, separated by white space or
/// a comma, with comments from `#` to the end of the line. Times increase from line to line, starting at zero. The last
/// line marks the end of the series; its rate applies if the last rate is to remain valid. A header with the columns
/// `t_s` and `rate_mbps`, in any order and among others, may precede the lines.
///
/// # Errors
///
/// Returns [`BadRates`] for the first error.
pub fn read_rates(text: &[u8]) -> Result<RateTrace, BadRates> {
    let mut steps: Vec<RateStep> = Vec::new();
    // Columns of time and rate, and the number of columns: exactly two without a header.
    let mut columns = None;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let fields: Vec<&[u8]> = fields(line).collect();
        if fields.is_empty() {
            continue;
        }
        if columns.is_none() && steps.is_empty() && fields.iter().any(|field| is_name(field)) {
            let column = |name: &str| fields.iter().position(|field| field.eq_ignore_ascii_case(name.as_bytes()));
            let found = column("t_s").zip(column("rate_mbps"));
            columns = Some(found.ok_or(BadRates::Header(number + 1))?);
            continue;
        }
        let (time, rate) = match columns {
            Some((time, rate)) => (fields.get(time), fields.get(rate)),
            None if fields.len() == 2 => (fields.first(), fields.get(1)),
            None => (None, None),
        };
        let read = |field: Option<&&[u8]>, digits| field.and_then(|field| scaled(field, digits));
        let (time, rate) = read(time, 9).zip(read(rate, 6)).ok_or(BadRates::Line(number + 1))?;
        let from = Duration::from_nanos(time);
        match steps.last() {
            None if from > Duration::ZERO => return Err(BadRates::First(number + 1)),
            Some(last) if last.from >= from => return Err(BadRates::Back(number + 1)),
            _ if steps.len() >= MOST_STEPS => return Err(BadRates::Long),
            _ => steps.push(RateStep { from, rate }),
        }
    }
    let length = steps.last().filter(|_| steps.len() > 1).ok_or(BadRates::Short)?.from;
    if steps[..steps.len() - 1].iter().all(|step| step.rate == 0) {
        return Err(BadRates::Silent);
    }
    Ok(RateTrace { steps, length })
}

/// Returns the fields of a line: separated by commas if there is one, otherwise by white space.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let commas = line.contains(&b',');
    let cut = move |byte: &u8| if commas { *byte == b',' } else { byte.is_ascii_whitespace() };
    line.split(cut).map(<[u8]>::trim_ascii).filter(move |field| commas || !field.is_empty())
}

fn is_name(field: &[u8]) -> bool {
    field.first().is_some_and(|byte| byte.is_ascii_alphabetic())
}

/// Parses a decimal number times ten to the power `digits`, limited to a day in nanoseconds; further digits are
/// ignored.
fn scaled(text: &[u8], digits: u32) -> Option<u64> {
    crate::delay::scaled(text, digits)
}
