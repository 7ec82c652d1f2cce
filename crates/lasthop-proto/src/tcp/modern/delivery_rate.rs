//! Samples of the delivery rate (draft-ietf-ccwg-bbr, "Delivery Rate Samples"; Linux `tcp_rate.c`), and the
//! connection's counts of delivered and lost segments.

use super::flight::{Sent, Snapshot};
use crate::seq::Seq;
use crate::tcp::congestion::control::{LostSegment, RateSample, Totals};
use crate::time::{Duration, Instant};

/// State of the sampler of a connection.
#[derive(Clone, Debug)]
pub struct RateSampler {
    delivered: u64,
    lost: u64,
    /// Time of the last delivery.
    delivered_at: Instant,
    /// Transmission time of the latest segment that was delivered.
    first_sent: Instant,
    /// Number of deliveries until which samples are application-limited; 0 if they are not.
    app_limited: u64,
    /// Number of deliveries at the start of the round, which ends when a segment sent after them is delivered.
    round_end: u64,
}

/// Latest segment that an acknowledgment delivers, from which its sample is taken.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    snapshot: Snapshot,
    /// Time from the first segment of the segment's flight until the segment was sent.
    sending: Duration,
    sent_at: Instant,
    end: Seq,
}

impl Default for RateSampler {
    /// Returns the state of a connection whose SYN was delivered.
    fn default() -> Self {
        Self {
            delivered: 1,
            lost: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited: 0,
            round_end: 0,
        }
    }
}

impl RateSampler {
    /// Returns the number of segments delivered so far.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of segments declared lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns both counts, and the time of the last delivery.
    pub const fn totals(&self) -> Totals {
        Totals { delivered: self.delivered, lost: self.lost, delivered_at: self.delivered_at }
    }

    /// Returns whether data sent now counts as application-limited.
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Records a segment that leaves while `out` others are not acknowledged; `in_flight` includes it.
    pub fn on_sent(&mut self, now: Instant, out: u32, in_flight: u32) -> Snapshot {
        if out == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Snapshot {
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered as u32,
            lost: self.lost as u32,
            in_flight,
            is_app_limited: self.is_app_limited(),
        }
    }

    /// Records that `sent` is delivered by the acknowledgment for which `newest` is collected.
    pub fn on_delivered(&mut self, sent: &Sent, newest: &mut Option<Candidate>) {
        if newest.as_ref().is_none_or(|newest| sent.is_after(newest.sent_at, newest.end)) {
            self.first_sent = sent.sent_at();
            let snapshot = *sent.snapshot();
            let sending = sent.sent_at().since(snapshot.first_sent);
            *newest = Some(Candidate { snapshot, sending, sent_at: sent.sent_at(), end: sent.end() });
        }
    }

    /// Counts delivered segments.
    pub fn count_delivered(&mut self, segments: u32) {
        self.delivered += u64::from(segments);
    }

    /// Records that `sent` was declared lost.
    pub fn on_lost(&mut self, sent: &Sent) -> LostSegment {
        self.lost += 1;
        let snapshot = sent.snapshot();
        LostSegment {
            tx_in_flight: snapshot.in_flight,
            lost: (self.lost as u32).wrapping_sub(snapshot.lost),
            is_app_limited: snapshot.is_app_limited,
        }
    }

    /// Returns the number of deliveries when the candidate's segment was sent.
    pub fn prior_delivered(&self, candidate: &Candidate) -> u64 {
        self.delivered - u64::from((self.delivered as u32).wrapping_sub(candidate.snapshot.delivered))
    }

    /// Returns the sample of an acknowledgment that delivered `delivered` segments. An interval below the shortest
    /// round trip gives no information about the path.
    pub fn sample(
        &mut self,
        now: Instant,
        delivered: u32,
        newest: Option<&Candidate>,
        min_rtt: Duration,
    ) -> Option<RateSample> {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let newest = newest?;
        let snapshot = &newest.snapshot;
        let interval = newest.sending.max(now.since(snapshot.delivered_at));
        if interval < min_rtt || interval == Duration::ZERO {
            return None;
        }
        Some(RateSample {
            delivered: (self.delivered as u32).wrapping_sub(snapshot.delivered),
            interval,
            prior_delivered: self.prior_delivered(newest),
            tx_in_flight: snapshot.in_flight,
            lost: (self.lost as u32).wrapping_sub(snapshot.lost),
            is_app_limited: snapshot.is_app_limited,
            is_ack_delayed: false,
        })
    }

