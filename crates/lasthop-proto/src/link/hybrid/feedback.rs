//! The receiver's record of arrivals, and the schedule of its feedback.

use super::frame::{Class, Feedback};
use super::numbers::{PacketNumber, Symbol};
use super::settings::Reports;
use crate::time::{Duration, Instant};

/// Number of frames after which feedback is due.
const EVERY: u32 = 2;

/// Maximum feedback delay.
pub(super) const LONGEST: Duration = Duration::from_millis(5);

/// Same limits for frames that carry acknowledgments: each replaces those before it, and feedback on them takes
/// capacity from the data that they acknowledge.
const FOR_ACKNOWLEDGMENTS: u32 = 16;
const LONGEST_FOR_ACKNOWLEDGMENTS: Duration = Duration::from_millis(20);

/// Same limits for AIRMAIL's ends: they report once for many frames, all of which a report must cover.
const MOST_TOGETHER: u32 = 64;
const ON_EVENT: u32 = 16;

/// Length of feedback on the wire, including the hop's header, in bytes. Used to compute its share.
pub(super) const BYTES: u32 = 96;

/// Divisor of this end's rate that yields the share of feedback: 2 %.
const SHARE: u64 = 50;

/// Maximum credit of feedback within its share, in frames.
const SAVED: u64 = 8;

/// Record of the packets that arrived.
#[derive(Clone, Debug)]
pub(super) struct Account {
    reports: Reports,
    largest: Option<PacketNumber>,
    /// Arrival time of the largest.
    at: Instant,
    /// Bit i: `largest - 1 - i` arrived.
    received: u128,
    /// Class of the last packet that arrived.
    class: Option<Class>,
    /// Number of frames to be acknowledged since the last feedback.
    unsaid: u32,
    due: Option<Instant>,
    /// Time at which all feedback so far would be complete at the full share: at most [`SAVED`] frames behind the
    /// current time.
    spent: Instant,
    /// Bytes that arrived in this interval, its start, and the rate of the previous one in bits per second.
    span: (u64, Instant),
    arrives: u64,
}

/// Interval over which the arrival rate is measured.
const SPAN: Duration = Duration::from_millis(100);

impl Account {
    pub fn new(reports: Reports) -> Self {
        let (at, spent) = (Instant::ZERO, Instant::ZERO);
        Self {
            reports,
            largest: None,
            at,
            received: 0,
            class: None,
            unsaid: 0,
            due: None,
            spent,
            span: (0, at),
            arrives: 0,
        }
    }

    /// Returns the arrival time of the packet with the largest number.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns the largest packet number that arrived.
    pub fn largest(&self) -> Option<PacketNumber> {
        self.largest
    }

    /// Counts a frame of `bytes` bytes that arrived.
    pub fn count(&mut self, now: Instant, bytes: u32) {
        self.span.0 += u64::from(bytes);
        let span = now.since(self.span.1);
        if span >= SPAN {
            let bits = u128::from(self.span.0) * 8_000_000_000 / u128::from(span.as_nanos().max(1));
            (self.arrives, self.span) = (bits as u64, (0, now));
        }
    }

    /// Returns the recent arrival rate, in bits per second.
    pub fn arrives(&self) -> u64 {
        self.arrives
    }

    /// Records a packet that arrived. Returns whether it reveals newly missing numbers before it.
    pub fn on_packet(&mut self, now: Instant, packet: PacketNumber) -> bool {
        let Some(largest) = self.largest else {
            (self.largest, self.at) = (Some(packet), now);
            return packet.0 > 0;
        };
        if packet <= largest {
            let behind = largest.0 - packet.0;
            if (1..=128).contains(&behind) {
                self.received |= 1 << (behind - 1);
            }
            return false;
        }
        let ahead = packet.0 - largest.0;
        // The previous largest becomes one of those that arrived.
        self.received = match ahead {
            1..128 => self.received << ahead | 1 << (ahead - 1),
            128 => 1 << 127,
            _ => 0,
        };
        (self.largest, self.at) = (Some(packet), now);
        ahead > 1
    }

    /// Schedules feedback for a frame with a packet of that class, immediately if a packet is missing. A frame without
    /// a packet is treated like the last one with a packet. `trip` is the hop's round trip, `rate` this end's rate in
    /// bits per second.
    pub fn on_elicited(&mut self, now: Instant, class: Option<Class>, urgent: bool, trip: Duration, rate: u64) {
        self.unsaid += 1;
        self.class = class.or(self.class);
        let class = self.class;
        let (urgent, every) = match self.reports {
            Reports::Prompt if class == Some(Class::AtOnce) => (urgent, FOR_ACKNOWLEDGMENTS),
            Reports::Prompt => (urgent, EVERY),
            Reports::Periodic => (false, MOST_TOGETHER),
            Reports::OnEvent => (urgent, ON_EVENT),
        };
        let wanted = if urgent || self.unsaid >= every { now } else { now + Self::wait(self.reports, class, trip) };
        let at = wanted.max(self.allowed(trip, rate));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Schedules another report, for what the last one did not cover.
    pub fn go_on(&mut self, now: Instant, trip: Duration, rate: u64) {
        let at = (now + LONGEST.min(trip / 8)).max(self.allowed(trip, rate));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Returns the time at which the share allows the next feedback. Slow links always allow one per quarter of a round
    /// trip, and one per 20 ms.
    fn allowed(&self, trip: Duration, rate: u64) -> Instant {
        let gap = Self::gap(trip, rate);
        Instant::from_nanos(self.spent.as_nanos().saturating_sub((gap * (SAVED - 1)).as_nanos()))
    }

    fn gap(trip: Duration, rate: u64) -> Duration {
        let bits = u64::from(BYTES) * 8 * SHARE;
        let gap = Duration::from_nanos(bits.saturating_mul(1_000_000_000) / rate.max(1));
        gap.min((trip / 4).max(Duration::from_millis(20)))
    }

    /// Returns the feedback delay for a frame of that class.
    fn wait(reports: Reports, class: Option<Class>, trip: Duration) -> Duration {
        match reports {
            Reports::Prompt if class == Some(Class::AtOnce) => LONGEST_FOR_ACKNOWLEDGMENTS,
            Reports::Prompt => LONGEST.min(trip / 8),
            Reports::Periodic | Reports::OnEvent => LONGEST.max(trip / 4),
        }
    }

    /// Returns the maximum feedback delay for a frame of that class at an end with that rate.
    pub fn longest_wait(reports: Reports, class: Option<Class>, trip: Duration, rate: u64) -> Duration {
        Self::wait(reports, class, trip).max(Self::gap(trip, rate))
    }

    /// Returns the time at which feedback is due.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the part of a feedback frame that is recorded here, and counts it as sent.
    pub fn take(&mut self, now: Instant, trip: Duration, rate: u64) -> Option<Feedback> {
        let largest = self.largest?;
        self.unsaid = 0;
        self.due = None;
        let gap = Self::gap(trip, rate);
        self.spent = self.spent.max(now) + gap;
        let (floor, beyond) = (Symbol(0), 0);
        let (delay, received) = (now.since(self.at), self.received);
        Some(Feedback { largest, delay, received, floor, beyond, ..Feedback::default() })
    }
}
