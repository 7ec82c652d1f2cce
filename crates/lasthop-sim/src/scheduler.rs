//! The event queue: one entry per source of events (a leg, a node), not one per event.
//!
//! Links deliver in order and nodes have one deadline each, so the next event of each source is all there is to sort: the
//! queue is as small as the topology, whatever is in flight. Timers are lazy: moving a deadline to later costs nothing; the
//! source is woken early, does nothing, and is filed again.

use lasthop_proto::time::Instant;

/// When no event comes.
pub const NEVER: Instant = Instant::FAR_FUTURE;

/// What happens next in a [`Tournament`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// When; [`NEVER`] if nothing does.
    pub at: Instant,
    /// Where.
    pub source: u32,
}

/// A tournament over sources, four to a match: the earliest event wins, ties go to the smaller number.
///
/// Every source has its place in the first round for good, so that filing it anew takes one walk to the final and needs no
/// search.
#[derive(Debug)]
pub struct Tournament {
    first: Due,
    /// The final, then the round before it, and so on: the winner of match n goes on to match (n - 1) / 4.
    matches: Vec<Match>,
    /// Where the first round begins.
    first_round: usize,
}

/// Four players.
#[derive(Clone, Copy, Debug)]
struct Match {
    at: [Instant; 4],
    /// Which sources have come this far; of no meaning in the first round, where the seats tell.
    source: [u32; 4],
}

impl Match {
    /// When the winner's event is, and its seat.
    #[inline(always)]
    fn winner(&self) -> (Instant, usize) {
        let [a, b, c, d] = self.at;
        let left = if b < a { (b, 1) } else { (a, 0) };
        let right = if d < c { (d, 3) } else { (c, 2) };
        if right.0 < left.0 { right } else { left }
    }
}

impl Tournament {
    /// Sources `0..count`, none of which expects anything.
    pub fn new(count: usize) -> Self {
        let (mut first_round, mut size) = (0, 1);
        while 4 * size < count {
            first_round += size;
            size *= 4;
        }
        // The last matches of the first round have nobody to play.
        let matches = first_round + count.div_ceil(4).max(1);
        let nobody = Match { at: [NEVER; 4], source: [0; 4] };
        Self { first: Due { at: NEVER, source: 0 }, matches: vec![nobody; matches], first_round }
    }

    /// What happens next.
    #[inline]
    pub fn first(&self) -> Due {
        self.first
    }

    /// Files `source` anew.
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

    /// Sees to it that `source` is woken at `at` or earlier.
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
