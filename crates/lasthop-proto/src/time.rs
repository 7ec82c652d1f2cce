//! Time as integer nanoseconds. Only drivers own clocks; the time is passed to state machines.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in time: nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Instant(u64);

/// A span of time in nanoseconds. (`core::time::Duration` is 16 bytes wide and slow to compare.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Duration(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// A time later than any that a driver reaches.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the point `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start of the run.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// Zero time.
    pub const ZERO: Self = Self(0);
    /// A span longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns a span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// Returns a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Returns a span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Returns a span of `secs` seconds, rounded to the nearest nanosecond; negative and non-finite values become zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9 + 0.5) as u64)
    }

    /// Returns the span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the number of complete ticks of this length in the span: `self / tick`. A tick of zero length counts as
    /// a nanosecond.
    #[inline]
    pub const fn in_ticks(self, tick: Self) -> u64 {
        // The kernels' usual ticks, at 250 and 1000 per second: division by a constant compiles to a multiplication.
        match tick.0 {
            4_000_000 => self.0 / 4_000_000,
            1_000_000 => self.0 / 1_000_000,
            0 => self.0,
            tick => self.0 / tick,
        }
    }

    /// Returns the number of ticks in the span, an incomplete one counted as a whole one.
    #[inline]
    pub const fn in_ticks_begun(self, tick: Self) -> u64 {
        match self.0 {
            0 => 0,
            nanos => Self(nanos - 1).in_ticks(tick) + 1,
        }
    }

    /// Returns `self - other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `self * factor`, at most [`Duration::MAX`].
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        self.saturating_mul(factor)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, by: u64) -> Self {
        Self(self.0 / by)
    }
}

impl fmt::Display for Instant {
    /// Formats seconds with nanoseconds: `12.345678901`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Duration {
    /// Formats seconds with nanoseconds: `0.010000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Instant(self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels with `HZ` of 250, 1000, 100 and 300: just before, at and after the third tick.
    #[test]
    fn spans_count_in_ticks_of_any_length() {
        for nanos in [4_000_000, 1_000_000, 10_000_000, 3_333_333] {
            let tick = Duration::from_nanos(nanos);
            let count = |span: u64| {
                let span = Duration::from_nanos(span);
                (span.in_ticks(tick), span.in_ticks_begun(tick))
            };
            assert_eq!(count(0), (0, 0), "{nanos}");
            assert_eq!(count(1), (0, 1), "{nanos}");
            assert_eq!(count(3 * nanos - 1), (2, 3), "{nanos}");
            assert_eq!(count(3 * nanos), (3, 3), "{nanos}");
            assert_eq!(count(3 * nanos + 1), (3, 4), "{nanos}");
        }
        // 2^64 - 1 = 4,611,686,018,427 * 4,000,000 + 1,551,615.
        let ticks = |tick| (Duration::MAX.in_ticks(tick), Duration::MAX.in_ticks_begun(tick));
        assert_eq!(ticks(Duration::from_millis(4)), (4_611_686_018_427, 4_611_686_018_428));
    }

    #[test]
    fn a_tick_of_no_length_counts_as_a_nanosecond() {
        let span = Duration::from_nanos(5);
        assert_eq!((span.in_ticks(Duration::ZERO), span.in_ticks_begun(Duration::ZERO)), (5, 5));
    }
}
