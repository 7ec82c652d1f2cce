//! Measurements that involve both directions: simultaneous trains, which show whether both directions share a
//! half-duplex medium, and, if they do, trains of one direction while the other is silent.

use std::collections::VecDeque;

use lasthop_proto::time::{Duration, Instant};

use super::lane::Lane;
use crate::estimate::{Log, Meeting, Purpose, capacity, is_half_duplex, meetings};
use crate::order::{SMALLEST, Task, Train};
use crate::plan::{Path, Plan};

/// Number of intervals with one measurement each, their length and the first one's start as shares of the time: between
/// the overloads of the two directions.
const PARTS: usize = 14;
const PART: f64 = 0.065;
const FIRST: f64 = 0.0275;
/// Maximum number of pairs of simultaneous trains, and the maximum once the medium is known to be shared. More than the
/// first few are sent only if one of these shared at least `SIGN`.
const IN_ALL: usize = 6;
const KNOWN: usize = 5;
const SIGN: f64 = 0.25;
/// Start of the other direction's train in the first pairs, in round trips after its order. The order takes half a
/// round trip, and the medium may be at either end or between.
const LATER: [f64; 3] = [1.0, 0.0, 0.5];
/// Minimum, usual and maximum number of packets in such a train. It lasts three quarters of a round trip if that takes
/// fewer packets, so that the trains meet wherever the medium is.
const PACKETS: [f64; 3] = [12.0, 24.0, 64.0];
const LASTS: f64 = 0.75;
/// Maximum share of the byte budget for one train.
const MOST: f64 = 0.03;
/// Maximum ratio of the two rates on a shared medium.
const ALIKE: f64 = 4.0;
/// Number of packets in a train of small packets.
const SMALL: u16 = 32;
/// Silence before a train.
const BEFORE: Duration = Duration::from_millis(60);

/// Schedule and state of these measurements.
#[derive(Default)]
pub(super) struct Medium {
    due: VecDeque<Instant>,
    /// Pairs of simultaneous trains so far, and trains of small packets in one direction.
    both: usize,
    small: usize,
    shared: bool,
}

impl Medium {
    /// Schedules the measurements of a main part that begins `now`.
    pub(super) fn begin(&mut self, now: Instant, span: Duration) {
        let at = |part: usize| now + Duration::from_secs_f64((FIRST + PART * part as f64) * span.as_secs_f64());
        self.due = (0..PARTS).map(at).collect();
    }

    /// Returns the time of the next measurement.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().copied()
    }

    /// Removes the next measurement if it is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.next().is_some_and(|at| at <= now) && self.due.pop_front().is_some()
    }

    /// Returns whether the directions share a half-duplex medium.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Cancels the remaining measurements.
    pub(super) fn end(&mut self) {
        self.due.clear();
    }

    /// Orders the next measurement, depending on the logs so far.
    pub(super) fn order(&mut self, lanes: &mut [Lane; 2], logs: [&Log; 2], round_trip: Duration) {
        let Some(paths) = paths(lanes) else { return };
        let rates = [0, 1].map(|way| capacity(logs[way]).map_or(paths[way].rate, |found| found.rate));
        let meetings = meetings(logs, rates);
        self.shared |= is_half_duplex(&meetings);
        let shared = |meeting: &Option<Meeting>| meeting.map_or(0.0, |meeting| meeting.shared);
        // Repeats the offset at which the first trains overlapped most.
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

    /// Orders a train of small packets, alternating between the directions.
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

/// Orders a train of one direction, during which the other sends nothing.
pub(super) fn alone(lanes: &mut [Lane; 2], way: usize, purpose: Purpose, train: Train, round_trip: Duration) {
    let Some(paths) = paths(lanes) else { return };
    let task = Task::Train(train);
    let [_, after] = Plan::rest(paths[way], task);
    // By then, packets that the other end sent before it received this order have passed.
    let before = BEFORE + round_trip;
    lanes[way].add(purpose, task, [before, after]);
    let last = Train { count: 1, size: SMALLEST, gap: Duration::ZERO };
    lanes[1 - way].add(Purpose::Quiet, Task::Train(last), [before + round_trip + after, Duration::ZERO]);
}
