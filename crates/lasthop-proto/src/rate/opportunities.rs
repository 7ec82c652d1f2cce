//! Delivery opportunities of a recorded link, with the rules of mahimahi's `mm-link`.
//!
//! The link sends in bursts of a fixed size at recorded times. A frame that was queued before an opportunity uses its
//! bytes, or a part of them and the rest at the next one; it leaves with the opportunity that carries its last byte.
//! Bytes without a frame are lost. Rules: mahimahi ae477d4, `src/frontend/link_queue.cc` (`rationalize`, `use_a_delivery_opportunity`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Offset, Transmission, Wrap};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Maximum number of opportunities of a trace: 100 Mbps for 16 minutes.
pub const MOST_OPPORTUNITIES: usize = 1 << 23;

/// Bytes that an opportunity carries in mahimahi (`PACKET_SIZE`).
pub const OPPORTUNITY: u32 = 1504;

/// Bytes that mahimahi counts for each packet beyond its IP length: the TUN device's packet information.
pub const OPPORTUNITY_EXTRA: u32 = 4;

const MILLISECOND: u64 = 1_000_000;

/// A trace of delivery opportunities, and its use.
#[derive(Clone, PartialEq, Debug)]
pub struct Opportunities {
    /// Times in milliseconds, not decreasing, the last above zero. A lap ends with the last one.
    times: Arc<Vec<u32>>,
    wrap: Wrap,
    offset: Offset,
    /// Bytes that each carries.
    bytes: u32,
}

impl Opportunities {
    /// Returns the opportunities at `times`, in milliseconds; `None` if they decrease, are too many, or the last is not
    /// above zero. With [`Wrap::Hold`] the last one would be for ever, which is not allowed.
    pub fn new(times: Arc<Vec<u32>>, wrap: Wrap, offset: Offset) -> Option<Self> {
        let lasts = times.last().is_some_and(|last| *last > 0);
        let is_valid = lasts && times.is_sorted() && times.len() <= MOST_OPPORTUNITIES && wrap != Wrap::Hold;
        is_valid.then_some(Self { times, wrap, offset, bytes: OPPORTUNITY })
    }

    /// Returns the same opportunities, each of which carries `bytes`.
    #[must_use]
    pub(super) fn of_bytes(self, bytes: u32) -> Self {
        Self { bytes, ..self }
    }

    /// Returns the time of the last opportunity, after which the trace starts again.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.lap())
    }

    /// Returns the mean rate, in bits per second.
    pub fn mean(&self) -> f64 {
        f64::from(self.bytes) * 8.0 * self.times.len() as f64 / (self.lap() as f64 * 1e-9)
    }

    /// Returns the duration of a lap in nanoseconds.
    fn lap(&self) -> u64 {
        u64::from(self.times.last().copied().unwrap_or(1)) * MILLISECOND
    }

    fn of_lap(&self) -> u64 {
        self.times.len() as u64
    }

    /// Returns the time of opportunity `number`, counted from zero over all laps, in nanoseconds since the start of the
    /// trace; `None` if there is none.
    fn at(&self, number: u64) -> Option<u64> {
        let lap = number / self.of_lap();
        if lap > 0 && self.wrap != Wrap::Repeat {
            return None;
        }
        let time = self.times.get((number % self.of_lap()) as usize)?;
        lap.checked_mul(self.lap())?.checked_add(u64::from(*time) * MILLISECOND)
    }

    /// Returns the number of the first opportunity after `place`, nanoseconds since the start of the trace.
    fn after(&self, place: u64) -> u64 {
        let (lap, within) = (place / self.lap(), place % self.lap());
        let first = self.times.partition_point(|time| u64::from(*time) * MILLISECOND <= within);
        lap.saturating_mul(self.of_lap()).saturating_add(first as u64)
    }
}

