//! Frames and transport blocks of a line.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::spec::{CellSpec, Direction, bits, units_for};
use crate::link::access::{Crossed, Fate, LineId, Source};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A frame that was taken and has not left.
#[derive(Clone, Debug)]
struct Frame<T> {
    item: T,
    /// Start of the frame's first block.
    start: Instant,
    /// Bytes that are in no block yet.
    left: u64,
    /// Number of unacknowledged blocks that contain bytes of the frame.
    open: u32,
    is_given_up: bool,
}

impl<T> Frame<T> {
    const fn is_complete(&self) -> bool {
        self.is_given_up || (self.left == 0 && self.open == 0)
    }
}

/// A transport block.
#[derive(Clone, Debug)]
struct Block {
    number: u64,
    /// Numbers of the first and the last frame in the block.
    frames: [u64; 2],
    /// Resource blocks that the block takes.
    units: u32,
    /// Failed transmissions of this round, and failed rounds.
    failures: u32,
    rounds: u32,
    /// Start of the block's last transmission; while the block waits, earliest start of the next one.
    at: Instant,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line<T> {
    id: LineId,
    pub(super) user: usize,
    pub(super) direction: Direction,
    errors: Stream,
    /// Indicates that the driver's queue may hold frames.
    pub(super) is_queued: bool,
    /// Earliest time for new data: grant, end of sleep.
    pub(super) ready: Instant,
    /// Frames from the first that has not left, and the number of that frame.
    frames: VecDeque<Frame<T>>,
    base: u64,
    /// Number of frames that are not complete.
    incomplete: usize,
    /// Marks of the closed blocks from the first unacknowledged one on, and the number of that block.
    window: VecDeque<bool>,
    first: u64,
    /// Blocks in transmission, and those that wait for HARQ and for RLC, each in the order of their times.
    on_air: Vec<Block>,
    harq: VecDeque<Block>,
    rlc: VecDeque<Block>,
    /// Time on the medium before the current transmission; start of the current transmission, and its share of the TTI.
    busy: Duration,
    current: (Instant, Duration),
}

impl<T> Line<T> {
    pub(super) fn new(id: LineId, user: usize, direction: Direction, errors: Stream) -> Self {
        Self {
            id,
            user,
            direction,
            errors,
            is_queued: false,
            ready: Instant::ZERO,
            frames: VecDeque::new(),
            base: 0,
            incomplete: 0,
            window: VecDeque::new(),
            first: 0,
            on_air: Vec::new(),
            harq: VecDeque::new(),
            rlc: VecDeque::new(),
            busy: Duration::ZERO,
            current: (Instant::ZERO, Duration::ZERO),
        }
    }

    /// Returns whether the line has new data.
    pub(super) fn has_data(&self) -> bool {
        self.is_queued || self.frames.back().is_some_and(|frame| frame.left > 0)
    }

    /// Returns whether the line has new data or unacknowledged blocks.
    pub(super) fn is_active(&self) -> bool {
        self.has_data() || !self.window.is_empty()
    }

    /// Returns the number of frames that are not complete.
    pub(super) const fn incomplete(&self) -> usize {
        self.incomplete
    }

    /// Returns whether new data may be sent at `now`.
    pub(super) fn may_send(&self, spec: &CellSpec, now: Instant) -> bool {
        self.ready <= now && self.has_data() && self.has_window(spec)
    }

    fn has_window(&self, spec: &CellSpec) -> bool {
        self.window.len() < spec.rlc.window as usize
    }

    /// Returns whether a block is in transmission.
    pub(super) fn is_on_air(&self) -> bool {
        !self.on_air.is_empty()
    }

    /// Returns the earliest time at which this direction of the cell can transmit.
    pub(super) fn next_transmission(&self, spec: &CellSpec) -> Option<Instant> {
        let data = (self.has_data() && self.has_window(spec)).then_some(self.ready);
        [self.next_repeat(), data].into_iter().flatten().min()
    }

    /// Returns the earliest time of the next repeat.
    pub(super) fn next_repeat(&self) -> Option<Instant> {
        [&self.harq, &self.rlc].into_iter().filter_map(|queue| queue.front()).map(|block| block.at).min()
    }

    /// Transmits the next repeat, and returns its resource blocks; `None` if it needs more than `most`.
    pub(super) fn repeat(&mut self, now: Instant, most: u32) -> Option<u32> {
        let at = |queue: &VecDeque<Block>| queue.front().map(|block| block.at);
        let is_rlc = match (at(&self.harq), at(&self.rlc)) {
            (Some(harq), Some(rlc)) => rlc < harq,
            (harq, _) => harq.is_none(),
        };
        let queue = if is_rlc { &mut self.rlc } else { &mut self.harq };
        let units = queue.front()?.units;
        if units > most {
            return None;
        }
        let block = queue.pop_front()?;
        self.on_air.push(Block { at: now, ..block });
        Some(units)
    }

