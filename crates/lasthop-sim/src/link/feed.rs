//! What one direction sends next, and when: a policer, a queue, a shaper, aggregation, and the rate of the time.

use std::collections::VecDeque;

use lasthop_proto::bucket::TokenBucket;
use lasthop_proto::link::aggregation::{Aggregate, Aggregator};
use lasthop_proto::queue::{QueueLimit, QueueSpec, Sight};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::rate::RateProcess;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::{Accepted, Direction, Frame, FrameQueue, InFlight, TransmissionTime, Waiting};
use crate::network::{DirectionSpec, LinkSpec};
use crate::trace::DropReason;

/// Where the randomness of a link's directions comes from.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    root: Root,
    link: &'a str,
}

impl<'a> Seeds<'a> {
    /// Of `link`, in the run whose randomness has `root`.
    pub fn new(link: &'a LinkSpec, root: Root) -> Self {
        Self { root, link: &link.name }
    }

    /// The rate's, the same for both directions: they move together.
    fn rate(self) -> Stream {
        self.root.stream(&format!("links/{}/rate", self.link))
    }

    fn aggregation(self, direction: Direction) -> Stream {
        self.root.stream(&format!("links/{}/{}/aggregation", self.link, direction.name()))
    }
}

/// What each access to a medium takes besides the bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Access {
    /// Before the transmission: until the radio has turned to this direction.
    pub turn: Duration,
    /// Of the transmission.
    pub overhead: Duration,
}

/// One direction's frames up to the air.
pub(super) struct Feed {
    policer: Option<TokenBucket>,
    queue: StationQueue,
    shaper: Option<TokenBucket>,
    pace: Pace,
    aggregator: Option<Box<Aggregator<Frame>>>,
    /// Frames that the policer dropped, or the aggregator gave up, and nobody asked for yet.
    dropped: Vec<(Frame, DropReason)>,
    /// Time on the air of all transmissions that have begun, with what each takes besides its bytes.
    busy: Duration,
    /// The last transmission: when it began, and when it ends.
    last: (Instant, Instant),
    /// Frames that left the queue to be sent and were not asked for yet, where somebody asks.
    begun: Option<Vec<Frame>>,
}

impl Feed {
    /// One that has nothing to send.
    pub fn new(spec: &DirectionSpec, direction: Direction, seeds: Seeds<'_>) -> Self {
        let impairments = &spec.impairments;
        let aggregator = |spec| Box::new(Aggregator::new(spec, seeds.aggregation(direction)));
        Self {
            policer: impairments.policer.map(TokenBucket::new),
            queue: StationQueue::new(&spec.queue),
            shaper: impairments.shaper.map(TokenBucket::new),
            pace: Pace {
                time: TransmissionTime::new(spec.rate),
                varying: RateProcess::new(&impairments.rate, || seeds.rate()).map(Box::new),
            },
            aggregator: impairments.aggregation.map(aggregator),
            dropped: Vec::new(),
            busy: Duration::ZERO,
            last: (Instant::ZERO, Instant::ZERO),
            begun: None,
        }
    }

