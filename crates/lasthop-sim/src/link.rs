//! Links: queues, transmission, propagation, and what the channel does to frames.
//!
//! A duplex direction needs one event per frame, its arrival: since frames leave in order, the time at which a frame will
//! be on the wire is known when it is queued. A half-duplex medium decides frame by frame who sends next.

mod channel;
mod feed;
mod held;
mod managed;
mod ring;
mod shared;

use std::collections::VecDeque;

use lasthop_proto::channel::{Channel, Fate};
use lasthop_proto::delay::Variation;
use lasthop_proto::link::headers::LinkProtocol;
use lasthop_proto::packet::{Ecn, FlowId, Integrity, Packet, Priority};
use lasthop_proto::queue::Backlog;
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use crate::network::{DamagedFrames, DirectionSpec, LinkSpec, QueueLimit, QueueSpec, Rate};
pub use channel::{SharedChannel, StationId};
pub use feed::Seeds;
pub use held::Held;
pub use managed::{FrameQueue, ManagedDirection};
pub use ring::Ring;
pub use shared::SharedMedium;

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

    /// In the names of streams of randomness.
    const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }

    /// The other way.
    pub const fn other(self) -> Self {
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

/// Number of a packet in its [`PacketPool`](crate::pool::PacketPool).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(pub u32);

/// What links and routers need to know of a packet, so that they need not look at it: it may have left the processor's
/// caches. Two words, which travel in registers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Frame {
    /// The packet's place in the pool, and above it the index of the endpoint that it goes to.
    place: u64,
    /// Bytes of payload, above them the properties below, and above these the bytes with headers.
    size: u64,
}

const URGENT: u64 = 1 << 31;
const RESENT: u64 = 1 << 30;
/// Queues may mark it (RFC 3168).
const MARKABLE: u64 = 1 << 29;
/// A queue did.
const MARKED: u64 = 1 << 28;
/// It belongs to no flow that can be seen.
const FOREIGN: u64 = 1 << 27;
const PAYLOAD: u64 = FOREIGN - 1;

impl Frame {
    /// The frame that carries `packet` to the endpoint of index `to`; the packet is in the pool under `handle`.
    #[inline]
    pub fn new(handle: Handle, packet: &Packet, to: usize) -> Self {
        let urgent = if packet.priority == Priority::Urgent { URGENT } else { 0 };
        let resent = packet.cause.is_source_retransmission() || packet.cause.is_local_retransmission();
        let resent = if resent { RESENT } else { 0 };
        let markable = if packet.ecn.is_capable() { MARKABLE } else { 0 };
        let bytes = u64::from(packet.wire_len()) << 32;
        debug_assert!(u64::from(packet.len) <= PAYLOAD, "more than a frame holds");
        // What a two-ended link carries is in datagrams between its ends: one flow to whoever stands below.
        let foreign = packet.flow == FlowId::NONE || packet.link.read(LinkProtocol::TWO_ENDED).is_some();
        let foreign = if foreign { FOREIGN } else { 0 };
        Self {
            place: (to as u64) << 32 | u64::from(handle.0),
            size: urgent | resent | markable | foreign | bytes | u64::from(packet.len),
        }
    }

    /// The same for a packet that an end of its flow sends: it is urgent to nobody, and no link protocol has had it yet.
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

    /// The packet's place in the pool.
    #[inline]
    pub fn handle(self) -> Handle {
        Handle(self.place as u32)
    }

    /// The endpoint that the packet goes to.
    #[inline]
    pub fn to(self) -> usize {
        (self.place >> 32) as usize
    }

    /// Bytes of payload.
    #[inline]
    pub fn payload(self) -> u32 {
        (self.size & PAYLOAD) as u32
    }

    /// Bytes on the wire.
    #[inline]
    pub fn bytes(self) -> u32 {
        (self.size >> 32) as u32
    }

    /// The same frame on its way to the endpoint of index `to`.
    pub fn redirected(self, to: usize) -> Self {
        Self { place: (to as u64) << 32 | u64::from(self.handle().0), ..self }
    }

    /// The same frame as one of the flow `line`, to whatever stands below: for a driver that finds its way by other means, and whose packets
    /// belong to no flow of the network.
    pub fn of_line(self, line: u32) -> Self {
        Self { place: u64::from(line) << 32 | u64::from(self.handle().0), size: self.size & !FOREIGN }
    }

    /// A frame with a copy of its packet, which is in the pool under `handle`.
    pub fn copied(self, handle: Handle) -> Self {
        Self { place: (self.to() as u64) << 32 | u64::from(handle.0), ..self }
    }

    #[inline]
    fn is_urgent(self) -> bool {
        self.size & URGENT != 0
    }

    /// Tells its flow and direction from others: frames of no flow count as one.
    #[inline]
    fn line(self) -> u32 {
        if self.size & FOREIGN != 0 { u32::MAX } else { (self.place >> 32) as u32 }
    }

    /// Whether a queue marked it on a link so far.
    #[inline]
    pub fn is_marked(self) -> bool {
        self.size & MARKED != 0
    }

