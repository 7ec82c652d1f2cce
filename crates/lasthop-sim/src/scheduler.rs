//! The event queue: one entry per source of events (a leg, a node), instead of one per event.
//!
//! Links deliver in order and nodes have one deadline each, so only the next event of each source must be sorted: the
//! queue is as small as the topology, regardless of packets in flight. Timers are lazy: moving a deadline later does not
//! move the source's alarm, which rings early and is then filed again ([`Alarms`]).

use lasthop_proto::time::Instant;

/// Time of a source without an event.
pub const NEVER: Instant = Instant::FAR_FUTURE;

/// Next event of a [`Tournament`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Time; [`NEVER`] if there is no event.
    pub at: Instant,
    /// Source of the event.
    pub source: u32,
}

/// Tournament tree over sources, with four per match: the earliest event wins; ties go to the smaller number.
///
/// Each source has a fixed place in the first round, so filing it takes one walk to the final and no search.
#[derive(Debug)]
pub struct Tournament {
    first: Due,
    /// The final, then the round before it, and so on. The winner of match n advances to match (n - 1) / 4.
    matches: Vec<Match>,
    /// Index of the first match of the first round.
    first_round: usize,
}

/// A match of four players.
#[derive(Clone, Copy, Debug)]
struct Match {
    at: [Instant; 4],
    /// Sources of the players. Unused in the first round, where the place determines the source.
    source: [u32; 4],
}

impl Match {
    /// Returns the time of the winner's event, and its seat.
    #[inline(always)]
    fn winner(&self) -> (Instant, usize) {
        let [a, b, c, d] = self.at;
        let left = if b < a { (b, 1) } else { (a, 0) };
        let right = if d < c { (d, 3) } else { (c, 2) };
        if right.0 < left.0 { right } else { left }
    }
}

impl Tournament {
    /// Creates a tournament of sources `0..count` without events.
    pub fn new(count: usize) -> Self {
        let (mut first_round, mut size) = (0, 1);
        while 4 * size < count {
            first_round += size;
            size *= 4;
        }
        // The last matches of the first round are omitted if they have no players.
        let matches = first_round + count.div_ceil(4).max(1);
        let nobody = Match { at: [NEVER; 4], source: [0; 4] };
        Self { first: Due { at: NEVER, source: 0 }, matches: vec![nobody; matches], first_round }
    }

    /// Returns the next event.
    #[inline]
    pub fn first(&self) -> Due {
        self.first
    }

    /// Files the next event of `source`.
    #[inline(always)]
    pub fn set(&mut self, source: u32, at: Instant) {
        let mut index = self.first_round + source as usize / 4;
        let first_round = &mut self.matches[index];
        first_round.at[source as usize % 4] = at;
        let (at, seat) = first_round.winner();
        self.first = Due { at, source: source / 4 * 4 + seat as u32 };
        while let Some(above) = index.checked_sub(1) {
            index = above / 4;
            let round = &mut self.matches[index];
            (round.at[above % 4], round.source[above % 4]) = (self.first.at, self.first.source);
            let (at, seat) = round.winner();
            self.first = Due { at, source: round.source[seat] };
        }
    }

    /// Ensures that `source` wakes at `at` or earlier.
    #[inline(always)]
    pub fn wake_by(&mut self, source: u32, at: Instant) {
        if at < self.matches[self.first_round + source as usize / 4].at[source as usize % 4] {
            self.set(source, at);
        }
    }
}

/// Alarms of sources, with deadlines that mostly move later. Both times of a source are in one place, apart from the
/// source and from the tournament: an alarm that stays touches nothing else, and neither does an early one.
#[derive(Debug)]
pub struct Alarms {
    order: Tournament,
    times: Vec<Times>,
}

/// Times of a source.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Time of its alarm.
    alarm: Instant,
    /// Its deadline, then or later.
    deadline: Instant,
}

impl Alarms {
    /// Creates alarms of sources `0..count` without deadlines.
    pub fn new(count: usize) -> Self {
        Self { order: Tournament::new(count), times: vec![Times { alarm: NEVER, deadline: NEVER }; count] }
    }

    /// Returns the next alarm.
    #[inline]
    pub fn first(&self) -> Due {
        self.order.first()
    }

    /// Sets the deadline of `source` to `at`, and its alarm with it.
    #[inline(always)]
    pub fn set(&mut self, source: u32, at: Instant) {
        self.times[source as usize] = Times { alarm: at, deadline: at };
        self.order.set(source, at);
    }

    /// Sets the deadline of `source` to `at`. Its alarm moves only if it would be late.
    #[inline(always)]
    pub fn expect_by(&mut self, source: u32, at: Instant) {
        let times = &mut self.times[source as usize];
        times.deadline = at;
        if at < times.alarm {
            times.alarm = at;
            self.order.set(source, at);
        }
    }

    /// Ensures that the deadline of `source` is `at` or earlier. For a source that acts at each alarm, even an early
    /// one.
    #[inline(always)]
    pub fn wake_by(&mut self, source: u32, at: Instant) {
        let deadline = self.times[source as usize].deadline;
        self.expect_by(source, at.min(deadline));
    }

    /// Processes the alarm of `source` at `now`. Returns whether its deadline has come; otherwise moves the alarm there.
    #[inline]
    pub fn ring(&mut self, now: Instant, source: u32) -> bool {
        let deadline = self.times[source as usize].deadline;
        let is_due = deadline <= now;
        self.set(source, if is_due { NEVER } else { deadline });
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn wakes_in_order_of_time_then_source() {
        for count in [4, 5, 17] {
            let mut queue = Tournament::new(count);
            assert_eq!(queue.first().at, NEVER);
            for (source, nanos) in [(2, 30), (0, 10), (3, 10), (1, 20)] {
                queue.wake_by(source, at(nanos));
            }
            let mut order = Vec::new();
            while queue.first().at != NEVER {
                let first = queue.first();
                order.push((first.at.as_nanos(), first.source));
                queue.set(first.source, NEVER);
            }
            assert_eq!(order, [(10, 0), (10, 3), (20, 1), (30, 2)]);
        }
    }

    #[test]
    fn an_early_alarm_is_filed_again_at_the_deadline() {
        let mut alarms = Alarms::new(5);
        alarms.expect_by(3, at(10));
        alarms.expect_by(3, at(50));
        assert_eq!(alarms.first(), Due { at: at(10), source: 3 });
        assert!(!alarms.ring(at(10), 3), "the deadline has moved");
        assert_eq!(alarms.first(), Due { at: at(50), source: 3 });
        alarms.wake_by(3, at(40));
        alarms.wake_by(3, at(60));
        assert_eq!(alarms.first(), Due { at: at(40), source: 3 });
        assert!(alarms.ring(at(40), 3));
        assert_eq!(alarms.first().at, NEVER);
        alarms.expect_by(3, NEVER);
        assert_eq!(alarms.first().at, NEVER, "no deadline, no alarm");
    }

    #[test]
    fn later_is_lazy_and_earlier_is_not() {
        let mut queue = Tournament::new(2);
        queue.wake_by(0, at(10));
        queue.wake_by(0, at(50));
        assert_eq!(queue.first(), Due { at: at(10), source: 0 });
        queue.wake_by(0, at(5));
        assert_eq!(queue.first(), Due { at: at(5), source: 0 });
        queue.set(0, at(50));
        assert_eq!(queue.first(), Due { at: at(50), source: 0 });
    }
}
