//! Yields to a managed queue: after a loss, the smallest window becomes smaller still for a round trip.
//!
//! CoDel drops packets once all have waited for longer than a target during an interval, and goes on, ever faster, until
//! one waits for less (RFC 8289 §4). A sender that sees the drop reduces its window. Snoop repairs the drop and hides it,
//! so that the window on the hop has to react instead. It does so by delay, except if many connections share the hop:
//! then even the smallest windows keep the queue filled. A loss without a standing delay is not CoDel's.

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Time during which all packets must have waited: CoDel's interval (RFC 8289 §4.3).
const INTERVAL: Duration = Duration::from_millis(100);

/// State of the reaction to losses.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Yielding {
    /// Last time at which a packet arrived that had not waited, or the first arrival.
    prompt: Option<Instant>,
    /// The reaction ends when data at or above this number arrives.
    until: Option<Seq>,
}

impl Yielding {
    /// Returns whether the window is reduced.
    pub fn is_active(&self) -> bool {
        self.until.is_some()
    }

    /// Records that the packet at `seq` has arrived, and whether it did without waiting.
    pub fn cross(&mut self, now: Instant, seq: Seq, is_prompt: bool) {
        if is_prompt || self.prompt.is_none() {
            self.prompt = Some(now);
        }
        if is_prompt || self.until.is_some_and(|until| seq.ge(until)) {
            self.until = None;
        }
    }

    /// Records a loss. The next data sent begins at `next`.
    pub fn lose(&mut self, now: Instant, next: Seq) {
        if self.prompt.is_some_and(|prompt| now.since(prompt) >= INTERVAL) {
            self.until.get_or_insert(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_loss_counts_once_all_packets_have_waited_for_an_interval() {
        let mut yielding = Yielding::default();
        yielding.lose(at(500), Seq(1));
        assert!(!yielding.is_active(), "nothing has arrived yet");
        yielding.cross(at(500), Seq(1), true);
        yielding.cross(at(590), Seq(2), false);
        yielding.lose(at(599), Seq(3));
        assert!(!yielding.is_active());
        yielding.lose(at(600), Seq(3));
        assert!(yielding.is_active());
    }

    #[test]
    fn it_ends_with_the_round_or_the_queue() {
        for (seq, is_prompt, is_over) in [(Seq(8), false, false), (Seq(9), false, true), (Seq(2), true, true)] {
            let mut yielding = Yielding::default();
            yielding.cross(at(0), Seq(1), true);
            yielding.lose(at(100), Seq(9));
            yielding.lose(at(110), Seq(20));
            yielding.cross(at(120), seq, is_prompt);
            assert_eq!(!yielding.is_active(), is_over, "{seq} {is_prompt}");
        }
    }
}
