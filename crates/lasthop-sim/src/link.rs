//! Links: queues, transmission, propagation, and the channel's effects on frames.
//!
//! A duplex direction needs one event per frame, its arrival: frames leave in order, so the transmission time is known
//! when a frame is queued. A half-duplex medium chooses the next sender frame by frame.

mod access;
mod carrier;
mod channel;
mod feed;
mod held;
mod managed;
#[cfg(test)]
mod opportunity_tests;
mod ring;
mod shared;

use std::collections::VecDeque;

use lasthop_proto::channel::{Channel, Fate};
use lasthop_proto::delay::Variation;
use lasthop_proto::packet::headers::LinkProtocol;
use lasthop_proto::packet::{Ecn, FlowId, Integrity, Packet, Priority};
use lasthop_proto::queue::Backlog;
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::rate::EdgeLoss;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use crate::network::{DamagedFrames, DirectionSpec, LinkSpec, QueueLimit, QueueSpec, Rate};
pub use carrier::{Advanced, Carrier, Keeps, Media};
use channel::SharedChannel;
pub use feed::Seeds;
pub use held::Held;
use managed::FrameQueue;
pub use managed::ManagedDirection;
pub use ring::Ring;
use shared::SharedMedium;

/// Direction of a link. "Down" is from its first end to its second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// First end to second.
    Down,
    /// Second end to first.
    Up,
}

impl Direction {
    /// Both directions, in the order of a link's legs.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// Returns 0 for down, 1 for up.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the direction's name in random streams.
    const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// Returns the opposite direction.
    pub const fn other(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }
}

/// Result of handing a packet to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// Queued or in flight, behind others.
    Queued,
    /// Cause of the next event on this link, at this time.
    Next(Instant),
    /// Dropped by a full queue.
    Dropped,
}

/// Number of a packet in its [`PacketPool`](crate::pool::PacketPool).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(pub u32);

/// The properties of a packet that links and routers need, to avoid access to the packet, which may have left the
/// processor's caches. Two words, passed in registers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Frame {
    /// Place of the packet in the pool (low half) and index of the destination endpoint (high half).
    place: u64,
    /// Payload in bytes, the flags below, and the size with headers in bytes, from the lowest bits up.
    size: u64,
}

const URGENT: u64 = 1 << 31;
const RESENT: u64 = 1 << 30;
/// Flag of a packet that queues may mark (RFC 3168).
const MARKABLE: u64 = 1 << 29;
/// Flag of a packet that a queue has marked.
const MARKED: u64 = 1 << 28;
/// Flag of a packet that belongs to no visible flow.
const FOREIGN: u64 = 1 << 27;
const PAYLOAD: u64 = FOREIGN - 1;

impl Frame {
    /// Creates the frame of `packet`, which is in the pool under `handle`, to the endpoint of index `to`.
    #[inline]
    pub fn new(handle: Handle, packet: &Packet, to: usize) -> Self {
        let urgent = if packet.priority == Priority::Urgent { URGENT } else { 0 };
        let resent = packet.cause.is_source_retransmission() || packet.cause.is_local_retransmission();
        let resent = if resent { RESENT } else { 0 };
        let markable = if packet.ecn.is_capable() { MARKABLE } else { 0 };
        let bytes = u64::from(packet.wire_len()) << 32;
        debug_assert!(u64::from(packet.len) <= PAYLOAD, "more than a frame holds");
        // A two-ended link sends its packets in datagrams between its ends: a single flow to the queues below.
        let foreign = packet.flow == FlowId::NONE || packet.link.read(LinkProtocol::TWO_ENDED).is_some();
        let foreign = if foreign { FOREIGN } else { 0 };
        Self {
            place: (to as u64) << 32 | u64::from(handle.0),
            size: urgent | resent | markable | foreign | bytes | u64::from(packet.len),
        }
    }

