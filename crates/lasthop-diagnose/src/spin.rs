//! QUIC's spin bit (RFC 9000 §17.4): it changes once a round trip.

use lasthop_wire::Head;

/// Number of changes after which the spin bit is accepted.
const FEW: u64 = 8;

/// One direction of a QUIC connection.
#[derive(Clone, Debug, Default)]
pub struct Spin {
    bit: Option<bool>,
    changed: Option<i64>,
    /// Changes, not counting the first.
    changes: u64,
    packets: u64,
    least: Option<i64>,
    sum: i64,
}

/// Form of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A long header of a version that has a spin bit.
    Long,
    /// A short header, with its spin bit.
    Short(bool),
}

impl Form {
    /// Returns the possible form of `payload`.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let first = *payload.first()?;
        if first & 0x40 == 0 {
            return None;
        }
        if first & 0x80 == 0 {
            return Some(Self::Short(first & 0x20 != 0));
        }
        // Versions 1 and 2 (RFC 9369).
        let version = u32::from_be_bytes(payload.get(1..5)?.try_into().ok()?);
        matches!(version, 1 | 0x6b33_43cf).then_some(Self::Long)
    }
}

impl Spin {
    /// Processes a packet with a short header.
    pub fn take(&mut self, bit: bool, time: i64) {
        self.packets += 1;
        let before = self.bit.replace(bit);
        if before.is_none_or(|before| before == bit) {
            return;
        }
        if let Some(changed) = self.changed.replace(time) {
            let took = time.saturating_sub(changed);
            self.changes += 1;
            self.least = Some(self.least.map_or(took, |least| least.min(took)));
            self.sum = self.sum.saturating_add(took);
        }
    }

    /// Returns the number of packets with a short header.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns minimum and mean round trip in nanoseconds. `None` if the bit is not used: it stays the same, or changes
    /// with every other packet, as set by ends that hide the round trip.
    pub fn round_trip(&self) -> Option<(i64, i64)> {
        let random = self.changes * 3 > self.packets;
        let least = self.least.filter(|_| self.changes >= FEW && !random)?;
        Some((least, self.sum / self.changes as i64))
    }
}

/// A QUIC connection: a pair of addresses between which long headers passed.
#[derive(Clone, Debug)]
pub struct QuicFlow {
    /// Addresses.
    pub ends: [std::net::SocketAddr; 2],
    /// Spin bit of each sender.
    pub spins: [Spin; 2],
}

impl QuicFlow {
    /// Creates a connection that begins with this packet.
    pub fn new(head: &Head<'_>) -> Self {
        Self { ends: [head.route.source, head.route.destination], spins: [Spin::default(), Spin::default()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_that_spins_tells_the_round_trip_and_one_that_is_hidden_does_not() {
        let (mut spins, mut hidden, mut unused) = (Spin::default(), Spin::default(), Spin::default());
        let mut state = 1u32;
        for packet in 0..1000_i64 {
            // A packet per millisecond, a round trip of 20 ms.
            spins.take(packet / 20 % 2 == 0, packet * 1_000_000);
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            hidden.take(state >> 31 == 1, packet * 1_000_000);
            unused.take(false, packet * 1_000_000);
        }
        assert_eq!(spins.round_trip(), Some((20_000_000, 20_000_000)));
        assert_eq!((hidden.round_trip(), unused.round_trip()), (None, None));
    }

    #[test]
    fn forms_of_datagrams() {
        assert_eq!(Form::of(&[0xc0, 0, 0, 0, 1]), Some(Form::Long));
        assert_eq!(Form::of(&[0xc0, 0, 0, 0, 9]), None);
        assert_eq!(Form::of(&[0x60]), Some(Form::Short(true)));
        assert_eq!(Form::of(&[0x40]), Some(Form::Short(false)));
        assert_eq!((Form::of(&[]), Form::of(&[0x20]), Form::of(&[0xc0, 0])), (None, None, None));
    }
}