    /// Fills a block with new data and transmits it. Returns its bits and its resource blocks; zero if there is no
    /// data.
    pub(super) fn send(&mut self, now: Instant, (most, density): (u32, u64), source: &mut dyn Source<T>) -> (u64, u32) {
        let bytes = bits(most, density) / 8;
        let mut room = bytes;
        let mut first = None;
        while room > 0 {
            if self.frames.back().is_none_or(|frame| frame.left == 0) {
                let Some((item, size)) = source.take(now, self.id) else {
                    self.is_queued = false;
                    break;
                };
                // An empty frame takes a byte.
                let left = u64::from(size.max(1));
                self.frames.push_back(Frame { item, start: now, left, open: 0, is_given_up: false });
                self.incomplete += 1;
            }
            let number = self.base + self.frames.len() as u64 - 1;
            let Some(frame) = self.frames.back_mut() else { break };
            let part = frame.left.min(room);
            frame.left -= part;
            frame.open += 1;
            room -= part;
            first.get_or_insert(number);
        }
        let Some(first) = first else { return (0, 0) };
        let units = units_for(bytes - room, density).min(most);
        let number = self.first + self.window.len() as u64;
        self.window.push_back(false);
        let frames = [first, self.base + self.frames.len() as u64 - 1];
        self.on_air.push(Block { number, frames, units, failures: 0, rounds: 0, at: now });
        ((bytes - room) * 8, units)
    }

    /// Records the time on the medium of the transmissions that start now.
    pub(super) fn occupy(&mut self, now: Instant, time: Duration) {
        if self.current.0 < now {
            self.busy = self.busy + self.current.1;
            self.current = (now, Duration::ZERO);
        }
        self.current.1 = self.current.1 + time;
    }

    /// Returns the time on the medium by `now`.
    pub(super) fn busy(&self, now: Instant, tti: Duration) -> Duration {
        let (start, share) = self.current;
        let elapsed = now.since(start).min(tti).as_nanos();
        let part = u128::from(share.as_nanos()) * u128::from(elapsed) / u128::from(tti.as_nanos().max(1));
        self.busy + Duration::from_nanos(part as u64)
    }

    /// Ends the transmissions.
    pub(super) fn finish(&mut self, now: Instant, spec: &CellSpec, out: &mut VecDeque<Crossed<T>>) {
        let mut on_air = core::mem::take(&mut self.on_air);
        for mut block in on_air.drain(..) {
            if !self.errors.chance(spec.harq.loss) {
                self.close(&block, false);
                continue;
            }
            block.failures += 1;
            if block.failures < spec.harq.transmissions {
                self.harq.push_back(Block { at: block.at + spec.harq.delay, ..block });
                continue;
            }
            (block.failures, block.rounds) = (0, block.rounds + 1);
            if block.rounds < spec.rlc.rounds {
                self.rlc.push_back(Block { at: block.at + spec.rlc.delay, ..block });
            } else {
                self.close(&block, true);
            }
        }
        self.on_air = on_air;
        while self.frames.front().is_some_and(Frame::is_complete) {
            let Some(frame) = self.frames.pop_front() else { break };
            self.base += 1;
            let fate = if frame.is_given_up { Fate::GivenUp } else { Fate::Received };
            out.push_back(Crossed { line: self.id, item: frame.item, start: frame.start, end: now, fate });
        }
    }

    /// Ends a block that was received or is given up.
    fn close(&mut self, block: &Block, is_given_up: bool) {
        // Frames that were given up may have left while other blocks with bytes of theirs remained.
        for number in block.frames[0].max(self.base)..=block.frames[1] {
            let Some(frame) = self.frames.get_mut((number - self.base) as usize) else { break };
            let was_complete = frame.is_complete();
            frame.open = frame.open.saturating_sub(1);
            if is_given_up {
                (frame.is_given_up, frame.left) = (true, 0);
            }
            self.incomplete -= usize::from(!was_complete && frame.is_complete());
        }
        if let Some(is_closed) = self.window.get_mut((block.number - self.first) as usize) {
            *is_closed = true;
        }
        while self.window.front() == Some(&true) {
            self.window.pop_front();
            self.first += 1;
        }
    }

    /// Gives up all frames, those of the driver's queue as well for a downlink.
    pub(super) fn lose(&mut self, now: Instant, source: &mut dyn Source<T>, out: &mut VecDeque<Crossed<T>>) {
        let line = self.id;
        self.base += self.frames.len() as u64;
        self.first += self.window.len() as u64;
        self.window.clear();
        self.on_air.clear();
        self.harq.clear();
        self.rlc.clear();
        self.incomplete = 0;
        let given_up = |item, start| Crossed { line, item, start, end: now, fate: Fate::GivenUp };
        out.extend(self.frames.drain(..).map(|frame| given_up(frame.item, frame.start)));
        if self.is_queued && self.direction == Direction::Down {
            while let Some((item, _)) = source.take(now, line) {
                out.push_back(given_up(item, now));
            }
            self.is_queued = false;
        }
    }
}
