//! Initial growth of the window on the hop: by the bytes that arrive, so that it doubles in a round trip, while no
//! queue shows.

use super::{FIRST, Load, during};
use crate::time::Duration;

/// Window, in segments, up to which it runs ahead of a sender whose own window doubles. Otherwise short transfers would
/// wait for a round trip.
const SHORT: u64 = 4 * FIRST;

/// Number of packets between checks for a queue (HyStart's N_RTT_SAMPLE, RFC 9406 §4.2).
const FEW: u32 = 8;

/// Indicates whether the window held anything back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Limited {
    #[default]
    No,
    Yes,
}

/// Use of the window in a round trip.
#[derive(Clone, Copy, Default, Debug)]
struct Use {
    limited: Limited,
    /// Maximum number of bytes on the hop.
    peak: u64,
}

/// Measurements of a few consecutive packets.
#[derive(Clone, Copy, Default, Debug)]
struct Few {
    packets: u32,
    under_way: Load,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Queue {
    #[default]
    Free,
    Crowded,
}

/// Knowledge of the hop: shortest round trip, rate in bytes per second, and target backlog in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub base: Duration,
    pub rate: u64,
    pub backlog: u64,
}

/// Decision on whether the window grows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SlowStart {
    /// Use of the window in this round trip.
    now: Use,
    /// Use of the window in the previous round trip.
    before: Use,
    few: Few,
    /// Queue found by the previous few packets.
    queue: Queue,
}

impl SlowStart {
    /// Records that the window holds something back.
    pub fn hold_back(&mut self) {
        self.now.limited = Limited::Yes;
    }

    /// Records that `in_flight` bytes are on the hop.
    pub fn sent(&mut self, in_flight: u64) {
        self.now.peak = self.now.peak.max(in_flight);
    }

    /// Returns whether `window` grows by the data that arrives, which requires that it is used and that no queue shows.
    pub fn grows(&self, window: u64, segment: u64) -> bool {
        let is_limited = self.now.limited == Limited::Yes || self.before.limited == Limited::Yes;
        let is_half_full = 2 * self.now.peak.max(self.before.peak) >= window;
        self.queue == Queue::Free && (is_limited || is_half_full && window < SHORT * segment)
    }

    /// Ends a round trip with `in_flight` bytes on the hop. Returns whether the window held anything back in it.
    pub fn end_round(&mut self, in_flight: u64) -> Limited {
        self.before = self.now;
        self.now = Use { limited: Limited::No, peak: in_flight };
        self.before.limited
    }

    /// Checks for a queue after a packet has crossed the hop in `rtt` with `under_way` bytes in flight. The effect of a
    /// doubled window shows a round trip later. Until then it grows only while packets find no queue.
    pub fn look_for_queue(&mut self, rtt: Duration, under_way: u64, known: Known) {
        self.few.packets += 1;
        self.few.under_way.add(rtt, under_way);
        if self.few.packets == FEW {
            let Load { rate, most, .. } = self.few.under_way;
            let queued = most.saturating_sub(during(rate.max(known.rate), known.base));
            self.queue = if 2 * queued < known.backlog { Queue::Free } else { Queue::Crowded };
            self.few = Few::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1_000;

    /// 100 segments per second and 100 ms: ten in flight, and ten may be queued.
    const KNOWN: Known = Known { base: Duration::from_millis(100), rate: 100 * SEGMENT, backlog: 10 * SEGMENT };

    #[test]
    fn a_short_window_grows_where_half_of_it_is_used_and_a_long_one_where_it_holds_back() {
        let mut start = SlowStart::default();
        start.sent(4 * SEGMENT);
        assert!(!start.grows(10 * SEGMENT, SEGMENT));
        start.sent(5 * SEGMENT);
        assert!(start.grows(10 * SEGMENT, SEGMENT) && !start.grows(12 * SEGMENT, SEGMENT));
        start.sent(40 * SEGMENT);
        assert!(start.grows(39 * SEGMENT, SEGMENT) && !start.grows(40 * SEGMENT, SEGMENT));
        start.hold_back();
        assert!(start.grows(40 * SEGMENT, SEGMENT));
        // It counts for one more round trip.
        assert_eq!(start.end_round(SEGMENT), Limited::Yes);
        assert!(start.grows(40 * SEGMENT, SEGMENT) && start.grows(39 * SEGMENT, SEGMENT));
        assert_eq!(start.end_round(SEGMENT), Limited::No);
        assert!(!start.grows(40 * SEGMENT, SEGMENT) && !start.grows(10 * SEGMENT, SEGMENT));
    }

    /// The least delayed of eight consecutive packets counts. The others may be late for other reasons.
    #[test]
    fn half_of_the_backlog_in_the_queue_stops_it() {
        let mut start = SlowStart::default();
        start.hold_back();
        let eight = |start: &mut SlowStart, segments: u64, rtt: u64| {
            (0..8).for_each(|_| start.look_for_queue(Duration::from_millis(rtt), segments * SEGMENT, KNOWN));
            start.grows(100 * SEGMENT, SEGMENT)
        };
        assert!(eight(&mut start, 14, 140));
        assert!(!eight(&mut start, 15, 150));
        assert!(eight(&mut start, 15, 100));
    }
}
