//! The receiver's account of what arrived, and when it says so.

use super::frame::{Class, Feedback};
use super::numbers::{PacketNumber, Symbol};
use super::settings::Reports;
use crate::time::{Duration, Instant};

/// Frames after which feedback is due.
const EVERY: u32 = 2;

/// Feedback is not put off for longer.
const LONGEST: Duration = Duration::from_millis(5);

/// The same of frames that bring acknowledgments: each makes up for those before it, and what is said of them takes room from the data
/// that they are for.
const FOR_ACKNOWLEDGMENTS: u32 = 16;
const LONGEST_FOR_ACKNOWLEDGMENTS: Duration = Duration::from_millis(20);

/// The same of AIRMAIL's ends: they say it for many frames together, of which it must be able to tell.
const MOST_TOGETHER: u32 = 64;
const ON_EVENT: u32 = 16;

/// Bytes of feedback on the wire, the hop's header included: what its share is counted with.
pub(super) const BYTES: u32 = 96;

/// Its share of this end's rate: 2 %.
const SHARE: u64 = 50;

/// How much of its share feedback may save up, in frames.
const SAVED: u64 = 8;

/// Which packets arrived.
#[derive(Clone, Debug)]
pub(super) struct Account {
    reports: Reports,
    largest: Option<PacketNumber>,
    /// When the largest arrived.
    at: Instant,
    /// Bit i: `largest - 1 - i` arrived.
    received: u128,
    /// Of the last packet that arrived.
    class: Option<Class>,
    /// Frames that ask for feedback since the last.
    unsaid: u32,
    due: Option<Instant>,
    /// When feedback at the full share would have been sent that was: at most [`SAVED`] frames behind the time.
    spent: Instant,
    /// Bytes that arrived in this span and when it began, and bits per second in the one before.
    span: (u64, Instant),
    arrives: u64,
}

/// Over which the rate of what arrives is taken.
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

    /// The largest packet number that arrived.
    pub fn largest(&self) -> Option<PacketNumber> {
        self.largest
    }

    /// A frame of so many bytes arrived.
    pub fn count(&mut self, now: Instant, bytes: u32) {
        self.span.0 += u64::from(bytes);
        let span = now.since(self.span.1);
        if span >= SPAN {
            let bits = u128::from(self.span.0) * 8_000_000_000 / u128::from(span.as_nanos().max(1));
            (self.arrives, self.span) = (bits as u64, (0, now));
        }
    }

    /// Bits per second that arrived last.
    pub fn arrives(&self) -> u64 {
        self.arrives
    }

    /// A packet arrived. Says whether numbers are missing before it that were not missed before.
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
        // The old largest takes its place among those that arrived.
        self.received = match ahead {
            1..128 => self.received << ahead | 1 << (ahead - 1),
            128 => 1 << 127,
            _ => 0,
        };
        (self.largest, self.at) = (Some(packet), now);
        ahead > 1
    }

    /// A frame with a packet of that class asks for feedback, at once if something is missing; one without a packet is treated as the last
    /// with one. `trip` is the hop's, `rate` this end's in bits per second.
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

    /// When the share allows another. On slow links once in a quarter of a round trip at any rate, and in 20 ms.
    fn allowed(&self, trip: Duration, rate: u64) -> Instant {
        let gap = Self::gap(trip, rate);
        Instant::from_nanos(self.spent.as_nanos().saturating_sub((gap * (SAVED - 1)).as_nanos()))
    }

    fn gap(trip: Duration, rate: u64) -> Duration {
        let bits = u64::from(BYTES) * 8 * SHARE;
        let gap = Duration::from_nanos(bits.saturating_mul(1_000_000_000) / rate.max(1));
        gap.min((trip / 4).max(Duration::from_millis(20)))
    }

    /// How long feedback is put off for a frame of that class.
    fn wait(reports: Reports, class: Option<Class>, trip: Duration) -> Duration {
        match reports {
            Reports::Prompt if class == Some(Class::AtOnce) => LONGEST_FOR_ACKNOWLEDGMENTS,
            Reports::Prompt => LONGEST.min(trip / 8),
            Reports::Periodic | Reports::OnEvent => LONGEST.max(trip / 4),
        }
    }

    /// How long feedback for a frame of that class waits at the most, at an end of that rate.
    pub fn longest_wait(reports: Reports, class: Option<Class>, trip: Duration, rate: u64) -> Duration {
        Self::wait(reports, class, trip).max(Self::gap(trip, rate))
    }

    /// When feedback is due.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The part of a feedback frame that this knows; it counts as sent.
    pub fn take(&mut self, now: Instant, trip: Duration, rate: u64) -> Option<Feedback> {
        let largest = self.largest?;
        self.unsaid = 0;
        self.due = None;
        let gap = Self::gap(trip, rate);
        self.spent = self.spent.max(now) + gap;
        let (floor, beyond) = (Symbol(0), 0);
        let delay = now.since(self.at);
        Some(Feedback { largest, delay, received: self.received, floor, beyond, delivered: 0, useful: 0, marked: 0 })
    }
}
