//! Sequence of losses, one bit per packet.

/// Bits in a word.
const WORD: usize = u64::BITS as usize;

/// Sequence of bits: 1 for a lost packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Bits {
    /// Bits from the least significant on. Those after the last one are zero.
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(WORD)], len }
    }

    /// Sets the bit at `at` to 1; without effect from the end on.
    pub(crate) fn set(&mut self, at: usize) {
        if at < self.len
            && let Some(word) = self.words.get_mut(at / WORD)
        {
            *word |= 1 << (at % WORD);
        }
    }

    pub(crate) fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(WORD) {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << (self.len % WORD);
        }
        self.len += 1;
    }

    /// Returns the bit at `at`; false from the end on.
    pub(crate) fn get(&self, at: usize) -> bool {
        self.words.get(at / WORD).is_some_and(|word| word >> (at % WORD) & 1 == 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = bool> + Clone + '_ {
        (0..self.len).map(|at| self.get(at))
    }

    /// Returns the number of ones.
    pub(crate) fn ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the positions of ones.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(number, &word)| {
            let rests = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            rests.take_while(|rest| *rest != 0).map(move |rest| number * WORD + rest.trailing_zeros() as usize)
        })
    }

    /// Returns the 64 bits from `at` on; zeros after the end.
    fn word_at(&self, at: usize) -> u64 {
        let word = |number: usize| self.words.get(number).copied().unwrap_or(0);
        let (number, shift) = (at / WORD, at % WORD);
        let low = word(number) >> shift;
        if shift == 0 { low } else { low | word(number + 1) << (WORD - shift) }
    }

    /// Returns the number of positions at which both this bit and the one `lag` later are 1.
    pub(crate) fn pairs(&self, lag: usize) -> u64 {
        let both = |(number, &word): (usize, &u64)| u64::from((word & self.word_at(number * WORD + lag)).count_ones());
        self.words.iter().enumerate().map(both).sum()
    }

    /// Returns the number of ones in each complete block of `block` bits, 64 at most.
    pub(crate) fn in_blocks(&self, block: usize) -> Vec<u16> {
        let mask = u64::MAX >> (WORD - block.clamp(1, WORD));
        let count = |number: usize| (self.word_at(number * block) & mask).count_ones() as u16;
        (0..self.len / block).map(count).collect()
    }

    /// Returns the number of runs of ones with a length of at least 1, 2, and so on to `most`, and the length of the
    /// longest run.
    pub(crate) fn run_lengths(&self, most: usize) -> (Vec<u64>, u32) {
        let mut at_least = vec![0; most];
        let (mut longest, mut before) = (0, 0);
        for (number, &word) in self.words.iter().enumerate() {
            // First bits of runs, of those that are long enough.
            let mut first = word & !(word << 1 | before);
            before = word >> (WORD - 1);
            let mut length = 0;
            while first != 0 && length < most {
                at_least[length] += u64::from(first.count_ones());
                length += 1;
                first &= self.word_at(number * WORD + length);
                longest = longest.max(length as u32);
            }
            while first != 0 {
                let at = number * WORD + first.trailing_zeros() as usize;
                longest = longest.max((Runs { bits: self, at }).next().map_or(0, |(_, length)| length));
                first &= first - 1;
            }
        }
        (at_least, longest)
    }

    /// Returns the runs of equal bits, in order: the bit and its number.
    pub(crate) fn runs(&self) -> Runs<'_> {
        Runs { bits: self, at: 0 }
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let mut all = Self::default();
        let mut word = 0;
        for bit in bits {
            word |= u64::from(bit) << (all.len % WORD);
            all.len += 1;
            if all.len.is_multiple_of(WORD) {
                all.words.push(std::mem::take(&mut word));
            }
        }
        if !all.len.is_multiple_of(WORD) {
            all.words.push(word);
        }
        all
    }
}

/// Iterator over runs of equal bits.
#[derive(Clone)]
pub(crate) struct Runs<'b> {
    bits: &'b Bits,
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = (bool, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let begin = self.at;
        let left = self.bits.len.checked_sub(begin).filter(|left| *left > 0)?;
        let bit = self.bits.get(begin);
        let mut count = 0;
        while count < left {
            let word = self.bits.word_at(begin + count);
            let same = if bit { word.trailing_ones() } else { word.trailing_zeros() } as usize;
            count += same;
            if same < WORD {
                break;
            }
        }
        // Zeros after the end do not belong to a run.
        let count = count.min(left);
        self.at += count;
        Some((bit, u32::try_from(count).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::mixed;

    fn losses(count: u64) -> Vec<bool> {
        (0..count).map(|number| mixed(number / 3).is_multiple_of(4) || mixed(number / 200).is_multiple_of(5)).collect()
    }

    /// The bits and their counts are those of the list they were made from, at lengths around a word.
    #[test]
    fn bits_are_those_of_the_list() {
        for count in [0, 1, 63, 64, 65, 127, 128, 1000, 5003] {
            let list = losses(count);
            let bits: Bits = list.iter().copied().collect();
            let mut pushed = Bits::default();
            list.iter().for_each(|bit| pushed.push(*bit));
            assert_eq!((&bits, bits.len()), (&pushed, list.len()));
            assert!(bits.iter().eq(list.iter().copied()));
            assert_eq!(bits.ones(), list.iter().filter(|bit| **bit).count() as u64);
            assert!(bits.positions().eq((0..list.len()).filter(|at| list[*at])));
            for lag in [1, 2, 63, 64, 100] {
                let expected = list.iter().zip(list.iter().skip(lag)).filter(|(a, b)| **a && **b).count();
                assert_eq!(bits.pairs(lag), expected as u64, "{count}, {lag}");
            }
            let blocks: Vec<u16> =
                list.chunks_exact(10).map(|block| block.iter().filter(|bit| **bit).count() as u16).collect();
            assert_eq!(bits.in_blocks(10), blocks);
            let again: Vec<bool> =
                bits.runs().flat_map(|(bit, count)| std::iter::repeat_n(bit, count as usize)).collect();
            assert_eq!(again, list);
            assert!(bits.runs().zip(bits.runs().skip(1)).all(|(a, b)| a.0 != b.0));
            let ones: Vec<u32> = bits.runs().filter(|(bit, _)| *bit).map(|(_, length)| length).collect();
            let at_least = |least| ones.iter().filter(|length| **length >= least).count() as u64;
            let longest = ones.iter().copied().max().unwrap_or(0);
            assert_eq!(bits.run_lengths(30), ((1..=30).map(at_least).collect(), longest));
            assert_eq!(bits.run_lengths(2), ((1..=2).map(at_least).collect(), longest));
            let mut set = Bits::zeros(list.len());
            bits.positions().chain([list.len()]).for_each(|at| set.set(at));
            assert_eq!(set, bits);
        }
    }
}
