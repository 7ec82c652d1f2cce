//! What a TCP source has under way, as an end of the hop between it and its receiver can tell, and how long its round trips are.
//!
//! What was sent and not acknowledged *here* is a part of it: acknowledgments that left, and data that has not come yet, are on the wire between source and hop. So now and
//! then an acknowledgment is remembered until the source answers it, which its timestamp shows (RFC 7323 §4), or the time that its handshake took: what it
//! has sent by then, less what that acknowledgment said, is under way.

use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// An acknowledgment that went to the source.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    acked: Seq,
    /// Its timestamp (TSval).
    stamp: Option<u32>,
}

/// A round trip that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// How long it took.
    pub took: Duration,
    /// For how long nothing of the flow waited at the entrance.
    pub idle: Duration,
    /// The most that was under way, in bytes.
    pub most: u32,
}

/// How the source's answer to an acknowledgment is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It echoes this timestamp (TSecr).
    Echo(u32),
    /// It comes so long after it.
    After(Duration),
}

/// One source's round trips.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    mark: Option<Mark>,
    begun: Instant,
    /// What the source sent when it had heard of the round's beginning: once that is acknowledged, the round is over.
    end: Option<Seq>,
    idle: Duration,
    /// The most that was under way in this round, and in the one before.
    most: [u32; 2],
}

impl Rounds {
    pub fn new(now: Instant) -> Self {
        Self { mark: None, begun: now, end: None, idle: Duration::ZERO, most: [0; 2] }
    }

    /// A new round begins now, whatever this one came to: it is over when the source has heard of something that happens now, and what it sends then has arrived.
    pub fn begin(&mut self, now: Instant) {
        (self.mark, self.begun, self.end, self.idle) = (None, now, None, Duration::ZERO);
    }

    /// The most that was under way in this round and the one before, in bytes.
    pub fn most(&self) -> u32 {
        self.most[0].max(self.most[1])
    }

    /// Whether no more is under way than a round before, but for a quarter: not in slow start.
    pub fn are_steady(&self) -> bool {
        self.most[0] <= self.most[1].saturating_add(self.most[1] / 4)
    }

    /// The flow's queue is not empty any more; it was since then.
    pub fn was_empty(&mut self, now: Instant, since: Instant) {
        self.idle = self.idle + now.since(since.max(self.begun));
    }

    /// The source has sent all up to `high`, in segments of so many bytes at most.
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

    /// An acknowledgment with that timestamp goes to the source, of whose flow nothing waits since `empty`. Returns the round that is over with it.
    pub fn on_acked(&mut self, now: Instant, acked: Seq, stamp: Option<u32>, empty: Option<Instant>) -> Option<Round> {
        let is_over = self.end.is_some_and(|end| acked.ge(end));
        let round = is_over.then(|| {
            if let Some(since) = empty {
                // The rest of this round; the next one counts what comes from now on.
                self.was_empty(now, since);
            }
            let round = Round { took: now.since(self.begun), idle: self.idle, most: self.most[0] };
            (self.begun, self.end, self.idle, self.most) = (now, None, Duration::ZERO, [0, self.most[0]]);
            // One that was asked before says nothing of the new one's end.
            self.mark = None;
            round
        });
        self.mark = self.mark.or(Some(Mark { at: now, acked, stamp }));
        round
    }
}
