//! TCP sequence numbers: 32 bits, compared modulo 2^32 (RFC 9293 §3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Maximum distance, in bytes, of numbers within the same window (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;

/// A TCP sequence number. Not `Ord`: order is only defined between numbers less than 2^31 apart, by [`Seq::lt`] and the
/// other comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns `self < other` modulo 2^32.
    #[inline]
    pub const fn lt(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns `self <= other` modulo 2^32.
    #[inline]
    pub const fn le(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// Returns `self > other` modulo 2^32.
    #[inline]
    pub const fn gt(self, other: Self) -> bool {
        other.lt(self)
    }

    /// Returns `self >= other` modulo 2^32.
    #[inline]
    pub const fn ge(self, other: Self) -> bool {
        other.le(self)
    }

    /// Returns the later of the two.
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if self.lt(other) { other } else { self }
    }

    /// Returns the earlier of the two.
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if self.lt(other) { self } else { other }
    }

    /// Returns the number of bytes from `earlier` to `self`; zero if `earlier` is in fact later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        if self.lt(earlier) { 0 } else { self.0.wrapping_sub(earlier.0) }
    }

    /// Returns whether the number may belong to the same window as `seen`: at most 2^30 bytes after it, or less than
    /// that before it.
    #[inline]
    pub const fn is_near(self, seen: Self) -> bool {
        self.since(seen) <= MAX_WINDOW && seen.since(self) < MAX_WINDOW
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Seq;

    #[test]
    fn order_survives_the_wrap() {
        let before = Seq(u32::MAX - 10);
        let after = before + 20;
        assert_eq!(after, Seq(9));
        assert!(before.lt(after) && after.gt(before));
        assert_eq!(after.since(before), 20);
        assert_eq!(before.since(after), 0);
        assert_eq!(before.max(after), after);
    }
}
