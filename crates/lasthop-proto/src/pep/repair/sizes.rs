//! Sizes of packets that the hop carries. Behind a link with a smaller MTU whose router sends no ICMP, or where a firewall drops
//! that, packets above some size are lost for good (RFC 2923 §2.1). No repair helps: the sender has to send smaller ones, and has
//! to see the losses for that.
//!
//! A packet that was repaired several times in vain is too large where smaller ones arrived that left after it, and none as large.

use crate::time::Instant;

/// Repairs in vain from which on a packet may be too large.
const IN_VAIN: u32 = 3;

/// Arrivals of smaller packets that it takes.
const SMALLER: usize = 3;

/// Sizes of which it is remembered when they last arrived.
const REMEMBERED: usize = 6;

/// An arrival: payload bytes, and when the packet left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arrival {
    len: u32,
    left: Instant,
}

/// What is known of the sizes.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::pep) struct Sizes {
    /// Arrivals behind which none as large has left: sizes fall, and times rise.
    largest: [Option<Arrival>; REMEMBERED],
    /// When the last to arrive had left.
    latest: [Option<Instant>; SMALLER],
    /// Packets with so many bytes of payload, or more, are too large.
    limit: Option<u32>,
    /// Whether that was found since it was asked last.
    is_news: bool,
}

impl Sizes {
    /// A packet has arrived.
    pub fn arrived(&mut self, len: u32, left: Instant) {
        self.latest.rotate_right(1);
        self.latest[0] = Some(left);
        if self.largest.iter().flatten().any(|known| known.len >= len && known.left >= left) {
            return;
        }
        let kept = self.largest.into_iter().flatten().filter(|known| known.len > len || known.left > left);
        // Of too many the oldest goes.
        let too_many = kept.clone().count() / REMEMBERED;
        let mut largest = [None; REMEMBERED];
        let all = kept.skip(too_many).chain([Arrival { len, left }]);
        largest.iter_mut().zip(all).for_each(|(place, arrival)| *place = Some(arrival));
        self.largest = largest;
    }

    /// A packet of `len` bytes, which left first at `first` and was repaired `repairs` times since, is to be repaired once more.
    /// Whether that is in vain, since it is too large.
    pub fn is_in_vain(&mut self, len: u32, first: Instant, repairs: u32) -> bool {
        let left_since = |arrival: &&Arrival| arrival.left > first;
        let largest = self.largest.iter().flatten().filter(left_since).map(|arrival| arrival.len).max();
        let smaller = self.latest.iter().all(|left| left.is_some_and(|left| left > first));
        let found = repairs >= IN_VAIN && smaller && largest.is_some_and(|largest| largest < len);
        if found {
            (self.limit, self.is_news) = (Some(len), true);
        }
        found
    }

    /// The sender sends a packet of `len` bytes in smaller pieces, after `repairs` of it: it knows, or tries whether these arrive.
    pub fn is_cut(&mut self, len: u32, repairs: u32) {
        if repairs >= IN_VAIN {
            (self.limit, self.is_news) = (Some(len), true);
        }
    }

    /// Whether a packet with so many bytes of payload is known to be too large.
    pub fn are_exceeded_by(&self, len: u32) -> bool {
        self.limit.is_some_and(|limit| len >= limit)
    }

    /// Whether any size is known to be too large.
    pub fn are_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Takes the news that packets are too large, once: what is known then goes on.
    pub fn take_news(&mut self) -> Option<Self> {
        core::mem::take(&mut self.is_news).then_some(*self)
    }

    /// A large packet has arrived: there is no limit any more.
    pub fn lift(&mut self) {
        self.limit = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Three smaller ones that left later, and three repairs: not less.
    #[test]
    fn what_is_lost_again_and_again_while_smaller_ones_arrive_is_too_large() {
        for (repairs, smaller, found) in [(3, 3, true), (2, 3, false), (3, 2, false), (9, 0, false)] {
            let mut sizes = Sizes::default();
            sizes.arrived(1448, at(5));
            (0..smaller).for_each(|n| sizes.arrived(1000 + n, at(20 + u64::from(n))));
            assert_eq!(sizes.is_in_vain(1448, at(10), repairs), found, "{repairs} {smaller}");
            assert_eq!(sizes.are_exceeded_by(1448), found);
            assert!(!sizes.are_exceeded_by(1447));
            assert_eq!((sizes.take_news().is_some(), sizes.take_news().is_some()), (found, false));
        }
    }

    #[test]
    fn where_one_as_large_left_later_and_arrived_nothing_is_too_large() {
        let mut sizes = Sizes::default();
        for (n, len) in [(0, 1448), (1, 600), (2, 500), (3, 400), (4, 300)] {
            sizes.arrived(len, at(20 + n));
        }
        assert!(!sizes.is_in_vain(1448, at(10), 9), "the largest of all is not forgotten");
        assert!(sizes.is_in_vain(1448, at(20), 9), "all that left later is smaller");
    }

    #[test]
    fn the_limit_is_lifted_when_one_as_large_arrives() {
        let mut sizes = Sizes::default();
        (0..3).for_each(|n| sizes.arrived(1000, at(20 + n)));
        assert!(sizes.is_in_vain(1448, at(10), 3));
        sizes.lift();
        assert!(!sizes.are_exceeded_by(1448));
    }
}