    /// Returns whether the acknowledgment ends a round trip; if so, starts the next.
    pub fn ends_round(&mut self, newest: Option<&Candidate>) -> bool {
        let ends = newest.is_some_and(|newest| self.prior_delivered(newest) >= self.round_end);
        if ends {
            self.round_end = self.delivered;
        }
        ends
    }

    /// Starts a new round after a timeout.
    pub fn restart_round(&mut self) {
        self.round_end = self.delivered;
    }

    /// Records that the application leaves the window unused: the data in flight now, and data sent before it is
    /// delivered, gives no information about the path's rate.
    pub fn limit_by_application(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Switch;
    use crate::tcp::modern::flight::Flight;

    const MS: u64 = 1_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * MS)
    }

    fn send(flight: &mut Flight, rate: &mut RateSampler, number: u32, now: Instant) {
        let snapshot = rate.on_sent(now, flight.len(), flight.in_flight() + 1);
        flight.push((Seq(number * 1000), Seq(number * 1000 + 1000)), Switch::Off, now, snapshot);
    }

    fn acknowledge(flight: &mut Flight, rate: &mut RateSampler, una: u32, now: Instant) -> Option<RateSample> {
        let (mut newest, mut count) = (None, 0);
        flight.acknowledge(Seq(una * 1000), |sent| {
            rate.on_delivered(sent, &mut newest);
            count += 1;
        });
        rate.count_delivered(count);
        rate.sample(now, count, newest.as_ref(), Duration::from_millis(10))
    }

    /// Ten segments leave a millisecond apart and arrive compressed at 100 ms: the sample is the rate at which they
    /// were sent, not the spacing of the acknowledgments. The second flight, sent at one moment, counts by the arrivals
    /// in its round.
    #[test]
    fn the_longer_of_both_intervals_counts() {
        let (mut flight, mut rate) = (Flight::default(), RateSampler::default());
        (0..10).for_each(|number| send(&mut flight, &mut rate, number, at(u64::from(number))));
        let sample = acknowledge(&mut flight, &mut rate, 1, at(100)).unwrap();
        assert_eq!((sample.delivered, sample.interval, sample.prior_delivered), (1, Duration::from_millis(100), 1));
        let sample = acknowledge(&mut flight, &mut rate, 10, at(100)).unwrap();
        assert_eq!((sample.delivered, sample.interval), (10, Duration::from_millis(100)));
        (10..14).for_each(|number| send(&mut flight, &mut rate, number, at(100)));
        let sample = acknowledge(&mut flight, &mut rate, 14, at(150)).unwrap();
        assert_eq!((sample.delivered, sample.interval, sample.tx_in_flight), (4, Duration::from_millis(50), 4));
    }

    #[test]
    fn an_interval_below_the_shortest_round_trip_is_no_sample() {
        let (mut flight, mut rate) = (Flight::default(), RateSampler::default());
        send(&mut flight, &mut rate, 0, at(0));
        assert_eq!(acknowledge(&mut flight, &mut rate, 1, at(9)), None);
    }

    /// The mark lasts until the data in flight, and one more segment, is delivered.
    #[test]
    fn the_application_limits_for_a_flight() {
        let (mut flight, mut rate) = (Flight::default(), RateSampler::default());
        (0..2).for_each(|number| send(&mut flight, &mut rate, number, at(0)));
        rate.limit_by_application(flight.in_flight());
        send(&mut flight, &mut rate, 2, at(1));
        assert!(!acknowledge(&mut flight, &mut rate, 2, at(100)).unwrap().is_app_limited);
        assert!(acknowledge(&mut flight, &mut rate, 3, at(101)).unwrap().is_app_limited);
        send(&mut flight, &mut rate, 3, at(102));
        assert!(!acknowledge(&mut flight, &mut rate, 4, at(202)).unwrap().is_app_limited);
    }

    #[test]
    fn rounds_end_with_what_was_sent_in_them() {
        let (mut flight, mut rate) = (Flight::default(), RateSampler::default());
        (0..3).for_each(|number| send(&mut flight, &mut rate, number, at(0)));
        let ends = |flight: &mut Flight, rate: &mut RateSampler, una: u32| {
            let (mut newest, mut count) = (None, 0);
            flight.acknowledge(Seq(una * 1000), |sent| {
                rate.on_delivered(sent, &mut newest);
                count += 1;
            });
            rate.count_delivered(count);
            rate.ends_round(newest.as_ref())
        };
        assert!(ends(&mut flight, &mut rate, 1));
        send(&mut flight, &mut rate, 3, at(100));
        assert!(!ends(&mut flight, &mut rate, 2));
        assert!(!ends(&mut flight, &mut rate, 3));
        assert!(ends(&mut flight, &mut rate, 4));
    }
}
