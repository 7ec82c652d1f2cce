//! Queues in front of links beyond drop-tail: CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033), DualPI2 (RFC
//! 9332) and CAKE, with ECN marks (RFC 3168), and one that recognizes TCP acknowledgments (RFC 3449). State machines
//! without I/O, in integers: a link's driver enqueues and dequeues packets.

mod ack_aware;
mod cake;
mod cobalt;
mod codel;
mod dual_pi2;
mod fq_codel;
mod pie;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use ack_aware::{AckAware, AckAwareConfig, Sight};
pub use cake::{Cake, CakeConfig, Isolation, Tins};
pub use codel::{CoDel, CoDelConfig};
pub use dual_pi2::{DualPi2, DualPi2Config, Overload};
pub use fq_codel::{FqCoDel, FqCoDelConfig};
pub use pie::{Pie, PieConfig};

use crate::packet::{Ecn, Packet};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// Linux's MTU with an Ethernet header: a queue of at most one packet, or two, is never too long.
const MTU: u32 = 1514;

/// Capacity of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Maximum number of packets.
    Packets(u32),
    /// Maximum number of bytes.
    Bytes(u64),
}

impl QueueLimit {
    /// Returns whether a queue with this limit accepts a packet of `bytes` in addition to the backlog `waits`.
    #[inline]
    pub const fn has_room(self, waits: Backlog, bytes: u32) -> bool {
        match self {
            Self::Packets(limit) => waits.packets < limit,
            Self::Bytes(limit) => waits.bytes + bytes as u64 <= limit,
        }
    }
}

/// Backlog of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Number of packets.
    pub packets: u32,
    /// Length of the packets on the wire, in bytes.
    pub bytes: u64,
}

impl Backlog {
    /// Adds a packet of `bytes`.
    #[inline]
    pub const fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Removes a packet of `bytes`.
    #[inline]
    pub const fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= bytes as u64;
    }
}

/// Queue in front of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueSpec {
    /// First in, first out; packets that find it full are dropped.
    Fifo(QueueLimit),
    /// One queue under CoDel.
    CoDel(QueueLimit, CoDelConfig),
    /// A queue for each flow, each under CoDel.
    FqCoDel(FqCoDelConfig),
    /// One queue that recognizes TCP acknowledgments.
    AckAware(AckAwareConfig),
    /// One queue under PIE.
    Pie(PieConfig),
    /// Two coupled queues, for scalable and for other congestion controls.
    DualPi2(DualPi2Config),
    /// A queue for each flow, under CAKE.
    Cake(CakeConfig),
}

impl QueueSpec {
    /// Returns whether the queue marks ECN-capable packets where it would drop others.
    pub const fn marks(&self) -> bool {
        match self {
            Self::Fifo(_) | Self::AckAware(_) => false,
            Self::CoDel(_, config) => config.ecn.is_on(),
            Self::FqCoDel(config) => config.codel.ecn.is_on(),
            Self::Pie(config) => config.ecn.is_on(),
            Self::DualPi2(_) | Self::Cake(_) => true,
        }
    }

    /// Returns whether the queue removes acknowledgments that later ones make redundant.
    pub const fn filters(&self) -> bool {
        match self {
            Self::AckAware(config) => config.filter.is_on(),
            Self::Cake(config) => config.ack_filter.is_on(),
            Self::Fifo(_) | Self::CoDel(..) | Self::FqCoDel(_) | Self::Pie(_) | Self::DualPi2(_) => false,
        }
    }

    /// Returns the queue's limit; for CAKE, that of its memory.
    pub fn limit(&self) -> QueueLimit {
        match self {
            Self::Fifo(limit) | Self::CoDel(limit, _) => *limit,
            Self::FqCoDel(config) => QueueLimit::Packets(config.limit),
            Self::AckAware(config) => config.limit,
            Self::Pie(config) => config.limit,
            Self::DualPi2(config) => config.limit,
            Self::Cake(config) => QueueLimit::Bytes(config.memory()),
        }
    }
}

impl From<QueueLimit> for QueueSpec {
    fn from(limit: QueueLimit) -> Self {
        Self::Fifo(limit)
    }
}

/// Packet interface required by a managed queue.
pub trait Queued {
    /// Returns the packet's length on the wire, in bytes.
    fn bytes(&self) -> u32;

    /// Returns a key that identifies the packet's flow and direction.
    fn flow(&self) -> u32;

    /// Marks the packet (RFC 3168 §5) if it is ECN-capable; returns whether it is marked now.
    fn mark(&mut self) -> bool;
}

/// Properties of a packet that some queues evaluate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// Classification as an acknowledgment.
    pub ack: Sight,
    /// ECN field.
    pub ecn: Ecn,
    /// DSCP (RFC 2474).
    pub service: u8,
    /// Source and destination; equal numbers denote the same host.
    pub hosts: [u32; 2],
}

