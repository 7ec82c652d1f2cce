//! A queue in a ring of slots that are written in place.
//!
//! `VecDeque` reads a pushed value from memory as wide words. If the value was just written field by field, this stalls
//! the processor, for each frame of each link.

/// First-in-first-out queue.
#[derive(Debug)]
pub struct Ring<T> {
    /// Slots; their number is 0 or a power of two.
    slots: Vec<T>,
    first: usize,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), first: 0, len: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        (self.first + index) & (self.slots.len() - 1)
    }

    /// Returns the value at `index`, counted from the front.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<T> {
        (index < self.len).then(|| self.slots[self.slot(index)])
    }

    /// Returns the value at the front.
    #[inline(always)]
    pub fn front(&self) -> Option<T> {
        (self.len > 0).then(|| self.slots[self.first])
    }

    /// Iterates over all values, from the front.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = T> {
        (0..self.len).map(|index| self.slots[self.slot(index)])
    }

    /// Appends a value at the back.
    #[inline(always)]
    pub fn push_back(&mut self, value: T) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.len);
        self.slots[slot] = value;
        self.len += 1;
    }

    /// Removes the value at the front.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<T> {
        let front = self.front()?;
        self.first = self.slot(1);
        self.len -= 1;
        Some(front)
    }

    /// Removes all values after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots: Vec<T> = self.iter().collect();
        slots.resize((2 * self.len).max(4), T::default());
        (self.slots, self.first) = (slots, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::Ring;

    proptest! {
        /// Compares with the standard library's queue.
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec((0u8..6, 0usize..12), 0..300)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for (number, (step, count)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        ring.truncate(count);
                        model.truncate(count);
                    }
                    1 | 2 => (0..count).for_each(|_| assert_eq!(ring.pop_front(), model.pop_front())),
                    _ => (0..count).for_each(|index| {
                        ring.push_back(100 * number + index);
                        model.push_back(100 * number + index);
                    }),
                }
                assert_eq!((ring.is_empty(), ring.front()), (model.is_empty(), model.front().copied()));
                assert_eq!(ring.get(count), model.get(count).copied());
                assert!(ring.iter().eq(model.iter().copied()) && ring.iter().rev().eq(model.iter().rev().copied()));
            }
        }
    }
}
