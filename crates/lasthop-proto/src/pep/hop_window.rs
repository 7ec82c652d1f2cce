//! Window of one connection on the hop: the maximum amount of its data in flight on the hop.
//!
//! Data beyond the window is held at the base station. This keeps the queue in front of the hop short if that queue is
//! not the base station's own, so that repairs and all other traffic cross quickly. The window follows FAST TCP (Jin,
//! Wei, Low, INFOCOM 2004): it reacts to delay only, since loss on this hop does not indicate congestion.
//!
//! Not all delay is queueing. If the link layer retransmits frames, or the hop's delay varies for another reason, most
//! packets are late however few are in flight. A standing queue delays every packet (RFC 8289 §3.2). It is therefore
//! measured by the packets that took the least time for the amount in flight when they left. They show the rate at
//! which the hop delivers, and data in flight beyond that rate times the shortest round trip is queued.
//!
//! A queue with less capacity than the target backlog overflows without a visible delay. Corruption of more than half
//! of all packets makes a hop useless. Therefore no hop is taken to be faster than twice the rate at which data
//! arrived, and if more than a third is lost round after round, half the backlog is tried ([`overflow`]).

mod overflow;
mod pacing;
mod slow_start;
mod yielding;

use self::overflow::{Advice, Allowance, Losses, Overflow};
pub(super) use self::pacing::{Pace, Pacer};
use self::slow_start::{Known, Limited, SlowStart};
use self::yielding::Yielding;
use crate::seq::Seq;
use crate::tcp::congestion::max_filter::{MaxFilter, Moment};
use crate::time::{Duration, Instant};

/// Minimum window, in segments: enough to show a loss.
const LEAST: u64 = 4;

/// Window while it yields to a managed queue, in segments: the second shows the loss of the first.
const YIELDING: u64 = 2;

/// Initial window, in segments (RFC 6928).
const FIRST: u64 = 10;

/// Maximum window, in bytes.
const MOST: u64 = 1 << 28;

/// Minimum queueing delay aimed at: CoDel's target (RFC 8289 §4.3). On a fast hop a few segments wait for less time
/// than schedulers and interrupts take, whose delays would look like a queue.
const TARGET: Duration = Duration::from_millis(5);

/// Divisor of the shortest round trip for the queueing delay aimed at, if that is longer: 6 % of a round trip, as CoDel's
/// target of its interval (RFC 8289 §4.3). On a long hop whose rate rises, the window would otherwise follow too slowly.
const TARGET_PART: u64 = 16;

/// Interval at which the queue is drained to measure the hop's base delay again: the path may have changed.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Number of round trips over which the maximum rate is taken, as for BBR's bandwidth filter
/// (draft-cardwell-iccrg-bbr-congestion-control-00, BtlBwFilterLen).
const RATE_ROUNDS: u32 = 10;

/// Parameters of flow control on the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopControl {
    /// Target queue in front of the hop, in segments (FAST's alpha), for all connections to a mobile host together, and
    /// at least two for each.
    pub backlog: u32,
    /// Initial limit of a connection's bytes held at the base station. The sender's window then follows the wired path
    /// and may grow to 16 times as much.
    pub held: u32,
}

impl HopControl {
    /// 10 segments in the queue, 256 KiB held.
    pub const DEFAULT: Self = Self { backlog: 10, held: 256 << 10 };
}

/// Growth of a window that is too small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    /// Doubles each round trip until half the backlog is queued.
    SlowStart,
    /// Approaches the window at which the whole backlog is queued.
    Steady,
}

/// State of the periodic drain of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    Idle,
    /// Lasts a round trip, until the data sent into the queue has left it.
    Drain,
    /// Lasts another round trip, whose minimum is the new base.
    Measure,
}

