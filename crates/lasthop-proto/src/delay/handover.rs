//! Path changes by a timetable: a satellite terminal is regularly assigned another satellite. For a moment nothing
//! arrives, and then the path is a different one.

use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Parameters of handovers by a timetable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverSpec {
    /// Interval between handovers.
    pub period: Duration,
    /// Time of the first.
    pub first: Duration,
    /// Maximum difference of path delays: each path takes longer by a time that is uniform from zero.
    pub jump: Duration,
    /// Duration of an outage. Frames sent during it arrive at its end.
    pub outage: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Handover {
    spec: HandoverSpec,
    /// Time of the next handover.
    next: Instant,
    /// End of the last outage.
    outage: Instant,
    /// Additional delay of the current path.
    more: Duration,
    stream: Stream,
}

impl Handover {
    pub(super) fn new(spec: HandoverSpec, stream: Stream) -> Self {
        // A period takes time; otherwise handovers would never end.
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
        // Zero once the outage is over.
        let waits = if self.outage > sent { self.outage.since(sent) } else { Duration::ZERO };
        waits + self.more
    }
}