impl Default for View {
    /// Returns the view of a packet of which nothing is known.
    fn default() -> Self {
        Self { ack: Sight::Other, ecn: Ecn::NotEct, service: 0, hosts: [u32::MAX; 2] }
    }
}

impl View {
    /// Returns the view of `packet` with the given DSCP, between `hosts`.
    pub fn of<P>(packet: &Packet<P>, service: u8, hosts: [u32; 2]) -> Self {
        Self { ack: Sight::of(packet), ecn: packet.ecn, service, hosts }
    }
}

/// Returns one of `places` lines for a flow. Linux hashes addresses and ports with a random key. Flow numbers are
/// spread evenly instead (Fibonacci hashing), so that few flows never share a line by accident.
fn spread(flow: u32, places: u32) -> u32 {
    ((u64::from(flow.wrapping_mul(0x9e37_79b9)) * u64::from(places)) >> 32) as u32
}

/// A waiting packet, and its time of arrival.
#[derive(Clone, Debug)]
struct Stamped<T> {
    item: T,
    since: Instant,
}

/// The times at which a controller was due since the queue's last event. The queue does not change between events, so
/// that updates performed late have the same results.
struct Catch<'a> {
    next: &'a mut Instant,
    interval: Duration,
    now: Instant,
}

impl<'a> Catch<'a> {
    /// Returns the times up to `now`, from `next` on, which becomes the first time after `now`.
    fn new(next: &'a mut Instant, interval: Duration, now: Instant) -> Self {
        Self { next, interval, now }
    }

    fn next(&mut self) -> Option<Instant> {
        let at = *self.next;
        (at <= self.now).then(|| {
            *self.next = at + self.interval;
            at
        })
    }

    /// Passes over the remaining times, and returns the last of them.
    fn skip(&mut self) -> Option<Instant> {
        let next = *self.next;
        (next <= self.now).then(|| {
            let whole = self.now.since(next).as_nanos() / self.interval.as_nanos().max(1);
            let last = next + self.interval * whole;
            *self.next = last + self.interval;
            last
        })
    }
}

/// Linux's time for CoDel: 1.024 µs, in 32 bits that wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks(u32);

impl Ticks {
    const fn at(now: Instant) -> Self {
        Self((now.as_nanos() >> 10) as u32)
    }

    /// Returns a span in nanoseconds as ticks, limited to half of 32 bits.
    const fn span(nanos: u64) -> u32 {
        let ticks = nanos >> 10;
        if ticks > i32::MAX as u64 { i32::MAX as u32 } else { ticks as u32 }
    }

    const fn plus(self, span: u32) -> Self {
        Self(self.0.wrapping_add(span))
    }

    const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }
}

/// A waiting packet, and its time of arrival.
#[derive(Clone, Debug)]
struct Waiting<T> {
    item: T,
    since: Ticks,
}

/// Waiting packets in order.
type Line<T> = VecDeque<Waiting<T>>;

/// A queue that decides on a packet when its turn comes.
#[derive(Clone, Debug)]
pub enum ManagedQueue<T> {
    /// RFC 8289.
    CoDel(Box<CoDelQueue<T>>),
    /// RFC 8290.
    FqCoDel(Box<FqCoDel<T>>),
    /// RFC 3449.
    AckAware(Box<AckAware<T>>),
    /// RFC 8033.
    Pie(Box<Pie<T>>),
    /// RFC 9332.
    DualPi2(Box<DualPi2<T>>),
    /// CAKE.
    Cake(Box<Cake<T>>),
}

/// A single line under CoDel.
#[derive(Clone, Debug)]
pub struct CoDelQueue<T> {
    limit: QueueLimit,
    control: CoDel,
    line: Line<T>,
    backlog: Backlog,
}

impl<T: Queued> ManagedQueue<T> {
    /// Returns the queue that `spec` describes; `None` for one that needs no management. `draws` is the source of the
    /// random numbers of a queue that needs any.
    pub fn new(spec: &QueueSpec, draws: impl FnOnce() -> Stream) -> Option<Self> {
        match *spec {
            QueueSpec::Fifo(_) => None,
            QueueSpec::CoDel(limit, config) => {
                let control = CoDel::new(config);
                let queue = CoDelQueue { limit, control, line: Line::new(), backlog: Backlog::default() };
                Some(Self::CoDel(Box::new(queue)))
            }
            QueueSpec::FqCoDel(config) => Some(Self::FqCoDel(Box::new(FqCoDel::new(config)))),
            QueueSpec::AckAware(config) => Some(Self::AckAware(Box::new(AckAware::new(config)))),
            QueueSpec::Pie(config) => Some(Self::Pie(Box::new(Pie::new(config, draws())))),
            QueueSpec::DualPi2(config) => Some(Self::DualPi2(Box::new(DualPi2::new(config, draws())))),
            QueueSpec::Cake(config) => Some(Self::Cake(Box::new(Cake::new(config, draws())))),
        }
    }

