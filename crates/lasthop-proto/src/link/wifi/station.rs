//! A station's contention for the channel, and its choice among its lines.

use alloc::collections::VecDeque;

use super::Turns;
use super::phy::SLOT;
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Share of airtime that a line gets in a round, in nanoseconds (`IEEE80211_DEFAULT_AIRTIME_WEIGHT` of 256 µs).
const QUANTUM: i64 = 256_000;

/// A line's claim to airtime.
#[derive(Clone, Copy, Debug)]
struct Share {
    line: usize,
    /// Airtime that the line may still use in this round, in nanoseconds.
    deficit: i64,
}

/// A station.
#[derive(Clone, Debug)]
pub(super) struct Station {
    /// Contention window.
    pub cw: u32,
    /// Slots left of the backoff, counted from `ready`.
    backoff: u32,
    /// End of the interframe space after which the backoff counts.
    ready: Instant,
    /// Time since which the station has frames; `None` if it has none.
    active: Option<Instant>,
    aifs: Duration,
    /// Lines of the station; the first has the turn.
    shares: VecDeque<Share>,
}

impl Station {
    pub(super) fn new(cw: u32) -> Self {
        Self { cw, backoff: 0, ready: Instant::ZERO, active: None, aifs: Duration::ZERO, shares: VecDeque::new() }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: usize, aifs: Duration) {
        self.aifs = self.aifs.max(aifs);
        self.shares.push_back(Share { line, deficit: 0 });
    }

    /// Returns the time of its next access: the end of the backoff, or the first slot boundary after frames arrived, if
    /// that is later (802.11-2020, 10.23.2.4).
    pub(super) fn access(&self) -> Option<Instant> {
        let waited = self.active?.since(self.ready).as_nanos().div_ceil(SLOT.as_nanos());
        Some(self.ready + Duration::from_nanos(SLOT.as_nanos() * waited.max(u64::from(self.backoff))))
    }

    /// Records that the station has had frames since `now`.
    pub(super) fn begin(&mut self, now: Instant) {
        self.active = Some(now);
    }

    /// Records that the station has no frames.
    pub(super) fn rest(&mut self) {
        self.active = None;
    }

    /// Records whether the station still has frames.
    pub(super) fn update(&mut self, backlogged: impl Fn(usize) -> bool) {
        if self.active.is_some() && !self.shares.iter().any(|share| backlogged(share.line)) {
            self.active = None;
        }
    }

    /// Suspends the backoff at `start`, to continue it an interframe space after `end`.
    pub(super) fn suspend(&mut self, start: Instant, end: Instant) {
        let slots = start.since(self.ready).as_nanos() / SLOT.as_nanos();
        self.backoff = self.backoff.saturating_sub(slots.min(u64::from(u32::MAX)) as u32);
        self.ready = end + self.aifs;
    }

    /// Waits an interframe space after `end`.
    pub(super) fn wait_after(&mut self, end: Instant) {
        self.ready = end + self.aifs;
    }

    /// Draws a backoff.
    pub(super) fn draw(&mut self, stream: &mut Stream) {
        self.backoff = stream.below(u64::from(self.cw) + 1) as u32;
    }

    /// Draws a backoff if none is left.
    pub(super) fn draw_if_none(&mut self, stream: &mut Stream) {
        if self.backoff == 0 {
            self.draw(stream);
        }
    }

    /// Returns the line whose turn it is, among those with frames. `oldest` returns the time at which a line's oldest
    /// frame arrived.
    pub(super) fn turn(
        &mut self,
        turns: Turns,
        backlogged: impl Fn(usize) -> bool,
        oldest: impl Fn(usize) -> Instant,
    ) -> Option<usize> {
        if let [only] = self.shares.make_contiguous() {
            return backlogged(only.line).then_some(only.line);
        }
        if !self.shares.iter().any(|share| backlogged(share.line)) {
            return None;
        }
        if turns == Turns::Arrival {
            let waiting = self.shares.iter().filter(|share| backlogged(share.line));
            return waiting.min_by_key(|share| oldest(share.line)).map(|share| share.line);
        }
        if turns == Turns::Transmissions {
            let place = self.shares.iter().position(|share| backlogged(share.line))?;
            self.shares.rotate_left(place + 1);
            return self.shares.back().map(|share| share.line);
        }
        // Whole rounds that leave every line with a debt are done at once.
        let waiting = self.shares.iter().filter(|share| backlogged(share.line));
        let debt = waiting.map(|share| share.deficit.min(0)).max().unwrap_or(0).saturating_neg();
        for share in self.shares.iter_mut().filter(|share| backlogged(share.line)) {
            share.deficit += debt / QUANTUM * QUANTUM;
        }
        loop {
            let share = self.shares.front_mut()?;
            let waits = backlogged(share.line);
            if waits && share.deficit >= 0 {
                return Some(share.line);
            }
            // A line without frames keeps no claim of earlier rounds, and no debt for long.
            share.deficit = (share.deficit + QUANTUM).min(if waits { i64::MAX } else { QUANTUM });
            self.shares.rotate_left(1);
        }
    }

    /// Charges a line for airtime.
    pub(super) fn charge(&mut self, line: usize, time: Duration) {
        if let Some(place) = self.shares.iter().position(|share| share.line == line) {
            let share = &mut self.shares[place];
            share.deficit -= i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            // A debt of more than a second of airtime would keep a line from sending for a long time.
            share.deficit = share.deficit.max(-1_000_000_000);
        }
    }
}
