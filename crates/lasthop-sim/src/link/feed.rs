//! Next transmission of one direction: policer, queue, shaper, aggregation, and the current rate.

use std::collections::VecDeque;

use lasthop_proto::bucket::TokenBucket;
use lasthop_proto::link::aggregation::{Aggregate, Aggregator};
use lasthop_proto::queue::{QueueLimit, QueueSpec, View};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::rate::{RateProcess, RateSpec, Transmission};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::{Accepted, Direction, Frame, FrameQueue, InFlight, TransmissionTime, Waiting};
use crate::network::{DirectionSpec, LinkSpec};
use crate::trace::DropReason;

/// Sources of randomness of a link's directions.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    root: Root,
    link: &'a str,
}

impl<'a> Seeds<'a> {
    /// Creates the seeds of `link` in a run with the given root.
    pub fn new(link: &'a LinkSpec, root: Root) -> Self {
        Self { root, link: &link.name }
    }

    /// Returns the rate's stream, the same for both directions: their rates vary together. A link's trace has one for
    /// all its columns.
    fn rate(self, spec: &RateSpec) -> Stream {
        let name = if spec.is_in_step() { "trace" } else { "rate" };
        self.root.stream(&format!("links/{}/{name}", self.link))
    }

    fn queue(self, direction: Direction) -> Stream {
        self.root.stream(&format!("links/{}/{}/queue", self.link, direction.name()))
    }

    fn aggregation(self, direction: Direction) -> Stream {
        self.root.stream(&format!("links/{}/{}/aggregation", self.link, direction.name()))
    }
}

/// Overhead of an access to a medium.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Access {
    /// Time before the transmission for the radio to turn to this direction.
    pub turn: Duration,
    /// Overhead of the transmission.
    pub overhead: Duration,
}

/// Frames of one direction before their transmission.
pub(super) struct Feed {
    policer: Option<TokenBucket>,
    queue: StationQueue,
    shaper: Option<TokenBucket>,
    pace: Pace,
    aggregator: Option<Box<Aggregator<Frame>>>,
    /// Frames that the policer dropped or the aggregator gave up on, not yet taken.
    dropped: Vec<(Frame, DropReason)>,
    /// Total time on the air of all transmissions that have begun, including overhead.
    busy: Duration,
    /// Start and end of the last transmission.
    last: (Instant, Instant),
    /// Frames with payload that left the queue to be sent and were not yet taken; `None` if they are not tracked.
    begun: Option<Vec<Frame>>,
}

impl Feed {
    /// Creates a direction without frames.
    pub fn new(spec: &DirectionSpec, direction: Direction, seeds: Seeds<'_>) -> Self {
        let impairments = &spec.impairments;
        let aggregator = |spec| Box::new(Aggregator::new(spec, seeds.aggregation(direction)));
        Self {
            policer: impairments.policer.map(TokenBucket::new),
            queue: StationQueue::new(&spec.queue, || seeds.queue(direction)),
            shaper: impairments.shaper.map(TokenBucket::new),
            pace: Pace {
                time: TransmissionTime::new(spec.rate),
                varying: RateProcess::new(&impairments.rate, || seeds.rate(&impairments.rate)).map(Box::new),
            },
            aggregator: impairments.aggregation.map(aggregator),
            dropped: Vec::new(),
            busy: Duration::ZERO,
            last: (Instant::ZERO, Instant::ZERO),
            begun: None,
        }
    }

    /// Returns the time from which a frame can be sent that arrives at `now` while no other is queued or sent.
    #[inline]
    pub fn opens(&self, now: Instant) -> Instant {
        self.pace.varying.as_ref().map_or(now, |rate| rate.opens(now))
    }