/// Opportunities in a run.
#[derive(Clone, Debug)]
pub(super) struct Process {
    trace: Opportunities,
    /// Position in the trace at which the run begins, in nanoseconds.
    offset: u64,
    /// Number of the opportunity that is used next or was used last.
    number: u64,
    /// Bytes left in it.
    room: u32,
}

impl Process {
    pub(super) fn new(trace: &Opportunities, stream: impl FnOnce() -> Stream) -> Self {
        let offset = match trace.offset {
            Offset::At(offset) => offset,
            Offset::Random => Duration::from_nanos(stream().below(trace.lap())),
        };
        Self::at(trace, offset)
    }

    /// Returns the opportunities from `offset` on.
    pub(super) fn at(trace: &Opportunities, offset: Duration) -> Self {
        Self { trace: trace.clone(), offset: offset.as_nanos(), number: 0, room: trace.bytes }
    }

    fn instant(&self, number: u64) -> Instant {
        self.trace
            .at(number)
            .map_or(Instant::FAR_FUTURE, |place| Instant::from_nanos(place.saturating_sub(self.offset)))
    }

    /// Returns the mean rate, in bits per second.
    pub(super) fn mean(&self) -> f64 {
        self.trace.mean()
    }

    /// Returns the time of the first opportunity for a frame that arrives at `now`.
    pub(super) fn opens(&self, now: Instant) -> Instant {
        self.instant(self.trace.after(now.as_nanos().saturating_add(self.offset)))
    }

    /// Sends `bytes` from `start` on: with the rest of the opportunity at that time, or the next opportunity.
    pub(super) fn send(&mut self, start: Instant, bytes: u32) -> Transmission {
        if self.instant(self.number) != start {
            let place = start.as_nanos().saturating_add(self.offset);
            // Opportunities at the start itself count.
            self.number = place.checked_sub(1).map_or(0, |before| self.trace.after(before));
            self.room = self.trace.bytes;
        }
        let mut left = bytes.saturating_add(OPPORTUNITY_EXTRA);
        loop {
            let moved = left.min(self.room);
            (left, self.room) = (left - moved, self.room - moved);
            let end = self.instant(self.number);
            if self.room == 0 {
                (self.number, self.room) = (self.number.saturating_add(1), self.trace.bytes);
            }
            if left == 0 || end == Instant::FAR_FUTURE {
                return Transmission { end, free: self.instant(self.number).max(end) };
            }
        }
    }
}

/// Error in a trace of opportunities. Lines are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadOpportunities {
    /// A line that is not a whole number of milliseconds below 2³².
    Line(usize),
    /// A line with an earlier time than the line before.
    Back(usize),
    /// More than [`MOST_OPPORTUNITIES`].
    Long,
    /// No time above zero.
    Silent,
}

impl core::fmt::Display for BadOpportunities {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "has no whole number of milliseconds in line {line}"),
            Self::Back(line) => write!(f, "goes back in time in line {line}"),
            Self::Long => write!(f, "has more than {MOST_OPPORTUNITIES} lines"),
            Self::Silent => f.write_str("has no time above 0"),
        }
    }
}

impl core::error::Error for BadOpportunities {}

/// Reads a trace of mahimahi: a time in milliseconds per line.
///
/// # Errors
///
/// Returns [`BadOpportunities`] for the first error.
pub fn read_opportunities(text: &[u8]) -> Result<Vec<u32>, BadOpportunities> {
    let mut times: Vec<u32> = Vec::new();
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let digits = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
        let time = core::str::from_utf8(line).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        let time: u32 = time.ok_or(BadOpportunities::Line(number + 1))?;
        if times.last().is_some_and(|last| *last > time) {
            return Err(BadOpportunities::Back(number + 1));
        }
        if times.len() >= MOST_OPPORTUNITIES {
            return Err(BadOpportunities::Long);
        }
        times.push(time);
    }
    if times.last().is_some_and(|last| *last > 0) { Ok(times) } else { Err(BadOpportunities::Silent) }
}
