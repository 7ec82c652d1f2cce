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

/// Maximum number of coded frames for each expected loss, beyond [`FREE`]. If losses come in long runs, their number in
/// a span varies so much that coded frames cost more than they save.
const PER_LOSS: u64 = 3;
const FREE: u64 = 2;

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

    /// Returns the number of coded frames for `span` packets with a loss rate of `loss` (in 10⁻⁶), in runs with a mean
    /// length of `run` (in 1/16 frame): the mean number of losses and two standard deviations, for geometric lengths.
    pub fn frames(span: u64, loss: u64, run: u64) -> u64 {
        // In 10⁻⁶ and 10⁻¹².
        let mean = span * loss;
        let variance = mean * (2 * run).saturating_sub(16) / 16 * 1_000_000;
        let frames = (mean + 2 * variance.isqrt()).div_ceil(1_000_000);
        if frames * 1_000_000 <= PER_LOSS * mean + FREE * 1_000_000 { frames } else { 0 }
    }

    /// Records a packet, where `frames` coded frames belong to `span` packets. Returns whether a coded frame is due.
    pub fn on_packet(&mut self, frames: u64, span: u64) -> bool {
        self.due += frames * 1_000_000 / span;
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

    /// 10 % of 128 packets: 12.8 and twice the square root of 12.8 frames. In runs of 4 packets the variance is seven
    /// times as large, and in runs of 12 a code needs 47 frames for 13 losses.
    #[test]
    fn codes_are_for_short_runs() {
        let frames = |percent: u64, run: u64| Ahead::frames(128, percent * 10_000, run * 16);
        assert_eq!([frames(0, 1), frames(1, 1), frames(10, 1), frames(10, 4), frames(10, 12)], [0, 4, 20, 32, 0]);
    }

    #[test]
    fn coded_frames_are_spread_evenly() {
        let mut ahead = Ahead::default();
        let due: alloc::vec::Vec<usize> = (1..=60).filter(|_| ahead.on_packet(5, 100)).collect();
        assert_eq!(due, [20, 40, 60]);
    }
}