    /// Marks it, if its ends take marks; whether it is marked now.
    fn set_marked(&mut self) -> bool {
        if self.size & MARKABLE != 0 {
            self.size |= MARKED;
        }
        self.is_marked()
    }

    /// Whether its data was sent before, by the source or by a base station.
    #[inline]
    pub fn is_resent(self) -> bool {
        self.size & RESENT != 0
    }
}

/// What the channel does with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// It arrives, maybe damaged.
    Arrives,
    /// It arrives, and bears a mark of congestion now.
    Marked,
    /// It arrives so much later than the link alone would have it.
    Late(Duration),
    /// It and a copy of it arrive so much later.
    Twice(Duration),
    /// It is lost.
    Lost,
}

/// Makes copies of frames that arrive.
struct Copies {
    share: f64,
    stream: Stream,
}

/// What happens to frames on the way, in one direction of a link: its error process, and how its delay varies.
pub struct Errors {
    channel: Channel,
    damaged: DamagedFrames,
    variation: Variation,
    copies: Option<Copies>,
    /// Whether anything happens to frames: asked for each of them.
    strike: Switch,
}

impl Errors {
    /// Draws from `links/NAME/down/errors` or `links/NAME/up/errors`, and for the delay from `links/NAME/delay` where it varies in
    /// time, the same for both directions, otherwise from `links/NAME/down/delay` or `links/NAME/up/delay`; for copies from
    /// `links/NAME/down/duplicates` or `links/NAME/up/duplicates`.
    pub fn new(spec: &LinkSpec, direction: Direction, root: Root) -> Self {
        let name = direction.name();
        let stream = root.stream(&format!("links/{}/{name}/errors", spec.name));
        let link = &spec.name;
        let spec = &spec.directions[direction.index()];
        let delays = match spec.variation.model.is_clocked() {
            true => root.stream(&format!("links/{link}/delay")),
            false => root.stream(&format!("links/{link}/{name}/delay")),
        };
        let variation = Variation::new(&spec.variation, delays);
        let channel = Channel::new(&spec.errors, stream);
        let share = spec.impairments.duplicates;
        let copies =
            (share > 0.0).then(|| Copies { share, stream: root.stream(&format!("links/{link}/{name}/duplicates")) });
        let strikes = !channel.is_clean() || variation.varies() || copies.is_some();
        let strike = if strikes { Switch::On } else { Switch::Off };
        Self { channel, damaged: spec.damaged, variation, copies, strike }
    }

    /// Whether anything happens to frames.
    #[inline]
    pub fn strike(&self) -> bool {
        self.strike.is_on()
    }

    /// Whether frames may arrive late.
    pub fn delay(&self) -> bool {
        self.channel.delays() || self.variation.varies() || self.copies.is_some()
    }

    /// What becomes of the packet, which was on the air as `sent`; writes into it that its payload is damaged, or that it is
    /// marked.
    #[inline]
    pub fn judge(&mut self, sent: &InFlight, packet: &mut Packet) -> Crossing {
        // Asked for every frame, so that losses change nothing of it.
        let late = if self.variation.varies() { self.variation.of(sent.end) } else { None };
        let crossing = match (self.cross(sent, packet), late) {
            (Crossing::Arrives | Crossing::Marked, Some(by)) => Crossing::Late(by),
            (Crossing::Late(own), Some(by)) => Crossing::Late(own + by),
            (crossing, _) => crossing,
        };
        if self.copies.is_some() { self.duplicate(crossing) } else { crossing }
    }

