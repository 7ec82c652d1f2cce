//! Linux's HyStart: detection by the train of acknowledgments of a window, and by a rise of the round trip.

use super::{HystartRule, SAMPLES, SlowStart, tolerated_rise};
use crate::seq::Seq;
use crate::tcp::congestion::control::AckSample;
use crate::time::{Duration, Instant};

/// Window below which slow start does not end.
const LOW_WINDOW: u32 = 16;
/// Maximum interval between acknowledgments of a train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Size of a burst, in bytes: a receiver may delay its acknowledgment while [`GSO_BURSTS`] of them are in flight, for
/// at most [`MOST_ACK_DELAY`].
const GSO_BYTES: u64 = 65_536;
/// Number of bursts, see [`GSO_BYTES`].
const GSO_BURSTS: u64 = 4;
/// Maximum time for which a receiver may delay its acknowledgment.
const MOST_ACK_DELAY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(in crate::tcp::congestion) struct Classic {
    rule: HystartRule,
    mss: u32,
    /// True if the end of slow start was detected.
    found: bool,
    /// End of the data sent when the round began: the round ends once more is acknowledged. `None` at first.
    last: Option<Seq>,
    /// True if a round has begun with a timeout, and its end is determined by the next acknowledgment.
    is_end_open: bool,
    /// End of the round in the variant that counts deliveries, in segments delivered.
    round_end: u64,
    round_start: Instant,
    /// Time of the last acknowledgment of the train.
    last_of_train: Instant,
    shortest: Duration,
    samples: u32,
}

impl Classic {
    pub fn new(rule: HystartRule, mss: u32) -> Self {
        Self {
            rule,
            mss,
            found: false,
            // The first acknowledgments answer data sent after the start.
            last: None,
            is_end_open: false,
            round_end: 0,
            round_start: Instant::ZERO,
            last_of_train: Instant::ZERO,
            shortest: Duration::MAX,
            samples: 0,
        }
    }

    pub fn restart(&mut self, now: Instant) {
        self.found = false;
        self.is_end_open = true;
        self.begin_round(now);
    }

    fn begin_round(&mut self, now: Instant) {
        self.round_start = now;
        self.last_of_train = now;
        self.shortest = Duration::MAX;
        self.samples = 0;
    }

    pub fn on_round(&mut self, ack: &AckSample) {
        if core::mem::take(&mut self.is_end_open) {
            self.last = Some(ack.nxt);
        }
    }

    /// Returns whether a round begins with this acknowledgment.
    fn begins_round(&mut self, ack: &AckSample, cwnd: u32) -> bool {
        if self.rule == HystartRule::LinuxBefore6_15 {
            let begins = cwnd >= LOW_WINDOW && ack.total_delivered > self.round_end;
            if begins {
                self.round_end = ack.total_delivered + u64::from(ack.in_flight);
            }
            begins
        } else {
            // By sequence numbers (`hystart_update`): segments that arrive out of order, or again, end no round.
            let begins = self.last.is_none_or(|last| ack.una.gt(last));
            if begins {
                self.last = Some(ack.nxt);
            }
            begins
        }
    }

    pub fn on_ack(&mut self, ack: &AckSample, rtt: Duration, min_rtt: Duration, cwnd: u32) -> SlowStart {
        if self.found {
            return SlowStart::Stay;
        }
        if self.begins_round(ack, cwnd) {
            self.begin_round(ack.now);
        }
        if cwnd < LOW_WINDOW {
            return SlowStart::Stay;
        }
        // Both are evaluated: the second counts its samples regardless of the first.
        let train = self.train_fills_path(ack, min_rtt, cwnd);
        let rise = self.round_trip_rises(rtt, min_rtt);
        self.found = train || rise;
        if self.found { SlowStart::Leave } else { SlowStart::Stay }
    }

    /// Detects a train of a window's acknowledgments without a gap, for half a round trip: as long as one that fills
    /// the path in one direction.
    fn train_fills_path(&mut self, ack: &AckSample, min_rtt: Duration, cwnd: u32) -> bool {
        if ack.now.since(self.last_of_train) > TRAIN_GAP {
            return false;
        }
        self.last_of_train = ack.now;
        // Halved because sending is not paced.
        ack.now.since(self.round_start) > (min_rtt + self.ack_delay(ack.srtt, cwnd)) / 2
    }

    /// Returns the time that bursts take at twice the window per round trip, which Linux assumes as the rate of slow
    /// start.
    fn ack_delay(&self, srtt: Duration, cwnd: u32) -> Duration {
        let window = 2 * u64::from(cwnd) * u64::from(self.mss);
        (srtt.saturating_mul(GSO_BURSTS * GSO_BYTES) / window.max(1)).min(MOST_ACK_DELAY)
    }

    fn round_trip_rises(&mut self, rtt: Duration, min_rtt: Duration) -> bool {
        self.shortest = self.shortest.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.shortest > min_rtt + tolerated_rise(min_rtt)
    }
}
