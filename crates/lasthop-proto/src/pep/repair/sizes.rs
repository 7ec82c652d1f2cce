//! Packet sizes that the hop carries. Behind a link with a smaller MTU whose router sends no ICMP, or whose ICMP a
//! firewall drops, packets above some size are always lost (RFC 2923 §2.1). Repairs do not help: the sender has to send
//! smaller packets, and has to see the losses for that.
//!
//! A packet whose repairs failed several times is too large if smaller packets that left after it have arrived, and
//! none of its size.

use crate::seq::Seq;
use crate::time::Instant;

/// Number of failed repairs after which a packet may be too large.
const FUTILE: u32 = 3;

/// Number of smaller packets that must arrive before a packet counts as too large.
const SMALLER: usize = 3;

/// Maximum number of sizes whose last arrival is remembered.
const REMEMBERED: usize = 6;

/// An arrival: payload bytes, and the packet's transmission time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arrival {
    len: u32,
    left: Instant,
}

/// Known limit of packet sizes.
///
/// | from | event | to |
/// |---|---|---|
/// | any | a packet is found to be too large | `From`, without a passing packet |
/// | `From` | a packet that is too large passes uncached | `From`, with that packet |
/// | `From`, with a passing packet | data that overlaps it | `From`, without it |
/// | `From`, with a passing packet | it is acknowledged | `Unknown` |
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Limit {
    #[default]
    Unknown,
    /// Packets with this many bytes of payload, or more, are too large.
    From {
        len: u32,
        /// First byte and end of a packet that passed although it is too large. It may arrive nevertheless.
        passing: Option<(Seq, Seq)>,
    },
}

impl Limit {
    const fn at(len: u32) -> Self {
        Self::From { len, passing: None }
    }
}

/// Sizes seen to arrive.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::pep) struct Sizes {
    /// Arrivals with no later-sent one of the same size or larger: sizes fall and times rise.
    largest: [Option<Arrival>; REMEMBERED],
    /// Transmission times of the latest arrivals.
    latest: [Option<Instant>; SMALLER],
    limit: Limit,
    /// True if the limit was found since the last call of `take_news`.
    is_news: bool,
}

impl Sizes {
    /// Records that a packet has arrived.
    pub fn arrived(&mut self, len: u32, left: Instant) {
        self.latest.rotate_right(1);
        self.latest[0] = Some(left);
        if self.largest.iter().flatten().any(|known| known.len >= len && known.left >= left) {
            return;
        }
        let kept = self.largest.into_iter().flatten().filter(|known| known.len > len || known.left > left);
        // The oldest goes if there are too many.
        let too_many = kept.clone().count() / REMEMBERED;
        let mut largest = [None; REMEMBERED];
        let all = kept.skip(too_many).chain([Arrival { len, left }]);
        largest.iter_mut().zip(all).for_each(|(place, arrival)| *place = Some(arrival));
        self.largest = largest;
    }

    /// Returns whether repairing a packet again is futile because it is too large. It has `len` bytes, left first at
    /// `first`, and was repaired `repairs` times since.
    pub fn is_futile(&mut self, len: u32, first: Instant, repairs: u32) -> bool {
        let left_since = |arrival: &&Arrival| arrival.left > first;
        let largest = self.largest.iter().flatten().filter(left_since).map(|arrival| arrival.len).max();
        let smaller = self.latest.iter().all(|left| left.is_some_and(|left| left > first));
        let found = repairs >= FUTILE && smaller && largest.is_some_and(|largest| largest < len);
        if found {
            (self.limit, self.is_news) = (Limit::at(len), true);
        }
        found
    }

    /// Records that the sender sends a packet of `len` bytes in smaller pieces, after `repairs` repairs of it: it knows
    /// the limit, or probes for it.
    pub fn is_cut(&mut self, len: u32, repairs: u32) {
        if repairs >= FUTILE {
            (self.limit, self.is_news) = (Limit::at(len), true);
        }
    }

    /// Returns whether a packet at `seq..end` with `len` bytes of payload is known to be too large. It then passes
    /// uncached.
    pub fn exceeds(&mut self, len: u32, seq: Seq, end: Seq) -> bool {
        let Limit::From { len: limit, passing } = &mut self.limit else { return false };
        *passing = passing.filter(|&(first, last)| end.le(first) || seq.ge(last));
        let is_too_large = len >= *limit;
        if is_too_large {
            passing.get_or_insert((seq, end));
        }
        is_too_large
    }

    /// Returns whether any size is known to be too large.
    pub fn are_limited(&self) -> bool {
        self.limit != Limit::Unknown
    }

    /// Returns, once, the news that packets are too large. The known sizes stay valid.
    pub fn take_news(&mut self) -> Option<Self> {
        core::mem::take(&mut self.is_news).then_some(*self)
    }

    /// Records an acknowledgment. It removes the limit if a packet has arrived that exceeds it.
    pub fn acknowledged(&mut self, ack: Seq) {
        if matches!(self.limit, Limit::From { passing: Some((_, end)), .. } if end.le(ack)) {
            self.limit = Limit::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A limit takes three smaller packets that left later, and three repairs.
    #[test]
    fn what_is_lost_again_and_again_while_smaller_ones_arrive_is_too_large() {
        for (repairs, smaller, found) in [(3, 3, true), (2, 3, false), (3, 2, false), (9, 0, false)] {
            let mut sizes = Sizes::default();
            sizes.arrived(1448, at(5));
            (0..smaller).for_each(|n| sizes.arrived(1000 + n, at(20 + u64::from(n))));
            assert_eq!(sizes.is_futile(1448, at(10), repairs), found, "{repairs} {smaller}");
            assert_eq!(sizes.exceeds(1448, Seq(0), Seq(1448)), found);
            assert!(!sizes.exceeds(1447, Seq(1448), Seq(2895)));
            assert_eq!((sizes.take_news().is_some(), sizes.take_news().is_some()), (found, false));
        }
    }

    #[test]
    fn where_one_as_large_left_later_and_arrived_nothing_is_too_large() {
        let mut sizes = Sizes::default();
        for (n, len) in [(0, 1448), (1, 600), (2, 500), (3, 400), (4, 300)] {
            sizes.arrived(len, at(20 + n));
        }
        assert!(!sizes.is_futile(1448, at(10), 9), "the largest of all is not forgotten");
        assert!(sizes.is_futile(1448, at(20), 9), "all that left later is smaller");
    }

    #[test]
    fn the_limit_is_lifted_when_one_as_large_arrives() {
        let mut sizes = Sizes::default();
        (0..3).for_each(|n| sizes.arrived(1000, at(20 + n)));
        assert!(sizes.is_futile(1448, at(10), 3));
        assert!(sizes.exceeds(1448, Seq(0), Seq(1448)));
        sizes.acknowledged(Seq(1447));
        assert!(sizes.are_limited());
        sizes.acknowledged(Seq(1448));
        assert!(!sizes.exceeds(1448, Seq(1448), Seq(2896)));
    }

    /// An acknowledgment then does not show which of both has arrived.
    #[test]
    fn data_that_overlaps_the_large_packet_voids_it() {
        let mut sizes = Sizes::default();
        (0..3).for_each(|n| sizes.arrived(1000, at(20 + n)));
        assert!(sizes.is_futile(1448, at(10), 3));
        assert!(sizes.exceeds(1448, Seq(0), Seq(1448)));
        assert!(!sizes.exceeds(1000, Seq(1000), Seq(2000)));
        sizes.acknowledged(Seq(1448));
        assert!(sizes.are_limited());
    }
}