    /// Returns the time on the air until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        let (start, end) = self.last;
        self.busy.saturating_sub(end.since(start.max(now)))
    }

    /// Records a transmission.
    #[inline]
    fn transmit(&mut self, start: Instant, end: Instant, bytes: u32) {
        if let Some(used) = self.pace.varying.as_ref().and_then(|rate| rate.capacity_used(bytes)) {
            (self.busy, self.last) = (self.busy + used, (end, end));
            return;
        }
        self.busy = self.busy + end.since(start);
        self.last = (start, end);
    }

    /// Starts to keep the frames with payload that leave the queue to be sent for [`Self::take_begun`].
    pub fn keep_begun(&mut self) {
        self.begun.get_or_insert_default();
    }

    /// Returns whether it keeps the frames that leave the queue to be sent.
    pub fn keeps_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Returns whether frames may be dropped after they were queued.
    pub fn drops_later(&self) -> bool {
        self.policer.is_some() || self.aggregator.is_some() || matches!(self.queue, StationQueue::Managed(_))
    }

    /// Returns a frame with payload that left the queue to be sent.
    #[inline]
    pub fn take_begun(&mut self) -> Option<Frame> {
        self.begun.as_mut()?.pop()
    }

    /// Returns whether no frame is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.aggregator.as_ref().is_none_or(|aggregator| aggregator.waiting() == 0)
    }

    /// Returns the number of frames queued.
    pub fn len(&self) -> usize {
        self.queue.len() + self.aggregator.as_ref().map_or(0, |aggregator| aggregator.waiting())
    }

    /// Queues a frame if it fits or is sent at once. `look` returns the properties of its packet.
    /// [`Self::take_dropped`] returns drops of the policer or of a managed queue.
    pub fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> View, at_once: Switch) -> Accepted {
        if let Some(policer) = &mut self.policer
            && !policer.take(now, frame.bytes())
        {
            self.dropped.push((frame, DropReason::Policer));
            return Accepted::Queued;
        }
        self.queue.push(now, frame, look, at_once)
    }

    /// Takes the next frame at `now` for a medium that sends it by itself.
    pub fn take(&mut self, now: Instant) -> Option<Frame> {
        let frame = self.queue.pop(now)?;
        note_begun(&mut self.begun, frame);
        Some(frame)
    }

    /// Sends the next frame at `now`, if any is queued, as soon as the shaper allows. Calls `on_air` for each frame
    /// that arrives at its end. Returns the time when the medium becomes free.
    #[inline]
    pub fn send(&mut self, now: Instant, access: Access, mut on_air: impl FnMut(InFlight)) -> Option<Instant> {
        if self.aggregator.is_some() {
            return self.send_aggregate(now, access, on_air);
        }
        let frame = self.take(now)?;
        let start = now + access.turn;
        let start = self.shaper.as_mut().map_or(start, |shaper| shaper.wait(start, frame.bytes()));
        let Transmission { end, free } = self.pace.send(start, frame.bytes(), access.overhead);
        on_air(InFlight { start, end, frame });
        self.transmit(start, end, frame.bytes());
        Some(self.queue.ready_at().map_or(free, |ready| free.max(ready)))
    }

    #[inline(never)]
    fn send_aggregate(&mut self, now: Instant, medium: Access, mut on_air: impl FnMut(InFlight)) -> Option<Instant> {
        let Self { queue, shaper, pace, aggregator, dropped, begun, .. } = self;
        let aggregator = aggregator.as_mut()?;
        let longest = aggregator.time();
        let source = || {
            let frame = queue.pop(now)?;
            note_begun(begun, frame);
            Some((frame, frame.bytes()))
        };
        let fits = |bytes| pace.end(now, bytes, Duration::ZERO).since(now) <= longest;
        let Aggregate { bytes, access, delivered, given_up, .. } = aggregator.aggregate(source, fits)?;
        let start = now + medium.turn;
        let start = shaper.as_mut().map_or(start, |shaper| shaper.wait(start, bytes));
        let Transmission { end, free } = pace.send(start, bytes, medium.overhead + access);
        delivered.into_iter().for_each(|frame| on_air(InFlight { start, end, frame }));
        dropped.extend(given_up.into_iter().map(|frame| (frame, DropReason::Channel)));
        self.transmit(start, end, bytes);
        Some(free)
    }

    /// Returns a frame that was dropped, and the reason.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        self.dropped.pop().or_else(|| self.queue.take_dropped())
    }

    /// Removes all queued frames, except those that a managed queue drops.
    pub fn drain(&mut self, now: Instant) -> Vec<Frame> {
        (self.busy, self.last) = (self.busy(now), (now, now));
        let mut frames = self.aggregator.as_mut().map(|aggregator| aggregator.drain()).unwrap_or_default();
        frames.extend(std::iter::from_fn(|| self.queue.pop(now)));
        frames
    }
}

