//! Receive offload of an end's host (GRO): consecutive segments that arrive in one poll of the device reach TCP as one
//! (Linux 6.18 `tcp_gro_receive`, `dev_gro_receive`, `napi_complete_done`).
//!
//! Without a flush timeout, a poll covers the packets that arrive at the same time, as in an aggregate of Wi-Fi.

use crate::packet::{Body, Flags, Integrity, Packet, Segment};
use crate::time::{Duration, Instant};

/// Minimum duration of a poll: packets that arrive at the same time belong to it.
const POLL: Duration = Duration::from_nanos(1);
/// Length that no merged packet reaches, headers included (`GRO_LEGACY_MAX_SIZE`).
const MOST_BYTES: u32 = 65_536;
/// Flags of a segment that ends a merged one.
const ENDS: Flags = Flags::PSH.with(Flags::FIN).with(Flags::SYN).with(Flags::RST).with(Flags::URG);
/// Flags in which merged segments may differ. A segment with CWR only begins one.
const FREE: Flags = Flags::PSH.with(Flags::FIN).with(Flags::CWR);

/// One or several segments that TCP processes as one.
#[derive(Clone, Copy, Debug)]
pub struct Merged {
    /// Packet with the payload of all segments.
    pub packet: Packet,
    /// Payload of the first segment, in bytes (`gso_size`).
    pub size: u32,
    /// Number of segments.
    pub segments: u32,
}

impl Merged {
    fn of(packet: &Packet) -> Self {
        Self { packet: *packet, size: packet.len, segments: 1 }
    }
}

/// A merged segment that may still grow.
#[derive(Clone, Copy, Debug)]
struct Held {
    merged: Merged,
    /// Arrival time of its first segment.
    since: Instant,
    /// End of the wait for another one.
    until: Instant,
}

/// State of the offload for one flow.
#[derive(Clone, Debug)]
pub struct Gro {
    timeout: Duration,
    /// Timer tick, after which a poll releases a held segment.
    jiffy: Duration,
    held: Option<Held>,
}

impl Gro {
    /// Returns the state without segments; `timeout` is `gro_flush_timeout`.
    pub fn new(timeout: Duration, jiffy: Duration) -> Self {
        Self { timeout, jiffy, held: None }
    }

    /// Returns the time at which the held segment is due.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.held.map(|held| held.until)
    }

    /// Returns the held segment if it is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Merged> {
        self.held.take_if(|held| held.until <= now).map(|held| held.merged)
    }

    /// Takes a packet that arrives. Returns the segments that TCP has to process now, in order.
    pub fn take(&mut self, now: Instant, packet: &Packet) -> [Option<Merged>; 2] {
        let Some(segment) = packet.tcp().filter(|_| packet.integrity == Integrity::Intact) else {
            return [None, Some(Merged::of(packet))];
        };
        // An earlier poll has ended; the driver is late.
        let due = self.take_due(now);
        let ends = packet.len == 0 || segment.flags.meets(ENDS);
        let is_taken = self.held.as_mut().is_some_and(|held| held.merged.takes(packet, segment));
        let until = now + self.timeout.max(POLL);
        if is_taken {
            // No held segment was due.
            let tick = |at: Instant| at.as_nanos() / self.jiffy.as_nanos().max(1);
            let full = |held: &mut Held| {
                held.until = until;
                ends || packet.len < held.merged.size || self.timeout > POLL && tick(held.since) != tick(now)
            };
            return [self.held.take_if(full).map(|held| held.merged), None];
        }
        let before = due.or_else(|| self.held.take().map(|held| held.merged));
        if ends {
            return [before, Some(Merged::of(packet))];
        }
        self.held = Some(Held { merged: Merged::of(packet), since: now, until });
        [before, None]
    }
}

impl Merged {
    /// Adds a packet, if it continues this one. Returns whether it does.
    fn takes(&mut self, packet: &Packet, segment: &Segment) -> bool {
        let own = &mut self.packet;
        let (total, ecn) = (own.wire_len() + packet.len, own.ecn);
        let Body::Tcp(first) = &mut own.body else { return false };
        let same = segment.flags.without(FREE) == first.flags.without(FREE)
            && !segment.flags.has(Flags::CWR)
            && (segment.ack, segment.window, segment.options) == (first.ack, first.window, first.options)
            && packet.ecn == ecn;
        let fits = (1..=self.size).contains(&packet.len) && total < MOST_BYTES;
        if !same || !fits || first.seq + own.len != segment.seq {
            return false;
        }
        first.flags = first.flags.with(Flags(segment.flags.0 & Flags::PSH.with(Flags::FIN).0));
        own.len += packet.len;
        self.segments += 1;
        true
    }
}

#[cfg(test)]
#[path = "gro_tests.rs"]
mod tests;
