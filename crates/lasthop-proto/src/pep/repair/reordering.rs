//! Reordering on the hop: how much later than a packet sent after it a packet may arrive.
//!
//! As in RFC 8985 §6.2, there is no delay before reordering is detected. Then a reordered packet waits, beyond a round
//! trip, for quarters of one, a quarter more for each round trip with a spurious repair. Two events show that a repair
//! was spurious:
//!
//! * It returns in a D-SACK block (RFC 2883).
//! * The oldest packet arrives sooner than the hop could have delivered its repair: the first transmission arrived, and
//!   it arrived after packets sent later.
//!
//! Repairs by the timer do not count, because they are made without other information. Neither do repairs triggered by
//! the arrival of a packet that was sent several times.

use super::LinkRtt;
use super::order::Kept;
use crate::packet::{SackBlock, Segment};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Maximum number of remembered repairs.
const REMEMBERED: usize = 16;

/// Number of round trips within which a D-SACK block for a repair arrives.
const ROUND_TRIPS: u64 = 3;

/// Maximum number of steps of a quarter of the round trip: at most one round trip.
const MOST_STEPS: u32 = 4;

/// Time without a spurious repair after which one step is enough, and time without reordering after which the hop
/// counts as order-preserving.
const MEMORY: Duration = Duration::from_secs(10);

/// A repair that may return.
#[derive(Clone, Copy, Debug)]
struct Repaired {
    seq: Seq,
    at: Instant,
}

/// Reordering seen on the hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    steps: u32,
    /// Time of the last reordering.
    seen: Instant,
    /// Time of the last spurious repair that added a step; at most one counts per round trip.
    widened: Instant,
    repairs: [Option<Repaired>; REMEMBERED],
}

impl Reordering {
    /// No reordering.
    pub const NONE: Self = Self { steps: 0, seen: Instant::ZERO, widened: Instant::ZERO, repairs: [None; REMEMBERED] };

    /// Records that the packet at `seq` is resent because one that certainly left after it has arrived. If there are
    /// many, some are remembered for as long as one may return; if only the latest were kept, all would be forgotten by
    /// then.
    pub fn repaired(&mut self, now: Instant, seq: Seq, rtt: &LinkRtt) {
        let most = rtt.smoothed().saturating_mul(ROUND_TRIPS);
        let is_free = |place: &&mut Option<Repaired>| place.is_none_or(|old| now.since(old.at) > most);
        if let Some(place) = self.repairs.iter_mut().find(is_free) {
            *place = Some(Repaired { seq, at: now });
        }
    }

    /// Records that the packet at `seq` is retransmitted without proof of its loss: its return says nothing about its
    /// repair.
    pub fn repeated(&mut self, seq: Seq) {
        for place in &mut self.repairs {
            *place = place.filter(|repair| repair.seq != seq);
        }
    }

    /// Evaluates an acknowledgment. If it reports a duplicate (RFC 2883 §4) of a repair, the repair was spurious.
    pub fn heed(&mut self, now: Instant, segment: &Segment, rtt: &LinkRtt) {
        let Some(block) = duplicate(segment) else { return };
        let is_it = |place: &&mut Option<Repaired>| place.is_some_and(|repair| repair.seq == block.left);
        if self.repairs.iter_mut().find(is_it).is_some_and(|place| place.take().is_some()) {
            self.needless(now, rtt);
        }
    }

    /// Records that a repair turned out to be spurious.
    pub fn needless(&mut self, now: Instant, rtt: &LinkRtt) {
        self.seen = now;
        if self.steps == 0 || now.since(self.widened) >= rtt.smoothed() {
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.widened = now;
        }
    }

    /// Records that a reordered packet has arrived without a retransmission.
    pub fn waited(&mut self, now: Instant) {
        self.seen = now;
        if self.steps == 0 {
            (self.steps, self.widened) = (1, now);
        }
    }

    /// Returns whether the hop preserves order, as far as was seen.
    pub fn kept(&self, now: Instant) -> Kept {
        if self.steps > 0 && now.since(self.seen) <= MEMORY { Kept::No } else { Kept::Yes }
    }

    /// Returns the time after its transmission at which a reordered packet is declared lost.
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

/// Returns the first block if it reports a duplicate: it lies below the acknowledgment, or within the second block.
fn duplicate(segment: &Segment) -> Option<SackBlock> {
    let blocks = segment.options.sack.as_slice();
    let first = *blocks.first()?;
    let within = |second: &SackBlock| second.left.le(first.left) && first.right.le(second.right);
    (first.right.le(segment.ack) || blocks.get(1).is_some_and(within)).then_some(first)
}
