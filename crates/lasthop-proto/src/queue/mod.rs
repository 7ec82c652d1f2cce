//! Queues in front of links beyond drop-tail: CoDel (RFC 8289) and FQ-CoDel (RFC 8290), with ECN marks (RFC 3168), and
//! one that recognizes TCP acknowledgments (RFC 3449). State machines without I/O, in integers: a link's driver
//! enqueues and dequeues packets.

mod ack_aware;
mod codel;
mod fq_codel;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use ack_aware::{AckAware, AckAwareConfig, Sight};
pub use codel::{CoDel, CoDelConfig};
pub use fq_codel::{FqCoDel, FqCoDelConfig};

use crate::time::Instant;

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
}

impl QueueSpec {
    /// Returns whether the queue marks ECN-capable packets where it would drop others.
    pub const fn marks(&self) -> bool {
        match self {
            Self::Fifo(_) | Self::AckAware(_) => false,
            Self::CoDel(_, config) => config.ecn.is_on(),
            Self::FqCoDel(config) => config.codel.ecn.is_on(),
        }
    }

    /// Returns whether the queue removes acknowledgments that later ones make redundant.
    pub const fn filters(&self) -> bool {
        matches!(self, Self::AckAware(config) if config.filter.is_on())
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
    /// Returns the queue that `spec` describes; `None` for one that needs no management.
    pub fn new(spec: &QueueSpec) -> Option<Self> {
        match *spec {
            QueueSpec::Fifo(_) => None,
            QueueSpec::CoDel(limit, config) => {
                let control = CoDel::new(config);
                let queue = CoDelQueue { limit, control, line: Line::new(), backlog: Backlog::default() };
                Some(Self::CoDel(Box::new(queue)))
            }
            QueueSpec::FqCoDel(config) => Some(Self::FqCoDel(Box::new(FqCoDel::new(config)))),
            QueueSpec::AckAware(config) => Some(Self::AckAware(Box::new(AckAware::new(config)))),
        }
    }

    /// Enqueues a packet without classification. Packets dropped because of it, itself included, are added to
    /// `dropped`.
    pub fn push(&mut self, now: Instant, item: T, dropped: &mut Vec<T>) {
        self.push_seen(now, item, || Sight::Other, dropped);
    }

    /// Enqueues a packet that `look` classifies, if the queue needs that.
    pub fn push_seen(&mut self, now: Instant, item: T, look: impl FnOnce() -> Sight, dropped: &mut Vec<T>) {
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
            Self::AckAware(queue) => queue.push(item, look(), dropped),
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
        }
    }

    /// Changes target and interval, if the queue uses any.
    pub fn tune(&mut self, config: CoDelConfig) {
        match self {
            Self::CoDel(queue) => queue.control.tune(config),
            Self::FqCoDel(queue) => queue.tune(config),
            Self::AckAware(_) => {}
        }
    }

    /// Changes the maximum number of packets of FQ-CoDel. Waiting packets beyond it are dropped with the next arrival.
    pub fn change_limit(&mut self, packets: u32) {
        match self {
            Self::FqCoDel(queue) => queue.change_limit(packets),
            Self::CoDel(_) | Self::AckAware(_) => {}
        }
    }

    /// Returns the backlog.
    pub fn backlog(&self) -> Backlog {
        match self {
            Self::CoDel(queue) => queue.backlog,
            Self::FqCoDel(queue) => queue.backlog(),
            Self::AckAware(queue) => queue.backlog(),
        }
    }
}