    /// Creates the frame of a packet from an end of its flow. It is not urgent and has no header of a link protocol
    /// yet.
    #[inline(always)]
    pub fn from_end(handle: Handle, packet: &Packet, to: usize) -> Self {
        debug_assert!(packet.priority == Priority::Normal && packet.flow != FlowId::NONE && packet.link.is_empty());
        debug_assert!(!packet.cause.is_local_retransmission(), "an end sends for itself");
        let resent = if packet.cause.is_source_retransmission() { RESENT } else { 0 };
        let markable = if packet.ecn.is_capable() { MARKABLE } else { 0 };
        let bytes = u64::from(packet.wire_len()) << 32;
        debug_assert!(u64::from(packet.len) <= PAYLOAD, "more than a frame holds");
        Self { place: (to as u64) << 32 | u64::from(handle.0), size: resent | markable | bytes | u64::from(packet.len) }
    }

    /// Returns the packet's place in the pool.
    #[inline]
    pub fn handle(self) -> Handle {
        Handle(self.place as u32)
    }

    /// Returns the index of the destination endpoint.
    #[inline]
    pub fn to(self) -> usize {
        (self.place >> 32) as usize
    }

    /// Returns the payload in bytes.
    #[inline]
    pub fn payload(self) -> u32 {
        (self.size & PAYLOAD) as u32
    }

    /// Returns the size on the wire in bytes.
    #[inline]
    pub fn bytes(self) -> u32 {
        (self.size >> 32) as u32
    }

    /// Returns the same frame with the endpoint of index `to` as its destination.
    pub fn redirected(self, to: usize) -> Self {
        Self { place: (to as u64) << 32 | u64::from(self.handle().0), ..self }
    }

    /// Returns the same frame, which the queues below treat as one of flow `line`. For a driver with its own
    /// forwarding, whose packets belong to no flow of the network.
    pub fn of_line(self, line: u32) -> Self {
        Self { place: u64::from(line) << 32 | u64::from(self.handle().0), size: self.size & !FOREIGN }
    }

    /// Returns a frame for a copy of its packet, which is in the pool under `handle`.
    pub fn copied(self, handle: Handle) -> Self {
        Self { place: (self.to() as u64) << 32 | u64::from(handle.0), ..self }
    }

    #[inline]
    fn is_urgent(self) -> bool {
        self.size & URGENT != 0
    }

    /// Returns the identity of the frame's flow and direction. Frames without a flow share one.
    #[inline]
    fn line(self) -> u32 {
        if self.size & FOREIGN != 0 { u32::MAX } else { (self.place >> 32) as u32 }
    }

    /// Returns whether a queue has already marked the frame.
    #[inline]
    pub fn is_marked(self) -> bool {
        self.size & MARKED != 0
    }

    /// Marks the frame, if its ends support ECN. Returns whether it is marked now.
    fn set_marked(&mut self) -> bool {
        if self.size & MARKABLE != 0 {
            self.size |= MARKED;
        }
        self.is_marked()
    }

    /// Returns whether the frame's data was sent before, by the source or by a base station.
    #[inline]
    pub fn is_resent(self) -> bool {
        self.size & RESENT != 0
    }
}

/// Effect of the channel on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// Arrives, possibly damaged.
    Arrives,
    /// Arrives with a congestion mark.
    Marked,
    /// Arrives with this additional delay.
    Late(Duration),
    /// Arrives twice with this additional delay.
    Twice(Duration),
    /// Is lost.
    Lost,
}

/// Random duplication of frames that arrive.
struct Copies {
    share: f64,
    stream: Stream,
}

/// Losses at the boundaries of slots.
struct Edges {
    loss: EdgeLoss,
    /// Propagation delay of the link.
    delay: Duration,
}

/// Effects that few links have. Kept together, so that a frame of other links costs one check.
struct Rare {
    edges: Option<Edges>,
    copies: Option<Copies>,
}

/// Effects on frames in one direction of a link: error process, losses at the boundaries of slots, variation of delay,
/// duplication.
pub struct Errors {
    channel: Channel,
    damaged: DamagedFrames,
    variation: Variation,
    rare: Option<Box<Rare>>,
    /// Indicates whether the delay varies.
    varies: Switch,
    /// Indicates whether anything affects frames. Checked for every frame.
    strike: Switch,
}

impl Rare {
    #[cold]
    fn affect(&mut self, sent: &InFlight, crossing: Crossing) -> Crossing {
        let crossing = self.pass_edges(sent, crossing);
        self.duplicate(crossing)
    }

