//! The event queue: one entry per source of events (a link, an endpoint, an element), not one per event.
//!
//! Links deliver in order and nodes have one deadline each, so the next event of each source is all there is to sort. The
//! heap stays as small as the topology, whatever is in flight. Timers are lazy: moving a deadline to later costs nothing;
//! the source is woken early, does nothing, and is filed again.

use lasthop_proto::time::Instant;

/// A source of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SourceId(pub u32);

const ABSENT: u32 = u32::MAX;

/// A binary heap over sources, keyed by time; ties go to the smaller [`SourceId`].
#[derive(Debug)]
pub struct Scheduler {
    heap: Vec<(Instant, SourceId)>,
    /// Where each source stands in the heap.
    place: Vec<u32>,
}

impl Scheduler {
    /// An empty queue for so many sources.
    pub fn new(sources: usize) -> Self {
        Self { heap: Vec::with_capacity(sources), place: vec![ABSENT; sources] }
    }

    /// The next source due.
    #[inline]
    pub fn peek(&self) -> Option<(Instant, SourceId)> {
        self.heap.first().copied()
    }

    /// Sees to it that `source` is woken at `at` or earlier.
    #[inline]
    pub fn wake_by(&mut self, source: SourceId, at: Instant) {
        let place = self.place[source.0 as usize];
        if place == ABSENT {
            self.heap.push((at, source));
            self.sift_up(self.heap.len() - 1);
        } else if at < self.heap[place as usize].0 {
            self.heap[place as usize].0 = at;
            self.sift_up(place as usize);
        }
    }

    /// Files `source`, which is first in the queue, anew: at `next`, or not at all.
    #[inline]
    pub fn refile_first(&mut self, source: SourceId, next: Option<Instant>) {
        debug_assert_eq!(self.heap.first().map(|first| first.1), Some(source));
        match next {
            Some(at) => {
                self.heap[0].0 = at;
                self.sift_down(0);
            }
            None => {
                self.place[source.0 as usize] = ABSENT;
                if let Some(last) = self.heap.pop()
                    && last.1 != source
                {
                    self.heap[0] = last;
                    self.sift_down(0);
                }
            }
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[at] = self.heap[parent];
            self.place[self.heap[at].1.0 as usize] = at as u32;
            at = parent;
        }
        self.heap[at] = entry;
        self.place[entry.1.0 as usize] = at as u32;
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.heap[at] = self.heap[child];
            self.place[self.heap[at].1.0 as usize] = at as u32;
            at = child;
        }
        self.heap[at] = entry;
        self.place[entry.1.0 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn wakes_in_order_of_time_then_source() {
        let mut scheduler = Scheduler::new(4);
        for (source, nanos) in [(2, 30), (0, 10), (3, 10), (1, 20)] {
            scheduler.wake_by(SourceId(source), at(nanos));
        }
        let mut order = Vec::new();
        while let Some((time, source)) = scheduler.peek() {
            order.push((time.as_nanos(), source.0));
            scheduler.refile_first(source, None);
        }
        assert_eq!(order, [(10, 0), (10, 3), (20, 1), (30, 2)]);
    }

    #[test]
    fn later_is_lazy_and_earlier_is_not() {
        let mut scheduler = Scheduler::new(2);
        scheduler.wake_by(SourceId(0), at(10));
        scheduler.wake_by(SourceId(0), at(50));
        assert_eq!(scheduler.peek(), Some((at(10), SourceId(0))));
        scheduler.wake_by(SourceId(0), at(5));
        assert_eq!(scheduler.peek(), Some((at(5), SourceId(0))));
        scheduler.refile_first(SourceId(0), Some(at(50)));
        assert_eq!(scheduler.peek(), Some((at(50), SourceId(0))));
    }
}
