//! Directions that choose frames at the time of transmission: managed queues (CoDel, PIE, CAKE, ...), ACK filtering,
//! policers, shapers, varying rates, aggregation.

use std::collections::VecDeque;

use lasthop_proto::queue::{ManagedQueue, QueueLimit, QueueSpec, Queued, View};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::feed::{Access, Feed, Seeds};
use super::{Accepted, Cut, Direction, Frame, InFlight};
use crate::network::LinkSpec;
use crate::trace::DropReason;

impl Queued for Frame {
    fn bytes(&self) -> u32 {
        Self::bytes(*self)
    }

    fn flow(&self) -> u32 {
        self.line()
    }

    fn mark(&mut self) -> bool {
        self.set_marked()
    }
}

/// A managed queue: urgent frames, which bypass management, precede the others.
pub struct FrameQueue {
    /// Local retransmissions and control frames, in order. At most [`MOST_URGENT`] if the queue has no limit in
    /// packets.
    urgent: VecDeque<Frame>,
    managed: ManagedQueue<Frame>,
    most_urgent: u32,
    /// Dropped frames, not yet taken.
    dropped: Vec<Frame>,
    /// Acknowledgments removed because later ones replace them, not yet taken.
    filtered: Vec<Frame>,
}

/// Maximum number of urgent frames if the queue has no limit in packets. Bounds memory; not meant to shape traffic.
const MOST_URGENT: u32 = 10_240;

impl FrameQueue {
    /// Creates the queue that `spec` describes; `None` if it is not managed. `draws` is the source of its random
    /// numbers.
    pub fn new(spec: &QueueSpec, draws: impl FnOnce() -> Stream) -> Option<Self> {
        let most_urgent = match spec.limit() {
            QueueLimit::Packets(limit) => limit,
            QueueLimit::Bytes(_) => MOST_URGENT,
        };
        let managed = ManagedQueue::new(spec, draws)?;
        Some(Self { urgent: VecDeque::new(), managed, most_urgent, dropped: Vec::new(), filtered: Vec::new() })
    }

    /// Returns the number of frames queued.
    pub fn len(&self) -> usize {
        self.urgent.len() + self.managed.backlog().packets as usize
    }

    /// Queues a frame. `look` returns the properties of its packet.
    pub fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> View) {
        if !frame.is_urgent() {
            let before = self.dropped.len();
            self.managed.push_seen(now, frame, look, &mut self.dropped, &mut self.filtered);
            if let ManagedQueue::AckAware(_) = self.managed {
                // This queue drops the new frame, or frames that the new one replaces.
                let came = self.dropped.last().is_some_and(|last| last.handle() == frame.handle());
                let end = self.dropped.len() - usize::from(came);
                self.filtered.extend(self.dropped.drain(before.min(end)..end));
            }
        } else if self.urgent.len() < self.most_urgent as usize {
            self.urgent.push_back(frame);
        } else {
            self.dropped.push(frame);
        }
    }

    /// Returns the frame to send at `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Frame> {
        let Some(frame) = self.urgent.pop_front() else { return self.managed.pop(now, &mut self.dropped) };
        self.managed.on_preceded(frame.bytes());
        Some(frame)
    }

    /// Returns the time before which the queue sends no other frame.
    #[inline]
    pub fn ready_at(&self) -> Option<Instant> {
        self.managed.ready_at()
    }

    /// Returns a frame that was dropped, and the reason.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        if let Some(frame) = self.dropped.pop() {
            return Some((frame, DropReason::Aqm));
        }
        self.filtered.pop().map(|frame| (frame, DropReason::Filtered))
    }
}

/// One direction of a duplex link that chooses each frame at the time of its transmission. Needs an event when a frame
/// has left.
pub struct ManagedDirection {
    feed: Feed,
    /// Frames on the wire or propagating, in order.
    frames: VecDeque<InFlight>,
    busy_until: Instant,
    delay: Duration,
}

impl ManagedDirection {
    /// Creates a direction of a link without frames.
    pub fn new(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        Self {
            feed: Feed::new(&link.directions[direction.index()], direction, Seeds::new(link, root)),
            frames: VecDeque::new(),
            busy_until: Instant::ZERO,
            delay: link.delay,
        }
    }

    /// Starts to keep the frames with payload that begin transmission for [`Self::take_begun`].
    pub fn keep_begun(&mut self) {
        self.feed.keep_begun();
    }

    /// Returns whether it keeps the frames that begin transmission.
    pub fn keeps_begun(&self) -> bool {
        self.feed.keeps_begun()
    }

    /// Returns whether frames may be dropped after they were queued.
    pub fn drops_later(&self) -> bool {
        self.feed.drops_later()
    }

    /// Returns a frame with payload that began transmission.
    pub fn take_begun(&mut self) -> Option<Frame> {
        self.feed.take_begun()
    }

    /// Returns the time for which it has transmitted until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        self.feed.busy(now)
    }

    /// Queues a frame. `look` returns the properties of its packet. [`Self::take_dropped`] returns the frames dropped
    /// for it, possibly itself.
    pub fn enqueue(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> View) -> Accepted {
        self.start(now);
        // Nothing is queued if the direction is free.
        let begins = if self.busy_until <= now { self.feed.opens(now) } else { self.busy_until };
        let at_once = if begins <= now { Switch::On } else { Switch::Off };
        if self.feed.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        // An idle direction sends the frame at once, or at the next opportunity.
        self.busy_until = begins;
        self.start(now);
        self.poll_deadline().map_or(Accepted::Queued, Accepted::Next)
    }

    /// Starts the transmissions due by `now`.
    fn start(&mut self, now: Instant) {
        let Self { feed, frames, busy_until, .. } = self;
        while *busy_until <= now
            && let Some(end) = feed.send(*busy_until, Access::default(), |sent| frames.push_back(sent))
        {
            *busy_until = end;
        }
    }

    /// Removes all frames, except those that the queue drops.
    pub fn cut(&mut self, now: Instant) -> Cut {
        let sent = self.frames.drain(..).map(|sent| sent.frame).collect();
        self.busy_until = now;
        Cut { sent, waiting: self.feed.drain(now) }
    }

    /// Returns a frame that was dropped, and the reason.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        self.feed.take_dropped()
    }

    /// Returns the number of frames queued.
    pub fn waiting(&self) -> usize {
        self.feed.len()
    }

    /// Returns the number of frames queued, on the wire or propagating.
    pub fn held(&self) -> usize {
        self.feed.len() + self.frames.len()
    }

    /// Returns the time of the next event: a frame has left and another is queued, or one arrives.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let arrival = self.frames.front().map(|sent| sent.end + self.delay);
        let turn = (!self.feed.is_empty()).then_some(self.busy_until);
        match (arrival, turn) {
            (Some(arrival), Some(turn)) => Some(arrival.min(turn)),
            (arrival, turn) => arrival.or(turn),
        }
    }

    /// Processes the events due at `now`. Returns the frame that arrives, if any.
    pub fn advance(&mut self, now: Instant) -> Option<InFlight> {
        self.start(now);
        let arrives = self.frames.front().is_some_and(|sent| sent.end + self.delay <= now);
        if arrives { self.frames.pop_front() } else { None }
    }
}