/// Window of one connection, and its use.
#[derive(Clone, Debug)]
pub(super) struct HopWindow {
    window: u64,
    in_flight: u64,
    /// Largest segment seen, in bytes.
    segment: u64,
    /// Backlog aimed at, in bytes, if it exceeds the configured one.
    target: u64,
    /// Upper limit of the backlog, in bytes, set when the queue has overflowed.
    most_queued: u64,
    overflow: Overflow,
    /// Number of bytes that have arrived so far.
    arrived: u32,
    base: Option<Duration>,
    /// Rate at which the hop would deliver the data in flight without loss, in bytes per second.
    rate: MaxFilter,
    /// Rate at which data arrived, in bytes per second.
    brought: MaxFilter,
    /// Number of round trips so far.
    rounds: u32,
    growth: Growth,
    probe: Probe,
    /// Time of the next drain; `None` before the first round trip.
    probe_at: Option<Instant>,
    /// End of the round trip: it is over when data at or above this number has arrived.
    round_end: Seq,
    samples: Samples,
    start: SlowStart,
    yielding: Yielding,
}

/// One packet's crossing of the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Crossing {
    /// Transmission time.
    pub sent: Instant,
    /// Bytes in flight at that time, including the packet; 0 if that says nothing of the hop's rate.
    pub under_way: u32,
    /// Bytes that had arrived by that time, as counted by [`HopWindow::arrived`].
    pub arrived_before: u32,
}

/// Measurements within a round trip.
#[derive(Clone, Copy, Default, Debug)]
struct Samples {
    shortest: Option<Duration>,
    /// Bytes in flight with the packets.
    under_way: Load,
    /// Bytes of `under_way` that arrived before the packets did.
    came: Load,
}

/// Bytes on the hop together with packets, each of which took a time to cross it.
#[derive(Clone, Copy, Default, Debug)]
struct Load {
    /// Maximum over the packets of bytes divided by crossing time, in bytes per second.
    rate: u64,
    /// Maximum number of bytes with one packet.
    most: u64,
    /// Sum over all packets.
    sum: u64,
}

impl Load {
    fn add(&mut self, rtt: Duration, bytes: u64) {
        self.rate = self.rate.max(bytes * 1_000_000_000 / rtt.as_nanos().max(1));
        self.most = self.most.max(bytes);
        self.sum += bytes;
    }
}

impl Samples {
    fn add(&mut self, rtt: Duration, under_way: u64, came: u64) {
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        self.under_way.add(rtt, under_way);
        self.came.add(rtt, came);
    }
}

impl HopWindow {
    /// Returns an empty window for a connection whose data begins at `start`.
    pub fn new(start: Seq) -> Self {
        Self {
            window: 0,
            in_flight: 0,
            segment: 0,
            target: 0,
            most_queued: u64::MAX,
            overflow: Overflow::new(),
            arrived: 0,
            base: None,
            rate: MaxFilter::default(),
            brought: MaxFilter::default(),
            rounds: 0,
            growth: Growth::SlowStart,
            probe: Probe::Idle,
            probe_at: None,
            round_end: start,
            samples: Samples::default(),
            start: SlowStart::default(),
            yielding: Yielding::default(),
        }
    }

    /// Returns the window, which before the first round trip is the initial one.
    fn window(&self) -> u64 {
        if self.window == 0 { FIRST * self.segment } else { self.window }
    }

    /// Returns the number of bytes that may be on the hop.
    fn allowed(&self, control: HopControl) -> u64 {
        let window = self.window();
        if self.yielding.is_active() {
            return window.min(YIELDING * self.segment);
        }
        match self.probe {
            Probe::Idle => window,
            // The whole backlog, and as much again in case its estimate is off.
            Probe::Drain | Probe::Measure => window.saturating_sub(2 * self.backlog(control)).max(LEAST * self.segment),
        }
    }

