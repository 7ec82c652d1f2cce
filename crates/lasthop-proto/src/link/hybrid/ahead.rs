//! Coded frames among the packets of a busy hop with a long round trip.
//!
//! A retransmission takes a round trip, during which its flow stalls. If the hop carries many packets in that time, a
//! code over the latest ones restores most losses sooner, at the cost of capacity that retransmissions would not use.

use super::code::WINDOW;
use super::limits::frames_in_flight;
use crate::time::Duration;

/// Part of the round trip in which the packets of a combination are sent.
const PART: u64 = 4;

/// Minimum number of packets in a combination. In fewer, the number of losses varies too much.
const LEAST: u64 = 48;

/// Schedule of coded frames.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ahead {
    /// Coded frames that are due, in 10⁻⁶.
    due: u64,
}

impl Ahead {
    /// Returns the number of packets that a combination covers on a hop with that rate in bits per second and that
    /// round trip; `None` if retransmissions are soon enough.
    pub fn span(rate: u64, trip: Duration) -> Option<u64> {
        let span = (frames_in_flight(rate, trip) / PART).min(WINDOW as u64);
        (span >= LEAST).then_some(span)
    }

    /// Records a packet, of which `losses` are expected among `span`. Returns whether a coded frame is due.
    pub fn on_packet(&mut self, losses: u64, span: u64) -> bool {
        self.due += losses * 1_000_000 / span;
        let is_due = self.due >= 1_000_000;
        if is_due {
            self.due -= 1_000_000;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hop of 10 Mbps and 60 ms carries 50 packets in a round trip, one of 100 Mbps and 100 ms 833.
    #[test]
    fn codes_need_many_packets_in_a_round_trip() {
        let span = |mbps: u64, trip| Ahead::span(mbps * 1_000_000, Duration::from_millis(trip));
        assert_eq!([span(10, 60), span(8, 350), span(20, 560), span(100, 100)], [None, Some(58), Some(128), Some(128)]);
    }

    #[test]
    fn coded_frames_are_spread_evenly() {
        let mut ahead = Ahead::default();
        let due: alloc::vec::Vec<usize> = (1..=60).filter(|_| ahead.on_packet(5, 100)).collect();
        assert_eq!(due, [20, 40, 60]);
    }
}
