//! Recorded cellular links with the rules of CellReplay.
//!
//! A *light* trace has the base delay of the link and, for a short train of packets after an idle time, the times at
//! which they come out. A *heavy* trace has the opportunities of a busy link. A packet first waits as the light trace
//! says. If the train is longer than it, the packet then passes the heavy opportunities, by mahimahi's rules. Rules:
//! CellReplay 2ca662c, `src/frontend/cellular_queue.cc`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::opportunities::{OPPORTUNITY_EXTRA, Opportunities, Process as Heavy};
use super::{Offset, Transmission, Wrap};
use crate::time::{Duration, Instant};

/// Bytes that an opportunity carries in CellReplay (`PACKET_SIZE`).
pub const CELL_OPPORTUNITY: u32 = 1400;

/// Minimum number of lines of a light trace.
const LEAST_LINES: usize = 3;

/// Maximum number of numbers in a light trace.
pub const MOST_LIGHT: usize = 1 << 23;

/// Longest base delay.
const LONGEST_DELAY: u32 = 3_600_000;

const MILLISECOND: u64 = 1_000_000;

/// A line of a light trace, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LightLine {
    /// Time from which it is valid.
    pub at: u32,
    /// Base delay at that time.
    pub delay: u32,
    /// Times of the light opportunities, since the first packet of a train.
    pub opportunities: Vec<u32>,
}

/// Traces of one direction, and their use.
#[derive(Clone, PartialEq, Debug)]
pub struct CellReplay {
    heavy: Opportunities,
    light: Arc<Vec<LightLine>>,
    gap: Duration,
}

impl CellReplay {
    /// Returns the replay of a heavy trace, in milliseconds, and a light one. A train ends when a packet would come out
    /// more than `gap` after the one before. Returns `None` if the heavy trace is no valid trace of opportunities.
    pub fn new(heavy: Arc<Vec<u32>>, light: Arc<Vec<LightLine>>, gap: Duration, wrap: Wrap) -> Option<Self> {
        let heavy = Opportunities::new(heavy, wrap, Offset::At(Duration::ZERO))?.of_bytes(CELL_OPPORTUNITY);
        (light.len() >= LEAST_LINES).then_some(Self { heavy, light, gap })
    }

    /// Returns the time after which the heavy trace starts again.
    pub fn length(&self) -> Duration {
        self.heavy.length()
    }

    /// Returns the mean rate of the heavy trace, in bits per second.
    pub fn mean(&self) -> f64 {
        self.heavy.mean()
    }
}

/// The current train of packets.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// Start, in the time of the light trace.
    start: u64,
    base: u64,
    /// Next light opportunity, and the bytes left in it.
    next: usize,
    room: u32,
}

/// A replay in a run. All times are in milliseconds since the first packet, at which both traces start.
#[derive(Clone, Debug)]
pub(super) struct Process {
    trace: CellReplay,
    /// Time of the first packet.
    begin: Option<u64>,
    /// Start of the light trace's current lap, and its current line.
    lap: u64,
    line: usize,
    train: Option<Train>,
    /// Time at which the last packet left the light stage: by the rules of trains, and in order.
    by_train: u64,
    released: u64,
    heavy: Heavy,
    /// End of the last transmission with heavy opportunities, and time from which the next one can begin.
    heavy_end: Option<Instant>,
    heavy_free: Instant,
}

impl Process {
    pub(super) fn new(trace: &CellReplay) -> Self {
        Self {
            trace: trace.clone(),
            begin: None,
            lap: 0,
            line: 0,
            train: None,
            by_train: 0,
            released: 0,
            heavy: Heavy::at(&trace.heavy, Duration::ZERO),
            heavy_end: None,
            heavy_free: Instant::ZERO,
        }
    }

    /// Returns the mean rate, in bits per second.
    pub(super) fn mean(&self) -> f64 {
        self.trace.mean()
    }

    /// Sends a packet of `bytes` that arrives at `now`. The next packet can follow at once: it waits within.
    pub(super) fn send(&mut self, now: Instant, bytes: u32) -> Transmission {
        let at = now.as_nanos() / MILLISECOND;
        let begin = *self.begin.get_or_insert(at);
        let size = bytes.saturating_add(OPPORTUNITY_EXTRA);
        let (release, is_light) = self.release(at - begin, size);
        let is_at_once = release == at - begin;
        let instant = |ms: u64| Instant::from_nanos(ms.saturating_mul(MILLISECOND));
        let release = instant(release);
        // A packet that leaves the heavy queue in the same millisecond is still in it, unless this one arrives only now.
        let is_empty = self.heavy_end.is_none_or(|end| end < release || is_at_once && end == release);
        let end = if is_light && is_empty {
            release
        } else {
            let start = if self.heavy_free <= release { self.heavy.opens(release) } else { self.heavy_free };
            let Transmission { end, free } = self.heavy.send(start, bytes);
            (self.heavy_end, self.heavy_free) = (Some(end), free);
            end
        };
        let end = if end == Instant::FAR_FUTURE { end } else { end + Duration::from_nanos(begin * MILLISECOND) };
        Transmission { end: end.max(now), free: now }
    }

