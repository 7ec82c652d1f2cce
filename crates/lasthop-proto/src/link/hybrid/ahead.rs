//! Coded frames among the packets of a busy hop with a long round trip.
//!
//! A retransmission takes a round trip, during which its flow stalls. If the hop carries many packets in that time, a
//! code over the latest ones restores most losses sooner, at the cost of capacity that retransmissions would not use.

use super::budget::expected_losses;
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

/// Coded frames that belong to a number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Number of packets, which a combination covers.
    pub span: u64,
    /// Number of coded frames.
    pub frames: u64,
}

impl Plan {
    /// Returns the plan for `span` packets at a loss rate of `loss` (in 10⁻⁶), in loss runs with a mean length of `run`
    /// (in 1/16 frame); `None` if coded frames cost more than they save.
    pub fn new(span: u64, loss: u64, run: u64) -> Option<Self> {
        let frames = expected_losses(span, loss, run);
        let is_worthwhile = frames > 0 && frames * 1_000_000 <= PER_LOSS * span * loss + FREE * 1_000_000;
        is_worthwhile.then_some(Self { span, frames })
    }
}

/// Returns the number of packets that a combination covers on a hop with that rate in bits per second and that round
/// trip; `None` if retransmissions are soon enough.
pub(super) fn span(rate: u64, trip: Duration) -> Option<u64> {
    let span = (frames_in_flight(rate, trip) / PART).min(WINDOW as u64);
    (span >= LEAST).then_some(span)
}

/// Schedule of coded frames.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ahead {
    /// Coded frames that are due, in 10⁻⁶.
    due: u64,
}

impl Ahead {
    /// Records a packet. Returns whether a coded frame is due.
    pub fn on_packet(&mut self, Plan { span, frames }: Plan) -> bool {
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
        let span = |mbps: u64, trip| span(mbps * 1_000_000, Duration::from_millis(trip));
        assert_eq!([span(10, 60), span(8, 350), span(20, 560), span(100, 100)], [None, Some(58), Some(128), Some(128)]);
    }

    /// 10 % of 128 packets: 12.8 and twice the square root of 12.8 frames. In runs of 4 packets the variance is seven
    /// times as large, and in runs of 12 a code needs 47 frames for 13 losses.
    #[test]
    fn codes_are_for_short_runs() {
        let frames = |percent: u64, run: u64| Plan::new(128, percent * 10_000, run * 16).map_or(0, |plan| plan.frames);
        assert_eq!([frames(0, 1), frames(1, 1), frames(10, 1), frames(10, 4), frames(10, 12)], [0, 4, 20, 32, 0]);
    }

    #[test]
    fn coded_frames_are_spread_evenly() {
        let mut ahead = Ahead::default();
        let plan = Plan { span: 100, frames: 5 };
        let due: alloc::vec::Vec<usize> = (1..=60).filter(|_| ahead.on_packet(plan)).collect();
        assert_eq!(due, [20, 40, 60]);
    }
}
