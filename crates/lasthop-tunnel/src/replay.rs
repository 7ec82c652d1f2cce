//! Replay protection: a sliding window of received packet numbers (RFC 6479).

/// Number of packets behind the newest that are still accepted, once each.
pub const WINDOW: u64 = 8_192;

const WORD: u64 = 64;
/// Number of words: one more than the window needs. The newest word is cleared as a whole, while the window keeps its
/// full length behind it.
const WORDS: usize = (WINDOW / WORD) as usize + 1;

/// Window of accepted numbers; uses 1,040 bytes.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    bits: [u64; WORDS],
    /// One more than the largest accepted number.
    next: u64,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl ReplayWindow {
    /// Creates an empty window; the first expected number is `next`.
    pub const fn starting_at(next: u64) -> Self {
        Self { bits: [0; WORDS], next }
    }

    /// Returns one more than the largest accepted number.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number with the low half `low` that is closest to the next expected one.
    pub const fn expand(&self, low: u32) -> u64 {
        const SPAN: u64 = 1 << 32;
        let guess = (self.next & !(SPAN - 1)) | low as u64;
        if guess.saturating_add(SPAN / 2) <= self.next && guess <= u64::MAX - SPAN {
            guess + SPAN
        } else if guess > self.next.saturating_add(SPAN / 2) && guess >= SPAN {
            guess - SPAN
        } else {
            guess
        }
    }

    /// Returns whether `number` was not accepted before and is not too old.
    pub fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        self.next - number <= WINDOW && self.bits[Self::word(number)] & Self::bit(number) == 0
    }

    /// Accepts `number`, unless it was accepted before or is too old. Only for numbers of authenticated packets.
    pub fn accept(&mut self, number: u64) -> bool {
        if !self.is_new(number) || number == u64::MAX {
            return false;
        }
        if number >= self.next {
            // Clear the words that the window enters, which contain much older numbers.
            let (last, newest) = (self.next.saturating_sub(1) / WORD, number / WORD);
            let entered = (newest - last).min(WORDS as u64);
            for word in newest + 1 - entered..=newest {
                self.bits[(word % WORDS as u64) as usize] = 0;
            }
            self.next = number + 1;
        }
        self.bits[Self::word(number)] |= Self::bit(number);
        true
    }

    const fn word(number: u64) -> usize {
        (number / WORD % WORDS as u64) as usize
    }

    const fn bit(number: u64) -> u64 {
        1 << (number % WORD)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_window_is_8192_packets_long() {
        let mut window = ReplayWindow::default();
        assert!(window.accept(10_000));
        assert!(!window.accept(10_000));
        assert!(window.accept(10_000 - WINDOW + 1));
        assert!(!window.accept(10_000 - WINDOW));
        assert!(!window.accept(10_000 - WINDOW + 1));
        assert!(window.accept(9_999));
    }

    #[test]
    fn a_leap_forgets_all_that_was_seen() {
        let mut window = ReplayWindow::default();
        for number in 0..100 {
            assert!(window.accept(number));
        }
        assert!(window.accept(1 << 40));
        assert!(!window.accept(99));
        assert!((1..WINDOW).all(|behind| window.accept((1 << 40) - behind)));
    }

    #[test]
    fn the_last_number_of_all_is_never_accepted() {
        let mut window = ReplayWindow::starting_at(u64::MAX - 2);
        assert!(window.accept(u64::MAX - 1));
        assert!(!window.accept(u64::MAX));
    }

    /// Model: a set of all accepted numbers.
    fn plain(seen: &mut BTreeSet<u64>, number: u64) -> bool {
        let old = seen.last().is_some_and(|&newest| newest.saturating_sub(number) >= WINDOW);
        !old && seen.insert(number)
    }

    proptest! {
        #[test]
        fn it_decides_as_a_set_of_all_numbers_does(
            start in prop_oneof![Just(0), 0..1_u64 << 50],
            steps in proptest::collection::vec(
                prop_oneof![-9_000..9_000_i64, -70..70_i64, Just(0), -40_000..40_000_i64], 1..400),
        ) {
            let mut window = ReplayWindow::starting_at(start);
            let mut seen = BTreeSet::new();
            let mut at = start;
            for step in steps {
                at = at.saturating_add_signed(step).max(start);
                prop_assert_eq!(window.is_new(at), plain(&mut seen.clone(), at));
                prop_assert_eq!(window.accept(at), plain(&mut seen, at));
            }
        }

        #[test]
        fn half_a_number_is_expanded_to_the_nearest(next in 0..1_u64 << 60, behind in -2_000_000_000..2_000_000_000_i64) {
            let number = next.saturating_add_signed(behind);
            let window = ReplayWindow::starting_at(next);
            prop_assert_eq!(window.expand(number as u32), number);
        }
    }
}
