//! Sequence numbers far from all others of a direction, as damaged and forged packets have.

use lasthop_proto::seq::Seq;

use super::{Half, ORIGIN};

/// Maximum distance from the highest number seen up to which a single packet is believed, in bytes.
const MOST_APART: u64 = 1 << 20;

impl Half {
    /// Returns the number without wrapping; none for a single number that skips more than a window. Two such numbers close to each other confirm one another: the
    /// capture lacks what lies between. If neither data nor acknowledgments have passed, the number begins the direction anew: a server may answer several SYNs,
    /// each with another number.
    pub(super) fn near(&mut self, seq: Seq) -> Option<u64> {
        let number = self.unwrap(seq);
        if number.saturating_sub(self.highest) < MOST_APART && self.acknowledged.saturating_sub(number) < MOST_APART {
            self.stray = None;
            return Some(number);
        }
        if self.packets == 0 && self.acknowledged == ORIGIN && self.highest == ORIGIN {
            self.first = None;
            return Some(self.unwrap(seq));
        }
        if self.stray.take().is_some_and(|stray| stray.abs_diff(number) < MOST_APART) {
            return Some(number);
        }
        self.stray = Some(number);
        None
    }
}
