//! The event queue: one entry per source of events (a leg, a node), instead of one per event.
//!
//! Links deliver in order and nodes have one deadline each, so only the next event of each source must be sorted: the
//! queue is as small as the topology, regardless of packets in flight. Timers are lazy: moving a deadline later costs
//! nothing; the source wakes early, does nothing, and is filed again.

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
