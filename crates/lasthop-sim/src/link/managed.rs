//! Directions whose queue decides about a frame when its turn comes (CoDel, FQ-CoDel), not when it is handed in.

use std::collections::VecDeque;

use lasthop_proto::queue::{ManagedQueue, QueueLimit, QueueSpec, Queued};
use lasthop_proto::time::{Duration, Instant};

use super::{Accepted, Frame, InFlight, TransmissionTime};
use crate::network::DirectionSpec;

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
}

/// Most urgent frames that wait where the queue has no limit in packets: what bounds memory, not what shapes traffic.
const MOST_URGENT: u32 = 10_240;

impl FrameQueue {
    /// The queue that `spec` describes; `None` for one without management.
    pub fn new(spec: &QueueSpec) -> Option<Self> {
        let most_urgent = match spec {
            QueueSpec::FqCoDel(config) => config.limit,
            QueueSpec::CoDel(QueueLimit::Packets(limit), _) => *limit,
            QueueSpec::CoDel(..) | QueueSpec::Fifo(_) => MOST_URGENT,
        };
        let managed = ManagedQueue::new(spec)?;
        Some(Self { urgent: VecDeque::new(), managed, most_urgent, dropped: Vec::new() })
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.managed.backlog().packets == 0
    }

    /// Takes a frame in.
    pub fn push(&mut self, now: Instant, frame: Frame) {
        if !frame.is_urgent() {
            self.managed.push(now, frame, &mut self.dropped);
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

    /// A frame that was dropped.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Frame> {
        self.dropped.pop()
    }
}

/// One direction of a duplex link with a managed queue. It needs an event when a frame has left, for the queue decides then
/// what follows.
pub struct ManagedDirection {
    queue: FrameQueue,
    /// On the wire or propagating, in order.
    frames: VecDeque<InFlight>,
    busy_until: Instant,
    delay: Duration,
    time: TransmissionTime,
}

impl ManagedDirection {
    /// A direction without frames; `None` when its queue needs no management.
    pub fn new(spec: &DirectionSpec, delay: Duration) -> Option<Self> {
        Some(Self {
            queue: FrameQueue::new(&spec.queue)?,
            frames: VecDeque::new(),
            busy_until: Instant::ZERO,
            delay,
            time: TransmissionTime::new(spec.rate),
        })
    }

    /// Takes a frame to send. What is dropped for it, itself perhaps, is in [`Self::take_dropped`].
    pub fn enqueue(&mut self, now: Instant, frame: Frame) -> Accepted {
        self.start(now);
        self.queue.push(now, frame);
        // If it was idle, what came goes at once.
        self.busy_until = self.busy_until.max(now);
        self.start(now);
        self.next_event().map_or(Accepted::Queued, Accepted::Next)
    }

    /// Lets those frames begin whose turn comes by `now`.
    fn start(&mut self, now: Instant) {
        while self.busy_until <= now
            && let Some(frame) = self.queue.pop(self.busy_until)
        {
            let (start, end) = (self.busy_until, self.busy_until + self.time.of(frame.bytes()));
            self.frames.push_back(InFlight { start, end, frame });
            self.busy_until = end;
        }
    }

    /// A frame that the queue dropped.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Frame> {
        self.queue.take_dropped()
    }

    /// When something happens next: a frame has left and another waits, or one arrives.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = self.frames.front().map(|sent| sent.end + self.delay);
        let turn = (!self.queue.is_empty()).then_some(self.busy_until);
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
