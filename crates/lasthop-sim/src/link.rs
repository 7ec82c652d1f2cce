//! Links: queues, transmission, propagation, and what the channel does to frames.
//!
//! A duplex direction needs one event per frame, its arrival: since frames leave in order, the time at which a frame will
//! be on the wire is known when it is queued. A half-duplex medium decides frame by frame who sends next.

use std::collections::VecDeque;

use lasthop_proto::channel::{Channel, Fate};
use lasthop_proto::packet::{Integrity, Packet, Priority};
use lasthop_proto::random::Root;
use lasthop_proto::time::{Duration, Instant};

use crate::network::{DamagedFrames, DirectionSpec, LinkSpec, Medium, QueueLimit, Rate};
use crate::pool::{Handle, PacketPool};

/// "Down" is from a link's first end to its second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// First end to second.
    Down,
    /// Second end to first.
    Up,
}

impl Direction {
    /// 0 for down, 1 for up.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn other(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }
}

/// What became of a packet given to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// It waits or is on its way, behind others.
    Queued,
    /// It is what happens next on this link, at that time.
    Next(Instant),
    /// The queue was full.
    Dropped,
}

/// What a link needs to know of a packet, small enough to travel in registers.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    handle: Handle,
    /// Length, and in the highest bit whether it is urgent.
    bytes: u32,
}

const URGENT: u32 = 1 << 31;

impl Frame {
    /// The frame that carries `packet`, which is in the pool under `handle`.
    #[inline]
    pub fn new(handle: Handle, packet: &Packet) -> Self {
        let urgent = if packet.priority == Priority::Urgent { URGENT } else { 0 };
        Self { handle, bytes: packet.wire_len() & !URGENT | urgent }
    }

    #[inline]
    fn bytes(self) -> u32 {
        self.bytes & !URGENT
    }

    #[inline]
    fn is_urgent(self) -> bool {
        self.bytes & URGENT != 0
    }
}

/// A frame at the far end of its link.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// To be handed to the node there.
    Delivered(Direction, Handle),
    /// The channel destroyed it.
    Lost(Direction, Handle),
}

/// A link at work.
#[expect(clippy::large_enum_variant, reason = "duplex links are the frequent ones, and networks have few links")]
pub enum Link {
    /// Both ends send at once.
    Duplex([DuplexDirection; 2]),
    /// One frame at a time.
    HalfDuplex(Box<SharedMedium>),
}

impl Link {
    /// A link whose error processes draw from `links/NAME/down/errors` and `links/NAME/up/errors`.
    pub fn new(spec: &LinkSpec, root: Root) -> Self {
        let errors = |direction: &str, spec_direction: &DirectionSpec| {
            let stream = root.stream(&format!("links/{}/{direction}/errors", spec.name));
            Errors { channel: Channel::new(&spec_direction.errors, stream), damaged: spec_direction.damaged }
        };
        let [down, up] = &spec.directions;
        let errors = [errors("down", down), errors("up", up)];
        match spec.medium {
            Medium::Duplex => {
                let [down_errors, up_errors] = errors;
                Self::Duplex([
                    DuplexDirection::new(down, spec.delay, down_errors),
                    DuplexDirection::new(up, spec.delay, up_errors),
                ])
            }
            Medium::HalfDuplex { frame_overhead } => {
                Self::HalfDuplex(Box::new(SharedMedium::new(&spec.directions, spec.delay, frame_overhead, errors)))
            }
        }
    }

    /// Takes a packet to send.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, direction: Direction, frame: Frame) -> Accepted {
        match self {
            Self::Duplex(directions) => directions[direction.index()].enqueue(now, frame),
            Self::HalfDuplex(medium) => medium.enqueue(now, direction, frame),
        }
    }

    /// When something happens next in `direction`. A shared medium answers under [`Direction::Down`] for both.
    #[inline]
    pub fn next_event(&self, direction: Direction) -> Option<Instant> {
        match self {
            Self::Duplex(directions) => directions[direction.index()].next_event(),
            Self::HalfDuplex(medium) if direction == Direction::Down => medium.next_event(),
            Self::HalfDuplex(_) => None,
        }
    }

    /// The event source that [`Link::enqueue`] in `direction` stirs.
    #[inline]
    pub fn source_direction(&self, direction: Direction) -> Direction {
        match self {
            Self::Duplex(_) => direction,
            Self::HalfDuplex(_) => Direction::Down,
        }
    }

    /// Acts on what is due at `now`; `None` when nothing arrived by it.
    #[inline]
    pub fn advance(&mut self, now: Instant, direction: Direction, pool: &mut PacketPool) -> Option<Arrival> {
        match self {
            Self::Duplex(directions) => directions[direction.index()].arrive(now, direction, pool),
            Self::HalfDuplex(medium) => medium.advance(now, pool),
        }
    }
}

