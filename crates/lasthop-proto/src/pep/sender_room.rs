//! Window that one connection's sender is granted beyond the data that the base station has seen.
//!
//! Data within this window is in flight on the wired path or held at the base station. A fixed window would limit the
//! throughput to one window for each round trip of the wired path, which the base station does not know. The window is
//! therefore right-sized, as the receive buffers of hosts are (Fisk, Feng, "Dynamic right-sizing in TCP", LACSI 2001),
//! by the amount of held data: the window is too small if nothing is held for part of the time, and too large if data
//! is held all the time (a standing queue, RFC 8289 §3.2).
//!
//! The criterion is time, not packets. If the wired path is faster than the hop, a whole window arrives at once: every
//! packet finds others held before it, and yet nothing is held for the rest of the round trip.

use super::hop_window::HopControl;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// The window grows if nothing is held for more than 1/`IDLE` of the time, by what would have been sent in that time, at
/// most to twice its size.
const IDLE: u32 = 8;

/// Initial window, as a part of [`HopControl::held`]: 64 KiB by default, as of a Linux host.
const FIRST: u32 = 4;

/// Maximum window, as a multiple of [`HopControl::held`].
const MOST: u32 = 16;

/// Largest window that TCP can express (RFC 7323 §2.3), in bytes.
const LARGEST: u32 = 1 << 30;

/// Amounts by which the window is judged, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    /// Data that may be held all the time.
    pub standing: u64,
    /// Minimum window.
    pub least: u32,
}

/// The window of one connection, and the state of the current measurement.
#[derive(Clone, Debug)]
pub(super) struct SenderRoom {
    /// Window, in bytes; 0 before the first round has begun.
    room: u32,
    /// Sequence number at whose arrival the round ends.
    round_end: Option<Seq>,
    /// Start of the round.
    begun: Instant,
    /// Time at which the last packet left for the hop.
    left: Instant,
    /// Time in this round during which nothing was held.
    idle: Duration,
    /// Smallest amount held during this round.
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

    /// Returns the number of bytes beyond those seen that the sender may send and the base station must accept.
    pub fn bytes(&self, control: HopControl) -> u32 {
        if self.room == 0 { control.held / FIRST } else { self.room }
    }

    /// Records that new data up to `end` has arrived while `held` bytes were held.
    pub fn arrived(&mut self, control: HopControl, allowance: Allowance, now: Instant, end: Seq, held: u64) {
        if held == 0 {
            self.idle = self.idle + now.since(self.left.max(self.begun));
        }
        self.least_held = self.least_held.min(held);
        if self.round_end.is_some_and(|round_end| end.lt(round_end)) {
            return;
        }
        let room =
            if self.round_end.is_some() { self.right_size(control, allowance, now) } else { self.bytes(control) };
        *self = Self { room, round_end: Some(end + room), begun: now, left: now, ..Self::new() };
    }

    /// Records that a packet has left for the hop.
    pub fn departed(&mut self, now: Instant) {
        self.left = now;
    }

    fn right_size(&self, control: HopControl, allowance: Allowance, now: Instant) -> u32 {
        let room = self.bytes(control);
        let round = now.since(self.begun);
        if self.idle.saturating_mul(IDLE.into()) > round {
            // What would have kept the hop busy all the time. After a stall, twice as much would be a standing queue.
            let busy = round.saturating_sub(self.idle).as_nanos().max(1);
            let needed = u128::from(room) * u128::from(round.as_nanos()) / u128::from(busy);
            let needed = u32::try_from(needed).unwrap_or(u32::MAX).min(room.saturating_mul(2));
            return needed.min(control.held.saturating_mul(MOST)).min(LARGEST);
        }
        let excess = self.least_held.saturating_sub(allowance.standing);
        // The excess was held all the time: without it the wired path carries as much as before.
        room.saturating_sub(u32::try_from(excess).unwrap_or(u32::MAX)).max(allowance.least.min(control.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: HopControl = HopControl { backlog: 10, held: 100_000 };
    const ALLOWANCE: Allowance = Allowance { standing: 10_000, least: 15_000 };

    /// Simulates a sender that always fills its window, over a wired path that holds `wire` bytes; one packet arrives
    /// and one leaves each millisecond. Returns the bytes held in the end.
    fn settle(room: &mut SenderRoom, from: Seq, wire: u64, bytes: u32) -> u64 {
        let mut held = 0;
        for n in 0..bytes / 1000 {
            let now = Instant::ZERO + Duration::from_millis(n.into());
            held = u64::from(room.bytes(CONTROL)).saturating_sub(wire);
            room.arrived(CONTROL, ALLOWANCE, now, from + n * 1000, held);
            room.departed(now);
        }
        held
    }

    #[test]
    fn the_wired_path_is_filled_and_no_more_than_the_allowance_is_held() {
        for wire in [50_000, 99_000, 150_000, 390_000, 1_400_000] {
            let held = settle(&mut SenderRoom::new(), Seq(u32::MAX - 5_000_000), wire, 20_000_000);
            assert!((1..=ALLOWANCE.standing).contains(&held), "{held} bytes held behind a wire of {wire}");
        }
    }

    #[test]
    fn the_window_is_never_below_its_minimum() {
        assert_eq!(settle(&mut SenderRoom::new(), Seq(7), 0, 20_000_000), u64::from(ALLOWANCE.least));
    }

    #[test]
    fn a_wire_beyond_the_bound_is_not_filled() {
        let mut room = SenderRoom::new();
        assert_eq!(settle(&mut room, Seq(0), 10_000_000, 50_000_000), 0);
        assert_eq!(room.bytes(CONTROL), 1_600_000);
    }

    /// A round of 100 ms in which nothing was held for 20 ms: a quarter more is needed.
    #[test]
    fn a_short_stall_does_not_double_the_window() {
        let mut room = SenderRoom::new();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        room.arrived(CONTROL, ALLOWANCE, at(0), Seq(0), 5_000);
        room.departed(at(80));
        room.arrived(CONTROL, ALLOWANCE, at(100), Seq(25_000), 0);
        assert_eq!(room.bytes(CONTROL), 31_250);
    }

    #[test]
    fn a_path_that_becomes_shorter_leaves_no_queue() {
        let mut room = SenderRoom::new();
        settle(&mut room, Seq(0), 1_400_000, 20_000_000);
        assert_eq!(settle(&mut room, Seq(20_000_000), 50_000, 20_000_000), ALLOWANCE.standing);
    }

    /// A wire much faster than the hop delivers a whole window at once every 100 ms. The hop takes a packet of 1000
    /// bytes every 0.1 ms (10 MB/s). Every packet but the first finds others held before it, and the hop is idle once
    /// they are sent.
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
                room.arrived(CONTROL, ALLOWANCE, begin, seq, u64::from(held) * 1000);
            }
            busy = Duration::from_micros(100).saturating_mul(packets.into());
            room.departed(begin + busy.min(trip));
        }
        assert!(busy.saturating_mul(8) >= trip.saturating_mul(7), "the hop is busy for {busy:?} of {trip:?}");
        assert!(room.bytes(CONTROL) <= 1_600_000);
    }
}