    /// Returns the time at which a packet of `size` that arrives at `at` leaves the light stage, and whether it uses a
    /// light opportunity.
    fn release(&mut self, at: u64, size: u32) -> (u64, bool) {
        let gap = self.trace.gap.as_nanos() / MILLISECOND;
        let train = self.train.filter(|train| at + train.base <= self.by_train + gap);
        let (release, mut is_light) = match train {
            None => (at + self.begin_train(at, size), true),
            Some(train) => self.follow(train, at, size),
        };
        self.by_train = release;
        if release < self.released {
            is_light = false;
        }
        self.released = self.released.max(release);
        (self.released, is_light)
    }

    /// Begins a train with a packet of `size` that arrives at `at`. Returns its delay.
    fn begin_train(&mut self, at: u64, size: u32) -> u64 {
        let lines = &self.trace.light;
        let time = |line: usize| lines.get(line).map_or(u64::MAX, |line| line.at.into());
        let mut within = at.saturating_sub(self.lap);
        while time(self.line + 1) <= within {
            self.line += 1;
            if self.line + 1 >= lines.len() {
                self.lap += time(self.line);
                within = at.saturating_sub(self.lap);
                self.line = 0;
            }
        }
        let (left, right) = (&lines[self.line], lines.get(self.line + 1).unwrap_or(&lines[self.line]));
        // In single precision, as the original.
        let ratio =
            within.saturating_sub(left.at.into()) as f32 / u64::from(right.at.saturating_sub(left.at).max(1)) as f32;
        let more = ratio * (i64::from(right.delay) - i64::from(left.delay)) as f32;
        let base = (left.delay as f32 + more) as u64;
        self.train = Some(Train { start: within, base, next: 0, room: CELL_OPPORTUNITY.saturating_sub(size) });
        base
    }

    /// Returns the time at which a further packet of a train leaves, and whether it uses a light opportunity.
    fn follow(&mut self, mut train: Train, at: u64, size: u32) -> (u64, bool) {
        let opportunities = &self.trace.light[self.line].opportunities;
        let time = |next: usize| opportunities.get(next).map(|time| u64::from(*time));
        let since = at.saturating_sub(self.lap).saturating_sub(train.start);
        while time(train.next).is_some_and(|time| since > time) {
            (train.next, train.room) = (train.next + 1, CELL_OPPORTUNITY);
        }
        if train.room < size {
            (train.next, train.room) = (train.next + 1, CELL_OPPORTUNITY);
        }
        train.room = train.room.saturating_sub(size);
        self.train = Some(train);
        match time(train.next) {
            Some(time) => (at + train.base + time.saturating_sub(since), true),
            None => (at + train.base.max(opportunities.last().copied().unwrap_or_default().into()), false),
        }
    }
}

/// Error in a light trace. Lines are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadLight {
    /// A line with other contents than whole numbers of milliseconds, at least two.
    Line(usize),
    /// A base delay above an hour.
    Delay(usize),
    /// A line with an earlier time than the line before.
    Back(usize),
    /// More than [`MOST_LIGHT`] numbers.
    Long,
    /// Fewer than three lines, or no time above zero.
    Short,
}

impl core::fmt::Display for BadLight {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Line(line) => write!(
                f,
                "line {line}: expected a time, a base delay and opportunities in whole milliseconds, e.g. 0 25 0 3 7"
            ),
            Self::Delay(line) => write!(f, "line {line}: the base delay is above an hour; give milliseconds"),
            Self::Back(line) => write!(f, "line {line}: goes back in time; sort the lines"),
            Self::Long => write!(f, "has more than {MOST_LIGHT} numbers"),
            Self::Short => write!(f, "has fewer than {LEAST_LINES} lines in time; give a light trace of CellReplay"),
        }
    }
}

impl core::error::Error for BadLight {}

/// Reads a light trace: lines of a time, a base delay and opportunities, in milliseconds.
///
/// # Errors
///
/// Returns [`BadLight`] for the first error.
pub fn read_light(text: &[u8]) -> Result<Vec<LightLine>, BadLight> {
    let mut lines: Vec<LightLine> = Vec::new();
    let mut count = 0_usize;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let whole = |field: &[u8]| {
            let digits = field.iter().all(u8::is_ascii_digit);
            core::str::from_utf8(field).ok().filter(|_| digits).and_then(|text| text.parse::<u32>().ok())
        };
        let numbers: Option<Vec<u32>> = fields.map(whole).collect();
        let Some([at, delay, opportunities @ ..]) = numbers.as_deref() else { return Err(BadLight::Line(number)) };
        if *delay > LONGEST_DELAY {
            return Err(BadLight::Delay(number));
        }
        if lines.last().is_some_and(|last| last.at > *at) {
            return Err(BadLight::Back(number));
        }
        count += 2 + opportunities.len();
        if count > MOST_LIGHT {
            return Err(BadLight::Long);
        }
        lines.push(LightLine { at: *at, delay: *delay, opportunities: opportunities.to_vec() });
    }
    let lasts = lines.last().is_some_and(|last| last.at > 0);
    if lines.len() >= LEAST_LINES && lasts { Ok(lines) } else { Err(BadLight::Short) }
}

#[cfg(test)]
#[path = "cellreplay_tests.rs"]
mod tests;