    /// Loses a frame that is on its way at the boundary of a slot. Drawn for every such frame, as the delay is.
    fn pass_edges(&mut self, sent: &InFlight, crossing: Crossing) -> Crossing {
        let takes = |Edges { loss, delay }: &mut Edges| loss.takes(sent.start, sent.end + *delay);
        if self.edges.as_mut().is_some_and(takes) { Crossing::Lost } else { crossing }
    }

    /// Adds a duplicate at random. Drawn for every frame, as the delay is.
    fn duplicate(&mut self, crossing: Crossing) -> Crossing {
        let twice = self.copies.as_mut().is_some_and(|copies| copies.stream.chance(copies.share));
        match crossing {
            Crossing::Arrives | Crossing::Marked if twice => Crossing::Twice(Duration::ZERO),
            Crossing::Late(by) if twice => Crossing::Twice(by),
            crossing => crossing,
        }
    }
}

impl Errors {
    /// Creates the processes of one direction. Errors draw from `links/NAME/down/errors` or `links/NAME/up/errors`,
    /// duplicates from `links/NAME/down/duplicates` or `links/NAME/up/duplicates`. The delay draws from
    /// `links/NAME/delay` if it varies in time, equally for both directions, otherwise from `links/NAME/down/delay` or
    /// `links/NAME/up/delay`, losses at boundaries from `links/NAME/down/edges` or `links/NAME/up/edges`. The position in
    /// the link's trace is drawn from `links/NAME/trace`, for every column.
    pub fn new(spec: &LinkSpec, direction: Direction, root: Root) -> Self {
        let name = direction.name();
        let stream = root.stream(&format!("links/{}/{name}/errors", spec.name));
        let (link, delay) = (&spec.name, spec.delay);
        let spec = &spec.directions[direction.index()];
        let trace = || root.stream(&format!("links/{link}/trace"));
        let delays = match &spec.variation.model {
            model if model.is_in_step() => trace(),
            model if model.is_clocked() => root.stream(&format!("links/{link}/delay")),
            _ => root.stream(&format!("links/{link}/{name}/delay")),
        };
        let variation = Variation::new(&spec.variation, delays);
        let channel = Channel::new(&spec.errors.placed(trace), stream);
        let share = spec.impairments.duplicates;
        let copies =
            (share > 0.0).then(|| Copies { share, stream: root.stream(&format!("links/{link}/{name}/duplicates")) });
        let edges = spec.impairments.rate.edge_loss(|| root.stream(&format!("links/{link}/{name}/edges")));
        let edges = edges.map(|loss| Edges { loss, delay });
        let rare = (edges.is_some() || copies.is_some()).then(|| Box::new(Rare { edges, copies }));
        let strikes = !channel.is_clean() || variation.varies() || rare.is_some();
        let switch = |is_on| if is_on { Switch::On } else { Switch::Off };
        let (varies, strike) = (switch(variation.varies()), switch(strikes));
        Self { channel, damaged: spec.damaged, variation, rare, varies, strike }
    }

    /// Returns whether anything affects frames.
    #[inline]
    pub fn strike(&self) -> bool {
        self.strike.is_on()
    }

    /// Returns whether frames may arrive late.
    pub fn delay(&self) -> bool {
        self.channel.delays() || self.variation.varies() || self.rare.as_ref().is_some_and(|rare| rare.copies.is_some())
    }

    /// Returns the channel's effect on the packet, whose transmission was `sent`. Writes damage of the payload, or a
    /// mark, into the packet.
    #[inline(always)]
    pub fn judge(&mut self, sent: &InFlight, packet: &mut Packet) -> Crossing {
        // Drawn for every frame, so that losses do not affect the delays of others.
        let late = if self.varies.is_on() { self.variation.of(sent.end) } else { None };
        let crossing = match (self.cross(sent, packet), late) {
            (Crossing::Arrives | Crossing::Marked, Some(by)) => Crossing::Late(by),
            (Crossing::Late(own), Some(by)) => Crossing::Late(own + by),
            (crossing, _) => crossing,
        };
        match &mut self.rare {
            Some(rare) => rare.affect(sent, crossing),
            None => crossing,
        }
    }

