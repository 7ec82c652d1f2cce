//! A driver for tests: queues, and a clock that jumps from event to event.

extern crate std;

use std::vec;

use super::*;
use crate::link::access::Fate;
use crate::random::Root;

/// A cell with its queues.
pub(super) struct Rig {
    pub(super) cell: Cell<u64>,
    pub(super) queues: Vec<VecDeque<(u64, u32)>>,
    /// Lines that always have frames of 1500 bytes, and the number of the next one.
    full: Vec<bool>,
    number: u64,
    pub(super) now: Instant,
    pub(super) crossed: Vec<Crossed<u64>>,
    pub(super) events: u64,
}

/// Returns LTE that transmits at once after idle times.
pub(super) fn prompt() -> CellSpec {
    CellSpec { grant: None, drx: None, ..LTE }
}

/// Returns a user with the same fixed SNR in both directions.
pub(super) fn user(name: &str, snr: f64) -> CellUser {
    CellUser { name: name.into(), down: Quality::fixed(snr), up: Quality::fixed(snr), handover: None }
}

impl Rig {
    /// Returns a rig with a downlink and an uplink for each user: lines 0 and 1 for the first, and so on.
    pub(super) fn new(spec: CellSpec, users: &[CellUser]) -> Self {
        Self::with_seed(spec, users, 5)
    }

    pub(super) fn with_seed(spec: CellSpec, users: &[CellUser], seed: u64) -> Self {
        let lines = (0..users.len())
            .flat_map(|user| [Direction::Down, Direction::Up].map(|direction| CellLine { user, direction }));
        let lines: Vec<CellLine> = lines.collect();
        let cell = Cell::new(spec, users, &lines, |part| Root(seed).stream(part)).unwrap();
        Self {
            cell,
            queues: vec![VecDeque::new(); lines.len()],
            full: vec![false; lines.len()],
            number: 0,
            now: Instant::ZERO,
            crossed: vec![],
            events: 0,
        }
    }

    /// Puts a frame into a queue now.
    pub(super) fn push(&mut self, line: usize, item: u64, bytes: u32) {
        self.queues[line].push_back((item, bytes));
        self.cell.handle_frame(self.now, LineId(line));
        self.drain();
    }

    /// Keeps a queue full from now on.
    pub(super) fn fill(&mut self, line: usize) {
        self.full[line] = true;
        self.cell.handle_frame(self.now, LineId(line));
    }

    /// Ends the transmissions that `fill` began.
    pub(super) fn stop(&mut self, line: usize) {
        self.full[line] = false;
    }

    fn drain(&mut self) {
        while let Some(crossed) = self.cell.poll_crossed() {
            assert!(crossed.start <= crossed.end && crossed.end <= self.now);
            self.crossed.push(crossed);
        }
    }

    /// Processes the next event if it is not later than `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        let Some(at) = self.cell.poll_deadline().filter(|at| *at <= end) else {
            self.now = self.now.max(end);
            return false;
        };
        assert!(at >= self.now);
        self.now = at;
        self.events += 1;
        let Self { cell, queues, full, number, .. } = self;
        let mut source = |_: Instant, LineId(line): LineId| match full[line] {
            true => {
                *number += 1;
                Some((*number, 1500))
            }
            false => queues[line].pop_front(),
        };
        cell.handle_timeout(at, &mut source);
        assert!(cell.poll_deadline().is_none_or(|next| next > at));
        self.drain();
        true
    }

    /// Processes all events up to `end`.
    pub(super) fn run(&mut self, end: Instant) {
        while self.step(end) {}
    }

    pub(super) fn run_secs(&mut self, secs: u64) {
        self.run(Instant::ZERO + Duration::from_secs(secs));
    }

    /// Returns the bytes that a full line has received.
    pub(super) fn received(&self, line: usize) -> f64 {
        let frames = self.crossed.iter().filter(|crossed| crossed.line.0 == line);
        assert!(frames.clone().all(|crossed| crossed.fate == Fate::Received));
        1500.0 * frames.count() as f64
    }
}
