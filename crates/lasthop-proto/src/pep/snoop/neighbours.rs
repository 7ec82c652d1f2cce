//! Measurements of the hop shared between connections to the same mobile host.
//!
//! A connection measures the hop by its own round trips. If many connections start at once, the queue in front of the
//! hop grows faster than any of them measures. Each would take the delay for a silence and retransmit packets that are
//! only queued. But while one waits, others receive: the hop is up, and the time that their packets took is valid for
//! all (RFC 9040 §4 lets connections share such values).

use alloc::vec::Vec;

use super::Owner;
use super::bets::{AllBets, FREE, OwnersBets};
use crate::pep::repair::{Heard, News};
use crate::tcp::min_rtt::MinRtt;
use crate::time::{Duration, Instant};

/// Length of the periods in which active connections are counted: several round trips of most hops.
const PERIOD: Duration = Duration::from_millis(500);

/// Number of connections whose data arrives, by period.
#[derive(Clone, Copy, Default, Debug)]
struct Active {
    /// Current period; the first is 0.
    period: u64,
    /// Number of connections seen in the current period so far.
    current: u32,
    /// Number of connections seen in the previous period.
    previous: u32,
}

impl Active {
    /// Counts a connection that was last counted in `counted_in`, and returns the number of active connections.
    fn count(&mut self, now: Instant, counted_in: &mut Option<u64>) -> u32 {
        let period = now.since(Instant::ZERO).as_nanos() / PERIOD.as_nanos();
        if period != self.period {
            let previous = if period == self.period + 1 { self.current } else { 0 };
            *self = Self { period, current: 0, previous };
        }
        if counted_in.replace(period) != Some(period) {
            self.current = self.current.saturating_add(1);
        }
        self.current.max(self.previous)
    }
}

/// All measurements of an owner's connections.
#[derive(Clone, Copy, Default, Debug)]
struct Told {
    last: Instant,
    /// Longest time within a round trip, and when it was reported.
    longest: (Duration, Instant),
    least: MinRtt,
    bets: OwnersBets,
    active: Active,
}

impl Told {
    fn hear(&mut self, now: Instant, News { took, least }: News) {
        self.last = now;
        self.bets.hear();
        if let Some(least) = least {
            self.least.update(now, least);
        }
        let (longest, at) = self.longest;
        if let Some(took) = took.filter(|&took| took >= longest || now.since(at) >= longest) {
            self.longest = (took, now);
        }
    }

    fn heard(&self) -> Heard {
        let took = self.longest.0;
        Heard { last: self.last, took, least: self.least.get().unwrap_or(took) }
    }
}

/// Measurements by owner. The first place is for connections without a known owner, which share the hop as well. A
/// place is empty until a connection has reported a time.
#[derive(Clone, Default, Debug)]
pub(super) struct Neighbours {
    owners: Vec<Option<Told>>,
    /// Shared bets of owners that were not heard yet.
    unheard: OwnersBets,
    bets: AllBets,
}

impl Neighbours {
    fn place(owner: Option<Owner>) -> usize {
        owner.map_or(0, |Owner(owner)| owner as usize + 1)
    }

    /// Records an arrival on a connection of `owner`.
    pub fn hear(&mut self, owner: Option<Owner>, now: Instant, news: News) {
        self.bets.hear(now);
        let place = Self::place(owner);
        if self.owners.len() <= place {
            self.owners.resize(place + 1, None);
        }
        let told = &mut self.owners[place];
        if told.is_some() || news.took.is_some() {
            told.get_or_insert_default().hear(now, news);
        }
    }

    /// Counts a connection of `owner` whose data has just arrived, and returns the number of the owner's active
    /// connections. `counted_in` is the connection's own note of when it was last counted.
    pub fn count(&mut self, owner: Option<Owner>, now: Instant, counted_in: &mut Option<u64>) -> u32 {
        let place = self.owners.get_mut(Self::place(owner)).and_then(Option::as_mut);
        place.map_or(1, |told| told.active.count(now, counted_in))
    }

    /// Returns whether a connection of `owner`, last heard at `heard`, may make another bet: no connection has been
    /// heard since, or there are bets left.
    pub fn may_bet(&mut self, owner: Option<Owner>, now: Instant, heard: Instant) -> bool {
        if self.bets.heard <= heard {
            return true;
        }
        let place = Self::place(owner);
        let has_any = match self.owners.get_mut(place).and_then(Option::as_mut) {
            Some(told) => told.bets.has_any(now, told.last),
            None => self.unheard.has_any(now, heard),
        };
        has_any && self.bets.has_any()
    }

