//! Rates that a random process generates, segment by segment.

use alloc::collections::VecDeque;

use super::Segment;
use super::markov::Markov;
use super::slots::Slots;
use crate::time::{Duration, Instant};

/// Generator of consecutive segments from the start of the run on.
#[derive(Clone, Debug)]
pub(super) enum Generator {
    Markov(Markov),
    Slots(Slots),
}

impl Generator {
    /// Returns the next rate in bits per second, and for how long it is valid.
    fn next(&mut self) -> (u64, Duration) {
        match self {
            Self::Markov(markov) => markov.next(),
            Self::Slots(slots) => slots.next(),
        }
    }
}

/// A generated rate in a run. Keeps the segments from the start of the last transmission on.
#[derive(Clone, Debug)]
pub(super) struct Process {
    generator: Generator,
    segments: VecDeque<Segment>,
    /// End of the last segment.
    end: Instant,
}

impl Process {
    pub(super) const fn new(generator: Generator) -> Self {
        Self { generator, segments: VecDeque::new(), end: Instant::ZERO }
    }

    /// Forgets the segments that end by `now`: no transmission begins before.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.segments.front().is_some_and(|segment| segment.until <= now) {
            self.segments.pop_front();
        }
    }

    pub(super) fn segment(&mut self, at: Instant) -> Segment {
        while self.end <= at {
            let (rate, span) = self.generator.next();
            // A segment takes time; otherwise they would never end.
            self.end += span.max(Duration::from_nanos(1));
            let segment = Segment { rate, until: self.end };
            if segment.until > at || !self.segments.is_empty() {
                self.segments.push_back(segment);
            }
        }
        let index = self.segments.partition_point(|segment| segment.until <= at);
        self.segments.get(index).copied().unwrap_or(Segment { rate: 0, until: self.end })
    }
}