struct Errors {
    channel: Channel,
    damaged: DamagedFrames,
}

impl Errors {
    #[inline]
    fn judge(&mut self, sent: InFlight, direction: Direction, pool: &mut PacketPool) -> Arrival {
        let handle = sent.frame.handle;
        match self.channel.judge(pool.get(handle), sent.start, sent.end) {
            Fate::Delivered => Arrival::Delivered(direction, handle),
            Fate::Damaged if self.damaged == DamagedFrames::Deliver => {
                pool.get_mut(handle).integrity = Integrity::PayloadDamaged;
                Arrival::Delivered(direction, handle)
            }
            Fate::Damaged | Fate::Lost => Arrival::Lost(direction, handle),
        }
    }
}

/// What waits, against its limit.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packets: u32,
    bytes: u64,
    limit: QueueLimit,
}

impl Waiting {
    fn new(limit: QueueLimit) -> Self {
        Self { packets: 0, bytes: 0, limit }
    }

    #[inline]
    fn has_room(&self, bytes: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => self.packets < limit,
            QueueLimit::Bytes(limit) => self.bytes + u64::from(bytes) <= limit,
        }
    }

    #[inline]
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    #[inline]
    fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }
}

/// Transmission times of the two frame sizes that a flow mostly uses.
#[derive(Clone, Copy, Debug)]
struct TransmissionTime {
    rate: Rate,
    known: [(u32, Duration); 2],
}

impl TransmissionTime {
    fn new(rate: Rate) -> Self {
        Self { rate, known: [(0, Duration::ZERO); 2] }
    }

    #[inline]
    fn of(&mut self, bytes: u32) -> Duration {
        for (known, time) in self.known {
            if known == bytes {
                return time;
            }
        }
        let time = self.rate.time_for(bytes);
        self.known = [(bytes, time), self.known[0]];
        time
    }
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    start: Instant,
    end: Instant,
    frame: Frame,
}

/// One direction of a duplex link.
pub struct DuplexDirection {
    time: TransmissionTime,
    delay: Duration,
    errors: Errors,
    /// Frames queued, on the wire or propagating, in order.
    frames: VecDeque<InFlight>,
    /// How many of `frames` had begun transmission when last looked at.
    started: usize,
    waiting: Waiting,
    busy_until: Instant,
}

impl DuplexDirection {
    fn new(spec: &DirectionSpec, delay: Duration, errors: Errors) -> Self {
        Self {
            time: TransmissionTime::new(spec.rate),
            delay,
            errors,
            frames: VecDeque::new(),
            started: 0,
            waiting: Waiting::new(spec.queue),
            busy_until: Instant::ZERO,
        }
    }

    #[inline]
    fn enqueue(&mut self, now: Instant, frame: Frame) -> Accepted {
        while let Some(sent) = self.frames.get(self.started)
            && sent.start <= now
        {
            self.waiting.remove(sent.frame.bytes());
            self.started += 1;
        }
        let start = self.busy_until.max(now);
        if start > now && !self.waiting.has_room(frame.bytes()) {
            return Accepted::Dropped;
        }
        let end = start + self.time.of(frame.bytes());
        self.waiting.add(frame.bytes());
        self.busy_until = end;
        if frame.is_urgent() && start > now {
            self.insert_urgent(InFlight { start, end, frame });
            return Accepted::Queued;
        }
        self.frames.push_back(InFlight { start, end, frame });
        if self.frames.len() == 1 { Accepted::Next(end + self.delay) } else { Accepted::Queued }
    }

