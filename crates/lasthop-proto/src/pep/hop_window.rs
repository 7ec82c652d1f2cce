//! How much of one connection's data is on the hop at once.
//!
//! What the sender sends beyond is held at the base station. Thus the queue in front of the hop stays short, where that queue
//! is not the base station's own: repairs come through fast, and so does everybody else's traffic. The window follows FAST
//! TCP (Jin, Wei, Low, INFOCOM 2004): it looks at delay only, since on this hop loss says nothing of congestion.
//!
//! Not all delay is a queue. Where a link layer repeats frames, or the hop's delay varies otherwise, most packets come late, however few are
//! under way. A queue that stands is a delay that no packet escapes (RFC 8289 §3.2). So it is told by those that took the least time for
//! what was on the hop when they left: these show at what rate the hop can bring what it is given, and what is under way beyond that rate
//! times the shortest round trip is a queue.
//!
//! A queue that holds less than the backlog aimed at overflows, and delay does not show it. Corruption that takes more than half of
//! all packets leaves no hop that anybody would use. So no hop passes for faster than twice what it has brought, and where more than a
//! third is lost round after round, half of the backlog is tried ([`overflow`]).

mod overflow;
mod pacing;
mod slow_start;

use self::overflow::{Advice, Allowance, Losses, Overflow};
pub(super) use self::pacing::{Pace, Pacer};
use self::slow_start::{Known, Limited, SlowStart};
use crate::seq::Seq;
use crate::tcp::congestion::max_filter::{MaxFilter, Moment};
use crate::time::{Duration, Instant};

/// The least window, in segments: enough to show a loss.
const LEAST: u64 = 4;

/// The first window, in segments (RFC 6928).
const FIRST: u64 = 10;

/// The largest window, in bytes.
const MOST: u64 = 1 << 28;

/// The least queueing delay that is aimed at: CoDel's target (RFC 8289 §4.3). On a fast hop a few segments wait for less time
/// than schedulers and interrupts take, whose delays would pass for a queue.
const TARGET: Duration = Duration::from_millis(5);

/// How often the queue is let run dry, to see how long the hop takes without one: the path may have changed.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Round trips of which the highest rate counts: those of BBR's maximum (draft-cardwell-iccrg-bbr-congestion-control-00, BtlBwFilterLen).
const RATE_ROUNDS: u32 = 10;

/// Parameters of flow control on the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopControl {
    /// Segments that are to wait in the queue in front of the hop (FAST's alpha): of all connections to a mobile host together, and at
    /// least two of each.
    pub backlog: u32,
    /// Bytes of a connection that may be held at the base station at first. The sender's window follows the wired path from then on, and
    /// may grow to 16 times as much.
    pub held: u32,
}

impl HopControl {
    /// 10 segments in the queue, 256 KiB held.
    pub const DEFAULT: Self = Self { backlog: 10, held: 256 << 10 };
}

/// What the window does when it is too small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    /// It doubles each round trip, until half of the backlog waits.
    SlowStart,
    /// It approaches the window at which the whole backlog waits.
    Steady,
}

/// Whether the queue is being let run dry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    Idle,
    /// For a round trip, until what was sent into the queue has left it.
    Drain,
    /// For another, whose shortest round trip is the new base.
    Measure,
}

/// The window of one connection, and what is in it.
#[derive(Clone, Debug)]
pub(super) struct HopWindow {
    window: u64,
    in_flight: u64,
    /// The largest segment seen, in bytes.
    segment: u64,
    /// Bytes that are to wait in the queue, where that is more than the parameter says.
    target: u64,
    /// No more are to wait: the queue has overflowed.
    most_queued: u64,
    overflow: Overflow,
    /// Bytes that have arrived so far.
    arrived: u32,
    base: Option<Duration>,
    /// At which rate the hop brings what is under way, in bytes a second, were nothing lost.
    rate: MaxFilter,
    /// At which rate something came.
    brought: MaxFilter,
    /// Round trips so far.
    rounds: u32,
    growth: Growth,
    probe: Probe,
    /// From the first round trip on.
    probe_at: Option<Instant>,
    /// The round trip ends when something at or behind this has arrived.
    round_end: Seq,
    samples: Samples,
    start: SlowStart,
}

/// What is known of a packet's way over the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Crossing {
    /// When it left.
    pub sent: Instant,
    /// Bytes that were under way then, its own among them; 0 where that says nothing of the hop's rate.
    pub under_way: u32,
    /// Bytes that had arrived by then, as counted by [`HopWindow::arrived`].
    pub arrived_before: u32,
}

/// What was measured within a round trip.
#[derive(Clone, Copy, Default, Debug)]
struct Samples {
    shortest: Option<Duration>,
    /// What was under way with packets.
    under_way: Load,
    /// How much of that came until they did.
    came: Load,
}

