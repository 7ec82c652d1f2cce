//! Half-duplex media: both ends of a link share the time on the air.

use std::collections::VecDeque;

use lasthop_proto::queue::{QueueLimit, QueueSpec};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::{Accepted, Direction, Frame, FrameQueue, InFlight, TransmissionTime, Waiting};
use crate::network::DirectionSpec;

/// One direction of a shared medium.
struct Station {
    time: TransmissionTime,
    queue: StationQueue,
    propagating: VecDeque<InFlight>,
}

/// What waits at a station.
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
        match self {
            Self::Fifo { frames, .. } => frames.is_empty(),
            Self::Managed(queue) => queue.is_empty(),
        }
    }

    /// Takes a frame in, if there is room for it or it goes at once.
    fn push(&mut self, now: Instant, frame: Frame, at_once: Switch) -> Accepted {
        match self {
            Self::Fifo { waiting, .. } if !at_once.is_on() && !waiting.has_room(frame.bytes()) => {
                return Accepted::Dropped;
            }
            Self::Fifo { frames, waiting } => {
                waiting.add(frame.bytes());
                if frame.is_urgent() {
                    let ahead = frames.iter().take_while(|other| other.is_urgent()).count();
                    frames.insert(ahead, frame);
                } else {
                    frames.push_back(frame);
                }
            }
            Self::Managed(queue) => queue.push(now, frame),
        }
        Accepted::Queued
    }

    fn pop(&mut self, now: Instant) -> Option<Frame> {
        match self {
            Self::Fifo { frames, waiting } => {
                let frame = frames.pop_front()?;
                waiting.remove(frame.bytes());
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
    stations: [Station; 2],
    on_air: Option<(Direction, InFlight)>,
}

impl SharedMedium {
    /// A medium without frames.
    pub fn new(specs: &[DirectionSpec; 2], delay: Duration, frame_overhead: Duration) -> Self {
        let station = |spec: &DirectionSpec| Station {
            time: TransmissionTime::new(spec.rate),
            queue: StationQueue::new(&spec.queue),
            propagating: VecDeque::new(),
        };
        let stations = [station(&specs[0]), station(&specs[1])];
        Self { delay, frame_overhead, stations, on_air: None }
    }

    /// Takes a packet to send.
    pub fn enqueue(&mut self, now: Instant, direction: Direction, frame: Frame) -> Accepted {
        let idle = self.on_air.is_none();
        let at_once = if idle { Switch::On } else { Switch::Off };
        if self.stations[direction.index()].queue.push(now, frame, at_once) == Accepted::Dropped {
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

    /// A frame that a managed queue dropped, and which way it was to go.
    pub fn take_dropped(&mut self) -> Option<(Direction, Frame)> {
        [Direction::Down, Direction::Up].into_iter().find_map(|direction| {
            match &mut self.stations[direction.index()].queue {
                StationQueue::Fifo { .. } => None,
                StationQueue::Managed(queue) => Some((direction, queue.take_dropped()?)),
            }
        })
    }

    fn transmit(&mut self, now: Instant, direction: Direction) {
        let station = &mut self.stations[direction.index()];
        if let Some(frame) = station.queue.pop(now) {
            let end = now + station.time.of(frame.bytes()) + self.frame_overhead;
            self.on_air = Some((direction, InFlight { start: now, end, frame }));
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