    #[inline]
    fn cross(&mut self, sent: &InFlight, packet: &mut Packet) -> Crossing {
        match self.channel.judge(packet, sent.start, sent.end) {
            Fate::Delivered => Crossing::Arrives,
            Fate::Damaged if self.damaged == DamagedFrames::Deliver => {
                packet.integrity = Integrity::PayloadDamaged;
                Crossing::Arrives
            }
            Fate::Damaged | Fate::Lost => Crossing::Lost,
            Fate::Late(by) => Crossing::Late(by),
            Fate::Marked if packet.ecn.is_capable() => {
                packet.ecn = Ecn::Ce;
                Crossing::Marked
            }
            Fate::Marked => Crossing::Arrives,
        }
    }
}

/// Frames that were on a link when it was cut.
#[derive(Debug, Default)]
pub struct Cut {
    /// Frames whose transmission had begun.
    pub sent: Vec<Frame>,
    /// Frames in the queue, in their order of transmission.
    pub waiting: Vec<Frame>,
}

/// Backlog of a queue and its limit. Urgent frames have a limit of their own, of the same size: otherwise a queue full
/// of data would defeat their purpose.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    backlog: Backlog,
    limit: QueueLimit,
}

impl Waiting {
    /// Creates an empty backlog.
    pub fn new(limit: QueueLimit) -> Self {
        Self { backlog: Backlog::default(), limit }
    }

    /// Returns whether `bytes` more fit.
    #[inline]
    pub fn has_room(&self, bytes: u32) -> bool {
        self.limit.has_room(self.backlog, bytes)
    }

    /// Adds a packet of `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        self.backlog.add(bytes);
    }

    /// Removes a packet of `bytes`.
    #[inline]
    pub fn remove(&mut self, bytes: u32) {
        self.backlog.remove(bytes);
    }

    /// Returns whether a frame fits. `urgent` lists the urgent frames in the queue, which the backlog does not include.
    fn takes(&self, frame: Frame, urgent: impl Iterator<Item = Frame>) -> bool {
        if !frame.is_urgent() {
            return self.has_room(frame.bytes());
        }
        let mut backlog = Backlog::default();
        urgent.for_each(|other| backlog.add(other.bytes()));
        self.limit.has_room(backlog, frame.bytes())
    }

    /// Adds a frame, unless it is urgent.
    #[inline]
    fn enter(&mut self, frame: Frame) {
        if !frame.is_urgent() {
            self.add(frame.bytes());
        }
    }

    /// Removes a frame, unless it is urgent.
    #[inline]
    fn leave(&mut self, frame: Frame) {
        if !frame.is_urgent() {
            self.remove(frame.bytes());
        }
    }
}

/// Transmission times, with a cache for the two frame sizes that a flow mostly uses.
#[derive(Clone, Copy, Debug)]
struct TransmissionTime {
    rate: Rate,
    known: [(u32, Duration); 2],
}

impl TransmissionTime {
    fn new(rate: Rate) -> Self {
        Self { rate, known: [(0, Duration::ZERO); 2] }
    }

    #[inline(always)]
    fn of(&mut self, bytes: u32) -> Duration {
        let [first, second] = &self.known;
        if first.0 == bytes {
            first.1
        } else if second.0 == bytes {
            second.1
        } else {
            self.learn(bytes)
        }
    }

    #[inline(never)]
    fn learn(&mut self, bytes: u32) -> Duration {
        let time = self.rate.time_for(bytes);
        self.known = [(bytes, time), self.known[0]];
        time
    }
}

/// A frame and its transmission time.
#[derive(Clone, Copy, Default, Debug)]
pub struct InFlight {
    start: Instant,
    end: Instant,
    /// The frame.
    pub frame: Frame,
}

impl InFlight {
    /// Returns the start of the frame's transmission.
    #[inline]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Returns the part of the frame's transmission after `now`.
    fn after(&self, now: Instant) -> Duration {
        self.end.since(self.start.max(now))
    }
}

