//! Sequence numbers far from all others of a direction, as in damaged and forged packets.

use lasthop_proto::seq::Seq;

use super::{Half, ORIGIN};

/// Maximum distance from the highest number up to which a single packet is accepted, in bytes.
const MOST_APART: u64 = 1 << 20;

impl Half {
    /// Returns the number without wrapping; `None` for a single number that skips more than a window. Two such numbers
    /// close to each other confirm one another: the capture lacks the data between. If neither data nor acknowledgments
    /// have passed, the direction restarts with the number: a server may answer several SYNs, each with another number.
    pub(super) fn near(&mut self, seq: Seq) -> Option<u64> {
        let number = self.unwrap(seq);
        if number.saturating_sub(self.highest) < MOST_APART && self.acknowledged.saturating_sub(number) < MOST_APART {
            self.stray = None;
            return Some(number);
        }
        if self.counts.packets == 0 && self.acknowledged == ORIGIN && self.highest == ORIGIN {
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
