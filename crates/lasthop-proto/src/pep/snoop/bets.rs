//! Budget for timer-driven repairs ("bets") in a silence, when the mobile host may have left. If no connection receives
//! anything, the hop may be down, and repairs are free. If other connections do, repairs take airtime from them, so
//! repairs are limited per silence of a connection, per owner of connections, and for all owners together.

use crate::time::{Duration, Instant};

/// Number of free repairs in one silence of a connection.
pub(super) const FREE: u32 = 4;

/// Number of arrivals that earn one bet for an owner, and for all owners together.
const ARRIVALS_OF_OWNER: u32 = 64;
const ARRIVALS_OF_ALL: u32 = 32;

/// Maximum and initial number of bets.
const MOST_OF_OWNER: u32 = 64;
const MOST_OF_ALL: u32 = 256;

/// Bets granted to a silent owner after `FIRST_GRANT`, and again each time that the silence has doubled.
const GRANT: u32 = 16;
const FIRST_GRANT: Duration = Duration::from_millis(200);
const MOST_GRANTS: u32 = 24;

/// Remaining bets, in units of one arrival's earnings.
#[derive(Clone, Copy, Debug)]
struct Purse {
    parts: u32,
    cost: u32,
    most: u32,
}

impl Purse {
    const fn new(arrivals: u32, most: u32) -> Self {
        Self { parts: arrivals * most, cost: arrivals, most: arrivals * most }
    }

    fn earn(&mut self, parts: u32) {
        self.parts = (self.parts + parts).min(self.most);
    }

    fn has_any(&self) -> bool {
        self.parts >= self.cost
    }

    fn pay(&mut self, bets: u32) {
        self.parts = self.parts.saturating_sub(bets.saturating_mul(self.cost));
    }
}

/// Bets of one owner's connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnersBets {
    purse: Purse,
    /// Number of grants in this silence.
    grants: u32,
}

impl Default for OwnersBets {
    fn default() -> Self {
        Self { purse: Purse::new(ARRIVALS_OF_OWNER, MOST_OF_OWNER), grants: 0 }
    }
}

impl OwnersBets {
    pub fn hear(&mut self) {
        self.grants = 0;
        self.purse.earn(1);
    }

    /// Returns whether a bet may be made at `now`, if the owner was last heard at `heard`.
    pub fn has_any(&mut self, now: Instant, heard: Instant) -> bool {
        while self.grants < MOST_GRANTS && now.since(heard) >= FIRST_GRANT.saturating_mul(1 << self.grants) {
            self.grants += 1;
            self.purse.earn(GRANT * ARRIVALS_OF_OWNER);
        }
        self.purse.has_any()
    }

    pub fn pay(&mut self, bets: u32) {
        self.purse.pay(bets);
    }
}

/// Bets of all connections together.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllBets {
    purse: Purse,
    /// Time at which any connection was last heard.
    pub heard: Instant,
}

impl Default for AllBets {
    fn default() -> Self {
        Self { purse: Purse::new(ARRIVALS_OF_ALL, MOST_OF_ALL), heard: Instant::ZERO }
    }
}

impl AllBets {
    pub fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.purse.earn(1);
    }

    pub fn has_any(&self) -> bool {
        self.purse.has_any()
    }

    pub fn pay(&mut self, bets: u32) {
        self.purse.pay(bets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Returns the number of bets that a silent owner makes in `until` ms if it makes all that it may.
    fn made(until: u64) -> u32 {
        let (mut bets, mut made) = (OwnersBets::default(), 0);
        for ms in 0..until {
            while bets.has_any(at(ms), Instant::ZERO) {
                bets.pay(1);
                made += 1;
            }
        }
        made
    }

    #[test]
    fn a_silent_owner_bets_a_few_times_each_time_that_the_silence_has_doubled() {
        assert_eq!((made(200), made(201), made(400), made(401)), (64, 80, 80, 96));
        assert_eq!(made(14_000), 64 + 7 * 16);
        assert_eq!(made(60_000), 64 + 9 * 16);
    }

    #[test]
    fn arrivals_earn_bets_and_end_the_silence() {
        let mut bets = OwnersBets::default();
        bets.pay(64);
        assert!(!bets.has_any(at(100), Instant::ZERO));
        (0..ARRIVALS_OF_OWNER - 1).for_each(|_| bets.hear());
        assert!(!bets.has_any(at(100), at(100)));
        bets.hear();
        assert!(bets.has_any(at(100), at(100)));
        let mut all = AllBets::default();
        all.pay(MOST_OF_ALL);
        assert!(!all.has_any());
        (0..ARRIVALS_OF_ALL).for_each(|_| all.hear(at(1)));
        assert!(all.has_any());
    }
}