    /// Enqueues a packet of which nothing is known. Packets dropped because of it, itself included, are added to
    /// `dropped`.
    pub fn push(&mut self, now: Instant, item: T, dropped: &mut Vec<T>) {
        self.push_seen(now, item, View::default, dropped, &mut Vec::new());
    }

    /// Enqueues a packet of which `look` returns the view, if the queue needs that. CAKE adds an acknowledgment that
    /// the packet makes redundant to `filtered`.
    pub fn push_seen(
        &mut self,
        now: Instant,
        item: T,
        look: impl FnOnce() -> View,
        dropped: &mut Vec<T>,
        filtered: &mut Vec<T>,
    ) {
        match self {
            Self::CoDel(queue) => {
                if queue.limit.has_room(queue.backlog, item.bytes()) {
                    queue.backlog.add(item.bytes());
                    queue.line.push_back(Waiting { item, since: Ticks::at(now) });
                } else {
                    dropped.push(item);
                }
            }
            Self::FqCoDel(queue) => queue.push(now, item, dropped),
            Self::AckAware(queue) => queue.push(item, look().ack, dropped),
            Self::Pie(queue) => queue.push(now, item, dropped),
            Self::DualPi2(queue) => queue.push(now, item, look().ecn, dropped),
            Self::Cake(queue) => queue.push(now, item, &look(), dropped, filtered),
        }
    }

    /// Dequeues the next packet at `now`. Packets dropped before it are added to `dropped`.
    pub fn pop(&mut self, now: Instant, dropped: &mut Vec<T>) -> Option<T> {
        self.pop_telling(now, dropped, Queued::mark)
    }

    /// Dequeues the next packet, where congestion may be signalled to a source otherwise than by a mark: `tell` returns
    /// whether a packet's source was signalled, so that the packet need not be dropped.
    pub fn pop_telling(
        &mut self,
        now: Instant,
        dropped: &mut Vec<T>,
        mut tell: impl FnMut(&mut T) -> bool,
    ) -> Option<T> {
        match self {
            Self::CoDel(queue) => queue.control.pop(now, &mut queue.line, &mut queue.backlog, dropped, &mut tell),
            Self::FqCoDel(queue) => queue.pop(now, dropped, &mut tell),
            Self::AckAware(queue) => queue.pop(),
            Self::Pie(queue) => queue.pop(now),
            Self::DualPi2(queue) => queue.pop(now, dropped, &mut tell),
            Self::Cake(queue) => queue.pop(now, dropped, &mut tell),
        }
    }

    /// Records that a packet precedes the queue, which counts for the queue's own shaper.
    pub fn on_preceded(&mut self, bytes: u32) {
        if let Self::Cake(queue) = self {
            queue.charge(bytes);
        }
    }

    /// Returns the time before which the queue's own shaper, if it has one, lets no packet pass.
    pub fn ready_at(&self) -> Option<Instant> {
        match self {
            Self::Cake(queue) => queue.ready_at(),
            Self::CoDel(_) | Self::FqCoDel(_) | Self::AckAware(_) | Self::Pie(_) | Self::DualPi2(_) => None,
        }
    }

    /// Changes target and interval of CoDel and FQ-CoDel.
    pub fn tune(&mut self, config: CoDelConfig) {
        match self {
            Self::CoDel(queue) => queue.control.tune(config),
            Self::FqCoDel(queue) => queue.tune(config),
            Self::AckAware(_) | Self::Pie(_) | Self::DualPi2(_) | Self::Cake(_) => {}
        }
    }

    /// Changes the maximum number of packets of FQ-CoDel. Waiting packets beyond it are dropped with the next arrival.
    pub fn change_limit(&mut self, packets: u32) {
        match self {
            Self::FqCoDel(queue) => queue.change_limit(packets),
            Self::CoDel(_) | Self::AckAware(_) | Self::Pie(_) | Self::DualPi2(_) | Self::Cake(_) => {}
        }
    }

    /// Returns the backlog.
    pub fn backlog(&self) -> Backlog {
        match self {
            Self::CoDel(queue) => queue.backlog,
            Self::FqCoDel(queue) => queue.backlog(),
            Self::AckAware(queue) => queue.backlog(),
            Self::Pie(queue) => queue.backlog(),
            Self::DualPi2(queue) => queue.backlog(),
            Self::Cake(queue) => queue.backlog(),
        }
    }
}