    /// Adds a copy to what becomes of a frame. Asked for every frame, as the delay is.
    #[cold]
    fn duplicate(&mut self, crossing: Crossing) -> Crossing {
        let twice = self.copies.as_mut().is_some_and(|copies| copies.stream.chance(copies.share));
        match crossing {
            Crossing::Arrives | Crossing::Marked if twice => Crossing::Twice(Duration::ZERO),
            Crossing::Late(by) if twice => Crossing::Twice(by),
            crossing => crossing,
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

/// What was on a link when it was cut.
#[derive(Debug, Default)]
pub struct Cut {
    /// Frames that had begun to be sent.
    pub sent: Vec<Frame>,
    /// Frames that waited, in the order in which they would have been sent.
    pub waiting: Vec<Frame>,
}

/// What waits, against its limit. Urgent frames have room of their own, as much as the others: a queue full of data would drop what they were sent for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    backlog: Backlog,
    limit: QueueLimit,
}

impl Waiting {
    /// Nothing.
    pub fn new(limit: QueueLimit) -> Self {
        Self { backlog: Backlog::default(), limit }
    }

    /// Whether `bytes` more fit.
    #[inline]
    pub fn has_room(&self, bytes: u32) -> bool {
        self.limit.has_room(self.backlog, bytes)
    }

    /// A packet of `bytes` comes.
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        self.backlog.add(bytes);
    }

    /// A packet of `bytes` goes.
    #[inline]
    pub fn remove(&mut self, bytes: u32) {
        self.backlog.remove(bytes);
    }

    /// Whether a frame fits, beside the urgent ones that wait: these are not in the count.
    fn takes(&self, frame: Frame, urgent: impl Iterator<Item = Frame>) -> bool {
        if !frame.is_urgent() {
            return self.has_room(frame.bytes());
        }
        let mut backlog = Backlog::default();
        urgent.for_each(|other| backlog.add(other.bytes()));
        self.limit.has_room(backlog, frame.bytes())
    }

    /// A frame comes.
    #[inline]
    fn enter(&mut self, frame: Frame) {
        if !frame.is_urgent() {
            self.add(frame.bytes());
        }
    }

    /// A frame goes.
    #[inline]
    fn leave(&mut self, frame: Frame) {
        if !frame.is_urgent() {
            self.remove(frame.bytes());
        }
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

/// A frame and when it is on the air.
#[derive(Clone, Copy, Default, Debug)]
pub struct InFlight {
    start: Instant,
    end: Instant,
    /// The frame.
    pub frame: Frame,
}

impl InFlight {
    /// When its transmission begins.
    #[inline]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// How much of its transmission lies after `now`.
    fn after(&self, now: Instant) -> Duration {
        self.end.since(self.start.max(now))
    }
}

/// One direction of a duplex link whose queue drops what finds it full.
pub struct DuplexDirection {
    /// Frames queued, on the wire or propagating, in order, with the times at which they are on the wire.
    frames: Ring<InFlight>,
    /// How many of `frames` had begun transmission when last looked at.
    started: usize,
    /// Frames behind these whose turn is not fixed yet: used from the first urgent frame on that had to wait until nothing
    /// waits any more.
    deferred: Deferred,
    /// When what has its time is sent.
    busy_until: Instant,
    delay: Duration,
    time: TransmissionTime,
    /// What had not begun when last looked at.
    waiting: Waiting,
    /// Time of all transmissions that have a place in the schedule.
    busy: Duration,
    /// When the last frame is on the wire that was sent without waiting among `frames`.
    sent_until: Instant,
}

/// Frames that wait for their turn: urgent ones first, each kind in order.
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
    /// A direction without frames; `None` when its queue needs management, or it does not send at once whatever is next, at a constant
    /// rate ([`ManagedDirection`]).
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

    /// Time for which it has transmitted until `now`.
    pub fn busy(&self, now: Instant) -> Duration {
        let later = self.frames.iter().fold(self.sent_until.since(now), |later, sent| later + sent.after(now));
        self.busy.saturating_sub(later)
    }

    /// Whether a frame that comes at `now` is sent at once, and has no other before it.
    #[inline(always)]
    pub fn is_free(&self, now: Instant) -> bool {
        self.busy_until <= now && self.frames.is_empty() && self.deferred.is_empty()
    }

    /// When the frame that was queued last begins transmission; `None` where it has begun, or where urgent frames may still go first.
    pub fn last_start(&self) -> Option<Instant> {
        self.frames.iter().next_back().filter(|_| self.deferred.is_empty()).map(|last| last.start)
    }

    /// Sends a frame into a direction that is free, and says when it arrives. Whoever is told so sees to it that it does; if that is to be
    /// as with any other frame, by [`Self::arrives_later`].
    #[inline(always)]
    pub fn send(&mut self, now: Instant, frame: Frame) -> (InFlight, Instant) {
        let time = self.time.of(frame.bytes());
        let end = now + time;
        self.busy = self.busy + time;
        (self.busy_until, self.sent_until) = (end, end);
        (InFlight { start: now, end, frame }, end + self.delay)
    }

    /// The frame that was just sent arrives as any other.
    pub fn arrives_later(&mut self, sent: InFlight) {
        self.waiting.enter(sent.frame);
        self.frames.push_back(sent);
        self.sent_until = Instant::ZERO;
    }

    /// Takes a packet to send.
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

    /// The same where it matters which frames have left the queue by now.
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
            // What waits loses its place.
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

    /// Gives those deferred frames their time that begin by `now`.
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

    /// Frames that wait at `now`: those that have not begun.
    pub fn waiting(&self, now: Instant) -> usize {
        let fixed = self.frames.iter().rev().take_while(|sent| sent.start > now).count();
        fixed + self.deferred.urgent.len() + self.deferred.normal.len()
    }

    /// Returns how many frames wait, are on the wire or propagate.
    #[inline]
    pub fn held(&self) -> usize {
        self.frames.len() + self.deferred.urgent.len() + self.deferred.normal.len()
    }

    /// The frame that arrives next, and when.
    #[inline]
    pub fn first(&self) -> Option<(InFlight, Instant)> {
        self.frames.front().map(|sent| (sent, sent.end + self.delay))
    }

    /// Takes out all frames.
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

    /// When the first frame of those that `wanted` tells arrives.
    pub fn find(&self, wanted: impl Fn(Frame) -> bool) -> Option<Instant> {
        self.frames.iter().find(|sent| wanted(sent.frame)).map(|sent| sent.end + self.delay)
    }

    /// The frame that arrives at `now`, and when the next one does.
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
