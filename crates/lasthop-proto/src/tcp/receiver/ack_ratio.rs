//! When a receiver acknowledges under acknowledgment congestion control (RFC 5690 §4.3, §4.6): once for as many segments as the
//! peer says.

use core::num::NonZeroU8;

use crate::seq::Seq;

/// The ratio at the start (RFC 5690 §4.1): an acknowledgment for every second segment.
const INITIAL: NonZeroU8 = NonZeroU8::new(2).unwrap();

/// Of segments out of order, so many are acknowledged at once whatever the ratio, so that the peer finds the loss (RFC 5690 §4.6).
const AT_ONCE: u8 = 3;

/// Whether an acknowledgment leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaves {
    /// At once.
    Now,
    /// With a later segment, or when the time is up for which one may be delayed.
    Later,
}

/// What the receiver keeps of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRatio {
    /// Segments for an acknowledgment.
    ratio: NonZeroU8,
    /// Where the segment began that told the ratio. One that begins before it is an old copy, or was sent again beside it.
    told_at: Option<Seq>,
    /// Segments since the last acknowledgment.
    unacknowledged: u8,
    /// Segments out of order that were acknowledged at once, since all was in order.
    early: u8,
}

impl AckRatio {
    /// Both ends have agreed on it.
    pub const NEW: Self = Self { ratio: INITIAL, told_at: None, unacknowledged: 0, early: 0 };

    /// A segment that begins at `seq` tells a ratio.
    pub fn on_told(&mut self, seq: Seq, ratio: NonZeroU8) {
        if self.told_at.is_none_or(|told| seq.ge(told)) {
            (self.ratio, self.told_at) = (ratio, Some(seq));
        }
    }

    /// A segment came in order.
    pub fn on_in_order(&mut self) -> Leaves {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if self.unacknowledged >= self.ratio.get() { Leaves::Now } else { Leaves::Later }
    }

    /// A segment with data that is new lies ahead of a hole.
    pub fn on_ahead(&mut self) -> Leaves {
        if self.ratio <= INITIAL {
            Leaves::Now
        } else if self.early < AT_ONCE {
            self.early += 1;
            Leaves::Now
        } else {
            self.on_in_order()
        }
    }

    /// Nothing lies ahead of a hole any more.
    pub fn on_order(&mut self) {
        self.early = 0;
    }

    /// An acknowledgment leaves, by itself or with data.
    pub fn on_ack_sent(&mut self) {
        self.unacknowledged = 0;
    }

    /// By how many segments the window must have moved for an acknowledgment to say only that: fewer would come more often than the
    /// ratio allows.
    pub fn least_update(&self) -> u32 {
        u32::from(self.ratio.max(INITIAL).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ratio: u8) -> AckRatio {
        let mut acks = AckRatio::NEW;
        acks.on_told(Seq(100), NonZeroU8::new(ratio).unwrap());
        acks
    }

    /// Which of so many segments are acknowledged at once.
    fn now(count: usize, mut next: impl FnMut() -> Leaves) -> alloc::vec::Vec<usize> {
        (1..=count).filter(|_| next() == Leaves::Now).collect()
    }

    /// RFC 5690 §4.3: one for every R, and R is 2 until the peer says otherwise.
    #[test]
    fn one_for_as_many_segments_as_told() {
        for (mut acks, expected) in
            [(AckRatio::NEW, &[2, 4, 6, 8][..]), (told(1), &[1, 2, 3, 4, 5, 6, 7, 8]), (told(3), &[3, 6])]
        {
            let leaving = now(8, || {
                let leaves = acks.on_in_order();
                if leaves == Leaves::Now {
                    acks.on_ack_sent();
                }
                leaves
            });
            assert_eq!(leaving, expected);
        }
    }

    /// §4.6: up to a ratio of two each segment out of order, beyond it the first three and then one for every R; a new event begins
    /// when all is in order.
    #[test]
    fn the_first_three_duplicates_leave_at_once() {
        let event = |mut acks: AckRatio| {
            let first = now(11, || {
                let leaves = acks.on_ahead();
                if leaves == Leaves::Now {
                    acks.on_ack_sent();
                }
                leaves
            });
            acks.on_order();
            (first, acks.on_ahead())
        };
        assert_eq!(event(told(2)).0.len(), 11);
        assert_eq!(event(told(4)), ([1, 2, 3, 7, 11].into(), Leaves::Now));
    }

    /// A copy of a segment that told an earlier ratio comes late.
    #[test]
    fn an_old_ratio_does_not_come_back() {
        let mut acks = told(8);
        acks.on_told(Seq(99), NonZeroU8::MIN);
        assert_eq!(acks.ratio.get(), 8);
        acks.on_told(Seq(101), NonZeroU8::MIN);
        assert_eq!(acks.ratio.get(), 1);
    }
}
