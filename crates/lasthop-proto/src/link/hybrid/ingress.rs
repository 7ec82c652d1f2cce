//! Queue in front of the hop: FQ-CoDel (RFC 8290) over packets that have not been sent yet.

use alloc::vec::Vec;

use super::frame::Item;
use super::limits;
use super::settings::HopConfig;
use super::windows::{Ticket, Windows};
use crate::queue::{CoDelConfig, FqCoDelConfig, ManagedQueue, Queued};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// A full-size frame, in bits.
const FRAME_BITS: u64 = 1514 * 8;

/// A waiting packet.
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

/// Ratio of the interval to the target: RFC 8289 §3.2 recommends a target of 5 to 10 % of the interval.
const TARGETS: u64 = 10;

/// Maximum target, regardless of the round-trip time that the other end suggests.
const LONGEST: Duration = Duration::from_secs(5);

/// Maximum number of pending congestion signals.
const MOST_OWED: u32 = 8;

/// Minimum and maximum of the time for which congestion signals stay pending (four round trips). They are for sources
/// that send now: packets sent later did not meet that congestion.
const SHORTEST_OWED: Duration = Duration::from_millis(100);
const LONGEST_OWED: Duration = Duration::from_secs(1);

/// The queues.
#[derive(Clone, Debug)]
pub(super) struct Ingress<I: Item> {
    queue: ManagedQueue<Entry<I>>,
    /// Configured maximum number of packets; `None` if it follows the hop.
    limit: Option<u32>,
    /// Memory of the end, in bytes.
    memory: u64,
    /// Configured target.
    given: Duration,
    /// Target beyond the round trip.
    target: Duration,
    interval: Duration,
    /// Round trip to which the queues are tuned, and rate in bits per second to which their limit is.
    trip: Duration,
    rate: u64,
    /// Round trip and rate of the last call of [`Self::tune`].
    tuned: (Duration, u64),
    gone: Vec<Entry<I>>,
    windows: Windows<I::Connection>,
    dropped: u64,
    /// Number of packets still to be marked or dropped, since the hop lost as many to congestion.
    owed: u32,
    /// Time at which the pending signals expire.
    owed_until: Instant,
    /// Indicates whether the last packet was dropped as such a signal.
    signalled: bool,
}

impl<I: Item> Ingress<I> {
    /// Returns the queues for a hop of `rate` bits per second.
    pub fn new(config: &HopConfig, rate: u64) -> Self {
        // Below 1.5 frames, queueing delay cannot be distinguished from transmission time.
        let (given, interval, limit) = (config.target, config.interval, config.queue);
        let memory = config.memory;
        let target = given.max(frames(rate));
        // Several drops at once would be a burst of losses caused here.
        let codel = codel(target, interval, Duration::ZERO);
        let config = FqCoDelConfig {
            codel,
            limit: limit.unwrap_or_else(|| limits::queue(rate, Duration::ZERO, memory)),
            drop_batch: 1,
            ..FqCoDelConfig::default()
        };
        let queue = ManagedQueue::FqCoDel(crate::queue::FqCoDel::new(config).into());
        let windows = Windows::new();
        Self {
            queue,
            limit,
            memory,
            given,
            target,
            interval,
            trip: Duration::ZERO,
            rate,
            tuned: (Duration::ZERO, 0),
            gone: Vec::new(),
            windows,
            dropped: 0,
            owed: 0,
            owed_until: Instant::ZERO,
            signalled: false,
        }
    }

