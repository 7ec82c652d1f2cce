//! The sender's part of accurate ECN: the peer's counts of marked packets and of bytes (RFC 9768 §3.2, as in Linux
//! `tcp_accecn_process`).

use alloc::boxed::Box;

use super::Stream;
use crate::packet::{Ecn, EcnCounters};
use crate::tcp::ack::Marks;

/// Number of segments above which the count in the flags may have wrapped.
const MOST_CERTAIN: u32 = 7;
/// Mean number of segments per acknowledgment above which acknowledgments are thinned on the path, so that wrapping is
/// no sign of marks.
const THINNED: u32 = 4;
/// Bits of the mean number behind the point, and of the weight of a sample.
const PRECISION: u32 = 6;
/// Bytes sent from which the byte counters may have wrapped before the first option.
const TOO_LATE: u64 = (1 << 23) - 1;

/// Options that arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Seen {
    /// None.
    #[default]
    Nothing,
    /// Options without counters.
    Empty,
    /// Options with counters.
    Counters,
    /// The first option had an impossible value, or came too late: further ones are ignored.
    Invalid,
}

impl Seen {
    /// Evaluates the first option: the path may have set its counters to zero (RFC 9768 §3.2.3.2.4).
    fn of(option: EcnCounters) -> Self {
        let is_zero = |(ecn, value): (Ecn, u32)| ecn != Ecn::Ce && value == 0;
        match option.count() {
            0 => Self::Empty,
            _ if option.fields().any(is_zero) => Self::Invalid,
            _ => Self::Counters,
        }
    }
}

/// Data that an acknowledgment delivers.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Segments newly delivered.
    pub segments: u32,
    /// Bytes newly delivered.
    pub bytes: u32,
    /// True if both numbers are exact.
    pub is_exact: bool,
}

/// State of the peer's counts.
#[derive(Clone, Copy, Default, Debug)]
pub struct Feedback {
    /// Options that arrived.
    pub seen: Seen,
    /// Packets that the peer reported as marked (`delivered_ce`).
    pub marked: u32,
    /// Bytes that the peer reported with ECT(1), ECT(0) and CE.
    pub bytes: [u32; 3],
    /// ECN field with which bytes are assumed to arrive while no option reports it: that of the last increase.
    usual: Option<usize>,
    /// Mean number of segments per acknowledgment, in 64ths (`pkts_acked_ewma`).
    mean: u32,
}

/// Returns the index of the counter of an ECN field.
pub const fn counter_of(ecn: Ecn) -> Option<usize> {
    (ecn.bits() as usize).checked_sub(1)
}

/// Returns the initial value of a counter (RFC 9768 §3.2.1).
pub const fn initial_bytes(ecn: Ecn) -> u32 {
    matches!(ecn, Ecn::Ect0 | Ecn::Ect1) as u32
}

const CE: usize = 2;

impl Feedback {
    /// Records an option before the peer can have counted any data.
    pub fn see_option(&mut self, option: Option<EcnCounters>) {
        if let Some(option) = option
            && self.seen < Seen::Counters
        {
            self.seen = Seen::of(option);
        }
    }

    /// Evaluates the counts of a segment. `sent` bytes have been sent in segments of `mss` bytes. Returns the number of
    /// newly marked packets.
    pub fn weigh(&mut self, marks: &Marks, delivery: &Delivery, mss: u32, sent: u64) -> u32 {
        let before = self.bytes[CE];
        let is_valid = self.weigh_bytes(marks.option, delivery.bytes, sent);
        if delivery.segments > 0 {
            let sample = delivery.segments << PRECISION;
            let mean = if self.mean == 0 { sample } else { (63 * self.mean + sample) >> PRECISION };
            self.mean = mean.min(0xffff);
        }
        let least = u32::from(marks.count).wrapping_sub(self.marked) & 7;
        let new = if delivery.segments <= MOST_CERTAIN {
            least
        } else {
            let marked = is_valid.then(|| self.bytes[CE].wrapping_sub(before));
            self.unwrap(least, marked, delivery, mss)
        };
        self.marked = self.marked.wrapping_add(new);
        new
    }

    /// Returns the number of newly marked packets of many, of which the last three bits are known, and perhaps the
    /// number of marked bytes.
    fn unwrap(&self, least: u32, marked: Option<u32>, delivery: &Delivery, mss: u32) -> u32 {
        let Delivery { segments, bytes, is_exact } = *delivery;
        let most = segments - ((segments - least) & 7);
        let Some(marked) = marked else {
            return if self.mean > THINNED << PRECISION { least } else { most };
        };
        let (marked, mss) = (u64::from(marked), u64::from(mss));
        if marked == 0 {
            least
        } else if segments >= 16 && is_exact {
            let estimate = (marked * u64::from(segments)).div_ceil(u64::from(bytes).max(1)) as u32;
            if u64::from(bytes) <= marked { most } else { most.min(least + (estimate & !7)) }
        } else if marked <= u64::from(least) * mss && marked < u64::from(most) * mss / 2 {
            least
        } else {
            most
        }
    }