    /// Puts an urgent frame ahead of the others that wait, which leave later for it.
    #[cold]
    fn insert_urgent(&mut self, mut sent: InFlight) {
        let is_urgent = |other: &&InFlight| other.frame.is_urgent();
        let at = self.started + self.frames.iter().skip(self.started).take_while(is_urgent).count();
        let took = sent.end.since(sent.start);
        if let Some(next) = self.frames.get(at) {
            sent = InFlight { start: next.start, end: next.start + took, frame: sent.frame };
        }
        for later in self.frames.iter_mut().skip(at) {
            later.start += took;
            later.end += took;
        }
        self.frames.insert(at, sent);
    }

    #[inline]
    fn next_event(&self) -> Option<Instant> {
        self.frames.front().map(|sent| sent.end + self.delay)
    }

    #[inline]
    fn arrive(&mut self, now: Instant, direction: Direction, pool: &mut PacketPool) -> Option<Arrival> {
        if self.next_event().is_none_or(|at| at > now) {
            return None;
        }
        let sent = self.frames.pop_front()?;
        if self.started == 0 {
            self.waiting.remove(sent.frame.bytes());
        } else {
            self.started -= 1;
        }
        Some(self.errors.judge(sent, direction, pool))
    }
}

/// One direction of a shared medium.
struct Station {
    time: TransmissionTime,
    errors: Errors,
    queue: VecDeque<Frame>,
    waiting: Waiting,
    propagating: VecDeque<InFlight>,
}

/// A half-duplex medium: the two stations take turns while both have frames.
pub struct SharedMedium {
    delay: Duration,
    frame_overhead: Duration,
    stations: [Station; 2],
    on_air: Option<(Direction, InFlight)>,
}

impl SharedMedium {
    fn new(specs: &[DirectionSpec; 2], delay: Duration, frame_overhead: Duration, errors: [Errors; 2]) -> Self {
        let station = |spec: &DirectionSpec, errors| Station {
            time: TransmissionTime::new(spec.rate),
            errors,
            queue: VecDeque::new(),
            waiting: Waiting::new(spec.queue),
            propagating: VecDeque::new(),
        };
        let [down, up] = errors;
        let stations = [station(&specs[0], down), station(&specs[1], up)];
        Self { delay, frame_overhead, stations, on_air: None }
    }

    fn enqueue(&mut self, now: Instant, direction: Direction, frame: Frame) -> Accepted {
        let idle = self.on_air.is_none();
        let station = &mut self.stations[direction.index()];
        if !idle && !station.waiting.has_room(frame.bytes()) {
            return Accepted::Dropped;
        }
        station.waiting.add(frame.bytes());
        if frame.is_urgent() {
            let ahead = station.queue.iter().take_while(|other| other.is_urgent()).count();
            station.queue.insert(ahead, frame);
        } else {
            station.queue.push_back(frame);
        }
        if idle {
            self.transmit(now, direction);
        }
        match self.next_event() {
            Some(at) if idle => Accepted::Next(at),
            _ => Accepted::Queued,
        }
    }

    fn transmit(&mut self, now: Instant, direction: Direction) {
        let station = &mut self.stations[direction.index()];
        if let Some(frame) = station.queue.pop_front() {
            station.waiting.remove(frame.bytes());
            let end = now + station.time.of(frame.bytes()) + self.frame_overhead;
            self.on_air = Some((direction, InFlight { start: now, end, frame }));
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrivals = self.stations.iter().filter_map(|station| station.propagating.front());
        let arrivals = arrivals.map(|sent| sent.end + self.delay);
        arrivals.chain(self.on_air.iter().map(|(_, sent)| sent.end)).min()
    }

    fn advance(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Arrival> {
        if let Some((direction, sent)) = self.on_air
            && sent.end <= now
        {
            self.on_air = None;
            self.stations[direction.index()].propagating.push_back(sent);
            let waits = !self.stations[direction.other().index()].queue.is_empty();
            self.transmit(sent.end, if waits { direction.other() } else { direction });
        }
        for direction in [Direction::Down, Direction::Up] {
            let station = &mut self.stations[direction.index()];
            if let Some(sent) = station.propagating.front().copied()
                && sent.end + self.delay <= now
            {
                station.propagating.pop_front();
                return Some(station.errors.judge(sent, direction, pool));
            }
        }
        None
    }
}