    /// Adapts target and limit to the hop's rate and round trip: while a hole is repaired a flow stalls, and its source
    /// then sends a burst of about the data of one round trip of the hop.
    pub fn tune(&mut self, trip: Duration, rate: u64) {
        if self.tuned == (trip, rate) {
            return;
        }
        self.tuned = (trip, rate);
        let target = self.given.max(frames(rate));
        if target != self.target {
            (self.target, self.trip) = (target, Duration::ZERO);
        }
        let apart = trip.max(self.trip).saturating_sub(trip.min(self.trip));
        let is_apart = apart > trip.max(self.trip) / 8;
        if is_apart {
            self.trip = trip;
            self.queue.tune(codel(self.target, self.interval, trip));
        }
        if self.limit.is_none() && (is_apart || rate.abs_diff(self.rate) > rate.max(self.rate) / 8) {
            self.rate = rate;
            self.queue.change_limit(limits::queue(rate, trip, self.memory));
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
            let mut popped = queue.pop_telling(now, gone, |entry| {
                entry.item.mark() || entry.ticket.is_some_and(|ticket| windows.tell(now, ticket))
            });
            self.count(now);
            // The packet stays in place until it is returned: it is large.
            let entry = popped.as_mut()?;
            if let Some(ticket) = entry.ticket {
                self.windows.on_left(now, ticket);
            }
            if now >= self.owed_until {
                self.owed = 0;
            }
            // A source that sends one packet per timeout would lose all of them.
            let alone = self.queue.backlog().packets == 0;
            if self.owed == 0 || (self.signalled && alone) {
                self.signalled = false;
                return popped.map(|entry| entry.item);
            }
            self.owed -= 1;
            // The flow's queue is among others' packets, whose sources react to drops. A capped flow would yield its
            // share to them, and not notice when they have left.
            if entry.item.mark() {
                return popped.map(|entry| entry.item);
            }
            self.signalled = true;
            self.dropped += 1;
        }
    }

    /// Adjusts a packet that arrived over the hop and is passed on.
    pub fn on_arrived(&mut self, now: Instant, item: &mut I) {
        self.windows.on_arrived(now, item);
    }

    /// Resets the tracked windows, and discards pending congestion signals, after a change of path.
    pub fn forget_windows(&mut self) {
        self.windows.forget();
        self.owed = 0;
    }

    /// Signals `packets` losses to congestion, which the hop repairs, to the sources by as many marks or drops
    /// within the next four round trips of `trip`.
    pub fn tell_congestion(&mut self, now: Instant, packets: u32, trip: Duration) {
        if packets == 0 {
            return;
        }
        let pending = if now < self.owed_until { self.owed } else { 0 };
        self.owed = pending.saturating_add(packets).min(MOST_OWED);
        self.owed_until = now + trip.saturating_mul(4).clamp(SHORTEST_OWED, LONGEST_OWED);
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

    /// Returns the number of tracked TCP connections.
    pub fn connections(&self) -> usize {
        self.windows.len()
    }
}

/// Returns the transmission time of 1.5 frames.
fn frames(rate: u64) -> Duration {
    Duration::from_nanos(FRAME_BITS * 1_500_000_000 / rate.max(1))
}

fn codel(target: Duration, interval: Duration, trip: Duration) -> CoDelConfig {
    let target = (target + trip).min(LONGEST);
    CoDelConfig { target, interval: interval.max(target.saturating_mul(TARGETS)), ecn: Switch::On }
}

#[cfg(test)]
mod tests {
    use super::super::RateRule;
    use super::super::settings::{Medium, Repair};
    use super::*;
    use crate::packet::{Body, Packet, Segment};

    /// Three round trips of 40 ms at 100 Mbps are 1000 packets, at 1 Gbps 10,000. The limit follows an estimated rate
    /// although the round trip stays the same.
    #[test]
    fn an_automatic_limit_follows_the_rate() {
        let config = HopConfig {
            rate: RateRule::Auto,
            repair: Repair::Adaptive,
            medium: Medium::Own,
            header: 58,
            queue: None,
            memory: 64 << 20,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        };
        let mut ingress: Ingress<Packet> = Ingress::new(&config, 1_000_000);
        let packet = Packet { len: 1390, body: Body::Tcp(Segment::default()), ..Packet::default() };
        let trip = Duration::from_millis(40);
        for (rate, most) in [(100_000_000, 1000), (1_000_000_000, 9999), (100_000_000, 1000)] {
            ingress.tune(trip, rate);
            (0..12_000).for_each(|_| ingress.push(Instant::ZERO, packet));
            assert_eq!(ingress.waiting(), most, "{rate}");
        }
    }
}
