//! What connections to the same mobile host tell each other of the hop.
//!
//! A connection knows the hop by its own round trips. Where many begin at once, the queue in front of the hop grows faster than any of them measures: each
//! would take the delay for a silence, and send again what only waits. But while one waits, others hear, and how long their packets took is no
//! less true for it (RFC 9040 §4 has connections share such values).

use alloc::vec::Vec;

use super::Owner;
use crate::time::{Duration, Instant};

/// A packet of some connection has crossed the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) struct Heard {
    /// When that was seen.
    pub at: Instant,
    /// How long it took.
    pub took: Duration,
    /// Of which connection.
    slot: u32,
}

/// What was heard of each owner's connections of late: the longest of a round trip.
#[derive(Clone, Default, Debug)]
pub(super) struct Neighbours {
    /// By owner; in the first place those of nobody known, who share the hop as well.
    heard: Vec<Option<Heard>>,
}

impl Neighbours {
    fn place(owner: Option<Owner>) -> usize {
        owner.map_or(0, |Owner(owner)| owner as usize + 1)
    }

    /// A packet of that connection took so long.
    pub fn hear(&mut self, owner: Option<Owner>, slot: u32, at: Instant, took: Duration) {
        let place = Self::place(owner);
        if self.heard.len() <= place {
            self.heard.resize(place + 1, None);
        }
        let stands = self.heard[place].is_some_and(|before| before.took > took && at.since(before.at) < before.took);
        if !stands {
            self.heard[place] = Some(Heard { at, took, slot });
        }
    }

    /// What was heard of the owner's other connections.
    pub fn of_others(&self, owner: Option<Owner>, slot: u32) -> Option<Heard> {
        self.heard.get(Self::place(owner)).copied().flatten().filter(|heard| heard.slot != slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// The longest counts for as long as it took itself; then the newest.
    #[test]
    fn the_longest_of_a_round_trip_counts() {
        let mut neighbours = Neighbours::default();
        let took =
            |neighbours: &Neighbours| neighbours.of_others(None, 9).map(|heard| heard.took.as_nanos() / 1_000_000);
        assert_eq!(took(&neighbours), None);
        for (ms, sample, longest) in [(100, 50, 50), (120, 80, 80), (150, 60, 80), (199, 70, 80), (200, 40, 40)] {
            neighbours.hear(None, 1, at(ms), Duration::from_millis(sample));
            assert_eq!(took(&neighbours), Some(longest), "at {ms}");
        }
    }

    /// What a connection measured itself is in its own round trip; and other mobile hosts may be behind other hops.
    #[test]
    fn only_others_of_the_same_owner_count() {
        let mut neighbours = Neighbours::default();
        let (one, other) = (Some(Owner(0)), Some(Owner(7)));
        neighbours.hear(one, 1, at(100), Duration::from_millis(50));
        assert_eq!(neighbours.of_others(one, 1), None);
        assert_eq!(neighbours.of_others(other, 2), None);
        assert_eq!(neighbours.of_others(None, 2), None);
        assert!(neighbours.of_others(one, 2).is_some());
    }
}
