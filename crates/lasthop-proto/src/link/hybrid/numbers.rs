//! The two number spaces: one of transmissions, one of the packets that they carry.

use core::ops::Range;

/// Number of a transmission: every frame has its own, retransmissions included. Starts at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PacketNumber(pub u64);

/// Number of a carried packet, equal in all of its transmissions. Starts at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Symbol(pub u64);

/// Number of a path of a hop, the same at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PathId(pub u8);

impl PathId {
    /// The first path, which every hop has.
    pub const FIRST: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Returns the number nearest to `near` whose low 32 bits are `low` (as RFC 9000 §A.3 restores packet numbers).
pub const fn expand(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near as u32) as i32;
    match near.checked_add_signed(ahead as i64) {
        Some(number) => number,
        None => low as u64,
    }
}

/// A range of up to 255 symbols.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Window {
    /// First symbol.
    pub first: Symbol,
    /// Number of symbols.
    pub count: u8,
}

impl Window {
    /// Returns the numbers in the window; empty if they would exceed the maximum.
    pub const fn numbers(self) -> Range<u64> {
        match self.first.0.checked_add(self.count as u64) {
            Some(end) => self.first.0..end,
            None => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn numbers_are_restored_next_to_the_last() {
        for (low, near, number) in [
            (5, 3, 5),
            (u32::MAX, 0, u64::from(u32::MAX)),
            (0, u64::from(u32::MAX), 1 << 32),
            (u32::MAX, 1 << 32, u64::from(u32::MAX)),
            (7, (9 << 32) + 8, (9 << 32) + 7),
            (0, u64::MAX, 0),
        ] {
            assert_eq!(expand(low, near), number, "{low} near {near}");
        }
    }
}