/// One direction of a duplex link with a drop-tail queue.
pub struct DuplexDirection {
    /// Frames queued, on the wire or propagating, in order, with their transmission times.
    frames: Ring<InFlight>,
    /// Number of `frames` whose transmission had begun at the last check.
    started: usize,
    /// Frames behind the scheduled ones, without a scheduled transmission. Used from the first urgent frame that has to
    /// wait until the queue is empty.
    deferred: Deferred,
    /// End of the scheduled transmissions.
    busy_until: Instant,
    delay: Duration,
    time: TransmissionTime,
    /// Frames whose transmission had not begun at the last check.
    waiting: Waiting,
    /// Total time of all scheduled transmissions.
    busy: Duration,
    /// End of the last transmission of a frame that was sent without being added to `frames`.
    sent_until: Instant,
}

/// Frames without a scheduled transmission: urgent ones first, each kind in order.
#[derive(Default)]
struct Deferred {
    urgent: VecDeque<Frame>,
    normal: VecDeque<Frame>,
}

impl Deferred {
    #[inline]
    fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.urgent.is_empty()
    }

    fn push(&mut self, frame: Frame) {
        if frame.is_urgent() { self.urgent.push_back(frame) } else { self.normal.push_back(frame) }
    }

    fn pop(&mut self) -> Option<Frame> {
        self.urgent.pop_front().or_else(|| self.normal.pop_front())
    }
}

impl DuplexDirection {
    /// Creates a direction without frames. Returns `None` if its queue needs management, or if frames are not sent one
    /// after another at a constant rate ([`ManagedDirection`]).
    pub fn new(spec: &DirectionSpec, delay: Duration) -> Option<Self> {
        let QueueSpec::Fifo(limit) = spec.queue else { return None };
        if spec.impairments.pace() {
            return None;
        }
        Some(Self {
            time: TransmissionTime::new(spec.rate),
            delay,
            frames: Ring::default(),
            started: 0,
            deferred: Deferred::default(),
            waiting: Waiting::new(limit),
            busy_until: Instant::ZERO,
            busy: Duration::ZERO,
            sent_until: Instant::ZERO,
        })
    }

