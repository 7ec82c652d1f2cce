//! Super-segments: consecutive segments that the sender passes to its host's device as one packet, which the device
//! splits (segmentation offload; Linux `tcp_write_xmit`, `tcp_xmit_retransmit_queue`).
//!
//! New data forms super-segments of the size of a burst. A retransmission takes segments of one earlier super-segment:
//! Linux splits the packets in its retransmit queue, but does not merge full ones.

use super::pacer::Piece;
use crate::time::Instant;

/// Numbering of super-segments.
#[derive(Clone, Debug)]
pub struct SuperSegments {
    /// Number of the current one; 0 before the first.
    number: u8,
    /// Number of segments that it still takes.
    left: u32,
    /// Time of its transmission.
    began: Instant,
    /// Segment that would continue it.
    next: Piece,
}

impl SuperSegments {
    /// State before the first segment.
    pub const NONE: Self = Self { number: 0, left: 0, began: Instant::ZERO, next: Piece::NONE };

    /// Returns the number of the current super-segment.
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// Returns whether `piece` can continue the current one. A segment that began another one when it was last sent
    /// cannot.
    pub fn goes_on(&self, now: Instant, piece: Piece) -> bool {
        self.left > 0 && self.began == now && self.next == piece
    }

    /// Records that `piece` leaves, with `bytes` of payload, as the beginning of a super-segment of at most `most`
    /// segments if `begins` or if it does not continue the current one. Returns whether it begins one.
    pub fn on_sent(&mut self, now: Instant, piece: Piece, bytes: u32, begins: bool, most: u32) -> bool {
        let begins = begins || !self.goes_on(now, piece);
        if begins {
            self.number = self.number.checked_add(1).unwrap_or(1);
            (self.left, self.began) = (most.max(1), now);
        }
        self.left -= 1;
        self.next = Piece { seq: piece.seq + bytes, ..piece };
        begins
    }

    /// Ends the current one: nothing more can be sent at present.
    pub fn end(&mut self) {
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::Seq;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Sends segments of 1000 bytes; returns the number of the super-segment of each.
    fn send(units: &mut SuperSegments, now: u64, numbers: core::ops::Range<u32>, most: u32) -> alloc::vec::Vec<u8> {
        let piece = |number: u32| Piece { seq: Seq(number * 1000), left_at: None };
        let one = |number| {
            units.on_sent(at(now), piece(number), 1000, false, most);
            units.number()
        };
        numbers.map(one).collect()
    }

    #[test]
    fn a_burst_is_split_at_its_size() {
        let mut units = SuperSegments::NONE;
        assert_eq!(send(&mut units, 5, 0..7, 3), [1, 1, 1, 2, 2, 2, 3]);
        assert_eq!(send(&mut units, 6, 7..9, 3), [4, 4], "a later burst");
        units.end();
        assert_eq!(send(&mut units, 6, 9..10, 3), [5], "the next event at the same time");
        assert_eq!(send(&mut units, 6, 12..13, 3), [6], "behind a gap");
    }

    #[test]
    fn numbers_never_are_zero() {
        let mut units = SuperSegments::NONE;
        let numbers: alloc::vec::Vec<u8> = send(&mut units, 1, 0..600, 1);
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]) && !numbers.contains(&0));
        assert_eq!(numbers[254..256], [255, 1]);
    }

    #[test]
    fn retransmissions_do_not_merge() {
        let mut units = SuperSegments::NONE;
        let again = |number: u32| Piece { seq: Seq(number * 1000), left_at: Some(at(1)) };
        assert!(units.on_sent(at(9), again(0), 1000, true, 9));
        assert!(!units.on_sent(at(9), again(1), 1000, false, 9));
        assert!(units.on_sent(at(9), again(2), 1000, true, 9), "sent first at the same time, as another one");
        assert!(units.on_sent(at(9), Piece { seq: Seq(3000), left_at: None }, 1000, false, 9), "new data");
    }
}
