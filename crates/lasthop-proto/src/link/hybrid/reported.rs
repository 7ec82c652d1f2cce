//! Record of the numbers that reports have shown, so that each is processed once: reports repeat the last 128 numbers.

/// The 128 numbers before one.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Reported {
    before: u64,
    /// Bit i: `before - 1 - i` was reported.
    bits: u128,
}

impl Reported {
    /// Records the numbers that a report shows; bit i of `bits` stands for `before - 1 - i`. Returns those that earlier
    /// reports did not show, and any before the 128 latest ones.
    pub fn add(&mut self, before: u64, bits: u128) -> News {
        // There are only `before` numbers.
        let bits = if before < 128 { bits & ((1 << before) - 1) } else { bits };
        let known = match before.checked_sub(self.before) {
            Some(ahead) => {
                let known = shifted(self.bits, ahead, u128::checked_shl);
                *self = Self { before, bits: known | bits };
                known
            }
            None => {
                let behind = self.before - before;
                let known = shifted(self.bits, behind, u128::checked_shr);
                self.bits |= shifted(bits, behind, u128::checked_shl);
                known
            }
        };
        News { before, bits: bits & !known }
    }
}

/// Returns `bits` moved by `by` places.
fn shifted(bits: u128, by: u64, shift: fn(u128, u32) -> Option<u128>) -> u128 {
    u32::try_from(by).ok().and_then(|by| shift(bits, by)).unwrap_or(0)
}

/// Newly reported numbers, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    before: u64,
    bits: u128,
}

impl Iterator for News {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.bits.checked_ilog2()?;
        self.bits &= !(1 << index);
        Some(self.before - 1 - u64::from(index))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn add(reported: &mut Reported, before: u64, bits: u128) -> Vec<u64> {
        reported.add(before, bits).collect()
    }

    #[test]
    fn each_number_is_new_once() {
        let mut reported = Reported::default();
        assert_eq!(add(&mut reported, 10, 0b1011), [6, 8, 9]);
        assert_eq!(add(&mut reported, 10, 0b1111), [7]);
        assert_eq!(add(&mut reported, 12, 0b111101), [11]);
        assert_eq!(add(&mut reported, 138, u128::MAX), (10..11).chain(12..138).collect::<Vec<_>>());
        assert_eq!(add(&mut reported, 1000, 1), [999]);
        assert_eq!(add(&mut reported, 1000, 1 << 127), [872]);
    }

    /// Of a reordered report, the numbers are new that the later one lacked, and those before the 128 latest ones.
    #[test]
    fn reordered_reports_add_what_later_ones_lacked() {
        let mut reported = Reported::default();
        assert_eq!(add(&mut reported, 200, 0b100), [197]);
        assert_eq!(add(&mut reported, 199, 0b11), [198]);
        assert_eq!(add(&mut reported, 200, 0b110), Vec::<u64>::new());
        assert_eq!(add(&mut reported, 60, 0b1), [59]);
    }

    #[test]
    fn there_are_no_numbers_below_zero() {
        assert_eq!(add(&mut Reported::default(), 3, u128::MAX), [0, 1, 2]);
        assert_eq!(add(&mut Reported::default(), 0, u128::MAX), Vec::<u64>::new());
    }
}
