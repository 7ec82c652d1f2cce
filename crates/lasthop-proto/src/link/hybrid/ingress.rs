//! What waits for the hop: FQ-CoDel (RFC 8290) over packets that have not been sent yet.

use alloc::vec::Vec;

use super::frame::Item;
use super::settings::HopConfig;
use super::windows::{Ticket, Windows};
use crate::queue::{CoDelConfig, FqCoDelConfig, ManagedQueue, Queued};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// A frame of full size, in bits.
const FRAME_BITS: u64 = 1514 * 8;

/// A packet that waits.
#[derive(Clone, Debug)]
struct Entry<I> {
    item: I,
    ticket: Option<Ticket>,
}

impl<I: Item> Queued for Entry<I> {
    fn bytes(&self) -> u32 {
        self.item.bytes()
    }

    fn flow(&self) -> u32 {
        self.item.flow()
    }

    fn mark(&mut self) -> bool {
        self.item.mark()
    }
}

/// The interval is so many times the target: RFC 8289 §3.2 wants the target at 5 to 10 % of it.
const TARGETS: u64 = 10;

/// The longest target, whatever the other end makes of the round trip.
const LONGEST: Duration = Duration::from_secs(5);

/// Most packets that are owed to congestion.
const MOST_OWED: u32 = 8;

/// The queues.
#[derive(Clone, Debug)]
pub(super) struct Ingress<I: Item> {
    queue: ManagedQueue<Entry<I>>,
    /// The target that was given.
    given: Duration,
    /// Above the round trip.
    target: Duration,
    interval: Duration,
    /// What the queues were tuned to.
    trip: Duration,
    gone: Vec<Entry<I>>,
    windows: Windows<I::Connection>,
    dropped: u64,
    /// Packets that are still to be marked or dropped, as the hop lost as many to congestion.
    owed: u32,
}

impl<I: Item> Ingress<I> {
    /// For a hop of `rate` bits per second.
    pub fn new(config: &HopConfig, rate: u64) -> Self {
        // Below 1.5 frames the delay of a queue cannot be told from that of sending.
        let (given, interval) = (config.target, config.interval);
        let target = given.max(frames(rate));
        // Several at once would be a burst of losses of our own making.
        let codel = codel(target, interval, Duration::ZERO);
        let config = FqCoDelConfig { codel, limit: config.queue, drop_batch: 1, ..FqCoDelConfig::default() };
        let queue = ManagedQueue::FqCoDel(crate::queue::FqCoDel::new(config).into());
        let windows = Windows::new();
        Self { queue, given, target, interval, trip: Duration::ZERO, gone: Vec::new(), windows, dropped: 0, owed: 0 }
    }

    /// Accepts the wait that a hop of that round trip makes: while a hole is repaired a flow stands still, and what its source sends then comes in one burst, of about a
    /// round trip of the hop.
    /// Where the rate is found, `rate` is what it is now.
    pub fn tune(&mut self, trip: Duration, rate: Option<u64>) {
        if let Some(rate) = rate {
            let target = self.given.max(frames(rate));
            if target != self.target {
                (self.target, self.trip) = (target, Duration::ZERO);
            }
        }
        let apart = trip.max(self.trip).saturating_sub(trip.min(self.trip));
        if apart > trip.max(self.trip) / 8 {
            self.trip = trip;
            self.queue.tune(codel(self.target, self.interval, trip));
        }
    }

    pub fn push(&mut self, now: Instant, item: I) {
        let ticket = self.windows.on_offered(now, &item);
        self.queue.push(now, Entry { item, ticket }, &mut self.gone);
        self.count(now);
    }

    pub fn pop(&mut self, now: Instant) -> Option<I> {
        loop {
            let Self { queue, gone, windows, .. } = self;
            let entry = queue.pop_telling(now, gone, |entry| {
                entry.item.mark() || entry.ticket.is_some_and(|ticket| windows.tell(now, ticket))
            });
            self.count(now);
            let mut entry = entry?;
            if let Some(ticket) = entry.ticket {
                self.windows.on_left(now, ticket);
            }
            if self.owed == 0 {
                return Some(entry.item);
            }
            self.owed -= 1;
            // Its queue stands among others' packets, whose sources hear of it by drops: a cap would leave to them what it takes, and not see when they are gone.
            if entry.item.mark() {
                return Some(entry.item);
            }
            self.dropped += 1;
        }
    }

    /// A packet that came over the hop goes on.
    pub fn on_arrived(&mut self, now: Instant, item: &mut I) {
        self.windows.on_arrived(now, item);
    }

    /// Packets go another way.
    pub fn forget_windows(&mut self) {
        self.windows.forget();
    }

    /// The hop lost so many packets to congestion and repairs them: the sources are told, by as many marks or drops.
    pub fn tell_congestion(&mut self, packets: u32) {
        self.owed = self.owed.saturating_add(packets).min(MOST_OWED);
    }

    fn count(&mut self, now: Instant) {
        self.dropped += self.gone.len() as u64;
        for ticket in self.gone.drain(..).filter_map(|entry| entry.ticket) {
            self.windows.on_left(now, ticket);
        }
    }

    pub fn waiting(&self) -> usize {
        self.queue.backlog().packets as usize
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn windows_cut(&self) -> u64 {
        self.windows.cuts()
    }

    /// TCP connections that are remembered.
    pub fn connections(&self) -> usize {
        self.windows.len()
    }
}

/// What 1.5 frames take.
fn frames(rate: u64) -> Duration {
    Duration::from_nanos(FRAME_BITS * 1_500_000_000 / rate.max(1))
}

fn codel(target: Duration, interval: Duration, trip: Duration) -> CoDelConfig {
    let target = (target + trip).min(LONGEST);
    CoDelConfig { target, interval: interval.max(target.saturating_mul(TARGETS)), ecn: Switch::On }
}