/// Bytes on the hop with packets, each of which took a time to cross it.
#[derive(Clone, Copy, Default, Debug)]
struct Load {
    /// The highest rate: what was there with a packet, in its time, in bytes a second.
    rate: u64,
    /// The most that was there with one.
    most: u64,
    /// With all of them together.
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
    /// An empty window of a connection whose data begins at `start`.
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
        }
    }

    /// The window, before the first round trip as well.
    fn window(&self) -> u64 {
        if self.window == 0 { FIRST * self.segment } else { self.window }
    }

    /// Bytes that may be on the hop.
    fn allowed(&self, control: HopControl) -> u64 {
        let window = self.window();
        match self.probe {
            Probe::Idle => window,
            // The whole backlog, and as much again in case that its estimate is off.
            Probe::Drain | Probe::Measure => window.saturating_sub(2 * self.backlog(control)).max(LEAST * self.segment),
        }
    }

    /// How fast a window goes onto the hop: within the shortest round trip. Nothing is known of that at first.
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

    /// Shortest round trip on the hop.
    pub fn base(&self) -> Option<Duration> {
        self.base
    }

    /// The window in bytes.
    pub fn bytes(&self) -> u64 {
        self.window()
    }

    /// The initial window, in bytes.
    pub fn first(&self) -> u32 {
        u32::try_from(FIRST * self.segment).unwrap_or(u32::MAX)
    }

    /// The window in segments.
    pub fn segments(&self) -> u64 {
        if self.window == 0 { FIRST } else { self.window / self.segment.max(1) }
    }

    /// Bytes that are to wait in the queue in front of the hop.
    pub fn backlog(&self, control: HopControl) -> u64 {
        (u64::from(control.backlog) * self.segment).max(self.target).min(self.most_queued)
    }

    /// Whether `len` bytes more may go, when `arrived` bytes of those in flight are known to have arrived.
    pub fn admits(&mut self, control: HopControl, len: u32, arrived: u64) -> bool {
        self.segment = self.segment.max(len.into());
        let in_flight = self.in_flight.saturating_sub(arrived);
        let admitted = in_flight == 0 || in_flight + u64::from(len) <= self.allowed(control);
        if !admitted {
            self.start.hold_back();
        }
        admitted
    }

    /// Whether an acknowledgment comes sooner after a sending than the hop can have brought it: within half of the shortest
    /// round trip seen, for a queue or a slow scheduler may never have let one pass undelayed.
    pub fn is_too_soon(&self, elapsed: Duration) -> bool {
        self.base.is_some_and(|base| elapsed < base.saturating_sub(TARGET) / 2)
    }

    /// From now on everything may go.
    pub fn open(&mut self) {
        (self.window, self.probe, self.in_flight) = (MOST, Probe::Idle, 0);
    }

    /// `len` bytes go onto the hop; returns how many are there now.
    pub fn sent(&mut self, len: u32) -> u32 {
        self.segment = self.segment.max(len.into());
        self.in_flight += u64::from(len);
        self.start.sent(self.in_flight);
        u32::try_from(self.in_flight).unwrap_or(u32::MAX)
    }

    /// Bytes that have arrived so far, modulo 2^32.
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    /// `len` bytes have arrived.
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

    /// `len` bytes do not count as on the hop any more; nobody here will learn whether they arrive.
    pub fn out_of_sight(&mut self, len: u64) {
        self.in_flight = self.in_flight.saturating_sub(len);
    }

    /// The packet at `seq` has crossed the hop; what is sent next begins at `next`.
    pub fn sample(&mut self, now: Instant, control: HopControl, crossing: Crossing, seq: Seq, next: Seq) {
        let came = self.arrived.wrapping_sub(crossing.arrived_before).min(crossing.under_way);
        let rtt = now.since(crossing.sent);
        self.samples.add(rtt, crossing.under_way.into(), came.into());
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

    /// Where the queue overflows half of the backlog is enough. The next time that it is let run dry twice as much is tried.
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
                // What was lost counted as brought.
                self.rate = MaxFilter::default();
            }
            Advice::Restore(Allowance { window, most_queued }) => {
                self.window = self.window.max(window);
                self.most_queued = most_queued;
            }
        }
    }

    /// FAST: w = w/2 + (base/rtt w + alpha)/2, once a round trip. With w/rtt as the rate this is half of what is missing in the queue, or
    /// too much in it; `most` bytes were under way.
    fn adjust(&mut self, base: Duration, most: u64, control: HopControl) {
        // What was lost counts as brought, but not while less is tried.
        let rate = if self.overflow.is_trying() { self.brought.max() } else { self.rate.max() };
        // At most so much that the window doubles.
        self.target = during(rate, TARGET).min(2 * self.window);
        let backlog = self.backlog(control);
        let queued = most.saturating_sub(during(rate, base));
        if self.growth == Growth::Steady || 2 * queued >= backlog {
            self.growth = Growth::Steady;
            self.window = (self.window + backlog / 2).saturating_sub(queued / 2);
        }
        self.window = self.window.clamp(LEAST * self.segment, MOST);
    }
}

/// Bytes that come in that time at `rate` bytes a second.
fn during(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000) as u64
}

#[cfg(test)]
#[path = "hop_window_tests.rs"]
mod tests;
