//! Directions that decide about a frame when its turn comes: by a managed queue (CoDel, FQ-CoDel), by one that takes out others for it
//! (ACK filtering), by a policer or shaper, at a rate that varies, or in aggregates.

use std::collections::VecDeque;

use lasthop_proto::queue::{AckAwareConfig, ManagedQueue, QueueLimit, QueueSpec, Queued, Sight};
use lasthop_proto::random::Root;
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

/// What waits under management: urgent frames, which nothing manages, and behind them the rest.
pub struct FrameQueue {
    /// Local retransmissions and control frames, in order. The limit of a queue without a limit in packets is
    /// [`MOST_URGENT`].
    urgent: VecDeque<Frame>,
    managed: ManagedQueue<Frame>,
    most_urgent: u32,
    /// Frames that were dropped and not asked for yet.
    dropped: Vec<Frame>,
    /// The same of acknowledgments that others made superfluous.
    filtered: Vec<Frame>,
}

/// Most urgent frames that wait where the queue has no limit in packets: what bounds memory, not what shapes traffic.
const MOST_URGENT: u32 = 10_240;

impl FrameQueue {
    /// The queue that `spec` describes; `None` for one without management.
    pub fn new(spec: &QueueSpec) -> Option<Self> {
        let most_urgent = match spec {
            QueueSpec::FqCoDel(config) => config.limit,
            QueueSpec::CoDel(QueueLimit::Packets(limit), _) => *limit,
            QueueSpec::AckAware(AckAwareConfig { limit: QueueLimit::Packets(limit), .. }) => *limit,
            QueueSpec::CoDel(..) | QueueSpec::AckAware(_) | QueueSpec::Fifo(_) => MOST_URGENT,
        };
        let managed = ManagedQueue::new(spec)?;
        Some(Self { urgent: VecDeque::new(), managed, most_urgent, dropped: Vec::new(), filtered: Vec::new() })
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.managed.backlog().packets == 0
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.urgent.len() + self.managed.backlog().packets as usize
    }

    /// Takes a frame in, which shows what `look` sees.
    pub fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight) {
        if !frame.is_urgent() {
            let before = self.dropped.len();
            self.managed.push_seen(now, frame, look, &mut self.dropped);
            if let ManagedQueue::AckAware(_) = self.managed {
                // It drops what comes, or what that makes superfluous.
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

    /// The frame to send at `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Frame> {
        self.urgent.pop_front().or_else(|| self.managed.pop(now, &mut self.dropped))
    }

    /// A frame that was dropped, and why.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        if let Some(frame) = self.dropped.pop() {
            return Some((frame, DropReason::Aqm));
        }
        self.filtered.pop().map(|frame| (frame, DropReason::Filtered))
    }
}

/// One direction of a duplex link that decides about each frame when its turn comes. It needs an event when a frame has left.
pub struct ManagedDirection {
    feed: Feed,
    /// On the wire or propagating, in order.
    frames: VecDeque<InFlight>,
    busy_until: Instant,
    delay: Duration,
}

impl ManagedDirection {
    /// A direction of a link without frames.
    pub fn new(link: &LinkSpec, direction: Direction, root: Root) -> Self {
        Self {
            feed: Feed::new(&link.directions[direction.index()], direction, Seeds::new(link, root)),
            frames: VecDeque::new(),
            busy_until: Instant::ZERO,
            delay: link.delay,
        }
    }

    /// Keeps the frames that begin transmission for [`Self::take_begun`] from now on.
    pub fn keep_begun(&mut self) {
        self.feed.keep_begun();
    }

    /// A frame that began transmission.
    pub fn take_begun(&mut self) -> Option<Frame> {
        self.feed.take_begun()
    }

    /// Time for which it has transmitted until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        self.feed.busy(now)
    }

    /// Takes a frame to send, which shows what `look` sees. What is dropped for it, itself perhaps, is in [`Self::take_dropped`].
    pub fn enqueue(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight) -> Accepted {
        self.start(now);
        let at_once = if self.busy_until <= now { Switch::On } else { Switch::Off };
        if self.feed.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        // If it was idle, what came goes at once.
        self.busy_until = self.busy_until.max(now);
        self.start(now);
        self.next_event().map_or(Accepted::Queued, Accepted::Next)
    }

    /// Lets those frames begin whose turn comes by `now`.
    fn start(&mut self, now: Instant) {
        let Self { feed, frames, busy_until, .. } = self;
        while *busy_until <= now
            && let Some(end) = feed.send(*busy_until, Access::default(), |sent| frames.push_back(sent))
        {
            *busy_until = end;
        }
    }

    /// Takes out all frames, but for those that the queue drops.
    pub fn cut(&mut self, now: Instant) -> Cut {
        let sent = self.frames.drain(..).map(|sent| sent.frame).collect();
        self.busy_until = now;
        Cut { sent, waiting: self.feed.drain(now) }
    }

    /// A frame that was dropped, and why.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        self.feed.take_dropped()
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.feed.len()
    }

    /// Returns how many frames wait, are on the wire or propagate.
    pub fn held(&self) -> usize {
        self.feed.len() + self.frames.len()
    }

    /// When something happens next: a frame has left and another waits, or one arrives.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = self.frames.front().map(|sent| sent.end + self.delay);
        let turn = (!self.feed.is_empty()).then_some(self.busy_until);
        match (arrival, turn) {
            (Some(arrival), Some(turn)) => Some(arrival.min(turn)),
            (arrival, turn) => arrival.or(turn),
        }
    }

    /// Acts on what is due at `now`; the frame that arrives, if one does.
    pub fn advance(&mut self, now: Instant) -> Option<InFlight> {
        self.start(now);
        let arrives = self.frames.front().is_some_and(|sent| sent.end + self.delay <= now);
        if arrives { self.frames.pop_front() } else { None }
    }
}
