//! How much one connection's sender may send beyond what the base station has seen.
//!
//! What it is allowed is on its way on the wire or waits at the base station. A fixed amount would bound the throughput by one
//! such amount for each round trip of the wired path, which the base station does not know. So it is right-sized, as receive
//! buffers of hosts are (Fisk, Feng, "Dynamic right-sizing in TCP", LACSI 2001), by what waits: nothing for a part of the time, and it is too
//! little; more than the parameter says, and it is too much. Time counts and not packets: behind a wire faster than the hop a whole
//! room comes at once, each packet of which finds others waiting, and then nothing for the rest of the round trip.

use super::hop_window::HopControl;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Where nothing waits for more than one part in so many of the time, the room is too little.
const IDLE: u32 = 8;

/// The most, in units of what is to wait at the base station.
const MOST: u32 = 16;

/// The largest window there is (RFC 7323 §2.3), in bytes.
const LARGEST: u32 = 1 << 30;

/// The room of one connection, and what has come since it was last looked at.
#[derive(Clone, Debug)]
pub(super) struct SenderRoom {
    /// Bytes; 0 before anything has come.
    room: u32,
    /// As soon as data up to here has come, the room is looked at.
    round_end: Option<Seq>,
    /// Since when.
    begun: Instant,
    /// When the last packet went on.
    left: Instant,
    /// For how long nothing waited since the round began.
    idle: Duration,
    /// The least that waited.
    least_held: u64,
}

impl SenderRoom {
    pub fn new() -> Self {
        Self {
            room: 0,
            round_end: None,
            begun: Instant::ZERO,
            left: Instant::ZERO,
            idle: Duration::ZERO,
            least_held: u64::MAX,
        }
    }

    /// Bytes beyond those seen that the sender may send, and the base station must take.
    pub fn bytes(&self, control: HopControl) -> u32 {
        self.room.max(control.held)
    }

    /// New data that ends at `end` has come, when `held` bytes waited.
    pub fn arrived(&mut self, control: HopControl, now: Instant, end: Seq, held: u64) {
        if held == 0 {
            self.idle = self.idle + now.since(self.left.max(self.begun));
        }
        self.least_held = self.least_held.min(held);
        if self.round_end.is_some_and(|round_end| end.lt(round_end)) {
            return;
        }
        let room = if self.round_end.is_some() { self.right_size(control, now) } else { self.bytes(control) };
        *self = Self { room, round_end: Some(end + room), begun: now, left: now, ..Self::new() };
    }

    /// A packet went on.
    pub fn departed(&mut self, now: Instant) {
        self.left = now;
    }

    fn right_size(&self, control: HopControl, now: Instant) -> u32 {
        let room = self.bytes(control);
        if self.idle.saturating_mul(IDLE.into()) > now.since(self.begun) {
            return room.saturating_mul(2).min(control.held.saturating_mul(MOST)).min(LARGEST);
        }
        let excess = self.least_held.saturating_sub(control.held.into());
        // With less room by as much as waits too much, the wire is as full as before.
        room.saturating_sub(u32::try_from(excess).unwrap_or(u32::MAX)).max(control.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: HopControl = HopControl { backlog: 10, held: 100_000 };

    /// A sender that always uses its room, over a wire that holds `wire` bytes; a packet comes and one goes each millisecond. Returns what waits in the end.
    fn settle(room: &mut SenderRoom, from: Seq, wire: u64, bytes: u32) -> u64 {
        let mut held = 0;
        for n in 0..bytes / 1000 {
            let now = Instant::ZERO + Duration::from_millis(n.into());
            held = u64::from(room.bytes(CONTROL)).saturating_sub(wire);
            room.arrived(CONTROL, now, from + n * 1000, held);
            room.departed(now);
        }
        held
    }

    #[test]
    fn the_wire_is_filled_and_what_is_to_wait_waits() {
        for wire in [0, 50_000, 99_000, 150_000, 390_000, 1_400_000] {
            let held = settle(&mut SenderRoom::new(), Seq(u32::MAX - 5_000_000), wire, 20_000_000);
            assert!((1..=100_000).contains(&held), "{held} wait behind a wire of {wire}");
        }
    }

    #[test]
    fn a_wire_beyond_the_bound_is_not_filled() {
        let mut room = SenderRoom::new();
        assert_eq!(settle(&mut room, Seq(0), 10_000_000, 50_000_000), 0);
        assert_eq!(room.bytes(CONTROL), 1_600_000);
    }

    #[test]
    fn a_path_that_becomes_shorter_leaves_no_queue() {
        let mut room = SenderRoom::new();
        settle(&mut room, Seq(0), 1_400_000, 20_000_000);
        assert_eq!(settle(&mut room, Seq(20_000_000), 50_000, 20_000_000), 100_000);
    }

    /// A wire much faster than the hop brings a whole room at once, once each 100 ms; the hop takes a packet of 1000 bytes each 0.1 ms, 10 MB/s. Each packet but
    /// the first finds others waiting, and the hop stands idle once they are gone.
    #[test]
    fn rooms_that_come_at_once_fill_the_time_between_them() {
        let mut room = SenderRoom::new();
        let mut seq = Seq(0);
        let (mut busy, trip) = (Duration::ZERO, Duration::from_millis(100));
        for n in 0..30 {
            let begin = Instant::ZERO + trip.saturating_mul(n);
            let packets = room.bytes(CONTROL) / 1000;
            for held in 0..packets {
                seq += 1000;
                room.arrived(CONTROL, begin, seq, u64::from(held) * 1000);
            }
            busy = Duration::from_micros(100).saturating_mul(packets.into());
            room.departed(begin + busy.min(trip));
        }
        assert!(busy.saturating_mul(8) >= trip.saturating_mul(7), "the hop is busy for {busy:?} of {trip:?}");
        assert!(room.bytes(CONTROL) <= 1_600_000);
    }
}
