//! Acknowledgments by a receiver under acknowledgment congestion control (RFC 5690 §4.3, §4.6): one for the number of
//! segments that the peer requests.

use core::num::NonZeroU8;

use crate::seq::Seq;

/// Initial ratio (RFC 5690 §4.1): an acknowledgment for every second segment.
const INITIAL: NonZeroU8 = NonZeroU8::new(2).unwrap();

/// Number of out-of-order segments acknowledged at once regardless of the ratio, so that the peer detects the loss (RFC
/// 5690 §4.6).
const AT_ONCE: u8 = 3;

/// Time at which an acknowledgment leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaves {
    /// At once.
    Now,
    /// With a later segment, or at the end of the delay.
    Later,
}

/// State of the receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRatio {
    /// Number of segments per acknowledgment.
    ratio: NonZeroU8,
    /// Start of the segment that carried the ratio. A segment that begins before it is an old copy or a retransmission.
    told_at: Option<Seq>,
    /// Number of segments since the last acknowledgment.
    unacknowledged: u8,
    /// Number of out-of-order segments acknowledged at once since data was last in order.
    early: u8,
}

impl AckRatio {
    /// State after both ends have negotiated acknowledgment congestion control.
    pub const NEW: Self = Self { ratio: INITIAL, told_at: None, unacknowledged: 0, early: 0 };

    /// Records the ratio in a segment that begins at `seq`.
    pub fn on_told(&mut self, seq: Seq, ratio: NonZeroU8) {
        if self.told_at.is_none_or(|told| seq.ge(told)) {
            (self.ratio, self.told_at) = (ratio, Some(seq));
        }
    }

    /// Records an in-order segment.
    pub fn on_in_order(&mut self) -> Leaves {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if self.unacknowledged >= self.ratio.get() { Leaves::Now } else { Leaves::Later }
    }

    /// Records a segment with new data ahead of a hole.
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

    /// Records that no data lies ahead of a hole any more.
    pub fn on_order(&mut self) {
        self.early = 0;
    }

    /// Records that an acknowledgment leaves, pure or with data.
    pub fn on_ack_sent(&mut self) {
        self.unacknowledged = 0;
    }

    /// Returns the number of segments by which the window must have moved for a pure window update. Fewer would cause
    /// more acknowledgments than the ratio allows.
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

    /// Returns the numbers of those of `count` segments that are acknowledged at once.
    fn now(count: usize, mut next: impl FnMut() -> Leaves) -> alloc::vec::Vec<usize> {
        (1..=count).filter(|_| next() == Leaves::Now).collect()
    }

    /// RFC 5690 §4.3: one acknowledgment for every R segments, and R is 2 until the peer changes it.
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

    /// §4.6: up to a ratio of two, each out-of-order segment is acknowledged; beyond it, the first three are, and then
    /// one of every R. A new event begins when all is in order.
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

    /// A copy of a segment with an earlier ratio arrives late.
    #[test]
    fn an_old_ratio_does_not_come_back() {
        let mut acks = told(8);
        acks.on_told(Seq(99), NonZeroU8::MIN);
        assert_eq!(acks.ratio.get(), 8);
        acks.on_told(Seq(101), NonZeroU8::MIN);
        assert_eq!(acks.ratio.get(), 1);
    }
}
