//! Effects of handoffs at receivers: gaps, reordered data, duplicate data.

use std::collections::BTreeMap;

use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::time::{Duration, Instant};

use crate::measure::MobilityReport;

/// Arrivals of data at endpoints, by endpoint index.
pub(super) struct Arrivals {
    ends: BTreeMap<usize, Arrived>,
}

#[derive(Default)]
struct Arrived {
    /// Time of the last arrival of data.
    last: Option<Instant>,
    silence: Option<Silence>,
    /// Ranges that have arrived, from start to end, in bytes of the stream or numbers of datagrams.
    ranges: BTreeMap<u64, u64>,
    /// Highest end of the data so far.
    furthest: u64,
    /// Sequence number of the first byte that arrived, at position `FIRST`.
    base: Option<u32>,
}

/// Gap around a handoff.
struct Silence {
    longest: Duration,
    /// Earliest arrival of data that the host sends after it has attached; `None` during the handoff.
    until: Option<Instant>,
}

/// Position of the first data. Data sent before it may arrive later.
const FIRST: u64 = 1 << 32;

impl Arrivals {
    pub(super) fn new(ends: impl Iterator<Item = usize>) -> Self {
        Self { ends: ends.map(|end| (end, Arrived::default())).collect() }
    }

    /// Records the start of a handoff.
    pub(super) fn leave(&mut self) {
        for end in self.ends.values_mut().filter(|end| end.last.is_some()) {
            end.silence.get_or_insert(Silence { longest: Duration::ZERO, until: None }).until = None;
        }
    }

    /// Records the end of the handoff. `lags` lists the delay from the host to each end.
    pub(super) fn attach(&mut self, now: Instant, lags: Vec<(usize, Duration)>) {
        for (index, lag) in lags {
            if let Some(silence) = self.ends.get_mut(&index).and_then(|end| end.silence.as_mut()) {
                silence.until = Some(now + lag);
            }
        }
    }

    /// Records the arrival of a packet at the endpoint with this index. Returns the number of new bytes, or new
    /// datagrams.
    pub(super) fn take(&mut self, now: Instant, index: usize, packet: &Packet, report: &mut MobilityReport) -> u64 {
        let Some(end) = self.ends.get_mut(&index).filter(|_| packet.len > 0) else { return 0 };
        if let (Some(last), Some(silence)) = (end.last, &mut end.silence) {
            silence.longest = silence.longest.max(now.since(last));
            if silence.until.is_some_and(|until| now >= until) {
                report.gaps += 1;
                report.silent = report.silent + silence.longest;
                end.silence = None;
            }
        }
        end.last = Some(now);
        let (number, length) = match packet.body {
            Body::Tcp(segment) => (segment.seq.0, packet.len),
            Body::Quic { number, .. } | Body::Media { number } | Body::Datagram { number } => (number, 1),
            Body::Control | Body::Coded(_) | Body::Report(_) => return 0,
        };
        let copy = packet.cause.is_source_retransmission() || packet.cause.is_local_retransmission();
        let begin = end.place_of(number);
        let behind = begin + u64::from(length);
        if end.has(begin, behind) {
            report.repeated += 1;
        } else if behind <= end.furthest && !copy {
            report.reordered += 1;
        }
        end.furthest = end.furthest.max(behind);
        end.add(begin, behind)
    }
}

impl Arrived {
    /// Returns the position of a number that wraps at 32 bits: the one nearest to the highest so far.
    fn place_of(&mut self, number: u32) -> u64 {
        let base = *self.base.get_or_insert_with(|| {
            self.furthest = FIRST;
            number
        });
        let near = number.wrapping_sub(base).wrapping_sub((self.furthest - FIRST) as u32) as i32;
        self.furthest.saturating_add_signed(i64::from(near))
    }

    fn has(&self, begin: u64, end: u64) -> bool {
        let range = self.ranges.range(..=begin).next_back();
        range.is_some_and(|(_, &until)| until >= end)
    }

    /// Adds a range. Returns the length of its new part.
    fn add(&mut self, mut begin: u64, mut end: u64) -> u64 {
        let mut known = 0;
        if let Some((&first, &until)) = self.ranges.range(..=begin).next_back()
            && until >= begin
        {
            begin = first;
            end = end.max(until);
        }
        while let Some((&first, &until)) = self.ranges.range(begin..=end).next() {
            self.ranges.remove(&first);
            known += until - first;
            end = end.max(until);
        }
        self.ranges.insert(begin, end);
        end - begin - known
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Cause, Segment};
    use lasthop_proto::seq::Seq;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn segment(seq: u32, len: u32) -> Packet {
        Packet { len, body: Body::Tcp(Segment { seq: Seq(seq), ..Segment::default() }), ..Packet::default() }
    }

    /// The numbers wrap between the second segment and the third.
    #[test]
    fn order_is_told_across_the_end_of_the_numbers() {
        let (mut arrivals, mut report) = (Arrivals::new([0].into_iter()), MobilityReport::default());
        let first = u32::MAX - 199;
        let mut take =
            |offset: u32, len| arrivals.take(at(0), 0, &segment(first.wrapping_add(offset), len), &mut report);
        take(0, 100);
        take(200, 100);
        take(100, 100);
        take(50, 200);
        take(250, 100);
        take(0, 350);
        assert_eq!((report.reordered, report.repeated), (1, 2));
    }

    #[test]
    fn copies_are_not_out_of_order() {
        let (mut arrivals, mut report) = (Arrivals::new([0].into_iter()), MobilityReport::default());
        arrivals.take(at(0), 0, &segment(100, 100), &mut report);
        let copy = Packet { cause: Cause::FastRetransmit, ..segment(0, 100) };
        arrivals.take(at(1), 0, &copy, &mut report);
        assert_eq!((report.reordered, report.repeated), (0, 0));
    }

    /// Data in flight does not end a gap. The longest gap that began in time counts, and two handoffs within it count
    /// as one.
    #[test]
    fn a_silence_is_the_longest_that_began_before_the_handoff_was_over() {
        let (mut arrivals, mut report) = (Arrivals::new([0, 1].into_iter()), MobilityReport::default());
        let lags = || vec![(0, Duration::from_millis(10)), (1, Duration::ZERO)];
        let mut number = 0;
        let mut next = || {
            number += 1;
            segment(number, 1)
        };
        arrivals.take(at(0), 0, &next(), &mut report);
        arrivals.leave();
        arrivals.take(at(4), 0, &next(), &mut report);
        arrivals.attach(at(5), lags());
        arrivals.take(at(6), 0, &next(), &mut report);
        assert_eq!(report.gaps, 0);
        arrivals.leave();
        arrivals.attach(at(20), lags());
        arrivals.take(at(36), 0, &next(), &mut report);
        assert_eq!((report.gaps, report.mean_gap()), (1, Some(Duration::from_millis(30))));
        arrivals.take(at(99), 0, &next(), &mut report);
        // The other end received no data before.
        arrivals.take(at(99), 1, &segment(0, 1), &mut report);
        assert_eq!(report.gaps, 1);
    }
}
