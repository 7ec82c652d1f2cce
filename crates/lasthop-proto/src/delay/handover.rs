//! A path that changes by a timetable: a satellite terminal is given another satellite every so often. For a moment nothing
//! arrives, and from then on the way is another one.

use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Parameters of handovers by a timetable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverSpec {
    /// From one to the next.
    pub period: Duration,
    /// When the first is.
    pub first: Duration,
    /// By how much the ways differ: each takes longer by a time that is uniform from nothing up to this.
    pub jump: Duration,
    /// For how long nothing arrives. What was sent in that time arrives at its end.
    pub outage: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Handover {
    spec: HandoverSpec,
    /// When the next is.
    next: Instant,
    /// Until when the last one's outage lasts.
    outage: Instant,
    /// By how much longer the present way takes.
    more: Duration,
    stream: Stream,
}

impl Handover {
    pub(super) fn new(spec: HandoverSpec, stream: Stream) -> Self {
        // A period takes time, or there would be no end of handovers.
        let spec = HandoverSpec { period: spec.period.max(Duration::from_micros(1)), ..spec };
        let mut handover =
            Self { spec, next: Instant::ZERO + spec.first, outage: Instant::ZERO, more: Duration::ZERO, stream };
        handover.change();
        handover
    }

    fn change(&mut self) {
        self.more = Duration::from_nanos(self.stream.below(self.spec.jump.as_nanos().saturating_add(1)));
    }

    pub(super) fn at(&mut self, sent: Instant) -> Duration {
        while self.next <= sent {
            self.change();
            self.outage = self.next + self.spec.outage;
            self.next += self.spec.period;
        }
        // `since` is nothing once the outage is over.
        let waits = if self.outage > sent { self.outage.since(sent) } else { Duration::ZERO };
        waits + self.more
    }
}
