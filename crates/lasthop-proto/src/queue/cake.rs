//! CAKE (Høiland-Jørgensen et al., "Piece of CAKE", 2018): a queue for each flow, shares by flows and hosts (triple
//! isolation), tins by DSCP, COBALT in each line, and optionally a shaper and an ACK filter.
//!
//! Arithmetic and order of decisions are those of Linux 6.18 (`sch_cake`) for outgoing traffic. Instead of hashing
//! addresses, flow numbers are spread evenly over the lines, and each host has an entry of its own.

mod tin;

use alloc::vec::Vec;

use self::tin::{Parting, Tin};
use super::{Backlog, MTU, Queued, View};
use crate::random::Stream;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Number of lines of a tin.
const LINES: u32 = 1024;
/// Maximum number of full packets that the memory holds.
const MOST_PACKETS: u64 = 10_240;
/// Minimum memory with a shaper, in bytes.
const LEAST_MEMORY: u64 = 4 << 20;
/// Minimum rate of a tin, in bytes per second.
const LEAST_RATE: u64 = 64;

/// Assignment of packets to tins by their DSCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tins {
    /// A single tin.
    BestEffort,
    /// Bulk, best effort, voice.
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
}

impl Tins {
    /// Returns the tin of a packet. The order is that of priorities, except that best effort is first.
    const fn of(self, service: u8) -> usize {
        match (self, service) {
            (Self::BestEffort, _) => 0,
            // LE, CS1
            (_, 1 | 8) => 1,
            // VA, EF, CS6, CS7
            (Self::Diffserv3, 4 | 44 | 46 | 48 | 56) => 2,
            // CS4, CS5, VA, EF, CS6, CS7
            (Self::Diffserv4, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            // TOS4, CS2, AF2x, CS3, AF3x, AF4x
            (Self::Diffserv4, 4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38) => 2,
            (Self::Diffserv3 | Self::Diffserv4, _) => 0,
        }
    }

    /// Returns for each tin the shift by which its share is smaller than the whole.
    const fn shares(self) -> &'static [u32] {
        match self {
            Self::BestEffort => &[0],
            Self::Diffserv3 => &[0, 4, 2],
            Self::Diffserv4 => &[0, 4, 1, 2],
        }
    }

    /// Returns the bytes of a turn of the first tin, if no shaper decides.
    const fn quantum(self) -> u32 {
        match self {
            Self::BestEffort => 65_535,
            Self::Diffserv3 | Self::Diffserv4 => 1024,
        }
    }
}

/// Sharing of a tin among flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Equal shares for all flows.
    Flows,
    /// Equal shares for sources, and for the flows of each.
    Sources,
    /// Equal shares for destinations, and for the flows of each.
    Destinations,
    /// A flow's share is limited by the number of flows of its source and of its destination.
    Triple,
}

impl Isolation {
    /// Returns whether the flows of a source share, and those of a destination.
    const fn hosts(self) -> [bool; 2] {
        match self {
            Self::Flows => [false, false],
            Self::Sources => [true, false],
            Self::Destinations => [false, true],
            Self::Triple => [true, true],
        }
    }
}

/// CAKE's parameters, with Linux's values as defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CakeConfig {
    /// Rate of the shaper, in bits per second; `None` for no shaper.
    pub rate: Option<u64>,
    /// Accepted delay, which a low rate raises.
    pub target: Duration,
    /// Time for which the delay may exceed the target before a reaction: a worst-case round trip.
    pub interval: Duration,
    /// Assignment to tins.
    pub tins: Tins,
    /// Sharing within a tin.
    pub isolation: Isolation,
    /// Removes acknowledgments of a flow, if at least two waiting ones are made redundant by an arriving one.
    pub ack_filter: Switch,
    /// Maximum number of bytes in all queues; `None` for four times the rate times the interval, at least 4 MiB, and at
    /// most 10,240 full packets.
    pub memory: Option<u64>,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            rate: None,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            tins: Tins::Diffserv3,
            isolation: Isolation::Triple,
            ack_filter: Switch::Off,
            memory: None,
        }
    }
}

impl CakeConfig {
    /// Returns the maximum number of bytes in all queues.
    pub fn memory(&self) -> u64 {
        let most = MOST_PACKETS * u64::from(MTU);
        match (self.memory, self.rate) {
            (Some(memory), _) => memory,
            (None, None) => most,
            (None, Some(rate)) => {
                let span = u128::from(rate / 8) * u128::from(self.interval.as_nanos()) * 4 / 1_000_000_000;
                u64::try_from(span).unwrap_or(u64::MAX).max(LEAST_MEMORY).min(most)
            }
        }
    }
}

/// A rate as the time of a byte, in units of 2⁻ˢʰⁱᶠᵗ ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByteTime {
    time: u64,
    shift: u32,
}

impl ByteTime {
    /// Returns the time of a byte at `rate` bytes per second.
    fn at(rate: u64) -> Self {
        let mut time = (1_000_000_000u64 << 34) / rate.max(LEAST_RATE);
        let mut shift = 34;
        while time >> 34 > 0 {
            time >>= 1;
            shift -= 1;
        }
        Self { time, shift }
    }

