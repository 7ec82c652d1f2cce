//! Hops that do not keep the order: how much later than what left after it a packet may come.
//!
//! A repair that was needless shows it: it comes back in a D-SACK block (RFC 2883). Then losses wait for longer, as in RFC 8985
//! §6.2: in steps of a quarter of the round trip. Repairs by the timer do not count: they are made where nothing else is known. Nor
//! do those that rest on the arrival of a packet that was sent several times.

use super::LinkRtt;
use crate::packet::Segment;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Repairs remembered.
const REMEMBERED: usize = 16;

/// Steps of a quarter of the round trip: at most one round trip.
const MOST_STEPS: u32 = 4;

/// After so long without a needless repair the hop passes for one that keeps the order.
const MEMORY: Duration = Duration::from_secs(10);

/// What is known of the hop's order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    steps: u32,
    /// Whether a repair was needless is asked once a round trip.
    last: Instant,
    repairs: [Option<Seq>; REMEMBERED],
    next: usize,
}

impl Reordering {
    /// The hop keeps the order.
    pub const NONE: Self = Self { steps: 0, last: Instant::ZERO, repairs: [None; REMEMBERED], next: 0 };

    /// The packet at `seq` is resent because what surely left after it has arrived.
    pub fn repaired(&mut self, seq: Seq) {
        self.repairs[self.next % REMEMBERED] = Some(seq);
        self.next += 1;
    }

    /// An acknowledgment came: if its first block is of a repair that was needless, the hop does not keep the order.
    pub fn heed(&mut self, now: Instant, segment: &Segment, rtt: &LinkRtt) {
        let Some(block) = segment.options.sack.as_slice().first().filter(|block| block.right.le(segment.ack)) else {
            return;
        };
        let found = self.repairs.iter_mut().find(|seq| **seq == Some(block.left)).map(Option::take);
        if found.is_some() && (self.steps == 0 || now.since(self.last) >= rtt.smoothed()) {
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.last = now;
        }
    }

    /// How long after its sending a packet that was overtaken passes for lost.
    pub fn patience(&mut self, now: Instant, rtt: &LinkRtt) -> Duration {
        if self.steps > 0 && now.since(self.last) > MEMORY {
            self.steps = 0;
        }
        match self.steps {
            0 => Duration::ZERO,
            steps => rtt.smoothed().saturating_mul(u64::from(4 + steps)) / 4,
        }
    }
}
