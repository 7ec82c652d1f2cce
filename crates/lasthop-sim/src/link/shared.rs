//! Half-duplex media: both ends of a link share the time on the air.

use std::collections::VecDeque;

use lasthop_proto::queue::{QueueLimit, QueueSpec, Sight};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::{Accepted, Cut, Direction, Frame, FrameQueue, InFlight, TransmissionTime, Waiting};
use crate::network::DirectionSpec;
use crate::trace::DropReason;

/// One direction of a shared medium.
pub(super) struct Station {
    pub time: TransmissionTime,
    pub queue: StationQueue,
    /// What has left the air, in order.
    pub propagating: VecDeque<InFlight>,
    /// Time on the air of all transmissions that have begun, with the overhead of each frame.
    pub busy: Duration,
}

impl Station {
    /// One that has nothing to send.
    pub fn new(spec: &DirectionSpec) -> Self {
        Self {
            time: TransmissionTime::new(spec.rate),
            queue: StationQueue::new(&spec.queue),
            propagating: VecDeque::new(),
            busy: Duration::ZERO,
        }
    }

    /// A transmission begins.
    pub fn transmits(&mut self, sent: InFlight) -> InFlight {
        self.busy = self.busy + sent.end.since(sent.start);
        sent
    }
}

/// What waits at a station.
pub(super) enum StationQueue {
    Fifo { frames: VecDeque<Frame>, waiting: Waiting },
    Managed(FrameQueue),
}

impl StationQueue {
    fn new(spec: &QueueSpec) -> Self {
        let limit = if let QueueSpec::Fifo(limit) = spec { *limit } else { QueueLimit::Packets(0) };
        let fifo = || Self::Fifo { frames: VecDeque::new(), waiting: Waiting::new(limit) };
        FrameQueue::new(spec).map_or_else(fifo, Self::Managed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Fifo { frames, .. } => frames.len(),
            Self::Managed(queue) => queue.len(),
        }
    }

    /// A frame that a managed queue dropped.
    pub fn take_dropped(&mut self) -> Option<(Frame, DropReason)> {
        match self {
            Self::Fifo { .. } => None,
            Self::Managed(queue) => queue.take_dropped(),
        }
    }

    /// Takes a frame in, if there is room for it or it goes at once.
    pub fn push(&mut self, now: Instant, frame: Frame, look: impl FnOnce() -> Sight, at_once: Switch) -> Accepted {
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

    pub fn pop(&mut self, now: Instant) -> Option<Frame> {
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

/// A half-duplex medium: the two stations take turns while both have frames.
pub struct SharedMedium {
    delay: Duration,
    frame_overhead: Duration,
    turnaround: Duration,
    /// Which way the last frame went.
    last: Option<Direction>,
    stations: [Station; 2],
    on_air: Option<(Direction, InFlight)>,
}

impl SharedMedium {
    /// A medium without frames.
    pub fn new(specs: &[DirectionSpec; 2], delay: Duration, frame_overhead: Duration) -> Self {
        Self::turning(specs, delay, frame_overhead, Duration::ZERO)
    }

    /// The same whose radios take `turnaround` to turn from one direction to the other.
    pub fn turning(
        specs: &[DirectionSpec; 2],
        delay: Duration,
        frame_overhead: Duration,
        turnaround: Duration,
    ) -> Self {
        let stations = specs.each_ref().map(Station::new);
        Self { delay, frame_overhead, turnaround, last: None, stations, on_air: None }
    }

    /// Takes a packet to send, which shows what `look` sees.
    pub fn enqueue(
        &mut self,
        now: Instant,
        direction: Direction,
        frame: Frame,
        look: impl FnOnce() -> Sight,
    ) -> Accepted {
        let idle = self.on_air.is_none();
        let at_once = if idle { Switch::On } else { Switch::Off };
        if self.stations[direction.index()].queue.push(now, frame, look, at_once) == Accepted::Dropped {
            return Accepted::Dropped;
        }
        if idle {
            self.transmit(now, direction);
        }
        match self.next_event() {
            Some(at) if idle => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    /// A frame that a managed queue dropped, which way it was to go, and why it was dropped.
    pub fn take_dropped(&mut self) -> Option<(Direction, Frame, DropReason)> {
        [Direction::Down, Direction::Up].into_iter().find_map(|direction| {
            let (frame, why) = self.stations[direction.index()].queue.take_dropped()?;
            Some((direction, frame, why))
        })
    }

    /// Frames that wait to go in a direction.
    pub fn waiting(&self, direction: Direction) -> usize {
        self.stations[direction.index()].queue.len()
    }

    /// Time for which it has been on the air in a direction until `now`.
    pub fn busy(&self, now: Instant, direction: Direction) -> Duration {
        let on_air = self.on_air.filter(|(on_air, _)| *on_air == direction);
        let later = on_air.map_or(Duration::ZERO, |(_, sent)| sent.after(now));
        self.stations[direction.index()].busy.saturating_sub(later)
    }

    /// Takes out all frames of a direction, but for those that a managed queue drops. Nothing moves before the other direction is empty
    /// too.
    pub fn cut(&mut self, now: Instant, direction: Direction) -> Cut {
        self.stations[direction.index()].busy = self.busy(now, direction);
        let station = &mut self.stations[direction.index()];
        let mut sent: Vec<Frame> = station.propagating.drain(..).map(|sent| sent.frame).collect();
        let waiting = std::iter::from_fn(|| station.queue.pop(now)).collect();
        sent.extend(self.on_air.take_if(|(on_air, _)| *on_air == direction).map(|(_, sent)| sent.frame));
        Cut { sent, waiting }
    }

    fn transmit(&mut self, now: Instant, direction: Direction) {
        let station = &mut self.stations[direction.index()];
        if let Some(frame) = station.queue.pop(now) {
            let turns = self.last.is_some_and(|last| last != direction);
            let start = if turns { now + self.turnaround } else { now };
            let end = start + station.time.of(frame.bytes()) + self.frame_overhead;
            self.last = Some(direction);
            self.on_air = Some((direction, station.transmits(InFlight { start, end, frame })));
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let arrivals = self.stations.iter().filter_map(|station| station.propagating.front());
        let arrivals = arrivals.map(|sent| sent.end + self.delay);
        arrivals.chain(self.on_air.iter().map(|(_, sent)| sent.end)).min()
    }

    /// Acts on what is due at `now`; `None` when nothing arrived by it.
    pub fn advance(&mut self, now: Instant) -> Option<(Direction, InFlight)> {
        if let Some((direction, sent)) = self.on_air
            && sent.end <= now
        {
            self.on_air = None;
            self.stations[direction.index()].propagating.push_back(sent);
            let waits = !self.stations[direction.other().index()].queue.is_empty();
            let first = if waits { direction.other() } else { direction };
            self.transmit(sent.end, first);
            if self.on_air.is_none() {
                // All that waited there was dropped.
                self.transmit(sent.end, first.other());
            }
        }
        for direction in [Direction::Down, Direction::Up] {
            let station = &mut self.stations[direction.index()];
            if let Some(sent) = station.propagating.front().copied()
                && sent.end + self.delay <= now
            {
                station.propagating.pop_front();
                return Some((direction, sent));
            }
        }
        None
    }
}
