//! What both directions have to do together: trains both ways at once, which show whether the ways take turns on one medium; and, where they do,
//! trains of one way during which the other is silent.

use std::collections::VecDeque;

use lasthop_proto::time::{Duration, Instant};

use super::lane::Lane;
use crate::estimate::{Log, Meeting, Purpose, capacity, is_half_duplex, meetings};
use crate::order::{SMALLEST, Task, Train};
use crate::plan::{Path, Plan};

/// Parts of the time in each of which one thing is done, and when the first is: between the overloads of either way, which are as far apart.
const PARTS: usize = 14;
const PART: f64 = 0.065;
const FIRST: f64 = 0.0275;
/// Trains both ways at the most, and once it is known that the ways take turns. What has to be shared in one of the first for more than these.
const IN_ALL: usize = 6;
const KNOWN: usize = 5;
const SIGN: f64 = 0.25;
/// When one of the first starts, the other way's train, in round trips behind its order: the order takes half of one, and the medium may be at either end, or between.
const LATER: [f64; 3] = [1.0, 0.0, 0.5];
/// Packets of such a train, at the least, as a rule, at the most. It lasts three quarters of a round trip where that is fewer, so that the trains meet wherever the medium is.
const PACKETS: [f64; 3] = [12.0, 24.0, 64.0];
const LASTS: f64 = 0.75;
/// Of what the plan has for trains, one may take so much.
const MOST: f64 = 0.03;
/// Rates further apart are not those of one medium.
const ALIKE: f64 = 4.0;
/// Small packets of a train.
const SMALL: u16 = 32;
/// Nothing is sent for so long before a train.
const BEFORE: Duration = Duration::from_millis(60);

/// What is due, and what came of it.
#[derive(Default)]
pub(super) struct Medium {
    due: VecDeque<Instant>,
    /// Trains both ways so far, and of one way with small packets.
    both: usize,
    small: usize,
    shared: bool,
}

impl Medium {
    /// For a main part that begins `now`.
    pub(super) fn begin(&mut self, now: Instant, span: Duration) {
        let at = |part: usize| now + Duration::from_secs_f64((FIRST + PART * part as f64) * span.as_secs_f64());
        self.due = (0..PARTS).map(at).collect();
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().copied()
    }

    /// Takes the next, if it is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.next().is_some_and(|at| at <= now) && self.due.pop_front().is_some()
    }

    /// Whether the ways were seen to take turns.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Nothing more.
    pub(super) fn end(&mut self) {
        self.due.clear();
    }

    /// Orders what is next, after what the logs say so far.
    pub(super) fn order(&mut self, lanes: &mut [Lane; 2], logs: [&Log; 2], round_trip: Duration) {
        let Some(paths) = paths(lanes) else { return };
        let rates = [0, 1].map(|way| capacity(logs[way]).map_or(paths[way].rate, |found| found.rate));
        let meetings = meetings(logs, rates);
        self.shared |= is_half_duplex(&meetings);
        let shared = |meeting: &Option<Meeting>| meeting.map_or(0.0, |meeting| meeting.shared);
        // Where they met best, of the first.
        let firsts = meetings.iter().take(LATER.len()).map(shared).enumerate();
        let (best, sign) = firsts.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or_default();
        if self.both < LATER.len() {
            self.both(lanes, paths, round_trip, LATER[self.both]);
        } else if sign >= SIGN && self.both < if self.shared { KNOWN } else { IN_ALL } {
            self.both(lanes, paths, round_trip, LATER[best]);
        } else if self.shared {
            self.small(lanes, paths, round_trip);
        }
    }

    fn both(&mut self, lanes: &mut [Lane; 2], paths: [Path; 2], round_trip: Duration, later: f64) {
        let [down, up] = paths.map(|path| path.rate);
        let limited = paths.iter().any(Path::is_limited);
        let size = paths[0].mtu.min(paths[1].mtu);
        let air = 8.0 * f64::from(size) / down.max(up);
        let [least, usual, most] = PACKETS;
        let wanted = (LASTS * round_trip.as_secs_f64() / air).clamp(usual, most);
        let room = lanes.iter().map(|lane| MOST * lane.budget() / f64::from(size)).fold(wanted, f64::min);
        if limited || down.max(up) > ALIKE * down.min(up) || room < least {
            return;
        }
        let train = Train { count: room as u16, size, gap: Duration::ZERO };
        if !lanes.iter_mut().all(|lane| lane.pay(train)) {
            return;
        }
        self.both += 1;
        let bits = 8.0 * f64::from(size) * f64::from(train.count);
        let after = Duration::from_millis(50) + round_trip + Duration::from_secs_f64(bits / down + bits / up);
        let starts = [BEFORE, BEFORE + Duration::from_secs_f64(later * round_trip.as_secs_f64())];
        for (lane, start) in lanes.iter_mut().zip(starts) {
            lane.add(Purpose::Both, Task::Train(train), [start, after]);
        }
    }

    /// A train of small packets, of each way in turn.
    fn small(&mut self, lanes: &mut [Lane; 2], paths: [Path; 2], round_trip: Duration) {
        let way = self.small % 2;
        let size = (paths[0].mtu.min(paths[1].mtu) / 3).max(SMALLEST);
        let train = Train { count: SMALL, size, gap: Duration::ZERO };
        if !lanes[way].pay(train) {
            return;
        }
        self.small += 1;
        alone(lanes, way, Purpose::Small, train, round_trip);
    }
}

fn paths(lanes: &[Lane; 2]) -> Option<[Path; 2]> {
    Some([lanes[0].path()?, lanes[1].path()?])
}

/// Orders a train of one way, during which the other sends nothing.
pub(super) fn alone(lanes: &mut [Lane; 2], way: usize, purpose: Purpose, train: Train, round_trip: Duration) {
    let Some(paths) = paths(lanes) else { return };
    let task = Task::Train(train);
    let [_, after] = Plan::rest(paths[way], task);
    // What the other way sent before it heard of this is through by then.
    let before = BEFORE + round_trip;
    lanes[way].add(purpose, task, [before, after]);
    let last = Train { count: 1, size: SMALLEST, gap: Duration::ZERO };
    lanes[1 - way].add(Purpose::Quiet, Task::Train(last), [before + round_trip + after, Duration::ZERO]);
}
