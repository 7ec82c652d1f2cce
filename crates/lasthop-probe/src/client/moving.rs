//! Schedule of a measurement that follows rates that move: trains at regular intervals in both directions, and overloads
//! at the end.

use std::collections::VecDeque;

use lasthop_proto::time::{Duration, Instant};

use super::Way;
use super::lane::Lane;
use crate::estimate::{Log, Purpose};
use crate::moving::{SHORTEST, train_rates};
use crate::order::{LONGEST_OVERLOAD, Task, Train, Trains};
use crate::plan::{Path, SHARE};

/// Number of packets in a train, and interval of trains.
const TRAIN: u16 = 16;
const INTERVAL: f64 = SHORTEST;
/// Maximum interval, as long as the trains use no more than [`SHARE`] of the capacity.
const LONGEST: f64 = 0.5;
/// Number of packets in a train if longer ones would use more than the share `TENTH` of the capacity.
const SHORT_TRAIN: u16 = 8;
const TENTH: f64 = 0.1;
/// Number of overloads of each direction, the duration of each, and the time from one to the next.
const OVERLOADS: usize = 2;
const OVERLOAD: f64 = 1.0;
const APART: f64 = 2.2;
/// Rate of an overload relative to the maximum of the last trains, the time in which these were sent, and the rate that
/// it has at least, relative to the first estimate.
const FASTER: f64 = 1.25;
const LAST: f64 = 4.0;
const LEAST: f64 = 0.25;
/// Time without an overload before the first and after the last one.
const REST: f64 = 1.0;
/// Time after which a server that has not accepted the trains does not know them.
const PATIENCE: Duration = Duration::from_secs(8);

/// Returns the trains that a path carries: packets in each, and their interval in seconds.
pub(super) fn trains(path: Path) -> (u16, f64) {
    let rate = path.rate.min(path.limit);
    let bits = |count: u16| 8.0 * f64::from(count) * f64::from(path.mtu);
    if bits(TRAIN) / INTERVAL <= TENTH * rate {
        return (TRAIN, INTERVAL);
    }
    let wanted = (bits(SHORT_TRAIN) / (TENTH * rate)).clamp(INTERVAL, LONGEST);
    (SHORT_TRAIN, wanted.max(bits(SHORT_TRAIN) / (SHARE * rate)))
}

/// Remaining schedule.
#[derive(Default)]
pub(super) struct Moving {
    due: VecDeque<(Instant, Way)>,
    known_by: Option<Instant>,
}

impl Moving {
    /// Orders the trains of both directions for `lasts` from `now` on, and schedules the overloads. Returns the end.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        lanes: &mut [Lane; 2],
        (seed, round_trip): (u64, Duration),
        lasts: Duration,
    ) -> Instant {
        for way in Way::BOTH {
            let lane = &mut lanes[way as usize];
            let Some(path) = lane.path() else { continue };
            let (count, interval) = trains(path);
            let gap = if path.limit >= 1e9 { 0.0 } else { 8.0 * f64::from(path.mtu) / path.limit };
            let most = u16::MAX / count;
            let number = ((lasts.as_secs_f64() / interval) as u16).clamp(1, most);
            let trains = Trains {
                seed,
                shift: if way == Way::Up { 128 } else { 0 },
                train: Train { count, size: path.mtu, gap: Duration::from_secs_f64(gap) },
                interval: Duration::from_secs_f64(interval),
                number,
            };
            // The other end begins when the order arrives; the shifts refer to the same beginning.
            let before = if way == Way::Up { round_trip / 2 } else { Duration::ZERO };
            lane.add(Purpose::Train, Task::Trains(trains), [before, Duration::ZERO]);
        }
        self.known_by = Some(now + PATIENCE + round_trip * 4);
        let first = now + lasts + Duration::from_secs_f64(REST) + round_trip;
        let at = |number: usize| first + Duration::from_secs_f64(APART * number as f64);
        self.due = (0..2 * OVERLOADS).map(|number| (at(number), Way::BOTH[number % 2])).collect();
        at(2 * OVERLOADS)
    }

    /// Returns the time of the next overload.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Removes the next overload if it is due, and returns its direction.
    pub(super) fn take(&mut self, now: Instant) -> Option<Way> {
        let (at, way) = *self.due.front()?;
        (at <= now).then(|| self.due.pop_front())?;
        Some(way)
    }

    /// Cancels the remaining overloads.
    pub(super) fn end(&mut self) {
        self.due.clear();
        self.known_by = None;
    }

    /// Returns whether the server does not know orders of trains.
    pub(super) fn is_unknown(&mut self, now: Instant, lane: &Lane) -> bool {
        if lane.is_accepted() {
            self.known_by = None;
        }
        self.known_by.is_some_and(|by| now >= by)
    }
}

/// Returns the overload of a direction of which `log` is known.
pub(super) fn overload(path: Path, log: &Log) -> Task {
    let (count, _) = trains(path);
    let last = log.of(Purpose::Train).map(|packet| packet.sent).fold(f64::NEG_INFINITY, f64::max);
    let recent = train_rates(log, count).into_iter().filter(|(at, _)| *at > last - LAST).map(|(_, rate)| rate);
    let rate = recent.max_by(f64::total_cmp).unwrap_or(path.rate).max(LEAST * path.rate);
    let rate = (FASTER * rate).min(path.limit);
    let gap = 8.0 * f64::from(path.mtu) / rate;
    let packets = ((OVERLOAD / gap) as u16).clamp(1, LONGEST_OVERLOAD);
    let train = Train { count: packets, size: path.mtu, gap: Duration::from_secs_f64(gap) };
    Task::Trains(Trains { seed: 0, shift: 0, train, interval: Duration::from_millis(1), number: 1 })
}
