//! Estimate of a TCP source's data in flight, and of its round trips, as an end of the hop between it and its receiver
//! can infer them.
//!
//! Data that was sent and not acknowledged *here* is a part of it: acknowledgments that have left, and data that has
//! not arrived yet, are on the wire between source and hop. Therefore one acknowledgment at a time is remembered until
//! a timestamp shows that the source has answered it (RFC 7323 §4), or until the time that its handshake took has
//! passed. The data sent by then, minus what that acknowledgment covered, is in flight.

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// An acknowledgment sent to the source.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    acked: Seq,
    /// Timestamp (TSval) of the acknowledgment.
    stamp: Option<u32>,
}

/// A completed round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// Duration.
    pub took: Duration,
    /// Time in which the flow's queue was empty.
    pub idle: Duration,
    /// Maximum number of bytes in flight.
    pub most: u32,
}

/// Evidence of the source's answer to an acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Echoes this timestamp (TSecr).
    Echo(u32),
    /// Arrives this long after the segment.
    After(Duration),
}

/// Round trips of one source.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    mark: Option<Mark>,
    begun: Instant,
    /// End of the data that the source had sent when it learned of the round's start. The round ends when that data is
    /// acknowledged.
    end: Option<Seq>,
    idle: Duration,
    /// Maximum number of bytes in flight in this round, and in the previous one.
    most: [u32; 2],
}

impl Rounds {
    pub fn new(now: Instant) -> Self {
        Self { mark: None, begun: now, end: None, idle: Duration::ZERO, most: [0; 2] }
    }

    /// Starts a new round now, regardless of the state of the current one. The new round ends when the source has
    /// learned of an event after now, and the data that it then sends has arrived.
    pub fn begin(&mut self, now: Instant) {
        (self.mark, self.begun, self.end, self.idle) = (None, now, None, Duration::ZERO);
    }

    /// Returns the maximum number of bytes in flight in this round and the previous one.
    pub fn most(&self) -> u32 {
        self.most[0].max(self.most[1])
    }

    /// Returns whether the flight grew by at most a quarter in a round: not in slow start.
    pub fn are_steady(&self) -> bool {
        self.most[0] <= self.most[1].saturating_add(self.most[1] / 4)
    }

    /// Records that the flow's queue is no longer empty, and had been empty since `since`.
    pub fn was_empty(&mut self, now: Instant, since: Instant) {
        self.idle = self.idle + now.since(since.max(self.begun));
    }

    /// Records that the source has sent all data up to `high`, in segments of at most `segment` bytes.
    pub fn on_sent(&mut self, now: Instant, high: Seq, segment: u32, answer: Answer) {
        let Some(mark) = self.mark else { return };
        let is_answered = match (answer, mark.stamp) {
            (Answer::Echo(echoed), Some(stamp)) => Seq(echoed).ge(Seq(stamp)),
            (Answer::Echo(_), None) => true,
            (Answer::After(time), _) => now.since(mark.at) >= time,
        };
        if is_answered {
            self.mark = None;
            // An acknowledgment of two segments is answered by two, of which this is the first (RFC 5681 §4.2).
            self.most[0] = self.most[0].max(high.since(mark.acked).saturating_add(segment));
            self.end = self.end.or(Some(high));
        }
    }

    /// Records an acknowledgment with that timestamp to the source, whose queue has been empty since `empty`. Returns
    /// the round that it completes.
    pub fn on_acked(&mut self, now: Instant, acked: Seq, stamp: Option<u32>, empty: Option<Instant>) -> Option<Round> {
        let is_over = self.end.is_some_and(|end| acked.ge(end));
        let round = is_over.then(|| {
            if let Some(since) = empty {
                // The rest of this round; the next one counts from now on.
                self.was_empty(now, since);
            }
            let round = Round { took: now.since(self.begun), idle: self.idle, most: self.most[0] };
            (self.begun, self.end, self.idle, self.most) = (now, None, Duration::ZERO, [0, self.most[0]]);
            // An earlier mark says nothing about the new round's end.
            self.mark = None;
            round
        });
        self.mark = self.mark.or(Some(Mark { at: now, acked, stamp }));
        round
    }
}