/// Records that a frame has left the queue, if such frames are tracked.
#[inline]
fn note_begun(begun: &mut Option<Vec<Frame>>, frame: Frame) {
    if let Some(begun) = begun
        && frame.payload() > 0
    {
        begun.push(frame);
    }
}

/// Transmission times of frames, at a constant or a varying rate.
struct Pace {
    time: TransmissionTime,
    varying: Option<Box<RateProcess>>,
}

impl Pace {
    /// Returns the end of a transmission of `bytes` that would occupy the medium starting at `start`, with an `overhead`
    /// before the bytes.
    #[inline]
    fn end(&mut self, start: Instant, bytes: u32, overhead: Duration) -> Instant {
        match &mut self.varying {
            None => start + self.time.of(bytes) + overhead,
            Some(rate) => rate.finish(start + overhead, bytes),
        }
    }

    /// Sends `bytes`, as [`Self::end`] foretells.
    #[inline]
    fn send(&mut self, start: Instant, bytes: u32, overhead: Duration) -> Transmission {
        if let Some(rate) = &mut self.varying {
            return rate.send(start + overhead, bytes);
        }
        let end = self.end(start, bytes, overhead);
        Transmission { end, free: end }
    }
}

/// Queue in front of one direction.
enum StationQueue {
    Fifo { frames: VecDeque<Frame>, waiting: Waiting },
    Managed(FrameQueue),
}

impl StationQueue {
    fn new(spec: &QueueSpec, draws: impl FnOnce() -> Stream) -> Self {
        let limit = if let QueueSpec::Fifo(limit) = spec { *limit } else { QueueLimit::Packets(0) };
        let fifo = || Self::Fifo { frames: VecDeque::new(), waiting: Waiting::new(limit) };
        FrameQueue::new(spec, draws).map_or_else(fifo, Self::Managed)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        match self {
            Self::Fifo { frames, .. } => frames.len(),
            Self::Managed(queue) => queue.len(),
        }
    }

    /// Returns the time before which a queue with a shaper of its own sends no other frame.
    #[inline]
    fn ready_at(&self) -> Option<Instant> {
        match self {
            Self::Fifo { .. } => None,
            Self::Managed(queue) => queue.ready_at(),
        }
    }

    /// Returns a frame that a managed queue dropped.
    fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        match self {
            Self::Fifo { .. } => None,
            Self::Managed(queue) => queue.take_dropped(),
        }
    }

    /// Queues a frame if it fits or is sent at once.
    fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> View, at_once: Switch) -> Accepted {
        match self {
            Self::Fifo { frames, waiting } => {
                let urgent = frames.iter().copied().take_while(|other| other.is_urgent());
                if !at_once.is_on() && !waiting.takes(frame, urgent) {
                    return Accepted::Dropped;
                }
                waiting.enter(frame);
                if frame.is_urgent() {
                    let ahead = frames.iter().take_while(|other| other.is_urgent()).count();
                    frames.insert(ahead, frame);
                } else {
                    frames.push_back(frame);
                }
            }
            Self::Managed(queue) => queue.push(now, frame, look),
        }
        Accepted::Queued
    }

    fn pop(&mut self, now: Instant) -> Option<Frame> {
        match self {
            Self::Fifo { frames, waiting } => {
                let frame = frames.pop_front()?;
                waiting.leave(frame);
                Some(frame)
            }
            Self::Managed(queue) => queue.pop(now),
        }
    }
}