    /// Updates the numbers of bytes (`tcp_accecn_process_option`). Returns whether they tell how many of the delivered
    /// bytes were marked.
    fn weigh_bytes(&mut self, option: Option<EcnCounters>, delivered: u32, sent: u64) -> bool {
        if self.seen == Seen::Invalid {
            return false;
        }
        let Some(option) = option else {
            if self.seen == Seen::Nothing {
                if sent >= TOO_LATE {
                    self.seen = Seen::Invalid;
                }
                return false;
            }
            if let Some(usual) = self.usual {
                self.bytes[usual] = self.bytes[usual].wrapping_add(delivered);
            }
            return self.usual.is_some();
        };
        self.see_option(Some(option));
        if self.seen == Seen::Invalid {
            return false;
        }
        let usual = self.usual;
        let (mut is_ambiguous, mut has_changed) = (false, false);
        for (ecn, value) in option.fields() {
            let Some(counter) = counter_of(ecn) else { continue };
            let count = value.wrapping_sub(initial_bytes(ecn));
            let change = count.wrapping_sub(self.bytes[counter]) & 0xff_ffff;
            // A number of 24 bits with its sign.
            let change = (change << 8) as i32 >> 8;
            self.bytes[counter] = self.bytes[counter].wrapping_add_signed(change);
            is_ambiguous |= change < 0;
            if change != 0 && usual != Some(counter) {
                if core::mem::replace(&mut has_changed, true) {
                    is_ambiguous = true;
                } else {
                    self.usual = Some(counter);
                }
            }
        }
        if is_ambiguous {
            self.usual = None;
        }
        usual.is_some() && !is_ambiguous
    }
}

impl Stream {
    /// Begins to evaluate the peer's counts.
    pub fn begin_feedback(&mut self) {
        self.feedback.get_or_insert_with(|| Box::new(Feedback::default()));
    }

    /// Returns the peer's counts, under accurate ECN.
    pub fn feedback(&self) -> Option<&Feedback> {
        self.feedback.as_deref()
    }

    /// Returns the peer's counts, under accurate ECN, to change them.
    pub fn feedback_mut(&mut self) -> Option<&mut Feedback> {
        self.feedback.as_deref_mut()
    }

    /// Evaluates the counts of a segment. Returns the number of newly marked packets.
    pub fn weigh_marks(&mut self, marks: &Marks, delivery: &Delivery) -> u32 {
        let (mss, sent) = (self.size.mss, self.pos(self.snd_max));
        self.feedback.as_mut().map_or(0, |feedback| feedback.weigh(marks, delivery, mss, sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(values: &[u32]) -> Option<EcnCounters> {
        EcnCounters::new(172, values)
    }

    fn weigh(feedback: &mut Feedback, count: u8, option: Option<EcnCounters>, segments: u32) -> u32 {
        let marks = Marks { count, is_fresh: false, option };
        feedback.weigh(&marks, &Delivery { segments, bytes: segments * 1000, is_exact: true }, 1000, 1)
    }

    /// Order of kind 172: ECT(0), CE, ECT(1). Of twenty segments, eleven were marked: the last three bits are 3 more
    /// than before, and the bytes tell that the count has wrapped once.
    #[test]
    fn bytes_tell_how_often_the_count_has_wrapped() {
        let mut feedback = Feedback::default();
        assert_eq!(weigh(&mut feedback, 0, option(&[1001, 0, 1]), 1), 0);
        assert_eq!(weigh(&mut feedback, 1, option(&[1001, 1000, 1]), 1), 1);
        let both = option(&[1001 + 9000, 1000 + 11_000, 1]);
        assert_eq!(weigh(&mut feedback, (1 + 11) % 8, both, 20), 11);
        assert_eq!((feedback.marked, feedback.bytes), (12, [0, 10_000, 12_000]));
        // Without the bytes, the count has wrapped as often as it can.
        let mut bare = Feedback::default();
        assert_eq!((weigh(&mut bare, 0, None, 1), weigh(&mut bare, 3, None, 20)), (0, 19));
    }

    /// RFC 9768 appendix A.2: without marked bytes, the count has not wrapped.
    #[test]
    fn without_marked_bytes_the_count_has_not_wrapped() {
        let mut feedback = Feedback::default();
        weigh(&mut feedback, 0, option(&[1001, 0, 1]), 1);
        assert_eq!(weigh(&mut feedback, 0, option(&[9001, 0, 1]), 8), 0);
        assert_eq!(weigh(&mut feedback, 0, None, 8), 0, "bytes arrive as the last ones did");
        assert_eq!(feedback.bytes, [0, 17_000, 0]);
    }

    /// The first option with a zero where the initial value is 1 shows that the path clears it.
    #[test]
    fn cleared_counters_are_ignored() {
        let mut feedback = Feedback::default();
        feedback.see_option(option(&[]));
        assert_eq!(feedback.seen, Seen::Empty);
        weigh(&mut feedback, 0, option(&[0, 0, 0]), 1);
        assert_eq!(feedback.seen, Seen::Invalid);
        weigh(&mut feedback, 0, option(&[5001, 0, 1]), 1);
        assert_eq!(feedback.bytes, [0; 3]);
    }

    /// Values are modulo 2^24, and an older option decreases them.
    #[test]
    fn counters_wrap() {
        let mut feedback = Feedback::default();
        weigh(&mut feedback, 0, option(&[0x7f_ffff]), 1);
        weigh(&mut feedback, 0, option(&[0xff_fff0]), 1);
        weigh(&mut feedback, 0, option(&[0x00_0011]), 1);
        assert_eq!(feedback.bytes[1], 0x100_0010);
        weigh(&mut feedback, 0, option(&[0x00_0001]), 1);
        assert_eq!((feedback.bytes[1], feedback.usual), (0x100_0000, None));
    }
}