    /// Charges `bets` bets to a connection of `owner` that was last heard at `heard` and had made `before` bets in the
    /// same silence.
    pub fn pay(&mut self, owner: Option<Owner>, heard: Instant, before: u32, bets: u32) {
        let counted = before.saturating_add(bets).saturating_sub(FREE.max(before));
        if self.bets.heard <= heard || counted == 0 {
            return;
        }
        match self.owners.get_mut(Self::place(owner)).and_then(Option::as_mut) {
            Some(told) => told.bets.pay(counted),
            None => self.unheard.pay(counted),
        }
        self.bets.pay(counted);
    }

    /// Returns the measurements of that owner's connections.
    pub fn of(&self, owner: Option<Owner>) -> Option<Heard> {
        self.owners.get(Self::place(owner))?.as_ref().map(Told::heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Returns a report with the time that a packet took, in ms, and the shortest time known.
    fn news(took: Option<u64>, least: u64) -> News {
        News { took: took.map(Duration::from_millis), least: Some(Duration::from_millis(least)) }
    }

    /// The longest time counts for as long as it took itself, then the newest does. An arrival without a time counts as
    /// an arrival.
    #[test]
    fn the_longest_of_a_round_trip_counts() {
        let mut neighbours = Neighbours::default();
        neighbours.hear(None, at(90), news(None, 10));
        assert_eq!(neighbours.of(None), None, "how long the hop takes is not known yet");
        for (ms, sample, longest) in
            [(100, Some(50), 50), (120, Some(80), 80), (150, Some(60), 80), (199, None, 80), (200, Some(40), 40)]
        {
            neighbours.hear(None, at(ms), news(sample, 10));
            let heard = neighbours.of(None).unwrap();
            assert_eq!((heard.last, heard.took), (at(ms), Duration::from_millis(longest)), "at {ms}");
        }
    }

    /// A connection that starts behind a full queue learns the hop's unqueued delay from others.
    #[test]
    fn more_than_twice_the_shortest_shows_a_queue() {
        let mut neighbours = Neighbours::default();
        for (ms, took, least, queue) in [
            (0, 50, 50, false),
            (50, 100, 100, false),
            (150, 101, 101, true),
            (260, 59, 30, false),
            (320, 61, 61, true),
        ] {
            neighbours.hear(None, at(ms), news(Some(took), least));
            assert_eq!(neighbours.of(None).unwrap().shows_a_queue(), queue, "at {ms}");
        }
    }

    /// The connection that knew the unqueued path, or the path itself, may no longer exist.
    #[test]
    fn the_shortest_counts_for_five_minutes() {
        let mut neighbours = Neighbours::default();
        for (seconds, took, queue) in
            [(0, 20, false), (1, 100, true), (299, 100, true), (301, 100, false), (302, 201, true)]
        {
            neighbours.hear(None, at(1_000 * seconds), news(Some(took), took));
            assert_eq!(neighbours.of(None).unwrap().shows_a_queue(), queue, "at {seconds} s");
        }
    }

    /// A connection counts once for each period, and for one period after its data last arrived.
    #[test]
    fn active_connections_are_counted() {
        let mut neighbours = Neighbours::default();
        neighbours.hear(None, at(0), news(Some(50), 50));
        let mut connections = [None; 3];
        let count =
            |neighbours: &mut Neighbours, ms, counted: &mut Option<u64>| neighbours.count(None, at(ms), counted);
        for (ms, which, expected) in [
            (0, 0, 1),
            (10, 1, 2),
            (20, 0, 2),
            (499, 2, 3),
            (500, 0, 3),
            (990, 0, 3),
            (1000, 0, 1),
            (1001, 2, 2),
            (9000, 1, 1),
        ] {
            assert_eq!(count(&mut neighbours, ms, &mut connections[which]), expected, "at {ms}");
        }
    }

    /// Other mobile hosts may be behind other hops.
    #[test]
    fn only_connections_of_the_same_owner_count() {
        let mut neighbours = Neighbours::default();
        neighbours.hear(Some(Owner(0)), at(100), news(Some(50), 50));
        assert_eq!(neighbours.of(Some(Owner(7))), None);
        assert_eq!(neighbours.of(None), None);
        assert!(neighbours.of(Some(Owner(0))).is_some());
    }
}