    /// Returns the time of `bytes`, in nanoseconds.
    const fn of(self, bytes: u32) -> i64 {
        ((bytes as u128 * self.time as u128) >> self.shift) as i64
    }
}

/// The tins and the shaper.
#[derive(Clone, Debug)]
pub struct Cake<T> {
    config: CakeConfig,
    memory: u64,
    tins: Vec<Tin<T>>,
    /// Tin whose turn it is, if no shaper decides.
    turn: usize,
    backlog: Backlog,
    /// Time from which the shaper lets the next packet pass, in nanoseconds.
    next: i64,
    shaper: Option<ByteTime>,
    draws: Stream,
}

const fn nanos(at: Instant) -> i64 {
    at.as_nanos() as i64
}

impl<T: Queued> Cake<T> {
    /// Returns empty queues. Their random numbers come from `draws`.
    pub fn new(config: CakeConfig, draws: Stream) -> Self {
        let rate = config.rate.map(|rate| rate / 8);
        let tin = |shift: &u32| Tin::new(&config, rate.map(|rate| rate >> shift), config.tins.quantum() >> shift);
        Self {
            config,
            memory: config.memory(),
            tins: config.tins.shares().iter().map(tin).collect(),
            turn: 0,
            backlog: Backlog::default(),
            next: 0,
            shaper: rate.map(ByteTime::at),
            draws,
        }
    }

    /// Enqueues a packet. Packets dropped because memory ran out are added to `dropped`, a redundant acknowledgment to
    /// `filtered`.
    pub fn push(&mut self, now: Instant, item: T, view: &View, dropped: &mut Vec<T>, filtered: &mut Vec<T>) {
        let at = nanos(now);
        let tin = &mut self.tins[self.config.tins.of(view.service)];
        if tin.is_empty() {
            tin.next = tin.next.max(at);
            if self.backlog.packets == 0 {
                self.next = self.next.max(at);
            }
        }
        self.backlog.add(item.bytes());
        let place = tin.enqueue(at, item, view, &self.config);
        if self.config.ack_filter.is_on()
            && let Some(ack) = tin.filter(place)
        {
            self.backlog.remove(ack.bytes());
            filtered.push(ack);
        }
        tin.activate(place, &self.config, &mut self.draws);
        while self.backlog.bytes > self.memory {
            let Some(item) = self.tins.iter_mut().max_by_key(|tin| tin.longest()).and_then(|tin| tin.cut_longest(at))
            else {
                break;
            };
            self.backlog.remove(item.bytes());
            dropped.push(item);
        }
    }

    /// Dequeues the next packet, as [`super::ManagedQueue::pop_telling`]. Does not wait for the shaper:
    /// [`Self::ready_at`] does.
    pub fn pop(&mut self, now: Instant, dropped: &mut Vec<T>, tell: &mut impl FnMut(&mut T) -> bool) -> Option<T> {
        let at = nanos(now);
        let mut first = true;
        while self.backlog.packets > 0 {
            let place = self.choose_tin(at)?;
            let parting = &mut Parting { dropped, first, backlog: &mut self.backlog, draws: &mut self.draws };
            first = false;
            let Some(item) = self.tins[place].dequeue(at, &self.config, parting, tell) else { continue };
            self.tins[place].charge(at, item.bytes());
            self.charge(item.bytes());
            return Some(item);
        }
        None
    }

    /// Charges the shaper for a packet, of CAKE or one that precedes it.
    pub fn charge(&mut self, bytes: u32) {
        if let Some(shaper) = self.shaper {
            self.next = self.next.saturating_add(shaper.of(bytes));
        }
    }

    /// Returns the time from which the shaper lets the next packet pass; `None` without a shaper.
    pub fn ready_at(&self) -> Option<Instant> {
        self.shaper.map(|_| Instant::from_nanos(self.next.max(0) as u64))
    }

    /// Returns the tin to serve: with a shaper the one of highest priority within its share, or the one that comes
    /// within it first; otherwise by turns in bytes.
    fn choose_tin(&mut self, now: i64) -> Option<usize> {
        if self.shaper.is_some() {
            let mut best: Option<(usize, i64)> = None;
            for (place, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.is_busy()) {
                let wait = tin.next - now;
                if wait <= 0 || best.is_none_or(|(_, other)| wait <= other) {
                    best = Some((place, wait));
                }
            }
            return best.map(|(place, _)| place);
        }
        if !self.tins.iter().any(Tin::is_busy) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.turn];
            if tin.deficit >= 0 && tin.is_busy() {
                return Some(self.turn);
            }
            if tin.deficit <= 0 {
                tin.deficit += i64::from(tin.quantum);
            }
            self.turn = (self.turn + 1) % self.tins.len();
        }
    }

    /// Returns the backlog of all queues.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
#[path = "cake_tests.rs"]
mod tests;