    /// Returns the total time that this direction has spent transmitting until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        let later = self.frames.iter().fold(self.sent_until.since(now), |later, sent| later + sent.after(now));
        self.busy.saturating_sub(later)
    }

    /// Returns whether a frame handed over at `now` is sent at once, and no other arrives before it.
    #[inline(always)]
    pub fn is_free(&self, now: Instant) -> bool {
        self.busy_until <= now && self.frames.is_empty() && self.deferred.is_empty()
    }

    /// Returns the start of transmission of the frame queued last; `None` if it has begun, or if urgent frames may
    /// still precede it.
    pub fn last_start(&self) -> Option<Instant> {
        self.frames.iter().next_back().filter(|_| self.deferred.is_empty()).map(|last| last.start)
    }

    /// Sends a frame into a free direction. Returns its transmission and its arrival time. The caller must deliver the
    /// frame then, or call [`Self::arrives_later`] to let it arrive as any other.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, frame: Frame) -> (InFlight, Instant) {
        let time = self.time.of(frame.bytes());
        let end = now + time;
        self.busy = self.busy + time;
        (self.busy_until, self.sent_until) = (end, end);
        (InFlight { start: now, end, frame }, end + self.delay)
    }

    /// Lets the frame that was just sent arrive as any other.
    pub fn arrives_later(&mut self, sent: InFlight) {
        self.waiting.enter(sent.frame);
        self.frames.push_back(sent);
        self.sent_until = Instant::ZERO;
    }

    /// Queues a frame.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, frame: Frame) -> Accepted {
        let idle = self.busy_until <= now;
        let simple = idle || !frame.is_urgent() && self.waiting.has_room(frame.bytes());
        if simple && self.deferred.is_empty() {
            self.append(self.busy_until.max(now), frame)
        } else {
            self.enqueue_carefully(now, frame)
        }
    }

    #[inline(always)]
    fn append(&mut self, start: Instant, frame: Frame) -> Accepted {
        let time = self.time.of(frame.bytes());
        let end = start + time;
        self.waiting.enter(frame);
        self.busy_until = end;
        self.busy = self.busy + time;
        let first = self.frames.is_empty();
        self.frames.push_back(InFlight { start, end, frame });
        if first { Accepted::Next(end + self.delay) } else { Accepted::Queued }
    }

    /// Implements [`Self::enqueue`] for queues in which the frames that have left by now matter.
    #[inline(never)]
    fn enqueue_carefully(&mut self, now: Instant, frame: Frame) -> Accepted {
        while let Some(sent) = self.frames.get(self.started)
            && sent.start <= now
        {
            self.waiting.leave(sent.frame);
            self.started += 1;
        }
        self.start_deferred(now);
        if self.busy_until <= now {
            return self.append(now, frame);
        }
        if !self.waiting.takes(frame, self.deferred.urgent.iter().copied()) {
            return Accepted::Dropped;
        }
        if self.deferred.is_empty() {
            if !frame.is_urgent() {
                return self.append(self.busy_until, frame);
            }
            // Queued frames lose their place in the schedule.
            for waits in self.frames.iter().skip(self.started) {
                self.busy_until = self.busy_until.min(waits.start);
                self.busy = self.busy.saturating_sub(waits.end.since(waits.start));
                self.deferred.push(waits.frame);
            }
            self.frames.truncate(self.started);
        }
        self.waiting.enter(frame);
        self.deferred.push(frame);
        Accepted::Queued
    }

    /// Schedules the deferred frames that begin by `now`.
    fn start_deferred(&mut self, now: Instant) {
        while self.busy_until <= now
            && let Some(frame) = self.deferred.pop()
        {
            let (start, end) = (self.busy_until, self.busy_until + self.time.of(frame.bytes()));
            self.frames.push_back(InFlight { start, end, frame });
            self.busy_until = end;
            self.busy = self.busy + end.since(start);
            self.waiting.leave(frame);
            self.started += 1;
        }
    }

    /// Returns the number of frames whose transmission has not begun at `now`.
    pub fn waiting(&self, now: Instant) -> usize {
        let fixed = self.frames.iter().rev().take_while(|sent| sent.start > now).count();
        fixed + self.deferred.urgent.len() + self.deferred.normal.len()
    }

    /// Returns the number of frames queued, on the wire or propagating.
    #[inline]
    pub fn held(&self) -> usize {
        self.frames.len() + self.deferred.urgent.len() + self.deferred.normal.len()
    }

    /// Returns the frame that arrives next, and its arrival time.
    #[inline]
    pub fn first(&self) -> Option<(InFlight, Instant)> {
        self.frames.front().map(|sent| (sent, sent.end + self.delay))
    }

    /// Removes all frames.
    pub fn cut(&mut self, now: Instant) -> Cut {
        let mut cut = Cut::default();
        (self.busy, self.sent_until) = (self.busy(now), Instant::ZERO);
        for sent in self.frames.iter() {
            if sent.start <= now { cut.sent.push(sent.frame) } else { cut.waiting.push(sent.frame) }
        }
        self.frames.truncate(0);
        cut.waiting.extend(std::iter::from_fn(|| self.deferred.pop()));
        (self.started, self.busy_until) = (0, now);
        self.waiting = Waiting::new(self.waiting.limit);
        cut
    }

    /// Returns the arrival time of the first frame that satisfies `wanted`.
    pub fn find(&self, wanted: impl Fn(Frame) -> bool) -> Option<Instant> {
        self.frames.iter().find(|sent| wanted(sent.frame)).map(|sent| sent.end + self.delay)
    }

    /// Returns the frame that arrives at `now`, and the arrival time of the next one.
    #[inline(always)]
    pub fn arrive(&mut self, now: Instant) -> (Option<InFlight>, Option<Instant>) {
        let arrived = self.frames.pop_front();
        if let Some(sent) = arrived {
            if self.started == 0 {
                self.waiting.leave(sent.frame);
            } else {
                self.started -= 1;
            }
        }
        if !self.deferred.is_empty() {
            self.start_deferred(now);
        }
        (arrived, self.frames.front().map(|sent| sent.end + self.delay))
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
