//! How much one connection's sender may send beyond what the base station has seen.
//!
//! What it is allowed is on its way on the wire or waits at the base station. A fixed amount would bound the throughput by one
//! such amount for each round trip of the wired path, which the base station does not know. So it is right-sized, as receive
//! buffers of hosts are (Fisk, Feng, "Dynamic right-sizing in TCP", LACSI 2001), by what waits: nothing, and it is too little;
//! more than the parameter says, and it is too much.

use super::hop_window::HopControl;
use crate::seq::Seq;

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
    /// Bytes that came since.
    arrived: u64,
    /// Those of them that found nothing waiting.
    unhindered: u64,
    /// The least that waited.
    least_held: u64,
}

impl SenderRoom {
    pub fn new() -> Self {
        Self { room: 0, round_end: None, arrived: 0, unhindered: 0, least_held: u64::MAX }
    }

    /// Bytes beyond those seen that the sender may send, and the base station must take.
    pub fn bytes(&self, control: HopControl) -> u32 {
        self.room.max(control.held)
    }

    /// `len` bytes of new data that end at `end` have come, when `held` bytes waited.
    pub fn arrived(&mut self, control: HopControl, end: Seq, len: u32, held: u64) {
        self.arrived += u64::from(len);
        if held == 0 {
            self.unhindered += u64::from(len);
        }
        self.least_held = self.least_held.min(held);
        if self.round_end.is_some_and(|round_end| end.lt(round_end)) {
            return;
        }
        let room = if self.round_end.is_some() { self.right_size(control) } else { self.bytes(control) };
        *self = Self { room, round_end: Some(end + room), ..Self::new() };
    }

    fn right_size(&self, control: HopControl) -> u32 {
        let room = self.bytes(control);
        if 2 * self.unhindered > self.arrived {
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

    /// A sender that always uses its room, over a wire that holds `wire` bytes; returns what waits in the end.
    fn settle(room: &mut SenderRoom, from: Seq, wire: u64, bytes: u32) -> u64 {
        let mut held = 0;
        for n in 0..bytes / 1000 {
            held = u64::from(room.bytes(CONTROL)).saturating_sub(wire);
            room.arrived(CONTROL, from + n * 1000, 1000, held);
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
}
