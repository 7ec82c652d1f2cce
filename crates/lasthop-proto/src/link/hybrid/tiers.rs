//! Tiers of paths: which paths may carry packets, and which may carry copies.
//!
//! A primary path carries packets at all times, a secondary one while the primary paths are full or down, and a backup
//! while no other path works.

use crate::time::{Duration, Instant};

/// Rank of a path. Paths of a later tier carry packets only if those of earlier ones do not suffice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Tier {
    /// Carries packets at all times.
    #[default]
    Primary,
    /// Carries packets while the primary paths are full, or none of them works.
    Secondary,
    /// Carries packets while no path of an earlier tier works.
    Backup,
    /// Carries nothing.
    Off,
}

/// Packets of which a path may carry copies for redundancy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Copies {
    /// No packets.
    None,
    /// Packets of calls.
    Light,
    /// All packets.
    #[default]
    All,
}

impl Tier {
    /// Returns the copies that a path of the tier carries by default.
    pub const fn copies(self) -> Copies {
        match self {
            Self::Primary => Copies::All,
            Self::Secondary => Copies::Light,
            Self::Backup | Self::Off => Copies::None,
        }
    }
}

/// Terms on which a path is used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Terms {
    /// Tier of the path.
    pub tier: Tier,
    /// Copies that the path may carry besides.
    pub copies: Copies,
}

impl Terms {
    /// Returns the terms of a tier, with its default copies.
    pub const fn of(tier: Tier) -> Self {
        Self { tier, copies: tier.copies() }
    }

    /// Returns the terms of a path for which its two ends have different ones.
    pub fn both(self, other: Self) -> Self {
        Self { tier: self.tier.max(other.tier), copies: self.copies.min(other.copies) }
    }
}

/// Time for which packets must wait without a break until the secondary paths are used.
const FULL: Duration = Duration::from_millis(200);

/// Time over which the load is measured while they are used.
const WINDOW: Duration = Duration::from_secs(1);

/// Share of the primary paths' capacity, in percent, below which the load no longer needs others.
const ENOUGH: u64 = 90;

/// Use of the secondary paths while the primary ones are full.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Overflow {
    /// Time since which packets have been waiting.
    waiting: Option<Instant>,
    /// Beginning of the current measurement, and the number of bytes sent before it; `None` if they are not used.
    measured: Option<(Instant, u64)>,
}

impl Overflow {
    /// Returns whether the secondary paths are used.
    pub const fn is_open(&self) -> bool {
        self.measured.is_some()
    }

    /// Records a time at which no frame may be sent. `waits`: packets are waiting; `sent`: bytes sent on all paths;
    /// `rate`: rate of the primary paths, in bits per second.
    pub fn on_pause(&mut self, now: Instant, waits: bool, sent: u64, rate: u64) {
        self.waiting = if waits { self.waiting.or(Some(now)) } else { None };
        match self.measured {
            None => {
                let is_full = self.waiting.is_some_and(|since| now.since(since) >= FULL);
                self.measured = is_full.then_some((now, sent));
            }
            Some((since, before)) => {
                let took = now.since(since);
                if took < WINDOW {
                    return;
                }
                let capacity = u128::from(rate) * u128::from(took.as_nanos()) / 8_000_000_000;
                let is_needed = u128::from(sent.saturating_sub(before)) * 100 >= capacity * u128::from(ENOUGH);
                self.measured = is_needed.then_some((now, sent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// Packets that wait for 199 ms, then not, then for 200 ms.
    #[test]
    fn it_opens_when_packets_have_waited_for_200_ms_without_a_break() {
        let mut overflow = Overflow::default();
        for (ms, waits) in [(0, true), (100, true), (199, true), (200, false), (201, true), (400, true)] {
            overflow.on_pause(at(ms), waits, 0, 8_000_000);
            assert!(!overflow.is_open(), "{ms}");
        }
        overflow.on_pause(at(401), true, 0, 8_000_000);
        assert!(overflow.is_open());
    }

    /// A primary path of 1 MB/s: 0.9 MB in a second need the others, 0.89 MB do not.
    #[test]
    fn it_closes_when_the_primary_paths_suffice() {
        let mut overflow = Overflow::default();
        overflow.on_pause(at(0), true, 0, 8_000_000);
        overflow.on_pause(at(200), true, 0, 8_000_000);
        overflow.on_pause(at(1199), false, 0, 8_000_000);
        assert!(overflow.is_open());
        overflow.on_pause(at(1200), false, 900_000, 8_000_000);
        assert!(overflow.is_open());
        overflow.on_pause(at(2200), false, 1_790_000, 8_000_000);
        assert!(!overflow.is_open());
    }

    #[test]
    fn the_stricter_end_decides() {
        let metered = Terms { tier: Tier::Secondary, copies: Copies::All };
        assert_eq!(Terms::default().both(metered), metered);
        assert_eq!(metered.both(Terms::of(Tier::Backup)), Terms::of(Tier::Backup));
    }
}
