//! Hops that do not keep the order: how much later than what left after it a packet may come.
//!
//! As in RFC 8985 §6.2: nothing waits before the order is seen to be broken; then what was overtaken waits, beyond a round trip, for
//! quarters of one, a quarter more for each round trip in which a repair was needless. Two things show that one was:
//!
//! * It comes back in a D-SACK block (RFC 2883).
//! * What the mobile host waited for arrives sooner than the hop could have brought the repair: that was the first sending, and it came
//!   after what it left before.
//!
//! Repairs by the timer do not count: they are made where nothing else is known. Nor do those that rest on the arrival of a packet
//! that was sent several times.

use super::LinkRtt;
use super::order::Kept;
use crate::packet::{SackBlock, Segment};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Repairs remembered.
const REMEMBERED: usize = 16;

/// A D-SACK block for a repair is here within so many round trips.
const ROUND_TRIPS: u64 = 3;

/// Steps of a quarter of the round trip: at most one round trip.
const MOST_STEPS: u32 = 4;

/// After so long without a needless repair one step is enough; after so long without anything out of order the hop passes for one
/// that keeps it.
const MEMORY: Duration = Duration::from_secs(10);

/// A repair that may come back.
#[derive(Clone, Copy, Debug)]
struct Repaired {
    seq: Seq,
    at: Instant,
}

/// What is known of the hop's order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    steps: u32,
    /// When anything last came out of order.
    seen: Instant,
    /// When a repair was last needless: that is asked once a round trip.
    widened: Instant,
    repairs: [Option<Repaired>; REMEMBERED],
}

impl Reordering {
    /// The hop keeps the order.
    pub const NONE: Self = Self { steps: 0, seen: Instant::ZERO, widened: Instant::ZERO, repairs: [None; REMEMBERED] };

    /// The packet at `seq` is resent because what surely left after it has arrived. Where many are, some are remembered for as long as
    /// one may come back: the latest alone would all be forgotten by then.
    pub fn repaired(&mut self, now: Instant, seq: Seq, rtt: &LinkRtt) {
        let most = rtt.smoothed().saturating_mul(ROUND_TRIPS);
        let is_free = |place: &&mut Option<Repaired>| place.is_none_or(|old| now.since(old.at) > most);
        if let Some(place) = self.repairs.iter_mut().find(is_free) {
            *place = Some(Repaired { seq, at: now });
        }
    }

    /// The packet at `seq` goes once more though nothing shows that it is lost: that it comes back says nothing of its repair.
    pub fn repeated(&mut self, seq: Seq) {
        for place in &mut self.repairs {
            *place = place.filter(|repair| repair.seq != seq);
        }
    }

    /// An acknowledgment came: if it tells of a duplicate (RFC 2883 §4), and that is a repair, the repair was needless.
    pub fn heed(&mut self, now: Instant, segment: &Segment, rtt: &LinkRtt) {
        let Some(block) = duplicate(segment) else { return };
        let is_it = |place: &&mut Option<Repaired>| place.is_some_and(|repair| repair.seq == block.left);
        if self.repairs.iter_mut().find(is_it).is_some_and(|place| place.take().is_some()) {
            self.needless(now, rtt);
        }
    }

    /// A repair turned out to be needless.
    pub fn needless(&mut self, now: Instant, rtt: &LinkRtt) {
        self.seen = now;
        if self.steps == 0 || now.since(self.widened) >= rtt.smoothed() {
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.widened = now;
        }
    }

    /// What was overtaken has arrived, and was not resent.
    pub fn waited(&mut self, now: Instant) {
        self.seen = now;
        if self.steps == 0 {
            (self.steps, self.widened) = (1, now);
        }
    }

    /// Whether the hop keeps the order, as far as was seen.
    pub fn kept(&self, now: Instant) -> Kept {
        if self.steps > 0 && now.since(self.seen) <= MEMORY { Kept::No } else { Kept::Yes }
    }

    /// How long after its sending a packet that was overtaken passes for lost.
    pub fn patience(&mut self, now: Instant, rtt: &LinkRtt) -> Duration {
        if now.since(self.seen) > MEMORY {
            self.steps = 0;
        } else if now.since(self.widened) > MEMORY {
            self.steps = self.steps.min(1);
        }
        match self.steps {
            0 => Duration::ZERO,
            steps => rtt.smoothed().saturating_mul(u64::from(4 + steps)) / 4,
        }
    }
}

/// The block in front that tells of a duplicate: it lies below the acknowledgment, or within the second one.
fn duplicate(segment: &Segment) -> Option<SackBlock> {
    let blocks = segment.options.sack.as_slice();
    let first = *blocks.first()?;
    let within = |second: &SackBlock| second.left.le(first.left) && first.right.le(second.right);
    (first.right.le(segment.ack) || blocks.get(1).is_some_and(within)).then_some(first)
}