    /// Returns the rate that spreads the window over the shortest round trip, or `None` before that is known.
    pub fn pace(&self) -> Option<Pace> {
        let base = self.base?;
        let gain = match self.growth {
            Growth::SlowStart => 2,
            Growth::Steady => 1,
        };
        let rate = gain * u128::from(self.window) * 1_000_000_000 / u128::from(base.as_nanos().max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        (self.window < MOST).then_some(Pace { rate, least_burst: (FIRST * self.segment).min(self.most_queued) })
    }

    /// Returns the shortest round trip on the hop.
    pub fn base(&self) -> Option<Duration> {
        self.base
    }

    /// Returns the window, in bytes.
    pub fn bytes(&self) -> u64 {
        self.window()
    }

    /// Returns the initial window, in bytes.
    pub fn first(&self) -> u32 {
        u32::try_from(FIRST * self.segment).unwrap_or(u32::MAX)
    }

    /// Returns the window, in segments.
    pub fn segments(&self) -> u64 {
        if self.window == 0 { FIRST } else { self.window / self.segment.max(1) }
    }

    /// Returns the target backlog in front of the hop, in bytes.
    pub fn backlog(&self, control: HopControl) -> u64 {
        (u64::from(control.backlog) * self.segment).max(self.target).min(self.most_queued)
    }

    /// Returns whether `len` more bytes may be sent, if `arrived` bytes of those in flight are known to have arrived.
    pub fn admits(&mut self, control: HopControl, len: u32, arrived: u64) -> bool {
        self.segment = self.segment.max(len.into());
        let in_flight = self.in_flight.saturating_sub(arrived);
        let admitted = in_flight == 0 || in_flight + u64::from(len) <= self.allowed(control);
        if !admitted {
            self.start.hold_back();
        }
        admitted
    }

    /// Returns whether an acknowledgment arrives sooner after a transmission than the hop can have delivered it: within
    /// half the shortest round trip seen, since a queue or a slow scheduler may have delayed even that one.
    pub fn is_too_soon(&self, elapsed: Duration) -> bool {
        self.base.is_some_and(|base| elapsed < base.saturating_sub(TARGET) / 2)
    }

    /// Opens the window for all data.
    pub fn open(&mut self) {
        (self.window, self.probe, self.in_flight) = (MOST, Probe::Idle, 0);
    }

    /// Counts `len` bytes as sent, and returns the number of bytes in flight.
    pub fn sent(&mut self, len: u32) -> u32 {
        self.segment = self.segment.max(len.into());
        self.in_flight += u64::from(len);
        self.start.sent(self.in_flight);
        u32::try_from(self.in_flight).unwrap_or(u32::MAX)
    }

    /// Returns the number of bytes that have arrived so far, modulo 2^32.
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Records that `len` bytes have arrived.
    pub fn landed(&mut self, len: u64) {
        if self.growth == Growth::SlowStart {
            let window = self.window();
            if self.start.grows(window, self.segment) {
                self.window = (window + len).min(MOST);
            }
        }
        self.out_of_sight(len);
        self.arrived = self.arrived.wrapping_add(len as u32);
    }

    /// Records that a packet was lost. The next data sent begins at `next`. Only the smallest window yields, as larger
    /// ones follow the delay.
    pub fn lose(&mut self, now: Instant, next: Seq) {
        if self.window > 0 && self.window <= LEAST * self.segment {
            self.yielding.lose(now, next);
        }
    }

    /// Stops counting `len` bytes as in flight, whether or not they arrive.
    pub fn out_of_sight(&mut self, len: u64) {
        self.in_flight = self.in_flight.saturating_sub(len);
    }

    /// Takes a sample from the packet at `seq`, which has crossed the hop. The next data sent begins at `next`.
    pub fn sample(&mut self, now: Instant, control: HopControl, crossing: Crossing, seq: Seq, next: Seq) {
        let came = self.arrived.wrapping_sub(crossing.arrived_before).min(crossing.under_way);
        let rtt = now.since(crossing.sent);
        self.samples.add(rtt, crossing.under_way.into(), came.into());
        self.yielding.cross(now, seq, self.base.is_some_and(|base| rtt <= base + TARGET));
        if let Some(base) = self.base.filter(|_| self.growth == Growth::SlowStart) {
            let known = Known { base, rate: self.rate.max(), backlog: self.backlog(control) };
            self.start.look_for_queue(rtt, crossing.under_way.into(), known);
        }
        if seq.ge(self.round_end) {
            self.end_round(now, control);
            self.round_end = next;
        }
    }

    fn end_round(&mut self, now: Instant, control: HopControl) {
        let samples = core::mem::take(&mut self.samples);
        let Some(shortest) = samples.shortest else { return };
        self.rounds = self.rounds.wrapping_add(1);
        let moment = Moment { round: self.rounds, window: RATE_ROUNDS };
        self.rate.update(moment, samples.under_way.rate.min(2 * samples.came.rate));
        self.brought.update(moment, samples.came.rate);
        self.window = self.window();
        let base = match self.probe {
            Probe::Measure => shortest,
            Probe::Idle | Probe::Drain => self.base.map_or(shortest, |base| base.min(shortest)),
        };
        self.base = Some(base);
        let limited = self.start.end_round(self.in_flight);
        if limited == Limited::Yes && self.probe == Probe::Idle && samples.under_way.most > 0 {
            self.adjust(base, samples.under_way.most, control);
        }
        if self.probe == Probe::Idle {
            self.heed_overflow(base, samples, control);
        }
        let probe_at = *self.probe_at.get_or_insert(now + PROBE_INTERVAL);
        self.probe = match self.probe {
            Probe::Idle if now >= probe_at => Probe::Drain,
            Probe::Drain => Probe::Measure,
            Probe::Idle | Probe::Measure => Probe::Idle,
        };
        if self.probe == Probe::Drain {
            self.probe_at = Some(now + PROBE_INTERVAL);
            self.most_queued = self.most_queued.saturating_mul(2);
            self.overflow.forget();
        }
    }

    /// Checks for overflow, in which case half the backlog is enough. The next drain tries twice as much.
    fn heed_overflow(&mut self, base: Duration, Samples { under_way, came, .. }: Samples, control: HopControl) {
        let losses = Losses { lost: under_way.sum.saturating_sub(came.sum), of: under_way.sum };
        let allowed = Allowance { window: self.window, most_queued: self.most_queued };
        match self.overflow.round(losses, allowed) {
            Advice::Keep => {}
            Advice::Halve => {
                self.most_queued = (self.backlog(control) / 2).max(2 * self.segment);
                let fits = during(self.brought.max(), base) + self.most_queued;
                self.window = self.window.min(fits).max(LEAST * self.segment);
                self.growth = Growth::Steady;
                // Lost data counted as delivered.
                self.rate = MaxFilter::default();
            }
            Advice::Restore(Allowance { window, most_queued }) => {
                self.window = self.window.max(window);
                self.most_queued = most_queued;
            }
        }
    }

    /// Applies FAST's update once per round trip: w = w/2 + (base/rtt w + alpha)/2. With w/rtt as the rate, this adds
    /// half of what the queue lacks or removes half of its excess. `most` is the maximum number of bytes in flight.
    fn adjust(&mut self, base: Duration, most: u64, control: HopControl) {
        // Lost data counts as delivered, except while half the backlog is tried.
        let rate = if self.overflow.is_trying() { self.brought.max() } else { self.rate.max() };
        // Limited so that the window at most doubles.
        self.target = during(rate, TARGET.max(base / TARGET_PART)).min(2 * self.window);
        let backlog = self.backlog(control);
        let queued = most.saturating_sub(during(rate, base));
        if self.growth == Growth::Steady || 2 * queued >= backlog {
            self.growth = Growth::Steady;
            self.window = (self.window + backlog / 2).saturating_sub(queued / 2);
        }
        self.window = self.window.clamp(LEAST * self.segment, MOST);
    }
}

/// Returns the number of bytes that arrive in `time` at `rate` bytes per second.
fn during(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000) as u64
}

#[cfg(test)]
impl HopWindow {
    /// Returns the number of bytes on the hop.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

#[cfg(test)]
#[path = "hop_window_tests.rs"]
mod tests;