    /// Time on the air until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        let (start, end) = self.last;
        self.busy.saturating_sub(end.since(start.max(now)))
    }

    /// Takes note of a transmission.
    #[inline]
    fn transmit(&mut self, start: Instant, end: Instant) {
        self.busy = self.busy + end.since(start);
        self.last = (start, end);
    }

    /// Keeps the frames that leave the queue to be sent for [`Self::take_begun`] from now on.
    pub fn keep_begun(&mut self) {
        self.begun.get_or_insert_default();
    }

    /// A frame that left the queue to be sent.
    pub fn take_begun(&mut self) -> Option<Frame> {
        self.begun.as_mut()?.pop()
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.aggregator.as_ref().is_none_or(|aggregator| aggregator.waiting() == 0)
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.queue.len() + self.aggregator.as_ref().map_or(0, |aggregator| aggregator.waiting())
    }

    /// Takes a frame in, which shows what `look` sees, if there is room for it or it goes at once. What the policer or a managed queue
    /// drops is in [`Self::take_dropped`].
    pub fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight, at_once: Switch) -> Accepted {
        if let Some(policer) = &mut self.policer
            && !policer.take(now, frame.bytes())
        {
            self.dropped.push((frame, DropReason::Policer));
            return Accepted::Queued;
        }
        self.queue.push(now, frame, look, at_once)
    }

    /// Sends what is next at `now`, if anything waits, as soon as the shaper lets it pass. Gives `on_air` each frame that arrives at its
    /// end, and says when the medium is free.
    #[inline]
    pub fn send(&mut self, now: Instant, access: Access, mut on_air: impl FnMut(InFlight)) -> Option<Instant> {
        if self.aggregator.is_some() {
            return self.send_aggregate(now, access, on_air);
        }
        let frame = self.queue.pop(now)?;
        if let Some(begun) = &mut self.begun {
            begun.push(frame);
        }
        let start = now + access.turn;
        let start = self.shaper.as_mut().map_or(start, |shaper| shaper.wait(start, frame.bytes()));
        let end = self.pace.end(start, frame.bytes(), access.overhead);
        on_air(InFlight { start, end, frame });
        self.transmit(start, end);
        Some(end)
    }

    #[inline(never)]
    fn send_aggregate(&mut self, now: Instant, medium: Access, mut on_air: impl FnMut(InFlight)) -> Option<Instant> {
        let Self { queue, shaper, pace, aggregator, dropped, begun, .. } = self;
        let aggregator = aggregator.as_mut()?;
        let longest = aggregator.time();
        let source = || {
            let frame = queue.pop(now)?;
            if let Some(begun) = begun {
                begun.push(frame);
            }
            Some((frame, frame.bytes()))
        };
        let fits = |bytes| pace.end(now, bytes, Duration::ZERO).since(now) <= longest;
        let Aggregate { bytes, access, delivered, given_up, .. } = aggregator.aggregate(source, fits)?;
        let start = now + medium.turn;
        let start = shaper.as_mut().map_or(start, |shaper| shaper.wait(start, bytes));
        let end = pace.end(start, bytes, medium.overhead + access);
        delivered.into_iter().for_each(|frame| on_air(InFlight { start, end, frame }));
        dropped.extend(given_up.into_iter().map(|frame| (frame, DropReason::Channel)));
        self.transmit(start, end);
        Some(end)
    }

    /// A frame that was dropped, and why.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        self.dropped.pop().or_else(|| self.queue.take_dropped())
    }

    /// Takes out all that wait, but for those that a managed queue drops.
    pub fn drain(&mut self, now: Instant) -> Vec<Frame> {
        (self.busy, self.last) = (self.busy(now), (now, now));
        let mut frames = self.aggregator.as_mut().map(|aggregator| aggregator.drain()).unwrap_or_default();
        frames.extend(std::iter::from_fn(|| self.queue.pop(now)));
        frames
    }
}

/// How long frames take, at a constant rate or at that of the time.
struct Pace {
    time: TransmissionTime,
    varying: Option<Box<RateProcess>>,
}

impl Pace {
    /// When `bytes` are sent that take the medium from `start` on, for `overhead` before them.
    #[inline]
    fn end(&mut self, start: Instant, bytes: u32, overhead: Duration) -> Instant {
        match &mut self.varying {
            None => start + self.time.of(bytes) + overhead,
            Some(rate) => rate.finish(start + overhead, bytes),
        }
    }
}

/// What waits in front of one direction.
enum StationQueue {
    Fifo { frames: VecDeque<Frame>, waiting: Waiting },
    Managed(FrameQueue),
}

impl StationQueue {
    fn new(spec: &QueueSpec) -> Self {
        let limit = if let QueueSpec::Fifo(limit) = spec { *limit } else { QueueLimit::Packets(0) };
        let fifo = || Self::Fifo { frames: VecDeque::new(), waiting: Waiting::new(limit) };
        FrameQueue::new(spec).map_or_else(fifo, Self::Managed)
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

    /// A frame that a managed queue dropped.
    fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        match self {
            Self::Fifo { .. } => None,
            Self::Managed(queue) => queue.take_dropped(),
        }
    }

    /// Takes a frame in, if there is room for it or it goes at once.
    fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight, at_once: Switch) -> Accepted {
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
