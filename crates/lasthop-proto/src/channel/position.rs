//! Positions in a stream, continued where sequence numbers wrap.

use crate::seq::Seq;

/// Bytes from the first number seen, so that a sequence number that recurs after 4 GiB has another position.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Positions {
    /// Highest position so far, and its sequence number.
    highest: Option<(i64, Seq)>,
}

impl Positions {
    /// Returns the position of `seq`: the one nearest to the highest so far.
    pub(super) fn of(&mut self, seq: Seq) -> i64 {
        let (highest, highest_seq) = *self.highest.get_or_insert((0, seq));
        let position = highest + i64::from(seq.0.wrapping_sub(highest_seq.0) as i32);
        if position > highest {
            self.highest = Some((position, seq));
        }
        position
    }
}
