//! Replay of a recorded time series of delays.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::time::{Duration, Instant};

/// Maximum number of steps in a time series.
pub const MOST_STEPS: usize = 1 << 20;

/// Additional delay of frames from a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayStep {
    /// Start, since the beginning of the run.
    pub from: Instant,
    /// Additional delay.
    pub more: Duration,
}

/// Error in a time series of delays. Lines are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDelays {
    /// A line that is not two numbers.
    Line(usize),
    /// A line whose time is not after that of the previous line.
    Back(usize),
    /// More than [`MOST_STEPS`].
    Long,
    /// No line.
    Empty,
}

impl fmt::Display for BadDelays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "has no time in seconds and delay in milliseconds in line {line}"),
            Self::Back(line) => write!(f, "goes back in time in line {line}"),
            Self::Long => write!(f, "has more than {MOST_STEPS} lines"),
            Self::Empty => f.write_str("has no lines"),
        }
    }
}

impl core::error::Error for BadDelays {}

/// Reads a time series. Each line contains a time in seconds since the beginning of the run, and the additional delay
/// of frames from then on in milliseconds, separated by white space or a comma, with comments from `#` to the end of
/// the line. Times increase from line to line. Before the first line nothing is added.
///
/// # Errors
///
/// Returns [`BadDelays`] for the first error.
pub fn read_delays(text: &[u8]) -> Result<Vec<DelayStep>, BadDelays> {
    let mut steps: Vec<DelayStep> = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let bad = BadDelays::Line(number + 1);
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut fields =
            line.split(|byte| byte.is_ascii_whitespace() || *byte == b',').filter(|field| !field.is_empty());
        let Some(time) = fields.next() else { continue };
        let more = fields.next().ok_or(bad)?;
        if fields.next().is_some() {
            return Err(bad);
        }
        let step = DelayStep {
            from: Instant::from_nanos(scaled(time, 9).ok_or(bad)?),
            more: Duration::from_nanos(scaled(more, 6).ok_or(bad)?),
        };
        if steps.last().is_some_and(|last| last.from >= step.from) {
            return Err(BadDelays::Back(number + 1));
        }
        if steps.len() >= MOST_STEPS {
            return Err(BadDelays::Long);
        }
        steps.push(step);
    }
    if steps.is_empty() { Err(BadDelays::Empty) } else { Ok(steps) }
}

/// Parses a decimal number times ten to the power `digits`, limited to a day in nanoseconds; further digits are
/// ignored.
pub(crate) fn scaled(text: &[u8], digits: u32) -> Option<u64> {
    const MOST: u64 = 86_400_000_000_000;
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut value: u64 = 0;
    for &byte in whole {
        value = value.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    for place in 0..digits {
        let next = fraction.get(place as usize).map_or(Some(0), |byte| digit(*byte))?;
        value = value.checked_mul(10)?.checked_add(next)?;
    }
    let rest = fraction.get(digits as usize..).unwrap_or_default();
    (rest.iter().all(u8::is_ascii_digit) && value <= MOST).then_some(value)
}

/// A position in a time series.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    steps: Arc<Vec<DelayStep>>,
    next: usize,
}

impl Replay {
    pub(super) fn new(steps: Arc<Vec<DelayStep>>) -> Self {
        Self { steps, next: 0 }
    }

    pub(super) fn at(&mut self, sent: Instant) -> Duration {
        while self.steps.get(self.next).is_some_and(|step| step.from <= sent) {
            self.next += 1;
        }
        let present = self.next.checked_sub(1).and_then(|at| self.steps.get(at));
        present.map_or(Duration::ZERO, |step| step.more)
    }
}
